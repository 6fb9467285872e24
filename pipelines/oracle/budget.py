"""The transfer budget: how much of the envelope is used, and what would use all of it (docs/arithmetic.md section 8).

Nothing is searched for here: a figure at the envelope is right if the envelope holds just before it and not just after.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from . import transfers as tr
from .equations import Prefill, piece_s, prefill_of
from .findings import ABSOLUTE_SLACK, Ledger, close
from .memory import mean_tokens, resident_bytes, whole_tokens
from .names import BOUNDS
from .parameters import Inputs, Parameters
from .scenario import Knobs, Transit
from .separation import decoding_of, in_flight_sequences, visible_movements
from .topologies import Evaluator
from .traffic import Cohort, Moments, Requests

CHECK = "transfer"
SECTION = "docs/arithmetic.md section 8"
SMALLEST_BANDWIDTH = 1.0
LARGEST_BYTES, LARGEST_BANDWIDTH, LARGEST_PROMPT = 1e18, 1e18, 2**31 - 1
RESOLUTION = 1e-9
"""By this share before and after a figure, its condition holds and does not."""
_NOISE = 1e-12
"""More than the rounding of the times that are held against the envelope, as a share of it."""
_CANCELLED = 1e-14
"""Rounding of what is left of a worker, as a share of the whole."""

Condition = Callable[[float], float]
"""Seconds used at a size, a bandwidth or a length; infinite where the link is saturated."""


@dataclass(frozen=True)
class Envelope:
    """One disaggregated scenario at one bound, and the limit `L` in seconds of what its transfers may use."""

    of: Parameters
    requests: Requests
    transit: Transit
    seconds: float

    @cached_property
    def prefill(self) -> Prefill:
        """Prefill of whole prompts on the prefill pool."""
        return prefill_of(self.of, self.requests)

    @cached_property
    def visible(self) -> tuple[float, ...]:
        """`T_s - H_s` of every stratum (s)."""
        return visible_movements(self.of, self.prefill, self.transit.movement)

    def used(self, k: Moments) -> float:
        """`transfer_wait + kv_movement` (s) of a bucket."""
        return self.transit.wait_s + self.requests.mean(k.bucket, self.visible)

    def _held(self) -> list[float]:
        return [mean_tokens(self.of, tr.tokens_of(self.of, s)) for s in self.requests.strata]

    def bytes_mean(self, bucket: str) -> float:
        """Mean of `K(v_s)` over the strata of a bucket, or all."""
        sizes = tuple(tr.moved_bytes(self.of, held) for held in self._held())
        return self.requests.mean(bucket, sizes)

    def with_bytes(self, k: Moments) -> Condition:
        """Seconds used by a transfer of so many bytes, with the descriptors of the bucket's mean one."""
        counts = tuple(tr.descriptors(self.of, held) for held in self._held())
        count, prefill = self.requests.mean(k.bucket, counts), self.prefill.mean_s(k)

        def used(size: float) -> float:
            return self.transit.wait_s + tr.visible_s(self.of, tr.transfer_of_bytes(self.of, size, count), prefill)

        return used

    def with_bandwidth(self, k: Moments) -> Condition:
        """Seconds used by the bucket over links of so much bandwidth."""

        def used(bandwidth: float) -> float:
            of = replace(self.of, bandwidth_bytes_per_s=bandwidth)
            movement = tr.movement_of(of, self.requests)
            load = tr.link_load(of, self.transit.rate_rps, movement, self.transit.queues)
            if load >= of.link_ceiling:
                return math.inf
            visible = visible_movements(of, self.prefill, movement)
            return tr.link_wait(of, movement, load).mean_s + self.requests.mean(k.bucket, visible)

        return used

    def with_prompt(self, p: float) -> float:
        """Seconds used by an uncached prompt of so many tokens, moved whole and in whole blocks."""
        transfer = tr.transfer_of(self.of, whole_tokens(self.of, p))
        return self.transit.wait_s + tr.visible_s(self.of, transfer, piece_s(self.of, p))

    def fits(self, seconds: float) -> bool:
        """Whether so many seconds lie within the envelope, up to rounding."""
        return seconds <= self.seconds * (1 + _NOISE)

    def exceeds(self, seconds: float) -> bool:
        """Whether so many seconds lie beyond the envelope, up to rounding."""
        return seconds > self.seconds * (1 - _NOISE)


def check_budget(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs, scenario: str | None) -> None:
    """Check the budget of the disaggregated scenario that is chosen, or compared as rejected."""
    budget, where = receipt["transfer"]["budget"], "transfer.budget"
    named = budget["scenario"] if budget is not None else None
    if not ledger.same(CHECK, f"{where}.scenario", named, scenario, SECTION) or budget is None:
        return
    envelope, reserve = inputs.nominal("objectives.ttft_growth"), inputs.nominal("objectives.transfer_reserve")
    ledger.same(CHECK, f"{where}.envelope_s", budget["envelope_s"], envelope, "objectives.ttft_growth")
    ledger.same(CHECK, f"{where}.reserve", budget["reserve"], reserve, "objectives.transfer_reserve")
    try:
        _check_figures(ledger, receipt, inputs, budget)
    except (ArithmeticError, ValueError) as error:
        ledger.holds(CHECK, where, False, scenario, f"nothing: {error}", "the inputs give no number here")


def _check_figures(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs, budget: Mapping[str, Any]) -> None:
    """Check rows and staging under each bound that does not refuse the scenario."""
    row = next(row for row in receipt["scenarios"] if row["scenario"] == budget["scenario"])
    reserve = inputs.nominal("objectives.transfer_reserve")
    limits = {"nominal": 1.0 if reserve is None else reserve, "conservative": 1.0}
    cohort = Cohort(receipt["workload"])
    envelopes = {bound: _at(cohort, inputs, row, bound, limits[bound]) for bound in BOUNDS}
    there = {bound: found for bound, found in envelopes.items() if found is not None}
    _check_rows(ledger, budget["rows"], there, inputs.nominal("objectives.ttft_growth"))
    bounds = [entry["bound"] for entry in budget["staging"]]
    if ledger.listed(
        CHECK, "transfer.budget.staging", bounds, list(there), "the bounds that do not refuse it, in order"
    ):
        for entry in budget["staging"]:
            _check_staging(ledger, entry, there[entry["bound"]])


def _at(cohort: Cohort, inputs: Inputs, row: Mapping[str, Any], bound: str, share: float) -> Envelope | None:
    """Return the envelope at one bound, at the exported rate of a closed loop."""
    traffic = cohort.traffic(inputs, bound)
    rate = traffic.rate_rps if traffic.concurrency is None else row["bounds"][bound]["rate_rps"]
    return envelope_of(Evaluator(inputs.setting(bound), traffic.at_rate(rate)), row, share)


def envelope_of(evaluator: Evaluator, row: Mapping[str, Any], share: float = 1.0) -> Envelope | None:
    """Evaluate the disaggregated scenario of a row, which may use a share of the envelope; None if it is refused."""
    knobs = Knobs(row["topology"], workers_prefill=row["workers_prefill"], workers_decode=row["workers_decode"])
    figures, of = evaluator.evaluate(knobs).figures, evaluator.setting.separated
    if figures is None or figures.transit is None or of.ttft_growth_s is None:
        return None
    return Envelope(of, evaluator.traffic.requests, figures.transit, of.ttft_growth_s * share)


def _check_rows(
    ledger: Ledger, rows: Sequence[Mapping[str, Any]], envelopes: Mapping[str, Envelope], envelope_s: float
) -> None:
    places = [(row["bound"], row["bucket"]) for row in rows]
    expected = [(bound, k) for bound, envelope in envelopes.items() for k in envelope.requests.buckets]
    order = [(bound, k.bucket) for bound, k in expected]
    if not ledger.listed(
        CHECK, "transfer.budget.rows", places, order, "bounds that do not refuse it; buckets in order"
    ):
        return
    for row, (bound, k) in zip(rows, expected, strict=True):
        where, envelope = f"transfer.budget.rows[{bound}/{k.bucket}]", envelopes[bound]
        used = envelope.used(k)
        ledger.figure(CHECK, f"{where}.used_s", row["used_s"], used, SECTION)
        ledger.figure(CHECK, f"{where}.envelope_share", row["envelope_share"], used / envelope_s, SECTION)
        ledger.figure(CHECK, f"{where}.limit_s", row["limit_s"], envelope.seconds, SECTION)
        ledger.figure(CHECK, f"{where}.limit_share", row["limit_share"], used / envelope.seconds, SECTION)
        ledger.figure(CHECK, f"{where}.bytes_mean", row["bytes_mean"], envelope.bytes_mean(k.bucket), SECTION)
        check_bytes(ledger, f"{where}.bytes_at_limit", row["bytes_at_limit"], envelope, k)
        name = "bandwidth_at_limit_bytes_per_s"
        check_bandwidth(ledger, f"{where}.{name}", row[name], envelope, k)
        check_prompt(ledger, f"{where}.largest_prompt_tokens", row["largest_prompt_tokens"], envelope)


def check_bytes(ledger: Ledger, where: str, found: float | None, envelope: Envelope, k: Moments) -> None:
    """The largest `K` within the envelope: one a little smaller fits, one a little larger does not."""
    used = envelope.with_bytes(k)
    if found is None:
        absent = envelope.fits(used(LARGEST_BYTES)) or envelope.exceeds(used(0.0))
        ledger.holds(CHECK, where, absent, None, "a number of bytes", f"some use the envelope: {SECTION}")
        return
    ledger.rounded(where, found, 10)
    _check_turn(ledger, where, found, envelope, used(found * (1 - RESOLUTION)), used(found * (1 + RESOLUTION)))


def check_bandwidth(ledger: Ledger, where: str, found: float | None, envelope: Envelope, k: Moments) -> None:
    """The smallest `w` within the envelope: one a little larger suffices, one a little smaller does not."""
    if envelope.of.curve is not None:
        ledger.same(CHECK, where, found, None, "a measured curve has no bandwidth to vary")
        return
    used = envelope.with_bandwidth(k)
    if found is None:
        absent = envelope.exceeds(used(LARGEST_BANDWIDTH)) or envelope.fits(used(SMALLEST_BANDWIDTH))
        ledger.holds(CHECK, where, absent, None, "a bandwidth", f"some bandwidth suffices: {SECTION}")
        return
    ledger.rounded(where, found, 10)
    if ledger.holds(CHECK, where, found > 0, found, "more than 0 B/s", SECTION):
        _check_turn(ledger, where, found, envelope, used(found * (1 + RESOLUTION)), used(found * (1 - RESOLUTION)))


def check_prompt(ledger: Ledger, where: str, found: int | None, envelope: Envelope) -> None:
    """A length of an uncached prompt that fits, while one token more does not."""
    if found is None:
        fits = envelope.fits(envelope.with_prompt(LARGEST_PROMPT))
        ledger.holds(CHECK, where, fits, None, "a number of tokens", f"some prompt uses the envelope: {SECTION}")
        return
    within = envelope.with_prompt(found) if found else 0.0
    limited = found < LARGEST_PROMPT
    if ledger.holds(CHECK, where, limited, found, f"less than {LARGEST_PROMPT}", SECTION):
        _check_turn(ledger, where, found, envelope, within, envelope.with_prompt(found + 1))


def _check_turn(ledger: Ledger, where: str, found: float, envelope: Envelope, within: float, beyond: float) -> None:
    expected = f"at most {envelope.seconds} s used before it, and more after"
    holds = envelope.fits(within) and envelope.exceeds(beyond)
    ledger.holds(CHECK, where, holds, found, expected, f"{within} s and {beyond} s: {SECTION}")


def _check_staging(ledger: Ledger, found: Mapping[str, Any], envelope: Envelope) -> None:
    """What is on its way to one decode worker, and what it has room for."""
    of, transit, where = envelope.of, envelope.transit, f"transfer.budget.staging[{found['bound']}]"
    per_worker, p1 = transit.rate_rps / transit.workers_decode, envelope.requests.whole.p1
    moving = p1 * transit.wait_s + transit.movement.prompt_token_s
    in_flight = per_worker * resident_bytes(of, moving, transit.wait_s + transit.movement.mean_s)
    sequences = in_flight_sequences(transit)
    ledger.figure(CHECK, f"{where}.in_flight_sequences", found["in_flight_sequences"], sequences, SECTION)
    ledger.figure(CHECK, f"{where}.in_flight_bytes", found["in_flight_bytes"], in_flight, SECTION)
    decoding = per_worker * resident_bytes(of, *decoding_of(p1, transit))
    left = {
        "free_sequences": (transit.decode.cap - transit.batch, transit.decode.cap),
        "free_bytes": (of.kv_memory_bytes - decoding, of.kv_memory_bytes),
    }
    for name, (free, whole) in left.items():
        near = close(found[name], free, 1.0) or abs(found[name] - free) <= _CANCELLED * whole + ABSOLUTE_SLACK
        ledger.rounded(f"{where}.{name}", found[name], 10)
        ledger.holds(CHECK, f"{where}.{name}", near, found[name], free, SECTION)
