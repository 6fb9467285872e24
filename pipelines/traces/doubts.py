"""What is doubtful about a log that can be read: said, never mended."""

import numpy as np
import polars as pl

from pipelines.traces.prefix_cache import block_mismatch
from pipelines.traces.timestamps import NS_PER_S

_DAY_S = 86_400
_FEWEST_ROWS, _FEWEST_TIES = 20, 4
"""Requests below which a rate, or a share of ties, says nothing of what is usual."""

_TIED_SHARE = 0.05
"""A clock of microseconds leaves fewer than a thousandth of requests tied at a thousand a second."""

_FAST_RPS, _FAST_WITHIN_S = 20, 60
"""Three hours at one request in five seconds or more, taken for a thousandth of it, look like this; so do some benchmarks."""

_SLOW_RPS, _SLOW_BEYOND_DAYS, _LONG_DAYS = 0.05, 30, 366
"""An hour or more at up to 50 requests a second, taken for a thousand times as long, looks like this. No public log does: they reach
73 requests a second over a week (Azure 2024), and one request in four seconds over seven months (BurstGPT)."""


def doubts(rows: pl.DataFrame, unsorted: int, block_tokens: int | None = None) -> list[str]:
    """Sentences about block hashes, and about the order and the unit of ``timestamp_ns``, sorted, where there are arrivals."""
    found = block_doubts(rows, block_tokens) if block_tokens else []
    if "timestamp_ns" not in rows.columns:
        return found
    if unsorted:
        found.append(f"{_count(unsorted, 'row comes', 'rows come')} before the row above; the log was sorted by time")
    unit = unit_doubt(rows.height, int(rows["timestamp_ns"][-1]))
    if unit:
        found.append(unit)
    return found


def block_doubts(rows: pl.DataFrame, block_tokens: int) -> list[str]:
    """Whether requests have other numbers of block hashes than their prompts have blocks."""
    wrong = misfits(rows, block_tokens)
    if not wrong:
        return []
    return [
        f"{wrong:,} of {rows.height:,} requests have a number of block hashes that does not fit prompts in blocks of "
        f"{block_tokens} tokens: is the block size that of this log?"
    ]


def misfits(rows: pl.DataFrame, block_tokens: int) -> int:
    """Requests whose hashes do not fit their prompt, of those that have any."""
    has_any = rows["hash_ids"].list.len() > 0
    return int((block_mismatch(rows["prompt_tokens"], rows["hash_ids"], block_tokens) & has_any).sum())


def unit_doubt(requests: int, span_ns: int) -> str | None:
    """Whether a span looks like that of a log whose timestamps were taken in a wrong unit.

    >>> unit_doubt(8819, 3_436_000_000)[:58]
    '8,819 requests within 3.436 s are 2,567 requests/s: is the'
    """
    if requests < 2 or span_ns == 0:
        return None
    span_s = span_ns / NS_PER_S
    rate, is_long = requests / span_s, requests >= _FEWEST_ROWS
    if is_long and rate >= _FAST_RPS and span_s < _FAST_WITHIN_S:
        return (
            f"{requests:,} requests within {span_s:.4g} s are {rate:,.0f} requests/s: is the unit of the timestamps right? "
            f"Read as a unit a thousand times longer (s where ms were read), they would be {rate / 1000:.3g} requests/s "
            f"over {_span(span_s * 1000)}"
        )
    if span_s > _LONG_DAYS * _DAY_S or (is_long and rate < _SLOW_RPS and span_s > _SLOW_BEYOND_DAYS * _DAY_S):
        return (
            f"{requests:,} requests over {_span(span_s)} are {rate:.3g} requests/s: is the unit of the timestamps right? "
            f"Read as a unit a thousand times shorter (ms where s were read), they would be {rate * 1000:.3g} requests/s "
            f"over {_span(span_s / 1000)}"
        )
    return None


def tie_doubt(timestamp_ns: pl.Series) -> str | None:
    """Whether requests share timestamps because the clock that wrote them ticks slowly.

    >>> tie_doubt(pl.Series([0, 0, 1, 1, 1, 2] * 10).sort() * 10**9)[:55]
    '60 of 60 requests share their timestamp with another; t'
    """
    if timestamp_ns.len() < _FEWEST_TIES:
        return None
    same = timestamp_ns.diff() == 0
    if same.sum() < _TIED_SHARE * timestamp_ns.len():
        return None
    distinct = timestamp_ns.filter(~same.fill_null(value=False))
    shared = int((same.fill_null(value=False) | same.shift(-1).fill_null(value=False)).sum())
    tick = tick_ns(distinct)
    return (
        f"{shared:,} of {timestamp_ns.len():,} requests share their timestamp with another; timestamps lie {_span(tick / NS_PER_S)} apart. "
        f"If they came one after the other, not at once, spread_ties: {_span(tick / NS_PER_S)} places them evenly within it"
    )


def tick_ns(distinct: pl.Series) -> int:
    """The step of the clock behind sorted distinct timestamps, in ns: the greatest common divisor of their distances, or their median.

    The divisor where it is over a millisecond: below, distances that are not multiples of anything are no ticks.
    """
    distances = distinct.diff().drop_nulls().to_numpy()
    if distances.size == 0:
        return NS_PER_S
    common = int(np.gcd.reduce(distances))
    return common if common > NS_PER_S // 1000 else int(np.median(distances))


def _span(seconds: float) -> str:
    """A length of time as people say it.

    >>> _span(1.0), _span(0.003), _span(10_800), _span(1_080_000)
    ('1 s', '3 ms', '3 h', '12.5 days')
    """
    for unit, length in (("days", _DAY_S), ("h", 3600), ("min", 60), ("s", 1), ("ms", 1e-3)):
        if seconds >= length * (1 if unit in ("s", "ms") else 2):
            return f"{seconds / length:.4g} {unit}"
    return f"{seconds * 1e6:.4g} us"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
