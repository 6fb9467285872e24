"""Moments of requests: rates, prompt, uncached and output moments per bucket, strata within buckets.

Sums are taken in integers, so they are exact and the same on any number of threads: token products fit 64 bits and are summed in
two halves of 32, everything else is summed in Python over the distinct prompts. A figure is one ratio of such sums, rounded to 12
significant digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from pipelines.frames.digits import WORKLOAD_DIGITS, significant
from pipelines.frames.workload import ALL, Buckets, Strata, Windows
from pipelines.traces.arrivals import NS_PER_S, window_figures, window_lengths_s

STRATA_PER_BUCKET = 16

_HALF = 32
_HALF_RANGE = 2**_HALF


def rounded_ratio(numerator: int, denominator: int) -> float:
    """The exact ratio of two integers, rounded to the digits of a workload figure.

    >>> rounded_ratio(2, 3)
    0.666666666667
    """
    return significant(numerator / denominator, WORKLOAD_DIGITS)


def duration_s(requests: pl.DataFrame) -> float:
    """Time in seconds from the first arrival to the last."""
    return rounded_ratio(_span_ns(requests), NS_PER_S)


def bucket_labels(edges: Sequence[int]) -> list[str]:
    """Labels of the prompt ranges between ``edges`` (tokens), which ascend from 2 or more; no edge, one range.

    >>> bucket_labels([512, 2048])
    ['[1,512)', '[512,2048)', '[2048,inf)']
    """
    ends = [1, *edges]
    if any(low >= high for low, high in pairwise(ends)):
        raise ValueError(f"bucket edges must ascend from 2 or more tokens, found {list(edges)}")
    return [f"[{low},{high})" for low, high in zip(ends, [*edges, "inf"], strict=True)]


def bucket_frame(
    requests: pl.DataFrame, edges: Sequence[int], *, kind: str = "open", rate_rps: float | None = None
) -> pl.DataFrame:
    """The :class:`Buckets` of a :class:`Requests` frame: all requests, then each range of prompt tokens that holds any.

    The rate is the log's in an ``open`` cohort, else ``rate_rps`` times the bucket's share (None in a closed loop).
    """
    labels, prompts, outputs = bucket_labels(edges), _prompts(requests, edges), _outputs(requests, edges)
    is_open = kind == "open"
    span_ns = _span_ns(requests) if is_open else 0
    rows = []
    for place in (None, *sorted(outputs)):
        sums = _sums(prompts, outputs, place)
        rate, scv = rate_rps and significant(rate_rps * sums.requests / requests.height, WORKLOAD_DIGITS), None
        if is_open:
            arrivals = requests["arrival_ns"] if place is None else _arrivals(requests, edges, place)
            rate = rounded_ratio((requests.height - 1) * NS_PER_S * sums.requests, span_ns * requests.height)
            scv = arrival_scv(arrivals)
        label = ALL if place is None else labels[place]
        rows.append({"bucket": label, "rate_rps": rate, "arrival_scv": scv} | sums.figures())
    return Buckets.validate(_frame(rows, Buckets))


def stratum_frame(requests: pl.DataFrame, edges: Sequence[int]) -> pl.DataFrame:
    """The :class:`Strata` of a :class:`Requests` frame, bucket by bucket.

    A request with ``r`` requests of fewer uncached tokens among the ``N_k`` of its bucket is in stratum ``floor(16 r / N_k)``:
    one count of uncached tokens, one stratum.
    """
    labels = bucket_labels(edges)
    rows: list[dict[str, object]] = []
    for place, prompts in _prompts(requests, edges).items():
        in_bucket = sum(count for *_, count in prompts)
        strata: dict[int, list[int]] = {}
        fewer = same = 0
        before = None
        for uncached, prompt, count in sorted((p - h, p, count) for p, h, count in prompts):
            fewer, same = (fewer, same + count) if uncached == before else (fewer + same, count)
            before = uncached
            sums = strata.setdefault(STRATA_PER_BUCKET * fewer // in_bucket, [0, 0, 0, 0])
            attention = prompt**2 - (prompt - uncached) ** 2
            for place_in_sums, value in enumerate((1, prompt, uncached, attention)):
                sums[place_in_sums] += count * value
        rows += [
            {
                "bucket": labels[place],
                "stratum": stratum,
                "requests": sums[0],
                "prompt_tokens_mean": rounded_ratio(sums[1], sums[0]),
                "uncached_tokens_mean": rounded_ratio(sums[2], sums[0]),
                "attention_mean": rounded_ratio(sums[3], sums[0]),
            }
            for stratum, sums in strata.items()
        ]
    return Strata.validate(_frame(rows, Strata))


def window_frame(requests: pl.DataFrame, edges: Sequence[int], *, kind: str = "open") -> pl.DataFrame:
    """The :class:`Windows` of a :class:`Requests` frame: all requests, then each bucket that holds any; none unless ``open``."""
    if kind != "open":
        return Windows.validate(_frame([], Windows))
    labels, span_ns = bucket_labels(edges), _span_ns(requests)
    groups = [(ALL, requests["arrival_ns"])]
    groups += [(label, _arrivals(requests, edges, place)) for place, label in enumerate(labels)]
    rows = [
        {"bucket": label} | window_figures(arrivals, window_s, span_ns)
        for label, arrivals in groups
        if not arrivals.is_empty()
        for window_s in window_lengths_s(span_ns)
    ]
    return Windows.validate(_frame(rows, Windows))


def arrival_scv(arrival_ns: pl.Series) -> float | None:
    """``E[g²]/E[g]² - 1`` of the gaps ``g`` between sorted arrivals; none with fewer than two gaps, or where all are 0.

    >>> arrival_scv(pl.Series([0, 1, 4]))  # gaps 1 and 3: mean 2, variance 1
    0.25
    """
    gaps = arrival_ns.len() - 1
    span = int(arrival_ns[-1]) - int(arrival_ns[0]) if gaps > 0 else 0
    if gaps < 2 or span == 0:
        return None
    gap = pl.col("arrival_ns").diff()
    high, low = gap // _HALF_RANGE, gap % _HALF_RANGE
    unsigned = low.cast(pl.UInt64)  # g² = h²·2⁶⁴ + 2·h·l·2³² + l²
    halves = (
        arrival_ns.to_frame("arrival_ns")
        .lazy()
        .select(*_halves("squares", unsigned * unsigned), *_halves("cross", high * low), high=(high * high).sum())
    )
    row = halves.collect(engine="in-memory").row(0, named=True)
    squares = (row["high"] << 2 * _HALF) + (_whole(row, "cross") << _HALF + 1) + _whole(row, "squares")
    return rounded_ratio(gaps * squares - span**2, span**2)


@dataclass
class _Sums:
    """Exact sums over a group of requests, in tokens: prompts p, uncached tokens u, attention z, outputs o."""

    requests: int = 0
    p: int = 0
    p2: int = 0
    u: int = 0
    u2: int = 0
    z: int = 0
    z2: int = 0
    uz: int = 0
    pu: int = 0
    pz: int = 0
    p_max: int = 0
    u_max: int = 0
    z_max: int = 0
    o: int = 0
    o2: int = 0
    po: int = 0
    o_max: int = 0
    multi_token: int = 0

    def add_prompts(self, p: int, h: int, count: int) -> None:
        """``count`` requests of ``p`` prompt tokens of which ``h`` are cached."""
        u, z = p - h, p * p - h * h
        self.requests += count
        self.p += count * p
        self.p2 += count * p * p
        self.u += count * u
        self.u2 += count * u * u
        self.z += count * z
        self.z2 += count * z * z
        self.uz += count * u * z
        self.pu += count * p * u
        self.pz += count * p * z
        self.p_max, self.u_max, self.z_max = max(self.p_max, p), max(self.u_max, u), max(self.z_max, z)

    def add_outputs(self, row: dict[str, int]) -> None:
        """The sums of a bucket's outputs."""
        self.o += row["o"]
        self.o2 += _whole(row, "o2")
        self.po += _whole(row, "po")
        self.multi_token += row["multi_token"]
        self.o_max = max(self.o_max, row["o_max"])

    def figures(self) -> dict[str, object]:
        """The token columns of :class:`Buckets`."""
        means = {
            "prompt_tokens_mean": self.p,
            "prompt_tokens_m2": self.p2,
            "uncached_tokens_mean": self.u,
            "uncached_tokens_m2": self.u2,
            "attention_mean": self.z,
            "attention_m2": self.z2,
            "uncached_attention_mean": self.uz,
            "prompt_uncached_mean": self.pu,
            "prompt_attention_mean": self.pz,
            "output_tokens_mean": self.o,
            "output_tokens_m2": self.o2,
            "prompt_output_mean": self.po,
            "multi_token_share": self.multi_token,
        }
        figures: dict[str, object] = {name: rounded_ratio(total, self.requests) for name, total in means.items()}
        return figures | {
            "requests": self.requests,
            "prompt_tokens_max": self.p_max,
            "uncached_tokens_max": self.u_max,
            "attention_max": self.z_max,
            "output_tokens_max": self.o_max,
        }


_Prompts = dict[int, list[tuple[int, int, int]]]
"""By bucket, ascending: distinct pairs of prompt and cached tokens, and how many requests have them."""


def _sums(prompts: _Prompts, outputs: dict[int, dict[str, int]], place: int | None) -> _Sums:
    sums = _Sums()
    for one in outputs if place is None else (place,):
        for pair in prompts[one]:
            sums.add_prompts(*pair)
        sums.add_outputs(outputs[one])
    return sums


def _prompts(requests: pl.DataFrame, edges: Sequence[int]) -> _Prompts:
    pairs = (
        requests.lazy()
        .group_by("prompt_tokens", "cached_prompt_tokens")
        .agg(count=pl.len().cast(pl.Int64))
        .with_columns(place=_place(edges))
        .sort("place")
        .collect()
    )
    prompts: _Prompts = {}
    for p, h, count, place in pairs.iter_rows():
        prompts.setdefault(place, []).append((p, h, count))
    return prompts


def _outputs(requests: pl.DataFrame, edges: Sequence[int]) -> dict[int, dict[str, int]]:
    """By bucket, ascending: exact sums over its outputs."""
    p, o = pl.col("prompt_tokens").cast(pl.Int64), pl.col("output_tokens").cast(pl.Int64)
    sums = (
        requests.lazy()
        .group_by(_place(edges))
        .agg(
            *_halves("o2", o * o),
            *_halves("po", p * o),
            o=o.sum(),
            o_max=o.max(),
            multi_token=(o >= 2).sum().cast(pl.Int64),
        )
        .collect()
        .sort("place")
    )
    return {row.pop("place"): row for row in sums.iter_rows(named=True)}


def _halves(name: str, value: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Sums of the upper and lower 32 bits of a value that is not negative: neither leaves 64 bits for 2³¹ rows."""
    return (value // _HALF_RANGE).sum().alias(f"{name}_high"), (value % _HALF_RANGE).sum().alias(f"{name}_low")


def _whole(row: dict[str, int], name: str) -> int:
    return (row[f"{name}_high"] << _HALF) + row[f"{name}_low"]


def _span_ns(requests: pl.DataFrame) -> int:
    span = 0 if requests.is_empty() else int(requests["arrival_ns"][-1]) - int(requests["arrival_ns"][0])
    if span == 0:
        raise ValueError("the rate of a log is undefined without two different arrival times")
    return span


def _arrivals(requests: pl.DataFrame, edges: Sequence[int], place: int) -> pl.Series:
    """Arrivals of one bucket, in order."""
    ends = [None, *edges, None]
    low, high = ends[place], ends[place + 1]
    prompt = pl.col("prompt_tokens")
    inside = [
        end
        for end in (None if low is None else prompt >= low, None if high is None else prompt < high)
        if end is not None
    ]
    return requests.lazy().filter(*inside).select("arrival_ns").collect()["arrival_ns"]


def _place(edges: Sequence[int]) -> pl.Expr:
    """Number of the bucket that a prompt falls into: how many edges it reaches."""
    reached = [(pl.col("prompt_tokens") >= edge).cast(pl.Int64) for edge in edges]
    return pl.sum_horizontal(pl.lit(0, dtype=pl.Int64), *reached).alias("place")


def _frame(rows: Sequence[dict[str, object]], model: type[Buckets] | type[Strata] | type[Windows]) -> pl.DataFrame:
    schema = {name: column.dtype.type for name, column in model.to_schema().columns.items()}
    return pl.DataFrame(rows, schema=schema)
