"""Exceptions: which of them hold at the date of the plan, and what they waive (docs/rules.md, Exceptions)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from .findings import Ledger

CHECK = "exceptions"
RULES = "docs/formats.md, Rules in a receipt"
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
ON_DECISION = "decision"
"""In place of a topology, of a gate on the decision."""
EVIDENCE_AGE = "evidence_age"
"""The metric that reads a date."""

Waived = frozenset[tuple[str, str]]
"""Gates, each with a topology that it is waived for."""


def day_of(text: str | None) -> date | None:
    """Return a day of the calendar; None of other text.

    >>> day_of("2028-02-29"), day_of("2027-02-29"), day_of("20270228")
    (datetime.date(2028, 2, 29), None, None)
    """
    if text is None or not re.fullmatch(DATE, text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def names_cohort(rule: Mapping[str, Any], cohort: str) -> bool:
    """Whether a gate or an exception is for a cohort."""
    return rule["cohorts"] is None or cohort in rule["cohorts"]


def standing_of(exception: Mapping[str, Any], cohort: str, as_of: str | None) -> str:
    """Return whether an exception is for another cohort, has expired, or holds: still on its last day."""
    if not names_cohort(exception, cohort):
        return "other_cohort"
    today, last = day_of(as_of), day_of(exception["expires"])
    return "expired" if today is not None and last is not None and today > last else "holds"


def waived_of(receipt: Mapping[str, Any]) -> Waived:
    """Return what the exceptions that hold waive."""
    cohort, as_of = receipt["cohort"]["name"], receipt["as_of"]
    return frozenset(
        (exception["gate"], topology)
        for exception in receipt["rules"]["exceptions"]
        if standing_of(exception, cohort, as_of) == "holds"
        for topology in exception["topologies"] or [ON_DECISION]
    )


def check_exceptions(ledger: Ledger, receipt: Mapping[str, Any]) -> None:
    """Check the exceptions against the gates, where each of them stands, and the date that this follows from."""
    cohort, as_of, rules = receipt["cohort"]["name"], receipt["as_of"], receipt["rules"]
    gates = {gate["id"]: gate for gate in rules["gates"]}
    _check_as_of(ledger, receipt)
    for place, exception in enumerate(rules["exceptions"]):
        where = f"rules.exceptions[{place}]"
        known = day_of(exception["expires"]) is not None
        ledger.holds(CHECK, f"{where}.expires", known, exception["expires"], "a day of the calendar")
        expected = standing_of(exception, cohort, as_of)
        ledger.same(CHECK, f"{where}.standing", exception["standing"], expected, RULES)
        gate = gates.get(exception["gate"])
        if ledger.holds(CHECK, f"{where}.gate", gate is not None, exception["gate"], "a gate") and gate is not None:
            _check_waives(ledger, where, exception["topologies"], gate)


def _check_waives(ledger: Ledger, where: str, topologies: Sequence[str], gate: Mapping[str, Any]) -> None:
    """Check that an exception is of a blocking gate, and for topologies that this concerns; or was of the gate that it overrides."""
    if gate["overrides"] is None:
        ledger.same(CHECK, f"{where}.gate", gate["blocking"], True, f"only a blocking gate is waived: {gate['id']}")
    ledger.same(CHECK, f"{where}.topologies", len(set(topologies)), len(topologies), "each topology once")
    concerned = [name for name in topologies if name in gate["topologies"]]
    ledger.listed(CHECK, f"{where}.topologies", topologies, concerned, f"{gate['id']} does not concern the others")
    some = bool(topologies) == bool(gate["topologies"]) or gate["overrides"] is not None
    ledger.holds(CHECK, f"{where}.topologies", some, topologies, gate["topologies"], "what it waives the gate for")


def _check_as_of(ledger: Ledger, receipt: Mapping[str, Any]) -> None:
    """Check that there is a date exactly where a rule reads one."""
    cohort, as_of, rules = receipt["cohort"]["name"], receipt["as_of"], receipt["rules"]
    ages = [gate for gate in rules["gates"] if gate["metric"] == EVIDENCE_AGE]
    read = any(names_cohort(rule, cohort) for rule in (*ages, *rules["exceptions"]))
    if as_of is not None:
        ledger.holds(CHECK, "as_of", day_of(as_of) is not None, as_of, "a day of the calendar")
    there = "a date where an exception for the cohort or a gate on evidence_age reads one, and none elsewhere"
    ledger.holds(CHECK, "as_of", (as_of is not None) == read, as_of, there, RULES)
