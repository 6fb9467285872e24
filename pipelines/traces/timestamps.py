"""Timestamps of request logs as whole nanoseconds; digits beyond a nanosecond are cut off."""

import re
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_DOWN, Context, Decimal
from functools import lru_cache

import polars as pl

from pipelines.traces import faults
from pipelines.traces.faults import Kind

NS_PER_S = 10**9
UNITS_NS = {"s": NS_PER_S, "ms": 10**6, "us": 10**3, "ns": 1}
LATEST_NS = 7_258_118_400 * NS_PER_S
"""The year 2200: a timestamp from there on is not one of a request log, whatever it counts from."""

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_TIMESTAMP = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?P<separator>[ T])"
    r"(?P<h>[01][0-9]|2[0-3]):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9])(?:\.(?P<fraction>[0-9]{1,9}))?"
    r"(?P<offset>Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?"
)
_DATE_CHARACTERS, _CLOCK_CHARACTERS = 10, 19
_COLUMN_PATTERN = (
    r"^(19[7-9][0-9]|2[01][0-9]{{2}})-[0-9]{{2}}-[0-9]{{2}}{separator}"
    r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{{1,9}})?{offset}$"
)
_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]+)?(?:\.(?P<fraction>[0-9]*))?(?P<exponent>[eE][+-]?[0-9]{1,3})?")
_PLAIN_NUMBER = r"^[0-9]{{1,{digits}}}(\.[0-9]*)?$"
_CUT = Context(prec=40, rounding=ROUND_DOWN)
"""Products with more digits than any time has are cut off: rounded up, the last of them could make a nanosecond more."""


@dataclass(frozen=True)
class Instant:
    """Nanoseconds since 1970 in UTC if the text states an offset, else since 1970 on the clock that the log was written by."""

    ns: int
    has_offset: bool


def parse_timestamp(text: str) -> Instant | Kind:
    """Read one date and time exactly, or say what is wrong with it.

    >>> parse_timestamp("2023-11-16T18:17:03.5+02:00").ns - parse_timestamp("2023-11-16 16:17:03Z").ns
    500000000
    """
    if not text:
        return faults.EMPTY_TIME
    found = _TIMESTAMP.fullmatch(text)
    day = _day_number(found["date"]) if found else None
    if found is None or day is None:
        return faults.NOT_A_TIME
    offset = found["offset"] or ""
    fraction = int((found["fraction"] or "").ljust(9, "0"))
    seconds = day * 86_400 + int(found["h"]) * 3_600 + int(found["m"]) * 60 + int(found["s"])
    if not 0 <= seconds * NS_PER_S < LATEST_NS:
        return faults.TIME_OUT_OF_RANGE
    return Instant((seconds - offset_s(offset)) * NS_PER_S + fraction, bool(offset))


def offset_s(text: str) -> int:
    """Seconds that a clock with the UTC offset ``text`` is ahead of UTC.

    >>> offset_s("+05:30"), offset_s("-0100"), offset_s("Z")
    (19800, -3600, 0)
    """
    if not text or text == "Z":
        return 0
    shift = int(text[1:3]) * 3_600 + int(text[-2:]) * 60
    return -shift if text[0] == "-" else shift


@lru_cache(maxsize=4096)
def _day_number(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def parse_number(value: object, unit_ns: int) -> int | Kind:
    """Nanoseconds of a number of units, given as a number or as text; or what is wrong with it.

    >>> parse_number("1.5", 10**9), parse_number(0.25, 1000), parse_number(3, 1)
    (1500000000, 250, 3)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return faults.MISSING_TIME if value is None else faults.NOT_A_NUMBER_TIME
    if isinstance(value, int):
        return _in_range(value * unit_ns)
    text = value.strip() if isinstance(value, str) else repr(value)
    if not text:
        return faults.MISSING_TIME
    found = _NUMBER.fullmatch(text)
    if found is None or not (found["whole"] or found["fraction"]):
        return faults.NOT_A_NUMBER_TIME
    return _in_range(int(_CUT.multiply(Decimal(text), Decimal(unit_ns))))


def _in_range(ns: int) -> int | Kind:
    if ns < 0:
        return faults.NEGATIVE_TIME
    return ns if ns < LATEST_NS else faults.TIME_OUT_OF_RANGE


@dataclass(frozen=True)
class QuickTimes:
    """How a block's timestamps are written, as far as polars can read them: expressions for nanoseconds and for which rows fit."""

    ns: pl.Expr
    fits: pl.Expr
    has_offset: bool | None


def quick_datetimes(column: str, sample: str) -> QuickTimes | None:
    """Reads all timestamps that are written like ``sample``: same separator, same offset; None where it is not one."""
    found = _TIMESTAMP.fullmatch(sample)
    if found is None:
        return None
    offset, text = found["offset"] or "", pl.col(column)
    fits = text.str.contains(_COLUMN_PATTERN.format(separator=found["separator"], offset=re.escape(offset)))
    length = text.str.len_bytes().cast(pl.Int64)
    day = text.str.slice(0, _DATE_CHARACTERS).str.to_date("%Y-%m-%d", strict=False).cast(pl.Int64)
    hour, minute, second = (text.str.slice(start, 2).cast(pl.Int64, strict=False) for start in (11, 14, 17))
    # without the lower bound, one short text would be an error of the whole block
    digits = text.str.slice(_CLOCK_CHARACTERS + 1, (length - (_CLOCK_CHARACTERS + 1 + len(offset))).clip(lower_bound=0))
    fraction = (
        pl.when(length > _CLOCK_CHARACTERS + len(offset))
        .then(digits.str.pad_end(9, "0").cast(pl.Int64, strict=False))
        .otherwise(pl.lit(0, pl.Int64))
    )
    seconds = day * 86_400 + hour * 3_600 + minute * 60 + second - offset_s(offset)
    return QuickTimes(seconds * NS_PER_S + fraction, fits & day.is_not_null(), bool(offset))


def quick_numbers(column: str, unit_ns: int) -> QuickTimes:
    """Reads plain decimal numbers of units, as text, without a sign or an exponent."""
    text = pl.col(column)
    places = len(str(unit_ns)) - 1
    latest = LATEST_NS // unit_ns
    parts = text.str.splitn(".", 2)
    whole = parts.struct.field("field_0").cast(pl.Int64, strict=False)
    fits = text.str.contains(_PLAIN_NUMBER.format(digits=len(str(latest)))) & (whole < latest)
    fraction = parts.struct.field("field_1").fill_null("").str.slice(0, places).str.pad_end(places, "0")
    cut = fraction.cast(pl.Int64, strict=False) if places else pl.lit(0, pl.Int64)
    return QuickTimes(whole * unit_ns + cut, fits, None)
