"""Tests of rules, run and reported: as text, as JSON and as JUnit XML."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pipelines.cli.log_text import plain
from pipelines.declarations import DeclarationProblems, Problem
from pipelines.declarations.problems import show
from pipelines.declarations.rule_tests import files_of_tests, read_rule_tests
from pipelines.declarations.rule_tests_placed import RuleTest
from pipelines.declarations.rules import read_rules
from pipelines.planning.rule_tests import NOT_APPLICABLE, Outcome, run

_NOT_OF_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Tried:
    """What came of the tests, and the gates of the rules directory that no test that was read is of."""

    outcomes: Sequence[Outcome]
    untested: Sequence[str]

    @property
    def failed(self) -> int:
        """How many tests failed."""
        return sum(not outcome.passed for outcome in self.outcomes)

    @property
    def passed(self) -> int:
        """How many tests passed."""
        return len(self.outcomes) - self.failed


def tried(directory: Path, files: Sequence[Path], substring: str | None) -> Tried:
    """Run the tests in ``files``, those of ``directory`` where there are none; DeclarationProblems with all that is wrong before."""
    rules, problems = read_rules(directory)
    if not files:
        files, missing = files_of_tests(directory)
        problems += missing if directory.is_dir() else []
    tests, of_tests = read_rule_tests(files, rules)
    problems += of_tests
    if problems or rules is None:
        raise DeclarationProblems(problems)
    tested = {test.gate for test in tests}
    chosen = [test for test in tests if substring is None or substring.casefold() in test.title.casefold()]
    if not chosen:
        found = f"no test has {show(substring)} in its gate or name; expected a part of one"
        raise DeclarationProblems([Problem("-k", 1, 1, "", found, f"the gates are {', '.join(sorted(tested))}")])
    return Tried(run(chosen, rules), [gate.id for gate in rules.gates if gate.alone and gate.id not in tested])


def text_lines(found: Tried) -> list[str]:
    """A line per failed test, and the sum of all."""
    lines = [plain(f"{_place(one)}: {one.test.title}: {_said(one)}") for one in found.outcomes if not one.passed]
    counts = [f"{count} {word}" for count, word in ((found.passed, "passed"), (found.failed, "failed")) if count]
    untested = f"; gates without a test: {', '.join(found.untested)}" if found.untested else ""
    return [*lines, f"{', '.join(counts)}{untested}"]


def _place(one: Outcome) -> str:
    """Where the first expectation that is not met is written."""
    mark = one.test.expect.at[one.wrong[0]]
    return f"{one.test.file}:{mark.line}:{mark.column}"


def _said(one: Outcome) -> str:
    """What was expected, and what was found instead."""
    expected, found = one.test.expect, one.found
    if "verdict" in one.wrong:
        why = f": {found.message}" if found.message else ""
        margin = "" if found.margin is None else f", margin {found.margin!r}"
        return f"expected {expected.verdict}, found {found.verdict}{why}{margin}"
    clauses = []
    if "margin" in one.wrong:
        clauses.append(f"expected margin {_number(expected.margin)}, found {_number(found.margin)}")
    if "message" in one.wrong:
        clauses.append(f'expected message "{expected.message}", found "{found.message}"')
    return "; ".join(clauses)


def _number(margin: float | None) -> str:
    return "none" if margin is None else repr(margin)


def as_json(found: Tried) -> dict[str, Any]:
    """Every test with what was expected and found, for a script."""
    return {
        "passed": found.passed,
        "failed": found.failed,
        "untested": list(found.untested),
        "tests": [_test_json(one) for one in found.outcomes],
    }


def _test_json(one: Outcome) -> dict[str, Any]:
    test, applies = one.test, one.found.verdict != NOT_APPLICABLE
    expected = {key: getattr(test.expect, key) for key in ("verdict", "margin", "message") if key in test.expect.at}
    said = {"verdict": one.found.verdict, "margin": one.found.margin, "message": one.found.message if applies else None}
    return {
        "file": test.file,
        "line": test.at.line,
        "column": test.at.column,
        "gate": test.gate,
        "name": test.name,
        "passed": one.passed,
        "expected": expected,
        "found": said | {"why_not_applicable": None if applies else one.found.message},
        "wrong": list(one.wrong),
    }


def as_junit(found: Tried) -> str:
    """JUnit XML: a suite per file, a case per test, with the gate as its class."""
    root = ElementTree.Element("testsuites", _counts("phaseledger rules test", found.outcomes))
    for file in dict.fromkeys(one.test.file for one in found.outcomes):
        own = [one for one in found.outcomes if one.test.file == file]
        suite = ElementTree.SubElement(root, "testsuite", _counts(file, own))
        for one in own:
            _case(suite, one)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}'


def _counts(name: str, outcomes: Sequence[Outcome]) -> dict[str, str]:
    failures = sum(not one.passed for one in outcomes)
    return {"name": _xml(name), "tests": str(len(outcomes)), "failures": str(failures), "errors": "0"}


def _case(suite: ElementTree.Element, one: Outcome) -> None:
    test: RuleTest = one.test
    about = {"name": _xml(test.name), "classname": _xml(test.gate), "file": _xml(test.file), "line": str(test.at.line)}
    case = ElementTree.SubElement(suite, "testcase", about)
    if not one.passed:
        failure = ElementTree.SubElement(case, "failure", {"message": _xml(_said(one)), "type": "expectation"})
        failure.text = _xml(f"{_place(one)}: {_said(one)}")


def _xml(text: str) -> str:
    """``text`` without what XML cannot hold."""
    return _NOT_OF_XML.sub("?", text)
