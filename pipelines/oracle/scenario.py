"""What the evaluation of one scenario at one bound yields: loads, a refusal, or the timelines of its buckets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from .equations import DecodeWork, Wait
from .parameters import Parameters
from .structure import LANES
from .traffic import Moments, Traffic
from .transfers import Movement


@dataclass(frozen=True)
class Knobs:
    """A topology with its pool sizes and chunk budget."""

    topology: str
    workers_mixed: int | None = None
    workers_prefill: int | None = None
    workers_decode: int | None = None
    chunk_tokens: int | None = None

    @property
    def name(self) -> str:
        """The scenario's name in the matrix."""
        if self.topology == "disaggregated":
            return f"disaggregated/p{self.workers_prefill}/d{self.workers_decode}"
        chunk = f"/c{self.chunk_tokens}" if self.chunk_tokens is not None else ""
        return f"{self.topology}/n{self.workers_mixed}{chunk}"

    @property
    def workers(self) -> int:
        """All workers of the scenario."""
        return sum(n or 0 for n in (self.workers_mixed, self.workers_prefill, self.workers_decode))


@dataclass(frozen=True)
class Load:
    """One load of a scenario and the ceiling it must stay below."""

    resource: str
    utilization: float
    ceiling: float


@dataclass(frozen=True)
class Refusal:
    """Why a scenario has no latency figure."""

    kind: str
    resource: str
    figure: float
    limit: float


class Refused(Exception):  # noqa: N818 - a refusal is an answer, not an error
    """Raised where a load meets its ceiling; the loads gathered so far remain."""

    def __init__(self, refusal: Refusal) -> None:
        """Carry the refusal to where the scenario is evaluated."""
        super().__init__(refusal.resource)
        self.refusal = refusal


@dataclass
class Gauge:
    """Gathers a scenario's loads in their order, and refuses at the first that meets its ceiling."""

    KINDS: ClassVar[dict[str, str]] = {
        "prefill_lane": "prefill_starved",
        "link": "link_saturated",
        "slots": "slots",
        "kv_mixed": "kv_memory",
        "kv_prefill": "kv_memory",
        "kv_decode": "kv_memory",
        "staging": "staging",
    }
    loads: list[Load] = field(default_factory=list)

    def take(self, resource: str, utilization: float, ceiling: float, kind: str | None = None) -> None:
        """Add a load; at or above its ceiling it refuses the scenario, of the resource's kind or the given one."""
        self.loads.append(Load(resource, utilization, ceiling))
        if utilization >= ceiling:
            named = kind or self.KINDS.get(resource, "utilization")
            raise Refused(Refusal(named, resource, utilization, ceiling))

    def take_slots(self, of: Parameters, batch: float, cap: float) -> None:
        """`σ = b/B`, `1/B` if not one sequence fits; where memory is what caps the batch, memory refuses."""
        share = batch / cap if cap >= 1 else 1 / cap
        self.take("slots", share, of.decode_ceiling, "kv_memory" if cap < of.max_sequences else None)


@dataclass(frozen=True)
class Timeline:
    """The eight lanes of a bucket's mean request (s), and the latencies they add up to."""

    bucket: str
    lanes: tuple[float, ...]
    ttft_s: float
    e2e_s: float
    tpot_s: float | None

    @property
    def transfer_s(self) -> float:
        """`transfer_wait + kv_movement` (s)."""
        return self.lanes[LANES.index("transfer_wait")] + self.lanes[LANES.index("kv_movement")]


def timeline(moments: Moments, lanes: tuple[float, ...], lanes_to_first_token: int) -> Timeline:
    """Add up a bucket's lanes: TTFT up to the first token, E2E all; `TPOT = (E2E - TTFT)/(o1_k - 1)`."""
    ttft, e2e = math.fsum(lanes[:lanes_to_first_token]), math.fsum(lanes)
    after_first = math.fsum(lanes[lanes_to_first_token:])
    tpot = after_first / (moments.o1 - 1) if moments.o1 > 1 else None
    return Timeline(moments.bucket, lanes, ttft, e2e, tpot)


@dataclass(frozen=True)
class Transit:
    """What happens to KV caches between the pools of a disaggregated scenario: waits, transfers, decode workers."""

    queues: float
    workers_decode: float
    link: Wait
    movement: Movement
    decode_wait_s: float
    step_s: float
    batch: float
    cap: float
    work: DecodeWork

    @property
    def wait_s(self) -> float:
        """`W_l` (s): the wait for a link."""
        return self.link.mean_s


@dataclass(frozen=True)
class Figures:
    """The latency figures of a scenario that is not refused."""

    timelines: tuple[Timeline, ...]
    stratum_ttft_s: tuple[float, ...]
    queue: Wait
    """The queue that keeps its distribution in goodput."""
    waits_s: dict[str, float]
    """The mean waits that compete for the dominant queue, in order."""
    decode_batch: float
    stall_s: float | None
    transit: Transit | None = None

    @property
    def ttft_worst_s(self) -> float:
        """The largest TTFT over buckets (s)."""
        return max(line.ttft_s for line in self.timelines)

    @property
    def tpot_worst_s(self) -> float | None:
        """The largest TPOT over buckets that have one (s)."""
        return max((line.tpot_s for line in self.timelines if line.tpot_s is not None), default=None)

    @property
    def e2e_worst_s(self) -> float:
        """The largest E2E over buckets (s)."""
        return max(line.e2e_s for line in self.timelines)

    @property
    def transfer_worst_s(self) -> float | None:
        """The largest `transfer_wait + kv_movement` over buckets (s); None where no state moves."""
        return max(line.transfer_s for line in self.timelines) if self.transit else None

    @property
    def dominant_queue(self) -> str:
        """The queue with the largest mean wait; the first of equals."""
        return max(self.waits_s, key=lambda name: self.waits_s[name])


@dataclass(frozen=True)
class Evaluation:
    """One scenario at one bound."""

    loads: tuple[Load, ...]
    refusal: Refusal | None
    figures: Figures | None

    @property
    def pressure(self) -> float:
        """The largest load/ceiling."""
        return max(load.utilization / load.ceiling for load in self.loads)

    @property
    def tightest(self) -> str:
        """The load that the pressure belongs to; the first of equals."""
        return max(self.loads, key=lambda load: load.utilization / load.ceiling).resource


def goodput(of: Parameters, traffic: Traffic, figures: Figures) -> float:
    """Share of the cohort that meets both objectives (docs/arithmetic.md section 7).

    `met_s = 1 - Pw·exp(-Pw·(ttft - fix_s)/W)`, 0 if `ttft < fix_s` or the bucket's TPOT exceeds its objective.
    """
    slow = {line.bucket for line in figures.timelines if line.tpot_s is not None and line.tpot_s > of.tpot_objective_s}
    met = (
        stratum.share * _met(figures.queue, of.ttft_objective_s - (ttft_s - figures.queue.mean_s))
        for stratum, ttft_s in zip(traffic.strata, figures.stratum_ttft_s, strict=True)
        if stratum.bucket not in slow
    )
    return math.fsum(met)


def _met(queue: Wait, slack_s: float) -> float:
    """Probability that the queue's wait is at most the slack (s)."""
    if slack_s < 0:
        return 0.0
    if queue.mean_s == 0:
        return 1.0
    return 1 - queue.probability * math.exp(-queue.probability * slack_s / queue.mean_s)
