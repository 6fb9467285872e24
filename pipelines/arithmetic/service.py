"""Service times of prefill and decode (docs/arithmetic.md, section 3)."""

import numpy as np

from pipelines.arithmetic.numbers import Number, where


def prefill_s(u1: Number, z1: Number, *, d: Number, r_p: Number, q: Number) -> Number:
    """Mean prefill execution in seconds over requests with E[u] = ``u1`` uncached tokens and E[z] = ``z1`` token pairs of attention.

    S̄ = d + u1/r_p + q·z1. For a single prompt give its u and z.

    >>> prefill_s(2000.0, 2000.0**2, d=0.5, r_p=1000.0, q=2.0**-20)  # nothing cached: z = u²
    6.314697265625
    """
    return d + u1 / r_p + q * z1


def prefill_second_moment(
    u1: Number, u2: Number, z1: Number, z2: Number, uz: Number, *, d: Number, r_p: Number, q: Number
) -> Number:
    """E[S²] in s² from the moments of uncached tokens u and attention z: the square of d + u/r_p + q·z, expanded.

    >>> prefill_second_moment(2.0, 4.0, 12.0, 144.0, 24.0, d=1.0, r_p=2.0, q=0.25)  # S = 1 + 1 + 3 = 5 always
    25.0
    """
    return d * d + 2 * d * u1 / r_p + u2 / (r_p * r_p) + 2 * d * q * z1 + (2 * q / r_p) * uz + q * q * z2


def prefill_token_seconds(p1: Number, pu: Number, pz: Number, *, d: Number, r_p: Number, q: Number) -> Number:
    """Token-seconds of KV that a request holds while it is prefilled in one piece: E[p·S] = d·p1 + pu/r_p + q·pz.

    >>> prefill_token_seconds(4.0, 8.0, 48.0, d=1.0, r_p=2.0, q=0.25)  # always p = 4, S = 1 + 1 + 3
    20.0
    """
    return d * p1 + pu / r_p + q * pz


def scv(mean: Number, second_moment: Number) -> Number:
    """Squared coefficient of variation E[X²]/E[X]² - 1, not below 0; 0 where the mean is 0.

    >>> scv(2.0, 5.0)
    0.25
    """
    positive = np.asarray(mean) > 0
    ratio = second_moment / where(positive, mean, 1.0) ** 2 - 1
    return where(positive, np.maximum(ratio, 0.0), 0.0)


def decode_steps(o1: Number, o2: Number, po: Number, p1: Number, *, g: Number) -> tuple[Number, Number, Number]:
    """D1 = E[D], D2 = E[D²], PD = E[p·D] of the decode steps D = o - g of a request.

    ``g`` is 1 where prefill emits the first token, 0 where decode does.

    >>> decode_steps(3.0, 9.0, 30.0, 10.0, g=1)  # always p = 10, o = 3, so D = 2
    (2.0, 4.0, 20.0)
    """
    return o1 - g, o2 - 2 * g * o1 + g * g, po - g * p1


def resident_tokens(d1: float, d2: float, pd: float) -> float:
    """Mean KV tokens of a decoding sequence, weighted by its steps: R = (PD + D2/2) / D1; 0 where nothing is decoded.

    >>> resident_tokens(2.0, 4.0, 20.0)  # 10 prompt tokens, 0 to 2 generated
    11.0
    """
    return (pd + d2 / 2) / d1 if d1 > 0 else 0.0


def decode_step_cost(r_d: Number, gamma: Number, resident: Number) -> Number:
    """Seconds that one more sequence adds to a decode step: c = 1/r_d + γ·R.

    >>> decode_step_cost(4000.0, 2.0**-30, 1024.0)  # 0.25 ms of its own, 0.95 us for its context
    0.00025095367431640626
    """
    return 1 / r_d + gamma * resident
