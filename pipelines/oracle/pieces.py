"""Prompts in pieces: how many steps they take, their own part of them, and the time of the lane (section 5, Chunks)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from . import equations as eq
from .parameters import Parameters
from .traffic import Requests, Stratum


def chunks_of(u: float, room: float) -> int:
    """`K_s = max(1, ceil(u_s/C'))`: steps that a prompt takes.

    >>> chunks_of(0.0, 500.0), chunks_of(500, 500.0), chunks_of(501, 500.0)
    (1, 1, 2)
    """
    return max(1, math.ceil(u / room))


def own_part_s(of: Parameters, s: Stratum, count: int) -> float:
    """`G_s = (1 + ψ)·(K_s·f(u_s/K_s) + q·(z_s - u_s²/K_s))` (s): the prompt's own part of its steps."""
    return (1 + of.mixed_step_penalty) * eq.pieces_s(of, count, s.u1, s.z1)


@dataclass(frozen=True)
class Lane:
    """What prompts take of the lane: mean `V̄` (s) and `cs²`."""

    mean_s: float
    scv: float


@dataclass(frozen=True)
class Pieces:
    """`K_s` and `G_s` (s) of every stratum, with the rooms between which they stay as they are, and sums over the strata."""

    of: Parameters
    requests: Requests
    counts: tuple[int, ...]
    own_s: tuple[float, ...]

    @cached_property
    def rooms(self) -> tuple[float, float]:
        """Rooms for prompts (tokens) between which the counts are these."""
        each = list(zip(self.requests.strata, self.counts, strict=True))
        low = max(s.u1 / count for s, count in each)
        return low, min((s.u1 / (count - 1) for s, count in each if count > 1), default=math.inf)

    def fits(self, room: float) -> bool:
        """Whether the counts are surely those of this room."""
        low, high = self.rooms
        return low < room < high

    def _mean(self, values: Sequence[float]) -> float:
        return math.fsum(s.share * value for s, value in zip(self.requests.strata, values, strict=True))

    @cached_property
    def count(self) -> float:
        """`K = Σ v_s·K_s`."""
        return self._mean(self.counts)

    @cached_property
    def own(self) -> tuple[float, float]:
        """`s1 = Σ v_s·G_s` (s) and `s2 = Σ v_s·G_s²` (s²)."""
        return self._mean(self.own_s), self._mean([seconds**2 for seconds in self.own_s])

    @property
    def _overhead_s(self) -> float:
        """`(1 + ψ)·d` (s), what a piece more takes; 0 with a curve."""
        return (1 + self.of.mixed_step_penalty) * self.of.prefill_overhead_s if self.of.prefill_curve is None else 0.0

    @cached_property
    def _fixed(self) -> tuple[float, ...]:
        """What `V_s` is without the tokens' share of steps: `G_s + (1 + ψ)·d·(1 - K_s)` (s)."""
        each = zip(self.own_s, self.counts, strict=True)
        return tuple(own + self._overhead_s * (1 - count) for own, count in each)

    @cached_property
    def spacings_s(self) -> tuple[float, ...]:
        """`(1 + ψ)·f'` (s per token): `1/r_p`, or the slope of the curve at `u_s/K_s`."""
        curve, grown = self.of.prefill_curve, 1 + self.of.mixed_step_penalty
        if curve is None:
            return (grown / self.of.prefill_tokens_per_s,) * len(self.counts)
        each = zip(self.requests.strata, self.counts, strict=True)
        return tuple(grown * curve.slope(s.u1 / count) for s, count in each)

    def lane_times_s(self, step_s: float, room: float) -> tuple[float, ...]:
        """`V_s = θ·u_s/C' + G_s + (1 + ψ)·d·(1 + u_s/C' - K_s)` (s) of every stratum."""
        per_token = (step_s + self._overhead_s) / room
        return tuple(own + per_token * s.u1 for own, s in zip(self._fixed, self.requests.strata, strict=True))

    @cached_property
    def _sums(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Means of the parts of `V_s` and of their products, and of what varies within strata."""
        tokens, variances = [s.u1 for s in self.requests.strata], [s.uncached_variance for s in self.requests.strata]
        fixed, spacings = self._fixed, self.spacings_s
        products = (
            self._mean([a**2 for a in fixed]),
            self._mean([a * u for a, u in zip(fixed, tokens, strict=True)]),
            self._mean([u**2 for u in tokens]),
            self._mean(variances),
            self._mean([h * v for h, v in zip(spacings, variances, strict=True)]),
            self._mean([h**2 * v for h, v in zip(spacings, variances, strict=True)]),
        )
        return (self._mean(fixed), self._mean(tokens)), products

    def lane(self, step_s: float, room: float) -> Lane:
        """`V̄ = Σ v_s·V_s`, and `cs²` of `V2 = Σ v_s·(V_s² + h_s²·Var_s(u))`, `h_s = θ/C' + (1 + ψ)·f'`."""
        (fixed, tokens), (a2, au, u2, var, var_h, var_h2) = self._sums
        per_token, step_share = (step_s + self._overhead_s) / room, step_s / room
        mean = fixed + per_token * tokens
        second = a2 + 2 * per_token * au + per_token**2 * u2
        second += step_share**2 * var + 2 * step_share * var_h + var_h2
        return Lane(mean, eq.squared_variation(mean, second))

    def executions_s(self, step_s: float) -> tuple[float, ...]:
        """`S_s = K_s·θ + G_s` (s) of every stratum."""
        return tuple(count * step_s + own for count, own in zip(self.counts, self.own_s, strict=True))

    @property
    def longest(self) -> float:
        """The largest `u_s/K_s` (tokens)."""
        return max(s.u1 / count for s, count in zip(self.requests.strata, self.counts, strict=True))


class Cutter:
    """Cuts the prompts of a path into pieces, each number of them timed once."""

    def __init__(self, of: Parameters, requests: Requests) -> None:
        """Cut nothing yet."""
        self.of, self.requests = of, requests
        self._own_s: dict[tuple[int, int], float] = {}
        self._pieces: dict[tuple[int, ...], Pieces] = {}
        self._last: Pieces | None = None

    def pieces(self, room: float) -> Pieces:
        """`K_s` and `G_s` of every stratum, in pieces of the room that is left."""
        if self._last is None or not self._last.fits(room):
            counts = tuple(chunks_of(s.u1, room) for s in self.requests.strata)
            if counts not in self._pieces:
                own = tuple(self._own(place, count) for place, count in enumerate(counts))
                self._pieces[counts] = Pieces(self.of, self.requests, counts, own)
            self._last = self._pieces[counts]
        return self._last

    def _own(self, place: int, count: int) -> float:
        if (place, count) not in self._own_s:
            self._own_s[place, count] = own_part_s(self.of, self.requests.strata[place], count)
        return self._own_s[place, count]
