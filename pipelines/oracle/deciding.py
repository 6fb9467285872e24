"""The decision: which scenario is chosen, why the other topologies are not, and what the answer rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .accepting import check_accepted, critical_pools, evidence_of, judge_decision
from .findings import Ledger
from .judging import Grounds, Judged, passes
from .names import TOPOLOGIES
from .parameters import Inputs
from .resting import rests_on

RULES = "docs/formats.md, Decision"


@dataclass(frozen=True)
class Candidate:
    """A scenario with its verdicts and its place in the matrix."""

    place: int
    row: Mapping[str, Any]
    judged: Sequence[Judged]

    @property
    def name(self) -> str:
        """The scenario's name."""
        return str(self.row["scenario"])

    @property
    def topology(self) -> str:
        """The scenario's topology."""
        return str(self.row["topology"])

    @property
    def passes(self) -> bool:
        """Whether it may be chosen."""
        return passes(self.row, self.judged)

    @property
    def blocking(self) -> list[Judged]:
        """The verdicts of the gates that block it."""
        return [entry for entry in self.judged if entry.may_block]

    @property
    def failing(self) -> list[Judged]:
        """The verdicts that keep it from passing."""
        return [entry for entry in self.judged if entry.blocks]

    def worth(self, key: str) -> float:
        """What one key of `prefer` compares: operating parts, GPUs, or the smallest margin of the gates that block it."""
        if key == "margin":
            return min((entry.margin for entry in self.blocking if entry.margin is not None), default=0.0)
        return float(self.row[key])

    def preference(self, prefer: Sequence[str]) -> tuple[float, ...]:
        """Sort key among scenarios that pass: the smallest is chosen."""
        return (*(-self.worth(key) if key == "margin" else self.worth(key) for key in prefer), float(self.place))

    def miss(self) -> tuple[float, ...]:
        """Sort key among scenarios that do not pass: the smallest is the nearest miss."""
        refused = sum(entry.verdict == "refused" for entry in self.failing)
        violations = [1.0 if e.margin is None else -e.margin for e in self.failing if e.verdict == "fail"]
        pressure = float(self.row["bounds"]["nominal"]["pressure"])
        return (float(refused), max(violations, default=0.0), pressure, float(self.row["gpus"]), float(self.place))


@dataclass(frozen=True)
class Choice:
    """The decision, recomputed: the chosen scenario, and one candidate for each other compared topology."""

    chosen: Candidate | None
    rejected: tuple[Candidate, ...]

    @property
    def resting(self) -> tuple[Candidate, ...]:
        """The scenarios whose inputs the decision rests on."""
        return (self.chosen,) if self.chosen else self.rejected

    @property
    def speaking(self) -> tuple[Candidate, ...]:
        """The scenarios that stand for their topologies: chosen, or compared as rejected; in the order of topologies."""
        both = (*((self.chosen,) if self.chosen else ()), *self.rejected)
        return tuple(sorted(both, key=lambda candidate: TOPOLOGIES.index(candidate.topology)))

    def of_topology(self, topology: str) -> str | None:
        """Return the scenario that stands for a topology."""
        return next((c.name for c in self.speaking if c.topology == topology), None)


def decide(candidates: Sequence[Candidate], compared: Sequence[str], prefer: Sequence[str]) -> Choice:
    """Choose the smallest scenario that passes, and the representative of every other topology."""
    passing = [candidate for candidate in candidates if candidate.passes]
    chosen = min(passing, key=lambda candidate: candidate.preference(prefer), default=None)
    rejected = []
    for topology in compared:
        own = [candidate for candidate in candidates if candidate.topology == topology]
        if not own or (chosen and chosen.topology == topology):
            continue
        best = min((c for c in own if c.passes), key=lambda c: c.preference(prefer), default=None)
        rejected.append(best or min(own, key=Candidate.miss))
    return Choice(chosen, tuple(rejected))


def check_decision(
    ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs, choice: Choice, grounds: Grounds
) -> None:
    """Compare outcome, chosen scenario, rejected topologies and provenance of the decision, and whether it is accepted."""
    found, chosen = receipt["decision"], choice.chosen
    outcome = "topology_chosen" if chosen else "no_topology_qualifies"
    ledger.same("decision", "decision.outcome", found["outcome"], outcome, RULES)
    ledger.same("decision", "decision.scenario", found["scenario"], chosen.name if chosen else None, RULES)
    ledger.same("decision", "decision.topology", found["topology"], chosen.topology if chosen else None, RULES)
    _check_rejected(ledger, receipt["rejected"], choice)
    rests = rests_on(receipt, inputs, [(c.topology, c.judged) for c in choice.resting])
    _check_rests_on(ledger, found, rests)
    evidence = evidence_of(receipt, inputs, rests)
    critical = critical_pools(receipt, chosen.topology if chosen else None)
    verdicts = judge_decision(receipt["rules"]["gates"], evidence, receipt["as_of"], grounds, critical)
    check_accepted(ledger, receipt, verdicts, outcome)


def _check_rejected(ledger: Ledger, found: Sequence[Mapping[str, Any]], choice: Choice) -> None:
    names, expected_names = [row["topology"] for row in found], [c.topology for c in choice.rejected]
    if not ledger.listed("rejected", "rejected", names, expected_names, "compared and not chosen"):
        return
    for row, candidate in zip(found, choice.rejected, strict=True):
        where = f"rejected[{row['topology']}]"
        ledger.same("rejected", f"{where}.scenario", row["scenario"], candidate.name, RULES)
        status = "passes_but_larger" if candidate.passes else "nearest_miss"
        ledger.same("rejected", f"{where}.status", row["status"], status, RULES)
        gates = [entry["gate"] for entry in row["failing"]]
        expected = [entry.gate["id"] for entry in candidate.failing]
        if ledger.listed("rejected", f"{where}.failing", gates, expected, "gates that block it and do not pass"):
            for entry, judged in zip(row["failing"], candidate.failing, strict=True):
                place = f"{where}.failing[{entry['gate']}]"
                ledger.same("rejected", f"{place}.verdict", entry["verdict"], judged.verdict, RULES)
                ledger.same("rejected", f"{place}.figure", entry["figure"], judged.figure, "the exported figure")
                ledger.same("rejected", f"{place}.limit", entry["limit"], judged.limit, "the gate's limit")


def _check_rests_on(ledger: Ledger, found: Mapping[str, Any], expected: list[tuple[str, str]]) -> None:
    paths = [entry["path"] for entry in found["rests_on"]]
    if ledger.listed("provenance", "decision.rests_on", paths, [path for path, _ in expected], RULES):
        for entry, (path, provenance) in zip(found["rests_on"], expected, strict=True):
            where = f"decision.rests_on[{path}].provenance"
            ledger.same("provenance", where, entry["provenance"], provenance, "the provenance of the input")
    unobserved = sum(provenance != "observed" for _, provenance in expected) / len(expected)
    ledger.figure("provenance", "decision.unobserved_share", found["unobserved_share"], unobserved, RULES)
