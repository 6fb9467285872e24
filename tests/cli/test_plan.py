"""`phaseledger plan`, as a person or a script calls it."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipelines.cli import command
from tests.conftest import Command, Planned

DECISIONS = {
    "moderate-chat": (0, "aggregated"),
    "bursty-documents": (0, "disaggregated"),
    "slow-link": (1, None),
    "overloaded": (1, None),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_each_bundled_cohort_shows_its_decision(name: str, planned: dict[str, Planned]) -> None:
    code, topology = DECISIONS[name]
    run = planned[name].run
    assert run.code == code, run.err
    assert json.loads((planned[name].directory / "receipt.json").read_text())["decision"]["topology"] == topology
    assert f"decision: {topology or 'no topology qualifies'}" in run.out


def test_every_topology_of_a_failed_plan_has_its_nearest_miss(planned: dict[str, Planned]) -> None:
    lines = [line for line in planned["overloaded"].run.out.splitlines() if line.startswith("rejected: ")]
    assert [line.split()[1] for line in lines] == ["aggregated", "chunked", "disaggregated"]
    assert all("nearest miss" in line and "ceiling" in line for line in lines)


def test_a_slow_link_is_rejected_for_its_transfers_alone(planned: dict[str, Planned]) -> None:
    receipt = json.loads((planned["slow-link"].directory / "receipt.json").read_text())
    rejected = {row["topology"]: [gate["gate"] for gate in row["failing"]] for row in receipt["rejected"]}
    assert rejected["disaggregated"] == ["transfer_reserve", "transfer_envelope"]
    assert rejected["aggregated"]
    assert rejected["chunked"]


def test_a_slow_link_made_fast_changes_the_decision(phaseledger: Command, project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "cohorts" / "slow-link", tmp_path / "cohort")
    text = (tmp_path / "cohort" / "cohort.yaml").read_text()
    for slow, fast in (
        ("25 Gbit/s", "400 Gbit/s"),
        ("2.8 GB/s", "32 GB/s"),
        ("2.2 GB/s", "24 GB/s"),
        ("3.125 GB/s", "50 GB/s"),
    ):
        assert slow in text
        text = text.replace(slow, fast)
    (tmp_path / "cohort" / "cohort.yaml").write_text(text)
    run = phaseledger("plan", tmp_path / "cohort", "--out", tmp_path / "out", "--format", "json")
    assert (run.code, json.loads(run.out)["topology"]) == (0, "disaggregated")


def test_json_is_one_object_with_decision_verdicts_headlines_and_paths(
    phaseledger: Command, project: Path, tmp_path: Path
) -> None:
    run = phaseledger("plan", "moderate-chat", "--out", tmp_path / "out", "--format", "json")
    said = json.loads(run.out)
    assert run.code == 0
    assert (said["outcome"], said["topology"], said["latency_label"]) == ("topology_chosen", "aggregated", "modeled")
    headline = {row["topology"]: row for row in said["topologies"]}["disaggregated"]
    wanted = (
        "ttft_worst_s",
        "tpot_worst_s",
        "stall_s",
        "goodput",
        "headroom",
        "dominant_queue",
        "transfer_envelope_share",
    )
    assert all(headline[name] is not None for name in wanted)
    assert set(headline["utilization"]) == {"prefill", "decode"}
    assert {row["verdict"] for row in said["verdicts"]} == {"pass"}
    assert Path(said["receipt"]).is_file()
    assert Path(said["matrix"]).is_file()
    assert said["values_compared"] > 1_000


def test_a_name_and_its_path_give_the_same_receipt(
    phaseledger: Command, planned: dict[str, Planned], tmp_path: Path
) -> None:
    run = phaseledger("plan", "moderate-chat", "--out", tmp_path / "out", "--quiet")
    assert run.code == 0
    assert run.err == ""
    for name in ("receipt.json", "matrix.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (planned["moderate-chat"].directory / name).read_bytes()


@pytest.mark.parametrize(("threads", "seed"), [("1", "0"), ("2", "12345")])
def test_threads_and_hash_seed_do_not_change_a_byte(
    threads: str, seed: str, phaseledger: Command, planned: dict[str, Planned], tmp_path: Path
) -> None:
    run = phaseledger(
        "plan", "bursty-documents", "--out", tmp_path / "out", POLARS_MAX_THREADS=threads, PYTHONHASHSEED=seed
    )
    assert run.code == 0
    for name in ("receipt.json", "matrix.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (planned["bursty-documents"].directory / name).read_bytes()


def test_progress_goes_to_standard_error_step_by_step(planned: dict[str, Planned]) -> None:
    steps = [line.split()[-1] for line in planned["moderate-chat"].run.err.splitlines()]
    assert steps[0] in ("cohort", "declared_rules")
    assert steps[-2:] == ["verified_receipt", "accepted"]
    assert (
        steps.index("workload") < steps.index("evaluation/chunked") < steps.index("decision") < steps.index("exports")
    )


def test_an_unknown_cohort_is_bad_input(phaseledger: Command, tmp_path: Path) -> None:
    run = phaseledger("plan", "no-such-cohort", cwd=tmp_path)
    assert run.code == 2
    assert "no-such-cohort" in run.err
    assert "Traceback" not in run.err
    assert list(tmp_path.iterdir()) == []


def test_bad_input_writes_nothing_and_lists_all_problems_of_all_files(
    phaseledger: Command, project: Path, tmp_path: Path
) -> None:
    shutil.copytree(project / "cohorts" / "moderate-chat", tmp_path / "cohort")
    shutil.copytree(project / "rules", tmp_path / "rules", ignore=shutil.ignore_patterns("tests"))
    cohort, rule = tmp_path / "cohort" / "cohort.yaml", tmp_path / "rules" / "latency.yaml"
    cohort.write_text(cohort.read_text().replace("ttft: 600 ms", "ttft: 600").replace("gpus: 4", "gpus: four"))
    rule.write_text(rule.read_text().replace("metric: stall", "metric: stal"))
    home = tmp_path / "home"
    run = phaseledger(
        "plan", "cohort", "--rules", "rules", "--out", "out", "--format", "json", cwd=tmp_path, DAGSTER_HOME=str(home)
    )
    assert run.code == 2
    assert "Traceback" not in run.err
    problems = json.loads(run.out)["problems"]
    assert {(Path(row["file"]).name, row["path"]) for row in problems} == {
        ("cohort.yaml", "objectives.ttft"),
        ("cohort.yaml", "inventory.gpus"),
        ("latency.yaml", "gates[2].metric"),
    }
    assert run.err.splitlines()[-1] == "3 problems; nothing was run or written"
    assert not (tmp_path / "out").exists()
    assert not home.exists()


def test_a_faulty_trace_is_bad_input_and_keeps_the_old_receipt(
    phaseledger: Command, project: Path, tmp_path: Path
) -> None:
    shutil.copytree(project / "cohorts" / "moderate-chat", tmp_path / "cohort")
    out = tmp_path / "out"
    out.mkdir()
    (out / "receipt.json").write_text("old")
    with (tmp_path / "cohort" / "requests.csv").open("a") as log:
        log.write("2026-03-02 09:59:00.000000,-5,7\n")
    run = phaseledger("plan", "cohort", "--out", "out", cwd=tmp_path)
    assert run.code == 2
    assert "cohort/requests.csv" in run.err
    assert "Traceback" not in run.err
    assert [path.read_text() for path in out.iterdir()] == ["old"]


def test_an_export_directory_that_is_a_file_is_bad_input(phaseledger: Command, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    run = phaseledger("plan", "moderate-chat", "--out", tmp_path / "out")
    assert run.code == 2
    assert "--out" in run.err
    assert (tmp_path / "out").read_text() == "a file"


def test_rules_of_another_directory_judge(phaseledger: Command, project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "rules", tmp_path / "rules", ignore=shutil.ignore_patterns("tests"))
    rule = tmp_path / "rules" / "latency.yaml"
    rule.write_text(rule.read_text().replace("limit: {objective: tpot}", "limit: 1 ms"))
    run = phaseledger(
        "plan", "moderate-chat", "--rules", tmp_path / "rules", "--out", tmp_path / "out", "--format", "json"
    )
    assert run.code == 1
    assert json.loads(run.out)["topology"] is None


@pytest.mark.parametrize("verb", ["plan", "verify", "cohorts", "ui"])
def test_every_verb_explains_itself(verb: str, phaseledger: Command) -> None:
    run = phaseledger(verb, "--help")
    assert run.code == 0
    assert run.out.startswith(f"Usage: phaseledger {verb}")


def test_the_real_azure_trace_plans(phaseledger: Command, shared: Path, project: Path, tmp_path: Path) -> None:
    run = phaseledger(
        "plan", project / "tests" / "cohorts" / "azure-code-2023", "--out", tmp_path / "out", "--format", "json"
    )
    assert run.code in (0, 1), run.err
    workload = json.loads((tmp_path / "out" / "receipt.json").read_text())["workload"]
    assert workload["requests"] == 8_819
    assert workload["duration_s"] == pytest.approx(3_435.948, abs=0.001)
    assert workload["buckets"][0]["rate_rps"] == pytest.approx(2.5664, abs=0.0001)


BAD = Path(__file__).resolve().parents[1] / "bad" / "cohorts"


@pytest.mark.parametrize("name", sorted({path.stem for path in BAD.glob("*.yaml")}))
def test_every_malformed_cohort_exits_with_two_and_writes_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(BAD)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    run = CliRunner().invoke(command, ["plan", f"{name}.yaml", "--out", str(tmp_path / "out")])
    assert run.exit_code == 2, run.output
    expected = (BAD / f"{name}.expected").read_text(encoding="utf-8")
    assert run.stderr.startswith(expected)
    assert list(tmp_path.iterdir()) == []


def test_text_and_identifiers_of_a_trace_go_nowhere(
    phaseledger: Command, project: Path, tmp_path: Path, dagster_home: Path
) -> None:
    canary = "CANARY-7f3a"
    shutil.copytree(project / "cohorts" / "moderate-chat", tmp_path / "cohort")
    log = tmp_path / "cohort" / "requests.csv"
    header, *rows = log.read_text().splitlines()
    widened = [f"{header},user,prompt", *(f'{row},{canary}-{i},"{canary}, said {i}"' for i, row in enumerate(rows))]
    log.write_text("\n".join(widened))
    cohort = tmp_path / "cohort" / "cohort.yaml"
    cohort.write_text(cohort.read_text().replace("name: moderate-chat", "name: with-text", 1))
    run = phaseledger("plan", tmp_path / "cohort", "--out", tmp_path / "out")
    assert run.code == 0, run.err
    assert canary not in run.out + run.err
    written = [path for place in (tmp_path / "out", dagster_home) for path in place.rglob("*") if path.is_file()]
    assert len(written) > 10
    assert not [path for path in written if canary.encode() in path.read_bytes()]


@pytest.mark.parametrize("unusable", ["a file", "a garbled database"])
def test_an_instance_that_cannot_be_opened_is_bad_input(unusable: str, phaseledger: Command, tmp_path: Path) -> None:
    home = tmp_path / "home"
    if unusable == "a file":
        home.write_text("not a directory")
    else:
        (home / "history").mkdir(parents=True)
        (home / "history" / "runs.db").write_text("not a database")
    run = phaseledger("plan", "moderate-chat", "--out", tmp_path / "out", DAGSTER_HOME=str(home))
    assert run.code == 2
    assert run.err.startswith(f"{home}:1:1: the Dagster instance cannot be opened")
    assert "Traceback" not in run.err
    assert not (tmp_path / "out").exists()


def test_an_interrupted_plan_says_so_and_leaves_the_old_receipt(dagster_home: Path, tmp_path: Path) -> None:
    (tmp_path / "receipt.json").write_text("old")
    command_line = [sys.executable, "-m", "pipelines", "plan", "moderate-chat", "--out", str(tmp_path)]
    environment = {**os.environ, "DAGSTER_HOME": str(dagster_home)}
    with subprocess.Popen(command_line, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert "cohort" in first
    assert process.returncode == 130
    assert rest.splitlines()[-1].startswith("interrupted")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_two_requests_are_too_few_to_plan_for(phaseledger: Command, project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "cohorts" / "moderate-chat", tmp_path / "cohort")
    log = tmp_path / "cohort" / "requests.csv"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:3]))
    run = phaseledger("plan", "cohort", "--out", "out", cwd=tmp_path)
    assert run.code == 2
    assert run.err.startswith("cohort/requests.csv:1:1: ")
    assert "2 requests have no variation of their arrivals; expected 3 requests or more" in run.err
    assert not (tmp_path / "out").exists()


def test_plans_of_one_name_with_different_rules_do_not_mix(phaseledger: Command, project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "rules", tmp_path / "rules", ignore=shutil.ignore_patterns("tests"))
    rule = tmp_path / "rules" / "goodput.yaml"
    rule.write_text(rule.read_text().replace("limit: {objective: attainment}", "limit: 0.5"))

    def limit(rules: Path) -> float:
        out = tmp_path / f"out-{rules.parent.name}"
        assert phaseledger("plan", "moderate-chat", "--rules", rules, "--out", out).code == 0
        gates = json.loads((out / "receipt.json").read_text())["rules"]["gates"]
        return next(gate["limit"] for gate in gates if gate["id"] == "goodput")

    with ThreadPoolExecutor(max_workers=2) as pool:
        assert list(pool.map(limit, [project / "rules", tmp_path / "rules"])) == [0.95, 0.5]


def test_a_cohort_without_a_network_plans_its_single_pool(phaseledger: Command, project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "cohorts" / "moderate-chat", tmp_path / "cohort")
    cohort = tmp_path / "cohort" / "cohort.yaml"
    text = (
        cohort.read_text()
        .replace("  disaggregated: {}\n", "")
        .replace("  ttft_growth: 60 ms\n  transfer_reserve: 0.75\n", "")
    )
    start, end = text.index("network:"), text.index("objectives:")
    cohort.write_text(text[:start] + text[end:])
    run = phaseledger("plan", tmp_path / "cohort", "--out", tmp_path / "out")
    assert run.code == 0, run.err
    assert "decision: aggregated" in run.out


def test_figures_with_many_digits_still_verify(phaseledger: Command, project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "cohorts" / "moderate-chat", tmp_path / "cohort")
    cohort = tmp_path / "cohort" / "cohort.yaml"
    changes = {
        "registration: {value: 1 ms, high: 2 ms": "registration: {value: 0.1 ms, high: 7 ms",
        "layout_factor: {value: 1.0, high: 1.02": "layout_factor: {value: 1.0123456, high: 1.06",
        "ttft: 600 ms": "ttft: 600.123456789012 ms",
        "chunk_tokens: [512, 1024, 2048]": "chunk_tokens: [512, 1000000000]",
    }
    text = cohort.read_text()
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    cohort.write_text(text)
    assert phaseledger("plan", tmp_path / "cohort", "--out", tmp_path / "out").code == 0
