"""A request log, read: its rows in order of arrival, what was invalid in it, and what is doubtful about it."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.declarations.typed import OnInvalid, TraceSource
from pipelines.traces import faults
from pipelines.traces.csv_format import CsvFormat
from pipelines.traces.doubts import doubts, tie_doubt
from pipelines.traces.faults import Fault, RowFaults
from pipelines.traces.header import describe_header, header_hint
from pipelines.traces.log_file import LogFile
from pipelines.traces.registry import FORMATS
from pipelines.traces.trace_format import Reading, ReadOptions, TraceFormat

_SETTLED_AFTER_NS = 2 * 10**9
"""A file that changed more recently may change again without a new modification time, so it is not remembered."""

_WORD = re.compile(r"[A-Za-z_.]+")

Progress = Callable[[int], None]
"""Hears how many rows were read so far."""


@dataclass(frozen=True)
class Log:
    """A log that was read whole.

    ``rows`` has ``timestamp_ns`` (from 0 at the first arrival, sorted, ties in the order of the file; absent if the log has no arrivals),
    ``prompt_tokens``, ``output_tokens``, and what else the format gives of cached tokens, block hashes and groups.
    """

    rows: pl.DataFrame
    format: str
    block_tokens: int | None
    invalid: RowFaults
    steps: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    ties: str | None = None
    """What is doubtful about requests that share their timestamp: said unless they are spread, or arrivals are declared."""

    @property
    def is_timed(self) -> bool:
        """Whether the log says when its requests arrived."""
        return "timestamp_ns" in self.rows.columns

    @property
    def rows_read(self) -> int:
        """Rows of the log: those that are kept and those that are invalid."""
        return self.rows.height + self.invalid.total


@dataclass(frozen=True)
class LogOptions:
    """How a log is to be read: its format (None: as its first record shows), what to do with invalid rows, the model's context."""

    format: str | None = None
    on_invalid: OnInvalid = "reject"
    context_tokens: int | None = None
    reading: ReadOptions = field(default_factory=ReadOptions)

    @classmethod
    def of(cls, trace: TraceSource) -> "LogOptions":
        """The options that a cohort declares."""
        reading = ReadOptions(trace.columns, trace.turn_time_ns, trace.turn_time_per_output_token_ns, trace.lengths)
        return cls(trace.format, trace.on_invalid, trace.context_tokens, reading)


@dataclass(frozen=True)
class _Version:
    """One state of a log, and of the data set of lengths beside it, read in one way: path, size and time of change of each file."""

    files: tuple[tuple[Path, int, int], ...]
    options: LogOptions

    @classmethod
    def of(cls, options: LogOptions, *paths: Path) -> "_Version":
        """The state of files as they are now; OSError if one is not there."""
        states = [(path.resolve(), path.stat()) for path in paths]
        return cls(tuple((path, state.st_size, state.st_mtime_ns) for path, state in states), options)

    @property
    def is_settled(self) -> bool:
        """Whether no file changed so lately that it may change again without a new time of change."""
        return time.time_ns() - max(mtime_ns for _, _, mtime_ns in self.files) > _SETTLED_AFTER_NS


_last: dict[_Version, Log] = {}


def read_log(path: Path, options: LogOptions, *, shown_as: str | None = None, progress: Progress | None = None) -> Log:
    """Read a request log of any known format; ``progress`` hears now and then how many rows were read so far.

    Raises DeclarationProblems, under the name ``shown_as`` (``path`` if None), for a file that cannot be read as a whole, and with
    ``on_invalid: reject`` for every kind of fault in its rows.
    The log that was read last is remembered, since the command reads it once to check it and once to evaluate it.
    """
    file = LogFile(path, shown_as or str(path))
    lengths = options.reading.lengths
    try:
        version = _Version.of(options, path, *([lengths] if lengths is not None and lengths.exists() else []))
    except OSError as error:
        raise file.refused(f"cannot be read: {(error.strerror or 'unreadable').lower()}") from None
    if version not in _last:
        log = read_as(file, chosen_format(file, options.format), options, progress)
        _last.clear()
        if not version.is_settled:
            return log
        _last[version] = log
    return _last[version]


def chosen_format(file: LogFile, name: str | None) -> TraceFormat:
    """The format called ``name``, or the one that the beginning of the file shows."""
    if name is not None:
        if name not in FORMATS:
            raise file.refused(f"unknown trace format; known formats: {_known()}")
        return FORMATS[name]
    for one in FORMATS.values():
        if one.detect(file.head):
            return one
    is_json = file.head.line.startswith(("{", "["))
    hint = (None if is_json else header_hint(file.head.line, list(file.head.names))) or _nearest_hint(file)
    raise file.refused(f"the format is not recognised from {_beginning(file)}; known formats: {_known()}", hint)


def _known() -> str:
    return f"{', '.join(FORMATS)}: any other, with its columns named"


def _beginning(file: LogFile) -> str:
    if file.head.is_parquet:
        return "the columns of the Parquet file"
    if file.head.is_document:
        return "the JSON document"
    if file.head.record is not None or file.head.line.startswith("["):
        fields = list(file.head.record or ())
        return f"the first record, which has {describe_header(fields).replace('columns', 'fields').replace('column', 'field')}"
    return f"the first line, which has {describe_header(list(file.head.names))}"


def _nearest_hint(file: LogFile) -> str | None:
    """The format that comes nearest, by the columns or fields that it shares with the file."""
    if file.head.record is not None:
        return _nearest_record_hint(set(file.head.record))
    if file.head.line.startswith("["):
        return "a JSON array? expected one object a line: jq -c '.[]' writes it so"
    found = {name.casefold() for name in file.head.names}
    lacking = [
        (one, [name for name in one.required if name.casefold() not in found])
        for one in FORMATS.values()
        if isinstance(one, CsvFormat)
    ]
    nearest, missing = min(lacking, key=lambda pair: len(pair[1]) / len(pair[0].required))
    if 2 * len(missing) > len(nearest.required):
        return None
    wanted = [name for name in nearest.required if name not in file.head.names]
    return f"{nearest.name} comes nearest; it has {', '.join(wanted)} beside those, in this spelling"


def _nearest_record_hint(fields: set[str]) -> str | None:
    """The format of records whose description names most of ``fields``, two at least."""
    named = {
        one.name: len(fields & set(_WORD.findall(one.expects))) for one in FORMATS.values() if "JSON" in one.expects
    }
    nearest = max(named, key=lambda name: named[name])
    return f"{nearest} comes nearest: {FORMATS[nearest].expects}" if named[nearest] >= 2 else None


def read_as(file: LogFile, chosen: TraceFormat, options: LogOptions, progress: Progress | None = None) -> Log:
    """Read a log as one of the format ``chosen``: what :func:`read_log` does, without its memory."""
    _ = file.head  # an empty file is refused whatever its format
    reading = Reading(options.reading)
    parts: list[pl.DataFrame] = []
    kept = 0
    for part in _checked(chosen.read(file, reading), options, reading):
        parts.append(part)
        kept += part.height
        if progress is not None:
            progress(kept + reading.faults.total)
    problems = _clock_problems(file, reading)
    if options.on_invalid == "reject" or not kept:
        problems += reading.faults.problems(file.shown_as, with_hints=options.on_invalid == "reject")
    if not kept and (options.on_invalid == "drop" or not problems):
        invalid = f", all {reading.faults.total} rows are invalid" if reading.faults else ""
        message = f"no requests{invalid}; expected a request log with rows"
        problems.append(Problem(file.shown_as, 1, 1, "", message, None))
    if problems:
        raise DeclarationProblems(problems)
    rows, unsorted = _in_order(pl.concat(parts).rechunk())
    block_tokens = chosen.block_tokens
    if block_tokens and not rows["hash_ids"].list.len().max():  # such a log may leave its hashes out
        rows, block_tokens = rows.drop("hash_ids"), None
    rows = rows.drop(name for name in rows.columns if rows[name].null_count() == rows.height)  # what no row says
    warnings = (*reading.notes, *doubts(rows, unsorted, block_tokens))
    ties = tie_doubt(rows["timestamp_ns"]) if "timestamp_ns" in rows.columns else None
    return Log(rows, chosen.name, block_tokens, reading.faults, tuple(reading.steps), warnings, ties)


def _checked(parts: Iterator[pl.DataFrame], options: LogOptions, reading: Reading) -> Iterator[pl.DataFrame]:
    """The frames of a format without the rows that no cohort can hold, token counts in 32 bits."""
    limits = [(Fault(faults.ABOVE_CONTEXT), _above(options.context_tokens))] if options.context_tokens else []
    for part in parts:
        tests = (
            [*limits, (Fault(faults.CACHED_WHOLE, "cached_prompt_tokens"), _cached_above())]
            if "cached_prompt_tokens" in part
            else limits
        )
        for fault, wrong in tests:
            rows = part.filter(wrong)["row"]
            if not rows.is_empty():
                reading.faults.add_all(fault, rows.len(), rows.head(faults.FIRST_ROWS).to_list())
                part = part.filter(~wrong.fill_null(value=False))  # null: the row does not say
        counts = pl.col("^.*tokens$").cast(pl.Int32)
        yield part.drop("row").with_columns(counts)


def _above(context_tokens: int) -> pl.Expr:
    return pl.col("prompt_tokens") + pl.col("output_tokens") > context_tokens


def _cached_above() -> pl.Expr:
    return pl.col("cached_prompt_tokens") > pl.col("prompt_tokens")


def _clock_problems(file: LogFile, reading: Reading) -> list[Problem]:
    """Timestamps with a UTC offset and without one cannot be put in order."""
    if not (reading.rows_naive and reading.rows_with_offset):
        return []
    (fault, with_offset), (_, naive) = _first(reading.rows_with_offset), _first(reading.rows_naive)
    counted = [
        faults.count_and_rows(rows.total, first)
        for rows, first in ((reading.rows_with_offset, with_offset), (reading.rows_naive, naive))
    ]
    message = (
        f"timestamps with a UTC offset {counted[0]} and without one {counted[1]}; expected all or none to state it"
    )
    return [Problem(file.shown_as, max(with_offset[0], naive[0]), 1, fault.column, message)]


def _first(rows: RowFaults) -> tuple[Fault, list[int]]:
    return next(iter(rows.rows.items()))


def _in_order(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Rows sorted by time from the first arrival on, and how many came before the row above them."""
    if "timestamp_ns" not in rows.columns:
        return rows, 0
    rows = rows.with_columns(pl.col("timestamp_ns") - pl.col("timestamp_ns").min())
    unsorted = int((rows["timestamp_ns"].diff() < 0).sum())
    return (rows.sort("timestamp_ns", maintain_order=True) if unsorted else rows), unsorted
