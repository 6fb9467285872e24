"""The transfer budget of one disaggregated scenario: what is used of it, and what would use it exactly (docs/arithmetic.md, section 8)."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import inf, nextafter, sqrt
from typing import Any, TypeVar

import polars as pl

from pipelines.arithmetic import queues, service
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.topologies import disaggregated
from pipelines.topologies.evaluator import base_constants, scenario_setting
from pipelines.topologies.transfers import Transfers, links_of_transfer, prefill_symbols, transfers

ENVELOPE = "objectives.ttft_growth"
RESERVE = "objectives.transfer_reserve"

LARGEST_BYTES = 1e18
LOWEST_BANDWIDTH, HIGHEST_BANDWIDTH = 1.0, 1e18
LONGEST_PROMPT = 2**31 - 1
"""How far a figure that would use the envelope exactly is looked for."""

Json = dict[str, Any]


@dataclass(frozen=True)
class _Limit:
    """What one scenario may use under one bound, in ``seconds``.

    With its wait for a link (s), its request rate (1/s), and how many queues for links there are.
    """

    inputs: InputTable
    bound: Bound
    moved: Transfers
    seconds: float
    wait_s: float
    rate: float
    link_queues: float
    link_ceiling: float

    def bytes_at(self, own: Transfers) -> float | None:
        """Largest bytes of one transfer of a bucket that still fit."""

        def fits(size: float) -> bool:
            taken, payload = self.moved.model.of_bytes(size, own.descriptors)
            return self.wait_s + taken - min(self.moved.overlap * payload, own.execution_s) <= self.seconds

        return _last(fits, [0.0, *self._range_ends(), LARGEST_BYTES], _between)

    def _range_ends(self) -> list[float]:
        """Where T may jump: around both ends of a curve that a bandwidth continues."""
        curve = self.moved.model.curve
        if curve is None or self.moved.model.affine is None:
            return []
        first, last = curve.points[0][0], curve.points[-1][0]
        return [nextafter(first, 0.0), first, last, nextafter(last, inf)]

    def bandwidth_at(self, bucket: str) -> float | None:
        """Smallest effective bandwidth of one link (bytes/s) at which a bucket's transfers fit, waits included."""
        if self.moved.model.affine is None or self.moved.model.curve is not None:
            return None
        share = links_of_transfer(self.inputs, self.bound)

        def exceeds(bandwidth: float) -> bool:
            moved = self.moved.at_bandwidth(share * bandwidth)
            load = self.rate * moved.link_s / (self.link_queues * moved.channels)
            if load >= min(self.link_ceiling, 1.0):
                return True
            wait = queues.shared_queue_wait(1.0, moved.link_scv, load, float(moved.channels), moved.link_s).mean_s
            return wait + moved.of_bucket(bucket).movement_s > self.seconds

        if exceeds(HIGHEST_BANDWIDTH) or not exceeds(LOWEST_BANDWIDTH):
            return None
        return _crossing(exceeds, LOWEST_BANDWIDTH, HIGHEST_BANDWIDTH, _between_powers)

    @cached_property
    def largest_prompt(self) -> int | None:
        """A length of an uncached prompt that fits while one token more does not; 0 where none fits, None where any does."""
        d, r_p, q = prefill_symbols(self.inputs, self.bound)

        def fits(tokens: int) -> bool:
            moved = self.moved.model.of_prompt(tokens)
            alone = service.prefill_s(float(tokens), float(tokens) ** 2, d=d, r_p=r_p, q=q)
            assert isinstance(alone, float)
            return self.wait_s + moved.seconds - min(self.moved.overlap * moved.payload_s, alone) <= self.seconds

        longest = _last(fits, self._prompt_edges(), _whole_between)
        return 0 if longest is None and not fits(LONGEST_PROMPT) else longest

    def _prompt_edges(self) -> list[int]:
        """One token, the prompts around which T may jump, and the longest looked at."""
        found = {1, LONGEST_PROMPT}
        for size in self._range_ends()[1::2]:
            least = bisect_left(
                range(LONGEST_PROMPT), size, key=lambda tokens: self.moved.model.of_prompt(tokens).size_bytes
            )
            found |= {tokens for tokens in (least - 1, least) if 1 <= tokens <= LONGEST_PROMPT}
        return sorted(found)

    def row(self, bucket: str, envelope_s: float) -> Json:
        """What a bucket uses of the envelope and of its limit, and what would use all of that."""
        own = self.moved.of_bucket(bucket)
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
            "bandwidth_at_limit_bytes_per_s": self.bandwidth_at(bucket),
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


def transfer_budget(rows: list[Json], inputs: InputTable, buckets: pl.DataFrame, strata: pl.DataFrame) -> Json:
    """The budget of one scenario; ``rows`` are its two rows of the scenario matrix, unrounded figures in the result.

    A bound that refuses the scenario has neither rows nor staging.
    """
    moved = {bound: transfers(inputs, buckets, strata, bound) for bound in BOUNDS}
    setting = scenario_setting(inputs)
    evaluated = {row["bound"]: row for row in rows if row["status"] == "evaluated"}
    own = pl.DataFrame([{name: rows[0][name] for name in ("workers_prefill", "workers_decode")}])
    base = own.join(base_constants(inputs, buckets, moved), how="cross", maintain_order="left_right")
    rates = pl.DataFrame([{"bound": row["bound"], "rate": row["rate_rps"]} for row in rows])
    base = base.drop("rate").join(rates, on="bound", how="left", maintain_order="left")
    sequences, held = disaggregated.in_transfer(setting)
    frame = disaggregated.evaluate(base, setting).frame.select(
        "bound",
        "transfer_wait_s",
        "rate",
        "u_l",
        link_queues=disaggregated.LINK_QUEUES[setting.link_sharing].cast(pl.Float64),
        in_flight_sequences=sequences,
        free_sequences=pl.col("batch_cap") - pl.col("decode_batch"),
        in_flight_bytes=held,
        free_bytes=pl.col("kv_memory") - disaggregated.decoding_bytes(setting),
    )
    envelope_s = inputs.number(ENVELOPE)
    reserve = inputs.number(RESERVE) if inputs.has(RESERVE) else None
    found: Json = {"rows": [], "staging": []}
    named = buckets["bucket"].to_list()[1:]
    for row in frame.iter_rows(named=True):
        bound = row["bound"]
        if bound not in evaluated:
            continue
        limit = _Limit(
            inputs,
            bound,
            moved[bound],
            envelope_s if reserve is None or bound == "conservative" else envelope_s * reserve,
            row["transfer_wait_s"],
            row["rate"],
            row["link_queues"],
            row["u_l"],
        )
        found["rows"] += [limit.row(bucket, envelope_s) for bucket in named]
        staging = ("in_flight_sequences", "free_sequences", "in_flight_bytes", "free_bytes")
        found["staging"].append({"bound": bound} | {name: row[name] for name in staging})
    return {"scenario": rows[0]["scenario"], "envelope_s": envelope_s, "reserve": reserve} | found
