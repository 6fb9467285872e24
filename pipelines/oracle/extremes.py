"""What is exceeded once in all requests of a path: most sequences, the longest step, the longest run (section 4 and 5)."""

from __future__ import annotations

import math
from collections.abc import Callable

from .equations import Decode
from .pacing import Crowd
from .parameters import Parameters
from .traffic import Moments

NEWTON_STEPS = 60
"""More than any of these convex equations needs from above."""
_EXPONENTS = tuple(2.0 ** (i / 4) for i in range(-40, 25))
_BEYOND_FIRST = tuple((z, math.expm1(z) - z) for z in _EXPONENTS)
"""`s·S_max`, and what the exponential has beyond its first two terms."""


def log_requests(whole: Moments) -> float:
    """`ln N`: of the path's requests, 2 at least."""
    return math.log(max(2, whole.requests))


def _solve(from_above: float, least: float, excess: Callable[[float], tuple[float, float]]) -> float:
    """Return where a convex, rising function of which the value and slope are given is 0."""
    at = from_above
    for _ in range(NEWTON_STEPS):
        value, slope = excess(at)
        if value <= 0 or slope <= 0:
            break
        following = max(least, at - value / slope)
        if not following < at:
            break
        at = following
    return at


def poisson_most(mean: float, log_n: float, most: float) -> float:
    """`k ≥ μ` with `k·ln(k/μ) - k + μ = ln N`, up to `most`.

    >>> round(poisson_most(1.0, 2 * math.log(2.0) - 1.0, 1e9), 9)
    2.0
    """
    if mean <= 0:
        return 0.0

    def excess(k: float) -> tuple[float, float]:
        growth = math.log(k / mean)
        return k * growth - k + mean - log_n, growth

    high = max(mean, min(most, mean + log_n + math.sqrt(log_n**2 + 2 * log_n * mean)))
    return _solve(high, mean, excess)


def most_arrivals(mean: float, log_n: float) -> float:
    """`P_N(μ)`: a Poisson number that is exceeded once in `N` at most."""
    return poisson_most(mean, log_n, math.inf)


def _negative_binomial_most(crowd: Crowd, log_n: float, most: float) -> float:
    """`k ≥ b₀` with `k·ln(k/(κ0·(k + r0))) + r0·ln(r0/((1 - κ0)·(k + r0))) = ln N`, up to `most`; with `k = b₀ + δ`."""
    load, shape = crowd.load, crowd.shape
    mean = shape * load / (1 - load)

    def excess(k: float) -> tuple[float, float]:
        more = k - mean
        growth = math.log1p((1 - load) * more / (mean + load * more))
        return k * growth - shape * math.log1p((1 - load) * more / shape) - log_n, growth

    if most <= mean or excess(most)[0] <= 0:
        return most
    return _solve(most, mean, excess)


def most_sequences(crowd: Crowd, log_n: float, cap: float) -> float:
    """`k_N`: sequences of a worker that are exceeded in one step of `N` at most; 1 at least, `max(1, B)` at most."""
    most = max(1.0, cap)
    if not crowd.tokens_per_s:
        return 1.0
    found = poisson_most(crowd.alone, log_n, most) if crowd.level else _negative_binomial_most(crowd, log_n, most)
    return min(most, max(1.0, found))


def longest_step_s(of: Parameters, decode: Decode, whole: Moments, batch: float, most: float) -> float:
    """`θ_N = t(b) + max(t(k_N) - t(b), v)` (s): a step with more sequences, or with longer ones than the mean (Bennett)."""
    steps = decode.steps
    c, now = steps.per_sequence_s, steps.seconds(batch)
    longer = 0.0
    if batch * c > 0:
        longest = whole.p_max + whole.o_max - decode.work.resident_tokens
        goal = log_requests(whole) * (c + of.decode_s_per_context_token * longest) / (batch * c)
        longer = batch * c * bennett(goal)
    return now + max(steps.seconds(most) - now, longer)


def bennett(goal: float) -> float:
    """`w` with `(1 + w)·ln(1 + w) - w = goal`.

    >>> round(bennett(2 * math.log(2.0) - 1), 9)
    1.0
    """
    above = goal / 3 + math.sqrt(goal**2 / 9 + 2 * goal)

    def excess(w: float) -> tuple[float, float]:
        growth = math.log1p(w)
        return (1 + w) * growth - w - goal, growth

    return _solve(above, 0.0, excess)


def longest_run_s(
    log_n: float, servers: int, rate_rps: float, times: tuple[float, float, float], step_s: float
) -> float | None:
    """Return the gap (s) that runs of prompts leave once in `N` requests at most; `times` are `S̄`, `S2`, `S_max`."""
    mean, second, longest = times
    if not longest:
        return 0.0
    first, spread, found = mean / longest, second / longest**2, math.inf
    for z, beyond in _BEYOND_FIRST:
        grown = first * z + spread * beyond
        room = servers * z / longest - rate_rps * grown
        if room > 0:
            found = min(found, (log_n + math.log1p(grown) + rate_rps * step_s * grown) / room)
    return found + step_s + (longest if servers > 1 else 0.0) if found < math.inf else None
