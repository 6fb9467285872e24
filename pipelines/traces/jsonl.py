"""Request logs as JSON lines: one object per request, fields read by name, everything else left behind."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import polars as pl

from pipelines.traces import faults
from pipelines.traces.faults import Fault, Kind
from pipelines.traces.log_file import Block, Head, LogFile
from pipelines.traces.timestamps import parse_number, parse_timestamp
from pipelines.traces.token_counts import token_count
from pipelines.traces.trace_format import EXTRA_SCHEMA, ROW_SCHEMA, Reading

Record = Mapping[str, Any]
Row = dict[str, Any]
"""One request: the columns of a format's frames but for ``row``."""


class InvalidRow(Exception):  # noqa: N818 - what a log holds, not an error of ours
    """Raised where a record cannot be read, with what is wrong with it."""

    def __init__(self, kind: Kind, field: str = "row", column: str = "") -> None:
        super().__init__(kind.code)
        self.fault = Fault(kind, field, column)


@dataclass(frozen=True)
class JsonlFormat:
    """A format whose records ``row`` turns into one request each; it raises :class:`InvalidRow` where it cannot.

    ``columns`` names the extra columns that ``row`` gives; ``timed`` says whether it gives ``timestamp_ns``.
    """

    name: str
    expects: str
    is_head: Callable[[Record], bool]
    row: Callable[[Record], Row]
    columns: tuple[str, ...] = ()
    timed: bool = True
    block_tokens: int | None = None

    def detect(self, head: Head) -> bool:
        """Whether the first record is one of this format."""
        return head.record is not None and self.is_head(head.record)

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The requests of a log, a block at a time."""
        return read_records(log, reading, self.row, self.columns, timed=self.timed)


def read_records(
    log: LogFile, reading: Reading, row: Callable[[Record], Row], columns: tuple[str, ...], *, timed: bool = True
) -> Iterator[pl.DataFrame]:
    """Frames of the requests that ``row`` makes of a log's records; the rest is noted in ``reading``."""
    schema = {name: dtype for name, dtype in ROW_SCHEMA.items() if timed or name != "timestamp_ns"} | {
        name: EXTRA_SCHEMA[name] for name in columns
    }
    for block in log.blocks():
        rows = []
        for number, record in numbered_records(block, reading):
            try:
                rows.append({"row": number} | row(record))
            except InvalidRow as invalid:
                reading.invalid(invalid.fault, number)
        yield pl.DataFrame({name: [one[name] for one in rows] for name in schema}, schema=schema)


def numbered_records(block: Block, reading: Reading) -> Iterator[tuple[int, Record]]:
    """The JSON objects of a block with their line numbers; lines that are none are noted, blank ones at the end of the file are not."""
    lines = block.data.split(b"\n")
    if block.data.endswith(b"\n"):
        lines.pop()
    last = block.first_row + len(lines) - 1 if block.is_last and not block.data.endswith(b"\n") else None
    for number, line in enumerate(lines, block.first_row):
        if not line.strip():
            reading.blank.add(Fault(faults.BLANK_LINE), number)
            continue
        reading.end_blank()
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            is_cut = number == last
            reading.invalid(Fault(_not_json(line, is_cut)), number)
            continue
        if isinstance(record, dict):
            yield number, record
        else:
            reading.invalid(Fault(faults.NOT_JSON), number)


def _not_json(line: bytes, is_cut: bool) -> Kind:
    try:
        line.decode()
    except UnicodeDecodeError:
        return faults.CUT_OFF_RECORD if is_cut else faults.NOT_UTF8
    return faults.CUT_OFF_RECORD if is_cut else faults.NOT_JSON


def at(record: Record, path: str) -> Any:
    """The value at a dotted path; None where there is none. A key that holds the dots itself is found first.

    >>> at({"a": {"b": 1}, "c.d": 2}, "a.b"), at({"c.d": 2}, "c.d"), at({}, "a.b")
    (1, 2, None)
    """
    if path in record:
        return record[path]
    value: Any = record
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def time_of(record: Record, path: str, unit_ns: int) -> int:
    """Nanoseconds of a number, or of a text that holds one; InvalidRow otherwise."""
    found = parse_number(at(record, path), unit_ns)
    if isinstance(found, Kind):
        raise InvalidRow(found, "time", path)
    return found


def datetime_of(record: Record, path: str, reading: Reading, row: int) -> int:
    """Nanoseconds of a date and time; InvalidRow otherwise."""
    value = at(record, path)
    found = parse_timestamp(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise InvalidRow(faults.MISSING_TIME if value is None else faults.NOT_A_TIME, "time", path)
    if isinstance(found, Kind):
        raise InvalidRow(found, "time", path)
    note_clock(reading, found.has_offset, path, row)
    return found.ns


def note_clock(reading: Reading, has_offset: bool, column: str, row: int, count: int = 1) -> None:
    """Remember that timestamps state a UTC offset, or do not: a log must not do both."""
    rows = reading.rows_with_offset if has_offset else reading.rows_naive
    rows.add_all(Fault(faults.NOT_A_TIME, "time", column), count, [row])


def tokens_of(record: Record, path: str, field: str, *, least: int = 1) -> int:
    """A token count; InvalidRow otherwise. Numbers written as text, as some exporters do, are read too."""
    found = token_count(at(record, path), least=least)
    if isinstance(found, Kind):
        raise InvalidRow(found, field, path)
    return found


def ids_of(record: Record, path: str) -> list[int]:
    """Block hashes, 64-bit each; InvalidRow unless a list of whole numbers. A negative id stands for the same 64 bits without a sign."""
    value = at(record, path)
    if value is None:
        raise InvalidRow(faults.MISSING, "hash_ids", path)
    if not isinstance(value, list) or not all(type(one) is int and -(2**63) <= one < 2**64 for one in value):
        raise InvalidRow(faults.NOT_A_LIST, "hash_ids", path)
    return [one & (2**64 - 1) for one in value]


def group_of(record: Record, path: str) -> str | None:
    """A group's name as text without the space around it, numbers and truth as JSON writes them; None where the record has none."""
    value = at(record, path)
    if value is None or isinstance(value, dict | list):
        return None
    return (value if isinstance(value, str) else orjson.dumps(value).decode()).strip() or None
