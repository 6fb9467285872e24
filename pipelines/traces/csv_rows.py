"""The careful CSV reader: row by row, every fault counted with its line number, no cell text kept."""

import csv
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO, TextIOWrapper

import polars as pl

from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.frames.requests import MAX_TOKENS
from pipelines.traces import faults
from pipelines.traces.faults import Kind, RowFaults
from pipelines.traces.timestamps import Instant, parse_timestamp
from pipelines.traces.trace_format import RAW_SCHEMA

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_COUNT = len(str(MAX_TOKENS))
_LONGEST_SPAN_NS = 2**63 - 1


def read_rows(log: bytes, names: tuple[str, str, str], shown_as: str) -> pl.DataFrame:
    """The raw frame of a CSV file with the columns ``names``; DeclarationProblems if any row is at fault."""
    rows = _Rows(names)
    rows.read(log)
    problems = rows.faults.problems(shown_as) + rows.clock.problems(names[0], shown_as)
    if problems:
        raise DeclarationProblems(problems)
    return pl.DataFrame([rows.clock.since_first(), *rows.tokens], schema=RAW_SCHEMA)


@dataclass
class _Clock:
    """The timestamps of a log, and whether they can be compared with each other."""

    times: list[int] = field(default_factory=list)
    naive: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)

    def add(self, instant: Instant, row: int) -> None:
        self.times.append(instant.ns)
        (self.offset if instant.has_offset else self.naive).append(row)

    def since_first(self) -> list[int]:
        first = min(self.times, default=0)
        return [time - first for time in self.times]

    def problems(self, column: str, shown_as: str) -> list[Problem]:
        if self.naive and self.offset:
            with_offset = faults.count_and_rows(len(self.offset), self.offset[:3])
            without = faults.count_and_rows(len(self.naive), self.naive[:3])
            message = f"timestamps with a UTC offset {with_offset} and without one {without}; expected all or none to state it"
            return [Problem(shown_as, max(self.naive[0], self.offset[0]), 1, column, message)]
        if self.times and max(self.times) - min(self.times) > _LONGEST_SPAN_NS:
            return [Problem(shown_as, 2, 1, column, "timestamps that lie more than 292 years apart; expected one log")]
        return []


class _Rows:
    """Reads one file into columns and faults."""

    def __init__(self, names: tuple[str, str, str]) -> None:
        self.names = names
        self.faults = RowFaults()
        self.clock = _Clock()
        self.tokens: tuple[list[int], list[int]] = ([], [])

    def read(self, log: bytes) -> None:
        last_line = 0 if log.endswith((b"\n", b"\r")) else log.count(b"\n") + 1
        lines = _lines(log)
        _, header = next(lines)
        if isinstance(header, Kind) or _has_stray_bytes(header):
            self.faults.add(header if isinstance(header, Kind) else faults.NOT_UTF8, 1)
            return
        names = [name.strip() for name in header]
        places = tuple(names.index(name) for name in self.names)
        blank: list[int] = []
        for row, fields in lines:
            if not isinstance(fields, Kind) and _is_blank(fields):
                blank.append(row)
                continue
            for earlier in blank:
                self.faults.add(faults.BLANK_LINE, earlier)
            blank.clear()
            fault = fields if isinstance(fields, Kind) else _row_fault(fields, len(names), row == last_line)
            if fault is not None:
                self.faults.add(fault, row)
            elif not isinstance(fields, Kind):
                self._take(row, *(fields[place].strip() for place in places))

    def _take(self, row: int, time: str, prompt: str, output: str) -> None:
        instant = parse_timestamp(time)
        if instant is None:
            self.faults.add(faults.NOT_A_TIME if time else faults.EMPTY_TIME, row, self.names[0])
        else:
            self.clock.add(instant, row)
        for text, name, column in ((prompt, self.names[1], self.tokens[0]), (output, self.names[2], self.tokens[1])):
            count = _token_count(text)
            if isinstance(count, Kind):
                self.faults.add(count, row, name)
            else:
                column.append(count)


def _lines(log: bytes) -> Iterator[tuple[int, list[str] | Kind]]:
    """Rows of a CSV file with the line on which each begins; a fault in place of a row whose quotes are wrong."""
    text = TextIOWrapper(BytesIO(log), encoding="utf-8-sig", errors="surrogateescape", newline="")
    reader = csv.reader(text, strict=True)
    with _fields_of_any_length():
        while True:
            row = reader.line_num + 1
            try:
                yield row, next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield row, faults.OPEN_QUOTE if "unexpected end" in str(error) else faults.STRAY_QUOTE


@contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """Lift the csv module's limit of 128 KiB per field: a column that is not read may hold a long text."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _row_fault(fields: list[str], width: int, is_last_line: bool) -> Kind | None:
    if _has_stray_bytes(fields):
        return faults.NOT_UTF8
    if len(fields) < width:
        return faults.CUT_OFF if is_last_line else faults.TOO_FEW_FIELDS
    return faults.TOO_MANY_FIELDS if len(fields) > width else None


def _is_blank(fields: list[str]) -> bool:
    return not fields or (len(fields) == 1 and not fields[0].strip())


def _has_stray_bytes(fields: list[str]) -> bool:
    """Whether any text holds bytes that were not UTF-8, which the decoder turned into surrogates."""
    return any(not text.isascii() and any("\udc80" <= letter <= "\udcff" for letter in text) for text in fields)


def _token_count(text: str) -> int | Kind:
    """A token count, or what is wrong with it.

    >>> _token_count("0128"), _token_count("12.0").found
    (128, 'a token count that is not written as a whole number')
    """
    if not _WHOLE.fullmatch(text):
        if not text:
            return faults.EMPTY_TOKENS
        return faults.NOT_WHOLE if _DECIMAL.fullmatch(text) else faults.NOT_A_NUMBER
    digits = text.lstrip("+-").lstrip("0")
    if not digits:
        return faults.ZERO_TOKENS
    if text[0] == "-":
        return faults.NEGATIVE_TOKENS
    if len(digits) > _LONGEST_COUNT or int(digits) > MAX_TOKENS:
        return faults.TOO_MANY_TOKENS
    return int(digits)
