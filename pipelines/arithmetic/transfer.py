"""Moving a prompt's KV cache to the decode pool (docs/arithmetic.md, section 3)."""

import polars as pl

from pipelines.arithmetic.service import Number

FORMULA = "transfer_s = registration + synchronization + receiver_visibility + bytes / effective_bandwidth"


def transfer_s(p1: Number, *, overhead: Number, kappa: Number, w: Number) -> Number:
    """Mean seconds to move the KV cache of ``p1`` prompt tokens over one link: T = o_x + κ·p1/w.

    >>> transfer_s(1000.0, overhead=0.003, kappa=131072.0, w=131072e6)
    0.004
    """
    return overhead + kappa * p1 / w


def transfer_second_moment(p1: Number, p2: Number, *, overhead: Number, kappa: Number, w: Number) -> Number:
    """E[T²] in s²: the square of o_x + κ·p/w, expanded.

    >>> transfer_second_moment(3.0, 9.0, overhead=1.0, kappa=2.0, w=2.0)  # T(3) = 4
    16.0
    """
    per_token = kappa / w
    return overhead * overhead + 2 * overhead * per_token * p1 + per_token * per_token * p2


def hidden_s(p1: Number, execution: Number, *, phi: Number, kappa: Number, w: Number) -> pl.Expr:
    """Seconds of payload time that streaming hides behind prefill: min(φ·κ·p1/w, S).

    >>> pl.select(hidden_s(pl.lit(100.0), pl.lit(0.2), phi=0.5, kappa=1.0, w=100.0)).item()
    0.2
    """
    return pl.min_horizontal(pl.lit(1.0) * phi * kappa * p1 / w, pl.lit(1.0) * execution)
