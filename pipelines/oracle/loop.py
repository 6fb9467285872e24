"""The closed loop: a solved rate is not searched for, but checked (docs/arithmetic.md section 5)."""

from __future__ import annotations

import math

from .findings import WORKLOAD_DIGITS, Ledger
from .parameters import Parameters
from .scenario import Knobs
from .topologies import evaluate
from .traffic import Traffic

CHECK = "closed loop"
SECTION = "docs/arithmetic.md section 5, closed loop"

SLOWEST_RPS, FASTEST_RPS = 1e-9, 1e9
"""Rates of the search: what is refused at any rate is reported at the slowest; none above the fastest is looked for."""
RESOLUTION = 1e-6
"""A rate larger by this share fails a condition; a loop that stays below K by it is held back by the scenario."""
BEYOND = 1e-9
"""By this share a refused rate lies above the largest that the scenario can take."""

_DIGIT = 1e-11
"""More than the rounding of a rate to 12 digits."""
_NOISE = 1e-10
"""More than the rounding of `Λ·E[E2E]` in doubles, and less than any share above that counts."""


def in_system(of: Parameters, traffic: Traffic, knobs: Knobs, rate_rps: float) -> float | None:
    """`Λ·E[E2E]` with `E[E2E] = Σ_k (N_k/N)·E2E_k`: requests in the system; None where the scenario is refused."""
    figures = evaluate(of, traffic.at_rate(rate_rps), knobs).figures
    if figures is None:
        return None
    pairs = zip(traffic.buckets, figures.timelines, strict=True)
    return rate_rps * math.fsum(k.requests * line.e2e_s for k, line in pairs) / traffic.whole.requests


def check_solved_rate(
    ledger: Ledger, where: str, rate_rps: float, of: Parameters, traffic: Traffic, knobs: Knobs
) -> None:
    """Check that a rate is the largest that `K` requests in the system sustain, or the first that is refused."""
    ledger.rounded(where, rate_rps, WORKLOAD_DIGITS)
    if not ledger.holds(CHECK, where, 0 < rate_rps <= FASTEST_RPS, rate_rps, f"up to {FASTEST_RPS}", SECTION):
        return
    held = in_system(of, traffic, knobs, rate_rps)
    if held is None and not ledger.holds(
        CHECK, where, rate_rps >= SLOWEST_RPS, rate_rps, f"at least {SLOWEST_RPS} of what is refused", SECTION
    ):
        return
    if held is None:
        _check_refused(ledger, where, rate_rps, of, traffic, knobs)
    else:
        _check_sustained(ledger, where, rate_rps, held, of, traffic, knobs)


def _check_refused(ledger: Ledger, where: str, rate_rps: float, of: Parameters, traffic: Traffic, knobs: Knobs) -> None:
    """Just below, the scenario is not refused, and has room for fewer requests than the loop holds."""
    if rate_rps == SLOWEST_RPS:
        return
    concurrency, below = traffic.concurrency or 0.0, in_system(of, traffic, knobs, rate_rps * (1 - 2 * BEYOND))
    fits = below is not None and below < concurrency * (1 - RESOLUTION) * (1 + RESOLUTION / 10)
    why = "refused just above the largest rate that the scenario can take, with fewer than K requests in it"
    ledger.holds(CHECK, where, fits, below, f"less than {concurrency}", why)


def _check_sustained(
    ledger: Ledger, where: str, rate_rps: float, held: float, of: Parameters, traffic: Traffic, knobs: Knobs
) -> None:
    """Not more than `K` requests are in the system, and a rate larger by 10⁻⁶ holds more, or is refused at K."""
    concurrency = traffic.concurrency or 0.0
    rounded_down = in_system(of, traffic, knobs, rate_rps * (1 - _DIGIT))
    fits = rounded_down is not None and rounded_down <= concurrency * (1 + _NOISE)
    ledger.holds(CHECK, where, fits, held, f"at most {concurrency}", f"rate x E[E2E] in {SECTION}")
    if rate_rps == FASTEST_RPS:
        return
    above = in_system(of, traffic, knobs, rate_rps * (1 + RESOLUTION))
    if above is not None:
        why = "the largest rate: one larger by 1e-6 holds more than K requests"
        ledger.holds(CHECK, where, above > concurrency, above, f"more than {concurrency}", why)
        return
    filled = held >= concurrency * (1 - RESOLUTION) * (1 - _NOISE)
    why = (
        "refused just above this rate, which does not hold K requests: the loop offers more than the scenario can take"
    )
    ledger.holds(CHECK, where, filled, held, f"{concurrency}, or a refusal", why)
