"""The pace of decoding: a step's length, the time per output token, and how many decode at once (docs/arithmetic.md section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from .curves import Curve

LEVEL = 1e-9
"""Steps that grow by no more than this share of the first with each sequence do not grow."""


@dataclass(frozen=True)
class Crowd:
    """How many sequences a worker decodes that prefills for the share `ρ_p` of its time: negative binomial around `b`."""

    prefill_share: float
    tokens_per_s: float
    sequences: float
    """`y = 1 + x·pace(ρ_p, x)`."""
    first_s: float
    """`t(1)` (s)."""
    growth_s: float
    """`c'` (s): what each sequence adds to a step, between one and `y`."""

    @property
    def level(self) -> bool:
        """Whether steps do not grow: the number of sequences is then Poisson."""
        return self.growth_s <= LEVEL * self.first_s

    @cached_property
    def load(self) -> float:
        """`κ0 = x·c'/(1 - ρ_p)`."""
        return self.tokens_per_s * self.growth_s / (1 - self.prefill_share)

    @property
    def shape(self) -> float:
        """`r0 = t(1)/c'`."""
        return self.first_s / self.growth_s

    @property
    def alone(self) -> float:
        """`x·t(1)/(1 - ρ_p)`: sequences of a worker whose steps do not grow."""
        return self.tokens_per_s * self.first_s / (1 - self.prefill_share)

    @cached_property
    def busy(self) -> float:
        """`A(ρ_p, x) = 1 - (1 - κ0)^(r0)`: probability that a worker that is not prefilling has sequences to decode.

        >>> Crowd(0.5, 10.0, 2.0, 0.02, 0.01).busy, round(Crowd(0.5, 10.0, 1.4, 0.02, 0.0).busy, 6)
        (0.36, 0.32968)
        """
        if self.level:
            return -math.expm1(-self.alone)
        return -math.expm1(self.shape * math.log1p(-self.load))


@dataclass(frozen=True)
class Steps:
    """`t(b)`: seconds of one step with b sequences: `t0 + b·c`, or `τ(b) + γ·R·b` with a measured curve."""

    overhead_s: float
    sequence_s: float
    context_s: float
    """`γ·R`: what reading the context of one sequence adds."""
    curve: Curve | None = None

    @cached_property
    def per_sequence_s(self) -> float:
        """`c = 1/r_d + γ·R`; with a curve, the slope of its last piece `+ γ·R`.

        >>> Steps(0.01, 0.001, 0.0005).per_sequence_s
        0.0015
        """
        return (self.sequence_s if self.curve is None else self.curve.last_slope) + self.context_s

    @cached_property
    def first_s(self) -> float:
        """`t(1)` (s)."""
        return self.seconds(1.0)

    def seconds(self, batch: float) -> float:
        """`t(b)` (s).

        >>> Steps(0.01, 0.001, 0.0).seconds(4.0), Steps(0.0, 0.0, 0.0, Curve(((1.0, 0.5), (3.0, 1.5)))).seconds(2.0)
        (0.014, 1.0)
        """
        if self.curve is None:
            return self.overhead_s + batch * self.per_sequence_s
        return self.curve.seconds(batch) + self.context_s * batch

    def pace(self, prefill_share: float, tokens_per_s: float, met: float = 1.0, beside: float = 0.0) -> float:
        """Return the time per output token: the smallest solution `t` of `(1 - φ·ρ_p)·t = t(1 + f + φ·x·t)` (s).

        >>> round(Steps(0.01, 0.001, 0.0).pace(0.22, 40.0), 9)  # 0.011/(1 - 0.22 - 0.04)
        0.014864865
        >>> round(Steps(0.01, 0.001, 0.0).pace(0.2, 40.0, 0.5, 3.0), 9)  # 0.014/(1 - 0.5·0.24)
        0.015909091
        >>> curve = Curve(((1.0, 1.0), (2.0, 1.0), (4.0, 2.0)))
        >>> Steps(0.0, 0.0, 0.0, curve).pace(0.0, 0.5), Steps(0.0, 0.0, 0.0, curve).pace(0.5, 0.5)
        (1.0, 2.0)
        """
        free, others = 1 - met * prefill_share, met * tokens_per_s
        if self.curve is None:
            c = self.per_sequence_s
            return (self.overhead_s + c * (1 + beside)) / (free - others * c)
        level, slope = self._piece_of_pace(free, others, 1 + beside)
        return (level + slope * (1 + beside)) / (free - others * slope)

    @cached_property
    def _pieces(self) -> tuple[tuple[float, float, float, float], ...]:
        """End of every straight piece but the last, the step there, and value at 0 and slope of the piece; then the last."""
        if self.curve is None:
            return ()
        first = self.curve.points[0]
        pieces = [(first[0], self.seconds(first[0]), first[1], self.context_s)]
        for (b, tau), (c, next_tau) in pairwise(self.curve.points):
            per_sequence = (next_tau - tau) / (c - b)
            pieces.append((c, self.seconds(c), tau - per_sequence * b, per_sequence + self.context_s))
        pieces[-1] = (math.inf, math.inf, *pieces[-1][2:])
        return tuple(pieces)

    def _piece_of_pace(self, free: float, others: float, least: float) -> tuple[float, float]:
        """Return value at 0 and slope of the first straight piece of `t(b)` that meets the line; else of the last."""
        for end, step, level, slope in self._pieces[:-1]:
            if free * (end - least) >= others * step:
                return level, slope
        return self._pieces[-1][2:]

    def crowd(self, prefill_share: float, tokens_per_s: float) -> Crowd:
        """Return how many sequences decode at once: `c'` is the chord from one sequence to `y`, at `y = 1` the slope there.

        >>> Steps(0.01, 0.001, 0.0).crowd(0.0, 100.0).growth_s
        0.001
        >>> steps = Steps(0.0, 0.0, 0.0, Curve(((1.0, 1.0), (2.0, 1.0), (4.0, 2.0))))
        >>> steps.crowd(0.0, 0.0).growth_s, steps.crowd(0.5, 0.5).growth_s
        (0.0, 0.0)
        """
        y = 1 + tokens_per_s * self.pace(prefill_share, tokens_per_s)
        if self.curve is None:
            growth = self.per_sequence_s
        elif y == 1:
            growth = self.curve.slope(1.0) + self.context_s
        else:
            growth = (self.seconds(y) - self.first_s) / (y - 1)
        return Crowd(prefill_share, tokens_per_s, y, self.first_s, growth)
