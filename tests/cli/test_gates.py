"""``phaseledger gates``: what it reports is what the receipt holds, and a receipt that it cannot trust is refused."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pipelines.cli.run
from pipelines.cli.run import InterruptedRunError, VerificationFailedError
from pipelines.frames.canonical import digest
from pipelines.planning.reliance import TRACE
from tests.cli.gates_calls import (
    SAID,
    Json,
    gates,
    made_project,
    read_receipt,
    report,
    write_receipt,
)
from tests.conftest import Command

FORMATS = ("text", "json", "junit", "sarif", "github")
CASES = ("accepted", "overloaded", "ruled")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_project(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True)
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made)


def verdicts(receipt: Json, scenario: str) -> dict[str, Json]:
    row = next(row for row in receipt["scenarios"] if row["scenario"] == scenario)
    return {one["gate"]: one for one in row["verdicts"]}


def rows(found: Json) -> list[Json]:
    return [row for of in (*found["scenarios"], found["decision"]) for row in of["verdicts"]]


def row_of(found: Json, gate: str) -> Json:
    return next(row for row in rows(found) if row["gate"] == gate)


@pytest.mark.parametrize("case", CASES)
def test_it_repeats_the_verdicts_of_the_receipt(case: str) -> None:
    receipt, found = read_receipt(Path("receipts", case)), report(f"receipts/{case}")
    speaking = [receipt["decision"]["scenario"]]
    if speaking == [None]:
        speaking = [row["scenario"] for row in receipt["rejected"]]
    assert [of["scenario"] for of in found["scenarios"]] == speaking
    declared = {gate["id"]: gate for gate in receipt["rules"]["gates"]}
    for of in found["scenarios"]:
        held = verdicts(receipt, of["scenario"])
        assert [row["gate"] for row in of["verdicts"]] == list(held)
        for row in of["verdicts"]:
            assert held[row["gate"]].items() <= row.items()
        assert {row["gate"] for row in of["verdicts"]} | {row["gate"] for row in of["not_judged"]} == {
            name for name, gate in declared.items() if gate["scope"] == "scenario"
        }
    held = {row["gate"]: row for row in receipt["decision"]["verdicts"]}
    assert [row["gate"] for row in found["decision"]["verdicts"]] == list(held)
    for row in rows(found):
        gate = declared[row["gate"]]
        shared = row.keys() & gate.keys() - {"limit", "scope", "inputs"}
        assert {name: row[name] for name in shared} == {name: gate[name] for name in shared}
    assert found["accepted"] == receipt["decision"]["accepted"]
    assert found["seal"] == receipt["seal"]


@pytest.mark.parametrize(("case", "code"), [("accepted", 0), ("overloaded", 1), ("ruled", 1)])
@pytest.mark.parametrize("output", FORMATS)
def test_the_exit_code_is_the_decision(case: str, code: int, output: str) -> None:
    for arguments in ([], ["--all"]) if case == "accepted" else ([],):
        run = gates(f"receipts/{case}/receipt.json", "--format", output, *arguments)
        assert run.exit_code == code, run.output
        assert run.stderr == ""


def test_a_receipt_is_meant_by_its_directory_too() -> None:
    assert gates("receipts/ruled").stdout == gates("receipts/ruled/receipt.json").stdout


def test_rows_say_where_the_gate_is_written() -> None:
    found = report("receipts/ruled")
    for row in [*rows(found), *found["scenarios"][0]["not_judged"]]:
        line = Path(row["path"]).read_text(encoding="utf-8").splitlines()[row["line"] - 1]
        assert re.search(rf"id: {row['gate']}\b", line)
        assert row["file"] == Path(row["path"]).name
    assert row_of(found, "below_ceilings_conservative")["path"] == "cohorts/bursty-documents/rules/own.yaml"
    assert row_of(found, "stall")["path"] == "rules/latency.yaml"
    for one in found["exceptions"]:
        assert f"gate: {one['gate']}" in Path(one["path"]).read_text(encoding="utf-8").splitlines()[one["line"] - 1]


def test_without_its_rules_a_row_has_the_name_of_the_file_alone(tmp_path: Path) -> None:
    found = report("receipts/ruled", "--rules", tmp_path)
    assert {row["line"] for row in rows(found) if row["gate"] != "below_ceilings_conservative"} == {None}
    assert row_of(found, "stall")["file"] == "latency.yaml"
    assert row_of(report("receipts/accepted", "--rules", "plain"), "stall")["path"] == "plain/latency.yaml"


def test_a_gate_that_an_override_stands_for_is_not_looked_up_in_the_rules_directory(
    tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cohorts").mkdir()
    monkeypatch.chdir(tmp_path)
    row = row_of(report(made / "receipts" / "ruled", "--rules", made / "rules"), "below_ceilings_conservative")
    assert (row["file"], row["path"], row["line"]) == ("own.yaml", None, None)


def test_waived_expired_warned_and_not_judged() -> None:
    found = report("receipts/ruled")
    assert found["scenario"].startswith("chunked/")
    stall = row_of(found, "stall")
    assert (stall["verdict"], stall["effect"], stall["waived"]) == ("fail", "waived", True)
    assert (stall["exception"]["owner"], stall["exception"]["expires"]) == ("ui", "2026-12-31")
    assert row_of(found, "quick")["effect"] == "informs"
    assert row_of(found, "twenty")["limit_source"] == "metrics.tpot_worst"
    measured = row_of(found, "measured")
    assert (measured["effect"], measured["words"]) == ("blocks", SAID)
    reasons = {one["gate"]: one["reason"] for one in found["scenarios"][0]["not_judged"]}
    assert reasons == {
        "e2e_worst": "the cohort does not declare objectives.e2e",
        "elsewhere": "a gate of overloaded only",
        "transfer_reserve": "concerns disaggregated, routed only",
        "transfer_envelope": "concerns disaggregated, routed only",
    }
    assert [(one["kind"], one["gate"]) for one in found["objections"]] == [
        ("verdict", "measured"),
        ("exception", "goodput"),
    ]
    assert found["objections"][1]["words"] == "the exception of goodput (was to be mended; ui) expired on 2026-01-31"
    assert found["as_of"] == "2026-11-30"
    said = "overridden: below_ceilings_conservative: own.yaml of the cohort instead of capacity.yaml"
    assert said in gates("receipts/ruled").stdout.splitlines()
    assert said in gates("receipts/ruled", "--format", "github").stdout


def test_the_summary_counts_what_the_rows_say() -> None:
    for case in CASES:
        for arguments in ([], ["--all"]):
            found = report(f"receipts/{case}", *arguments)
            speaking = [row for of in found["scenarios"] if of["speaks"] for row in of["verdicts"]]
            speaking += found["decision"]["verdicts"]
            of = found["summary"]
            assert (
                of["verdicts"] == len(speaking) == sum(of[name] for name in ("passes", "blocks", "informs", "waived"))
            )
            assert of["stands"] == (case == "accepted")
    assert report("receipts/accepted")["summary"]["words"] == "7 gates: 7 pass, 1 not judged; accepted"
    ruled = report("receipts/ruled")["summary"]["words"]
    assert "1 fails (blocking), 1 fails (not blocking), 1 fails (waived), 4 not judged" in ruled
    assert "; 1 waived until 2026-12-31; not accepted: " in ruled


def test_rests_on_is_what_the_decision_rests_on_for_one_gate() -> None:
    """Of all gates of the chosen scenario together it is what the receipt says that the decision rests on."""
    for case in ("accepted", "ruled"):
        receipt, found = read_receipt(Path("receipts", case)), report(f"receipts/{case}")
        read = {one["path"]: one["provenance"] for row in found["scenarios"][0]["verdicts"] for one in row["rests_on"]}
        assert read == {one["path"]: one["provenance"] for one in receipt["decision"]["rests_on"]}
    stall, quick = ({one["path"] for one in row_of(found, name)["rests_on"]} for name in ("stall", "quick"))
    assert stall - quick == {"objectives.stall"}
    assert TRACE in quick
    link = row_of(found, "link")
    assert {one["path"] for one in link["rests_on"]} == set()  # chunked reads nothing of the network
    assert row_of(found, "measured")["rests_on"] == receipt["decision"]["rests_on"]


def test_all_scenarios_beside_the_decision_do_not_count() -> None:
    receipt, found = read_receipt(Path("receipts/accepted")), report("receipts/accepted", "--all")
    assert [of["scenario"] for of in found["scenarios"]] == [row["scenario"] for row in receipt["scenarios"]]
    effects = {row["effect"] for of in found["scenarios"] if not of["speaks"] for row in of["verdicts"]}
    assert effects == {"passes", "beside"}
    assert {of["standing"] for of in found["scenarios"]} == {"chosen", "nearest_miss", "other"}


def test_text_shows_failures_first_and_fits(made: Path) -> None:
    text = gates("receipts/ruled").stdout
    assert max(map(len, text.splitlines())) <= 140
    for one in (
        "FAILS   <measured> & \"100 %\": 100 %, not {it} [see](1) 'ß' ::error::",
        "owner ops: Nobody bets on <figures> of nobody.",
    ):
        assert one in text
    scenario = text[text.index("chunked/") :]
    assert scenario.index("informs quick") < scenario.index("waived  stall") < scenario.index("judged")
    assert "not judged: elsewhere: a gate of overloaded only" in text
    assert "expired: goodput" in text
    assert text.rstrip().endswith("expired on 2026-01-31")
    none = gates("receipts/overloaded").stdout
    assert all(row["scenario"] in none for row in read_receipt(made / "receipts" / "overloaded")["rejected"])
    for other in (none, gates("receipts/accepted", "--all").stdout):
        assert max(map(len, other.splitlines())) <= 140


def test_long_names_are_cut_and_never_figures(made: Path, tmp_path: Path) -> None:
    receipt = read_receipt(made / "receipts" / "accepted")
    old, new = receipt["rules"]["gates"][0]["id"], "g" * 63
    text = json.dumps(receipt).replace(f'"{old}"', f'"{new}"')
    lines = gates(sealed(json.loads(text), tmp_path)).stdout.splitlines()
    assert max(map(len, lines)) <= 140
    assert any("ggg…" in line and "51.31 %" in line for line in lines)


def sealed(receipt: Json, directory: Path) -> Path:
    receipt["seal"] = digest({name: value for name, value in receipt.items() if name != "seal"})
    return write_receipt(directory, receipt)


def bad(*arguments: str | Path) -> str:
    """What is said on standard error of bad input; nothing is reported."""
    run = gates(*arguments)
    assert run.exit_code == 2, run.output
    assert isinstance(run.exception, SystemExit)
    assert run.stdout == ""
    return run.stderr


def test_bad_targets(made: Path, tmp_path: Path) -> None:
    assert bad("nowhere").startswith("nowhere:1:1: does not exist; expected a receipt.json")
    assert "(hint: did you mean overloaded?)" in bad("overloded")
    assert bad(tmp_path / "receipt.json").startswith(f"{tmp_path}/receipt.json:1:1: cannot be read: No such file")
    assert bad(tmp_path).startswith(f"{tmp_path}:1:1: holds neither a receipt.json nor a cohort.yaml")
    assert "expected no date beside a receipt" in bad("receipts/ruled", "--as-of", "2026-01-01")
    assert bad("receipts/ruled", "--rules", "nowhere").startswith("nowhere:1:1: --rules: is no directory")
    assert "'xml' is not one of" in bad("receipts/ruled", "--format", "xml")
    assert "is empty" in bad("")
    (tmp_path / "receipt.json").write_text('{"kind": "TopologyReceipt",\n "kind"}')
    assert bad(tmp_path).startswith(f"{tmp_path}/receipt.json:2:8: is not JSON")


def test_a_receipt_with_a_changed_byte_is_refused(made: Path, tmp_path: Path) -> None:
    text = (made / "receipts" / "ruled" / "receipt.json").read_text(encoding="utf-8")
    for old, new in (('"pass"', '"fail"'), ('"severity": "warn"', '"severity": "wars"'), ("{", "[")):
        assert old in text
        (tmp_path / "receipt.json").write_text(text.replace(old, new, 1), encoding="utf-8")
        for output in ("text", "json"):
            run = gates(tmp_path, "--format", output)
            assert run.exit_code == 2
            assert re.match(rf"{re.escape(str(tmp_path))}/receipt.json:\d+:\d+: ", run.stderr)
            assert run.stdout == "" or json.loads(run.stdout)["problems"]
    (tmp_path / "receipt.json").write_text(text.replace('"pass"', '"fail"', 1), encoding="utf-8")
    assert "receipt.json:1:1: seal: " in bad(tmp_path)


def _renamed(receipt: Json) -> None:
    receipt["decision"]["scenario"] = "chunked/n99/c1"


def _unknown_gate(receipt: Json) -> None:
    receipt["scenarios"][0]["verdicts"][0]["gate"] = "unknown"


def _of_another_scope(receipt: Json) -> None:
    receipt["scenarios"][0]["verdicts"][0]["gate"] = "measured"


def _accepted(receipt: Json) -> None:
    receipt["decision"]["accepted"] = True


def _objection(receipt: Json) -> None:
    receipt["decision"]["objections"][1]["gate"] = "stall"


def _message(text: str) -> Callable[[Json], None]:
    def change(receipt: Json) -> None:
        receipt["rules"]["gates"][0]["message"] = text

    change.__name__ = text
    return change


FORGERIES = [
    _renamed,
    _unknown_gate,
    _of_another_scope,
    _accepted,
    _objection,
    *map(_message, ("{gate.__class__}", "{nothing}", "{figure:>99999999}", "{gate!r}", "{", "{}", "{0}")),
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda one: one.__name__)
def test_a_sealed_receipt_that_contradicts_itself_is_refused(
    forge: Callable[[Json], None], made: Path, tmp_path: Path
) -> None:
    receipt = copy.deepcopy(read_receipt(made / "receipts" / "ruled"))
    forge(receipt)
    assert re.match(rf"{re.escape(str(tmp_path))}/receipt.json:1:1: \S+: ", bad(sealed(receipt, tmp_path)))


def test_a_forged_acceptance_does_not_pass(made: Path, tmp_path: Path) -> None:
    receipt = read_receipt(made / "receipts" / "ruled")
    receipt["decision"] |= {"accepted": True, "objections": []}
    assert gates(sealed(receipt, tmp_path)).exit_code == 1


def test_steering_letters_reach_no_output(made: Path, tmp_path: Path) -> None:
    """Control characters make a receipt none; what else turns text around, or begins a line, is shown as it is not."""
    receipt = read_receipt(made / "receipts" / "ruled")
    for gate in receipt["rules"]["gates"]:
        gate |= {"message": "{gate}\u202e", "rationale": "why\n::error::x"}
    for one in receipt["rules"]["exceptions"]:
        one |= {"reason": "why\n::error::y"}
    sealed(receipt, tmp_path)
    for output in FORMATS:
        shown = gates(tmp_path, "--format", output)
        assert shown.exit_code == 1
        assert not any(line.startswith("::error::") for line in shown.stdout.splitlines())
    for letters in ("\x1b[31m", "\x00", "\x07", "\x9b"):
        receipt["rules"]["gates"][0]["message"] = f"{letters}{{gate}}"
        sealed(receipt, tmp_path)
        assert not set(bad(tmp_path)) & set("\x1b\x00\x07\x9b")


def planner(result: Any) -> Callable[..., Any]:
    def run_plan(asked: pipelines.cli.run.Asked, *, quiet: bool) -> Any:
        assert quiet
        if isinstance(result, BaseException):
            raise result
        return SimpleNamespace(receipt=result(*vars(asked).values()))

    return run_plan


def test_a_cohort_is_planned_and_reported_as_from_its_receipt(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def plan(*arguments: Any) -> Path:
        asked.append(arguments)
        return made / "receipts" / "ruled" / "receipt.json"

    monkeypatch.setattr(pipelines.cli.run, "run_plan", planner(plan))
    for output in ("text", "sarif"):
        run = gates("bursty-documents", "--format", output, "--as-of", "2026-11-30")
        assert (run.exit_code, run.stderr) == (1, "")
        assert run.stdout == gates("receipts/ruled", "--format", output).stdout
    expected = (Path("cohorts/bursty-documents"), Path("rules"), None, "2026-11-30", "finalists")
    assert asked[0] == ("bursty-documents", *expected)
    assert gates("cohorts/bursty-documents/cohort.yaml").stdout == gates("receipts/ruled").stdout


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            VerificationFailedError("one value disagrees", Path("waiting/receipt.json")),
            3,
            "verification failed: one value disagrees\n"
            "receipts/overloaded is as it was; the receipt that failed is waiting/receipt.json\n",
        ),
        (InterruptedRunError(), 130, "interrupted"),
        (OSError(28, "No space left on device", "receipts/x"), 2, "receipts/x:1:1: cannot be written: No space left"),
    ],
)
def test_a_plan_that_fails(error: Exception, code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines.cli.run, "run_plan", planner(error))
    run = gates("overloaded")
    assert (run.exit_code, run.stdout) == (code, "")
    assert run.stderr.startswith(said)


def test_problems_of_a_cohort_are_reported_before_anything_is_planned(made: Path, tmp_path: Path) -> None:
    (tmp_path / "cohort.yaml").write_text("kind: Cohort\n")
    assert re.match(rf"{re.escape(str(tmp_path))}/cohort.yaml:1:", bad(tmp_path))
    assert "rules" in bad("overloaded", "--rules", tmp_path / "none")


def test_a_planned_cohort_in_a_process_of_its_own(phaseledger: Command, made: Path) -> None:
    run = phaseledger("gates", "overloaded", "--rules", "plain", cwd=made)
    assert (run.code, run.err) == (1, "")
    assert gates("receipts/overloaded", "--rules", "plain").stdout == run.out
    assert (made / "receipts" / "overloaded" / "matrix.csv").is_file()


def test_the_page_shows_what_the_command_prints(project: Path) -> None:
    page = (project / "docs" / "gates.md").read_text(encoding="utf-8")
    for output in ("text", "github"):
        block = re.search(
            rf"<!-- output: gates receipts/bursty-documents --format {output} -->\n```\n(.*?)```", page, re.DOTALL
        )
        assert block is not None
        assert gates("receipts/accepted", "--format", output, "--rules", "plain").stdout == block[1]


def test_help_has_examples_and_exit_codes() -> None:
    text = gates("--help").stdout
    assert "phaseledger gates receipts/moderate-chat" in text
    assert "Exit code 0" in text
