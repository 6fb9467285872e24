"""`phaseledger replay`, as a person or a script calls it."""

import csv
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.cli.replay_facts import requests_needed
from pipelines.frames.evaluation import LANES
from pipelines.frames.replay_views import ReplayedRequests, ReplayedWindows
from pipelines.frames.replays import COUNTS, FIGURES
from tests.cli.small_receipt import call

Json = dict[str, Any]

PAIR = "disaggregated/p2/d1"


@pytest.fixture
def cohort(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cohort.yaml of a project of its own: eight requests, four GPUs, three topologies."""
    place = tmp_path / "cohorts" / "small"
    place.mkdir(parents=True)
    for name in ("cohort.yaml", "requests.csv"):
        shutil.copyfile(project / "tests" / "declarations" / "good" / name, place / name)
    shutil.copytree(project / "rules", tmp_path / "rules", ignore=shutil.ignore_patterns("tests"))
    (tmp_path / "workspace.yaml").write_text("load_from: []\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return place / "cohort.yaml"


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new), encoding="utf-8")


def facts(*arguments: str | Path, code: int = 0) -> Json:
    run = call("replay", *arguments, "--format", "json")
    assert run.exit_code == code, run.output
    found: Json = json.loads(run.stdout)
    return found


def text(*arguments: str | Path, code: int = 0) -> str:
    run = call("replay", *arguments)
    assert run.exit_code == code, run.output
    return run.stdout


def problems(*arguments: str | Path) -> list[str]:
    run = call("replay", *arguments)
    assert run.exit_code == 2, run.output
    assert run.stdout == ""
    *lines, last = run.stderr.splitlines()
    assert re.fullmatch(r"\d+ problems?; nothing was run or written", last)
    return lines


def first_lines(every: Json) -> list[tuple[bool, float, int]]:
    return [(row["meets_target"], row["operating_parts"], row["gpus"]) for row in every["scenarios"]]


def test_the_smallest_topology_that_meets_the_target_is_named(cohort: Path) -> None:
    found, every = facts("small"), facts("small", "--all", "--top", "200")
    assert found["smallest"] == every["smallest"] == every["scenarios"][0]["scenario"]
    assert found["target"] == 0.95
    meeting = [row for row in every["scenarios"] if row["figures"]["replayed_goodput"] >= 0.95]
    assert meeting
    best = min(meeting, key=lambda row: (row["operating_parts"], row["gpus"], -row["figures"]["replayed_goodput"]))
    assert found["smallest"] == best["scenario"]
    assert found["searched"]["looked_at"] < every["searched"]["looked_at"] == every["searched"]["scenarios"]
    assert f"it is {found['smallest']} with " in text("small")


def test_the_list_has_what_meets_the_target_before_what_does_not(cohort: Path) -> None:
    every = facts("small", "--all", "--top", "200")
    assert len(every["scenarios"]) == every["searched"]["replayed"]
    stands = first_lines(every)
    assert [one[0] for one in stands] == sorted((one[0] for one in stands), reverse=True)
    sizes = [one[1:] for one in stands if one[0]]
    assert sizes == sorted(sizes)
    short = [row["requests_short"] for row in every["scenarios"] if not row["meets_target"]]
    assert short == sorted(short)


def test_the_list_has_one_of_each_topology_at_least(cohort: Path) -> None:
    found = facts("small", "--all", "--top", "1")
    assert {row["topology"] for row in found["scenarios"]} == {"aggregated", "chunked", "disaggregated"}
    assert set(found["best"].values()) == {row["scenario"] for row in found["scenarios"]}


def test_none_that_meets_it_is_exit_code_1_with_the_best_of_each_and_how_far_it_is_off(cohort: Path) -> None:
    edit(cohort, "stall: 400 ms", "stall: 12 ms")  # no decode step is as short as that: one request has a single token
    found, shown = facts("small", code=1), text("small", code=1)
    assert found["smallest"] is None
    assert found["searched"]["looked_at"] == found["searched"]["scenarios"]
    assert (
        set(found["best"])
        == {row["topology"] for row in found["scenarios"]}
        == {"aggregated", "chunked", "disaggregated"}
    )
    assert {(row["counts"]["met"], row["requests_short"]) for row in found["scenarios"]} == {(1, 7)}
    assert "no scenario meets the target of 95 %; the best of each topology is" in shown
    assert (
        "12.5 % of the requests meet all objectives; 82.5 percentage points off, 7 requests short of the target"
        in " ".join(shown.split())
    )


def test_what_the_closed_forms_refuse_is_counted_and_not_replayed(project: Path) -> None:
    found = facts(project / "cohorts" / "overloaded", "--rules", project / "rules", code=1)
    assert found["scenarios"] == []
    assert found["searched"]["refused"] == found["searched"]["scenarios"] == found["searched"]["looked_at"] > 0
    assert "refused by the closed forms" in text(
        project / "cohorts" / "overloaded", "--rules", project / "rules", code=1
    )


def test_the_rules_say_what_is_smaller(cohort: Path) -> None:
    usual = facts("small", "--all", "--top", "200")
    edit(
        Path("rules/decision.yaml"),
        "prefer: [operating_parts, gpus, margin]",
        "prefer: [margin, gpus, operating_parts]",
    )
    found = facts("small")
    assert found["preferred_by"] == ["replayed_goodput", "gpus", "operating_parts"]
    most = max(row["figures"]["replayed_goodput"] for row in usual["scenarios"])
    (chosen,) = [row for row in found["scenarios"] if row["scenario"] == found["smallest"]]
    assert chosen["figures"]["replayed_goodput"] == most
    shutil.copytree("rules", "other")
    edit(
        Path("other/decision.yaml"),
        "prefer: [margin, gpus, operating_parts]",
        "prefer: [gpus, margin, operating_parts]",
    )
    assert facts("small", "--rules", "other")["preferred_by"] == ["gpus", "replayed_goodput", "operating_parts"]


def test_more_than_a_thousand_scenarios_are_no_limit(cohort: Path) -> None:
    edit(cohort, "  gpus: 4\n", "  gpus: 60\n")
    edit(
        Path("rules/goodput.yaml"),
        "    metric: goodput\n",
        "    metric: replayed_goodput\n",
    )
    found = facts("small", "--all", "--top", "3")
    assert found["searched"]["scenarios"] == found["searched"]["looked_at"] == 60 * 4 + 59 * 60 // 2


def test_the_conservative_bound_can_be_asked_for(cohort: Path) -> None:
    nominal, hurtful = facts("small", "--scenario", PAIR), facts("small", "--scenario", PAIR, "--bound", "conservative")
    assert (nominal["bound"], hurtful["bound"]) == ("nominal", "conservative")
    means = [of["scenarios"][0]["figures"]["replayed_ttft_mean_s"] for of in (nominal, hurtful)]
    assert means[0] < means[1]
    assert "under the conservative bound" in text("small", "--scenario", PAIR, "--bound", "conservative")


@pytest.mark.parametrize("written", ["0.5", "50 %", "50%"])
def test_a_target_is_a_share_or_in_per_cent(written: str, cohort: Path) -> None:
    assert facts("small", "--target", written)["target"] == 0.5


@pytest.mark.parametrize(
    ("written", "said"), [("95", "write 0.95"), ("0", "is zero"), ("much", "not a ratio"), ("nan", "")]
)
def test_another_target_is_bad_input(written: str, said: str, cohort: Path) -> None:
    run = call("replay", "small", "--target", written)
    assert run.exit_code == 2
    assert "Invalid value for '--target'" in run.stderr
    assert said in run.stderr


@pytest.mark.parametrize(
    ("target", "requests"), [(0.95, 8), (0.951, 1000), (1 / 3, 3), (1.0, 7), (1e-9, 5), (0.95, 20)]
)
def test_the_requests_that_a_target_needs_are_the_fewest(target: float, requests: int) -> None:
    fewest = requests_needed(target, requests)
    shares = [float(f"{count / requests:.9e}") >= target for count in range(requests + 1)]
    assert shares.index(True) == fewest


def test_a_named_scenario_is_said_in_full_and_every_figure_is_modeled(cohort: Path) -> None:
    shown, found = text("small", "--scenario", PAIR), facts("small", "--scenario", PAIR)
    (row,) = found["scenarios"]
    assert found["latency_label"] == "modeled"
    assert set(row["figures"]) == set(FIGURES)
    assert set(COUNTS) <= set(row["counts"])
    assert [pool["pool"] for pool in row["pools"]] == ["prefill", "decode"]
    assert set(row["lane_means"]) == set(LANES)
    assert "every figure is modeled, not measured" in shown
    for said in ("goodput", "mean TTFT", "stall", "prefill pool", "links", "KV memory", "remaining generation", "E2E"):
        assert said in shown
    assert not re.search(r"\bp(50|9\d)\b|percentile|quantile|median", shown)
    assert "windows" not in row


def test_scenarios_come_in_the_order_in_which_they_are_named_each_once(cohort: Path) -> None:
    names = [PAIR, "aggregated/n2", "chunked/n4/c512"]
    found = facts("small", *(word for name in [*names, PAIR] for word in ("--scenario", name)))
    assert [row["scenario"] for row in found["scenarios"]] == names


def test_windows_are_a_table_and_a_list(project: Path) -> None:
    asked = (project / "cohorts" / "moderate-chat", "--scenario", "disaggregated/p1/d1", "--windows")
    shown, (row,) = text(*asked), facts(*asked)["scenarios"]
    assert list(row["windows"][0]) == list(ReplayedWindows.to_schema().columns)
    assert [one["minute"] for one in row["windows"]] == list(range(len(row["windows"])))
    lines = shown.splitlines()
    head = next(line for line in lines if "above ceiling" in line and "minute" in line and "requests" in line)
    assert head.split() == ["minute", "requests", "met", "goodput", "prefill", "decode", "link", "above", "ceiling"]
    assert len(lines) - lines.index(head) - 1 == len(row["windows"])
    assert sum(one["met"] for one in row["windows"]) == row["counts"]["met"]


def test_requests_are_written_as_csv_with_a_label(cohort: Path) -> None:
    run = call("replay", "small", "--scenario", PAIR, "--scenario", "aggregated/n2", "--requests", "out.csv")
    assert run.exit_code == 0, run.output
    assert "out.csv: 16 rows, times modeled" in run.stdout
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert list(rows[0]) == ["scenario", "bound", *ReplayedRequests.to_schema().columns, "latency_label"]
    assert {row["latency_label"] for row in rows} == {"modeled"}
    assert [row["scenario"] for row in rows] == [PAIR] * 8 + ["aggregated/n2"] * 8
    assert [int(row["request"]) for row in rows[:8]] == list(range(8))
    assert [row["output_tokens"] for row in rows if row["tpot_s"] == ""] == ["1", "1"]
    for row in rows:
        assert sum(float(row[name]) for name in LANES) == pytest.approx(float(row["e2e_s"]), rel=1e-12)
    arrivals = [int(row["arrival_ns"]) for row in rows[:8]]
    assert all(earlier <= later for earlier, later in pairwise(arrivals))


def test_parquet_has_the_same_rows(cohort: Path) -> None:
    for name in ("out.csv", "out.parquet"):
        assert call("replay", "small", "--scenario", PAIR, "--requests", name).exit_code == 0
    assert pl.read_parquet("out.parquet").equals(pl.read_csv("out.csv"), null_equal=True)


def test_with_json_the_file_is_named_in_it_and_nothing_else_is_on_standard_output(cohort: Path) -> None:
    assert facts("small", "--scenario", PAIR, "--requests", "out.csv")["requests_file"] == "out.csv"


def test_a_file_that_is_there_is_kept_unless_it_may_be_overwritten(cohort: Path) -> None:
    Path("out.csv").write_text("mine")
    (line,) = problems("small", "--scenario", PAIR, "--requests", "out.csv")
    assert line == "out.csv:1:1: exists already; expected a new file (hint: --force overwrites it)"
    assert Path("out.csv").read_text() == "mine"
    assert call("replay", "small", "--scenario", PAIR, "--requests", "out.csv", "--force").exit_code == 0
    assert Path("out.csv").read_text() != "mine"
    log = str(cohort.parent / "requests.csv")
    (line,) = problems("small", "--scenario", PAIR, "--requests", log, "--force")
    assert "is the log itself" in line


def test_a_scenario_that_is_refused_says_why_and_no_file_is_written(project: Path, tmp_path: Path) -> None:
    asked = (project / "cohorts" / "moderate-chat", "--scenario", "aggregated/n1", "--scenario", "aggregated/n2")
    out = tmp_path / "out.csv"
    shown = text(*asked, "--requests", out, code=1)
    assert "not replayed: the closed forms refuse it (utilization of mixed" in shown
    assert "not written, since not all of them were replayed" in shown
    assert list(tmp_path.iterdir()) == []
    refused, replayed = facts(*asked, code=1)["scenarios"]
    assert (refused["reason"], refused["figures"], refused["refusal"].split()[0]) == ("refused", None, "utilization")
    assert replayed["reason"] is None


def test_unknown_scenarios_are_all_reported_with_the_nearest_names(cohort: Path) -> None:
    lines = problems(
        "small", "--scenario", "aggregatd/n2", "--scenario", "disaggregated/p4/d1", "--scenario", "chunked/n1/c9"
    )
    assert lines[0].startswith(
        "--scenario:1:1: aggregatd/n2: not the name of a scenario; expected one as in aggregated/n2"
    )
    assert "(hint: nearest: aggregated/n2" in lines[0]
    assert "chunked/n1/c9: the cohort has no chunk budget of 9 tokens" in lines[1]
    assert "disaggregated/p4/d1: needs 5 GPUs; expected at most the 4 of the inventory" in lines[2]


@pytest.mark.parametrize(
    ("declared", "path", "said"),
    [
        ("concurrency: {value: 4, provenance: supplied}", "requests.arrivals.concurrency", "a closed loop"),
        ("rate: {value: 3/s, provenance: supplied}", "requests.arrivals.rate", "a declared rate"),
    ],
)
def test_a_cohort_without_arrivals_of_its_own_is_refused_at_the_declaration(
    declared: str, path: str, said: str, cohort: Path
) -> None:
    edit(
        cohort,
        "  bucket_edges_tokens: [512, 2048]\n",
        f"  arrivals:\n    {declared}\n  bucket_edges_tokens: [512, 2048]\n",
    )
    line_of = cohort.read_text().splitlines().index(f"    {declared}") + 1
    (line,) = problems("small")
    assert line.startswith(f"cohorts/small/cohort.yaml:{line_of}:5: {path}: {said}")
    assert "no arrivals to replay; expected a log with arrivals of its own" in line
    assert (
        "(hint: leave requests.arrivals out to replay the log's own; requests.slice.scale_rate replays a log at" in line
    )
    run = call("replay", "small", "--format", "json")
    assert [one["path"] for one in json.loads(run.stdout)["problems"]] == [path]


def test_classes_have_no_arrivals_either(project: Path) -> None:
    (line,) = problems(project / "tests" / "declarations" / "good" / "classes.yaml", "--rules", project / "rules")
    assert "requests.arrivals.concurrency: a closed loop" in line
    assert line.endswith("(hint: declare requests.trace, a log of requests with their arrivals)")


def test_everything_that_is_wrong_is_said_at_once(cohort: Path) -> None:
    with (cohort.parent / "requests.csv").open("a") as log:
        log.write("2024-05-10 00:00:02.000000,0,1\n")
    edit(Path("rules/decision.yaml"), "prefer: [operating_parts, gpus, margin]", "prefer: [operating_parts, gpus]")
    lines = problems("small", "--scenario", PAIR, "--requests", "nowhere/out.csv")
    assert [line.split(":")[0] for line in lines] == [
        "cohorts/small/requests.csv",
        "nowhere/out.csv",
        "rules/decision.yaml",
    ]
    edit(cohort, "attainment: 0.95", "attainment: 95")
    lines = problems("small", "--scenario", PAIR, "--requests", "nowhere/out.csv")
    assert {line.split(":")[0] for line in lines} == {
        "cohorts/small/cohort.yaml",
        "cohorts/small/requests.csv",
        "nowhere/out.csv",
        "rules/decision.yaml",
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--windows"], "--windows is of a scenario"),
        (["--requests", "x.csv"], "--requests is of a scenario"),
        (["--top", "3"], "expected --all with it"),
        (["--scenario", PAIR, "--all"], "leave --scenario out"),
        (["--scenario", PAIR, "--force"], "expected --requests FILE with it"),
    ],
)
def test_options_that_contradict_each_other_are_bad_input(options: list[str], said: str, cohort: Path) -> None:
    run = call("replay", "small", *options)
    assert run.exit_code == 2
    assert said in run.stderr


def test_an_unknown_cohort_is_reported_as_everywhere(cohort: Path) -> None:
    (line,) = problems("smal")
    assert line == "smal:1:1: does not exist; expected a cohort (kind: Cohort) (hint: did you mean small?)"


def test_dagster_is_not_imported_and_the_same_call_prints_the_same(cohort: Path, project: Path) -> None:
    code = "import sys; from pipelines.__main__ import main; sys.argv = ['phaseledger', 'replay', 'small', '--format', 'json']"
    code += "\ntry: main()\nexcept SystemExit as end: assert not end.code, end.code"
    code += "\nassert 'dagster' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": str(project)}
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stderr == ""


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_shown_to_a_person_who_has_not_asked_for_quiet(quiet: bool, cohort: Path, project: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(project), "TERM": "xterm"}
    command = [sys.executable, "-m", "pipelines", "replay", "small", *(["--quiet"] if quiet else [])]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, check=False)
    os.close(theirs)
    try:
        said = os.read(ours, 1 << 16)
    except OSError:  # nothing was said, and the other end is closed
        said = b""
    os.close(ours)
    assert run.returncode == 0
    assert (b"paths replayed" in said) != quiet


def test_it_shows_examples_and_exit_codes() -> None:
    run = call("replay", "--help")
    assert run.exit_code == 0
    assert "Exit code 0:" in run.stdout
    assert "phaseledger replay moderate-chat" in run.stdout.split("Examples:")[1]
