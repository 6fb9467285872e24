"""Logs of no known format, CSV, JSON lines or Parquet, whose cohort says which column or field holds what."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from pipelines.declarations.known_formats import GENERIC as NAME
from pipelines.declarations.typed import ColumnMap
from pipelines.frames.requests import GROUP_FIELDS
from pipelines.traces.csv_format import CsvColumns, read_csv
from pipelines.traces.formats.parquet import read_parquet
from pipelines.traces.jsonl import InvalidRow, Record, Row, datetime_of, group_of, numbered_records, time_of, tokens_of
from pipelines.traces.log_file import Head, LogFile
from pipelines.traces.trace_format import Reading


@dataclass(frozen=True)
class GenericFormat:
    """Reads what the cohort's ``requests.trace.columns`` name; never detected, since any file could be one."""

    name: str = NAME
    block_tokens: int | None = None

    @property
    def expects(self) -> str:
        """How a file of it begins."""
        return "CSV, JSONL or Parquet, with requests.trace.columns in the cohort"

    def detect(self, head: Head) -> bool:  # noqa: ARG002 - the protocol's
        """Never."""
        return False

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The requests of a log, a block at a time."""
        if reading.options.columns is None:
            message = f"a log of the format {NAME}, and no columns are declared; expected requests.trace.columns in the cohort"
            raise log.refused(message, "columns: {arrival: ..., unit: ..., prompt_tokens: ..., output_tokens: ...}")
        columns = _columns(reading.options.columns)
        head = log.head
        if head.is_parquet:
            return read_parquet(log, reading, columns)
        # a list or a document is no CSV either: read as lines, each is noted as none that is a JSON object
        if head.record is not None or head.is_document or head.line.startswith("["):
            return _records(log, reading, columns)
        return read_csv(log, reading, columns)


GENERIC = GenericFormat()


def _columns(declared: ColumnMap) -> CsvColumns:
    said = {column.name: getattr(declared, column.name) for column in fields(ColumnMap)}
    return CsvColumns(**{name: value for name, value in said.items() if value is not None})


def _records(log: LogFile, reading: Reading, columns: CsvColumns) -> Iterator[pl.DataFrame]:
    """Frames of the requests of JSON lines, fields found by dotted paths."""
    schema: dict[str, Any] = columns.schema
    for block in log.blocks():
        rows = []
        for number, record in numbered_records(block, reading):
            try:
                rows.append({"row": number} | _row(record, number, columns, reading))
            except InvalidRow as invalid:
                reading.invalid(invalid.fault, number)
        yield pl.DataFrame({name: [one[name] for one in rows] for name in schema}, schema=schema)


def _row(record: Record, number: int, columns: CsvColumns, reading: Reading) -> Row:
    request: Row = {}
    for field, path in columns.by_field.items():
        if field in GROUP_FIELDS:
            request[field] = group_of(record, path)
        elif field == "time":
            request["timestamp_ns"] = _time(record, path, number, columns, reading)
        else:
            request[field] = tokens_of(record, path, field, least=0 if field == "cached_prompt_tokens" else 1)
    return request


def _time(record: Record, path: str, number: int, columns: CsvColumns, reading: Reading) -> int:
    if columns.unit_ns is None:
        return datetime_of(record, path, reading, number)
    return time_of(record, path, columns.unit_ns)
