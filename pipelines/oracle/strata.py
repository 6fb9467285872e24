"""Laws that the means of one stratum obey: `1 ≤ u ≤ p`, `z = u·(2p - u)`, and what moments of two factors allow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .arrivals import ROUNDING, agree
from .findings import WORKLOAD_DIGITS, Ledger
from .moments import SLACK, WHY, Law

CHECK = "workload"
STRATA_PER_BUCKET = 16


def check_stratum(ledger: Ledger, where: str, row: Mapping[str, Any], bucket: Mapping[str, Any], least: int) -> None:
    """Check one stratum of a bucket whose prompts have so many tokens at least."""
    for law in (*_first_moments(row, bucket), *_second_moments(row, bucket, least)):
        ledger.holds(CHECK, f"{where}.{law.name}", law.holds, law.value, law.limits, WHY)


def _first_moments(row: Mapping[str, Any], bucket: Mapping[str, Any]) -> Iterator[Law]:
    p, u, z = row["prompt_tokens_mean"], row["uncached_tokens_mean"], row["attention_mean"]
    longest = bucket["prompt_tokens_max"]
    pairs = 2 * row["prompt_uncached_mean"] - row["uncached_tokens_m2"]
    yield Law("prompt_tokens_mean", p, [u], [longest])
    yield Law("uncached_tokens_mean", u, [1], [bucket["uncached_tokens_max"]])
    most = min((2 * longest - u) * u, bucket["attention_max"])
    yield Law("attention_mean", z, [pairs, u**2, 2 * p - 1], [pairs, most], 2 * row["prompt_uncached_mean"])


def _second_moments(row: Mapping[str, Any], bucket: Mapping[str, Any], least: int) -> Iterator[Law]:
    """`E[x]² ≤ E[x²]`, no more than so many requests allow; the covariance within both deviations."""
    p, u, requests = row["prompt_tokens_mean"], row["uncached_tokens_mean"], row["requests"]
    pp, pu, uu = row["prompt_tokens_m2"], row["prompt_uncached_mean"], row["uncached_tokens_m2"]
    for name, mean, second, low, high in (
        ("prompt_tokens_m2", p, pp, least, bucket["prompt_tokens_max"]),
        ("uncached_tokens_m2", u, uu, 1, bucket["uncached_tokens_max"]),
    ):
        yield Law(name, second, [mean**2], [requests * mean**2, (low + high) * mean - low * high], (low + high) * mean)
    deviations = math.sqrt((max(0.0, pp - p**2) + SLACK * pp) * (max(0.0, uu - u**2) + SLACK * uu))
    middle = p * u
    yield Law("prompt_uncached_mean", pu, [uu, middle - deviations], [pp, requests * middle, middle + deviations])


def stratum_number(before: int, requests: int) -> int:
    """`floor(16·r/N_k)`: the number of a stratum with so many requests of the bucket before it.

    >>> stratum_number(5, 10)
    8
    """
    return STRATA_PER_BUCKET * before // requests


def check_outputs(ledger: Ledger, bucket: Mapping[str, Any], strata: Sequence[Mapping[str, Any]]) -> bool:
    """Check the output strata of a bucket: its requests by output tokens, numbered as those by uncached tokens are."""
    label, requests = bucket["bucket"], bucket["requests"]
    total = sum(row["requests"] for row in strata)
    if not ledger.same(CHECK, f"workload.outputs[{label}]", total, requests, "requests of the bucket"):
        return False
    sums = [row["requests"] * row["output_tokens_mean"] for row in strata]
    found, mean = bucket["output_tokens_mean"], math.fsum(sums) / requests
    why = "the mean of its parts, weighted by requests"
    ledger.holds(CHECK, f"workload.buckets[{label}].output_tokens_mean", agree(found, mean), found, mean, why)
    before, fewest = 0, 0.0
    for row, tokens in zip(strata, sums, strict=True):
        where, mean = f"workload.outputs[{label}/{row['stratum']}]", row["output_tokens_mean"]
        number, why = stratum_number(before, requests), "floor(16 x requests with fewer output tokens / requests)"
        ledger.same(CHECK, f"{where}.stratum", row["stratum"], number, why)
        within, place = fewest < mean <= bucket["output_tokens_max"], f"{where}.output_tokens_mean"
        expected = f"above {fewest}, up to {bucket['output_tokens_max']}"
        ledger.holds(CHECK, place, within, mean, expected, "ascending output tokens")
        whole = abs(tokens - round(tokens)) <= ROUNDING * tokens
        ledger.holds(CHECK, place, whole, mean, f"{round(tokens)} / {row['requests']}", "tokens are whole")
        ledger.rounded(place, mean, WORKLOAD_DIGITS)
        before, fewest = before + row["requests"], mean
    return _check_squares(ledger, bucket, strata)


def _check_squares(ledger: Ledger, bucket: Mapping[str, Any], strata: Sequence[Mapping[str, Any]]) -> bool:
    """Means of parts vary no more than the requests do."""
    where, second = f"workload.buckets[{bucket['bucket']}].output_tokens_m2", bucket["output_tokens_m2"]
    least = math.fsum(row["requests"] * row["output_tokens_mean"] ** 2 for row in strata) / bucket["requests"]
    fits = second >= least * (1 - SLACK)
    return ledger.holds(CHECK, where, fits, second, f"at least {least:.12g}", "the squares of the means of its parts")
