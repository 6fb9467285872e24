"""The closed loop: a solved rate is not searched for, but checked; of changed cohorts it is solved (section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from .findings import WORKLOAD_DIGITS, Ledger, round_significant
from .scenario import Knobs
from .topologies import Evaluator

CHECK = "closed loop"
SECTION = "docs/arithmetic.md section 5, closed loop"

SLOWEST_RPS, FASTEST_RPS = 1e-9, 1e9
"""Rates of the search: what is refused at any rate is reported at the slowest; none above the fastest is looked for."""
RESOLUTION = 1e-6
"""A rate larger by this share fails a condition; a loop that stays below K by it is held back by the scenario."""
BEYOND = 1e-9
"""By this share a refused rate lies above the largest that the scenario can take."""
PRECISION = 1e-14
"""The share that a bisected rate is known to."""

Excess: TypeAlias = Callable[[float], float | None]
"""Requests in the system at a rate beyond `K`; None where the scenario is refused."""

_DIGIT = 1e-11
"""More than the rounding of a rate to 12 digits."""
_NOISE = 1e-10
"""More than the rounding of `Λ·E[E2E]` in doubles, and less than any share above that counts."""


def in_system(evaluator: Evaluator, knobs: Knobs, rate_rps: float) -> float | None:
    """`Λ·E[E2E]` with `E[E2E] = Σ_k (N_k/N)·E2E_k`: requests in the system; None where the scenario is refused."""
    figures, requests = evaluator.evaluate(knobs, rate_rps).figures, evaluator.traffic.requests
    if figures is None:
        return None
    counts = {k.bucket: k.requests for k in requests.buckets}
    held = math.fsum(counts[line.bucket] * line.e2e_s for line in figures.timelines)
    return rate_rps * held / requests.whole.requests


def solved_rps(evaluator: Evaluator, knobs: Knobs, guess_rps: float | None = None) -> float:
    """Return the rate that `K` requests in the system sustain, or the first that is refused (12 digits)."""
    concurrency = evaluator.traffic.concurrency or 0.0

    def excess(rate: float) -> float | None:
        held = in_system(evaluator, knobs, rate)
        return None if held is None else held - concurrency

    low, high = _bracket(excess, guess_rps)
    low, high = _narrow(excess, low, high)
    rate = round_significant(low, WORKLOAD_DIGITS)
    if rate > low and not _sustained(excess(rate)):
        rate = _down(low)
    if high >= FASTEST_RPS or excess(low * (1 + BEYOND)) is not None:
        return rate
    held = in_system(evaluator, knobs, rate)
    short = held is not None and held < concurrency * (1 - RESOLUTION)
    return round_significant(low * (1 + BEYOND), WORKLOAD_DIGITS) if short else rate


def _sustained(excess: float | None) -> bool:
    return excess is not None and excess <= 0


def _down(rate: float) -> float:
    """Round down to 12 digits."""
    nearest = round_significant(rate, WORKLOAD_DIGITS)
    return nearest if nearest <= rate else round_significant(rate * (1 - 1e-12), WORKLOAD_DIGITS)


def _bracket(excess: Excess, guess_rps: float | None) -> tuple[float, float]:
    """Return a rate that is sustained and one that is not, near the guess if there is one."""
    low, high = SLOWEST_RPS, FASTEST_RPS
    if guess_rps is None or not SLOWEST_RPS < guess_rps < FASTEST_RPS:
        return low, high
    step = 1.05
    if _sustained(excess(guess_rps)):
        low = guess_rps
        while low * step < high:
            if not _sustained(excess(low * step)):
                return low, low * step
            low, step = low * step, step**2
        return low, high
    high = guess_rps
    while high / step > low:
        if _sustained(excess(high / step)):
            return high / step, high
        high, step = high / step, step**2
    return low, high


def _narrow(excess: Excess, low: float, high: float) -> tuple[float, float]:
    """Close in on where a rate ceases to be sustained: along the chord where both ends have figures, else by halves."""
    if low == SLOWEST_RPS and not _sustained(excess(low)):
        return low, low
    if high == FASTEST_RPS and _sustained(excess(high)):
        return high, high
    below, above = excess(low), excess(high)
    chords = 0
    while high / low > 1 + PRECISION:
        middle = math.sqrt(low * high)
        if below is not None and above is not None and chords % 3 < 2:
            chord = low - below * (high - low) / (above - below)
            pad = PRECISION * chord * 4 if chords % 3 == 0 else -PRECISION * chord * 4
            middle = min(max(chord + pad, low * (1 + PRECISION / 2)), high * (1 - PRECISION / 2))
        chords += 1
        if not low < middle < high:
            break
        found = excess(middle)
        if _sustained(found):
            low, below = middle, found
        else:
            high, above = middle, found
    return low, high


def check_solved_rate(ledger: Ledger, where: str, rate_rps: float, evaluator: Evaluator, knobs: Knobs) -> None:
    """Check that a rate is the largest that `K` requests in the system sustain, or the first that is refused."""
    ledger.rounded(where, rate_rps, WORKLOAD_DIGITS)
    if not ledger.holds(CHECK, where, 0 < rate_rps <= FASTEST_RPS, rate_rps, f"up to {FASTEST_RPS}", SECTION):
        return
    held = in_system(evaluator, knobs, rate_rps)
    if held is None and not ledger.holds(
        CHECK, where, rate_rps >= SLOWEST_RPS, rate_rps, f"at least {SLOWEST_RPS} of what is refused", SECTION
    ):
        return
    if held is None:
        _check_refused(ledger, where, rate_rps, evaluator, knobs)
    else:
        _check_sustained(ledger, where, rate_rps, held, evaluator, knobs)


def _check_refused(ledger: Ledger, where: str, rate_rps: float, evaluator: Evaluator, knobs: Knobs) -> None:
    """Just below, the scenario is not refused, and has room for fewer requests than the loop holds."""
    if rate_rps == SLOWEST_RPS:
        return
    concurrency = evaluator.traffic.concurrency or 0.0
    below = in_system(evaluator, knobs, rate_rps * (1 - 2 * BEYOND))
    fits = below is not None and below < concurrency * (1 - RESOLUTION) * (1 + RESOLUTION / 10)
    why = "refused just above the largest rate that the scenario can take, with fewer than K requests in it"
    ledger.holds(CHECK, where, fits, below, f"less than {concurrency}", why)


def _check_sustained(
    ledger: Ledger, where: str, rate_rps: float, held: float, evaluator: Evaluator, knobs: Knobs
) -> None:
    """Not more than `K` requests are in the system, and a rate larger by 10⁻⁶ holds more, or is refused at K."""
    concurrency = evaluator.traffic.concurrency or 0.0
    rounded_down = in_system(evaluator, knobs, rate_rps * (1 - _DIGIT))
    fits = rounded_down is not None and rounded_down <= concurrency * (1 + _NOISE)
    ledger.holds(CHECK, where, fits, held, f"at most {concurrency}", f"rate x E[E2E] in {SECTION}")
    if rate_rps == FASTEST_RPS:
        return
    above = in_system(evaluator, knobs, rate_rps * (1 + RESOLUTION))
    if above is not None:
        why = "the largest rate: one larger by 1e-6 holds more than K requests"
        ledger.holds(CHECK, where, above > concurrency, above, f"more than {concurrency}", why)
        return
    filled = held >= concurrency * (1 - RESOLUTION) * (1 - _NOISE)
    why = (
        "refused just above this rate, which does not hold K requests: the loop offers more than the scenario can take"
    )
    ledger.holds(CHECK, where, filled, held, f"{concurrency}, or a refusal", why)
