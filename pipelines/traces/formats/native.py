"""The project's own format: the requests of a log and nothing else, as CSV, JSON lines or Parquet.

Columns, in each of the three: ``arrival_s``, ``prompt_tokens``, ``output_tokens``, and where the log says so ``cached_prompt_tokens``,
``model``, ``adapter``, ``priority``. Arrivals are seconds, exact to the nanosecond however late: in CSV a decimal with up to 9 fractional
digits, in JSON lines a text that holds one (a number is read too, with the digits that it has), in Parquet Decimal(19, 9). In JSON lines
the first record decides which of the optional fields the log has. Names have no space around them, and an empty one is none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from pipelines.traces.csv_format import CsvColumns, CsvFormat
from pipelines.traces.formats.parquet import parquet_names, read_parquet
from pipelines.traces.header import describe_header
from pipelines.traces.jsonl import Record, Row, group_of, read_records, time_of, tokens_of
from pipelines.traces.log_file import Head, LogFile
from pipelines.traces.timestamps import NS_PER_S
from pipelines.traces.trace_format import Reading

ARRIVAL = "arrival_s"
OPTIONAL = ("cached_prompt_tokens", "model", "adapter", "priority")

_COLUMNS = CsvColumns(
    arrival=ARRIVAL,
    unit="s",
    prompt_tokens="prompt_tokens",
    output_tokens="output_tokens",
    cached_prompt_tokens="cached_prompt_tokens",
    model="model",
    adapter="adapter",
    priority="priority",
)
_CSV = CsvFormat(name="phaseledger", columns=_COLUMNS, optional=OPTIONAL)


@dataclass(frozen=True)
class NativeFormat:
    """What ``phaseledger trace convert`` writes; no other known format is Parquet, so every Parquet file is taken for one."""

    name: str = _CSV.name
    block_tokens: int | None = None

    @property
    def expects(self) -> str:
        """How a file of it begins."""
        return f"CSV, JSONL or Parquet with {', '.join(_CSV.required)}, optional {', '.join(OPTIONAL)}"

    def detect(self, head: Head) -> bool:
        """Whether the log has the columns of this format, or is Parquet."""
        return head.is_parquet or _CSV.detect(head) or (head.record is not None and {*_CSV.required} <= {*head.record})

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The requests of a log, a block at a time."""
        head = log.head
        if head.is_parquet:
            return _of_parquet(log, reading)
        if head.record is not None:
            return _of_records(log, reading, head.record)
        return _CSV.read(log, reading)


PHASELEDGER = NativeFormat()


def _of_parquet(log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
    names = parquet_names(log)
    if not {*_CSV.required} <= {*names}:
        message = f"a Parquet file with {describe_header(names)}; expected {', '.join(_CSV.required)}"
        raise log.refused(message, "or format: generic, and in requests.trace.columns which column holds what")
    absent: dict[str, Any] = {field: None for field in OPTIONAL if field not in names}
    return read_parquet(log, reading, replace(_COLUMNS, **absent))


def _of_records(log: LogFile, reading: Reading, first: Record) -> Iterator[pl.DataFrame]:
    present = tuple(field for field in OPTIONAL if field in first)
    later: set[str] = set()

    def row(record: Record) -> Row:
        later.update(field for field in OPTIONAL if field not in first and record.get(field) is not None)
        request: Row = {
            "timestamp_ns": time_of(record, ARRIVAL, NS_PER_S),
            "prompt_tokens": tokens_of(record, "prompt_tokens", "prompt_tokens"),
            "output_tokens": tokens_of(record, "output_tokens", "output_tokens"),
        }
        for field in present:
            if field.endswith("tokens"):
                request[field] = tokens_of(record, field, field, least=0)
            else:
                request[field] = group_of(record, field)
        return request

    yield from read_records(log, reading, row, present)
    for field in sorted(later):
        reading.notes.append(f"{field} is in some records and not in the first, which decides: it was not read")
