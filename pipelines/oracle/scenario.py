"""One evaluated scenario: loads, a refusal, or the figures of its paths."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar

from .equations import Decode
from .goodput import FirstTokens, Generation, mean_met, slack_s
from .names import LANES
from .objectives import Objectives
from .pacing import Crowd
from .parameters import Parameters
from .queues import Wait
from .screening import Regime, screening
from .traffic import Moments, Requests
from .transfers import Movement


@dataclass(frozen=True)
class Knobs:
    """A topology with its pool sizes, chunk budget and threshold."""

    topology: str
    workers_mixed: int | None = None
    workers_prefill: int | None = None
    workers_decode: int | None = None
    chunk_tokens: int | None = None
    threshold_tokens: int | None = None

    @cached_property
    def name(self) -> str:
        """The scenario's name in the matrix."""
        parts = (
            ("t", self.threshold_tokens),
            ("n", self.workers_mixed),
            ("c", self.chunk_tokens),
            ("p", self.workers_prefill),
            ("d", self.workers_decode),
        )
        return "/".join((self.topology, *(f"{letter}{number}" for letter, number in parts if number is not None)))

    @property
    def pools(self) -> dict[str, int]:
        """The pools of the scenario, in order, and the workers of each."""
        sizes = {"mixed": self.workers_mixed, "prefill": self.workers_prefill, "decode": self.workers_decode}
        return {pool: size for pool, size in sizes.items() if size is not None}


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
    """Gathers the loads of a path in their order, and refuses at the first that meets its ceiling."""

    KINDS: ClassVar[dict[str, str]] = {
        "prefill_lane": "prefill_starved",
        "link": "link_saturated",
        "slots_mixed": "slots",
        "slots_decode": "slots",
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

    def take_slots(self, pool: str, of: Parameters, batch: float, cap: float) -> None:
        """`σ = b/B`, `1/B` if not one sequence fits; where memory is what caps the batch, memory refuses."""
        share = batch / cap if cap >= 1 else 1 / cap
        self.take(f"slots_{pool}", share, of.decode_ceiling, "kv_memory" if cap < of.max_sequences else None)


@dataclass(frozen=True)
class Timeline:
    """The eight lanes of a bucket's mean request (s), and the latencies they add up to."""

    bucket: str
    lanes: tuple[float, ...]
    ttft_s: float
    e2e_s: float
    tpot_s: float | None
    after_first_s: float

    @property
    def transfer_s(self) -> float:
        """`transfer_wait + kv_movement` (s)."""
        return self.lanes[_TRANSFER_WAIT] + self.lanes[_KV_MOVEMENT]


_TRANSFER_WAIT, _KV_MOVEMENT = LANES.index("transfer_wait"), LANES.index("kv_movement")


def timeline(moments: Moments, lanes: tuple[float, ...], lanes_to_first_token: int) -> Timeline:
    """Add up a bucket's lanes: TTFT up to the first token, E2E all; `TPOT = (E2E - TTFT)/(o1_k - 1)`."""
    ttft, e2e = math.fsum(lanes[:lanes_to_first_token]), math.fsum(lanes)
    after_first = math.fsum(lanes[lanes_to_first_token:])
    tpot = after_first / (moments.o1 - 1) if moments.o1 > 1 else None
    return Timeline(moments.bucket, lanes, ttft, e2e, tpot, after_first)


@dataclass(frozen=True)
class Transit:
    """What happens to KV caches between the pools of a separated path: waits, transfers, decode workers."""

    rate_rps: float
    queues: float
    workers_decode: float
    link: Wait
    movement: Movement
    rest_s: float
    slot_s: float
    """`A(0, x)·t/2`, the rest of a step, and `W_slot`, the wait for a slot."""
    pace_s: float
    batch: float
    crowd: Crowd
    decode: Decode

    @property
    def wait_s(self) -> float:
        """`W_l` (s): the wait for a link."""
        return self.link.mean_s

    @property
    def decode_wait_s(self) -> float:
        """`decode_wait` (s)."""
        return self.rest_s + self.slot_s


@dataclass(frozen=True)
class PathFigures:
    """The latency figures of one path that is not refused; what few ask for is computed when it is asked for."""

    requests: Requests
    timelines: tuple[Timeline, ...]
    waits_s: dict[str, float]
    """The mean waits that compete for the dominant queue, in order."""
    decode_batch: float
    firsts: Callable[[], FirstTokens]
    generation: Callable[[], Generation]
    stall: Callable[[], float | None]
    regime: Callable[[], Regime]
    transit: Transit | None = None

    @cached_property
    def stall_s(self) -> float | None:
        """The gap between tokens (s) that is exceeded about once; None where there is none."""
        return self.stall()

    def met(self, objectives: Objectives) -> dict[str, float]:
        """`met_k = (Σ v_s·met_s)·(Σ N_v/N_k·met_v)` of every bucket: its share of the whole cohort that meets all."""
        firsts, generation, requests = self.firsts(), self.generation(), self.requests
        found: dict[str, float] = {}
        for place, line in enumerate(self.timelines):
            most = slack_s(objectives, line.bucket, line.after_first_s)
            first = requests.mean_of(line.bucket, partial(firsts.met, most))
            tpot = objectives.of("tpot", line.bucket)
            own = requests.outputs_of.get(line.bucket, [])
            pace = 1.0 if tpot is None else mean_met((v.requests, generation.met(place, v.o1, tpot)) for v in own)
            found[line.bucket] = requests.buckets[place].requests / requests.cohort * first * pace
        return found


@dataclass(frozen=True)
class Figures:
    """The latency figures of a scenario that is not refused: those of its paths together."""

    paths: tuple[PathFigures, ...]

    @cached_property
    def timelines(self) -> tuple[Timeline, ...]:
        """One timeline of every bucket, in order."""
        return tuple(line for path in self.paths for line in path.timelines)

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
    def stall_s(self) -> float | None:
        """The larger of the paths' stalls (s)."""
        return max((path.stall_s for path in self.paths if path.stall_s is not None), default=None)

    @property
    def decode_batch(self) -> float:
        """The larger of the paths' batches."""
        return max(path.decode_batch for path in self.paths)

    @property
    def transit(self) -> Transit | None:
        """What moves on the separated path, if there is one."""
        return self.paths[-1].transit

    @property
    def transfer_worst_s(self) -> float | None:
        """The largest `transfer_wait + kv_movement` over the buckets of a separated path (s); None where nothing moves."""
        return max(line.transfer_s for line in self.paths[-1].timelines) if self.transit else None

    def screening(self, objectives: Objectives) -> list[str]:
        """The regimes of any path, in order."""
        return screening([path.regime() for path in self.paths], objectives)

    @property
    def dominant_queue(self) -> str:
        """The queue with the largest mean wait, of two paths the larger of each; the first of equals."""
        waits = {name: max(path.waits_s[name] for path in self.paths) for name in ("prefill", "transfer", "decode")}
        return max(waits, key=lambda name: waits[name])


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


def met_by_bucket(objectives: Objectives, figures: Figures) -> dict[str, float]:
    """`met_k` of every bucket: the share of the whole cohort that is of it and meets its objectives (section 7)."""
    return {bucket: met for path in figures.paths for bucket, met in path.met(objectives).items()}


def goodput(objectives: Objectives, figures: Figures) -> float:
    """Share of the cohort that meets its objectives."""
    return math.fsum(met_by_bucket(objectives, figures).values())
