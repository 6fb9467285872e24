"""The frozen workload, checked against itself: parts and whole, buckets, strata."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from .arrivals import ROUNDING, WHOLE, agree, check_arrivals
from .findings import WORKLOAD_DIGITS, Ledger
from .history import check_history
from .moments import MAXIMA, MEANS, check_moments
from .strata import check_outputs, check_stratum, stratum_number
from .traffic import by_bucket
from .windows import check_windows

CHECK = "workload"
STRATUM_MEANS = (
    "prompt_tokens_mean",
    "uncached_tokens_mean",
    "attention_mean",
    "prompt_tokens_m2",
    "prompt_uncached_mean",
    "uncached_tokens_m2",
)

Row = Mapping[str, Any]


def check_workload(ledger: Ledger, workload: Mapping[str, Any]) -> bool:
    """Check the workload against itself (the trace is not in the receipt); say whether buckets and arrivals can be used."""
    whole, *buckets = workload["buckets"]
    check_history(ledger, workload)
    labelled = _check_labels(ledger, workload, buckets)
    _check_counts(ledger, workload, whole, buckets)
    _check_sums(ledger, WHOLE, whole, buckets, tuple(MEANS))
    for name in MAXIMA:
        largest = max(bucket[name] for bucket in buckets)
        ledger.same(CHECK, f"{WHOLE}.{name}", whole[name], largest, "the largest over buckets")
    known = bucket_bounds(workload["bucket_edges_tokens"])
    for row in workload["buckets"]:
        where = f"workload.buckets[{row['bucket']}]"
        check_moments(ledger, where, row, known.get(row["bucket"], (1, 0))[0])
        _check_sums_are_whole(ledger, where, row)
        _check_digits(ledger, where, row, ("rate_rps", "arrival_scv", *MEANS))
    strata, outputs = by_bucket(workload["strata"]), by_bucket(workload["outputs"])
    for label, bucket in {row["bucket"]: row for row in buckets}.items():
        _check_strata(ledger, bucket, strata.get(label, []), known.get(label, (1, 0))[0])
        labelled = check_outputs(ledger, bucket, outputs.get(label, [])) and labelled
    expected = [bucket["bucket"] for bucket in buckets]
    for member in ("strata", "outputs"):
        order = [label for label, _ in groupby(row["bucket"] for row in workload[member])]
        why = "strata in the order of their buckets"
        labelled = ledger.listed(CHECK, f"workload.{member}", order, expected, why) and labelled
    usable = check_arrivals(ledger, workload)
    if usable:
        check_windows(ledger, workload)
    return usable and labelled


def bucket_bounds(edges: Sequence[int]) -> dict[str, tuple[int, float]]:
    """Return the label and the bounds of every bucket the edges make.

    >>> bucket_bounds([512])
    {'[1,512)': (1, 512), '[512,inf)': (512, inf)}
    """
    bounds = [1, *edges, math.inf]
    return {f"[{low},{high})": (int(low), high) for low, high in pairwise(bounds)}


def _check_labels(ledger: Ledger, workload: Mapping[str, Any], buckets: Sequence[Row]) -> bool:
    """Bucket labels match the edges, ascend, and the prompts of each bucket lie within its bounds."""
    edges = workload["bucket_edges_tokens"]
    ledger.same(CHECK, "workload.bucket_edges_tokens", edges, sorted(set(edges)), "ascending edges")
    known = bucket_bounds(edges)
    found = [row["bucket"] for row in workload["buckets"]]
    there = set(found[1:])
    expected = ["all", *(label for label in known if label in there)]
    fits = ledger.same(CHECK, "workload.buckets", found, expected, "all, then the non-empty buckets ascending")
    for row in [*buckets, *workload["strata"]]:
        low, high = known.get(row["bucket"], (math.nan, math.nan))
        where = f"workload.{'strata' if 'stratum' in row else 'buckets'}[{row['bucket']}]"
        mean = row["prompt_tokens_mean"]
        ledger.holds(CHECK, f"{where}.prompt_tokens_mean", low <= mean < high, mean, f"within {row['bucket']}")
        largest = row.get("prompt_tokens_max", mean)
        ledger.holds(CHECK, f"{where}.prompt_tokens_max", low <= largest < high, largest, f"within {row['bucket']}")
    return fits


def _check_counts(ledger: Ledger, workload: Mapping[str, Any], whole: Row, buckets: Sequence[Row]) -> None:
    requests = workload["requests"]
    ledger.same(CHECK, f"{WHOLE}.requests", whole["requests"], requests, "all requests")
    total = sum(bucket["requests"] for bucket in buckets)
    ledger.same(CHECK, "workload.requests", requests, total, "the sum over buckets")
    _check_digits(ledger, "workload", workload, ("duration_s",))


def _check_sums(ledger: Ledger, where: str, whole: Row, parts: Sequence[Row], names: Sequence[str]) -> None:
    """A mean over all is the mean of the parts' means, weighted by their requests."""
    for name in names:
        mean = math.fsum(part["requests"] * part[name] for part in parts) / whole["requests"]
        why = "the mean of its parts, weighted by requests"
        ledger.holds(CHECK, f"{where}.{name}", agree(whole[name], mean), whole[name], mean, why)


def _check_sums_are_whole(ledger: Ledger, where: str, row: Row) -> None:
    """Tokens are whole numbers, so requests x mean is one, as far as 12 digits can tell."""
    for name in MEANS:
        if name not in row:
            continue
        total = row["requests"] * row[name]
        holds = abs(total - round(total)) <= ROUNDING * total
        ledger.holds(
            CHECK, f"{where}.{name}", holds, row[name], f"{round(total)} / {row['requests']}", "tokens are whole"
        )


def _check_digits(ledger: Ledger, where: str, row: Row, names: Sequence[str]) -> None:
    for name in names:
        if row.get(name) is not None:
            ledger.rounded(f"{where}.{name}", row[name], WORKLOAD_DIGITS)


def _check_strata(ledger: Ledger, bucket: Row, strata: Sequence[Row], least: int) -> None:
    """Strata partition their bucket by uncached tokens; number `floor(16 r / N_k)` follows from the counts before."""
    label, requests = bucket["bucket"], bucket["requests"]
    total = sum(row["requests"] for row in strata)
    if not ledger.same(CHECK, f"workload.strata[{label}]", total, requests, "requests of the bucket"):
        return
    _check_sums(ledger, f"workload.buckets[{label}]", bucket, strata, STRATUM_MEANS)
    before, fewest = 0, 0.0
    for row in strata:
        where = f"workload.strata[{label}/{row['stratum']}]"
        number = stratum_number(before, requests)
        why = "floor(16 x requests with fewer uncached tokens / requests)"
        ledger.same(CHECK, f"{where}.stratum", row["stratum"], number, why)
        uncached = row["uncached_tokens_mean"]
        why = "ascending uncached tokens"
        ledger.holds(CHECK, f"{where}.uncached_tokens_mean", uncached > fewest, uncached, f"above {fewest}", why)
        check_stratum(ledger, where, row, bucket, least)
        _check_sums_are_whole(ledger, where, row)
        _check_digits(ledger, where, row, STRATUM_MEANS)
        before, fewest = before + row["requests"], uncached
