"""The requests as the equations read them: moments, strata, and arrivals at one bound (docs/arithmetic.md section 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .findings import WORKLOAD_DIGITS, round_significant
from .parameters import ARRIVAL_SCV, CONCURRENCY, HIT_RATIO, RATE, Inputs


@dataclass(frozen=True)
class Moments:
    """Moments over a set of requests: prompt tokens p, uncached u, attention z = p² - (p - u)², output tokens o."""

    requests: int
    p1: float
    p2: float
    u1: float
    u2: float
    z1: float
    z2: float
    uz: float
    pu: float
    pz: float
    p_max: float
    u_max: float
    z_max: float
    o1: float
    o2: float
    po: float
    multi_token_share: float
    bucket: str


@dataclass(frozen=True)
class Stratum:
    """Requests of one bucket with about the same uncached tokens: their share `v` of all, and means."""

    bucket: str
    requests: int
    share: float
    p1: float
    u1: float
    z1: float
    p2: float
    pu: float
    u2: float


@dataclass(frozen=True)
class Traffic:
    """Arrivals and requests at one bound; in a closed loop of `concurrency` requests the rate is each scenario's own."""

    rate_rps: float
    arrival_scv: float
    whole: Moments
    buckets: tuple[Moments, ...]
    strata: tuple[Stratum, ...]
    concurrency: float | None = None

    def at_rate(self, rate_rps: float) -> Traffic:
        """Return the same requests at another rate."""
        return replace(self, rate_rps=rate_rps)


def traffic_of(workload: Mapping[str, Any], inputs: Inputs, bound: str) -> Traffic:
    """Read a workload of the right structure at one bound; the rate of a closed loop is 0 until it is given."""
    whole, *buckets = workload["buckets"]
    hit_ratio = float(inputs.at(HIT_RATIO, bound))
    scv = inputs.at(ARRIVAL_SCV, bound) if ARRIVAL_SCV in inputs.rows else whole["arrival_scv"]
    return Traffic(
        rate_rps=rate_at(workload, inputs, bound) or 0.0,
        arrival_scv=float(scv or 0.0),
        whole=with_hits(moments_of(whole), hit_ratio),
        buckets=tuple(with_hits(moments_of(row), hit_ratio) for row in buckets),
        strata=tuple(_stratum(row, whole["requests"], hit_ratio) for row in workload["strata"]),
        concurrency=inputs.at(CONCURRENCY, bound),
    )


def rate_at(workload: Mapping[str, Any], inputs: Inputs, bound: str) -> float | None:
    """`Λ` (requests/s, 12 digits): declared at the bound, or the trace's; None in a closed loop, where it is solved."""
    if CONCURRENCY in inputs.rows:
        return None
    if RATE in inputs.rows:
        return round_significant(inputs.at(RATE, bound), WORKLOAD_DIGITS)
    return float(workload["buckets"][0]["rate_rps"])


def with_hits(of: Moments, hit_ratio: float) -> Moments:
    """`α·u1, α²·u2, β·z1, β²·z2, α·β·uz, α·pu, β·pz` with `α = 1 - η`, `β = 1 - η²`: a declared hit ratio applied."""
    alpha, beta = 1 - hit_ratio, 1 - hit_ratio**2
    return replace(
        of,
        u1=alpha * of.u1,
        u2=alpha**2 * of.u2,
        z1=beta * of.z1,
        z2=beta**2 * of.z2,
        uz=alpha * beta * of.uz,
        pu=alpha * of.pu,
        pz=beta * of.pz,
    )


def moments_of(row: Mapping[str, Any]) -> Moments:
    """Read the moments of one bucket."""
    return Moments(
        requests=row["requests"],
        p1=row["prompt_tokens_mean"],
        p2=row["prompt_tokens_m2"],
        u1=row["uncached_tokens_mean"],
        u2=row["uncached_tokens_m2"],
        z1=row["attention_mean"],
        z2=row["attention_m2"],
        uz=row["uncached_attention_mean"],
        pu=row["prompt_uncached_mean"],
        pz=row["prompt_attention_mean"],
        p_max=row["prompt_tokens_max"],
        u_max=row["uncached_tokens_max"],
        z_max=row["attention_max"],
        o1=row["output_tokens_mean"],
        o2=row["output_tokens_m2"],
        po=row["prompt_output_mean"],
        multi_token_share=row["multi_token_share"],
        bucket=row["bucket"],
    )


def _stratum(row: Mapping[str, Any], requests: int, hit_ratio: float) -> Stratum:
    return Stratum(
        bucket=row["bucket"],
        requests=row["requests"],
        share=row["requests"] / requests,
        p1=row["prompt_tokens_mean"],
        u1=(1 - hit_ratio) * row["uncached_tokens_mean"],
        z1=(1 - hit_ratio**2) * row["attention_mean"],
        p2=row["prompt_tokens_m2"],
        pu=(1 - hit_ratio) * row["prompt_uncached_mean"],
        u2=(1 - hit_ratio) ** 2 * row["uncached_tokens_m2"],
    )
