"""What one worker takes for prompts: of a declared rate, or of a measured curve (docs/arithmetic.md, section 3)."""

from dataclasses import dataclass

import numpy as np

from pipelines.arithmetic import service
from pipelines.arithmetic.curves import Curve
from pipelines.arithmetic.numbers import Number, column


@dataclass(frozen=True)
class PrefillTimes:
    """Overhead ``d`` (s), rate ``r_p`` (tokens/s) and ``q`` (s/token²) of one worker; with a ``curve``, d and r_p mean nothing."""

    d: Number
    r_p: Number
    q: Number
    curve: Curve | None = None

    def piece_s(self, tokens: Number) -> Number:
        """f(y): seconds of a piece of ``tokens`` with nothing before it.

        >>> PrefillTimes(0.5, 1000.0, 2.0**-20).piece_s(1024.0)
        2.524
        """
        if self.curve is not None:
            return self.curve.seconds(tokens)
        return self.d + tokens / self.r_p + self.q * tokens * tokens

    def prompt_s(self, uncached: Number, attention: Number, squared: Number, pieces: Number = 1.0) -> Number:
        """Seconds of prompts with E[u], E[z] and E[u²], each in so many equal pieces: K·f(u/K) + q·(z - u²/K)."""
        if self.curve is None:
            return pieces * self.d + uncached / self.r_p + self.q * attention
        return pieces * self.piece_s(uncached / pieces) + self.q * (attention - squared / pieces)

    def rows(self) -> "PrefillTimes":
        """The same, beside the columns of an array of strata."""
        return PrefillTimes(column(self.d), column(self.r_p), column(self.q), self.curve)

    def slope(self, uncached: Number) -> Number:
        """Seconds per uncached token at a prompt of ``uncached`` tokens."""
        return self.curve.slope(uncached) if self.curve is not None else np.divide(1.0, self.r_p)

    def longest_s(self, uncached: Number, attention: Number) -> Number:
        """S_max: at least the longest prefill."""
        if self.curve is not None:
            return self.curve.seconds(uncached) + self.q * attention
        return service.prefill_s(uncached, attention, d=self.d, r_p=self.r_p, q=self.q)
