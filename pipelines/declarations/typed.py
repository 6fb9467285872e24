"""The typed, frozen objects that declarations become. All quantities are in SI units (s, B, B/s, tokens/s)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Literal

from pipelines.frames.metrics import CRITICAL_POOLS

Topology = Literal["aggregated", "chunked", "disaggregated", "routed"]
Provenance = Literal["observed", "supplied"]
Bound = Literal["nominal", "conservative"]
Op = Literal["lte", "lt", "gte", "gt"]
Severity = Literal["error", "warn"]
Scope = Literal["scenario", "decision"]
OnInvalid = Literal["reject", "drop"]
CacheScope = Literal["shared", "per_worker"]
ArrivalKind = Literal["open", "rate", "closed"]

TOPOLOGIES: tuple[Topology, ...] = ("aggregated", "chunked", "disaggregated", "routed")
SCENARIO_KINDS = ("LatencyObjective", "Goodput", "TransferBudget", "Capacity")
DECISION_KINDS = ("Provenance",)
RULE_KINDS = (*SCENARIO_KINDS, *DECISION_KINDS, "Exceptions", "Decision")


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
class ColumnMap:
    """Where a log of no known format holds what is read: column names, or dotted paths in JSONL."""

    arrival: str | None
    unit: str | None
    prompt_tokens: str
    output_tokens: str
    cached_prompt_tokens: str | None = None
    model: str | None = None
    adapter: str | None = None
    priority: str | None = None


@dataclass(frozen=True)
class TraceSource:
    """The request log of a cohort and how it is to be read; ``format`` is None where the first record decides."""

    file: Path
    format: str | None
    provenance: str
    source: str | None
    note: str | None
    columns: ColumnMap | None = None
    on_invalid: OnInvalid = "reject"
    context_tokens: int | None = None
    spread_ties_ns: int | None = None
    turn_time_ns: int | None = None
    turn_time_per_output_token_ns: int | None = None
    lengths: Path | None = None


@dataclass(frozen=True)
class RequestClass:
    """``weight`` requests, all of the same token counts."""

    weight: int
    prompt_tokens: int
    cached_prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Classes:
    """Requests declared without a log."""

    members: tuple[RequestClass, ...]
    provenance: str
    source: str | None
    note: str | None


@dataclass(frozen=True)
class Slice:
    """The part of a log that a cohort stands for; applied in the order of these fields. Upper ends are excluded."""

    window_ns: tuple[int | None, int | None] | None = None
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prompt_tokens: tuple[int | None, int | None] | None = None
    thin: tuple[int, int] | None = None  # the first `keep` of every `of` requests
    repeat: int = 1
    scale_rate: Fraction = Fraction(1)


@dataclass(frozen=True)
class PrefixCache:
    """A cache of prompt blocks; ``capacity_tokens`` None is without limit, ``workers`` is 1 where it is shared."""

    capacity_tokens: int | None
    scope: CacheScope
    workers: int


@dataclass(frozen=True)
class ChosenEdges:
    """Bucket edges to be chosen from the requests, for ``buckets`` buckets."""

    by: Literal["quantiles", "log"]
    buckets: int


@dataclass(frozen=True)
class Cohort:
    """The frozen question: requests (exactly one of a trace and classes) and every declared input, in the order of the inputs table."""

    name: str
    title: str
    description: str | None
    model_name: str
    directory: Path
    trace: TraceSource | None
    classes: Classes | None
    slice: Slice
    prefix_cache: PrefixCache | None
    bucket_edges_tokens: tuple[int, ...] | ChosenEdges
    inputs: tuple[Input, ...]
    file: Path | None = None
    read_with: tuple[Path, ...] = ()
    """Files beside the log that inputs were read from: a model's config.json, a table of transfers, service curves."""

    @property
    def kind(self) -> ArrivalKind:
        """Where arrivals come from: the trace (open), a declared rate, or requests that leave (closed loop)."""
        declared = {row.path for row in self.inputs}
        return "rate" if "requests.rate" in declared else "closed" if "requests.concurrency" in declared else "open"

    @property
    def topologies(self) -> tuple[str, ...]:
        """The compared topologies, in the order aggregated, chunked, disaggregated, routed."""
        return tuple(self._text("topologies.compared").split())

    @property
    def chunk_tokens(self) -> tuple[int, ...]:
        """The chunk budgets in ascending order, in tokens; empty where chunked is not compared."""
        return self._tokens("topologies.chunked.chunk_tokens")

    @property
    def threshold_tokens(self) -> tuple[int, ...]:
        """The thresholds of routed in ascending order, in tokens; empty where routed is not compared."""
        return self._tokens("topologies.routed.threshold_tokens")

    @property
    def routed_chunk_tokens(self) -> tuple[int, ...]:
        """The chunk budgets for the short prompts of routed in ascending order, in tokens; empty where whole prompts alone are compared."""
        return self._tokens("topologies.routed.chunk_tokens")

    @property
    def forced_edges_tokens(self) -> tuple[int, ...]:
        """Bucket edges that thresholds and the objectives of buckets need, ascending, whatever edges are declared or chosen."""
        buckets = (row.path.split(".") for row in self.inputs if row.path.startswith("objectives.buckets."))
        return tuple(sorted({*self.threshold_tokens, *(int(edge) for _, _, edge, _ in buckets)}))

    def _tokens(self, path: str) -> tuple[int, ...]:
        return tuple(int(count) for count in self._text(path).split())

    def _text(self, path: str) -> str:
        return next((str(row.value) for row in self.inputs if row.path == path), "")


@dataclass(frozen=True)
class Gate:
    """One rule over one figure. ``limit`` and ``within`` are in the metric's SI unit, None where they are objectives.

    ``limit`` is None as well where it is ``limit_times`` the metric ``limit_metric``, or the best figure of ``limit_baseline``.
    ``scope`` is what the figure is of; of the decision, there is no ``bound`` and there are no ``topologies``. None is everything for
    ``buckets``, ``inputs`` and ``cohorts``. ``instead_of`` says what it asks for, and what the gate did that it overrides.
    """

    id: str
    file: str
    overrides: str | None
    instead_of: str | None
    kind: str
    scope: Scope
    metric: str
    topologies: tuple[str, ...]
    buckets: tuple[str, ...] | None
    aggregate: str | None
    within: float | None
    within_objective: str | None
    inputs: tuple[str, ...] | None
    cohorts: tuple[str, ...] | None
    bound: str | None
    op: str
    limit: float | None
    objective: str | None
    limit_metric: str | None
    limit_baseline: str | None
    limit_times: float | None
    severity: str
    blocking: bool
    message: str | None
    owner: str
    rationale: str | None

    @property
    def alone(self) -> bool:
        """Whether its verdict follows from the figures of one scenario, or from what a decision rests on."""
        return self.limit_baseline is None and self.metric != CRITICAL_POOLS

    def needs(self) -> tuple[str, ...]:
        """The objectives without which it does not apply."""
        return tuple(name for name in (self.objective, self.within_objective) if name is not None)

    def concerns(self, cohort: str) -> bool:
        """Whether it is a rule for the cohort of this name."""
        return self.cohorts is None or cohort in self.cohorts


@dataclass(frozen=True)
class Waiver:
    """A gate that does not block for ``topologies`` (none of a gate on the decision) until the end of the day ``expires``."""

    gate: str
    file: str
    topologies: tuple[str, ...]
    cohorts: tuple[str, ...] | None
    reason: str
    owner: str
    expires: date

    def concerns(self, cohort: str) -> bool:
        """Whether it is an exception for the cohort of this name."""
        return self.cohorts is None or cohort in self.cohorts


@dataclass(frozen=True)
class DecisionRule:
    """How the choice is made among scenarios that pass: sort keys, and the weight of each operating part."""

    prefer: tuple[str, ...]
    operating_part_weights: Mapping[str, float]
    file: str = "decision.yaml"
    overrides: str | None = None


@dataclass(frozen=True)
class Rules:
    """All gates, by file name and then by place in the file, the exceptions, and the one decision."""

    gates: tuple[Gate, ...]
    decision: DecisionRule
    exceptions: tuple[Waiver, ...] = ()
