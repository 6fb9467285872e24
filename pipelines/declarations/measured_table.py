"""Tables of measurements in CSV: a size and seconds of each, read exactly, with units from the names of the columns.

The places of problems are those of cells, so a row is one line of the file; a quoted field may hold commas, no line breaks.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pipelines.declarations.problems import DeclarationProblems, Problem, plain, show
from pipelines.declarations.text import read_text
from pipelines.declarations.units import TIMES

MAX_ROWS = 10_000
"""A table of measurements is small; more rows are a log, which wants summing up first."""

TIME_UNITS: Mapping[str, Fraction] = {name: TIMES[name] for name in ("s", "ms", "us")}

NUMBER = re.compile(r"(?P<sign>[-+]?)(?P<digits>[0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_GROUPED = re.compile(r"[-+]?[0-9]+([,_' ][0-9]+)+(\.[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(nan|inf|infinity)", re.IGNORECASE)
_WITH_UNIT = re.compile(r"(?P<number>[-+]?[0-9.]+([eE][-+]?[0-9]+)?)\s*[A-Za-zµμ]+")
_LONGEST_NUMBER = 40
_NAMES_SHOWN = 12
SMALLEST, LARGEST = Fraction(1, 10**24), Fraction(10**15)
"""In bytes and in seconds: a petabyte is no KV cache, and 30 million years no measured time."""
_FIELD = re.compile(r'"(?:[^"]|"")*"|[^,]*')

Fault = tuple[str, str | None]
"""What is wrong with a cell, and a hint."""


@dataclass(frozen=True)
class ColumnChoice:
    """A column that somebody named, and its unit where the name of the column does not state it."""

    name: str
    unit: str | None = None


@dataclass(frozen=True)
class Column:
    """A column that is read: its name, its place in a row from 0, its unit, and that unit in those that are kept."""

    name: str
    place: int
    unit: str
    factor: Fraction


@dataclass(frozen=True)
class Row:
    """One measurement, exactly: its size, seconds, the upper end of the time where the table states one, and its line."""

    size: Fraction
    seconds: Fraction
    high_s: Fraction | None
    line: int


@dataclass(frozen=True)
class Table:
    """Measurements in the order of their file, at least one; ``notes`` say what was left unread."""

    file: str
    rows: tuple[Row, ...]
    size_column: Column
    seconds_column: Column
    high_column: Column | None
    notes: tuple[str, ...]

    def at(self, line: int, column: Column, message: str, hint: str | None = None) -> Problem:
        """A problem of a column on a line."""
        return Problem(self.file, line, 1, plain(column.name), message, hint)


@dataclass(frozen=True)
class Role:
    """What is looked for in a header: how it is called, the unit that a column's name states, the option that names it."""

    noun: str
    expected: str
    unit_of: Callable[[str], str | None]
    units: Mapping[str, Fraction]
    option: str = ""
    example: str = ""


@dataclass(frozen=True)
class Layout:
    """A sort of table: what its rows are, the roles of its columns, and what is particular about its names and cells.

    ``unnamed`` finds the column that probably has a role, and how to rename it; ``fault`` says what is wrong with a number
    above 0.
    """

    things: str
    size: Role
    time: Role
    high: Role
    is_high: Callable[[str], bool]
    unnamed: Callable[[list[str], Role], tuple[str, str] | None]
    fault: Callable[[str, Column], Fault | None]


Choices = tuple[ColumnChoice | None, ColumnChoice | None, ColumnChoice | None]
"""The columns that somebody named for sizes, times and upper times; None where the header decides."""


def read_table(file: Path, layout: Layout, choices: Choices | None = None) -> Table:
    """The measurements in the CSV ``file``; DeclarationProblems with all that is wrong with it.

    ``choices`` are given where somebody could choose: without, no hint names the options for it.
    """
    text = read_text(file, f"a CSV table of measured {layout.things}")
    if isinstance(text, Problem):
        raise DeclarationProblems([text])
    return _Reader(str(file), layout, by_option=choices is not None).read(text, choices or (None, None, None))


class _Reader:
    """Reads one table, and keeps what is wrong with it."""

    def __init__(self, file: str, layout: Layout, *, by_option: bool) -> None:
        self._file = file
        self._layout = layout
        self._by_option = by_option
        self._problems: list[Problem] = []

    def read(self, text: str, choices: Choices) -> Table:
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
            self._found(first, 1, f"no rows; expected measured {self._layout.things} below the header")
        elif size and time:
            rows = list(self._rows(rest, len(names), (size, time, high)))
            if not self._problems:
                return Table(self._file, tuple(rows), size, time, high, _notes(names, (size, time, high)))
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
        self, number: int, header: str, names: list[str], choices: Choices
    ) -> tuple[Column | None, Column | None, Column | None]:
        before = len(self._problems)
        layout, (size_choice, time_choice, high_choice) = self._layout, choices
        highs = [name for name in names if layout.is_high(name)]
        others = [name for name in names if name not in highs]
        size = self._column(number, header, names, (layout.size, size_choice, others))
        time = self._column(number, header, names, (layout.time, time_choice, others))
        high = None
        if highs or high_choice:
            high = self._column(number, header, names, (layout.high, high_choice, highs))
        chosen = [column.name for column in (size, time, high) if column]
        if len(self._problems) == before and len(set(chosen)) < len(chosen):
            self._found(number, 1, "one column is named for two roles; expected a column of its own for each")
        return size, time, high

    def _column(
        self, number: int, header: str, names: list[str], wanted: tuple[Role, ColumnChoice | None, list[str]]
    ) -> Column | None:
        role, choice, among = wanted
        candidates = [choice.name] if choice else [name for name in among if role.unit_of(name)]
        places = [place for place, name in enumerate(names) if name in candidates]
        if not places:
            self._missing(number, names, role, choice)
        elif len(places) > 1:
            called = ", ".join(plain(names[place]) for place in places)
            hint = self._one_of_several(called, role, named_alike=len({names[place] for place in places}) == 1)
            message = f"{len(places)} columns of {role.noun}: {called}; expected one"
            self._found(number, _starts(header)[places[1]], message, hint)
        else:
            unit = (choice.unit if choice else None) or role.unit_of(names[places[0]])
            if unit is not None:
                return Column(names[places[0]], places[0], unit, role.units[unit])
            name = plain(names[places[0]])
            hint = f"name its unit, as in {role.option} {name}={role.example}"
            message = f"the column {name} states no unit of {role.noun}; expected {role.expected}"
            self._found(number, _starts(header)[places[0]], message, hint)
        return None

    def _one_of_several(self, called: str, role: Role, *, named_alike: bool) -> str | None:
        if not self._by_option:
            return f"rename all but one of {called} so that only one of them names a unit of {role.noun}"
        return None if named_alike else f"name one with {role.option}"

    def _missing(self, number: int, names: list[str], role: Role, choice: ColumnChoice | None) -> None:
        shown = ", ".join(plain(name) for name in names[:_NAMES_SHOWN])
        shown += f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        if choice:
            self._found(number, 1, f"no column {plain(choice.name)}; expected one of {shown}", None, role.option)
        else:
            message = f"no column of {role.noun} among {shown}; expected {role.expected}"
            self._found(number, 1, message, self._missing_hint(names, role))

    def _missing_hint(self, names: list[str], role: Role) -> str | None:
        if len(names) == 1:
            for delimiter, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")):
                if delimiter in names[0]:
                    return f"are the fields separated by {called}? expected commas"
        if all(NUMBER.fullmatch(name) for name in names):
            return "is the header line missing? put the names of the columns on the first line"
        unnamed = self._layout.unnamed(names, role)
        if unnamed is None:
            return None
        name, how = unnamed
        option = f", or name its unit, as in {role.option} {plain(name)}={role.example}"
        return f"rename {plain(name)}{option if self._by_option else how}"

    def _rows(
        self,
        lines: Sequence[tuple[int, str]],
        width: int,
        columns: tuple[Column, Column, Column | None],
    ) -> Iterator[Row]:
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
                yield Row(measured[0], measured[1], upper, number)

    def _cell(self, number: int, line: str, fields: list[str], column: Column) -> Fraction | None:
        text = fields[column.place].strip()
        fault = _fault(text, column, self._layout)
        if fault is None:
            return Fraction(text) * column.factor
        self._found(number, _starts(line)[column.place], fault[0], fault[1], plain(column.name))
        return None


def _fault(text: str, column: Column, layout: Layout) -> Fault | None:
    """What is wrong with a number in a cell."""
    number, unit = NUMBER.fullmatch(text), column.unit
    if number is None or len(text) > _LONGEST_NUMBER:
        return _not_a_number(text, unit, layout.things)
    if Fraction(text) == 0:
        return f"{text} {unit}; expected more than 0", None
    if number["sign"] == "-":
        return f"{text} {unit} is negative; expected more than 0", None
    return layout.fault(text, column)


def out_of_range(text: str, column: Column, units: str) -> Fault | None:
    """A figure that nobody measured; ``units`` are those that are kept."""
    if SMALLEST <= Fraction(text) * column.factor <= LARGEST:
        return None
    return f"{text} {column.unit} is out of range; expected 1e-24 to 1e15 in {units}", None


def _not_a_number(text: str, unit: str, things: str) -> Fault:
    expected = f"expected a number of {unit}"
    if not text:
        return f"nothing in the cell; {expected}", None
    if NUMBER.fullmatch(text):
        return f"{show(text)} has too many digits; expected at most {_LONGEST_NUMBER} characters", None
    if _GROUPED.fullmatch(text):
        return f"{show(text)} has separators; {expected}", "write the digits without separators, decimals after a point"
    if _NOT_FINITE.fullmatch(text):
        return f"{show(text)} is no measured number; {expected}", f"leave out {things} that were not measured"
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


def _notes(names: list[str], read: Sequence[Column | None]) -> tuple[str, ...]:
    places = {column.place for column in read if column}
    others = [plain(name) for place, name in enumerate(names) if place not in places]
    more = f" and {len(others) - _NAMES_SHOWN} more" if len(others) > _NAMES_SHOWN else ""
    return (f"columns that are not read: {', '.join(others[:_NAMES_SHOWN])}{more}",) if others else ()
