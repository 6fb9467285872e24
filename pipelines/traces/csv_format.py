"""Request logs as CSV: columns found by name, all others left unread.

A block of lines is read at once by polars where its rows are plain: as many fields on every line as the header has, and quotes at
most around whole fields that do not need them.
Rows of such a block whose values are not plain are read again one by one, which finds what is wrong with them; so are all rows of
every other block. The verdict on a row does not depend on which way it came.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.frames.requests import MAX_TOKENS
from pipelines.traces import faults
from pipelines.traces.csv_rows import CarefulReader, Cells
from pipelines.traces.faults import Kind
from pipelines.traces.header import describe_header, header_hint, header_names
from pipelines.traces.log_file import Block, Head, LogFile, count_of
from pipelines.traces.parallel import in_order
from pipelines.traces.timestamps import UNITS_NS, QuickTimes, quick_datetimes, quick_numbers
from pipelines.traces.token_counts import quick_counts
from pipelines.traces.trace_format import EXTRA_SCHEMA, ROW_SCHEMA, Reading

DATETIME = "datetime"

_SPACE_AROUND = r"^[\s\x1c-\x1f]|[\s\x1c-\x1f]$"
"""The space that Python strips, which is more than what Unicode calls white."""

_NEEDED_QUOTE = re.compile(rb'"(?<=[,\n]")(?![^",\n]*"(?:[,\n]|\Z))')
"""The opening quote of a field that is not plain within its quotes."""


@dataclass(frozen=True)
class Only:
    """A column that holds the whole number ``value`` in every row that can be read; ``otherwise`` says what another row is."""

    column: str
    value: int
    otherwise: Kind


@dataclass(frozen=True)
class CsvColumns:
    """Which column holds what. ``unit`` is that of the arrival: s, ms, us, ns, or datetime; no ``arrival``, a log of lengths only."""

    prompt_tokens: str
    output_tokens: str
    arrival: str | None = None
    unit: str = DATETIME
    cached_prompt_tokens: str | None = None
    model: str | None = None
    adapter: str | None = None
    priority: str | None = None
    only: tuple[Only, ...] = ()

    @property
    def unit_ns(self) -> int | None:
        """Nanoseconds of one unit of the arrival; None where it is a date and time."""
        return UNITS_NS.get(self.unit)

    @property
    def by_field(self) -> dict[str, str]:
        """Column names by field of a request, arrival first: as `time`."""
        fields = {"time": self.arrival, "prompt_tokens": self.prompt_tokens, "output_tokens": self.output_tokens}
        extra = {name: getattr(self, name) for name in EXTRA_SCHEMA if name != "hash_ids"}
        return {field: column for field, column in (fields | extra).items() if column is not None}

    @property
    def schema(self) -> dict[str, pl.DataType | type[pl.DataType]]:
        """The frames that a log with these columns is read into."""
        timed = {name: dtype for name, dtype in ROW_SCHEMA.items() if self.arrival or name != "timestamp_ns"}
        return timed | {name: dtype for name, dtype in EXTRA_SCHEMA.items() if name in self.by_field}


@dataclass(frozen=True)
class CsvFormat:
    """A CSV format. ``optional`` fields are read where the header has their column; ``unless`` names columns of another format.

    Columns of ``columns.only`` are looked at where the header has them.
    """

    name: str
    columns: CsvColumns
    optional: tuple[str, ...] = ()
    unless: frozenset[str] = frozenset()
    block_tokens: int | None = None

    @property
    def required(self) -> tuple[str, ...]:
        """The columns without which a log is not of this format."""
        return tuple(column for field, column in self.columns.by_field.items() if field not in self.optional)

    @property
    def expects(self) -> str:
        """How a file of it begins."""
        optional = ", ".join(self.columns.by_field[field] for field in self.optional)
        return f"CSV with the columns {', '.join(self.required)}" + (f", optional {optional}" if optional else "")

    def detect(self, head: Head) -> bool:
        """Whether the first line names all required columns."""
        return set(self.required) <= set(head.names) and not self.unless & set(head.names)

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The requests of a log, a block at a time."""
        header = list(log.head.names)
        absent: dict[str, Any] = {
            "arrival" if field == "time" else field: None
            for field in self.optional
            if self.columns.by_field[field] not in header
        }
        only = tuple(one for one in self.columns.only if one.column in header)
        present = replace(self.columns, **absent, only=only)
        return read_csv(log, reading, present)


def read_csv(log: LogFile, reading: Reading, columns: CsvColumns) -> Iterator[pl.DataFrame]:
    """Frames of the requests of a CSV log whose header has ``columns``; the rest is noted in ``reading``.

    Raises DeclarationProblems where a column is missing from the header or stands there twice.
    """
    header = header_names(log.head.line)
    problems = _header_problems(log, header, columns)
    if problems:
        raise DeclarationProblems(problems)
    careful = CarefulReader(log, header, columns, reading)
    quick = _QuickReader(header, columns)
    blocks = _without_header(log.blocks())
    for block, read in in_order(blocks, quick.read):
        if read is None or careful.is_inside_quotes:
            yield careful.read(block)
        else:
            yield _merged(block, read, careful)
    careful.finish()


def _header_problems(log: LogFile, header: list[str], columns: CsvColumns) -> list[Problem]:
    found = describe_header(header)
    hint = header_hint(log.head.line, header)
    return [
        Problem(
            log.shown_as, 1, 1, name, f"{'more than one' if name in header else 'no'} such column; found {found}", hint
        )
        for name in (*columns.by_field.values(), *(one.column for one in columns.only))
        if header.count(name) != 1
    ]


def _without_header(blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks without the header, which is the first line that is not blank."""
    for block in blocks:
        line, data, row = b"", block.data, block.first_row
        while data and not line.strip():
            line, _, data = data.partition(b"\n")
            row += 1
        if data:
            yield Block(row, data, block.is_last)
        if line.strip():
            break
    yield from blocks


@dataclass(frozen=True)
class _QuickRows:
    """What polars makes of a block: its rows as a frame, which of them are plain and right, and whether their times state an offset."""

    rows: pl.DataFrame
    right: pl.Series
    has_offset: bool | None


class _QuickReader:
    """Reads plain blocks; keeps nothing between them, so that blocks can be read at the same time."""

    def __init__(self, header: list[str], columns: CsvColumns) -> None:
        self.columns = columns
        self.width = len(header)
        by_column = {column: field for field, column in columns.by_field.items()}
        by_column |= {one.column: _only(one) for one in columns.only}
        # columns of polars' own naming: a header may repeat a name that is not read
        self.names = [by_column.get(name, f"unread {place}") for place, name in enumerate(header)]

    def read(self, block: Block) -> _QuickRows | None:
        """The rows of a block, or None where polars might read them otherwise than RFC 4180 says."""
        data = block.data.replace(b"\r\n", b"\n") if b"\r" in block.data else block.data
        if block.is_last:
            data = data.rstrip(b"\n")
        if b'"' in data:
            if not _are_quotes_needless(data):
                return None
            data = data.replace(b'"', b"")
        lines = count_of(b"\n", data) + (not data.endswith(b"\n") and bool(data))
        if not lines or b"\r" in data or count_of(b",", data) != lines * (self.width - 1) or not _is_utf8(data):
            return None
        table = self._table(data, pl.Int64)
        if table is None:
            table = self._table(data, pl.String)
        return None if table is None or table.height != lines else self._parsed(table, block.first_row)

    def _table(self, data: bytes, counts: type[pl.DataType]) -> pl.DataFrame | None:
        """The columns that are read, token counts as ``counts``; None where polars cannot."""
        fields = [*self.columns.by_field, *map(_only, self.columns.only)]
        schema = {name: counts if name in fields and name.endswith("tokens") else pl.String for name in self.names}
        try:
            # without a choice of columns: with one, polars would pass over a line that is too long
            table = pl.read_csv(data, has_header=False, schema=schema, quote_char=None)
        except pl.exceptions.PolarsError:
            return None
        return table.select(fields)

    def _parsed(self, table: pl.DataFrame, first_row: int) -> _QuickRows | None:
        times = self._times(table)
        if times is None and self.columns.arrival is not None:
            return None
        right = pl.lit(True) if times is None else times.fits
        columns = {} if times is None else {"timestamp_ns": times.ns}
        for field in self.columns.by_field:
            if field == "time":
                continue
            columns[field] = pl.col(field)
            if not field.endswith("tokens"):
                right = right & ~pl.col(field).str.contains(_SPACE_AROUND).fill_null(value=False)
                continue
            if table.schema[field] == pl.String:
                columns[field] = quick_counts(pl.col(field))
            least = 0 if field == "cached_prompt_tokens" else 1
            right = right & columns[field].is_between(least, MAX_TOKENS)
        for one in self.columns.only:
            right = right & (pl.col(_only(one)).cast(pl.Int64, strict=False) == one.value)
        frame = table.lazy().select(**columns, right=right.fill_null(value=False)).collect()
        rows = frame.drop("right").with_columns(row=pl.int_range(first_row, first_row + table.height, dtype=pl.Int64))
        return _QuickRows(rows.select(list(self.columns.schema)), frame["right"], times.has_offset if times else None)

    def _times(self, table: pl.DataFrame) -> QuickTimes | None:
        if self.columns.arrival is None:
            return None
        if self.columns.unit_ns is not None:
            return quick_numbers("time", self.columns.unit_ns)
        return quick_datetimes(table["time"])


def _only(one: Only) -> str:
    """What the quick reader calls a column that must hold one number: no field of a request is called like this."""
    return f"only {one.column}"


def _are_quotes_needless(data: bytes) -> bool:
    """Whether all quotes stand around whole fields without a comma, a quote or a line end, so that they can be left out."""
    lines = b"\n" + data
    # where no quoted field is another, each takes two quotes: any further one is astray
    opening = lines.count(b',"') + lines.count(b'\n"')
    return lines.count(b'"') == 2 * opening and not _NEEDED_QUOTE.search(lines)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _merged(block: Block, quick: _QuickRows, careful: CarefulReader) -> pl.DataFrame:
    """The plain rows of a block, and those of the others that turn out to be right when they are read one by one."""
    careful.end_blank()
    right = quick.rows if quick.right.all() else quick.rows.filter(quick.right)
    if quick.has_offset is not None and right.height:
        careful.note_clock(quick.has_offset, right["row"].head(faults.FIRST_ROWS).to_list(), right.height)
    if right.height == quick.rows.height:
        return right
    again = careful.read_lines(_lines_at(block, (~quick.right).arg_true().to_list()))
    return right if again.is_empty() else pl.concat([right, again]).sort("row")


def _lines_at(block: Block, places: list[int]) -> Iterator[Cells]:
    lines = block.data.split(b"\n")
    for place in places:
        yield Cells(block.first_row + place, lines[place].rstrip(b"\r").replace(b'"', b"").decode().split(","))
