"""How many sequences a worker decodes at once: idle, usual, most (docs/arithmetic.md, sections 3 and 4)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipelines.arithmetic.numbers import Bools, Floats, Number, where
from pipelines.arithmetic.steps import DecodeSteps

NO_SLOPE = 1e-9
"""A step that grows by a smaller part per sequence does not grow."""

_HALVINGS = 200


@dataclass(frozen=True)
class Batch:
    """Sequences on one worker: negative binomial with ``shape`` r0 and ``success`` κ0, or Poisson with ``mean`` where steps do not grow."""

    grows: Bools | bool
    shape: Number
    success: Number
    mean: Number

    @property
    def some(self) -> Number:
        """A: the probability that there are any."""
        growing = -np.expm1(self.shape * np.log1p(-np.asarray(self.success)))
        return where(self.grows, growing, -np.expm1(-np.asarray(self.mean)))

    def most(self, log_n: Number) -> Floats:
        """k_N: what is exceeded about once in N steps, by Chernoff's bound.

        >>> round(float(batch_of(DecodeSteps(0.01, 0.0), 0.0, 300.0).most(np.log(1000.0))), 6)  # Poisson with mean 3
        11.46633
        """
        r, q, mean = self.shape, self.success, np.asarray(self.mean)

        def grown(k: Floats) -> Floats:
            first = k * np.log(k / (q * (k + r)))
            rate: Floats = first + r * np.log(r / ((1 - q) * (k + r)))
            return rate

        poisson = poisson_most(mean, log_n)
        if not np.any(self.grows):
            return poisson
        usual = np.where(self.grows, r * q / (1 - q), 1.0)
        grows = np.asarray(self.grows, dtype=bool)
        return np.where(grows & (usual > 0), _beyond(usual, log_n, grown), np.where(grows, 0.0, poisson))


def batch_of(steps: DecodeSteps, rho_prefill: Number, x: Number) -> Batch:
    """The sequences on a worker that decodes ``x`` tokens/s in what ``rho_prefill`` leaves of its time."""
    slope, alone = np.asarray(steps.chord(rho_prefill, x)), steps.seconds(1.0)
    grows = slope > NO_SLOPE * alone
    used = np.where(grows, slope, alone)
    return Batch(
        grows, alone / used, np.where(grows, x * slope / (1 - rho_prefill), 0.0), x * alone / (1 - rho_prefill)
    )


def poisson_most(mean: Number, log_n: Number) -> Floats:
    """P_N: the k ≥ μ with k·ln(k/μ) - k + μ = ln N; 0 where μ is 0. Source: Chernoff.

    >>> float(poisson_most(0.0, 5.0))
    0.0
    """
    known = np.asarray(mean, dtype=np.float64)
    usual = np.where(known > 0, known, 1.0)

    def rate(k: Floats) -> Floats:
        exponent: Floats = k * np.log(k / usual) - k + usual
        return exponent

    return np.where(known > 0, _beyond(usual, log_n, rate), 0.0)


def bennett_excess(size: Number, log_n: Number) -> Floats:
    """The w ≥ 0 with ``size``·((1 + w)·ln(1 + w) - w) = ln N."""
    known = np.asarray(size, dtype=np.float64)
    usual = np.where(known > 0, known, 1.0)

    def rate(grown: Floats) -> Floats:
        exponent: Floats = usual * (grown * np.log(grown) - (grown - 1))
        return exponent

    return np.where(known > 0, _beyond(np.ones_like(usual), log_n, rate) - 1, 0.0)


def _beyond(start: Floats, target: Number, rate: Callable[[Floats], Floats]) -> Floats:
    """Where a rate that grows from 0 at ``start`` reaches ``target``: by doubling the distance, then by halving it."""
    low, high = start, 2 * start + 1
    for _ in range(_HALVINGS):
        short = rate(high) < target
        if not np.any(short):
            break
        low, high = np.where(short, high, low), np.where(short, 2 * high, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not np.any((low < middle) & (middle < high)):
            break
        short = rate(middle) < target
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return high
