"""The requests of one path: moments, strata as arrays, and what a declared hit ratio leaves of them (docs/arithmetic.md, sections 1, 5)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Floats, Number, column
from pipelines.frames.workload import ALL

PROMPTS = ("all", "below_threshold", "from_threshold")
"""Which prompts a path serves."""

_MEANS = {
    "p1": "prompt_tokens_mean",
    "p2": "prompt_tokens_m2",
    "u1": "uncached_tokens_mean",
    "u2": "uncached_tokens_m2",
    "z1": "attention_mean",
    "z2": "attention_m2",
    "uz": "uncached_attention_mean",
    "pu": "prompt_uncached_mean",
    "pz": "prompt_attention_mean",
    "o1": "output_tokens_mean",
    "o2": "output_tokens_m2",
    "po": "prompt_output_mean",
    "m": "multi_token_share",
}
_LARGEST = {
    "p_max": "prompt_tokens_max",
    "u_max": "uncached_tokens_max",
    "z_max": "attention_max",
    "o_max": "output_tokens_max",
}
_OF_STRATA = {
    "p": "prompt_tokens_mean",
    "u": "uncached_tokens_mean",
    "z": "attention_mean",
    "pp": "prompt_tokens_m2",
    "pu": "prompt_uncached_mean",
    "uu": "uncached_tokens_m2",
}


@dataclass(frozen=True)
class Bucket:
    """One range of prompt lengths: its label, its lower and upper edge in tokens (``upper`` None: no end), and its row of the workload."""

    label: str
    lower: int
    upper: int | None
    requests: int
    moments: dict[str, float]


@dataclass(frozen=True)
class Strata:
    """Arrays over the strata of a path. ``share`` is of the path's requests, ``cohort_share`` (v_s) of all; ``bucket`` counts from 0.

    ``p`` to ``uu`` are means in tokens and token pairs, as the trace has them.
    """

    bucket: NDArray[np.int64]
    share: Floats
    cohort_share: Floats
    within: Floats
    p: Floats
    u: Floats
    z: Floats
    pp: Floats
    pu: Floats
    uu: Floats

    def per_bucket(self, values: Floats) -> Floats:
        """Means over the strata of each bucket, weighted by their requests: the last axis becomes that of buckets."""
        return np.add.reduceat(values * self.within, self._starts, axis=-1)

    def sums(self, values: Floats) -> Floats:
        """Sums over the strata of each bucket."""
        return np.add.reduceat(values, self._starts, axis=-1)

    def mean(self, values: Floats) -> Any:
        """Mean over all requests of the path."""
        return np.einsum("...s,s->...", values, self.share)

    @property
    def _starts(self) -> NDArray[np.int64]:
        return np.flatnonzero(np.diff(self.bucket, prepend=-1))


@dataclass(frozen=True)
class Outputs:
    """Arrays over the output strata of a path: place of the bucket, share of its requests, mean output tokens."""

    bucket: NDArray[np.int64]
    within: Floats
    tokens: Floats

    def shares(self, values: Floats) -> Floats:
        """Means over the output strata of each bucket, weighted by their requests: the last axis becomes that of buckets."""
        starts = np.flatnonzero(np.diff(self.bucket, prepend=-1))
        return np.add.reduceat(values * self.within, starts, axis=-1)


@dataclass(frozen=True)
class PathRequests:
    """The requests that a path serves: ``part`` (g) of all, ``count``, their ``moments`` by symbol, buckets in ascending order, strata."""

    part: float
    count: int
    moments: dict[str, float]
    buckets: tuple[Bucket, ...]
    strata: Strata
    outputs: Outputs

    def of_buckets(self, symbol: str) -> Floats:
        """One moment of every bucket."""
        return np.array([bucket.moments[symbol] for bucket in self.buckets])

    def only(self, place: int) -> "PathRequests":
        """The requests of the bucket at ``place`` alone."""
        bucket, strata = self.buckets[place], self.strata
        own = strata.bucket == place
        kept = {name: getattr(strata, name)[own] for name in ("within", "cohort_share", *_OF_STRATA)}
        alone = Strata(bucket=np.zeros(int(own.sum()), dtype=np.int64), share=kept["within"], **kept)
        written = self.outputs.bucket == place
        outputs = Outputs(
            np.zeros(int(written.sum()), dtype=np.int64), self.outputs.within[written], self.outputs.tokens[written]
        )
        return PathRequests(
            float(kept["cohort_share"].sum()), bucket.requests, bucket.moments, (bucket,), alone, outputs
        )

    @property
    def shares(self) -> Floats:
        """N_k/N of every bucket, over all requests of the cohort."""
        return self.strata.sums(self.strata.cohort_share)


def edges_of(label: str) -> tuple[int, int | None]:
    """Lower and upper edge of a bucket.

    >>> edges_of("[512,2048)"), edges_of("[2048,inf)")
    ((512, 2048), (2048, None))
    """
    lower, upper = label.strip("[)").split(",")
    return int(lower), None if upper == "inf" else int(upper)


def _moments(row: dict[str, Any]) -> dict[str, float]:
    return {symbol: float(row[name]) for symbol, name in (_MEANS | _LARGEST).items()}


def _serves(prompts: str, threshold: int | None) -> Callable[[Bucket], bool]:
    if prompts == "all":
        return lambda _: True
    assert threshold is not None
    if prompts == "below_threshold":
        return lambda bucket: bucket.upper is not None and bucket.upper <= threshold
    return lambda bucket: bucket.lower >= threshold


def path_requests(
    buckets: pl.DataFrame,
    strata: pl.DataFrame,
    outputs: pl.DataFrame,
    prompts: str = "all",
    threshold: int | None = None,
) -> PathRequests | None:
    """The requests of a path that serves ``prompts``; None where there are none."""
    rows = buckets.filter(pl.col("bucket") != ALL).to_dicts()
    whole = [Bucket(row["bucket"], *edges_of(row["bucket"]), row["requests"], _moments(row)) for row in rows]
    own = tuple(filter(_serves(prompts, threshold), whole))
    if not own:
        return None
    total, served = sum(bucket.requests for bucket in whole), sum(bucket.requests for bucket in own)
    overall = buckets.filter(pl.col("bucket") == ALL).row(0, named=True)
    moments = _moments(overall) if len(own) == len(whole) else _mixed(own)
    return PathRequests(
        served / total, served, moments, own, _strata(strata, own, served, total), _outputs(outputs, own)
    )


def _mixed(buckets: tuple[Bucket, ...]) -> dict[str, float]:
    """Moments of several buckets together: means weighted by requests, and the largest."""
    total = sum(bucket.requests for bucket in buckets)
    means = {symbol: sum(bucket.requests * bucket.moments[symbol] for bucket in buckets) / total for symbol in _MEANS}
    return means | {symbol: max(bucket.moments[symbol] for bucket in buckets) for symbol in _LARGEST}


def _strata(strata: pl.DataFrame, buckets: tuple[Bucket, ...], served: int, total: int) -> Strata:
    places = {bucket.label: place for place, bucket in enumerate(buckets)}
    own = strata.filter(pl.col("bucket").is_in(list(places)))
    bucket = np.array([places[label] for label in own["bucket"]], dtype=np.int64)
    requests = own["requests"].to_numpy().astype(np.float64)
    of_bucket = np.array([one.requests for one in buckets], dtype=np.float64)[bucket]
    return Strata(
        bucket=bucket,
        share=requests / served,
        cohort_share=requests / total,
        within=requests / of_bucket,
        **{symbol: own[name].to_numpy().astype(np.float64) for symbol, name in _OF_STRATA.items()},
    )


def _outputs(outputs: pl.DataFrame, buckets: tuple[Bucket, ...]) -> Outputs:
    places = {bucket.label: place for place, bucket in enumerate(buckets)}
    own = outputs.filter(pl.col("bucket").is_in(list(places)))
    bucket = np.array([places[label] for label in own["bucket"]], dtype=np.int64)
    of_bucket = np.array([one.requests for one in buckets], dtype=np.float64)[bucket]
    return Outputs(
        bucket,
        own["requests"].to_numpy().astype(np.float64) / of_bucket,
        own["output_tokens_mean"].to_numpy().astype(np.float64),
    )


@dataclass(frozen=True)
class Computed:
    """What prefill computes of a path's requests where a prefix cache leaves α of tokens and β of attention.

    ``moments`` are scaled; ``u``, ``z``, ``uu`` are of the strata, ``bucket_u`` and ``bucket_z`` of the buckets, with rows before columns.
    The largest u and z stay: the longest prompt may miss entirely.
    """

    moments: dict[str, Number]
    u: Floats
    z: Floats
    uu: Floats
    bucket_u: Floats
    bucket_z: Floats
    variance: Floats
    covariance: Floats

    @classmethod
    def of(cls, requests: PathRequests, alpha: Number, beta: Number) -> "Computed":
        """The requests after hits: u·α, u²·α², z·β, and their products."""
        left: dict[str, Number] = {
            "u1": alpha,
            "u2": alpha * alpha,
            "z1": beta,
            "z2": beta * beta,
            "uz": alpha * beta,
            "pu": alpha,
            "pz": beta,
        }
        moments: dict[str, Number] = dict(requests.moments)
        moments |= {symbol: factor * requests.moments[symbol] for symbol, factor in left.items()}
        a, b, strata = column(alpha), column(beta), requests.strata
        return cls(
            moments=moments,
            u=np.atleast_1d(a * strata.u),
            z=np.atleast_1d(b * strata.z),
            uu=np.atleast_1d(a * a * strata.uu),
            bucket_u=np.atleast_1d(a * requests.of_buckets("u1")),
            bucket_z=np.atleast_1d(b * requests.of_buckets("z1")),
            variance=np.atleast_1d(a * a * np.maximum(strata.uu - strata.u**2, 0.0)),
            covariance=np.atleast_1d(a * (strata.pu - strata.p * strata.u)),
        )
