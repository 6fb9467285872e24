"""Whether rules are sound, with what cohorts have instead: everything that is wrong, or else what there is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pipelines.cli.checking import CheckedCohort, read_checked
from pipelines.cli.explain_layout import named, wrapped
from pipelines.cli.log_text import plural
from pipelines.declarations import DeclarationProblems, Gate, Rules
from pipelines.declarations.places import cohort_path
from pipelines.declarations.rule_tests import FOLDER, files_of_tests, read_rule_tests
from pipelines.declarations.rule_tests_placed import RuleTest
from pipelines.declarations.rules import read_rules
from pipelines.declarations.typed import RULE_KINDS, Waiver


@dataclass(frozen=True)
class Checked:
    """Rules with which nothing is wrong, their tests, and what cohorts make of them on the day ``as_of``."""

    directory: Path
    rules: Rules
    tests: Sequence[RuleTest]
    cohorts: Sequence[CheckedCohort]
    as_of: date

    @property
    def untested(self) -> list[str]:
        """The gates of the rules directory that no test is of."""
        tested = {test.gate for test in self.tests}
        return [gate.id for gate in self.rules.gates if gate.alone and gate.id not in tested]


def today() -> date:
    """The day, in UTC."""
    return datetime.now(UTC).date()


def checked(directory: Path, cohorts: Sequence[str], as_of: date) -> Checked:
    """The rules of ``directory``, their tests and what each of ``cohorts`` has instead; DeclarationProblems with all that is wrong."""
    rules, problems = read_rules(directory)
    files, unread = files_of_tests(directory) if (directory / FOLDER).exists() else ([], [])
    problems += unread
    tests, of_tests = read_rule_tests(files, rules)
    problems += of_tests
    found = []
    for name in cohorts:
        one, of_cohort = read_checked(cohort_path(name), directory)
        problems += of_cohort
        found += [one] if one is not None else []
    if problems or rules is None:
        raise DeclarationProblems(problems)
    return Checked(directory, rules, tests, found, as_of)


def _expired(one: Waiver, as_of: date) -> bool:
    return as_of > one.expires


def report_lines(found: Checked) -> list[str]:
    """What there is, as a person reads it."""
    rules = found.rules
    counts = [(len(rules.gates), "gate"), (len(rules.exceptions), "exception"), (len(found.tests), "test")]
    said = ", ".join(f"{count} {plural(count, word)}" for count, word in counts if count or word != "exception")
    lines = [f"{found.directory}: {said}; nothing is wrong", ""]
    lines += named([*_kinds(rules), ("Decision", f"{', '.join(rules.decision.prefer)} ({rules.decision.file})")])
    lines += wrapped(f"without a test: {', '.join(found.untested)}") if found.untested else []
    if rules.exceptions:
        lines += ["", f"exceptions as of {found.as_of.isoformat()}"]
        lines += [line for one in rules.exceptions for line in wrapped(_exception_said(one, found.as_of), "  ")]
    for one in found.cohorts:
        lines += ["", f"cohort {one.cohort.name}: {_where(one)}"]
        lines += [line for said in _cohort_said(one, found) for line in wrapped(said, "  ")]
    return lines


def _kinds(rules: Rules) -> list[tuple[str, str]]:
    """The gates by kind and file; those that do not block say so."""
    rows = []
    for kind in RULE_KINDS:
        files = dict.fromkeys(gate.file for gate in rules.gates if gate.kind == kind)
        for file in files:
            own = [gate for gate in rules.gates if (gate.kind, gate.file) == (kind, file)]
            names = ", ".join(gate.id if gate.blocking else f"{gate.id} [informs]" for gate in own)
            rows.append((kind, f"{names} ({file})"))
    return rows


def _exception_said(one: Waiver, as_of: date) -> str:
    where = f" for {', '.join(one.topologies)}" if one.topologies else ""
    cohorts = f" of {', '.join(one.cohorts)}" if one.cohorts else ""
    until = "expired on" if _expired(one, as_of) else "until"
    return f"{one.gate}{where}{cohorts} {until} {one.expires.isoformat()}: {one.reason} ({one.owner})"


def _where(one: CheckedCohort) -> str:
    return "no rules of its own" if one.own is None else f"rules of its own in {one.own}"


def _cohort_said(one: CheckedCohort, found: Checked) -> list[str]:
    """What holds for a cohort beside the rules directory, in the words of a plan."""
    from pipelines.frames.inputs import InputTable
    from pipelines.gates.rules import exceptions_frame, gates_frame, reads_a_date, resolved, rule_set_frame
    from pipelines.gates.rules_said import rules_said
    from pipelines.traces.freeze import inputs_frame

    name = one.cohort.name
    day = found.as_of if reads_a_date(one.rules, name) else None
    gates = resolved(gates_frame(one.rules, name, day), InputTable.of(inputs_frame(one.cohort)))
    said = rules_said(gates, exceptions_frame(one.rules, name, day), rule_set_frame(one.rules, day))
    added = [f"added: {gate.id}: {gate.file} of the cohort" for gate in _added(one, found)]
    return [*added, *said] or ["judged by all gates"]


def _added(one: CheckedCohort, found: Checked) -> list[Gate]:
    known = {gate.id for gate in found.rules.gates}
    return [gate for gate in one.rules.gates if gate.id not in known]


def report_json(found: Checked) -> dict[str, Any]:
    """What there is, for a script."""
    rules = found.rules
    return {
        "rules": str(found.directory),
        "as_of": found.as_of.isoformat(),
        "gates": [_gate_json(gate, found) for gate in rules.gates],
        "decision": {"file": rules.decision.file, "prefer": list(rules.decision.prefer)},
        "exceptions": [_exception_json(one, found.as_of) for one in rules.exceptions],
        "tests": len(found.tests),
        "untested": found.untested,
        "cohorts": [_cohort_json(one, found) for one in found.cohorts],
    }


def _gate_json(gate: Gate, found: Checked) -> dict[str, Any]:
    same = {name: getattr(gate, name) for name in ("id", "file", "kind", "scope", "metric", "severity", "blocking")}
    return same | {"owner": gate.owner, "tests": sum(test.gate == gate.id for test in found.tests)}


def _exception_json(one: Waiver, as_of: date) -> dict[str, Any]:
    cohorts = None if one.cohorts is None else list(one.cohorts)
    same = {name: getattr(one, name) for name in ("gate", "file", "reason", "owner")}
    lists = {"topologies": list(one.topologies), "cohorts": cohorts}
    return same | lists | {"expires": one.expires.isoformat(), "expired": _expired(one, as_of)}


def _cohort_json(one: CheckedCohort, found: Checked) -> dict[str, Any]:
    from pipelines.frames.inputs import InputTable
    from pipelines.gates.rules import gates_frame, resolved
    from pipelines.traces.freeze import inputs_frame

    inputs = InputTable.of(inputs_frame(one.cohort))
    gates = resolved(gates_frame(one.rules, one.cohort.name, found.as_of), inputs)
    known = set(found.rules.exceptions)
    return {
        "name": one.cohort.name,
        "rules": None if one.own is None else str(one.own),
        "overridden": {gate.id: gate.overrides for gate in one.rules.gates if gate.overrides is not None},
        "added": [gate.id for gate in _added(one, found)],
        "decision_overrides": one.rules.decision.overrides,
        "exceptions": [_exception_json(own, found.as_of) for own in one.rules.exceptions if own not in known],
        "not_judged": [row["gate"] for row in gates.iter_rows(named=True) if not row["applies"]],
    }
