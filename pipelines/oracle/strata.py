"""Laws that the means of one stratum obey: `1 ≤ u ≤ p`, `z = u·(2p - u)`, and what moments of two factors allow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from .findings import Ledger
from .moments import SLACK, WHY, Law

CHECK = "workload"


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
