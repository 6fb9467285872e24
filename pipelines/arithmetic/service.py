"""Service times of prefill and decode (docs/arithmetic.md, section 3)."""

import polars as pl

Number = pl.Expr | float


def prefill_s(p1: Number, p2: Number, *, d: Number, r_p: Number, q: Number) -> Number:
    """Mean prefill execution in seconds over requests with E[p] = ``p1`` tokens and E[p²] = ``p2``: S̄ = d + p1/r_p + q·p2.

    For a single prompt of p tokens give p and p².

    >>> prefill_s(2000.0, 2000.0**2, d=0.5, r_p=1000.0, q=2.0**-20)
    6.314697265625
    """
    return d + p1 / r_p + q * p2


def prefill_second_moment(
    p1: Number, p2: Number, p3: Number, p4: Number, *, d: Number, r_p: Number, q: Number
) -> Number:
    """E[S²] in s² from the first four moments of the prompt length: the square of d + p/r_p + q·p², expanded.

    >>> prefill_second_moment(2.0, 4.0, 8.0, 16.0, d=1.0, r_p=2.0, q=0.25)  # S(2) = 1 + 1 + 1 = 3 always
    9.0
    """
    return d * d + 2 * d * p1 / r_p + (1 / (r_p * r_p) + 2 * d * q) * p2 + (2 * q / r_p) * p3 + q * q * p4


def scv(mean: pl.Expr, second_moment: pl.Expr) -> pl.Expr:
    """Squared coefficient of variation E[X²]/E[X]² - 1, not below 0; 0 where the mean is 0.

    >>> pl.select(scv(pl.lit(2.0), pl.lit(5.0))).item()
    0.25
    """
    ratio = second_moment / (mean * mean) - 1
    return pl.when(mean > 0).then(ratio.clip(lower_bound=0.0)).otherwise(0.0)


def decode_steps(o1: Number, o2: Number, po: Number, p1: Number, *, g: Number) -> tuple[Number, Number, Number]:
    """D1 = E[D], D2 = E[D²], PD = E[p·D] of the decode steps D = o - g of a request.

    ``g`` is 1 where prefill emits the first token, 0 where decode does.

    >>> decode_steps(3.0, 9.0, 30.0, 10.0, g=1)  # always p = 10, o = 3, so D = 2
    (2.0, 4.0, 20.0)
    """
    return o1 - g, o2 - 2 * g * o1 + g * g, po - g * p1


def resident_tokens(d1: pl.Expr, d2: pl.Expr, pd: pl.Expr) -> pl.Expr:
    """Mean KV tokens of a decoding sequence, weighted by its steps: R = (PD + D2/2) / D1; 0 where nothing is decoded.

    >>> pl.select(resident_tokens(pl.lit(2.0), pl.lit(4.0), pl.lit(20.0))).item()  # 10 prompt tokens, 0 to 2 generated
    11.0
    """
    return pl.when(d1 > 0).then((pd + d2 / 2) / d1).otherwise(0.0)


def decode_step_cost(r_d: Number, gamma: Number, resident: Number) -> Number:
    """Seconds that one more sequence adds to a decode step: c = 1/r_d + γ·R.

    >>> decode_step_cost(4000.0, 2.0**-30, 1024.0)  # 0.25 ms of its own, 0.95 us for its context
    0.00025095367431640626
    """
    return 1 / r_d + gamma * resident


def step_s(t0: Number, c: Number, b: pl.Expr) -> pl.Expr:
    """Length in seconds of one decode step of a worker that holds ``b`` sequences on average, at least one: t0 + c·max(1, b).

    >>> pl.select(step_s(0.012, 0.0002, pl.lit(10.0))).item()
    0.014
    """
    return t0 + c * pl.max_horizontal(pl.lit(1.0), b)


def tpot_s(t0: Number, c: Number, *, rho_prefill: Number, rho_decode: Number) -> pl.Expr:
    """Time per output token in seconds: max(t0/(1 - ρ_p - ρ_d), (t0 + c)/(1 - ρ_p)).

    The first term solves b = x·t and t = t0 + b·c + ρ_p·t; the second says that a batch holds at least the sequence itself.
    ``rho_prefill`` is the share of the worker's time that prefill takes (0 on a decode pool). Meaningless at ρ ≥ 1.

    >>> pl.select(tpot_s(0.012, 0.0002, rho_prefill=pl.lit(0.25), rho_decode=pl.lit(0.25))).item()
    0.024
    """
    shared = t0 / (1 - rho_prefill - rho_decode)
    alone = (t0 + c) / (1 - rho_prefill)
    return pl.max_horizontal(pl.lit(1.0) * shared, pl.lit(1.0) * alone)
