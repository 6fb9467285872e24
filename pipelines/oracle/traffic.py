"""The requests as the equations read them: moments, strata, and arrivals at one bound (docs/arithmetic.md section 1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .findings import WORKLOAD_DIGITS, round_significant
from .parameters import ARRIVAL_SCV, CONCURRENCY, HIT_RATIO, RATE, Inputs

_MEANS = ("p1", "p2", "u1", "u2", "z1", "z2", "uz", "pu", "pz", "o1", "o2", "po", "multi_token_share")
_MAXIMA = ("p_max", "u_max", "z_max", "o_max")


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
    o_max: float
    multi_token_share: float
    bucket: str


@dataclass(frozen=True)
class Stratum:
    """Requests of one bucket with about the same uncached tokens: their share `v` of the path's, and means."""

    bucket: str
    requests: int
    share: float
    p1: float
    u1: float
    z1: float
    p2: float
    pu: float
    u2: float

    @property
    def uncached_variance(self) -> float:
        """`Var_s(u) = max(0, uu_s - u_s²)`, hits applied."""
        return max(0.0, self.u2 - self.u1**2)

    @property
    def prompt_uncached_covariance(self) -> float:
        """`Cov_s(p, u) = pu_s - p_s·u_s`, hits applied."""
        return self.pu - self.p1 * self.u1


@dataclass(frozen=True)
class OutputStratum:
    """Requests of one bucket with about the same output tokens: `N_v` of them, `o_v` = E[o]."""

    bucket: str
    requests: int
    o1: float


@dataclass(frozen=True)
class Requests:
    """The requests of a path, out of a cohort of so many."""

    whole: Moments
    buckets: tuple[Moments, ...]
    strata: tuple[Stratum, ...]
    cohort: int
    outputs: tuple[OutputStratum, ...] = ()
    _parts: dict[int, tuple[Requests, Requests]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def portion(self) -> float:
        """`g`: the share of the cohort's requests that these are."""
        return self.whole.requests / self.cohort

    @cached_property
    def _own(self) -> dict[str, list[tuple[int, int]]]:
        own: dict[str, list[tuple[int, int]]] = {"all": []}
        for place, s in enumerate(self.strata):
            own["all"].append((place, s.requests))
            own.setdefault(s.bucket, []).append((place, s.requests))
        return own

    def mean(self, bucket: str, values: Sequence[float]) -> float:
        """Mean over the strata of a bucket, or all, weighted by their requests."""
        own = self._own[bucket]
        return math.fsum(count * values[place] for place, count in own) / sum(count for _, count in own)

    def mean_of(self, bucket: str, value: Callable[[int], float]) -> float:
        """Mean over the strata of a bucket of what is asked for at their places."""
        own = self._own[bucket]
        return math.fsum(count * value(place) for place, count in own) / sum(count for _, count in own)

    @cached_property
    def outputs_of(self) -> Mapping[str, list[OutputStratum]]:
        """The output strata of each bucket."""
        own: dict[str, list[OutputStratum]] = {}
        for v in self.outputs:
            own.setdefault(v.bucket, []).append(v)
        return own

    def split(self, threshold: int) -> tuple[Requests, Requests]:
        """Return the requests below a bucket edge, and those from it on."""
        if threshold not in self._parts:
            below = [k.bucket for k in self.buckets if lower_edge(k.bucket) < threshold]
            others = [k.bucket for k in self.buckets if k.bucket not in below]
            self._parts[threshold] = (self._of(below), self._of(others))
        return self._parts[threshold]

    def _of(self, labels: Sequence[str]) -> Requests:
        """The requests of some buckets: means weighted by their requests, the largest maxima."""
        buckets = tuple(k for k in self.buckets if k.bucket in labels)
        count = sum(k.requests for k in buckets)
        means = {name: math.fsum(k.requests * getattr(k, name) for k in buckets) / count for name in _MEANS}
        maxima = {name: max(getattr(k, name) for k in buckets) for name in _MAXIMA}
        strata = tuple(replace(s, share=s.requests / count) for s in self.strata if s.bucket in labels)
        outputs = tuple(v for v in self.outputs if v.bucket in labels)
        whole = Moments(requests=count, bucket="all", **means, **maxima)
        return Requests(whole, buckets, strata, self.cohort, outputs)


@dataclass(frozen=True)
class Traffic:
    """Arrivals and requests at one bound; in a closed loop of `concurrency` requests the rate is each scenario's own."""

    rate_rps: float
    arrival_scv: float
    requests: Requests
    concurrency: float | None = None

    @property
    def whole(self) -> Moments:
        """Moments over all requests."""
        return self.requests.whole

    @property
    def buckets(self) -> tuple[Moments, ...]:
        """Moments of each bucket."""
        return self.requests.buckets

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """All strata."""
        return self.requests.strata

    def at_rate(self, rate_rps: float) -> Traffic:
        """Return the same requests at another rate."""
        return replace(self, rate_rps=rate_rps)


def by_bucket(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Put rows of a workload together by their buckets, in their order."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["bucket"], []).append(row)
    return found


def lower_edge(bucket: str) -> int:
    """Return the tokens that a bucket begins at.

    >>> lower_edge("[512,inf)"), upper_edge("[1,512)"), upper_edge("[512,inf)")
    (512, 512.0, inf)
    """
    return int(bucket[1:].partition(",")[0])


def upper_edge(bucket: str) -> float:
    """Return the tokens that a bucket ends before."""
    return float(bucket[:-1].partition(",")[2])


def split_scv(arrival_scv: float, portion: float) -> float:
    """`ca²_path = g·ca² + 1 - g`: variation of a stream that some requests are taken from at random (Whitt).

    >>> split_scv(5.0, 0.25), split_scv(5.0, 1.0)
    (2.0, 5.0)
    """
    return portion * arrival_scv + 1 - portion


class Cohort:
    """The requests of a workload of the right structure, read once for each hit ratio."""

    def __init__(self, workload: Mapping[str, Any]) -> None:
        """Read nothing yet."""
        self.workload = workload
        self._requests: dict[float, Requests] = {}

    def requests(self, hit_ratio: float) -> Requests:
        """All requests, with a declared hit ratio applied."""
        if hit_ratio not in self._requests:
            whole, *buckets = self.workload["buckets"]
            self._requests[hit_ratio] = Requests(
                with_hits(moments_of(whole), hit_ratio),
                tuple(with_hits(moments_of(row), hit_ratio) for row in buckets),
                tuple(_stratum(row, whole["requests"], hit_ratio) for row in self.workload["strata"]),
                whole["requests"],
                tuple(
                    OutputStratum(row["bucket"], row["requests"], row["output_tokens_mean"])
                    for row in self.workload["outputs"]
                ),
            )
        return self._requests[hit_ratio]

    def traffic(self, inputs: Inputs, bound: str) -> Traffic:
        """The requests and their arrivals at one bound; the rate of a closed loop is 0 until it is given."""
        scv = inputs.at(ARRIVAL_SCV, bound)
        if scv is None:
            scv = self.workload["buckets"][0]["arrival_scv"]
        return Traffic(
            rate_rps=rate_at(self.workload, inputs, bound) or 0.0,
            arrival_scv=float(scv or 0.0),
            requests=self.requests(float(inputs.at(HIT_RATIO, bound))),
            concurrency=inputs.at(CONCURRENCY, bound),
        )

    def thresholds(self, inputs: Inputs) -> tuple[int, ...]:
        """The thresholds that leave requests on either side."""
        edges = [lower_edge(row["bucket"]) for row in self.workload["buckets"][1:]]
        return tuple(t for t in inputs.thresholds if min(edges) < t <= max(edges))


def traffic_of(workload: Mapping[str, Any], inputs: Inputs, bound: str) -> Traffic:
    """Read a workload of the right structure at one bound."""
    return Cohort(workload).traffic(inputs, bound)


def rate_at(workload: Mapping[str, Any], inputs: Inputs, bound: str) -> float | None:
    """`Λ` (requests/s): of 12 digits, declared at the bound, or the trace's, and changed; None in a closed loop."""
    if CONCURRENCY in inputs.rows:
        return None
    if RATE in inputs.rows:
        return round_significant(inputs.at(RATE, bound), WORKLOAD_DIGITS) * inputs.rate_factor
    return float(workload["buckets"][0]["rate_rps"]) * inputs.rate_factor


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
        o_max=row["output_tokens_max"],
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
