"""Waits (docs/arithmetic.md, section 4). Meaningless at or above a ceiling: the caller refuses those rows."""

from dataclasses import dataclass

import numpy as np

from pipelines.arithmetic.numbers import Number, where

ROUND_ROBIN = "round_robin"
LEAST_LOADED = "least_loaded"


@dataclass(frozen=True)
class Wait:
    """Probability of waiting at all, and the mean wait in seconds over all arrivals."""

    probability: Number
    mean_s: Number


def shared_queue_probability(rho: Number, servers: Number) -> Number:
    """Share of arrivals that find all ``servers`` busy, about ρ^(√(2(n+1)) - 1). Source: Sakasegawa 1977; ρ itself for n = 1.

    >>> shared_queue_probability(0.5, 1)
    0.5
    """
    exponent = (2.0 * (servers + 1)) ** 0.5 - 1
    probability: Number = rho**exponent
    return probability


def shared_queue_wait(ca2: Number, cs2: Number, rho: Number, servers: Number, s_mean: Number) -> Wait:
    """One queue that feeds ``servers`` workers, G/G/n: W = (ca² + cs²)/2 · Pw/(n·(1 - ρ)) · S. Source: Allen-Cunneen.

    >>> shared_queue_wait(1.0, 1.0, 0.5, 1, 0.1).mean_s  # M/M/1: ρ/(1 - ρ)·S
    0.1
    """
    probability = shared_queue_probability(rho, servers)
    return Wait(probability, (ca2 + cs2) / 2 * probability / (servers * (1 - rho)) * s_mean)


def own_queue_wait(ca2: Number, cs2: Number, rho: Number, servers: Number, s_mean: Number) -> Wait:
    """Every n-th arrival to each of ``servers`` workers with a queue of its own, G/G/1: W = (ca²/n + cs²)/2 · ρ/(1 - ρ) · S.

    Source: Kingman; the sum of n independent inter-arrival times has 1/n of their squared coefficient of variation.

    >>> own_queue_wait(1.0, 0.0, 0.5, 1, 0.1).mean_s  # M/D/1
    0.05
    """
    return Wait(rho, (ca2 / servers + cs2) / 2 * rho / (1 - rho) * s_mean)


def pool_wait(dispatch: str, ca2: Number, cs2: Number, rho: Number, servers: Number, s_mean: Number) -> Wait:
    """The wait that ``service.dispatch`` gives: :func:`own_queue_wait` if round_robin, :func:`shared_queue_wait` if least_loaded."""
    if dispatch == ROUND_ROBIN:
        return own_queue_wait(ca2, cs2, rho, servers, s_mean)
    if dispatch == LEAST_LOADED:
        return shared_queue_wait(ca2, cs2, rho, servers, s_mean)
    raise ValueError(f"no such dispatch: {dispatch}")


def residual_step_s(b: Number, step: Number) -> Number:
    """Mean rest of the decode step that an arrival finds running: (1 - e^(-b))·τ/2, with Poisson many sequences of mean ``b``.

    >>> round(residual_step_s(0.0, 0.02), 12)
    0.0
    """
    decoding = -np.expm1(-np.asarray(b, dtype=np.float64))
    return where(True, decoding * step / 2, 0.0)


def slot_wait_s(b: Number, slots: Number, d1: float, d2: float, t: Number) -> Number:
    """Wait for one of a worker's ``slots`` sequence slots, of which ``b`` are held on average, for D1 steps of ``t`` seconds each.

    M/G/B with holding time H = D1·t: (1 + cH²)/2 · σ^(√(2(B+1)) - 1)/(B·(1 - σ)) · H with σ = b/B. 0 where nothing is decoded.

    >>> slot_wait_s(0.5, 1.0, 10.0, 100.0, 0.1)  # M/D/1 with H = 1 s
    0.5
    """
    if d1 <= 0:
        return 0.0
    ch2 = max(0.0, d2 / (d1 * d1) - 1)
    return shared_queue_wait(1.0, ch2, b / slots, slots, d1 * t).mean_s
