"""The rate of a closed loop: K requests in the system, one enters when one leaves (docs/arithmetic.md, section 5)."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Bools, Floats
from pipelines.frames.digits import WORKLOAD_DIGITS, significant

LOWEST_RPS = 1e-9
"""A scenario that is refused at this rate is refused at any."""

IDLE_RPS = 1e-18
"""A rate at which no request meets another, however long it takes."""

_SURELY = 1e-6
"""At this part of what an idle system would take, requests hardly meet: it is sustained."""

HIGHEST_RPS = 1e9
"""No rate above it is looked for."""

BEYOND = 1e-9
"""How far above the solved rate a scenario has to be refused to count as limited by that."""

SLACK = 1e-6
"""By how much such a scenario may fall short of K and still count as sustaining it."""

_SECTIONS = 16
"""Parts that an interval is cut into per step: one evaluation of sixteen times the rows costs less than four evaluations."""

_GAP = 2.0**-50
"""Relative width at which an interval is closed: a few doubles."""

_MANY = 32
"""Rows from which on evaluations cost more than steps."""

_BESIDE = 2.0**-8
"""How far beside the chord's rate it is looked, as a part of the interval."""

_BATCH_ROWS = 4096

Respond = Callable[[NDArray[np.int64], Floats], tuple[Bools, Floats]]
"""From rows by their place and a rate (requests/s) for each, whether it is refused at that rate and its mean E2E in seconds."""


def solved_rates(concurrency: Floats, respond: Respond) -> Floats:
    """The rate Λ in requests/s of every row, each with its ``concurrency`` (K); 12 significant digits.

    It is the largest at which the row is not refused and Λ·E[E2E] ≤ K. Where refusals begin before K is reached, it is the
    rate just beyond, at which the row is refused.
    """
    places = np.arange(len(concurrency))
    batches = [places[begin : begin + _BATCH_ROWS] for begin in range(0, len(places), _BATCH_ROWS)]
    return np.concatenate([_Loop(batch, concurrency[batch], respond).solved() for batch in batches])


@dataclass(frozen=True)
class _Loop:
    """Some rows by their ``places``; matrices of rates hold one row for each."""

    places: NDArray[np.int64]
    concurrency: Floats
    respond: Respond

    def solved(self) -> Floats:
        """Λ of each row."""
        low, high = self._bracket()
        never = low == high
        if len(self.places) < _MANY:
            while bool((high - low > _GAP * high).any()):
                low, high = self._narrowed(low, high)
        else:
            low = self._by_chords(low, high)
        return np.where(never, LOWEST_RPS, self._settled(low))

    def _at(self, rates: Floats) -> tuple[Bools, Floats]:
        """Whether each row is refused at each of its rates, and its mean E2E in seconds."""
        refused, e2e_s = self.respond(np.repeat(self.places, rates.shape[1]), rates.ravel())
        return refused.reshape(rates.shape), e2e_s.reshape(rates.shape)

    def _sustains(self, rates: Floats) -> Bools:
        """Whether both conditions hold: not refused, and Λ·E[E2E] ≤ K."""
        refused, e2e_s = self._at(rates)
        return ~refused & (rates * e2e_s <= self.concurrency[:, None])

    def _bracket(self) -> tuple[Floats, Floats]:
        """A rate that each row sustains, and one that it does not or the highest there is.

        Requests are never faster than in an idle system, so that K over their time there is out of reach. Both are the lowest
        rate where that is refused.
        """
        refused, _ = self._at(np.full((len(self.places), 1), LOWEST_RPS))
        _, e2e_s = self._at(np.full((len(self.places), 1), IDLE_RPS))
        with np.errstate(divide="ignore"):  # requests that take no time come at the highest rate
            idle = self.concurrency / e2e_s[:, 0]
        low, high = np.minimum(LOWEST_RPS, _SURELY * idle), np.minimum(HIGHEST_RPS, 1.001 * idle)
        never = refused[:, 0]
        return np.where(never, LOWEST_RPS, low), np.where(never, LOWEST_RPS, high)

    def _narrowed(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """The section of each interval between the largest rate that is sustained and the next."""
        edges = low[:, None] + (high - low)[:, None] * np.arange(_SECTIONS + 1) / _SECTIONS
        edges[:, -1] = high
        sustained = np.hstack([np.ones((len(low), 1), dtype=np.bool_), self._sustains(edges[:, 1:])])
        last = _SECTIONS - np.argmax(sustained[:, ::-1], axis=1)
        rows = np.arange(len(low))
        return edges[rows, last], edges[rows, np.minimum(last + 1, _SECTIONS)]

    def _by_chords(self, low: Floats, high: Floats) -> Floats:
        """The largest rate that is sustained, looked for on both sides of where the chord of Λ·E[E2E] meets K, and halfway.

        Three evaluations a step, of which one serves where the chord does not: cheaper than sections where evaluations, not steps, cost.
        """
        low, high = low.copy(), high.copy()
        excess = self._excess(np.stack([low, high], axis=1))
        while len(open_ := np.flatnonzero(high - low > _GAP * high)):
            edges, known = self._tried(open_, low[open_], high[open_], excess[open_])
            held = known <= 0
            held[:, 0], held[:, 4] = True, False
            rows, last = np.arange(len(open_)), 4 - np.argmax(held[:, ::-1], axis=1)
            low[open_], high[open_] = edges[rows, last], edges[rows, last + 1]
            excess[open_] = np.stack([known[rows, last], known[rows, last + 1]], axis=1)
        return low

    def _tried(self, rows: NDArray[np.int64], low: Floats, high: Floats, excess: Floats) -> tuple[Floats, Floats]:
        """Three rates within the interval of each of ``rows``, with its ends, in order, and the excess at each."""
        gap = high - low
        blind = ~np.isfinite(excess[:, 1])
        rise = np.where(blind | (excess[:, 1] <= excess[:, 0]), 1.0, excess[:, 1] - excess[:, 0])
        met = low - np.where(blind, 0.0, excess[:, 0]) * gap / rise
        blind |= ~(met > low) | ~(met < high)
        tried = np.stack(
            [
                np.where(blind, low + gap / 4, np.maximum(met - gap * _BESIDE, low)),
                np.where(blind, low + gap / 2, np.minimum(met + gap * _BESIDE, high)),
                np.where(blind, low + gap * 3 / 4, low + gap / 2),
            ],
            axis=1,
        )
        edges = np.concatenate([low[:, None], np.sort(tried, axis=1), high[:, None]], axis=1)
        own = _Loop(self.places[rows], self.concurrency[rows], self.respond)
        return edges, np.concatenate([excess[:, :1], own._excess(edges[:, 1:4]), excess[:, 1:]], axis=1)

    def _excess(self, rates: Floats) -> Floats:
        """Λ·E[E2E]/K - 1 of each row at each of its rates; infinite where it is refused."""
        refused, e2e_s = self._at(rates)
        return np.where(refused, np.inf, rates * e2e_s / self.concurrency[:, None] - 1)

    def _settled(self, limit: Floats) -> Floats:
        """The exported rates for the largest ones that are sustained."""
        rates = np.stack([_rounded(limit), _rounded_down(limit), _rounded(limit * (1 + BEYOND))], axis=1)
        refused, e2e_s = self._at(rates)
        present = rates * e2e_s
        nearest, below, beyond = 0, 1, 2
        holds = ~refused[:, nearest] & (present[:, nearest] <= self.concurrency)
        chosen = np.where(holds, nearest, below)
        rows = np.arange(len(limit))
        falls_short = present[rows, chosen] < self.concurrency * (1 - SLACK)
        chosen = np.where(refused[:, beyond] & falls_short, beyond, chosen)
        return rates[rows, chosen]


def _rounded(rates: Floats) -> Floats:
    """``rates`` to the digits of a workload figure."""
    return np.array([significant(rate, WORKLOAD_DIGITS) for rate in rates])


def _rounded_down(rates: Floats) -> Floats:
    """``rates`` to the same digits, but never above."""
    context = Context(prec=WORKLOAD_DIGITS, rounding=ROUND_DOWN)
    return np.array([float(context.create_decimal_from_float(float(rate))) for rate in rates])
