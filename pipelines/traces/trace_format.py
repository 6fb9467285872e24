"""What a request log format must state about itself, and what it reads a log into."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import polars as pl

from pipelines.declarations.typed import ColumnMap
from pipelines.frames.requests import GROUP_FIELDS
from pipelines.traces.faults import Fault, RowFaults
from pipelines.traces.log_file import Head, LogFile

ROW_SCHEMA: dict[str, type[pl.DataType]] = {
    "row": pl.Int64,
    "timestamp_ns": pl.Int64,
    "prompt_tokens": pl.Int64,
    "output_tokens": pl.Int64,
}
"""Columns of every frame that a format yields: line of the file, nanoseconds from any origin of the log's own, token counts.

A format of lengths without arrivals leaves ``timestamp_ns`` out.
"""

EXTRA_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "cached_prompt_tokens": pl.Int64,
    "hash_ids": pl.List(pl.UInt64),
    **dict.fromkeys(GROUP_FIELDS, pl.String),
}
"""Columns that a format may add: cached tokens as the log states them, ids of the prompt's blocks, groups (null where unknown)."""


@dataclass(frozen=True)
class ReadOptions:
    """What a cohort or a command says about how its log is to be read."""

    columns: ColumnMap | None = None
    turn_time_ns: int | None = None
    turn_time_per_output_token_ns: int | None = None
    lengths: Path | None = None
    """The data set of token counts that belongs to a log of rates (ServeGen)."""


@dataclass
class Reading:
    """What comes out of reading beside the requests: invalid rows, how the clock was written, notes to the reader."""

    options: ReadOptions = field(default_factory=ReadOptions)
    faults: RowFaults = field(default_factory=RowFaults)
    blank: RowFaults = field(default_factory=RowFaults)
    """Blank lines since the last row: the end of the file, or invalid rows if another row follows."""
    rows_naive: RowFaults = field(default_factory=RowFaults)
    rows_with_offset: RowFaults = field(default_factory=RowFaults)
    notes: list[str] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    """What the reader itself did to the log (receipt: workload.steps): name and detail."""

    def end_blank(self) -> None:
        """A row follows: blank lines before it are invalid."""
        if self.blank:
            self.faults.merge(self.blank)
            self.blank = RowFaults()

    def invalid(self, fault: Fault, row: int) -> None:
        """Note an invalid row."""
        self.faults.add(fault, row)


class TraceFormat(Protocol):
    """A known format of request logs.

    ``expects`` says in a few words how a file of it begins. ``block_tokens`` is the size of the prompt blocks whose hashes it
    carries, if it does. ``read`` yields frames of :data:`ROW_SCHEMA` with any of :data:`EXTRA_SCHEMA` (always the same ones), rows
    in the order of the file, and notes every other row as invalid: rows of the file = rows yielded + invalid rows. It raises
    DeclarationProblems for what is wrong with the file as a whole.
    """

    @property
    def name(self) -> str:
        """What a cohort calls it."""
        ...

    @property
    def expects(self) -> str:
        """How a file of it begins."""
        ...

    @property
    def block_tokens(self) -> int | None:
        """Tokens of one block of ``hash_ids``."""
        ...

    def detect(self, head: Head) -> bool:
        """Whether a log that begins like this is of this format."""
        ...

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The requests of a log, a block at a time."""
        ...
