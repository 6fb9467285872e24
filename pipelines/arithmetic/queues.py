"""Waits (docs/arithmetic.md, section 4). Never evaluated at or above a ceiling: the caller refuses first."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import polars as pl

from pipelines.arithmetic.service import Number

N = TypeVar("N", pl.Expr, float)
"""Columns of a frame, or one number."""

ROUND_ROBIN = "round_robin"
LEAST_LOADED = "least_loaded"


@dataclass(frozen=True)
class Wait(Generic[N]):
    """Probability of waiting at all, and the mean wait in seconds over all arrivals."""

    probability: N
    mean_s: N


def shared_queue_probability(rho: N, servers: N) -> N:
    """Share of arrivals that find all ``servers`` busy, about ρ^(√(2(n+1)) - 1). Source: Sakasegawa 1977; ρ itself for n = 1.

    >>> shared_queue_probability(0.5, 1)
    0.5
    """
    probability: N = rho ** ((2.0 * (servers + 1)) ** 0.5 - 1)
    return probability


def shared_queue_wait(ca2: float | N, cs2: N, rho: N, servers: N, s_mean: N) -> Wait[N]:
    """One queue that feeds ``servers`` workers, G/G/n: W = (ca² + cs²)/2 · Pw/(n·(1 - ρ)) · S. Source: Allen-Cunneen.

    >>> shared_queue_wait(1.0, 1.0, 0.5, 1, 0.1).mean_s  # M/M/1: ρ/(1 - ρ)·S
    0.1
    """
    probability = shared_queue_probability(rho, servers)
    return Wait(probability, (ca2 + cs2) / 2 * probability / (servers * (1 - rho)) * s_mean)


def own_queue_wait(ca2: Number, cs2: pl.Expr, rho: pl.Expr, servers: pl.Expr, s_mean: pl.Expr) -> Wait[pl.Expr]:
    """Every n-th arrival to each of ``servers`` workers with a queue of its own, G/G/1: W = (ca²/n + cs²)/2 · ρ/(1 - ρ) · S.

    Source: Kingman; the sum of n independent inter-arrival times has 1/n of their squared coefficient of variation.

    >>> w = own_queue_wait(1.0, pl.lit(0.0), pl.lit(0.5), pl.lit(1), pl.lit(0.1))  # M/D/1
    >>> pl.select(w.mean_s).item()
    0.05
    """
    return Wait(rho, (ca2 / servers + cs2) / 2 * rho / (1 - rho) * s_mean)


def pool_wait(
    dispatch: str, ca2: Number, cs2: pl.Expr, rho: pl.Expr, servers: pl.Expr, s_mean: pl.Expr
) -> Wait[pl.Expr]:
    """The wait that ``service.dispatch`` gives: :func:`own_queue_wait` if round_robin, :func:`shared_queue_wait` if least_loaded."""
    if dispatch == ROUND_ROBIN:
        return own_queue_wait(ca2, cs2, rho, servers, s_mean)
    if dispatch == LEAST_LOADED:
        return shared_queue_wait(ca2, cs2, rho, servers, s_mean)
    raise ValueError(f"no such dispatch: {dispatch}")


def residual_step_s(b: pl.Expr, step: pl.Expr) -> pl.Expr:
    """Mean rest of the decode step that an arrival finds running: (1 - e^(-b))·τ/2, with Poisson many sequences of mean ``b``.

    >>> round(pl.select(residual_step_s(pl.lit(0.0), pl.lit(0.02))).item(), 12)
    0.0
    """
    decoding = 2 * (-b / 2).exp() * (b / 2).sinh()  # 1 - e^(-b) without losing the digits of a small b
    return decoding * step / 2


def slot_wait_s(b: pl.Expr, slots: Number, d1: pl.Expr, d2: pl.Expr, t: pl.Expr) -> pl.Expr:
    """Wait for one of a worker's ``slots`` sequence slots, of which ``b`` are held on average, for D1 steps of ``t`` seconds each.

    M/G/B with holding time H = D1·t: (1 + cH²)/2 · σ^(√(2(B+1)) - 1)/(B·(1 - σ)) · H with σ = b/B. 0 where nothing is decoded.

    >>> wait = slot_wait_s(pl.lit(0.5), pl.lit(1), pl.lit(10.0), pl.lit(100.0), pl.lit(0.1))  # M/D/1 with H = 1 s
    >>> pl.select(wait).item()
    0.5
    """
    ch2 = pl.when(d1 > 0).then((d2 / (d1 * d1) - 1).clip(lower_bound=0.0)).otherwise(0.0)
    return (
        pl.when(d1 > 0).then(shared_queue_wait(1.0, ch2, b / slots, slots * pl.lit(1.0), d1 * t).mean_s).otherwise(0.0)
    )
