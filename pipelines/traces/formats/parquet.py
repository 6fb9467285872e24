"""Request logs as Parquet: columns found by name and read a slice at a time, all others left unread."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    QuickTimes,
    parse_number,
    parse_timestamp,
    quick_datetimes,
    quick_numbers,
)
from pipelines.traces.token_counts import token_count
from pipelines.traces.trace_format import Reading

ROWS_AT_ONCE = 1 << 19

_TIME = "time"
_UNITS_NS = {"ms": 10**6, "us": 10**3, "ns": 1}


def read_parquet(log: LogFile, reading: Reading, columns: CsvColumns) -> Iterator[pl.DataFrame]:
    """Frames of the requests of a Parquet log with ``columns``; the rest is noted in ``reading``, rows counted from 1.

    Raises DeclarationProblems where the file is damaged, where a column is missing from it, or holds what cannot be told as a time, a
    token count, or a name.
    """
    schema = _schema(log)
    problems = list(_column_problems(log, schema, columns))
    if problems:
        raise DeclarationProblems(problems)
    named = [pl.col(column).alias(field) for field, column in columns.by_field.items()]
    # one column of the file cannot stand for two fields, so that aliases of fields never meet
    table = pl.scan_parquet(log.path, glob=False).select(named)
    reader = _Reader(columns, reading)
    start = 0
    while True:
        rows = _collected(log, table.slice(start, ROWS_AT_ONCE))
        if rows.is_empty():
            break
        yield reader.read(rows, start + 1)
        start += rows.height


def _schema(log: LogFile) -> dict[str, pl.DataType]:
    try:
        return dict(pl.scan_parquet(log.path, glob=False).collect_schema())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise _damaged(log) from None


def _collected(log: LogFile, rows: pl.LazyFrame) -> pl.DataFrame:
    try:
        return rows.collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise _damaged(log) from None


def _damaged(log: LogFile) -> DeclarationProblems:
    hint = "was the file copied to its end? Parquet is compressed within, so it is read without gzip or zstd around it"
    return log.refused("a Parquet file that is cut off or damaged; expected a whole one", hint)


def _column_problems(log: LogFile, schema: dict[str, pl.DataType], columns: CsvColumns) -> Iterator[Problem]:
    for field, column in columns.by_field.items():
        if column not in schema:
            message = f"no such column; found {describe_header(list(schema))}"
        elif wrong := _wrong_type(field, schema[column], columns):
            message = wrong
        else:
            continue
        yield Problem(log.shown_as, 1, 1, column, message)


def _wrong_type(field: str, dtype: pl.DataType, columns: CsvColumns) -> str | None:
    """What a column holds that no row of it can be read from, and what was expected; None where rows can be."""
    is_text = isinstance(dtype, pl.String | pl.Categorical | pl.Enum | pl.Null)
    is_number = dtype.is_numeric()
    if field in GROUP_FIELDS:
        fits, expected = is_text or is_number or dtype == pl.Boolean, "names"
    elif field != _TIME:
        fits, expected = is_text or is_number, "whole numbers of tokens"
    elif columns.unit_ns is not None:
        fits, expected = is_text or is_number, f"numbers of {columns.unit}; is the unit datetime?"
    else:
        fits = is_text or isinstance(dtype, pl.Datetime)
        expected = "dates with times; is the unit one of s, ms, us, ns?"
    return None if fits else f"a column of the type {_said(dtype)}; expected {expected}"


def _said(dtype: pl.DataType) -> str:
    return str(dtype.base_type()).lower()


@dataclass(frozen=True)
class _Reader:
    """Reads slices: what is plain all at once, every other row as the readers of text do, which find what is wrong with it."""

    columns: CsvColumns
    reading: Reading

    def read(self, rows: pl.DataFrame, first_row: int) -> pl.DataFrame:
        """The requests of a slice."""
        times = self._times(rows)
        right = pl.lit(True) if times is None else times.fits
        found = {} if times is None else {"timestamp_ns": times.ns}
        for field in self.columns.by_field:
            if field == _TIME:
                continue
            if not field.endswith("tokens"):
                found[field] = _name(rows.schema[field], field)
                continue
            found[field] = _count(rows.schema[field], field)
            right = right & found[field].is_between(_least(field), MAX_TOKENS)
        numbers = pl.int_range(first_row, first_row + rows.height, dtype=pl.Int64)
        frame = rows.select(row=numbers, right=right.fill_null(value=False), **found)
        kept = frame.filter("right").select(pl.col(name).cast(dtype) for name, dtype in self.columns.schema.items())
        if times is not None and times.has_offset is not None and kept.height:
            first = kept["row"].head(faults.FIRST_ROWS).to_list()
            note_clock(self.reading, times.has_offset, self._arrival, first[0], kept.height)
        if kept.height == rows.height:
            return kept
        groups = [field for field in self.columns.by_field if field in GROUP_FIELDS]
        others = rows.with_columns(frame["right"], frame["row"], *(frame[name] for name in groups)).filter(~pl.col("right"))
        again = [row for row in map(self._row, others.iter_rows(named=True)) if row is not None]
        schema = self.columns.schema
        if not again:
            return kept
        added = pl.DataFrame({name: [row[name] for row in again] for name in schema}, schema=schema)
        return pl.concat([kept, added]).sort("row")

    @property
    def _arrival(self) -> str:
        return self.columns.arrival or ""

    def _times(self, rows: pl.DataFrame) -> QuickTimes | None:
        if self.columns.arrival is None:
            return None
        dtype = rows.schema[_TIME]
        if isinstance(dtype, pl.Datetime):
            return _instants(dtype)
        if self.columns.unit_ns is not None:
            # the text of a number holds its shortest digits, which is what a log in CSV or JSON would
            return quick_numbers(pl.col(_TIME).cast(pl.String), self.columns.unit_ns)
        texts = rows[_TIME].drop_nulls().cast(pl.String)
        sampled = quick_datetimes(_TIME, texts[0]) if len(texts) else None
        return sampled or QuickTimes(pl.lit(None, pl.Int64), pl.lit(False), None)

    def _row(self, row: dict[str, Any]) -> dict[str, Any] | None:
        request = {"row": row["row"]}
        for field, column in self.columns.by_field.items():
            found = self._value(field, row[field], row["row"])
            if isinstance(found, Kind):
                self.reading.invalid(Fault(found, field, column), row["row"])
                return None
            request["timestamp_ns" if field == _TIME else field] = found
        return request

    def _value(self, field: str, value: Any, row: int) -> int | str | Kind | None:
        if field in GROUP_FIELDS:
            return value if value is None else str(value)
        if field != _TIME:
            return token_count(_plain(value), least=_least(field))
        if self.columns.unit_ns is not None:
            return parse_number(_plain(value), self.columns.unit_ns)
        if value is None:
            return faults.MISSING_TIME
        if not isinstance(value, str):
            return faults.TIME_OUT_OF_RANGE
        found = parse_timestamp(value.strip())
        if isinstance(found, Kind):
            return found
        note_clock(self.reading, found.has_offset, self._arrival, row)
        return found.ns
