"""Tables of measured KV transfers: bytes and seconds of each, and the curve that they make."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pipelines.declarations.measured_table import (
    LARGEST,
    Column,
    Fault,
    Layout,
    Role,
    out_of_range,
    read_table,
)
from pipelines.declarations.measured_table import MAX_ROWS as MAX_ROWS
from pipelines.declarations.measured_table import TIME_UNITS as TIME_UNITS
from pipelines.declarations.measured_table import ColumnChoice as ColumnChoice
from pipelines.declarations.points import points_of, points_text
from pipelines.declarations.problems import DeclarationProblems, Problem, plain
from pipelines.declarations.units import SIZES

SIZE_UNITS: Mapping[str, Fraction] = {name: SIZES[name] for name in ("B", "kB", "MB", "GB", "KiB", "MiB", "GiB")}

_SIZE_ENDINGS: Mapping[str, str] = {
    "bytes": "B",
    **{name.lower(): name for name in SIZE_UNITS if name != "B"},
    **{name: name for name in SIZE_UNITS if name != "B"},
    "KB": "kB",
}
"""Units by the last word of a column's name. ``_Mb`` is none: it may be meant as bits."""
_TIME_ENDINGS: Mapping[str, str] = {"seconds": "s", **{name: name for name in TIME_UNITS}}
_BARE = ("bytes", "seconds")
_RATE = re.compile(r"per|rate|req|requests?|tok|tokens?|[kmgt]?i?b|[kmgt]?bits?|bytes?", re.IGNORECASE)
"""What stands before ``_s`` where that means per second, as in ``gb_s``."""
_SIZES_EXPECTED = "bytes, or a name that ends in _bytes, _kib, _mib, _gib, _kb, _mb or _gb"
_TIMES_EXPECTED = "seconds, or a name that ends in _s, _ms or _us"
_HIGHS_EXPECTED = "high_s, or a name that ends in _high_s, _high_ms or _high_us"
_WITHOUT_UNIT = re.compile(
    r"(?P<size>.*(size|payload|volume).*)|.*(time|latency|duration|elapsed).*"
    r"|((transfer|t)_)?(p[0-9]{1,2}|mean|median|avg|average)",
    re.IGNORECASE,
)
"""Names that people give to columns of sizes and of times without their unit."""
CLOSEST = Fraction(1, 10**6)
"""Sizes of a curve that differ by a smaller part are repeats of one: a line between them has any slope."""

TransferColumn = Column
"""Of sizes, its unit is kept in bytes; of times, in seconds."""


@dataclass(frozen=True)
class ColumnChoices:
    """Columns that somebody named; None where the header decides."""

    bytes: ColumnChoice | None = None
    seconds: ColumnChoice | None = None
    high: ColumnChoice | None = None


@dataclass(frozen=True)
class TransferRow:
    """One measured transfer, exactly: bytes, seconds, the upper end of the time where the table states one, and its line."""

    bytes: Fraction
    seconds: Fraction
    high_s: Fraction | None
    line: int


@dataclass(frozen=True)
class TransferTable:
    """Measured transfers in the order of their file, at least one; ``notes`` say what was left unread."""

    file: str
    rows: tuple[TransferRow, ...]
    bytes_column: TransferColumn
    seconds_column: TransferColumn
    high_column: TransferColumn | None
    notes: tuple[str, ...]


class CurvePoint(NamedTuple):
    """One size of a measured curve: whole bytes, seconds, and the conservative end of the seconds."""

    bytes: int
    seconds: Fraction
    high_s: Fraction | None


TransferCurve = tuple[CurvePoint, ...]
"""Strictly increasing bytes, times that do not decrease."""


def _is_high(name: str) -> bool:
    """Whether a column states upper times by its name."""
    stem, _, ending = name.rpartition("_")
    return ending in _TIME_ENDINGS and (stem == "high" or stem.endswith("_high"))


def _unit_of(name: str, endings: Mapping[str, str]) -> str | None:
    """The unit that the name of a column states, if it states one by these endings."""
    stem, _, ending = name.rpartition("_")
    if ending not in endings or (not stem and name not in _BARE):
        return None
    if ending == "s" and _RATE.fullmatch(stem.rpartition("_")[2]):
        return None
    return endings[ending]


def _size_unit(name: str) -> str | None:
    return _unit_of(name, _SIZE_ENDINGS)


def _time_unit(name: str) -> str | None:
    return _unit_of(name, _TIME_ENDINGS)


def _without_unit(names: list[str], role: Role) -> tuple[str, str] | None:
    """The column that lacks its unit, and how to rename it."""
    for name in names:
        found = _WITHOUT_UNIT.fullmatch(name)
        if found and bool(found["size"]) == (role.units is SIZE_UNITS) and role.unit_of(name) is None:
            return name, " so that it names its unit"
    return None


def _out_of_range(text: str, column: Column) -> Fault | None:
    return out_of_range(text, column, "bytes or seconds")


_LAYOUT = Layout(
    "transfers",
    Role("sizes", _SIZES_EXPECTED, _size_unit, SIZE_UNITS, "--bytes-column", "MiB"),
    Role("times", _TIMES_EXPECTED, _time_unit, TIME_UNITS, "--seconds-column", "ms"),
    Role("upper times", _HIGHS_EXPECTED, _time_unit, TIME_UNITS, "--high-column", "ms"),
    is_high=_is_high,
    unnamed=_without_unit,
    fault=_out_of_range,
)


def read_transfer_table(file: Path, choices: ColumnChoices | None = None) -> TransferTable:
    """The measured transfers in the CSV ``file``; DeclarationProblems with all that is wrong with it.

    ``choices`` are given where somebody could choose: without, no hint names the options for it.
    """
    table = read_table(file, _LAYOUT, None if choices is None else (choices.bytes, choices.seconds, choices.high))
    rows = tuple(TransferRow(row.size, row.seconds, row.high_s, row.line) for row in table.rows)
    return TransferTable(table.file, rows, table.size_column, table.seconds_column, table.high_column, table.notes)


def as_curve(table: TransferTable) -> TransferCurve:
    """The table as a curve: one point per size in ascending order.

    Sizes are rounded half up to whole bytes. Repeats of a size become the median of their times (exact; the mean of the middle
    two of an even number) and the largest of their upper times. DeclarationProblems where there are fewer than two sizes, or
    a larger transfer took less time than the next smaller one, since nothing between them could then be read off.
    """
    sized = sorted(((_half_up(row.bytes), row) for row in table.rows), key=lambda pair: pair[0])
    points: list[tuple[int, CurvePoint]] = []
    problems = []
    for size, group in groupby(sized, key=lambda pair: pair[0]):
        rows = [row for _, row in group]
        highs = [row.high_s for row in rows if row.high_s is not None]
        line = min(row.line for row in rows)
        points.append((line, CurvePoint(size, median(row.seconds for row in rows), max(highs) if highs else None)))
        if size == 0:
            problems.append(_at(table, line, table.bytes_column, "rounds to 0 bytes; expected at least half a byte"))
    if len(points) < 2:
        message = "a single size; expected transfers of at least two sizes for a curve"
        problems.append(_at(table, points[0][0], table.bytes_column, message))
    for (line_before, before), (line, after) in pairwise(points):
        if after.bytes < before.bytes * (1 + CLOSEST):
            message = f"{after.bytes} bytes are less than a millionth more than {before.bytes} on line {line_before}"
            hint = "leave one of them out"
            problems.append(_at(table, line, table.bytes_column, f"{message}; expected sizes that differ", hint))
        problems += _decreases(table, (line_before, before), (line, after))
    if problems:
        raise DeclarationProblems(problems)
    return tuple(point for _, point in points)


def _decreases(
    table: TransferTable, earlier: tuple[int, CurvePoint], later: tuple[int, CurvePoint]
) -> Iterator[Problem]:
    (line_before, before), (line, after) = earlier, later
    for column, less, than in (
        (table.seconds_column, after.seconds, before.seconds),
        (table.high_column, after.high_s, before.high_s),
    ):
        if column and less is not None and than is not None and less < than:
            message = (
                f"{after.bytes} bytes took {float(less)} s, less than {float(than)} s for {before.bytes} bytes on "
            )
            message += f"line {line_before}; expected non-decreasing times"
            yield _at(
                table, line, column, message, "repeat the measurement, or declare a fitted overhead and bandwidth"
            )


def _at(table: TransferTable, line: int, column: TransferColumn, message: str, hint: str | None = None) -> Problem:
    return Problem(table.file, line, 1, plain(column.name), message, hint)


def _half_up(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def curve_text(curve: TransferCurve) -> str:
    """The canonical text of a curve: ``bytes:seconds[:high]``, seconds as the shortest text of their doubles.

    >>> curve_text((CurvePoint(1024, Fraction(1, 1000), None), CurvePoint(4096, Fraction(2, 1000), Fraction(3, 1000))))
    '1024:0.001 4096:0.002:0.003'
    """
    return points_text(curve)


def parse_curve(text: str) -> TransferCurve:
    """The curve that :func:`curve_text` wrote, its seconds exactly as written; ValueError for any other text.

    >>> parse_curve("1024:0.001 4096:0.002:0.003")[0]
    CurvePoint(bytes=1024, seconds=Fraction(1, 1000), high_s=None)
    """
    curve = tuple(CurvePoint(*point) for point in points_of(text, "bytes"))
    if not _is_curve(curve) or curve_text(curve) != text:
        raise ValueError("not a canonical curve; expected two or more ascending sizes and times that do not decrease")
    return curve


def _is_curve(curve: TransferCurve) -> bool:
    highs = [point.high_s for point in curve if point.high_s is not None]
    return (
        len(curve) >= 2
        and all(point.bytes > 0 and 0 < point.seconds <= (point.high_s or point.seconds) for point in curve)
        and curve[-1].seconds <= LARGEST
        and all(high <= LARGEST for high in highs)
        and all(
            one.bytes * (1 + CLOSEST) <= other.bytes and one.seconds <= other.seconds for one, other in pairwise(curve)
        )
        and highs == sorted(highs)
    )
