"""The formats of ``phaseledger gates``, each read back and held against the receipt."""

import json
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import jsonschema
import pytest

from pipelines import __version__
from pipelines.cli.gates_github import command
from pipelines.cli.gates_junit import ACCEPTED
from tests.cli.gates_calls import SAID, Json, gates, made_project, read_receipt, report
from tests.cli.sarif_schema import SARIF

CASES = ("accepted", "overloaded", "ruled")
_COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


@pytest.fixture(autouse=True)
def made(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = made_project(tmp_path_factory.getbasetemp())
    monkeypatch.chdir(folder)
    return folder


def written(case: str, output: str, *arguments: str) -> str:
    text: str = gates(f"receipts/{case}", "--format", output, *arguments).stdout
    return text


def failing(case: str) -> Counter[str]:
    """By gate, how many verdicts of the receipt stand against the decision: those of the scenarios that speak for it, and its own."""
    receipt = read_receipt(Path("receipts", case))
    decision, blocking = receipt["decision"], {gate["id"] for gate in receipt["rules"]["gates"] if gate["blocking"]}
    speaking = {decision["scenario"]} if decision["scenario"] else {row["scenario"] for row in receipt["rejected"]}
    held = [one for row in receipt["scenarios"] if row["scenario"] in speaking for one in row["verdicts"]]
    return Counter(
        row["gate"]
        for row in [*held, *decision["verdicts"]]
        if row["verdict"] != "pass" and row["gate"] in blocking and not row["waived"]
    )


def all_rows(found: Json, kind: str = "verdicts") -> list[Json]:
    return [row for of in (*found["scenarios"], found["decision"]) for row in of[kind]]


# JUnit


def suites(case: str, *arguments: str) -> ElementTree.Element:
    return ElementTree.fromstring(written(case, "junit", *arguments).encode())


@pytest.mark.parametrize("case", CASES)
def test_junit_fails_where_a_gate_decides_against_the_plan(case: str) -> None:
    root, found = suites(case), report(f"receipts/{case}")
    assert root.tag == "testsuites"
    assert [suite.get("name") for suite in root] == [
        f"{found['cohort']}: {name}" for name in (*(of["scenario"] for of in found["scenarios"]), "decision")
    ]
    failed = Counter(one.get("name") for one in root.iter("testcase") if one.find("failure") is not None)
    accepted = failed.pop(ACCEPTED, 0)
    assert failed == failing(case)
    assert accepted == (case != "accepted")
    names = [one.get("name") for one in root.iter("testcase")]
    assert sorted(filter(None, names)) == sorted(
        [row["gate"] for kind in ("verdicts", "not_judged") for row in all_rows(found, kind)] + [ACCEPTED]
    )


@pytest.mark.parametrize("arguments", [[], ["--all"]])
@pytest.mark.parametrize("case", CASES)
def test_junit_counts_its_cases(case: str, arguments: list[str]) -> None:
    root = suites(case, *arguments)
    for element in (root, *root):
        cases = list(element.iter("testcase"))
        assert int(element.attrib["tests"]) == len(cases)
        for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(element.attrib[kind]) == sum(one.find(tag) is not None for one in cases)
    assert (int(root.attrib["failures"]) == 0) == (case == "accepted")
    assert "time" not in {key for element in root.iter() for key in element.attrib}


def test_junit_has_messages_waivers_warnings_and_reasons() -> None:
    cases = {one.get("name"): one for one in suites("ruled").iter("testcase")}

    def message(name: str, tag: str) -> str:
        element = cases[name].find(tag)
        assert element is not None
        return element.attrib["message"]

    assert message("measured", "failure") == SAID
    assert (cases["measured"].findtext("failure") or "").startswith(SAID)
    assert message("stall", "skipped") == "waived until 2026-12-31: the page smooths it: <no> 100 % (ui)"
    assert message("elsewhere", "skipped") == "not judged: a gate of overloaded only"
    assert [child.tag for child in cases["quick"]] == ["system-out"]
    assert (cases["quick"].findtext("system-out") or "").startswith("warn, not blocking: quick ")
    assert "the exception of goodput (was to be mended; ui) expired on 2026-01-31" in message(ACCEPTED, "failure")
    assert cases["stall"].get("file") == "rules/latency.yaml"


# SARIF


def run_of(case: str, *arguments: str) -> Json:
    log = json.loads(written(case, "sarif", *arguments))
    jsonschema.Draft202012Validator(SARIF).validate(log)
    run: Json = log["runs"][0]
    return run


def unescaped(text: str) -> str:
    return text.replace("\\[", "[").replace("{{", "{").replace("}}", "}")


@pytest.mark.parametrize("arguments", [[], ["--all"]])
@pytest.mark.parametrize("case", CASES)
def test_sarif_has_a_result_for_every_verdict_that_is_no_pass(case: str, arguments: list[str]) -> None:
    run, found = run_of(case, *arguments), report(f"receipts/{case}", *arguments)
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("phaseledger", __version__)
    rules = driver["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for one in run["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
    results = [one for one in run["results"] if "-" not in one["ruleId"]]
    unmet = [row for row in all_rows(found) if row["verdict"] != "pass"]
    assert [one["ruleId"] for one in results] == [row["gate"] for row in unmet]
    for one, row in zip(results, unmet, strict=True):
        assert unescaped(one["message"]["text"]) == f"{row['scenario'] or 'decision'}: {row['words']}"
        place = one["locations"][0]["physicalLocation"]
        assert (unquote(place["artifactLocation"]["uri"]), place["region"]["startLine"]) == (row["path"], row["line"])
        assert ("suppressions" in one) == row["waived"]
        assert one["properties"]["rests_on"] == row["rests_on"]
    prints = [one["partialFingerprints"]["primaryLocationLineHash"] for one in run["results"]]
    assert len(set(prints)) == len(prints)
    notes = run["invocations"][0]["toolConfigurationNotifications"]
    assert [one["associatedRule"]["id"] for one in notes] == [row["gate"] for row in all_rows(found, "not_judged")]


def test_sarif_levels_and_what_stands_against_the_decision() -> None:
    assert run_of("accepted")["results"] == []
    levels = {one["ruleId"]: one["level"] for one in run_of("ruled")["results"]}
    assert levels == {"quick": "warning", "stall": "note", "measured": "error", "expired-exception": "error"}
    results = {one["ruleId"]: one for one in run_of("ruled")["results"]}
    assert "{{it}} \\[see](1)" in results["measured"]["message"]["text"]
    suppression = results["stall"]["suppressions"][0]
    assert suppression["justification"] == "waived until 2026-12-31: the page smooths it: <no> 100 % (ui)"
    assert suppression["location"]["physicalLocation"]["artifactLocation"]["uri"] == "rules/exceptions.yaml"
    expired = results["expired-exception"]["locations"][0]["physicalLocation"]
    line = Path("rules/exceptions.yaml").read_text().splitlines()[expired["region"]["startLine"] - 1]
    assert "gate: goodput" in line
    none = run_of("overloaded")["results"]
    assert {one["level"] for one in none} == {"error"}
    assert [one["ruleId"] for one in none].count("no-topology") == 1
    assert {one["level"] for one in run_of("accepted", "--all")["results"]} == {"note"}


def test_sarif_rules_say_why_and_whose() -> None:
    rules = {rule["id"]: rule for rule in run_of("ruled")["tool"]["driver"]["rules"]}
    assert {row["gate"] for kind in ("verdicts", "not_judged") for row in all_rows(report("receipts/ruled"), kind)} == {
        name for name in rules if "-" not in name
    }
    assert rules["measured"]["fullDescription"]["text"] == "Nobody bets on <figures> of nobody."
    assert rules["mostly"]["shortDescription"]["text"] == "mostly: share of ttft within 2.5 s >= 90 % (nominal)"
    assert rules["quick"]["defaultConfiguration"]["level"] == "warning"
    assert "owner ops, night: shift" in rules["quick"]["help"]["text"]


# GitHub


def commands(case: str, *arguments: str) -> list[tuple[str, dict[str, str], str]]:
    """The commands as the runner reads them; every line is one."""
    found = []
    for line in written(case, "github", *arguments).splitlines():
        match = _COMMAND.fullmatch(line)
        assert match, line
        properties = dict(pair.split("=", 1) for pair in match[2].split(","))
        found.append((match[1], {key: unquote(value) for key, value in properties.items()}, unquote(match[3])))
    return found


@pytest.mark.parametrize("case", CASES)
def test_github_annotates_the_lines_of_the_rules(case: str) -> None:
    found, said = report(f"receipts/{case}"), commands(case)
    errors = [one for one in said if one[0] == "error"]
    words = Counter(message.splitlines()[0] for _, _, message in errors)
    expected = [
        f"{row['scenario'] or 'the decision'}: {row['words']}" for row in all_rows(found) if row["effect"] == "blocks"
    ]
    expected += [one["words"] for one in found["objections"] if one["kind"] != "verdict"]
    assert words == Counter(expected)
    assert bool(errors) == (case != "accepted")
    order = [("error", "warning", "notice").index(name) for name, _, _ in said]
    assert order == sorted(order)
    name, properties, message = said[-1]
    assert (name, properties["title"]) == ("notice", f"{found['cohort']}: gates")
    assert message.splitlines()[0] == found["summary"]["words"]
    for _, properties, message in said[:-1]:
        gate = properties["title"].removeprefix(f"{found['cohort']}: ")
        lines = Path(properties["file"]).read_text(encoding="utf-8").splitlines()
        at = lines[int(properties["line"]) - 1]
        assert gate in at or "exception" in message or message == "no topology qualifies"


def test_github_escapes_what_it_must() -> None:
    text = written("ruled", "github")
    assert f"the decision: {SAID.replace('%', '%25')}%0Aowner ops: Nobody bets" in text
    said = {properties["title"]: (name, message) for name, properties, message in commands("ruled")}
    assert said["bursty-documents: stall"][0] == "notice"
    assert "waived until 2026-12-31: the page smooths it: <no> 100 % (ui)" in said["bursty-documents: stall"][1]
    assert said["bursty-documents: quick"][0] == "warning"
    assert "not judged: elsewhere: a gate of overloaded only" in said["bursty-documents: gates"][1].splitlines()
    escaped = command("notice", {"title": "a:b,c%\r\n"}, "d:e,f%\r\n::error::")
    assert escaped == "::notice title=a%3Ab%2Cc%25%0D%0A::d:e,f%25%0D%0A::error::"
    assert {name for name, _, _ in commands("accepted", "--all")} == {"notice"}


# JSON


def keys(value: object) -> set[str]:
    if isinstance(value, list):
        return {key for one in value for key in keys(one)}
    if not isinstance(value, dict):
        return set()
    return set(value) | {key for one in value.values() for key in keys(one)}


def test_json_has_the_documented_keys_in_one_order(project: Path) -> None:
    documented = (project / "docs" / "gates.md").read_text(encoding="utf-8").partition("## `--format json`")[2]
    found = [report(f"receipts/{case}") for case in CASES]
    for one in found:
        assert keys(one) <= set(re.findall(r"[a-z_0-9]+", documented))
        assert list(one) == list(found[0])
        assert [list(row) for row in all_rows(one)] == [list(all_rows(found[0])[0])] * len(all_rows(one))
