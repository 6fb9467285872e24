"""The pace of decoding: how long a step takes, and the time per output token (docs/arithmetic.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from .curves import Curve


@dataclass(frozen=True)
class Steps:
    """`t(b)`: seconds of one step with b sequences: `t0 + b·c`, or `τ(b) + γ·R·b` with a measured curve."""

    overhead_s: float
    sequence_s: float
    context_s: float
    """`γ·R`: what reading the context of one sequence adds."""
    curve: Curve | None = None

    @property
    def per_sequence_s(self) -> float:
        """`c = 1/r_d + γ·R`; with a curve, the slope of its last piece `+ γ·R`.

        >>> Steps(0.01, 0.001, 0.0005).per_sequence_s
        0.0015
        """
        return (self.sequence_s if self.curve is None else self.curve.last_slope) + self.context_s

    def seconds(self, batch: float) -> float:
        """`t(b)` (s).

        >>> Steps(0.01, 0.001, 0.0).seconds(4.0), Steps(0.0, 0.0, 0.0, Curve(((1.0, 0.5), (3.0, 1.5)))).seconds(2.0)
        (0.014, 1.0)
        """
        if self.curve is None:
            return self.overhead_s + batch * (self.sequence_s + self.context_s)
        return self.curve.seconds(batch) + self.context_s * batch

    def pace(self, prefill_share: float, tokens_per_s: float) -> float:
        """Return the time per output token: the smallest solution `t` of `(1 - ρ_p)·t = t(1 + x·t)` (s); `ρ_p + x·c < 1`.

        >>> round(Steps(0.01, 0.001, 0.0).pace(0.22, 40.0), 9)  # 0.011/(1 - 0.22 - 0.04)
        0.014864865
        >>> curve = Curve(((1.0, 1.0), (2.0, 1.0), (4.0, 2.0)))
        >>> Steps(0.0, 0.0, 0.0, curve).pace(0.0, 0.5), Steps(0.0, 0.0, 0.0, curve).pace(0.5, 0.5)
        (1.0, 2.0)
        """
        free = 1 - prefill_share
        if self.curve is None:
            c = self.per_sequence_s
            return (self.overhead_s + c) / (free - tokens_per_s * c)
        level, slope = self._piece_of_pace(self.curve, free, tokens_per_s)
        return (level + slope) / (free - tokens_per_s * slope)

    def _piece_of_pace(self, curve: Curve, free: float, tokens_per_s: float) -> tuple[float, float]:
        """Return value at 0 and slope of the first straight piece of `t(b)` that meets the line; else of the last."""
        first, last = curve.points[0], curve.points[-1]
        start = first[1], self.context_s
        if self._meets(first[0], free, tokens_per_s):
            return start
        for (b, tau), (c, next_tau) in pairwise(curve.points):
            per_sequence = (next_tau - tau) / (c - b)
            start = tau - per_sequence * b, per_sequence + self.context_s
            if c < last[0] and self._meets(c, free, tokens_per_s):
                return start
        return start

    def _meets(self, batch: float, free: float, tokens_per_s: float) -> bool:
        """Whether at the end of a piece, `b = 1 + x·t`, the line is not below the step."""
        if batch < 1:
            return False
        return free * (batch - 1) >= tokens_per_s * self.seconds(batch) if tokens_per_s else batch > 1
