"""Request logs as Parquet: columns found by name and read a slice at a time, all others left unread."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl

from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.frames.requests import GROUP_FIELDS, MAX_TOKENS
from pipelines.traces import faults
from pipelines.traces.csv_format import CsvColumns
from pipelines.traces.faults import Fault, Kind
from pipelines.traces.header import describe_header
from pipelines.traces.jsonl import note_clock
from pipelines.traces.log_file import LogFile
from pipelines.traces.timestamps import (
    LATEST_NS,
    UNITS_NS,
    QuickTimes,
    parse_number,
    parse_timestamp,
    quick_datetimes,
    quick_numbers,
)
from pipelines.traces.token_counts import quick_counts, token_count
from pipelines.traces.trace_format import Reading

ROWS_AT_ONCE = 1 << 19

_STDERR = 2
_TIME = "time"
_SPACE_AROUND = r"^[\s\x1c-\x1f]+|[\s\x1c-\x1f]+$"
_Schema = dict[str, pl.DataType]


def read_parquet(log: LogFile, reading: Reading, columns: CsvColumns) -> Iterator[pl.DataFrame]:
    """Frames of the requests of a Parquet log with ``columns``; the rest is noted in ``reading``, rows counted from 1.

    Raises DeclarationProblems where the file is damaged, where a column is missing from it, or is of a type that no time, token count
    or name can be read from.
    """
    with _damage_told(log):
        yield from _read(log, reading, columns)


def parquet_names(log: LogFile) -> list[str]:
    """The names of the columns of a Parquet file; DeclarationProblems if it is damaged."""
    with _damage_told(log):
        return list(_schema(log))


@contextmanager
def _damage_told(log: LogFile) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        hint = "was the file copied to its end? Parquet is compressed within: it is read without gzip or zstd around it"
        raise log.refused("a Parquet file that is cut off or damaged; expected a whole one", hint) from None


def _table(log: LogFile) -> pl.LazyFrame:
    return pl.scan_parquet(log.path, glob=False, hive_partitioning=False)


def _read(log: LogFile, reading: Reading, columns: CsvColumns) -> Iterator[pl.DataFrame]:
    table = _table(log)
    schema = _schema(log)
    problems = list(_column_problems(log, schema, columns))
    if problems:
        raise DeclarationProblems(problems)
    by_field = {field: schema[column] for field, column in columns.by_field.items()}
    places = {column: place for place, column in enumerate(schema)}
    fields = table.select(_plain(field, places[column], by_field[field]) for field, column in columns.by_field.items())
    reader = _Reader(columns, by_field.get(_TIME), reading)
    start = 0
    while not (rows := _slice(fields, start)).is_empty():
        yield reader.read(rows, start + 1)
        start += rows.height


def _schema(log: LogFile) -> _Schema:
    with _panics_unsaid():
        return dict(_table(log).collect_schema())


def _slice(table: pl.LazyFrame, start: int) -> pl.DataFrame:
    with _panics_unsaid():
        return table.slice(start, ROWS_AT_ONCE).collect()


@contextmanager
def _panics_unsaid() -> Iterator[None]:
    """Without what polars writes on standard error where a damaged file makes it panic: it raises too, and that is told in our words."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), _STDERR)
    try:
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)


def _column_problems(log: LogFile, schema: _Schema, columns: CsvColumns) -> Iterator[Problem]:
    for field, column in columns.by_field.items():
        if column not in schema:
            message: str | None = f"no such column; found {describe_header(list(schema))}"
        else:
            message = _wrong_type(field, schema[column], columns)
        if message:
            yield Problem(log.shown_as, 1, 1, column, message)


def _wrong_type(field: str, dtype: pl.DataType, columns: CsvColumns) -> str | None:
    """What a column holds that no row of it can be read from, and what was expected; None where rows can be."""
    is_text = isinstance(dtype, pl.String | pl.Categorical | pl.Enum | pl.Null)
    fits, expected = is_text or dtype.is_numeric(), "whole numbers of tokens"
    if field in GROUP_FIELDS:
        fits, expected = fits or dtype == pl.Boolean, "names"
    elif field == _TIME and columns.unit_ns is not None:
        expected = f"numbers of {columns.unit}, or unit: datetime for dates with times"
    elif field == _TIME:
        fits = is_text or isinstance(dtype, pl.Datetime)
        expected = "dates with times, or unit: s, ms, us or ns for numbers"
    return None if fits else f"a column of the type {str(dtype.base_type()).lower()}; expected {expected}"


def _plain(field: str, place: int, dtype: pl.DataType) -> pl.Expr:
    """A column as its field: whole numbers stay numbers, all else becomes the text that a log in CSV would hold.

    It is taken by its ``place``, since polars takes some names for patterns. The text of a floating-point number has its shortest
    digits, so that 0.1 s are 100 ms.
    """
    found = pl.nth(place)
    if isinstance(dtype, pl.Datetime):
        return found.to_physical().alias(field)
    if field in GROUP_FIELDS:
        text = found.cast(pl.String).str.replace_all(_SPACE_AROUND, "")
        return pl.when(text != "").then(text).alias(field)
    counts = field != _TIME and dtype.is_integer() and dtype not in (pl.UInt64, pl.Int128, pl.UInt128)
    return found.cast(pl.Int64 if counts else pl.String).alias(field)


@dataclass(frozen=True)
class _Reader:
    """Reads slices: what is plain all at once, every other row as the readers of text do, which find what is wrong with it."""

    columns: CsvColumns
    time: pl.DataType | None
    reading: Reading

    def read(self, rows: pl.DataFrame, first_row: int) -> pl.DataFrame:
        """The requests of a slice."""
        rows = rows.with_row_index("row", first_row).with_columns(pl.col("row").cast(pl.Int64))
        times = self._times(rows)
        right = pl.lit(True) if times is None else times.fits
        found = {} if times is None else {"timestamp_ns": times.ns}
        for field in self.columns.by_field:
            if not field.endswith("tokens"):
                continue
            found[field] = quick_counts(pl.col(field)) if rows.schema[field] == pl.String else pl.col(field)
            right = right & found[field].is_between(_least(field), MAX_TOKENS)
        frame = rows.with_columns(right.fill_null(value=False).alias("right"), **found)
        kept = frame.filter("right").select(list(self.columns.schema))
        if times is not None and times.has_offset is not None and kept.height:
            clock = self.reading.rows_with_offset if times.has_offset else self.reading.rows_naive
            first = kept["row"].head(faults.FIRST_ROWS).to_list()
            clock.add_all(Fault(faults.NOT_A_TIME, _TIME, self._arrival), kept.height, first)
        if kept.height == rows.height:
            return kept
        others = [self._row(row) for row in rows.filter(~frame["right"]).iter_rows(named=True)]
        again = [row for row in others if row is not None]
        schema = self.columns.schema
        added = pl.DataFrame({name: [row[name] for row in again] for name in schema}, schema=schema)
        return pl.concat([kept, added]).sort("row")

    @property
    def _arrival(self) -> str:
        return self.columns.arrival or ""

    def _times(self, rows: pl.DataFrame) -> QuickTimes | None:
        """How the times of a slice are written; None of a log without arrivals."""
        if self.time is None:
            return None
        if isinstance(self.time, pl.Datetime):
            unit_ns = UNITS_NS[self.time.time_unit]
            fits = (pl.col(_TIME) >= 0) & (pl.col(_TIME) < LATEST_NS // unit_ns)
            return QuickTimes(pl.col(_TIME) * unit_ns, fits, self.time.time_zone is not None)
        if self.columns.unit_ns is not None:
            return quick_numbers(_TIME, self.columns.unit_ns)
        return quick_datetimes(rows[_TIME]) or QuickTimes(pl.lit(None, pl.Int64), pl.lit(False), None)

    def _row(self, row: dict[str, int | str | None]) -> dict[str, int | str | None] | None:
        number = row["row"]
        assert isinstance(number, int)
        request: dict[str, int | str | None] = {"row": number}
        for field, column in self.columns.by_field.items():
            found = self._value(field, row[field], number)
            if isinstance(found, Kind):
                self.reading.invalid(Fault(found, field, column), number)
                return None
            request["timestamp_ns" if field == _TIME else field] = found
        return request

    def _value(self, field: str, value: int | str | None, row: int) -> int | str | Kind | None:
        if field in GROUP_FIELDS:
            return value
        if field != _TIME:
            return token_count(value, least=_least(field))
        if value is None:
            return faults.MISSING_TIME
        return self._time(value, row)

    def _time(self, value: int | str, row: int) -> int | Kind:
        if isinstance(self.time, pl.Datetime):
            unit_ns = UNITS_NS[self.time.time_unit]
            ns = int(value) * unit_ns
            if not 0 <= ns < LATEST_NS:
                return faults.TIME_OUT_OF_RANGE
            note_clock(self.reading, self.time.time_zone is not None, self._arrival, row)
            return ns
        if self.columns.unit_ns is not None:
            return parse_number(value, self.columns.unit_ns)
        found = parse_timestamp(str(value).strip())
        if isinstance(found, Kind):
            return found
        note_clock(self.reading, found.has_offset, self._arrival, row)
        return found.ns


def _least(field: str) -> int:
    return 0 if field == "cached_prompt_tokens" else 1
