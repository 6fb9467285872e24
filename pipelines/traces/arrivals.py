"""How evenly requests arrive: dispersion and peak rate over windows of several lengths."""

import polars as pl

from pipelines.frames.digits import WORKLOAD_DIGITS, significant

NS_PER_S = 10**9
WINDOWS_S = (1, 10, 60, 600, 3600)
FEWEST_WINDOWS = 10
"""A variance over fewer windows says more about where they happen to be cut than about the arrivals."""


def window_lengths_s(span_ns: int) -> list[int]:
    """The window lengths of a log that spans ``span_ns``: those that it holds ten or more of, in seconds.

    >>> window_lengths_s(700 * 10**9)
    [1, 10, 60]
    """
    return [length for length in WINDOWS_S if span_ns // (length * NS_PER_S) >= FEWEST_WINDOWS]


def window_figures(arrival_ns: pl.Series, window_s: int, span_ns: int) -> dict[str, object]:
    """Windows, dispersion and peak rate of sorted arrivals, over the whole windows in ``span_ns`` nanoseconds.

    >>> window_figures(pl.Series([0, 1, 2, 10**9]), 1, 2 * 10**9)  # 3 and 1 arrivals: mean 2, variance 1
    {'window_s': 1, 'windows': 2, 'dispersion': 0.5, 'peak_rps': 3.0}
    """
    length_ns = window_s * NS_PER_S
    windows = span_ns // length_ns
    counts = _counts(arrival_ns, length_ns, windows)
    total, squares = int(counts.sum()), int((counts * counts).sum())
    dispersion = (windows * squares - total**2) / (windows * total) if total else None
    return {
        "window_s": window_s,
        "windows": windows,
        "dispersion": None if dispersion is None else significant(dispersion, WORKLOAD_DIGITS),
        "peak_rps": significant(int(counts.max() or 0) / window_s, WORKLOAD_DIGITS),  # type: ignore[arg-type]
    }


def _counts(arrival_ns: pl.Series, length_ns: int, windows: int) -> pl.Series:
    """Arrivals per window, of the windows that have any."""
    if windows < arrival_ns.len():
        edges = pl.int_range(0, windows + 1, eager=True, dtype=pl.Int64) * length_ns
        return arrival_ns.search_sorted(edges, side="left").cast(pl.Int64).diff().drop_nulls()
    in_windows = arrival_ns.filter(arrival_ns < windows * length_ns)
    return (in_windows // length_ns).rle().struct.field("len").cast(pl.Int64)
