"""Timestamps of request logs as whole nanoseconds; digits beyond a nanosecond are cut off."""

import re
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_DOWN, Context, Decimal
from functools import lru_cache

import numpy as np
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
    r"(?P<h>[01][0-9]|2[0-3]):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9])(?:\.(?P<fraction>[0-9]+))?"
    r"(?P<offset>Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?"
)
_CLOCK_CHARACTERS, _NS_DIGITS = 19, 9
_CLOCK_PATTERN = (
    r"^(19[7-9][0-9]|2[01][0-9]{{2}})-[0-9]{{2}}-[0-9]{{2}}{separator}([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]$"
)
_SAMPLES = 64
"""Timestamps at the top of a block that are looked at to see how its timestamps are written."""

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
        return faults.NUMBER_FOR_TIME if _NUMBER.fullmatch(text) else faults.NOT_A_TIME
    offset = found["offset"] or ""
    fraction = int((found["fraction"] or "")[:9].ljust(9, "0"))
    seconds = day * 86_400 + int(found["h"]) * 3_600 + int(found["m"]) * 60 + int(found["s"])
    if not 0 <= seconds * NS_PER_S < LATEST_NS:
        return faults.TIME_OUT_OF_RANGE
    return Instant((seconds - offset_s(offset)) * NS_PER_S + fraction, bool(offset))


def offset_s(text: str) -> int:
    """Seconds that a clock with the UTC offset ``text`` is ahead of UTC.

    >>> offset_s("+05:30"), offset_s("-0100"), offset_s("+02"), offset_s("Z")
    (19800, -3600, 7200, 0)
    """
    if not text or text == "Z":
        return 0
    shift = int(text[1:3]) * 3_600 + (int(text[-2:]) * 60 if len(text) > len("+00") else 0)
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


def quick_datetimes(texts: pl.Series) -> QuickTimes | None:
    """Reads the texts that are written like the first that is a date and time: same separator, same offset; None if none is.

    Neighbours in a log mostly share their second, so date and clock are read once per run of equal ones.
    """
    samples = [found for text in texts.head(_SAMPLES) if (found := _TIMESTAMP.fullmatch(text or ""))]
    if not samples:
        return None
    offset, separator = samples[0]["offset"] or "", samples[0]["separator"]
    digits = {len(sample["fraction"]) for sample in samples if sample["fraction"]}
    fixed = digits.pop() if len(digits) == 1 and max(digits) <= _NS_DIGITS else None
    clock_s, clock_fits = _clocks(texts.str.slice(0, _CLOCK_CHARACTERS), separator)
    rest = texts.str.slice(_CLOCK_CHARACTERS)
    fraction_ns, rest_fits = _fractions(rest, re.escape(offset), fixed)
    ns = (clock_s - offset_s(offset)) * NS_PER_S + fraction_ns
    return QuickTimes(pl.lit(ns), pl.lit(clock_fits & rest_fits), bool(offset))


def _clocks(texts: pl.Series, separator: str) -> tuple[pl.Series, pl.Series]:
    """Seconds since 1970 of dates and clocks, and which texts are ones."""
    runs = texts.rle().struct.unnest()
    text = pl.col("value")
    seconds = text.str.to_datetime(f"%Y-%m-%d{separator}%H:%M:%S", time_unit="ms", strict=False).dt.epoch("s")
    read = runs.select("len", s=seconds, fits=text.str.contains(_CLOCK_PATTERN.format(separator=separator)))
    read = read.with_columns(
        pl.col("fits").fill_null(value=False) & pl.col("s").is_not_null(), pl.col("s").fill_null(0)
    )
    times = read["len"].to_numpy()
    return pl.Series(np.repeat(read["s"].to_numpy(), times)), pl.Series(np.repeat(read["fits"].to_numpy(), times))


def _fractions(rest: pl.Series, offset: str, digits: int | None) -> tuple[pl.Series, pl.Series]:
    """Nanoseconds of what follows the clock, and which texts are a fraction of ``digits`` (None: any number) or none, and ``offset``."""
    text = pl.col("rest")
    written = "1," if digits is None else str(digits)
    fits = text.str.contains(rf"^(\.[0-9]{{{written}}})?{offset}$")
    if digits is None:
        ns = text.str.extract(r"^\.([0-9]{1,9})").str.pad_end(_NS_DIGITS, "0").cast(pl.Int64, strict=False)
    else:
        ns = text.str.slice(1, digits).cast(pl.Int64, strict=False) * 10 ** (_NS_DIGITS - digits)
    has_fraction = text.str.starts_with(".")
    read = rest.to_frame("rest").select(
        ns=pl.when(has_fraction).then(ns).otherwise(0).fill_null(0), fits=fits.fill_null(value=False)
    )
    return read["ns"], read["fits"]


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
