"""The length of a decode step by the sequences in it, and the pace at which they decode (docs/arithmetic.md, section 3)."""

from dataclasses import dataclass

import numpy as np

from pipelines.arithmetic.curves import Curve
from pipelines.arithmetic.numbers import Floats, Number, column, where


@dataclass(frozen=True)
class DecodeSteps:
    """t(b) of one worker in seconds: t0 + b·c, or a measured ``curve`` of sequences plus b times ``context_s`` (γ·R)."""

    t0: Number
    per_sequence: Number
    context_s: Number = 0.0
    curve: Curve | None = None

    @property
    def c(self) -> Number:
        """Seconds that one more sequence adds where there are many."""
        return (self.per_sequence if self.curve is None else self.curve.last_slope) + self.context_s

    def seconds(self, b: Number) -> Number:
        """Length of a step with ``b`` sequences.

        >>> DecodeSteps(0.012, 0.0002).seconds(10.0)
        0.014
        """
        if self.curve is None:
            return self.t0 + b * (self.per_sequence + self.context_s)
        return self.curve.seconds(b) + b * self.context_s

    def pace_s(self, rho_prefill: Number, x: Number, phi: Number = 1.0, together: Number = 0.0) -> Number:
        """Time per output token: the smallest solution of (1 - φ·ρ_p)·t = t(1 + f + φ·x·t), in seconds.

        ``x`` tokens/s are to be decoded on a worker of whose time prefill takes ``rho_prefill``; ``phi`` of that meets a decoding one,
        and ``together`` (f) sequences begin with each. A sequence decodes beside x·t others: processor sharing, whose mean does not
        depend on how long answers are distributed (Cohen 1979). Meaningless where ρ_p + x·c reaches 1.

        >>> DecodeSteps(0.012, 0.0).pace_s(0.25, 0.0)
        0.016
        >>> round(DecodeSteps(0.0118, 0.0002).pace_s(0.25, 1250.0), 12)  # ρ_d = 0.25
        0.024
        >>> steps = DecodeSteps(0.0, 0.0, curve=Curve(((1.0, 0.010), (11.0, 0.010), (31.0, 0.020))))
        >>> [
        ...     round(float(t), 9) for t in (steps.pace_s(0.0, 500.0), steps.pace_s(0.0, 1250.0))
        ... ]  # beside 5 and 16.67 others
        [0.01, 0.013333333]
        """
        if self.curve is None:
            return (self.t0 + self.c * (1 + together)) / (1 - phi * (rho_prefill + x * self.c))
        free = 1 - phi * rho_prefill
        return self.seconds(self._sequences(self.curve, free, phi * x, 1 + together)) / free

    def _sequences(self, curve: Curve, free: Number, x: Number, least: Number) -> Number:
        """The smallest y with ``free``·(y - ``least``) = x·t(y): in the first piece at whose end the left side is the larger."""
        edges = np.concatenate([[1.0], curve.sizes[curve.sizes > 1]])
        ahead = edges[1:]
        met = column(x) * self._at(ahead) <= column(free) * (ahead - column(least))
        piece = np.where(met.any(axis=-1), met.argmax(axis=-1), len(ahead))
        begin = edges[piece]
        slope = curve.slope(begin) + self.context_s
        y = (free * least + x * (self.seconds(begin) - slope * begin)) / (free - x * slope)
        return where(True, np.maximum(y, least), 1.0)

    def _at(self, sequences: Floats) -> Floats:
        """Length of a step at each of ``sequences``, for every row."""
        assert self.curve is not None
        times: Floats = self.curve.seconds(sequences) + sequences * column(self.context_s)
        return times

    def chord(self, rho_prefill: Number, x: Number) -> Number:
        """c': seconds per sequence along the line from a step of one to one of 1 + x·t sequences."""
        if self.curve is None:
            return self.c
        more = x * self.pace_s(rho_prefill, x)
        flat = np.less_equal(more, 0)
        rising = (self.seconds(1 + more) - self.seconds(1.0)) / where(flat, 1.0, more)
        return where(flat, self.curve.slope(1.0) + self.context_s, rising)
