"""Timestamps of request logs as whole nanoseconds."""

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

import polars as pl

_TIMESTAMP = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?P<separator>[ T])"
    r"(?P<h>[01][0-9]|2[0-3]):(?P<m>[0-5][0-9]):(?P<s>[0-5][0-9])(?:\.(?P<fraction>[0-9]{1,9}))?"
    r"(?P<offset>Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])?"
)
_COLUMN_PATTERN = (
    r"^(19[7-9][0-9]|2[01][0-9]{{2}})-[0-9]{{2}}-[0-9]{{2}}{separator}"
    r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{{1,9}})?{offset}$"
)
"""Years 1970 to 2199: nanoseconds since 1970 then fit 64 bits."""

_NS_PER_S = 10**9


@dataclass(frozen=True)
class Instant:
    """Nanoseconds since year 1, in UTC if the text states an offset; else in whatever zone the log was written."""

    ns: int
    has_offset: bool


def parse_timestamp(text: str) -> Instant | None:
    """Read one timestamp exactly; None if it is not one.

    >>> parse_timestamp("2023-11-16T18:17:03.5+02:00").ns - parse_timestamp("2023-11-16 16:17:03Z").ns
    500000000
    """
    found = _TIMESTAMP.fullmatch(text)
    day = _day_number(found["date"]) if found else None
    if found is None or day is None:
        return None
    seconds = day * 86_400 + int(found["h"]) * 3_600 + int(found["m"]) * 60 + int(found["s"])
    offset = found["offset"]
    if offset and offset != "Z":
        shift = int(offset[1:3]) * 3_600 + int(offset[-2:]) * 60
        seconds += shift if offset[0] == "-" else -shift
    fraction = int((found["fraction"] or "").ljust(9, "0"))
    return Instant(seconds * _NS_PER_S + fraction, offset is not None)


@lru_cache(maxsize=4096)
def _day_number(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal()
    except ValueError:
        return None


def parse_column(column: pl.Series) -> pl.Series | None:
    """Nanoseconds of a column whose timestamps are all written like its first, with one offset or none; else None.

    Counted from an origin of the column's own, since a common offset does not change a difference.
    """
    first = _TIMESTAMP.fullmatch(column[0] or "")
    if first is None:
        return None
    offset = first["offset"] or ""
    pattern = _COLUMN_PATTERN.format(separator=first["separator"], offset=re.escape(offset))
    if column.null_count() or not column.str.contains(pattern).all():
        return None
    naive = column.str.strip_suffix(offset) if offset else column
    times = naive.str.to_datetime(f"%Y-%m-%d{first['separator']}%H:%M:%S%.f", time_unit="ns", strict=False)
    return None if times.null_count() else times.to_physical()
