"""How likely a time is within its limit, from its mean and variance (docs/arithmetic.md, section 7)."""

import numpy as np

from pipelines.arithmetic.numbers import Floats, Number


def within(allowed: Number, mean: Number, variance: Number) -> Floats:
    """Probability that an excess of this ``mean`` and ``variance`` is at most ``allowed``.

    Up to the variance of an exponential: a constant and an exponential on top; above: zero, or an exponential. Both have the two moments.

    >>> round(float(within(2.0, 1.0, 1.0)), 12)  # exponential: 1 - e^(-2)
    0.864664716763
    >>> [float(within(limit, 1.0, 0.0)) for limit in (0.9, 1.0)]
    [0.0, 1.0]
    >>> float(within(0.0, 1.0, 3.0))  # zero with probability 1 - 2/(1 + 3)
    0.5
    """
    spread = np.sqrt(np.maximum(variance, 0.0))
    limit, centre = np.asarray(allowed), np.asarray(mean)
    some = np.where(centre > 0, centre, 1.0)
    ratio = np.where(centre > 0, variance / some**2, 0.0)
    wide = ratio > 1
    varies = spread > 0
    used = np.where(varies, spread, 1.0)
    beyond = limit - (centre - spread)
    narrow = np.where(beyond < 0, 0.0, -np.expm1(-np.maximum(beyond, 0.0) / used))
    share = 2 / (1 + np.where(wide, ratio, 1.0))
    rare = np.where(limit < 0, 0.0, 1 - share * np.exp(-share * np.maximum(limit, 0.0) / some))
    found: Floats = np.where(varies, np.where(wide, rare, narrow), np.where(limit >= centre, 1.0, 0.0))
    return found
