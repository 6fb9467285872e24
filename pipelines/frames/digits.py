"""Rounding to the digits that are exported (docs/arithmetic.md, section 11)."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

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


_EXACT_POWERS = 22
"""Powers of ten up to this one are doubles exactly, so one product or quotient with them is rounded correctly."""
_NEAR_HALF = 1e-4


def significant_values(values: NDArray[np.float64], digits: int = RESULT_DIGITS) -> NDArray[np.float64]:
    """:func:`significant` of every value, to the same double; NaN and infinities stay.

    The digits are found as a whole number, and decided by :func:`significant` itself where that is in doubt: next to a half, at a
    power of ten, and where the power is no double.

    >>> significant_values(np.array([0.1234567890123, -2.5e-9, 0.0, np.nan])).tolist()
    [0.123456789, -2.5e-09, 0.0, nan]
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    usual = np.isfinite(flat) & (flat != 0)
    safe = np.where(usual, flat, 1.0)
    shift = digits - 1 - np.floor(np.log10(np.abs(safe))).astype(np.int64)
    doubtful = np.abs(shift) > _EXACT_POWERS
    power = 10.0 ** np.minimum(np.abs(shift), _EXACT_POWERS).astype(np.float64)
    with np.errstate(over="ignore"):  # of a branch that is not taken
        scaled = np.where(shift >= 0, safe * power, safe / power)
    whole = np.rint(scaled)
    doubtful |= np.abs(np.abs(scaled - np.trunc(scaled)) - 0.5) < _NEAR_HALF
    doubtful |= (np.abs(whole) >= 10.0**digits) | (np.abs(whole) < 10.0 ** (digits - 1))
    with np.errstate(over="ignore"):
        rounded = np.where(usual, np.where(shift >= 0, whole / power, whole * power), flat)
    for place in np.flatnonzero(doubtful & usual):
        rounded[place] = significant(float(flat[place]), digits)
    return rounded.reshape(np.shape(values))


def round_results(frame: pl.DataFrame) -> pl.DataFrame:
    """Every float column of ``frame`` rounded to :data:`RESULT_DIGITS`; nulls stay.

    Not with polars' ``round_sig_figs``, which may miss the nearest double.
    """
    columns = [
        pl.Series(name, significant_values(frame[name].fill_null(np.nan).to_numpy()), dtype=pl.Float64).fill_nan(None)
        for name, dtype in frame.schema.items()
        if dtype == pl.Float64
    ]
    return frame.with_columns(columns)
