"""From a log, or from declared classes, to the requests of a cohort: what is cut, spread, repeated, and what the prefix cache holds."""

import hashlib
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from pipelines.declarations.problems import show
from pipelines.declarations.typed import Classes, Cohort, PrefixCache, Slice
from pipelines.frames.requests import Requests
from pipelines.traces.doubts import tick_ns
from pipelines.traces.fitting import Misfit
from pipelines.traces.log import Log
from pipelines.traces.prefix_cache import cached_prompt_tokens
from pipelines.traces.timestamps import NS_PER_S

_DIGEST_TAG = b"phaseledger requests v2\n"
_ROWS_PER_UPDATE = 1 << 20
_LONGEST_SPAN_NS = 2**62
_VALUES_LISTED = 5

TIME = pl.col("timestamp_ns")


class CutError(Exception):
    """Raised where a declared step leaves no requests, or times that cannot be told."""

    def __init__(self, misfit: Misfit) -> None:
        super().__init__(misfit.message)
        self.misfit = misfit


@dataclass(frozen=True)
class Step:
    """One thing that was done to a log, and how many requests there were after it."""

    step: str
    detail: str
    requests: int


@dataclass(frozen=True)
class CohortRequests:
    """The requests of a cohort: a :class:`Requests` frame and how it came about."""

    requests: pl.DataFrame
    format: str
    rows_read: int
    dropped: dict[str, int]
    steps: tuple[Step, ...]
    warnings: tuple[str, ...]
    block_tokens: int | None = None


def of_log(log: Log, cohort: Cohort) -> CohortRequests:
    """The requests that ``cohort`` makes of its log; :class:`CutError` if a step leaves none."""
    assert cohort.trace is not None
    rows, steps = log.rows, [Step(step, detail, log.rows.height) for step, detail in log.steps]
    if not log.is_timed:
        rows = rows.with_columns(timestamp_ns=pl.lit(0, pl.Int64))
    for step, detail, change in (*_spreading(cohort.trace.spread_ties_ns), *_cuts(cohort.slice)):
        uncut, rows = rows, change(rows)
        steps.append(Step(step, detail, rows.height))
        if rows.is_empty():
            found = f"leaves none of {uncut.height} requests ({detail}); expected some to remain"
            raise CutError(Misfit(f"requests.slice.{step}", found, _what_there_is(uncut, step, cohort.slice)))
    rows = rows.with_columns(_cached(rows, log, cohort.prefix_cache).alias("cached_prompt_tokens"))
    if cohort.slice.repeat * (int(rows["timestamp_ns"][-1]) + 1) / cohort.slice.scale_rate >= _LONGEST_SPAN_NS:
        raise CutError(Misfit("requests.slice", "makes a log of more than 146 years; expected a shorter one"))
    for step, detail, change in _growth(cohort.slice):
        rows = change(rows)
        steps.append(Step(step, detail, rows.height))
    requests = requests_frame(rows, is_open=cohort.kind == "open")
    block_tokens = log.block_tokens if cohort.prefix_cache else None
    warnings = (*log.warnings, *_choices_doubted(log, cohort))
    return CohortRequests(
        requests, log.format, log.rows_read, log.invalid.by_code(), tuple(steps), warnings, block_tokens
    )


def _choices_doubted(log: Log, cohort: Cohort) -> list[str]:
    """What is doubtful about a log in the light of what the cohort declares of it."""
    found, spread = [], cohort.trace.spread_ties_ns if cohort.trace else None
    if cohort.kind == "open" and log.ties and spread is None:
        found.append(log.ties)
    if spread is not None:
        tick = tick_ns(log.rows["timestamp_ns"].unique(maintain_order=True))
        if spread > tick:
            found.append(
                f"spread_ties of {_seconds(spread)} is longer than the {_seconds(tick)} between timestamps: requests of one are "
                "placed among those of the next"
            )
    cache = cohort.prefix_cache
    if cache is not None and cache.capacity_tokens is not None and cache.capacity_tokens < (log.block_tokens or 0):
        found.append(
            f"prefix_cache.capacity of {cache.capacity_tokens} tokens holds no block of {log.block_tokens}: nothing hits"
        )
    return found


def plain_requests(log: Log) -> pl.DataFrame:
    """The :class:`Requests` frame of a timed log as it is: nothing cut, no cache but the tokens that the log itself states as cached."""
    return requests_frame(
        log.rows.with_columns(_cached(log.rows, log, None).alias("cached_prompt_tokens")), is_open=True
    )


def of_classes(classes: Classes) -> CohortRequests:
    """The requests that declared classes stand for: as many of each as its weight, weights divided by what divides them all."""
    common = math.gcd(*(one.weight for one in classes.members))
    rows = pl.DataFrame(
        {name: [getattr(one, name) for one in classes.members] for name in ("weight", *_TOKENS)},
        schema={"weight": pl.Int64} | dict.fromkeys(_TOKENS, pl.Int32),
    )
    each = rows.select(pl.all().repeat_by(pl.col("weight") // common).explode(empty_as_null=True))
    requests = requests_frame(each.with_columns(timestamp_ns=pl.lit(0, pl.Int64)), is_open=False)
    return CohortRequests(requests, "classes", len(classes.members), {}, (), ())


_TOKENS = ("prompt_tokens", "cached_prompt_tokens", "output_tokens")


def requests_frame(rows: pl.DataFrame, *, is_open: bool) -> pl.DataFrame:
    """Rows as a :class:`Requests` frame in canonical order; arrivals at 0 unless they are the log's own."""
    first = rows["timestamp_ns"].min() if is_open else None
    arrival = TIME - first if is_open else pl.lit(0, pl.Int64)
    frame = rows.select(arrival_ns=arrival, **{name: pl.col(name) for name in _TOKENS})
    return Requests.validate(_canonical(frame))


def requests_sha256(frame: pl.DataFrame) -> str:
    """Digest of a :class:`Requests` frame: the same for the same requests, whatever file and format they came from.

    SHA-256 (hex) of a domain tag and the little-endian integers of the columns, one after the other: arrivals in 64 bits, token
    counts in 32.
    """
    digest = hashlib.sha256(_DIGEST_TAG)
    for name in Requests.to_schema().columns:
        for rows in frame.select(name).iter_slices(_ROWS_PER_UPDATE):
            numbers = rows[name].to_numpy()
            digest.update((numbers.byteswap() if sys.byteorder == "big" else numbers).data)
    return digest.hexdigest()


def _canonical(frame: pl.DataFrame) -> pl.DataFrame:
    """Sorted by arrival, then prompt, cached and output tokens. Logs are mostly sorted by arrival: then only ties are sorted."""
    tied = frame["arrival_ns"].diff() == 0
    if not tied.any():
        return frame
    member = (tied.fill_null(value=False) | tied.shift(-1).fill_null(value=False)).rename("member")
    places = member.arg_true()
    if places.len() > frame.height // 2:
        return frame.sort(frame.columns)
    ordered = frame.filter(member).sort(frame.columns)
    return frame.with_columns(frame[name].clone().scatter(places, ordered[name]) for name in _TOKENS)


def _cached(rows: pl.DataFrame, log: Log, cache: PrefixCache | None) -> pl.Series:
    """Cached prompt tokens: those that the declared cache holds, those that the log states, or none; never a whole prompt."""
    if cache is not None:
        assert log.block_tokens is not None
        return cached_prompt_tokens(
            rows["prompt_tokens"],
            rows["hash_ids"],
            block_tokens=log.block_tokens,
            capacity_tokens=cache.capacity_tokens,
            workers=cache.workers,
        )
    if "cached_prompt_tokens" in rows.columns:
        stated = pl.min_horizontal(pl.col("cached_prompt_tokens").fill_null(0), pl.col("prompt_tokens") - 1)
        return rows.select(stated.cast(pl.Int32)).to_series()
    return pl.repeat(0, rows.height, dtype=pl.Int32, eager=True)


_Change = tuple[str, str, Callable[[pl.DataFrame], pl.DataFrame]]


def _spreading(tick_ns: int | None) -> list[_Change]:
    if tick_ns is None:
        return []
    return [
        ("spread_ties", f"over {_seconds(tick_ns)} after each shared timestamp", lambda rows: _spread(rows, tick_ns))
    ]


def _spread(rows: pl.DataFrame, tick_ns: int) -> pl.DataFrame:
    """The i-th of n requests that share a timestamp comes i/n of a tick after it."""
    place, of = pl.int_range(pl.len()).over("timestamp_ns"), pl.len().over("timestamp_ns")
    later = place.cast(pl.Int64) * tick_ns // of.cast(pl.Int64)
    return rows.with_columns(TIME + later).sort("timestamp_ns", maintain_order=True)


def _cuts(cut: Slice) -> list[_Change]:
    """The steps that leave requests out, in order."""
    steps: list[_Change] = []
    if cut.window_ns is not None:
        low, high = cut.window_ns
        steps.append(("window", _range(low, high, _seconds), lambda rows: rows.filter(*_between(TIME, low, high))))
    if cut.where:
        named = "; ".join(f"{name} is {' or '.join(values)}" for name, values in cut.where.items())
        steps.append(("where", named, lambda rows: _matching(rows, cut)))
    if cut.prompt_tokens is not None:
        shortest, longest = cut.prompt_tokens
        steps.append(
            (
                "prompt_tokens",
                _range(shortest, longest, lambda tokens: f"{tokens} tokens"),
                lambda rows: rows.filter(*_between(pl.col("prompt_tokens"), shortest, longest)),
            )
        )
    if cut.thin is not None:
        keep, of = cut.thin
        steps.append(("thin", f"{keep} of every {of}", lambda rows: rows.filter(pl.int_range(pl.len()) % of < keep)))
    return steps


def _growth(cut: Slice) -> list[_Change]:
    """The steps that change how many requests come, and when."""
    steps: list[_Change] = []
    if cut.repeat > 1:
        steps.append(("repeat", f"{cut.repeat} times", lambda rows: _repeated(rows, cut.repeat)))
    if cut.scale_rate != 1:
        scale = cut.scale_rate
        steps.append(("scale_rate", f"gaps divided by {float(scale):.12g}", lambda rows: _scaled(rows, scale)))
    return steps


def _what_there_is(rows: pl.DataFrame, step: str, cut: Slice) -> str:
    """What a step could have left."""
    if step == "window":
        return f"the requests come from {_seconds(int(rows['timestamp_ns'][0]))} to {_seconds(int(rows['timestamp_ns'][-1]))}"
    if step == "prompt_tokens":
        shortest, longest = rows.select(low=pl.col("prompt_tokens").min(), high=pl.col("prompt_tokens").max()).row(0)
        return f"prompts have {shortest} to {longest} tokens"
    listed = []
    for field in cut.where:
        values = rows[field].drop_nulls().value_counts(sort=True)[field].head(_VALUES_LISTED).to_list()
        listed.append(f"{field} is {' or '.join(map(show, values))}")
    return f"most often {'; '.join(listed)}"


def _between(value: pl.Expr, low: int | None, high: int | None) -> list[pl.Expr]:
    ends = [None if low is None else value >= low, None if high is None else value < high]
    return [end for end in ends if end is not None] or [pl.lit(True)]


def _matching(rows: pl.DataFrame, cut: Slice) -> pl.DataFrame:
    for name, values in cut.where.items():
        rows = rows.filter(pl.col(name).is_in(list(values))) if name in rows.columns else rows.clear()
    return rows


def _repeated(rows: pl.DataFrame, times: int) -> pl.DataFrame:
    """The rows over and over; each time begins one mean gap after the last request of the time before."""
    first, last = int(rows["timestamp_ns"][0]), int(rows["timestamp_ns"][-1])
    period = last - first + ((last - first) // (rows.height - 1) if rows.height > 1 else 0)
    return pl.concat([rows.with_columns(TIME + period * again) for again in range(times)])


def _scaled(rows: pl.DataFrame, scale: Fraction) -> pl.DataFrame:
    """Distances from the first arrival divided by ``scale``, down to whole nanoseconds."""
    since = rows["timestamp_ns"] - rows["timestamp_ns"][0]
    if int(since[-1]) * scale.denominator < 2**127:
        wide = since.to_frame("since").select(pl.col("since").cast(pl.Int128) * scale.denominator // scale.numerator)
        scaled = wide["since"]
    else:  # a rate of very many digits
        scaled = pl.Series([one * scale.denominator // scale.numerator for one in since])
    return rows.with_columns(scaled.cast(pl.Int64).alias("timestamp_ns"))


def _range(low: int | None, high: int | None, said: Callable[[int], str]) -> str:
    parts = [f"from {said(low)}" if low is not None else None, f"to {said(high)}" if high is not None else None]
    return " ".join(part for part in parts if part)


def _seconds(ns: int) -> str:
    return f"{ns / NS_PER_S:.12g} s"
