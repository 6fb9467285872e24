"""Rounding to the digits that are exported (docs/arithmetic.md, section 11)."""

import polars as pl

RESULT_DIGITS = 10
"""Significant digits of a result: judged, exported and compared at these."""

WORKLOAD_DIGITS = 12
"""Significant digits of a workload moment, rounded before anything is computed from it."""


def significant(value: float, digits: int = RESULT_DIGITS) -> float:
    """``value`` rounded to ``digits`` significant digits: the double nearest to that decimal.

    >>> significant(0.1234567890123)
    0.123456789
    """
    return float(f"{value:.{digits - 1}e}")


def round_results(frame: pl.DataFrame) -> pl.DataFrame:
    """Every float column of ``frame`` rounded to :data:`RESULT_DIGITS`; nulls stay.

    Python's conversion is used since it rounds correctly: polars' ``round_sig_figs`` multiplies by powers of ten and may
    miss the nearest double.
    """
    columns = [
        pl.Series(name, [None if value is None else significant(value) for value in frame[name]], dtype=pl.Float64)
        for name, dtype in frame.schema.items()
        if dtype == pl.Float64
    ]
    return frame.with_columns(columns)
