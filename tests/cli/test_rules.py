"""`phaseledger rules`, as a person or a script calls it."""

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from pipelines.cli import command
from pipelines.declarations.typed import RULE_KINDS, SCENARIO_KINDS
from pipelines.frames.matrix import ScenarioMatrix
from pipelines.frames.metrics import METRICS
from pipelines.frames.replays import Replays

KINDS = (*RULE_KINDS, "RuleTest")


def rules(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["rules", *map(str, arguments)])


def said(*arguments: str | Path) -> list[str]:
    run = rules(*arguments)
    assert run.exit_code == 0, run.output
    return run.stdout.splitlines()


def found(*arguments: str | Path, code: int = 0) -> Any:
    run = rules(*arguments, "--format", "json")
    assert run.exit_code == code, run.output
    return json.loads(run.stdout)


@pytest.fixture
def copied(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: a project with the shipped rules and cohorts, to be changed."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(project / "rules", "rules")
    shutil.copytree(project / "cohorts", "cohorts")
    Path("workspace.yaml").touch()
    return tmp_path


def edited(file: str, old: str, new: str) -> None:
    text = Path(file).read_text(encoding="utf-8")
    assert old in text
    Path(file).write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("verb", ["metrics", "schema", "check", "test"])
def test_every_verb_has_examples_and_exit_codes(verb: str) -> None:
    run = rules(verb, "--help")
    assert run.exit_code == 0
    assert f"  phaseledger rules {verb}" in run.stdout.partition("Examples:")[2]
    assert "Exit code 0" in run.stdout


def test_the_group_lists_its_verbs() -> None:
    assert [line.split()[0] for line in said("--help")[-4:]] == ["check", "metrics", "schema", "test"]


def test_metrics_are_a_table_that_fits() -> None:
    lines = said("metrics")
    assert max(map(len, lines)) <= 140
    assert lines[0].split() == ["metric", "unit", "of", "modeled", "exists", "for", "column", "meaning"]
    begun = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert begun == list(METRICS)
    text = " ".join(" ".join(lines).split())
    assert "transfer_by_bucket modeled mean transfer wait plus KV movement" in text
    assert "transfer_worst s scenario yes disaggregated, routed transfer_worst_s" in text
    assert "evidence_age days decision no - - age of" in text


def test_metrics_as_json_are_the_registry() -> None:
    rows = found("metrics")
    assert [row["name"] for row in rows] == list(METRICS)
    columns = {row["column"] for row in rows} - {None}
    assert columns <= {*ScenarioMatrix.to_schema().columns, *Replays.to_schema().columns}
    assert [row["name"] for row in rows if row["topologies"] == ["disaggregated", "routed"]] == [
        "transfer_worst",
        "transfer_envelope_share",
        "transfer",
    ]
    assert all(row["topologies"] == [] for row in rows if row["of"] == "decision")


def documents(project: Path) -> dict[str, dict[str, Any]]:
    """A document of every kind."""
    files = [*(project / "rules").rglob("*.yaml"), project / "tests" / "bad" / "rule_tests" / "_rules" / "rules.yaml"]
    every = (one for file in files for one in yaml.safe_load_all(file.read_text(encoding="utf-8")))
    return {one["kind"]: json.loads(json.dumps(one, default=str)) for one in every}


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_stands_alone_and_is_of_its_kind(kind: str, project: Path) -> None:
    schema = json.loads("\n".join(said("schema", kind)))
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:phaseledger:schema:rules:v1:{kind}"
    text = json.dumps(schema)
    assert all(f'"#/$defs/{name}"' in text for name in schema["$defs"])
    own = documents(project) | {"Goodput": documents(project)["Capacity"] | {"kind": "Goodput"}}
    validator = Draft202012Validator(schema)
    for other in KINDS:
        assert validator.is_valid(own[other]) is (other == kind), other
    for key in ("apiVersion", "kind", "metadata"):
        assert not validator.is_valid({name: value for name, value in own[kind].items() if name != key})
    assert not validator.is_valid(own[kind] | {"more": 1})


def test_a_schema_has_nothing_of_other_kinds() -> None:
    for kind in KINDS:
        names = set(json.loads("\n".join(said("schema", kind)))["$defs"])
        assert ("gate" in names) is (kind in SCENARIO_KINDS)
        assert ("figures" in names) is (kind == "RuleTest")


def test_kinds_are_listed() -> None:
    assert [line.split()[0] for line in said("schema")] == list(KINDS)


@pytest.mark.parametrize(
    ("word", "hint"), [("capcity", "Capacity"), ("latency", "LatencyObjective"), ("ruletest", "RuleTest")]
)
def test_an_unknown_kind_is_bad_input_with_the_one_that_was_meant(word: str, hint: str) -> None:
    run = rules("schema", word)
    assert run.exit_code == 2
    assert run.stdout == ""
    assert run.stderr.startswith(f'KIND:1:1: unknown kind "{word}"; expected LatencyObjective, Goodput, ')
    assert f"(hint: did you mean {hint}?)" in run.stderr


def test_an_empty_kind_is_bad_input() -> None:
    assert rules("schema", "").exit_code == 2


def test_check_says_what_there_is(copied: Path) -> None:
    assert said("check") == [
        "rules: 8 gates, 39 tests; nothing is wrong",
        "",
        "LatencyObjective  ttft_worst, tpot_worst, stall, e2e_worst (latency.yaml)",
        "Goodput           goodput (goodput.yaml)",
        "TransferBudget    transfer_reserve, transfer_envelope (transfer.yaml)",
        "Capacity          below_ceilings_conservative (capacity.yaml)",
        "Decision          operating_parts, gpus, margin (decision.yaml)",
    ]


OWN = """\
apiVersion: phaseledger/v1
kind: TransferBudget
metadata: {name: own, owner: network}
gates:
  - id: transfer_envelope
    overrides: transfer.yaml
    metric: transfer_envelope_share
    where: {topology: [disaggregated, routed]}
    bound: nominal
    op: lt
    limit: 1.0
    severity: error
    blocking: true
  - {id: few_gpus, metric: gpus, bound: nominal, op: lte, limit: 16, severity: warn, blocking: false}
---
apiVersion: phaseledger/v1
kind: Decision
overrides: decision.yaml
metadata: {name: own, owner: network}
prefer: [gpus, operating_parts, margin]
operating_part_weights: {pools: 1, queues: 1, state_transfers: 1, failure_edges: 1}
---
apiVersion: phaseledger/v1
kind: Exceptions
metadata: {name: own, owner: network}
exceptions:
  - {gate: transfer_reserve, reason: a second link comes, owner: network, expires: 2026-12-31}
"""
EXCEPTIONS = """\
apiVersion: phaseledger/v1
kind: Exceptions
metadata: {name: exceptions, owner: network}
exceptions:
  - gate: transfer_envelope
    where: {topology: [routed], cohort: [slow-link]}
    reason: a second link comes
    owner: network
    expires: 2026-12-31
"""


def own_rules_of(cohort: str, text: str = OWN) -> None:
    folder = Path("cohorts", cohort, "rules")
    folder.mkdir()
    (folder / "own.yaml").write_text(text, encoding="utf-8")


def test_check_says_what_cohorts_have_instead(copied: Path) -> None:
    own_rules_of("slow-link")
    lines = said("check", "slow-link", "cohorts/moderate-chat", "--as-of", "2027-01-01")
    at = lines.index("cohort slow-link: rules of its own in cohorts/slow-link/rules")
    of_slow_link = [line.strip() for line in lines[at + 1 : lines.index("", at)]]
    assert of_slow_link[0] == "added: few_gpus: own.yaml of the cohort"
    overridden = "overridden: transfer_envelope: own.yaml of the cohort instead of transfer.yaml ("
    assert of_slow_link[1].startswith(overridden)
    assert "there lt 1.0, conservative, blocks)" in " ".join(of_slow_link[1:3])
    assert "overridden: the decision: own.yaml of the cohort instead of decision.yaml" in of_slow_link
    assert "not judged: e2e_worst: the cohort does not declare its objective" in of_slow_link
    assert any(
        "transfer_reserve" in line and line.startswith("expired") and "on 2026-12-31" in line for line in of_slow_link
    )
    assert "cohort moderate-chat: no rules of its own" in lines


def test_check_as_json(copied: Path) -> None:
    own_rules_of("slow-link")
    Path("rules/exceptions.yaml").write_text(EXCEPTIONS, encoding="utf-8")
    shutil.rmtree("rules/tests")
    read = found("check", "slow-link", "--as-of", "2026-12-31")
    assert (read["rules"], read["as_of"], read["tests"]) == ("rules", "2026-12-31", 0)
    assert read["untested"] == [gate["id"] for gate in read["gates"]]
    assert read["decision"] == {"file": "decision.yaml", "prefer": ["operating_parts", "gpus", "margin"]}
    [exception] = read["exceptions"]
    assert exception == {
        "gate": "transfer_envelope",
        "file": "exceptions.yaml",
        "reason": "a second link comes",
        "owner": "network",
        "topologies": ["routed"],
        "cohorts": ["slow-link"],
        "expires": "2026-12-31",
        "expired": False,
    }
    [cohort] = read["cohorts"]
    assert (cohort["overridden"], cohort["added"]) == ({"transfer_envelope": "transfer.yaml"}, ["few_gpus"])
    assert (cohort["decision_overrides"], cohort["not_judged"]) == ("decision.yaml", ["e2e_worst"])
    assert [one["gate"] for one in cohort["exceptions"]] == ["transfer_reserve"]


def test_check_shows_exceptions_until_and_after_they_expire(copied: Path) -> None:
    Path("rules/exceptions.yaml").write_text(EXCEPTIONS, encoding="utf-8")
    lines = said("check", "--as-of", "2026-12-31")
    assert lines[0] == "rules: 8 gates, 1 exception, 39 tests; nothing is wrong"
    assert lines[-2:] == [
        "exceptions as of 2026-12-31",
        "  transfer_envelope for routed of slow-link until 2026-12-31: a second link comes (network)",
    ]
    assert " expired on 2026-12-31: " in said("check", "--as-of", "2027-01-01")[-1]


def test_check_names_gates_without_a_test_and_those_that_inform(copied: Path) -> None:
    edited("rules/capacity.yaml", "blocking: true", "blocking: false")
    Path("rules/tests/capacity.yaml").unlink()
    lines = said("check")
    assert "Capacity          below_ceilings_conservative [informs] (capacity.yaml)" in lines
    assert lines[-1] == "without a test: below_ceilings_conservative"


def test_check_says_everything_at_once(copied: Path) -> None:
    own_rules_of("slow-link", OWN.replace("overrides: transfer.yaml", "overrides: latency.yaml"))
    edited("rules/tests/goodput.yaml", "attainment: 80 %", "attainment: 80")
    edited("cohorts/moderate-chat/cohort.yaml", "kind: Cohort", "kind: Cohorts")
    run = rules("check", "slow-link", "moderate-chat", "bursty-document", "--format", "json")
    assert run.exit_code == 2
    problems = json.loads(run.stdout)["problems"]
    assert {problem["file"] for problem in problems} == {
        "rules/tests/goodput.yaml",
        "cohorts/slow-link/rules/own.yaml",
        "cohorts/moderate-chat/cohort.yaml",
        "bursty-document",
    }
    assert "cohorts/slow-link/rules/own.yaml:6:16: gates[0].overrides: transfer_envelope is the gate at" in run.stderr
    assert "did you mean bursty-documents?" in run.stderr
    assert run.stderr.splitlines()[-1] == f"{len(problems)} problems; nothing was run or written"


def test_check_finds_buckets_that_a_cohort_does_not_have(copied: Path) -> None:
    gate = (
        "gates:\n"
        '  - {id: middle, metric: ttft, where: {bucket: ["[3,7)"]}, aggregate: worst, bound: nominal, op: lte, '
        "limit: 1 s, severity: error, blocking: true}\n"
    )
    edited("rules/latency.yaml", "gates:\n", gate)
    assert rules("check").exit_code == 0
    run = rules("check", "slow-link")
    assert run.exit_code == 2
    assert "cohort slow-link has no bucket [3,7); expected " in run.stderr


def test_check_finds_faults_of_the_log(copied: Path) -> None:
    Path("cohorts/slow-link/requests.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    run = rules("check", "slow-link")
    assert run.exit_code == 2
    assert run.stderr.startswith("cohorts/slow-link/requests.csv:")


def test_the_shipped_tests_pass(copied: Path) -> None:
    assert said("test") == ["39 passed"]
    assert said("test", "rules/tests/goodput.yaml", "--rules", "rules")[0].startswith(
        "4 passed; gates without a test: "
    )


def test_tests_are_chosen_by_gate_or_name(copied: Path) -> None:
    assert found("test", "-k", "STALL")["passed"] == 5
    [one] = found("test", "-k", "six in ten")["tests"]
    assert (one["gate"], one["file"], one["line"]) == ("goodput", "rules/tests/goodput.yaml", 23)
    run = rules("test", "-k", "stahl")
    assert run.exit_code == 2
    assert run.stderr.startswith(
        '-k:1:1: no test has "stahl" in its gate or name; expected a part of one (hint: the gates'
    )


FAILED = (
    "rules/tests/goodput.yaml:22:23: goodput: exactly the promised share is enough: "
    "expected pass, found fail: goodput 80 %, not > 80 %, margin 0.0"
)


def test_a_failing_test_is_a_line_with_what_was_expected_and_found(copied: Path) -> None:
    edited("rules/goodput.yaml", "op: gte", "op: gt")
    run = rules("test", "-k", "exactly the promised")
    assert run.exit_code == 1
    assert run.stdout.splitlines() == [FAILED, "1 failed"]
    run = rules("test")
    assert run.exit_code == 1
    assert run.stdout.splitlines()[-1] == "35 passed, 4 failed"
    assert (
        "rules/tests/goodput.yaml:15:53: goodput: nine in ten are enough where eight are promised: "
        'expected message "goodput 90 %, >= 80 %", found "goodput 90 %, > 80 %"'
    ) in run.stdout.splitlines()


def test_margins_and_gates_that_do_not_apply_are_said(copied: Path) -> None:
    edited("rules/tests/goodput.yaml", "margin: -0.25", "margin: -0.2")
    assert rules("test").stdout.splitlines()[0] == (
        "rules/tests/goodput.yaml:29:37: goodput: six in ten are too few: expected margin -0.2, found -0.25"
    )
    edited("rules/goodput.yaml", "    bound: nominal\n", "    where: {topology: [routed]}\n    bound: nominal\n")
    run = rules("test", "-k", "six in ten")
    assert ": expected fail, found not_applicable: a gate on routed only\n" in run.stdout


def test_results_as_json(copied: Path) -> None:
    edited("rules/goodput.yaml", "op: gte", "op: gt")
    Path("rules/tests/capacity.yaml").unlink()
    read = found("test", "-k", "exactly the promised", code=1)
    assert (read["passed"], read["failed"], read["untested"]) == (0, 1, ["below_ceilings_conservative"])
    message = "goodput 80 %, not > 80 %"
    assert read["tests"] == [
        {
            "file": "rules/tests/goodput.yaml",
            "line": 16,
            "column": 5,
            "gate": "goodput",
            "name": "exactly the promised share is enough",
            "passed": False,
            "expected": {"verdict": "pass", "margin": 0.0, "message": "goodput 80 %, >= 80 %"},
            "found": {"verdict": "fail", "margin": 0.0, "message": message, "why_not_applicable": None},
            "wrong": ["verdict", "message"],
        }
    ]


def test_results_as_junit(copied: Path) -> None:
    edited("rules/goodput.yaml", "op: gte", "op: gt")
    edited("rules/tests/goodput.yaml", "six in ten are too few", '"six in ten < eight & more \\uFFFE"')
    run = rules("test", "--format", "junit")
    assert run.exit_code == 1
    root = ElementTree.fromstring(run.stdout.encode())
    assert root.tag == "testsuites"
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("39", "4", "0")
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == [f"rules/tests/{name}.yaml" for name in ("capacity", "goodput", "latency", "transfer")]
    assert [child.tag for child in root] == ["testsuite"] * 4
    cases = {case.get("name"): case for case in suites["rules/tests/goodput.yaml"]}
    assert "six in ten < eight & more ?" in cases
    case = cases["exactly the promised share is enough"]
    assert (case.get("classname"), case.get("file"), case.get("line")) == ("goodput", "rules/tests/goodput.yaml", "16")
    [failure] = case
    assert failure.get("message") == FAILED.partition("enough: ")[2]
    assert failure.text == f"{FAILED.partition(' goodput:')[0]} {FAILED.partition('enough: ')[2]}"
    assert sum(case.find("failure") is None for case in root.iter("testcase")) == 35


def test_junit_of_tests_that_pass_has_no_failure(copied: Path) -> None:
    root = ElementTree.fromstring("\n".join(said("test", "--format", "junit")).encode())
    assert root.get("failures") == "0"
    assert root.find(".//failure") is None


@pytest.mark.parametrize("output", ["text", "json", "junit"])
def test_nothing_is_run_where_anything_is_wrong(output: str, copied: Path) -> None:
    edited("rules/tests/goodput.yaml", "gate: goodput", "gate: godput")
    edited("rules/capacity.yaml", "op: lt", "op: <")
    run = rules("test", "--format", output)
    assert run.exit_code == 2
    assert run.stderr.startswith("rules/capacity.yaml:12:9: gates[0].op: ")
    assert (run.stdout == "") is (output != "json")
    edited("rules/capacity.yaml", "op: <", "op: lt")
    run = rules("test", "--format", output)
    assert run.exit_code == 2
    assert run.stderr.count("no gate is called godput; expected ") == 4
    assert run.stderr.endswith("4 problems; nothing was run or written\n")


def test_what_is_not_there_is_bad_input(copied: Path) -> None:
    run = rules("test", "nofile.yaml", "rules")
    assert run.exit_code == 2
    assert run.stderr.splitlines()[:2] == [
        "nofile.yaml:1:1: does not exist; expected tests of rules (kind: RuleTest)",
        "rules:1:1: is a directory; expected tests of rules (kind: RuleTest)",
    ]
    run = rules("test", "--rules", "nowhere")
    assert run.exit_code == 2
    assert run.stderr.splitlines()[0] == "nowhere:1:1: does not exist; expected a directory of rules (*.yaml)"
    assert len(run.stderr.splitlines()) == 2
    shutil.rmtree("rules/tests")
    run = rules("test")
    assert run.exit_code == 2
    assert (
        run.stderr.splitlines()[0] == "rules/tests:1:1: does not exist; expected a directory of tests of rules (*.yaml)"
    )
    Path("rules/tests").touch()
    assert rules("test").stderr.startswith("rules/tests:1:1: is a file; ")
    assert rules("check").exit_code == 2


def test_the_example_of_the_page_passes(project: Path, copied: Path) -> None:
    page = (project / "docs" / "rules.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    [example] = [block for block in blocks if "kind: RuleTest" in block]
    Path("example.yaml").write_text(f"apiVersion: phaseledger/v1\n{example}", encoding="utf-8")
    assert said("test", "example.yaml")[0].startswith("1 passed")
