"""Compares a receipt's workload with the requests that it is said to be of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from .findings import WORKLOAD_DIGITS, Ledger, round_significant, unit_of_last_digit
from .measuring import NS_PER_S, Exact, Measured, digest_of, measure
from .requests_file import Columns

CHECK = "requests"
WHY = "the requests"
ROUNDED = Fraction(1001, 2000)
"""Half a unit of the last digit, and a little for a mean that was rounded to a double first."""
CANCELLED = Fraction(1, 10**15)
"""What is left in doubles of a difference that is 0."""

_DIFFERENCES = ("arrival_scv", "dispersion")
_OF_ARRIVALS = ("rate_rps", "arrival_scv")


def check_requests(ledger: Ledger, workload: Mapping[str, Any], columns: Columns) -> None:
    """Recompute the digest and every row of the workload from the requests, and compare."""
    is_open = workload["kind"] == "open"
    found, expected = workload["requests_sha256"], digest_of(columns)
    ledger.same(CHECK, "workload.requests_sha256", found, expected, "SHA-256 of the requests (docs/verification.md)")
    ledger.same(CHECK, "workload.requests", workload["requests"], len(columns), WHY)
    if not is_open:
        latest = max(columns.arrivals[-1], -columns.arrivals[0])
        ledger.holds(CHECK, "workload.kind", latest == 0, workload["kind"], "open: the requests arrive at times")
    measured = measure(columns, workload["bucket_edges_tokens"], is_open=is_open)
    if is_open:
        duration = Fraction(measured.duration_ns, NS_PER_S)
        _compare(ledger, "workload", workload, {"duration_s": duration})
    if workload["prefix_cache"] is not None:
        _compare(ledger, "workload.prefix_cache", workload["prefix_cache"], {"hit_ratio": measured.hit_ratio})
    _check_buckets(ledger, workload, measured)
    _check_strata(ledger, workload, measured)
    _check_windows(ledger, workload, measured)


def _check_buckets(ledger: Ledger, workload: Mapping[str, Any], measured: Measured) -> None:
    rows = list(measured.rows())
    labels = [row["bucket"] for row in workload["buckets"]]
    if ledger.listed(CHECK, "workload.buckets", labels, [label for label, _ in rows], "buckets that hold requests"):
        for found, (label, expected) in zip(workload["buckets"], rows, strict=True):
            _compare(ledger, f"workload.buckets[{label}]", found, expected)


def _check_strata(ledger: Ledger, workload: Mapping[str, Any], measured: Measured) -> None:
    strata = [(label, row) for label, bucket in measured.buckets.items() for row in bucket.strata()]
    outputs = [(label, row) for label, bucket in measured.buckets.items() for row in bucket.output_strata()]
    for member, rows in (("strata", strata), ("outputs", outputs)):
        places = [(row["bucket"], row["stratum"]) for row in workload[member]]
        expected = [(label, row["stratum"]) for label, row in rows]
        if ledger.listed(CHECK, f"workload.{member}", places, expected, "docs/arithmetic.md section 1, Strata"):
            for found, (label, row) in zip(workload[member], rows, strict=True):
                _compare(ledger, f"workload.{member}[{label}/{row['stratum']}]", found, row)


def _check_windows(ledger: Ledger, workload: Mapping[str, Any], measured: Measured) -> None:
    rows: Sequence[tuple[str, int, Exact]] = list(measured.windows())
    places = [(row["bucket"], row["window_s"]) for row in workload["windows"]]
    expected = [(label, length) for label, length, _ in rows]
    if ledger.listed(CHECK, "workload.windows", places, expected, "docs/formats.md, Windows"):
        for found, (label, length, row) in zip(workload["windows"], rows, strict=True):
            _compare(ledger, f"workload.windows[{label}/{length}]", found, row)


def _compare(ledger: Ledger, where: str, found: Mapping[str, Any], expected: Exact) -> None:
    """Compare the members of one row with what they are exactly."""
    for name, exact in expected.items():
        if isinstance(exact, Fraction) and found[name] is not None:
            slack = CANCELLED if name in _DIFFERENCES else Fraction(0)
            agrees = is_rounded(found[name], exact, slack)
            ledger.holds(CHECK, f"{where}.{name}", agrees, found[name], _shown(exact), WHY)
        else:
            ledger.same(CHECK, f"{where}.{name}", found[name], _shown(exact), WHY)


def is_rounded(found: float, exact: Fraction, slack: Fraction = Fraction(0)) -> bool:
    """Whether a number is an exact one, rounded to the digits of a workload.

    >>> is_rounded(0.333333333333, Fraction(1, 3)), is_rounded(0.333333333334, Fraction(1, 3))
    (True, False)
    """
    unit = Fraction(unit_of_last_digit(float(exact), WORKLOAD_DIGITS))
    return abs(Fraction(found) - exact) <= unit * ROUNDED + slack


def _shown(exact: int | Fraction | None) -> float | int | None:
    """Return a number as a workload has it."""
    return round_significant(float(exact), WORKLOAD_DIGITS) if isinstance(exact, Fraction) else exact
