"""Arrivals counted in windows of an open trace: what whole counts leave possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from .arrivals import ROUNDING
from .findings import WORKLOAD_DIGITS, Ledger
from .traffic import by_bucket

CHECK = "workload"
FORMAT = "docs/formats.md, Windows"
LENGTHS_S = (1, 10, 60, 600, 3600)
LEAST_WINDOWS = 10
TRIED_TOTALS = 20_000
"""Totals up to which every one is tried; beyond them only the bounds are checked."""

Row = Mapping[str, Any]


def check_windows(ledger: Ledger, workload: Mapping[str, Any]) -> None:
    """Check lengths, numbers, peaks and dispersions of the windows."""
    found: Sequence[Row] = workload["windows"]
    if workload["kind"] != "open":
        ledger.same(CHECK, "workload.windows", len(found), 0, "arrivals are declared")
        return
    duration = workload["duration_s"]
    lengths = [length for length in LENGTHS_S if _whole_windows(duration, length)[1] >= LEAST_WINDOWS]
    requests = {row["bucket"]: row["requests"] for row in workload["buckets"]}
    places = [(row["bucket"], row["window_s"]) for row in found]
    surely = [length for length in lengths if _whole_windows(duration, length)[0] >= LEAST_WINDOWS]
    expected = next(
        (case for case in ([(b, w) for b in requests for w in some] for some in (surely, lengths)) if case == places),
        [(bucket, length) for bucket in requests for length in lengths],
    )
    if not ledger.listed(CHECK, "workload.windows", places, expected, FORMAT):
        return
    for row in found:
        _check_window(ledger, row, duration, requests[row["bucket"]])
    for length in sorted({row["window_s"] for row in found}):
        _check_over_buckets(ledger, [row for row in found if row["window_s"] == length])
    for rows in by_bucket(found).values():
        _check_over_lengths(ledger, rows)


def _whole_windows(duration_s: float, length_s: float) -> tuple[int, int]:
    """Return how many whole windows a duration of 12 digits has, at least and at most."""
    return math.floor(duration_s * (1 - ROUNDING) / length_s), math.floor(duration_s * (1 + ROUNDING) / length_s)


def _name(row: Row) -> str:
    return f"workload.windows[{row['bucket']}/{row['window_s']}]"


def _check_window(ledger: Ledger, row: Row, duration_s: float, requests: int) -> None:
    where, windows = _name(row), row["windows"]
    least, most = _whole_windows(duration_s, row["window_s"])
    if not ledger.holds(CHECK, f"{where}.windows", least <= windows <= most, windows, most, "floor(duration / window)"):
        return
    ledger.rounded(f"{where}.peak_rps", row["peak_rps"], WORKLOAD_DIGITS)
    count = row["peak_rps"] * row["window_s"]
    peak = round(count)
    whole = abs(count - peak) <= ROUNDING * count and peak <= requests
    why = "the requests of one window"
    ledger.holds(CHECK, f"{where}.peak_rps", whole, row["peak_rps"], f"{peak} / {row['window_s']}", why)
    if row["bucket"] == "all":
        ledger.holds(CHECK, f"{where}.peak_rps", peak >= 1, peak, "at least 1", "the first request is in a window")
    dispersion = row["dispersion"]
    ledger.same(CHECK, f"{where}.dispersion", dispersion is None, peak == 0, "null where the windows hold no request")
    if dispersion is None or peak == 0 or not whole:
        return
    ledger.rounded(f"{where}.dispersion", dispersion, WORKLOAD_DIGITS)
    holds = may_be_dispersion(dispersion, peak, windows, requests)
    expected = f"the dispersion of whole counts up to {peak} in {windows} windows"
    ledger.holds(CHECK, f"{where}.dispersion", holds, dispersion, expected, FORMAT)


def may_be_dispersion(dispersion: float, peak: int, windows: int, requests: int) -> bool:
    """Whether counts in so many windows, the largest `peak` and their sum at most `requests`, have this dispersion.

    >>> may_be_dispersion(0.75, 1, 4, 9)  # counts 1 0 0 0
    True
    >>> may_be_dispersion(0.25, 1, 4, 9), may_be_dispersion(0.3, 1, 4, 9)  # 1 1 1 0; nothing
    (True, False)
    """
    most = min(requests, peak * windows)
    slack = 6 * 10.0**-WORKLOAD_DIGITS * dispersion + 1e-14 * (dispersion + peak)
    if most - peak > TRIED_TOTALS:
        mean = most / windows
        least = (peak - mean) ** 2 / ((windows - 1) * mean) if mean < peak else 0.0
        return least - slack <= dispersion <= peak - peak / windows + slack
    return any(_sum_of_squares(dispersion, total, peak, windows, slack) for total in range(most, peak - 1, -1))


def _sum_of_squares(dispersion: float, total: int, peak: int, windows: int, slack: float) -> bool:
    """Whether `E[c²] = (dispersion + E[c])·E[c]` is the mean of the squares of whole counts with this total."""
    squares, off = total * (dispersion + total / windows), total * slack
    whole = round(squares)
    if abs(squares - whole) > off or (whole - total) % 2:
        return False
    others, rest = windows - 1, total - peak
    if rest > others * peak:
        return False
    each, over = divmod(rest, others)
    least = peak**2 + others * each**2 + over * (2 * each + 1)
    return least <= whole <= peak * total


def _check_over_buckets(ledger: Ledger, rows: Sequence[Row]) -> None:
    """The peak of all requests is one bucket's at least, and no more than all of them together."""
    whole, *buckets = rows
    largest, together = (fold(row["peak_rps"] for row in buckets) for fold in (max, math.fsum))
    holds = largest * (1 - ROUNDING) <= whole["peak_rps"] <= together * (1 + ROUNDING)
    expected = f"between {largest:.12g} and {together:.12g}"
    ledger.holds(CHECK, f"{_name(whole)}.peak_rps", holds, whole["peak_rps"], expected, "the peaks of the buckets")


def _check_over_lengths(ledger: Ledger, rows: Sequence[Row]) -> None:
    """A longer window is made of shorter ones, so its rate is not above their peak."""
    for shorter, longer in pairwise(rows):
        holds = longer["peak_rps"] <= shorter["peak_rps"] * (1 + ROUNDING)
        expected = f"at most {shorter['peak_rps']}"
        why = f"made of windows of {shorter['window_s']} s"
        ledger.holds(CHECK, f"{_name(longer)}.peak_rps", holds, longer["peak_rps"], expected, why)
