"""The transfer budget of one disaggregated scenario: what is used of it, and what would use it exactly (docs/arithmetic.md, section 8)."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import inf, nextafter, sqrt
from typing import Any, TypeVar

import numpy as np

from pipelines.arithmetic import queues
from pipelines.arithmetic.prefill import PrefillTimes
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.topologies.constants import PREFILL
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.paths.path import Sizes
from pipelines.topologies.paths.separated import Handover, handover, link_queues
from pipelines.topologies.question import Question, Workload
from pipelines.topologies.transfers import Transfers, links_of_transfer

ENVELOPE = "objectives.ttft_growth"
RESERVE = "objectives.transfer_reserve"

LARGEST_BYTES = 1e18
LOWEST_BANDWIDTH, HIGHEST_BANDWIDTH = 1.0, 1e18
LONGEST_PROMPT = 2**31 - 1
"""How far a figure that would use the envelope exactly is looked for."""

Json = dict[str, Any]


@dataclass(frozen=True)
class _OfBucket:
    """The transfers of one bucket: mean descriptors and bytes, prefill execution and movement in seconds."""

    place: int
    descriptors: float
    bytes_mean: float
    execution_s: float
    movement_s: float

    @classmethod
    def of(cls, moved: Transfers, place: int) -> "_OfBucket":
        """Those of the bucket at ``place``."""
        strata = moved.requests.strata
        own = strata.bucket == place

        def mean(values: Any) -> float:
            return float((values * strata.within)[own].sum())

        return cls(
            place,
            mean(moved.moved.descriptors),
            mean(moved.moved.size_bytes),
            mean(moved.execution_s),
            mean(moved.movements_s),
        )


@dataclass(frozen=True)
class _Limit:
    """What one scenario may use under one bound, in ``seconds``.

    With its wait for a link (s), its request rate (1/s), and how many queues for links there are.
    """

    inputs: InputTable
    bound: Bound
    moved: Transfers
    prefill: PrefillTimes
    seconds: float
    wait_s: float
    rate: float
    link_queues: float
    link_ceiling: float

    def bytes_at(self, own: _OfBucket) -> float | None:
        """Largest bytes of one transfer of a bucket that still fit."""

        def fits(size: float) -> bool:
            taken, payload = self.moved.model.of_bytes(size, own.descriptors)
            return bool(self.wait_s + taken - min(self.moved.overlap * payload, own.execution_s) <= self.seconds)

        return _last(fits, [0.0, *self._range_ends(), LARGEST_BYTES], _between)

    def _range_ends(self) -> list[float]:
        """Where T may jump: around both ends of a curve that a bandwidth continues."""
        curve = self.moved.model.curve
        if curve is None or self.moved.model.affine is None:
            return []
        first, last = curve.points[0][0], curve.points[-1][0]
        return [nextafter(first, 0.0), first, last, nextafter(last, inf)]

    def bandwidth_at(self, own: _OfBucket) -> float | None:
        """Smallest effective bandwidth of one link (bytes/s) at which a bucket's transfers fit, waits included."""
        if self.moved.model.affine is None or self.moved.model.curve is not None:
            return None
        share = links_of_transfer(self.inputs, self.bound)

        def exceeds(bandwidth: float) -> bool:
            moved = self.moved.at_bandwidth(float(share * bandwidth))
            load = self.rate * moved.link_s / (self.link_queues * moved.channels)
            if load >= min(self.link_ceiling, 1.0):
                return True
            channels = float(moved.channels)
            wait = queues.links_wait(moved.link_scv, load * channels, channels, moved.link_s).mean_s
            return bool(wait + _OfBucket.of(moved, own.place).movement_s > self.seconds)

        if exceeds(HIGHEST_BANDWIDTH) or not exceeds(LOWEST_BANDWIDTH):
            return None
        return _crossing(exceeds, LOWEST_BANDWIDTH, HIGHEST_BANDWIDTH, _between_powers)

    @cached_property
    def largest_prompt(self) -> int | None:
        """A length of an uncached prompt that fits while one token more does not; 0 where none fits, None where any does."""

        def fits(tokens: int) -> bool:
            moved = self.moved.model.of_prompt(tokens)
            alone = self.prefill.piece_s(float(tokens))
            return bool(self.wait_s + moved.seconds - min(self.moved.overlap * moved.payload_s, alone) <= self.seconds)

        longest = _last(fits, self._prompt_edges(), _whole_between)
        return 0 if longest is None and not fits(LONGEST_PROMPT) else longest

    def _prompt_edges(self) -> list[int]:
        """One token, the prompts around which T may jump, and the longest looked at."""
        found = {1, LONGEST_PROMPT}
        for size in self._range_ends()[1::2]:
            least = bisect_left(
                range(LONGEST_PROMPT), size, key=lambda tokens: float(self.moved.model.of_prompt(tokens).size_bytes)
            )
            found |= {tokens for tokens in (least - 1, least) if 1 <= tokens <= LONGEST_PROMPT}
        return sorted(found)

    def row(self, place: int, envelope_s: float) -> Json:
        """What the bucket at ``place`` uses of the envelope and of its limit, and what would use all of that."""
        own, bucket = _OfBucket.of(self.moved, place), self.moved.requests.buckets[place].label
        used = self.wait_s + own.movement_s
        return {
            "bound": self.bound,
            "bucket": bucket,
            "used_s": used,
            "envelope_share": used / envelope_s,
            "limit_s": self.seconds,
            "limit_share": used / self.seconds,
            "bytes_mean": own.bytes_mean,
            "bytes_at_limit": self.bytes_at(own),
            "bandwidth_at_limit_bytes_per_s": self.bandwidth_at(own),
            "largest_prompt_tokens": self.largest_prompt,
        }


Value = TypeVar("Value", float, int)


def _last(
    fits: Callable[[Value], bool], edges: list[Value], between: Callable[[Value, Value], Value | None]
) -> Value | None:
    """The last value that fits, among ``edges`` and what lies between: between two of them it changes once at most.

    None where the last edge fits, since nothing beyond is looked at, and where none does.
    """
    if fits(edges[-1]):
        return None
    for low, high in reversed(list(pairwise(edges))):
        if fits(low):
            return _crossing(fits, low, high, between)
    return None


def _crossing(
    holds: Callable[[Value], bool], low: Value, high: Value, between: Callable[[Value, Value], Value | None]
) -> Value:
    """The last value at which it holds, from ``low``, at which it does, to ``high``, at which it does not."""
    while (middle := between(low, high)) is not None:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _between(low: float, high: float) -> float | None:
    middle = (low + high) / 2
    return middle if low < middle < high else None


def _between_powers(low: float, high: float) -> float | None:
    middle = sqrt(low) * sqrt(high)
    return middle if low < middle < high else None


def _whole_between(low: int, high: int) -> int | None:
    return (low + high) // 2 if high - low > 1 else None


def transfer_budget(rows: list[Json], inputs: InputTable, workload: Workload) -> Json:
    """The budget of one disaggregated scenario; ``rows`` are its two rows of the scenario matrix, unrounded figures in the result.

    A bound that refuses the scenario has neither rows nor staging.
    """
    evaluated = {row["bound"]: row for row in rows if row["status"] == "evaluated"}
    envelope_s = inputs.number(ENVELOPE)
    reserve = inputs.number(RESERVE) if inputs.has(RESERVE) else None
    found: Json = {"rows": [], "staging": []}
    for bound in BOUNDS:
        if bound not in evaluated:
            continue
        over, sizes = _handover(evaluated[bound], Question(inputs, workload, bound))
        known = over.work.constants
        limit = _Limit(
            inputs,
            bound,
            over.moved,
            known.prefill[PREFILL],
            envelope_s if reserve is None or bound == "conservative" else envelope_s * reserve,
            _one(over.link.mean_s),
            evaluated[bound]["rate_rps"],
            _one(link_queues(known.link_sharing, sizes)),
            _one(known.link_ceiling),
        )
        found["rows"] += [limit.row(place, envelope_s) for place in range(len(over.moved.requests.buckets))]
        found["staging"].append({"bound": bound} | _staging(over))
    return {"scenario": rows[0]["scenario"], "envelope_s": envelope_s, "reserve": reserve} | found


def _handover(row: Json, question: Question) -> tuple[Handover, Sizes]:
    """What is on its way in one scenario at its exported rate, and its sizes."""
    sizes = Sizes(prefill=np.array([float(row["workers_prefill"])]), decode=np.array([float(row["workers_decode"])]))
    work = question.work(TOPOLOGIES["disaggregated"].paths[0], None)
    return handover(replace(work, rate=row["rate_rps"]), sizes), sizes


def _staging(over: Handover) -> Json:
    return {
        "in_flight_sequences": _one(over.in_flight),
        "free_sequences": _one(over.own.cap - over.batch),
        "in_flight_bytes": _one(over.in_flight_bytes),
        "free_bytes": _one(over.own.kv_memory - over.decoding_bytes),
    }


def _one(value: Any) -> float:
    """The only entry of an array of one row."""
    return float(np.asarray(value).ravel()[0])
