"""Goodput: the share of requests that meet their objectives, by halves of strata and by output strata (section 7)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .objectives import Objectives
from .pacing import Crowd
from .queues import Wait

_SHORT = 1e-3
"""Below it, the first terms of a series are more exact than the difference that they are of."""


@dataclass(frozen=True)
class FirstTokens:
    """TTFT of the strata: the queue that keeps its distribution, each stratum's order in it, and what else it takes."""

    queue: Wait
    orders: Sequence[float]
    fixed_s: Sequence[float]
    """`fix_s` (s): TTFT with the stratum's own lanes, less `ω_s·W`."""
    spreads_s: Sequence[float]
    """`δ_s` (s): how far it varies within the stratum."""

    def met(self, most_s: float, place: int) -> float:
        """Share of a stratum whose TTFT is at most so long: one half is faster by `δ_s`, the other slower."""
        queue, order = self.queue, self.orders[place]
        slack, spread = most_s - self.fixed_s[place], self.spreads_s[place]
        return (queue.at_most(slack - spread, order) + queue.at_most(slack + spread, order)) / 2


@dataclass(frozen=True)
class Generation:
    """What an answer takes after its first token: the pace, how the batch around it varies, and waits on the way."""

    crowd: Crowd
    pace_s: float
    batch: float
    sharing: int
    steps: float
    """`D1`: mean decode steps of a request."""
    waits_s: Sequence[float]
    """`w` (s) of each bucket."""
    wait_variance_s2: float = 0.0
    step_variance_s2: float = 0.0
    """What `σ²` has of a wait, and of each step."""
    longest_step_s: float = math.inf
    """With a TPOT objective of no less, all meet it."""

    def met(self, place: int, output_tokens: float, tpot_s: float) -> float:
        """Share of the answers of so many tokens, in the bucket at a place, that take `tpot` for each at most."""
        steps, first = output_tokens - 1, self.crowd.first_s
        if steps <= 0 or tpot_s >= self.longest_step_s:
            return 1.0
        if tpot_s < first:
            return 0.0
        mean = self.waits_s[place] + steps * (self.pace_s - first)
        variance = self.wait_variance_s2 + steps * self.step_variance_s2 + self._batch_variance_s2(steps)
        return excess_met(mean, variance, steps * (tpot_s - first))

    def _batch_variance_s2(self, steps: float) -> float:
        """`v_b = (D·c'/(1 - ρ_p))²·b/((1 - ρ_q)·n')·2(X - 1 + e^(-X))/X²` (s²)."""
        crowd = self.crowd
        left = 1 - crowd.load
        each = (steps * crowd.growth_s / (1 - crowd.prefill_share)) ** 2 * self.batch / (left * self.sharing)
        return each * averaged(steps / self.steps * left)


def averaged(x: float) -> float:
    """`2·(X - 1 + e^(-X))/X²`: what is left of a variation that is averaged over a stay.

    >>> averaged(0.0), round(averaged(1.0), 6), round(averaged(1e-3) - averaged(1.0000001e-3), 9)
    (1.0, 0.735759, 0.0)
    """
    if x < _SHORT:
        return 1 - x / 3 + x**2 / 12 - x**3 / 60
    return 2 * (x + math.expm1(-x)) / x**2


def excess_met(mean: float, variance: float, most: float) -> float:
    """Probability that an excess of this mean and variance is at most `most`: shifted exponential, or with a mass at 0.

    >>> excess_met(1.0, 0.25, 0.5), round(excess_met(1.0, 0.25, 1.0), 6), round(excess_met(1.0, 3.0, 0.0), 6)
    (0.0, 0.632121, 0.5)
    """
    deviation = math.sqrt(variance)
    if deviation == 0 or mean <= 0:
        return 1.0 if most >= mean else 0.0
    if deviation <= mean:
        beyond = most - (mean - deviation)
        return -math.expm1(-beyond / deviation) if beyond >= 0 else 0.0
    probability = 2 / (1 + variance / mean**2)
    return 1 - probability * math.exp(-probability * most / mean)


def slack_s(objectives: Objectives, bucket: str, after_first_s: float) -> float:
    """Return what a bucket's TTFT may be (s) for it to meet `ttft_k` and `e2e_k`."""
    ttft, e2e = objectives.of("ttft", bucket), objectives.of("e2e", bucket)
    most = math.inf if ttft is None else ttft
    return most if e2e is None else min(most, e2e - after_first_s)


def mean_met(parts: Iterable[tuple[int, float]]) -> float:
    """Mean of the shares of parts that count for so many requests."""
    counted = list(parts)
    return math.fsum(count * met for count, met in counted) / sum(count for count, _ in counted)
