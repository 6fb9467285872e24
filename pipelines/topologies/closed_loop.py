"""The rate of a closed loop: K requests in the system, one enters when one leaves (docs/arithmetic.md, section 5)."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic.crossings import first_crossings
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

_GAP = 2.0**-50
"""Relative width at which an interval is closed: a few doubles."""

_BATCH_ROWS = 4096

Respond = Callable[[NDArray[np.int64], Floats], tuple[Bools, Floats, Floats]]
"""From rows by their place and a rate (requests/s) for each: whether it is refused at that rate, its mean E2E in seconds, its pressure."""


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
        _, excess = self._sustained(np.arange(len(self.places)), np.stack([low, high], axis=1))
        _, found = first_crossings(high, low, excess[:, 1], excess[:, 0], self._sustained, _GAP)
        return np.where(never, LOWEST_RPS, self._settled(found))

    def _at(self, rates: Floats) -> tuple[Bools, Floats, Floats]:
        """Whether each row is refused at each of its rates, its mean E2E in seconds, its pressure."""
        refused, e2e_s, pressure = self.respond(np.repeat(self.places, rates.shape[1]), rates.ravel())
        return refused.reshape(rates.shape), e2e_s.reshape(rates.shape), pressure.reshape(rates.shape)

    def _sustained(self, rows: NDArray[np.int64], rates: Floats) -> tuple[Bools, Floats]:
        """Whether some rows are not refused and hold Λ·E[E2E] ≤ K at each of their rates, and how far they are from that.

        A row that is refused is as far as its pressure is from 1: about linear in the rate, unlike E[E2E], which has no value there.
        """
        own = _Loop(self.places[rows], self.concurrency[rows], self.respond)
        refused, e2e_s, pressure = own._at(rates)
        present = rates * e2e_s / own.concurrency[:, None]
        with np.errstate(invalid="ignore"):
            excess = np.where(refused, pressure, np.maximum(present, pressure)) - 1
        return ~refused & (present <= 1), np.abs(excess)

    def _bracket(self) -> tuple[Floats, Floats]:
        """A rate that each row sustains, and one that it does not or the highest there is.

        Requests are never faster than in an idle system, so that K over their time there is out of reach. Both are the lowest
        rate where that is refused.
        """
        refused, _, _ = self._at(np.full((len(self.places), 1), LOWEST_RPS))
        _, e2e_s, _ = self._at(np.full((len(self.places), 1), IDLE_RPS))
        with np.errstate(divide="ignore"):  # requests that take no time come at the highest rate
            idle = self.concurrency / e2e_s[:, 0]
        low, high = np.minimum(LOWEST_RPS, _SURELY * idle), np.minimum(HIGHEST_RPS, 1.001 * idle)
        never = refused[:, 0]
        return np.where(never, LOWEST_RPS, low), np.where(never, LOWEST_RPS, high)

    def _settled(self, limit: Floats) -> Floats:
        """The exported rates for the largest ones that are sustained."""
        rates = np.stack([_rounded(limit), _rounded_down(limit), _rounded(limit * (1 + BEYOND))], axis=1)
        refused, e2e_s, _ = self._at(rates)
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
