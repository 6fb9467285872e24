"""What a request log holds, before anybody plans with it: counts, rates, moments, buckets, groups, doubts.

Every figure is the one that a plan of the whole log would freeze: the same requests, the same sums, the same digits.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.declarations.typed import ChosenEdges, Cohort, PrefixCache, Slice, TraceSource
from pipelines.frames.requests import GROUP_FIELDS
from pipelines.traces.arrivals import window_figures, window_lengths_s
from pipelines.traces.edges import bucket_edges, empty_buckets
from pipelines.traces.freeze import hit_ratio
from pipelines.traces.log import Log, chosen_format
from pipelines.traces.log_file import LogFile
from pipelines.traces.prefix_cache import cached_prompt_tokens
from pipelines.traces.requests import of_log, requests_sha256
from pipelines.traces.workload import bucket_frame, duration_s, rounded_ratio

QUARTERS = ChosenEdges("quantiles", 4)
"""The buckets of a description that names none."""

TOP_GROUPS = 10
UNLIMITED = PrefixCache(capacity_tokens=None, scope="shared", workers=1)

RATES_FORMAT = "servegen"
"""The format of logs that hold rates in windows of time, and no requests."""


@dataclass(frozen=True)
class Invalid:
    """One way in which rows of a log are wrong: its kind as in a receipt, the field and column, how many rows, the first of them."""

    kind: str
    field: str
    column: str
    rows: int
    first_rows: tuple[int, ...]


@dataclass(frozen=True)
class Tokens:
    """Token counts of all requests: their exact sum, mean and second moment (12 digits), least and most."""

    sum: int
    mean: float
    m2: float
    min: int
    max: int


@dataclass(frozen=True)
class Group:
    """The values of one group field: how many there are, the most frequent with their requests, and how many requests have none."""

    values: int
    top: tuple[tuple[str, int], ...]
    requests_without: int


@dataclass(frozen=True)
class CacheHits:
    """What a shared cache without a limit would hold of the prompts, by the log's block hashes."""

    block_tokens: int
    hit_ratio: float


@dataclass(frozen=True)
class Description:
    """A log as ``phaseledger trace describe`` tells it. Fields are None where the log does not say, or is too short to say."""

    file: str
    format: str
    requests: int | None
    rows_read: int
    rows_invalid: int
    invalid: tuple[Invalid, ...]
    duration_s: float | None
    rate_rps: float | None
    arrival_scv: float | None
    windows: tuple[dict[str, Any], ...]
    tokens: dict[str, Tokens] | None
    prompt_output_mean: float | None
    bucket_edges_tokens: tuple[int, ...]
    buckets: tuple[dict[str, Any], ...]
    groups: dict[str, Group]
    warnings: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    prefix_cache: CacheHits | None
    cached_share: float | None
    requests_sha256: str | None
    rate_windows: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """The keys that docs/traces.md lists."""
        tokens: dict[str, Any] | None = None
        if self.tokens is not None:
            tokens = {"cached": None} | {name: vars(counts) for name, counts in self.tokens.items()}
            tokens["prompt_output_mean"] = self.prompt_output_mean
            if tokens["cached"] is not None:
                tokens["cached"] = tokens["cached"] | {"share": self.cached_share}
        whole = {field.name: getattr(self, field.name) for field in fields(self)}
        del whole["prompt_output_mean"], whole["cached_share"]
        return whole | {
            "invalid": [vars(one) | {"first_rows": list(one.first_rows)} for one in self.invalid],
            "windows": list(self.windows),
            "tokens": tokens,
            "bucket_edges_tokens": list(self.bucket_edges_tokens),
            "buckets": list(self.buckets),
            "groups": {name: _group_json(group) for name, group in self.groups.items()},
            "warnings": list(self.warnings),
            "steps": [{"step": step, "detail": detail} for step, detail in self.steps],
            "prefix_cache": self.prefix_cache and vars(self.prefix_cache),
        }


def _group_json(group: Group) -> dict[str, Any]:
    top = [{"value": value, "requests": requests} for value, requests in group.top]
    return {"values": group.values, "requests_without": group.requests_without, "top": top}


def describe(log: Log, file: str, edges: tuple[int, ...] | ChosenEdges = QUARTERS) -> Description:
    """Describe ``log``, which is shown as ``file``, with prompt buckets between ``edges`` (tokens)."""
    requests = whole_log(log)
    inner = bucket_edges(requests, edges)
    span_ns = int(requests["arrival_ns"][-1]) if log.is_timed else 0
    kind = "open" if span_ns else "closed"
    buckets = bucket_frame(requests, inner, kind=kind).to_dicts()
    every = buckets[0]
    stated = "cached_prompt_tokens" in log.rows.columns
    return Description(
        file=file,
        format=log.format,
        requests=requests.height,
        rows_read=log.rows_read,
        rows_invalid=log.invalid.total,
        invalid=_invalid(log),
        duration_s=_duration(log, requests, span_ns),
        rate_rps=every["rate_rps"],
        arrival_scv=every["arrival_scv"],
        windows=tuple(window_figures(requests["arrival_ns"], window_lengths_s(span_ns), span_ns)),
        tokens=_tokens(requests, every, with_cached=stated),
        prompt_output_mean=every["prompt_output_mean"],
        bucket_edges_tokens=inner,
        buckets=tuple(buckets),
        groups={name: _group(log.rows[name]) for name in GROUP_FIELDS if name in log.rows.columns},
        warnings=(*log.warnings, *([log.ties] if log.ties else []), *empty_buckets(requests, inner)),
        steps=log.steps,
        prefix_cache=_prefix_cache(log),
        cached_share=hit_ratio(requests) if stated else None,
        requests_sha256=requests_sha256(requests),
    )


def describe_rates(path: Path, format_name: str | None) -> Description | None:
    """Describe a log of rates in windows; None where the log at ``path`` is one of requests."""
    file = LogFile(path, str(path))
    if chosen_format(file, format_name).name != RATES_FORMAT:
        return None
    from pipelines.traces.formats.servegen import read_windows

    rates = read_windows(file)
    return Description(
        file=str(path),
        format=RATES_FORMAT,
        requests=None,
        rows_read=rates.windows,
        rows_invalid=0,
        invalid=(),
        duration_s=rates.duration_s,
        rate_rps=rates.rate_rps,
        arrival_scv=None,
        windows=(),
        tokens=None,
        prompt_output_mean=None,
        bucket_edges_tokens=(),
        buckets=(),
        groups={},
        warnings=(),
        steps=(),
        prefix_cache=None,
        cached_share=None,
        requests_sha256=None,
        rate_windows={
            "windows": rates.windows,
            "nonempty_windows": rates.nonempty_windows,
            "expected_requests": rates.expected_requests,
            "window_s": rates.window_s,
            "peak_rps": rates.peak_rate_rps,
        },
    )


def whole_log(log: Log, cache: PrefixCache | None = None) -> pl.DataFrame:
    """The :class:`~pipelines.frames.requests.Requests` frame that a cohort which cuts nothing makes of ``log``."""
    trace = TraceSource(Path(), log.format, "supplied", None, None)
    cohort = Cohort("", "", None, "", Path(), trace, None, Slice(), cache, (), ())
    return of_log(log, cohort).requests


def exported_rows(log: Log, window_ns: tuple[int | None, int | None], cache: PrefixCache | None) -> pl.DataFrame:
    """The rows of a log with arrivals that lie in ``window_ns`` (to is not included), with cached tokens, without block hashes.

    Cached tokens are those that the ``cache``, empty when the window begins, holds; without one, those that the log states. A log that
    states none has no such column: a cohort may then declare a hit ratio.
    """
    low, high = window_ns
    rows, time_ns = log.rows, pl.col("timestamp_ns")
    if low is not None:
        rows = rows.filter(time_ns >= low)
    if high is not None:
        rows = rows.filter(time_ns < high)
    if cache is not None:
        assert log.block_tokens is not None
        cached = cached_prompt_tokens(
            rows["prompt_tokens"],
            rows["hash_ids"],
            block_tokens=log.block_tokens,
            capacity_tokens=cache.capacity_tokens,
            workers=cache.workers,
        )
        rows = rows.with_columns(cached.alias("cached_prompt_tokens"))
    kept = ("timestamp_ns", "prompt_tokens", "cached_prompt_tokens", "output_tokens", *GROUP_FIELDS)
    rows = rows.select(name for name in kept if name in rows.columns)
    return rows.with_columns(pl.col("^cached_prompt_tokens$").fill_null(0))


def _duration(log: Log, requests: pl.DataFrame, span_ns: int) -> float | None:
    if not log.is_timed or requests.height == 1:
        return None
    return duration_s(requests) if span_ns else 0.0


def _invalid(log: Log) -> tuple[Invalid, ...]:
    """Most rows first, then by name: the order of a receipt."""
    found = [
        Invalid(fault.code, fault.field, fault.column, rows, tuple(log.invalid.rows[fault]))
        for fault, rows in log.invalid.counts.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.rows, one.kind, one.column)))


def _tokens(requests: pl.DataFrame, every: dict[str, Any], *, with_cached: bool) -> dict[str, Tokens]:
    names = {"prompt": "prompt_tokens", "output": "output_tokens"}
    tokens = {
        name: _counts(requests[column], every[f"{column}_mean"], every[f"{column}_m2"])
        for name, column in names.items()
    }
    if with_cached:
        cached = requests["cached_prompt_tokens"].cast(pl.Int64)
        squares = int((cached * cached).cast(pl.Int128).sum())
        mean, m2 = (rounded_ratio(total, requests.height) for total in (int(cached.sum()), squares))
        tokens["cached"] = _counts(cached, mean, m2)
    return tokens


def _counts(column: pl.Series, mean: float, m2: float) -> Tokens:
    total, least, most = column.cast(pl.Int64).sum(), column.min(), column.max()
    return Tokens(int(total), mean, m2, int(least), int(most))  # type: ignore[arg-type]


def _group(values: pl.Series) -> Group:
    counts = (
        values.drop_nulls()
        .rename("value")
        .to_frame()
        .group_by("value")
        .len("requests")
        .sort("requests", "value", descending=[True, False])
    )
    return Group(counts.height, tuple(counts.head(TOP_GROUPS).rows()), values.null_count())


def _prefix_cache(log: Log) -> CacheHits | None:
    if log.block_tokens is None or "hash_ids" not in log.rows.columns:
        return None
    return CacheHits(log.block_tokens, hit_ratio(whole_log(log, UNLIMITED)))
