"""A receipt against the declarations that it is said to be of: member by member, each difference with both sides."""

import json
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from pipelines.cli.checking import checked_cohort
from pipelines.declarations.places import chosen_rules, cohort_path
from pipelines.declarations.problems import show
from pipelines.declarations.typed import Cohort, Rules
from pipelines.frames.inputs import InputTable
from pipelines.planning.search import Asked, kept_scenarios
from pipelines.receipts.declared import FIGURES, declared_sections
from pipelines.receipts.reopened import reopened
from pipelines.traces.freeze import read_cohort_requests
from pipelines.traces.requests import CohortRequests

Json = dict[str, Any]

_NAMED_BY = {"inputs": "path", "rules.gates": "id"}
"""Lists whose rows have a name, and the member that holds it."""

_ABSENT = object()
_SHOWN, _LONGEST = 20, 120


@dataclass(frozen=True)
class Declarations:
    """A cohort as a person named it, with its rules and its requests."""

    name: str
    cohort: Cohort
    directory: Path
    rules: Rules
    found: CohortRequests


def read_declared(name: str, rules_option: str | None) -> Declarations:
    """The declarations that a plan of ``name`` would read; DeclarationProblems with everything that is wrong."""
    place, directory = cohort_path(name), chosen_rules(rules_option)
    checked = checked_cohort(place, directory)
    return Declarations(name, checked.cohort, directory, checked.rules, read_cohort_requests(checked.cohort))


@dataclass
class Comparison:
    """How many values of a receipt were compared with declarations, and those that differ."""

    declarations: Declarations
    compared: int = 0
    disagreements: list[Json] = field(default_factory=list)
    is_whole: bool = True

    @property
    def passed(self) -> bool:
        """Whether the receipt says what is declared."""
        return self.is_whole and not self.disagreements

    def as_json(self) -> Json:
        """What was compared with what, and every difference."""
        return {
            "cohort": self.declarations.name,
            "rules": str(self.declarations.directory),
            "compared": self.compared,
            "disagreements": self.disagreements,
        }

    def lines(self) -> list[str]:
        """The same for people; the first differences."""
        name, differ = self.declarations.name, len(self.disagreements)
        if not self.is_whole:
            return [f"declarations: not compared with {name}: this does not have the structure of a receipt"]
        outcome = f"{differ} differ from {name}" if differ else f"none differs from {name}"
        rows = [
            f"{row['where']}: the receipt has {_shown(row['receipt'])}, {name} declares {_shown(row['declared'])}"
            for row in self.disagreements[:_SHOWN]
        ]
        more = [f"... and {differ - _SHOWN} more"] if differ > _SHOWN else []
        return [
            _printable(line) for line in (f"declarations: {outcome} ({self.compared} values compared)", *rows, *more)
        ]

    def compare(self, where: str, receipt: Any, declared: Any) -> None:
        """Compare what the receipt and the declarations have at one place, down to single values."""
        if isinstance(receipt, dict) and isinstance(declared, dict):
            for name in declared | receipt:
                inner = f"{where}.{name}" if where else name
                self.compare(inner, receipt.get(name, _ABSENT), declared.get(name, _ABSENT))
        elif isinstance(receipt, list) and isinstance(declared, list):
            self._compare_lists(where, receipt, declared)
        else:
            self._same(where, receipt, declared)

    def _compare_lists(self, where: str, receipt: list[Any], declared: list[Any]) -> None:
        left, right = (_by_name(rows, _NAMED_BY.get(where)) for rows in (receipt, declared))
        if left is not None and right is not None:
            for name in right | left:
                self.compare(f"{where}[{name}]", left.get(name, _ABSENT), right.get(name, _ABSENT))
            if left.keys() == right.keys():
                self._same(f"{where}: order", list(left), list(right))
        elif len(receipt) == len(declared):
            for place, pair in enumerate(zip(receipt, declared, strict=True)):
                self.compare(f"{where}[{place}]", *pair)
        else:
            self._same(where, receipt, declared)

    def _same(self, where: str, receipt: Any, declared: Any) -> None:
        self.compared += 1
        if isinstance(receipt, bool) != isinstance(declared, bool) or receipt != declared:
            sides = {"receipt": receipt, "declared": declared}
            found = {side: None if value is _ABSENT else value for side, value in sides.items()}
            self.disagreements.append({"where": where} | found)


def _by_name(rows: list[Any], name: str | None) -> dict[str, Any] | None:
    """Rows by their names; None where they have none, or share one."""
    if name is None:
        return None
    named = {row[name]: row for row in rows if isinstance(row, dict) and isinstance(row.get(name), str)}
    return named if len(named) == len(rows) else None


def compared(receipt: Json, declarations: Declarations, *, is_whole: bool) -> Comparison:
    """Everything that a receipt says of its declarations beside what ``declarations`` are."""
    found = Comparison(declarations, is_whole=is_whole)
    if not is_whole:
        return found
    own = declared_sections(declarations.cohort, declarations.rules, declarations.found, _day(receipt["as_of"]))
    said = {name: receipt[name] for name in own}
    said["workload"] = {name: value for name, value in receipt["workload"].items() if name not in FIGURES}
    found.compare("", said, own)
    if not receipt["search"]["complete"] and found.passed:
        found.compare("scenarios", [row["scenario"] for row in receipt["scenarios"]], _searched(receipt))
    return found


def _searched(receipt: Json) -> list[str]:
    """Which scenarios the decision needs, of so many that not all are kept: the verifier looks at what is kept alone."""
    of = reopened(receipt)
    asked = Asked(InputTable.of(of.inputs), of.workload, of.rules.gates, of.rules.preference)
    return kept_scenarios(asked)["scenario"].to_list()


def _day(as_of: str | None) -> date | None:
    try:
        return None if as_of is None else date.fromisoformat(as_of)
    except ValueError:
        return None


def _shown(value: Any) -> str:
    if not isinstance(value, dict | list):
        return show(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _printable(line: str) -> str:
    """Without what a terminal would act on: the names of rows are the receipt's own."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)
