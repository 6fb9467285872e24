"""`phaseledger verify`: recomputed without the planner's libraries, and compared with what is declared."""

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from pipelines.cli.verify_declared import compared, read_declared
from pipelines.frames.canonical import canonical_bytes, digest
from pipelines.oracle import verify
from tests.cli.small_receipt import Json, Small, call, small
from tests.conftest import Command


def test_verify_imports_neither_polars_nor_dagster_nor_pandera(receipt_directory: Path, project: Path) -> None:
    script = (
        "import sys\n"
        "from pipelines.cli import command\n"
        "code = command.main(sys.argv[1:], standalone_mode=False)\n"
        "heavy = {'polars', 'dagster', 'pandera'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "verify", str(receipt_directory / "receipt.json")],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["moderate-chat", "bursty-documents", "slow-link", "overloaded"])
def test_every_bundled_receipt_is_verified_by_the_standard_library_alone(
    name: str, receipt_directories: dict[str, Path], project: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "pipelines/oracle", str(receipt_directories[name] / "receipt.json")],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_receipt_fails_with_three_and_names_the_value(
    phaseledger: Command, receipt_directory: Path, tmp_path: Path
) -> None:
    receipt = json.loads((receipt_directory / "receipt.json").read_text())
    receipt["scenarios"][0]["bounds"]["nominal"]["stall_s"] = 0.001
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    run = phaseledger("verify", tmp_path / "receipt.json", "--matrix", receipt_directory / "matrix.csv")
    assert run.code == 3
    assert "stall_s" in run.out + run.err


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"kind": "Cohort"}'])
def test_what_is_not_a_receipt_is_bad_input(content: str, phaseledger: Command, tmp_path: Path) -> None:
    (tmp_path / "receipt.json").write_text(content)
    run = phaseledger("verify", tmp_path / "receipt.json")
    assert run.code == 2
    assert "Traceback" not in run.err


def test_json_says_what_was_compared(phaseledger: Command, receipt_directory: Path) -> None:
    run = phaseledger("verify", receipt_directory / "receipt.json", "--format", "json")
    said = json.loads(run.out)
    assert run.code == 0
    assert said["passed"] is True
    assert said["disagreements"] == []
    assert sum(said["checked"].values()) > 10_000


def test_a_pipe_is_not_read_for_ever(phaseledger: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "receipt.json")
    assert phaseledger("verify", tmp_path / "receipt.json").code == 2


@pytest.mark.parametrize(
    ("path", "value"),
    [(("workload", "duration_s"), 1e308), (("workload", "buckets", 1, "output_tokens_m2"), 1e308)],
)
def test_figures_too_large_to_compute_with_are_rejected(
    path: tuple[str | int, ...], value: float, receipt_directory: Path, tmp_path: Path
) -> None:
    receipt = json.loads((receipt_directory / "receipt.json").read_text(), parse_int=float)
    place = receipt
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    receipt["seal"] = digest({name: member for name, member in receipt.items() if name != "seal"})
    (tmp_path / "receipt.json").write_bytes(canonical_bytes(receipt))
    assert not verify(tmp_path / "receipt.json", receipt_directory / "matrix.csv").passed


@pytest.fixture
def made(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    """A small cohort with the receipt of its plan, in a project that is the current directory."""
    made = small(project, tmp_path / "project")
    monkeypatch.chdir(made.project)
    return made


def against_small(*arguments: str | Path) -> Json:
    """What `verify --cohort small` says as JSON, which its exit code has to agree with."""
    run = call("verify", "out", "--cohort", "small", *arguments, "--format", "json")
    said: Json = json.loads(run.stdout)
    assert run.exit_code == (0 if said["passed"] else 3), run.output
    return said


def differing(*arguments: str | Path) -> dict[str, tuple[object, object]]:
    """Where the receipt and the declarations differ: what the receipt has, and what is declared."""
    rows = against_small(*arguments)["declarations"]["disagreements"]
    assert rows
    return {row["where"]: (row["receipt"], row["declared"]) for row in rows}


def test_a_signature_is_checked_without_polars_and_dagster_too(made: Small) -> None:
    call("keygen", "release.key")
    call("sign", "out", "--key", "release.key")
    script = (
        "import sys\n"
        "from pipelines.cli import command\n"
        "code = command.main(sys.argv[1:], standalone_mode=False)\n"
        "heavy = {'polars', 'dagster', 'pandera', 'numpy'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "verify", str(made.directory), "--key", "release.key.pub"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "): valid" in done.stdout


def test_a_receipt_of_what_is_declared_differs_in_nothing(made: Small) -> None:
    said = against_small()
    assert said["passed"] is True
    assert said["disagreements"] == []
    assert said["declarations"]["disagreements"] == []
    assert (said["declarations"]["cohort"], said["declarations"]["rules"]) == ("small", "rules")
    inputs = json.loads(made.receipt.read_bytes())["inputs"]
    assert said["declarations"]["compared"] > 9 * len(inputs)
    assert not any("requests were not given" in note for note in said["notes"])
    run = call("verify", "out", "--cohort", "small", "--rules", "rules")
    count = said["declarations"]["compared"]
    assert run.stdout.endswith(f"\ndeclarations: none differs from small ({count} values compared)\n")


def spoilt(value: object, where: str, found: list[str]) -> object:
    """``value`` with another one in every place but those that name a row; ``found`` are the places."""
    if isinstance(value, dict):
        return {
            name: inner if name in ("id", "path") else spoilt(inner, f"{where}.{name}" if where else name, found)
            for name, inner in value.items()
        }
    if isinstance(value, list) and value:
        names = [row.get("id", row.get("path")) if isinstance(row, dict) else None for row in value]
        rows = zip(value, names, itertools.count(), strict=False)
        return [spoilt(row, f"{where}[{place if name is None else name}]", found) for row, name, place in rows]
    found.append(where)
    return f"{value} spoilt"


def test_everything_that_a_receipt_has_of_its_declarations_is_compared(made: Small) -> None:
    receipt = json.loads(made.receipt.read_bytes())
    declared = {name: receipt[name] for name in ("fingerprint", "cohort", "as_of", "inputs", "workload", "rules")}
    for figures in ("buckets", "strata", "outputs", "windows"):
        del declared["workload"][figures]
    places: list[str] = []
    other = receipt | {name: spoilt(value, name, places) for name, value in declared.items()}
    found = compared(other, read_declared("small", None), is_whole=True)
    assert sorted(row["where"] for row in found.disagreements) == sorted(places)
    assert {"workload.requests_sha256", "workload.steps", "rules.gates[ttft_worst].limit", "as_of"} <= set(places)
    assert {row["path"] for row in receipt["inputs"]} == {
        place.split("[")[1].split("]")[0] for place in places if place.startswith("inputs[")
    }


def test_an_honest_plan_of_other_inputs_verifies_and_is_not_what_was_declared(made: Small) -> None:
    text = (made.cohort / "cohort.yaml").read_text()
    made.edit(made.cohort / "cohort.yaml", "{value: 11800, low: 10400,", "{value: 11900, low: 10400,")
    made.edit(made.cohort / "cohort.yaml", "title: Moderate chat", "title: Fast chat")
    made.planned()
    (made.cohort / "cohort.yaml").write_text(text)
    assert call("verify", "out").exit_code == 0
    where = "inputs[service.prefill.tokens_per_second].value"
    found = differing()
    assert found.pop("fingerprint")[0] == json.loads(made.receipt.read_bytes())["fingerprint"]
    assert found == {
        "cohort.title": ("Fast chat on four workers", "Moderate chat on four workers"),
        where: (11900, 11800),
    }
    run = call("verify", "out", "--cohort", "small")
    assert run.exit_code == 3
    assert run.stdout.startswith("out/receipt.json: verified (")
    assert f"\n{where}: the receipt has 11900, small declares 11800\n" in run.stdout


def test_an_input_that_only_one_side_has_is_named_whole(made: Small) -> None:
    price = "  gpu_hour_price: {value: 2.5, provenance: supplied}\n"
    made.edit(made.cohort / "cohort.yaml", "  gpus: 4\n", f"  gpus: 4\n{price}")
    found = differing()["inputs[inventory.gpu_hour_price]"]
    assert found[0] is None
    assert isinstance(found[1], dict)
    assert found[1]["value"] == 2.5
    assert "the receipt has nothing, small declares {" in call("verify", "out", "--cohort", "small").stdout


def test_another_log_is_found_by_the_digest_and_by_recomputing_the_workload(made: Small) -> None:
    log = made.cohort / "requests.csv"
    made.edit(log, "1420,180", "1420,181")
    said = against_small()
    assert [row["where"] for row in said["declarations"]["disagreements"]] == [
        "fingerprint",
        "workload.requests_sha256",
    ]
    assert "workload.requests_sha256" in {row["where"] for row in said["disagreements"]}
    assert any(row["where"].startswith("workload.buckets[") for row in said["disagreements"])


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("    note: written by hand\n", "    note: from the gateway\n", "workload.note"),
        ("[512, 2048]", "[512, 1024]", "workload.bucket_edges_tokens[1]"),
        ("    note: written by hand\n", "    on_invalid: drop\n", "workload.note"),
        ("  name: moderate-chat\n", "  name: other-chat\n", "cohort.name"),
    ],
)
def test_what_is_said_of_the_log_and_the_cohort_is_compared(old: str, new: str, where: str, made: Small) -> None:
    made.edit(made.cohort / "cohort.yaml", old, new)
    assert where in differing()


def test_rules_are_compared_gate_by_gate_and_those_beside_the_cohort_count(made: Small) -> None:
    made.edit(made.rules / "latency.yaml", "limit: {objective: tpot}", "limit: 30 ms")
    found = differing()
    assert found["rules.gates[tpot_worst].limit"] == (0.04, 0.03)
    assert found["rules.gates[tpot_worst].limit_source"] == ("objectives.tpot", "declared")
    assert "rules.fingerprint" in found
    assert "fingerprint" not in found
    shutil.copytree(made.rules, made.project / "old")
    made.edit(made.project / "old" / "latency.yaml", "limit: 30 ms", "limit: {objective: tpot}")
    assert against_small("--rules", "old")["passed"] is True
    (made.cohort / "rules").mkdir()
    (made.cohort / "rules" / "own.yaml").write_text(OWN_GATE)
    assert differing("--rules", "old")["rules.gates[one_gpu]"][0] is None


OWN_GATE = """\
apiVersion: phaseledger/v1
kind: Capacity
metadata: {name: own, owner: team, description: A gate of this cohort.}
gates:
  - {id: one_gpu, metric: gpus, bound: nominal, op: lte, limit: 4, severity: error, blocking: true, rationale: Four are there.}
"""

EXCEPTION = """\
apiVersion: phaseledger/v1
kind: Exceptions
metadata: {name: exceptions, owner: team, description: What is waived.}
exceptions:
  - {gate: tpot_worst, reason: until the upgrade, owner: team, expires: 2026-12-31}
"""


def test_the_day_is_that_of_the_receipt(made: Small) -> None:
    (made.rules / "exceptions.yaml").write_text(EXCEPTION)
    made.planned(date(2026, 11, 30))
    assert against_small()["passed"] is True
    made.planned(date(2027, 1, 1))
    assert json.loads(made.receipt.read_bytes())["rules"]["exceptions"][0]["standing"] == "expired"
    assert against_small()["passed"] is True
    (made.rules / "exceptions.yaml").unlink()
    assert differing()["as_of"] == ("2027-01-01", None)


def test_a_receipt_without_a_day_is_not_one_of_rules_that_read_a_date(made: Small) -> None:
    (made.rules / "exceptions.yaml").write_text(EXCEPTION)
    assert differing()["as_of"] == (None, "a date, which the rules read")


def test_bad_declarations_are_reported_as_plan_reports_them(made: Small) -> None:
    made.edit(made.cohort / "cohort.yaml", "ttft: 800 ms", "ttft: 800")
    run = call("verify", "out", "--cohort", "small", "--format", "json")
    assert run.exit_code == 2
    planned = call("plan", "small", "--format", "json")
    assert (run.stdout, run.stderr) == (planned.stdout, planned.stderr)
    assert "cohorts/small/cohort.yaml:" in run.stderr


def test_options_that_say_two_things_or_nothing_are_usage_errors(made: Small) -> None:
    for arguments in (["--cohort", "small", "--requests", "requests.csv"], ["--rules", "rules"]):
        run = call("verify", "out", *arguments)
        assert run.exit_code == 2
        assert run.stderr.startswith("Usage: ")


def test_a_name_in_a_receipt_does_nothing_to_a_terminal(made: Small) -> None:
    receipt = json.loads(made.receipt.read_bytes())
    receipt["inputs"][0]["path"] = "\x1b[2Jwiped\nverified"
    lines = compared(receipt, read_declared("small", None), is_whole=True).lines()
    assert any("[?[2Jwiped?verified]: the receipt has {" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def test_what_is_no_receipt_in_structure_is_not_compared(made: Small) -> None:
    made.forge(lambda receipt: receipt.pop("rules"))
    run = call("verify", "out", "--cohort", "small")
    assert run.exit_code == 3
    assert "declarations: not compared with small: this does not have the structure of a receipt" in run.stdout


def test_a_receipt_is_found_by_every_name_that_it_has(made: Small) -> None:
    digest_ = hashlib.sha256(made.receipt.read_bytes()).hexdigest()
    kept = made.project / "receipts" / "_store" / digest_
    shutil.copytree(made.directory, kept)
    (made.project / "receipts" / "chat").symlink_to(f"_store/{digest_}")
    for name in ("chat", digest_[:6], digest_, "receipts/chat", f"receipts/_store/{digest_}"):
        run = call("verify", name)
        assert run.exit_code == 0, run.output
        assert run.stdout.startswith(f"receipts/_store/{digest_}/receipt.json: verified (")
        assert call("explain", name).exit_code == 0
        assert "no topology of this receipt moves the cache" in call("transfer", "budget", name).stderr
    assert call("gates", digest_[:6]).exit_code in (0, 1)
    others = kept.parent / (digest_[:6] + "0" * 58)
    shutil.copytree(made.directory, others)
    for verb in (["verify"], ["explain"], ["gates"], ["transfer", "budget"]):
        for name, said in (
            (digest_[:6], f"{digest_[:6]}:1:1: begins the digests of "),
            ("0" * 63, "has a digest that begins so"),
            ("chatt", "chatt:1:1: "),
        ):
            run = call(*verb, name)
            assert run.exit_code == 2
            assert said in run.stderr


def test_a_cohort_whose_name_is_made_of_digits_is_planned_by_gates_and_not_looked_up(made: Small) -> None:
    made.cohort.rename(made.project / "cohorts" / "decade")
    made.edit(made.project / "cohorts" / "decade" / "cohort.yaml", "ttft: 800 ms", "ttft: 800")
    assert "cohorts/decade/cohort.yaml:" in call("gates", "decade").stderr  # read as a cohort: its problem is reported
