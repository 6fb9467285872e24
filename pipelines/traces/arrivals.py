"""How evenly requests arrive: dispersion and peak rate over windows of several lengths."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from pipelines.frames.digits import WORKLOAD_DIGITS, significant

NS_PER_S = 10**9
Integers = npt.NDArray[np.int64]
WINDOWS_S = (1, 10, 60, 600, 3600)
FEWEST_WINDOWS = 10
"""A variance over fewer windows says more about where they happen to be cut than about the arrivals."""


def window_lengths_s(span_ns: int) -> list[int]:
    """The window lengths of a log that spans ``span_ns``: those that it holds ten or more of, in seconds.

    >>> window_lengths_s(700 * 10**9)
    [1, 10, 60]
    """
    return [length for length in WINDOWS_S if span_ns // (length * NS_PER_S) >= FEWEST_WINDOWS]


def window_figures(arrival_ns: pl.Series, lengths_s: Sequence[int], span_ns: int) -> list[dict[str, object]]:
    """Windows, dispersion and peak rate of sorted arrivals, per window length, over the whole windows in ``span_ns`` nanoseconds.

    >>> window_figures(pl.Series([0, 1, 2, 10**9]), [1], 2 * 10**9)  # 3 and 1 arrivals: mean 2, variance 1
    [{'window_s': 1, 'windows': 2, 'dispersion': 0.5, 'peak_rps': 3.0}]
    """
    seconds = (arrival_ns // NS_PER_S).rle().struct.unnest()
    second, arrivals = seconds["value"].to_numpy(), seconds["len"].to_numpy().astype(np.int64)
    return [_figures(second, arrivals, length, span_ns // (length * NS_PER_S)) for length in lengths_s]


def _figures(second: Integers, arrivals: Integers, length_s: int, windows: int) -> dict[str, object]:
    """The figures of ``windows`` windows of ``length_s``, from the seconds in which anything arrives and how much does."""
    window = second // length_s
    inside = int(np.searchsorted(window, windows))
    counts = arrivals[:0]
    if inside:
        begins = np.flatnonzero(np.diff(window[:inside], prepend=-1))
        counts = np.add.reduceat(arrivals[:inside], begins)
    total, squares = int(counts.sum()), int(np.dot(counts, counts))
    dispersion = significant((windows * squares - total**2) / (windows * total), WORKLOAD_DIGITS) if total else None
    peak = int(counts.max()) if total else 0
    return {
        "window_s": length_s,
        "windows": windows,
        "dispersion": dispersion,
        "peak_rps": significant(peak / length_s, WORKLOAD_DIGITS),
    }
