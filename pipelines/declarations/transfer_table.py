"""Tables of measured KV transfers: bytes and seconds of each, read exactly, with units from the names of the columns.

The places of problems are those of cells, so a row is one line of the file; a quoted field may hold commas, no line breaks.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pipelines.declarations.problems import DeclarationProblems, Problem, plain, show
from pipelines.declarations.text import read_text
from pipelines.declarations.units import SIZES, TIMES

MAX_ROWS = 10_000
"""A table of measurements is small; more rows are a log of transfers, which wants summing up first."""

SIZE_UNITS: Mapping[str, Fraction] = {name: SIZES[name] for name in ("B", "kB", "MB", "GB", "KiB", "MiB", "GiB")}
TIME_UNITS: Mapping[str, Fraction] = {name: TIMES[name] for name in ("s", "ms", "us")}

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
_NAMES_SHOWN = 12

_NUMBER = re.compile(r"(?P<sign>[-+]?)(?P<digits>[0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_GROUPED = re.compile(r"[-+]?[0-9]+([,_' ][0-9]+)+(\.[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(nan|inf|infinity)", re.IGNORECASE)
_WITH_UNIT = re.compile(r"(?P<number>[-+]?[0-9.]+([eE][-+]?[0-9]+)?)\s*[A-Za-zµμ]+")
_LONGEST_NUMBER = 40
CLOSEST = Fraction(1, 10**6)
"""Sizes of a curve that differ by a smaller part are repeats of one: a line between them has any slope."""

_SMALLEST, _LARGEST = Fraction(1, 10**24), Fraction(10**15)
"""In bytes and in seconds: a petabyte is no KV cache, and 30 million years no transfer."""
_FIELD = re.compile(r'"(?:[^"]|"")*"|[^,]*')


@dataclass(frozen=True)
class ColumnChoice:
    """A column that somebody named, and its unit where the name of the column does not state it."""

    name: str
    unit: str | None = None


@dataclass(frozen=True)
class ColumnChoices:
    """Columns that somebody named; None where the header decides."""

    bytes: ColumnChoice | None = None
    seconds: ColumnChoice | None = None
    high: ColumnChoice | None = None


@dataclass(frozen=True)
class TransferColumn:
    """A column that is read: its name, its place in a row from 0, its unit, and that unit in bytes or seconds."""

    name: str
    place: int
    unit: str
    factor: Fraction


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


@dataclass(frozen=True)
class _Role:
    """What is looked for in a header: how it is called, by which endings it is known, the option that names it."""

    noun: str
    expected: str
    option: str
    example: str
    endings: Mapping[str, str]
    units: Mapping[str, Fraction]


_SIZE = _Role("sizes", _SIZES_EXPECTED, "--bytes-column", "MiB", _SIZE_ENDINGS, SIZE_UNITS)
_TIME = _Role("times", _TIMES_EXPECTED, "--seconds-column", "ms", _TIME_ENDINGS, TIME_UNITS)
_HIGH = _Role("upper times", _HIGHS_EXPECTED, "--high-column", "ms", _TIME_ENDINGS, TIME_UNITS)


def read_transfer_table(file: Path, choices: ColumnChoices | None = None) -> TransferTable:
    """The measured transfers in the CSV ``file``; DeclarationProblems with all that is wrong with it.

    ``choices`` are given where somebody could choose: without, no hint names the options for it.
    """
    text = read_text(file, "a CSV table of measured transfers")
    if isinstance(text, Problem):
        raise DeclarationProblems([text])
    return _Reader(str(file), by_option=choices is not None).read(text, choices or ColumnChoices())


class _Reader:
    """Reads one table, and keeps what is wrong with it."""

    def __init__(self, file: str, *, by_option: bool) -> None:
        self._file = file
        self._by_option = by_option
        self._problems: list[Problem] = []

    def read(self, text: str, choices: ColumnChoices) -> TransferTable:
        lines = [(number, line.removesuffix("\r")) for number, line in enumerate(text.split("\n"), 1)]
        lines = [(number, line) for number, line in lines if line.strip()]
        if not lines:
            self._found(1, 1, "the file is empty; expected a header line with the names of the columns, and rows")
            raise DeclarationProblems(self._problems)
        (first, header), *rest = lines
        names = self._names(first, header)
        size, time, high = self._columns(first, header, names, choices)
        if len(rest) > MAX_ROWS:
            self._found(rest[MAX_ROWS][0], 1, f"{len(rest)} rows; expected at most {MAX_ROWS}")
        elif not rest:
            self._found(first, 1, "no rows; expected measured transfers below the header")
        elif size and time:
            rows = list(self._rows(rest, len(names), (size, time, high)))
            if not self._problems:
                return TransferTable(self._file, tuple(rows), size, time, high, _notes(names, (size, time, high)))
        raise DeclarationProblems(self._problems)

    def _found(self, line: int, column: int, message: str, hint: str | None = None, path: str = "") -> None:
        self._problems.append(Problem(self._file, line, column, path, message, hint))

    def _names(self, number: int, line: str) -> list[str]:
        names = self._fields(number, line)
        if names is None:
            raise DeclarationProblems(self._problems)
        return [name.strip() for name in names]

    def _fields(self, number: int, line: str) -> list[str] | None:
        try:
            return next(csv.reader([line], strict=True))
        except csv.Error as error:
            if "unexpected end" in str(error):
                found = "a quote that is not closed on its line; expected one row a line"
            else:
                found = "a stray quote or line end within a field; expected fields with commas between them"
            self._found(number, 1, found)
            return None

    def _columns(
        self, number: int, header: str, names: list[str], choices: ColumnChoices
    ) -> tuple[TransferColumn | None, TransferColumn | None, TransferColumn | None]:
        before = len(self._problems)
        highs = [name for name in names if _is_high(name)]
        others = [name for name in names if name not in highs]
        size = self._column(number, header, names, (_SIZE, choices.bytes, others))
        time = self._column(number, header, names, (_TIME, choices.seconds, others))
        high = self._column(number, header, names, (_HIGH, choices.high, highs)) if highs or choices.high else None
        chosen = [column.name for column in (size, time, high) if column]
        if len(self._problems) == before and len(set(chosen)) < len(chosen):
            self._found(number, 1, "one column is named for two roles; expected a column of its own for each")
        return size, time, high

    def _column(
        self, number: int, header: str, names: list[str], wanted: tuple[_Role, ColumnChoice | None, list[str]]
    ) -> TransferColumn | None:
        role, choice, among = wanted
        candidates = [choice.name] if choice else [name for name in among if _unit_of(name, role)]
        places = [place for place, name in enumerate(names) if name in candidates]
        if not places:
            self._missing(number, names, role, choice)
        elif len(places) > 1:
            called = ", ".join(plain(names[place]) for place in places)
            hint = self._one_of_several(called, role, named_alike=len({names[place] for place in places}) == 1)
            message = f"{len(places)} columns of {role.noun}: {called}; expected one"
            self._found(number, _starts(header)[places[1]], message, hint)
        else:
            unit = (choice.unit if choice else None) or _unit_of(names[places[0]], role)
            if unit is not None:
                return TransferColumn(names[places[0]], places[0], unit, role.units[unit])
            name = plain(names[places[0]])
            hint = f"name its unit, as in {role.option} {name}={role.example}"
            message = f"the column {name} states no unit of {role.noun}; expected {role.expected}"
            self._found(number, _starts(header)[places[0]], message, hint)
        return None

    def _one_of_several(self, called: str, role: _Role, *, named_alike: bool) -> str | None:
        if not self._by_option:
            return f"rename all but one of {called} so that only one of them names a unit of {role.noun}"
        return None if named_alike else f"name one with {role.option}"

    def _missing(self, number: int, names: list[str], role: _Role, choice: ColumnChoice | None) -> None:
        shown = ", ".join(plain(name) for name in names[:_NAMES_SHOWN])
        shown += f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        if choice:
            self._found(number, 1, f"no column {plain(choice.name)}; expected one of {shown}", None, role.option)
        else:
            message = f"no column of {role.noun} among {shown}; expected {role.expected}"
            self._found(number, 1, message, _missing_hint(names, role, by_option=self._by_option))

    def _rows(
        self,
        lines: Sequence[tuple[int, str]],
        width: int,
        columns: tuple[TransferColumn, TransferColumn, TransferColumn | None],
    ) -> Iterator[TransferRow]:
        size, time, high = columns
        for number, line in lines:
            fields = self._fields(number, line)
            if fields is None:
                continue
            if len(fields) != width:
                hint = "a comma within a number? write the digits without separators" if len(fields) > width else None
                found = f"{len(fields)} {'field' if len(fields) == 1 else 'fields'}"
                self._found(number, 1, f"{found}; expected {width}, as the header has", hint)
                continue
            measured = [self._cell(number, line, fields, column) for column in (size, time)]
            upper = self._cell(number, line, fields, high) if high else None
            if high and upper is not None and measured[1] is not None and upper < measured[1]:
                message = f"{fields[high.place].strip()} {high.unit} is below the time {fields[time.place].strip()} "
                message += f"{time.unit}; expected an upper time of at least that"
                self._found(number, _starts(line)[high.place], message, None, plain(high.name))
            if measured[0] is not None and measured[1] is not None:
                yield TransferRow(measured[0], measured[1], upper, number)

    def _cell(self, number: int, line: str, fields: list[str], column: TransferColumn) -> Fraction | None:
        text = fields[column.place].strip()
        fault = _fault(text, column)
        if fault is None:
            return Fraction(text) * column.factor
        self._found(number, _starts(line)[column.place], fault[0], fault[1], plain(column.name))
        return None


def _is_high(name: str) -> bool:
    """Whether a column states upper times by its name."""
    stem, _, ending = name.rpartition("_")
    return ending in _TIME_ENDINGS and (stem == "high" or stem.endswith("_high"))


def _unit_of(name: str, role: _Role) -> str | None:
    """The unit that the name of a column states, if it states one of this role."""
    stem, _, ending = name.rpartition("_")
    if ending not in role.endings or (not stem and name not in _BARE):
        return None
    if ending == "s" and _RATE.fullmatch(stem.rpartition("_")[2]):
        return None
    return role.endings[ending]


def _missing_hint(names: list[str], role: _Role, *, by_option: bool) -> str | None:
    if len(names) == 1:
        for delimiter, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")):
            if delimiter in names[0]:
                return f"are the fields separated by {called}? expected commas"
    if all(_NUMBER.fullmatch(name) for name in names):
        return "is the header line missing? put the names of the columns on the first line"
    for name in names:
        found = _WITHOUT_UNIT.fullmatch(name)
        if found and bool(found["size"]) == (role is _SIZE) and _unit_of(name, role) is None:
            option = f", or name its unit, as in {role.option} {plain(name)}={role.example}" if by_option else ""
            return f"rename {plain(name)} so that it names its unit" if not option else f"rename {plain(name)}{option}"
    return None


def _fault(text: str, column: TransferColumn) -> tuple[str, str | None] | None:
    """What is wrong with a number in a cell, and a hint."""
    number, unit = _NUMBER.fullmatch(text), column.unit
    if number is None or len(text) > _LONGEST_NUMBER:
        return _not_a_number(text, unit)
    if Fraction(text) == 0:
        return f"{text} {unit}; expected more than 0", None
    if number["sign"] == "-":
        return f"{text} {unit} is negative; expected more than 0", None
    if not _SMALLEST <= Fraction(text) * column.factor <= _LARGEST:
        return f"{text} {unit} is out of range; expected 1e-24 to 1e15 in bytes or seconds", None
    return None


def _not_a_number(text: str, unit: str) -> tuple[str, str | None]:
    expected = f"expected a number of {unit}"
    if not text:
        return f"nothing in the cell; {expected}", None
    if _NUMBER.fullmatch(text):
        return f"{show(text)} has too many digits; expected at most {_LONGEST_NUMBER} characters", None
    if _GROUPED.fullmatch(text):
        return f"{show(text)} has separators; {expected}", "write the digits without separators, decimals after a point"
    if _NOT_FINITE.fullmatch(text):
        return f"{show(text)} is no measured number; {expected}", "leave out transfers that were not measured"
    with_unit = _WITH_UNIT.fullmatch(text)
    hint = f"write {with_unit['number']}: the column states the unit" if with_unit else None
    return f"{show(text)} is not a number; {expected}", hint


def _starts(line: str) -> list[int]:
    """The column, from 1, in which each field of a well-formed row begins.

    >>> _starts('1,"a,b",,4')
    [1, 3, 9, 10]
    """
    starts, place = [1], 0
    while True:
        match = _FIELD.match(line, place)
        place = match.end() if match else len(line)
        place = line.find(",", place)
        if place < 0:
            return starts
        place += 1
        starts.append(place + 1)


def _notes(names: list[str], read: Sequence[TransferColumn | None]) -> tuple[str, ...]:
    places = {column.place for column in read if column}
    others = [plain(name) for place, name in enumerate(names) if place not in places]
    more = f" and {len(others) - _NAMES_SHOWN} more" if len(others) > _NAMES_SHOWN else ""
    return (f"columns that are not read: {', '.join(others[:_NAMES_SHOWN])}{more}",) if others else ()


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
    return " ".join(
        f"{point.bytes}:{float(point.seconds)!r}" + ("" if point.high_s is None else f":{float(point.high_s)!r}")
        for point in curve
    )


def parse_curve(text: str) -> TransferCurve:
    """The curve that :func:`curve_text` wrote, its seconds exactly as written; ValueError for any other text.

    >>> parse_curve("1024:0.001 4096:0.002:0.003")[0]
    CurvePoint(bytes=1024, seconds=Fraction(1, 1000), high_s=None)
    """
    points = []
    for written in text.split(" "):
        size, *times = written.split(":")
        if (
            not (size.isascii() and size.isdigit())
            or len(times) not in (1, 2)
            or not all(map(_NUMBER.fullmatch, times))
        ):
            raise ValueError(f"{show(written)} is no point of a curve; expected bytes:seconds or bytes:seconds:high")
        points.append(CurvePoint(int(size), Fraction(times[0]), Fraction(times[1]) if len(times) == 2 else None))
    curve = tuple(points)
    if not _is_curve(curve) or curve_text(curve) != text:
        raise ValueError("not a canonical curve; expected two or more ascending sizes and times that do not decrease")
    return curve


def _is_curve(curve: TransferCurve) -> bool:
    highs = [point.high_s for point in curve if point.high_s is not None]
    return (
        len(curve) >= 2
        and all(point.bytes > 0 and 0 < point.seconds <= (point.high_s or point.seconds) for point in curve)
        and curve[-1].seconds <= _LARGEST
        and all(high <= _LARGEST for high in highs)
        and all(
            one.bytes * (1 + CLOSEST) <= other.bytes and one.seconds <= other.seconds for one, other in pairwise(curve)
        )
        and highs == sorted(highs)
    )
