"""Whether the decision is accepted: gates on what it rests on and on what it needs, and exceptions that have expired."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .excepting import EVIDENCE_AGE, ON_DECISION, day_of, standing_of
from .findings import SIGNIFICANT_DIGITS, Ledger, round_significant
from .judging import Grounds, Judged, check_verdict, judge_figure
from .names import CRITICAL_POOLS
from .parameters import Inputs
from .resting import TRACE

CHECK = "accepted"
RULES = "docs/formats.md, Verdicts on the decision"
_DATES = re.compile("(?=([0-9]{4}-[0-9]{2}-[0-9]{2}))")
"""Where a date may begin: also within what looks like one, and is none."""


@dataclass(frozen=True)
class Evidence:
    """One of the inputs that the decision rests on."""

    path: str
    provenance: str
    source: str | None

    @property
    def observed(self) -> bool:
        """Whether it was observed."""
        return self.provenance == "observed"

    def age_days(self, as_of: str | None) -> int | None:
        """Return the days from the first date in its source; None where there is none, or it is yet to come.

        >>> Evidence("x", "observed", "run 2028-02-31, then 2028-02-28").age_days("2028-03-01")
        2
        """
        today = day_of(as_of)
        days = [day for found in _DATES.finditer(self.source or "") if (day := day_of(found[1])) is not None]
        return (today - days[0]).days if today is not None and days and days[0] <= today else None


@dataclass(frozen=True)
class OnDecision:
    """A verdict on the decision, and the paths that its figure may be said to come from."""

    judged: Judged
    inputs: tuple[list[str], ...]


def evidence_of(receipt: Mapping[str, Any], inputs: Inputs, rests: Sequence[tuple[str, str]]) -> list[Evidence]:
    """Return what a decision rests on, with its sources; that of the trace is the workload's."""
    sources = {path: row["source"] for path, row in inputs.rows.items()} | {TRACE: receipt["workload"]["source"]}
    return [Evidence(path, provenance, sources[path]) for path, provenance in rests]


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern matches a path as a whole; `*` is any characters, also none.

    >>> matches("service.*", "service.admission"), matches("*.tpot", "objectives.tpot"), matches("service", "service.x")
    (True, True, False)
    """
    first, *rest = pattern.split("*")
    if not rest:
        return path == pattern
    *middle, last = rest
    at, end = len(first), len(path) - len(last)
    if at > end or not (path.startswith(first) and path.endswith(last)):
        return False
    for part in middle:
        found = path.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def critical_pools(receipt: Mapping[str, Any], chosen: str | None) -> int | None:
    """Return how many pools of the chosen topology's scenario it needs every worker of; None where none is chosen."""
    rows = [row for row in receipt["changes"]["speaking"] if row["topology"] == chosen]
    return sum(not pool["passes"] for pool in rows[0]["one_worker_less"]) if rows else None


def judge_decision(
    gates: Sequence[Mapping[str, Any]],
    evidence: Sequence[Evidence],
    as_of: str | None,
    grounds: Grounds,
    critical: int | None,
) -> list[OnDecision]:
    """Judge a decision by the gates on it that apply."""
    found = []
    for gate in gates:
        if gate["applies"] and gate["scope"] == "decision":
            figure, paths = _figure_of(gate, evidence, as_of, critical)
            judged = replace(judge_figure(gate, figure, gate["limit"]), waived=grounds.waives(gate, ON_DECISION))
            found.append(OnDecision(judged, paths))
    return found


def _figure_of(
    gate: Mapping[str, Any], evidence: Sequence[Evidence], as_of: str | None, critical: int | None
) -> tuple[float | None, tuple[list[str], ...]]:
    """Return the figure that a gate on the decision judges, and the paths that it may be said to come from."""
    metric, patterns = gate["metric"], gate["inputs"]
    if metric == CRITICAL_POOLS:
        return critical, ([],)
    counted = [one for one in evidence if patterns is None or any(matches(pattern, one.path) for pattern in patterns)]
    return _aged(counted, as_of) if metric == EVIDENCE_AGE else _unobserved(metric, counted)


def _unobserved(metric: str, counted: Sequence[Evidence]) -> tuple[float, tuple[list[str], ...]]:
    """How many are not observed, or which share of them; and which."""
    paths = [one.path for one in counted if not one.observed]
    if metric == "unobserved_inputs":
        return len(paths), (paths,)
    return round_significant(len(paths) / len(counted), SIGNIFICANT_DIGITS) if counted else 0, (paths,)


def _aged(counted: Sequence[Evidence], as_of: str | None) -> tuple[float | None, tuple[list[str], ...]]:
    """Age of the oldest observed input in days; and which are so old, or have no age."""
    ages = {one.path: one.age_days(as_of) for one in counted if one.observed}
    undated = [path for path, age in ages.items() if age is None]
    if undated:
        return None, (undated,)
    known = {path: age for path, age in ages.items() if age is not None}
    oldest = max(known.values(), default=0)
    return oldest, ([path for path, age in known.items() if age == oldest],)


def objections_to(
    receipt: Mapping[str, Any], outcome: str, verdicts: Sequence[OnDecision]
) -> list[tuple[str, str | None]]:
    """Return why a decision is not accepted: kind and gate, in order."""
    cohort, as_of = receipt["cohort"]["name"], receipt["as_of"]
    exceptions = receipt["rules"]["exceptions"]
    expired = [one["gate"] for one in exceptions if standing_of(one, cohort, as_of) == "expired"]
    return [
        *([("no_topology", None)] if outcome != "topology_chosen" else []),
        *(("verdict", str(entry.judged.gate["id"])) for entry in verdicts if entry.judged.blocks),
        *(("exception", str(gate)) for gate in expired),
    ]


def check_accepted(ledger: Ledger, receipt: Mapping[str, Any], verdicts: Sequence[OnDecision], outcome: str) -> None:
    """Compare the verdicts on the decision, whether it is accepted, and why it is not."""
    decision = receipt["decision"]
    names, expected_names = [row["gate"] for row in decision["verdicts"]], [e.judged.gate["id"] for e in verdicts]
    if ledger.listed(CHECK, "decision.verdicts", names, expected_names, "gates on the decision that apply"):
        for row, entry in zip(decision["verdicts"], verdicts, strict=True):
            where = f"decision.verdicts[{row['gate']}]"
            check_verdict(ledger, where, row, entry.judged, RULES)
            paths = row["inputs"] if row["inputs"] in entry.inputs else entry.inputs[0]
            ledger.listed(CHECK, f"{where}.inputs", row["inputs"], paths, RULES)
    objections = objections_to(receipt, outcome, verdicts)
    found = [(row["kind"], row["gate"]) for row in decision["objections"]]
    ledger.listed(CHECK, "decision.objections", found, objections, RULES)
    ledger.same(CHECK, "decision.accepted", decision["accepted"], not objections, "docs/rules.md, Accepted")
