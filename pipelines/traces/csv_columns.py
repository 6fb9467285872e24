"""Request logs as CSV: three columns found by name, all others left unread.

A quick reader accepts the files about which polars leaves no doubt. Every other file goes to the careful reader, which reads row by row,
accepts what RFC 4180 allows and reports what it does not.
"""

import csv
from dataclasses import dataclass
from io import BytesIO

import polars as pl

from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.frames.requests import MAX_TOKENS
from pipelines.traces.csv_rows import read_rows
from pipelines.traces.timestamps import parse_column
from pipelines.traces.trace_format import RAW_SCHEMA, describe_header, first_line


@dataclass(frozen=True)
class CsvColumns:
    """The names of the three columns that are read."""

    timestamp: str
    prompt_tokens: str
    output_tokens: str

    @property
    def names(self) -> tuple[str, str, str]:
        """In the order of the raw frame."""
        return (self.timestamp, self.prompt_tokens, self.output_tokens)

    def detect(self, header: str) -> bool:
        """Whether a first line names all three columns."""
        return set(self.names) <= set(header_names(header))

    def read(self, log: bytes, shown_as: str) -> pl.DataFrame:
        """The raw frame of a file; DeclarationProblems if any row of it cannot be read."""
        header = header_names(first_line(log))
        problems = self._header_problems(header, shown_as)
        if problems:
            raise DeclarationProblems(problems)
        frame = self._quick(log, len(header))
        return read_rows(log, self.names, shown_as) if frame is None else frame

    def _header_problems(self, header: list[str], shown_as: str) -> list[Problem]:
        found = describe_header(header)
        return [
            Problem(shown_as, 1, 1, name, f"{'more than one' if name in header else 'no'} such column; found {found}")
            for name in self.names
            if header.count(name) != 1
        ]

    def _quick(self, log: bytes, width: int) -> pl.DataFrame | None:
        """The raw frame of a file without quotes whose rows are all plain and right; None if there is any doubt."""
        text = _plain(log, width)
        if text is None:
            return None
        timestamp, prompt, output = self.names
        types = {timestamp: pl.String, prompt: pl.Int64, output: pl.Int64}
        try:
            table = pl.read_csv(BytesIO(text), columns=list(self.names), schema_overrides=types).select(self.names)
        except pl.exceptions.PolarsError:
            return None
        in_range = pl.col(prompt, output).is_between(1, MAX_TOKENS).fill_null(value=False).all()
        rows = text.count(b"\n") - text.endswith(b"\n")
        if table.height != rows or rows == 0 or not all(table.select(in_range).row(0)):
            return None
        times = parse_column(table[timestamp])
        return None if times is None else pl.DataFrame([times, table[prompt], table[output]], schema=RAW_SCHEMA)


def _plain(log: bytes, width: int) -> bytes | None:
    """A file without blank lines at its end, if it is UTF-8, has no quotes and ``width`` fields on every line; else None.

    Polars fills a short row with nulls and ignores the end of a long one where it does not read all columns; hence the count.
    """
    if b'"' in log or log.count(b"\r") != log.count(b"\r\n"):
        return None
    try:
        log.decode()
    except UnicodeDecodeError:
        return None
    text = log.rstrip(b"\r\n") if log.endswith((b"\n\n", b"\n\r\n")) else log
    return text if {line.count(b",") for line in BytesIO(text)} == {width - 1} else None


def header_names(line: str) -> list[str]:
    """The column names of a header line, without the space around them."""
    return [name.strip() for name in next(csv.reader([line]), [])]
