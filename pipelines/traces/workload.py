"""Moments of requests: rates, prompt, uncached and output moments per bucket, strata within buckets by uncached and by output tokens.

Sums are taken in integers, so they are exact and the same on any number of threads: products of two token counts or of two gaps in
128 bits, powers beyond in Python over the distinct prompts. A figure is one ratio of such sums, rounded to 12 significant digits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import polars as pl

from pipelines.frames.digits import WORKLOAD_DIGITS, significant
from pipelines.frames.workload import ALL, Buckets, OutputStrata, Strata, Windows
from pipelines.traces.arrivals import NS_PER_S, window_figures, window_lengths_s

STRATA_PER_BUCKET = 16


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
    """The :class:`Buckets` of a :class:`Requests` frame: see :meth:`Workload.buckets`."""
    return Workload(requests, edges, kind, rate_rps).buckets()


def stratum_frame(requests: pl.DataFrame, edges: Sequence[int]) -> pl.DataFrame:
    """The :class:`Strata` of a :class:`Requests` frame: see :meth:`Workload.strata`."""
    return Workload(requests, edges).strata()


def output_stratum_frame(requests: pl.DataFrame, edges: Sequence[int]) -> pl.DataFrame:
    """The :class:`OutputStrata` of a :class:`Requests` frame: see :meth:`Workload.outputs`."""
    return Workload(requests, edges).outputs()


def window_frame(requests: pl.DataFrame, edges: Sequence[int], *, kind: str = "open") -> pl.DataFrame:
    """The :class:`Windows` of a :class:`Requests` frame: see :meth:`Workload.windows`."""
    return Workload(requests, edges, kind).windows()


@dataclass(frozen=True)
class Workload:
    """A :class:`Requests` frame, cut at ``edges`` (prompt tokens); arrivals are the log's own where ``kind`` is ``open``."""

    requests: pl.DataFrame
    edges: Sequence[int]
    kind: str = "open"
    rate_rps: float | None = None

    def buckets(self) -> pl.DataFrame:
        """The :class:`Buckets`: all requests, then each range of prompt tokens that holds any.

        The rate is the log's in an ``open`` cohort, else ``rate_rps`` times the bucket's share (None in a closed loop).
        ValueError where an open log has no two different arrival times.
        """
        if self.kind == "open":
            _span_ns(self.requests)
        rows = []
        for place in (None, *self._outputs):
            sums = self._sums(place)
            label = ALL if place is None else self._labels[place]
            scv = self._arrivals[place].scv if self.kind == "open" else None
            row = {"bucket": label, "rate_rps": self._rate_rps(sums.requests), "arrival_scv": scv}
            rows.append(row | sums.figures())
        return Buckets.validate(_frame(rows, Buckets))

    def strata(self) -> pl.DataFrame:
        """The :class:`Strata`, bucket by bucket.

        A request with ``r`` requests of fewer uncached tokens among the ``N_k`` of its bucket is in stratum
        ``floor(16 r / N_k)``: one count of uncached tokens, one stratum.
        """
        rows = []
        for place, prompts in self._prompts.items():
            for stratum, part in _strata(prompts, _uncached).items():
                sums = _Sums()
                for pair in part:
                    sums.add_prompts(*pair)
                rows.append({"bucket": self._labels[place], "stratum": stratum} | sums.figures())
        names = list(Strata.to_schema().columns)
        return Strata.validate(_frame([{name: row[name] for name in names} for row in rows], Strata))

    def outputs(self) -> pl.DataFrame:
        """The :class:`OutputStrata`, bucket by bucket: cut as :meth:`strata` are, by output tokens in place of uncached ones."""
        rows: list[dict[str, object]] = []
        for place, lengths in self._counted("output_tokens").items():
            for stratum, part in _strata(lengths, _output).items():
                requests = sum(count for _, count in part)
                mean = rounded_ratio(sum(o * count for o, count in part), requests)
                label = self._labels[place]
                rows.append({"bucket": label, "stratum": stratum, "requests": requests, "output_tokens_mean": mean})
        return OutputStrata.validate(_frame(rows, OutputStrata))

    def windows(self) -> pl.DataFrame:
        """The :class:`Windows`: all requests, then each bucket that holds any; none unless ``open``."""
        if self.kind != "open":
            return Windows.validate(_frame([], Windows))
        rows = [
            {"bucket": ALL if place is None else self._labels[place]} | figures
            for place, arrivals in self._arrivals.items()
            for figures in arrivals.windows
        ]
        return Windows.validate(_frame(rows, Windows))

    @cached_property
    def _labels(self) -> list[str]:
        return bucket_labels(self.edges)

    @cached_property
    def _prompts(self) -> dict[int, list["_Counted"]]:
        """By bucket, ascending: distinct pairs of prompt and cached tokens with their counts."""
        return self._counted("prompt_tokens", "cached_prompt_tokens")

    def _counted(self, *columns: str) -> dict[int, list["_Counted"]]:
        """By bucket, ascending: distinct values of ``columns`` with their counts."""
        distinct = (
            self.requests.lazy()
            .group_by(_place(self.edges), *columns)
            .agg(count=pl.len().cast(pl.Int64))
            .sort("place", *columns)
            .collect()
        )
        counted: dict[int, list[_Counted]] = {}
        for place, *values in distinct.iter_rows():
            counted.setdefault(place, []).append(tuple(values))
        return counted

    @cached_property
    def _outputs(self) -> dict[int, dict[str, int]]:
        """By bucket, ascending: exact sums over its outputs."""
        p, o = pl.col("prompt_tokens").cast(pl.Int64), pl.col("output_tokens").cast(pl.Int64)
        sums = (
            self.requests.lazy()
            .group_by(_place(self.edges))
            .agg(
                o=o.sum(),
                o2=(o * o).cast(pl.Int128).sum(),
                po=(p * o).cast(pl.Int128).sum(),
                o_max=o.max(),
                multi_token=(o >= 2).sum().cast(pl.Int64),
            )
            .collect()
            .sort("place")
        )
        return {row.pop("place"): row for row in sums.iter_rows(named=True)}

    def _sums(self, place: int | None) -> "_Sums":
        sums = _Sums()
        for one in self._outputs if place is None else (place,):
            for pair in self._prompts[one]:
                sums.add_prompts(*pair)
            sums.add_outputs(self._outputs[one])
        return sums

    @cached_property
    def _arrivals(self) -> dict[int | None, "_Arrivals"]:
        """By bucket, all requests (None) first."""
        span_ns = _span_ns(self.requests)
        lengths_s = window_lengths_s(span_ns)
        found: dict[int | None, _Arrivals] = {}
        for place in (None, *self._outputs):
            arrival_ns = self._arrivals_ns(place)
            found[place] = _Arrivals(arrival_scv(arrival_ns), window_figures(arrival_ns, lengths_s, span_ns))
        return found

    def _arrivals_ns(self, place: int | None) -> pl.Series:
        """Arrivals of one bucket (None: of all requests), in order."""
        if place is None:
            return self.requests["arrival_ns"]
        ends = [None, *self.edges, None]
        low, high = ends[place], ends[place + 1]
        inside = pl.lit(True) if low is None else pl.col("prompt_tokens") >= low
        if high is not None:
            inside = inside & (pl.col("prompt_tokens") < high)
        return self.requests.lazy().filter(inside).select("arrival_ns").collect()["arrival_ns"]

    def _rate_rps(self, requests: int) -> float | None:
        """The rate of ``requests`` of all."""
        if self.kind == "open":
            gaps = self.requests.height - 1
            return rounded_ratio(gaps * NS_PER_S * requests, _span_ns(self.requests) * self.requests.height)
        if self.rate_rps is None:
            return None
        return significant(self.rate_rps * requests / self.requests.height, WORKLOAD_DIGITS)


def arrival_scv(arrival_ns: pl.Series) -> float | None:
    """``E[g²]/E[g]² - 1`` of the gaps ``g`` between sorted arrivals; none with fewer than two gaps, or where all are 0.

    >>> arrival_scv(pl.Series([0, 1, 4]))  # gaps 1 and 3: mean 2, variance 1
    0.25
    """
    gaps = arrival_ns.len() - 1
    span = int(arrival_ns[-1]) - int(arrival_ns[0]) if gaps > 0 else 0
    if gaps < 2 or span == 0:
        return None
    gap = pl.col("arrival_ns").diff().cast(pl.Int128)  # no sum of squares exceeds the square of the span
    squares = int(arrival_ns.to_frame("arrival_ns").lazy().select((gap * gap).sum()).collect().item())
    return rounded_ratio(gaps * squares - span**2, span**2)


@dataclass(frozen=True)
class _Arrivals:
    """What is said of the arrivals of a bucket."""

    scv: float | None
    windows: list[dict[str, object]]


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
        self.o2 += row["o2"]
        self.po += row["po"]
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


_Counted = tuple[int, ...]
"""Token counts (prompt and cached, or output), and last how many requests have these."""


def _uncached(prompt: _Counted) -> int:
    return prompt[0] - prompt[1]


def _output(length: _Counted) -> int:
    return length[0]


def _strata(counted: list[_Counted], tokens: Callable[[_Counted], int]) -> dict[int, list[_Counted]]:
    """What is counted of one bucket by stratum, both ascending by ``tokens``."""
    in_bucket = sum(count for *_, count in counted)
    strata: dict[int, list[_Counted]] = {}
    fewer = same = 0
    before = None
    for one in sorted(counted, key=tokens):
        if tokens(one) != before:
            fewer, same, before = fewer + same, 0, tokens(one)
        same += one[-1]
        strata.setdefault(STRATA_PER_BUCKET * fewer // in_bucket, []).append(one)
    return strata


def _span_ns(requests: pl.DataFrame) -> int:
    span = 0 if requests.is_empty() else int(requests["arrival_ns"][-1]) - int(requests["arrival_ns"][0])
    if span == 0:
        raise ValueError("the rate of a log is undefined without two different arrival times")
    return span


def _place(edges: Sequence[int]) -> pl.Expr:
    """Number of the bucket that a prompt falls into: how many edges it reaches."""
    reached = [(pl.col("prompt_tokens") >= edge).cast(pl.Int64) for edge in edges]
    return pl.sum_horizontal(pl.lit(0, dtype=pl.Int64), *reached).alias("place")


def _frame(
    rows: Sequence[dict[str, object]], model: type[Buckets] | type[Strata] | type[OutputStrata] | type[Windows]
) -> pl.DataFrame:
    schema = {name: column.dtype.type for name, column in model.to_schema().columns.items()}
    return pl.DataFrame(rows, schema=schema)
