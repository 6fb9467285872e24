"""The frozen workload: buckets, strata, and what must hold between their moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .findings import WORKLOAD_DIGITS, Ledger

CHECK = "workload"
WHOLE = "workload.buckets[all]"
STRATA_PER_BUCKET = 16

_MEANS = (
    "prompt_tokens_mean",
    "prompt_tokens_m2",
    "prompt_tokens_m3",
    "prompt_tokens_m4",
    "output_tokens_mean",
    "output_tokens_m2",
    "prompt_output_mean",
    "multi_token_share",
)
_MAXIMA = ("prompt_tokens_max", "output_tokens_max")
_ROUNDING = 2 * 10.0 ** (1 - WORKLOAD_DIGITS)
"""Relative difference of two sides of an identity, each rounded to 12 significant digits."""


@dataclass(frozen=True)
class Moments:
    """Moments over a set of requests: prompt tokens p, output tokens o (docs/arithmetic.md section 1)."""

    requests: int
    p1: float
    p2: float
    p3: float
    p4: float
    p_max: float
    o1: float
    o2: float
    po: float
    multi_token_share: float
    bucket: str


@dataclass(frozen=True)
class Stratum:
    """Requests of one bucket with about the same prompt: their share `v` of all, E[p] and E[p²]."""

    bucket: str
    requests: int
    share: float
    p1: float
    p2: float


@dataclass(frozen=True)
class Traffic:
    """The requests as the equations read them."""

    rate_rps: float
    arrival_scv: float
    whole: Moments
    buckets: tuple[Moments, ...]
    strata: tuple[Stratum, ...]


def traffic_of(workload: Mapping[str, Any]) -> Traffic:
    """Read the moments of a workload that has the right structure."""
    whole, *buckets = workload["buckets"]
    strata = tuple(
        Stratum(
            bucket=row["bucket"],
            requests=row["requests"],
            share=row["requests"] / whole["requests"],
            p1=row["prompt_tokens_mean"],
            p2=row["prompt_tokens_m2"],
        )
        for row in workload["strata"]
    )
    return Traffic(
        rate_rps=whole["rate_rps"],
        arrival_scv=whole["arrival_scv"] or 0.0,
        whole=_moments(whole),
        buckets=tuple(map(_moments, buckets)),
        strata=strata,
    )


def _moments(row: Mapping[str, Any]) -> Moments:
    return Moments(
        requests=row["requests"],
        p1=row["prompt_tokens_mean"],
        p2=row["prompt_tokens_m2"],
        p3=row["prompt_tokens_m3"],
        p4=row["prompt_tokens_m4"],
        p_max=row["prompt_tokens_max"],
        o1=row["output_tokens_mean"],
        o2=row["output_tokens_m2"],
        po=row["prompt_output_mean"],
        multi_token_share=row["multi_token_share"],
        bucket=row["bucket"],
    )


def check_workload(ledger: Ledger, workload: Mapping[str, Any]) -> None:
    """Check the workload against itself; the trace is not in the receipt."""
    whole, *buckets = workload["buckets"]
    _check_source(ledger, workload)
    _check_labels(ledger, workload, buckets)
    _check_rate(ledger, workload, whole, buckets)
    _check_sums(ledger, WHOLE, whole, buckets, _MEANS)
    for name in _MAXIMA:
        largest = max(bucket[name] for bucket in buckets)
        ledger.same(CHECK, f"{WHOLE}.{name}", whole[name], largest, "the largest over buckets")
    for row in workload["buckets"]:
        _check_moments(ledger, f"workload.buckets[{row['bucket']}]", row)
        _check_sums_are_whole(ledger, f"workload.buckets[{row['bucket']}]", row)
        _check_digits(ledger, f"workload.buckets[{row['bucket']}]", row, ("rate_rps", "arrival_scv", *_MEANS))
    for bucket in buckets:
        _check_strata(ledger, bucket, [row for row in workload["strata"] if row["bucket"] == bucket["bucket"]])
    expected = [bucket["bucket"] for bucket in buckets]
    order = list(dict.fromkeys(row["bucket"] for row in workload["strata"]))
    ledger.listed(CHECK, "workload.strata", order, expected, "strata in the order of their buckets")


def _check_source(ledger: Ledger, workload: Mapping[str, Any]) -> None:
    kept = workload["rows_read"] - workload["rows_dropped"]
    ledger.same(CHECK, "workload.requests", workload["requests"], kept, "rows read less rows dropped")
    sourced = workload["provenance"] != "observed" or workload["source"] is not None
    ledger.holds(CHECK, "workload.source", sourced, workload["source"], "the source of an observed trace")


def bucket_bounds(edges: Sequence[int]) -> dict[str, tuple[float, float]]:
    """Return the label and the bounds of every bucket the edges make.

    >>> bucket_bounds([512])
    {'[1,512)': (1, 512), '[512,inf)': (512, inf)}
    """
    bounds = [1, *edges, math.inf]
    return {f"[{low},{high})": (low, high) for low, high in pairwise(bounds)}


def _check_labels(ledger: Ledger, workload: Mapping[str, Any], buckets: Sequence[Mapping[str, Any]]) -> None:
    """Bucket labels match the edges, ascend, and the prompts of each bucket lie within its bounds."""
    edges = workload["bucket_edges_tokens"]
    ledger.same(CHECK, "workload.bucket_edges_tokens", edges, sorted(set(edges)), "ascending edges")
    known = bucket_bounds(edges)
    found = [row["bucket"] for row in workload["buckets"]]
    expected = ["all", *(label for label in known if label in found[1:])]
    ledger.same(CHECK, "workload.buckets", found, expected, "all, then the non-empty buckets ascending")
    for row in [*buckets, *workload["strata"]]:
        low, high = known.get(row["bucket"], (math.nan, math.nan))
        where = f"workload.{'strata' if 'stratum' in row else 'buckets'}[{row['bucket']}]"
        mean = row["prompt_tokens_mean"]
        ledger.holds(CHECK, f"{where}.prompt_tokens_mean", low <= mean < high, mean, f"within {row['bucket']}")
        largest = row.get("prompt_tokens_max", mean)
        ledger.holds(CHECK, f"{where}.prompt_tokens_max", low <= largest < high, largest, f"within {row['bucket']}")


def _check_rate(
    ledger: Ledger, workload: Mapping[str, Any], whole: Mapping[str, Any], buckets: Sequence[Mapping[str, Any]]
) -> None:
    """`Λ = (N - 1) / duration` and `Λ_k = Λ · N_k / N`."""
    requests = workload["requests"]
    ledger.same(CHECK, f"{WHOLE}.requests", whole["requests"], requests, "all requests")
    total = sum(bucket["requests"] for bucket in buckets)
    ledger.same(CHECK, "workload.requests", requests, total, "the sum over buckets")
    arrivals = whole["rate_rps"] * workload["duration_s"]
    why = "rate x duration = requests - 1"
    ledger.holds(CHECK, f"{WHOLE}.rate_rps", _agree(arrivals, requests - 1), arrivals, requests - 1, why)
    for bucket in buckets:
        where, rate = (
            f"workload.buckets[{bucket['bucket']}].rate_rps",
            whole["rate_rps"] * bucket["requests"] / requests,
        )
        why = "docs/arithmetic.md section 1: the bucket's share of the rate"
        ledger.holds(CHECK, where, _agree(bucket["rate_rps"], rate), bucket["rate_rps"], rate, why)
    scv = whole["arrival_scv"]
    ledger.holds(CHECK, f"{WHOLE}.arrival_scv", scv is not None, scv, "a number: every wait reads it")
    _check_digits(ledger, "workload", workload, ("duration_s",))


def _check_sums(
    ledger: Ledger, where: str, whole: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> None:
    """A mean over all is the mean of the parts' means, weighted by their requests."""
    for name in names:
        mean = math.fsum(part["requests"] * part[name] for part in parts) / whole["requests"]
        ledger.holds(
            CHECK,
            f"{where}.{name}",
            _agree(whole[name], mean),
            whole[name],
            mean,
            "the mean of its parts, weighted by requests",
        )


def _agree(left: float, right: float) -> bool:
    """Whether the sides of an identity are equal but for the rounding of the workload."""
    if not (math.isfinite(left) and math.isfinite(right)):
        return False
    return abs(left - right) <= _ROUNDING * max(abs(left), abs(right))


def _check_moments(ledger: Ledger, where: str, row: Mapping[str, Any]) -> None:
    """Inequalities that the moments of any set of requests obey (Cauchy-Schwarz, and a bounded range)."""
    of = _moments(row)
    o_max, multi = row["output_tokens_max"], of.multi_token_share
    laws = {
        "prompt_tokens_mean": (of.p1, 1.0, of.p_max),
        "prompt_tokens_m2": (of.p2, of.p1**2, of.p_max * of.p1),
        "prompt_tokens_m3": (of.p3, of.p2**2 / of.p1, of.p_max * of.p2),
        "prompt_tokens_m4": (of.p4, of.p3**2 / of.p2, of.p_max * of.p3),
        "output_tokens_mean": (of.o1, 1.0 + multi, 1.0 + multi * (o_max - 1)),
        "output_tokens_m2": (of.o2, of.o1**2, o_max * of.o1),
        "prompt_output_mean": (
            of.po,
            max(of.p1, of.o1),
            min(math.sqrt(of.p2 * of.o2), of.p_max * of.o1, o_max * of.p1),
        ),
        "multi_token_share": (multi, 0.0, 1.0),
    }
    for name, (value, least, most) in laws.items():
        holds = least * (1 - _ROUNDING) <= value <= most * (1 + _ROUNDING)
        ledger.holds(CHECK, f"{where}.{name}", holds, value, f"between {least:.12g} and {most:.12g}", "laws of moments")
    # some request has the longest prompt, and some the longest answer
    for name, moment, largest in (("prompt_tokens_max", of.p2, of.p_max), ("output_tokens_max", of.o2, o_max)):
        holds = largest**2 <= of.requests * moment * (1 + _ROUNDING)
        ledger.holds(
            CHECK, f"{where}.{name}", holds, largest, "a maximum that the second moment can hold", "laws of moments"
        )


def _check_sums_are_whole(ledger: Ledger, where: str, row: Mapping[str, Any]) -> None:
    """Tokens are whole numbers, so requests x mean is one, as far as 12 digits can tell."""
    for name in _MEANS:
        if name not in row:
            continue
        total = row["requests"] * row[name]
        holds = abs(total - round(total)) <= _ROUNDING * total
        ledger.holds(
            CHECK, f"{where}.{name}", holds, row[name], f"{round(total)} / {row['requests']}", "tokens are whole"
        )


def _check_digits(ledger: Ledger, where: str, row: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in names:
        if row.get(name) is not None:
            ledger.rounded(f"{where}.{name}", row[name], WORKLOAD_DIGITS)


def _check_strata(ledger: Ledger, bucket: Mapping[str, Any], strata: Sequence[Mapping[str, Any]]) -> None:
    """Strata partition their bucket by prompt length; number `floor(16 r / N_k)` follows from the counts before."""
    label, requests = bucket["bucket"], bucket["requests"]
    total = sum(row["requests"] for row in strata)
    if not ledger.same(CHECK, f"workload.strata[{label}]", total, requests, "requests of the bucket"):
        return
    _check_sums(ledger, f"workload.buckets[{label}]", bucket, strata, ("prompt_tokens_mean", "prompt_tokens_m2"))
    before, shortest = 0, 0.0
    for row in strata:
        where = f"workload.strata[{label}/{row['stratum']}]"
        number = STRATA_PER_BUCKET * before // requests
        ledger.same(
            CHECK, f"{where}.stratum", row["stratum"], number, "floor(16 x requests with shorter prompts / requests)"
        )
        mean, second = row["prompt_tokens_mean"], row["prompt_tokens_m2"]
        ledger.holds(
            CHECK, f"{where}.prompt_tokens_mean", mean > shortest, mean, f"above {shortest}", "ascending prompts"
        )
        holds = mean**2 * (1 - _ROUNDING) <= second <= bucket["prompt_tokens_max"] * mean * (1 + _ROUNDING)
        ledger.holds(CHECK, f"{where}.prompt_tokens_m2", holds, second, f"at least {mean**2:.12g}", "laws of moments")
        _check_sums_are_whole(ledger, where, row)
        _check_digits(ledger, where, row, ("prompt_tokens_mean", "prompt_tokens_m2"))
        before, shortest = before + row["requests"], mean
