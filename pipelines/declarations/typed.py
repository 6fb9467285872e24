"""The typed, frozen objects that declarations become. All quantities are in SI units (s, B, B/s, tokens/s)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Topology = Literal["aggregated", "chunked", "disaggregated"]
Provenance = Literal["observed", "supplied"]
Bound = Literal["nominal", "conservative"]
Op = Literal["lte", "lt", "gte", "gt"]
Severity = Literal["error", "warn"]

TOPOLOGIES: tuple[Topology, ...] = ("aggregated", "chunked", "disaggregated")
RULE_KINDS = ("LatencyObjective", "Goodput", "TransferBudget", "Capacity", "Decision")


@dataclass(frozen=True)
class Input:
    """One row of the inputs table: a declared value in ``unit``, its range, and the end of the range that hurts."""

    path: str
    unit: str
    value: float | int | str
    low: float | None
    high: float | None
    conservative: float | int | str
    provenance: str
    source: str | None
    note: str | None


@dataclass(frozen=True)
class TraceSource:
    """The request log of a cohort; ``format`` is None where the header decides."""

    file: Path
    format: str | None
    provenance: str
    source: str | None
    note: str | None


@dataclass(frozen=True)
class Cohort:
    """The frozen question: a trace and every declared input, in the order of the inputs table."""

    name: str
    title: str
    description: str | None
    model_name: str
    directory: Path
    trace: TraceSource
    bucket_edges_tokens: tuple[int, ...]
    inputs: tuple[Input, ...]

    @property
    def topologies(self) -> tuple[str, ...]:
        """The compared topologies, in the order aggregated, chunked, disaggregated."""
        return tuple(self._text("topologies.compared").split())

    @property
    def chunk_tokens(self) -> tuple[int, ...]:
        """The chunk budgets in ascending order, in tokens; empty where chunked is not compared."""
        return tuple(int(budget) for budget in self._text("topologies.chunked.chunk_tokens").split())

    def _text(self, path: str) -> str:
        return next((str(row.value) for row in self.inputs if row.path == path), "")


@dataclass(frozen=True)
class Gate:
    """One rule over one figure. ``limit`` is in the metric's SI unit, None where the limit is an ``objective``."""

    id: str
    file: str
    kind: str
    metric: str
    topologies: tuple[str, ...]
    bound: str
    op: str
    limit: float | None
    objective: str | None
    severity: str
    blocking: bool
    owner: str
    rationale: str | None


@dataclass(frozen=True)
class DecisionRule:
    """How the choice is made among scenarios that pass: sort keys, and the weight of each operating part."""

    prefer: tuple[str, ...]
    operating_part_weights: Mapping[str, float]


@dataclass(frozen=True)
class Rules:
    """All gates, by file name and then by place in the file, and the one decision."""

    gates: tuple[Gate, ...]
    decision: DecisionRule
