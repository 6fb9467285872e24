"""The careful CSV reader: row by row, what RFC 4180 allows is read, every other row is noted with its line number; no cell text is kept."""

import csv
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from pipelines.traces import faults
from pipelines.traces.faults import Fault, Kind
from pipelines.traces.log_file import LONGEST_LINE_BYTES, Block, LogFile
from pipelines.traces.timestamps import parse_number, parse_timestamp
from pipelines.traces.token_counts import count_of_text
from pipelines.traces.trace_format import Reading

if TYPE_CHECKING:
    from pipelines.traces.csv_format import CsvColumns


@dataclass(frozen=True)
class Cells:
    """The fields of one row, the line on which it begins, and how many lines its quotes join.

    Where such a row has not as many fields as the header, a stray quote may have joined several rows: then each line counts.
    """

    row: int
    fields: list[str]
    lines: int = 1


class CarefulReader:
    """Reads the rows of one log in order; a quoted field may run on from one block into the next."""

    def __init__(self, log: LogFile, header: list[str], columns: "CsvColumns", reading: Reading) -> None:
        self._log = log
        self._header = header
        self._columns = columns
        self._reading = reading
        self._places = {field: header.index(column) for field, column in columns.by_field.items()}
        self._only = [(one, header.index(one.column)) for one in columns.only]
        self._open: list[str] = []
        self._open_length = 0
        self._open_row = 0
        self._ends_cut = False

    @property
    def is_inside_quotes(self) -> bool:
        """Whether the last block ended within a quoted field."""
        return bool(self._open)

    def read(self, block: Block) -> pl.DataFrame:
        """The requests of a block, whatever its rows look like."""
        self._ends_cut = block.is_last and not block.data.endswith((b"\n", b"\r"))
        last_row = block.first_row + block.data.count(b"\n") - block.data.endswith(b"\n")
        return self._frame(self._row(cells, last_row) for cells in self._cells(block))

    def read_lines(self, lines: Iterable[Cells]) -> pl.DataFrame:
        """The requests of rows that are one line each, of as many fields as the header has."""
        return self._frame(self._request(cells) for cells in lines)

    def finish(self) -> None:
        """DeclarationProblems if a quote is still open: where the rows after it begin cannot be told."""
        if self._open:
            kind = faults.OPEN_QUOTE
            raise self._log.refused(f"{kind.found}; {kind.expected}", row=self._open_row)

    def note_clock(self, has_offset: bool, first_rows: list[int], count: int = 1) -> None:
        """Remember that timestamps state a UTC offset, or do not: a log must not do both."""
        rows = self._reading.rows_with_offset if has_offset else self._reading.rows_naive
        rows.add_all(Fault(faults.NOT_A_TIME, "time", self._columns.arrival or ""), count, first_rows)

    def _frame(self, rows: Iterable[dict[str, Any] | None]) -> pl.DataFrame:
        kept = [row for row in rows if row is not None]
        schema = self._columns.schema
        return pl.DataFrame({name: [row[name] for row in kept] for name in schema}, schema=schema)

    def _cells(self, block: Block) -> Iterator[Cells]:
        """The rows of a block; what is wrong with quotes or bytes is noted in their place."""
        lines = block.data.split(b"\n")
        if block.data.endswith(b"\n"):
            lines.pop()
        with _fields_of_any_length():
            for row, line in enumerate(lines, block.first_row):
                yield from self._joined(row, line.decode(errors="surrogateescape"))

    def _joined(self, row: int, line: str) -> Iterator[Cells]:
        """The row that ends with this line, if one does."""
        first = self._open_row if self._open else row
        if self._open and line.count('"') % 2 == 0:
            self._open.append(line)
            self._open_length += len(line)
            if self._open_length > LONGEST_LINE_BYTES:
                self.finish()
            return
        fields = _fields("\n".join([*self._open, line]))
        if fields is faults.OPEN_QUOTE:
            self._open, self._open_row, self._open_length = [*self._open, line], first, self._open_length + len(line)
            return
        lines, self._open, self._open_length = len(self._open) + 1, [], 0
        if isinstance(fields, Kind):
            self.end_blank()
            self._reading.faults.add_all(Fault(fields), lines, [first])
        else:
            yield Cells(first, fields, lines)

    def _row(self, cells: Cells, last_row: int) -> dict[str, Any] | None:
        if len(cells.fields) <= 1 and not "".join(cells.fields).strip():
            self._reading.blank.add(Fault(faults.BLANK_LINE), cells.row)
            return None
        self.end_blank()
        if any(_has_stray_bytes(text) for text in cells.fields):
            fault = faults.NOT_UTF8
        elif len(cells.fields) > len(self._header):
            fault = faults.TOO_MANY_FIELDS
        elif len(cells.fields) < len(self._header):
            fault = faults.CUT_OFF if self._ends_cut and cells.row == last_row else faults.TOO_FEW_FIELDS
        else:
            return self._request(cells)
        self._reading.faults.add_all(Fault(fault), cells.lines, [cells.row])
        return None

    def end_blank(self) -> None:
        """Blank lines are part of the end of a file until a row follows them."""
        self._reading.end_blank()

    def _request(self, cells: Cells) -> dict[str, Any] | None:
        request: dict[str, Any] = {"row": cells.row}
        names = self._columns.by_field
        for field, place in self._places.items():
            text = cells.fields[place].strip()
            found = self._value(field, text, cells.row)
            if isinstance(found, Kind):
                header_again = all(cells.fields[at].strip() == names[of] for of, at in self._places.items())
                fault = Fault(faults.REPEATED_HEADER) if header_again else Fault(found, field, names[field])
                self._reading.invalid(fault, cells.row)
                return None
            request["timestamp_ns" if field == "time" else field] = found
        for one, place in self._only:
            if count_of_text(cells.fields[place].strip(), least=0) != one.value:
                self._reading.faults.add_all(Fault(one.otherwise, column=one.column), cells.lines, [cells.row])
                return None
        return request

    def _value(self, field: str, text: str, row: int) -> int | str | Kind | None:
        if field == "time":
            return self._time(text, row)
        if field.endswith("tokens"):
            return count_of_text(text, least=0 if field == "cached_prompt_tokens" else 1)
        return text or None

    def _time(self, text: str, row: int) -> int | Kind:
        if self._columns.unit_ns is not None:
            return parse_number(text, self._columns.unit_ns)
        found = parse_timestamp(text)
        if isinstance(found, Kind):
            return found
        self.note_clock(found.has_offset, [row])
        return found.ns


def _fields(line: str) -> list[str] | Kind:
    """The fields of one row; what is wrong with its quotes, if anything."""
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        if "unexpected end" in str(error):
            return faults.OPEN_QUOTE
        return faults.LONE_CR if "new-line" in str(error) else faults.STRAY_QUOTE


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """Lift the csv module's limit of 128 KiB per field: a column that is not read may hold a long text."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _has_stray_bytes(text: str) -> bool:
    """Whether text holds bytes that were not UTF-8, which the decoder turned into surrogates."""
    return not text.isascii() and any("\udc80" <= letter <= "\udcff" for letter in text)
