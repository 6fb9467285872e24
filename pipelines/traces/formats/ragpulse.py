"""The RAGPulse trace: JSON lines with a timestamp in seconds, as text, and the ids of what each prompt was put together from.

The ids are those of whole texts (system prompt, retrieved passages, history, web search, question) of any length, which other files of
the data set state. An id says that a text is the same, not that what comes before it is, and texts of different lengths are no blocks
of one size: a prefix cache cannot be simulated on them. They are left unread.
"""

from collections.abc import Iterator

import polars as pl

from pipelines.traces.jsonl import JsonlFormat, Record, Row, time_of, tokens_of
from pipelines.traces.log_file import LogFile
from pipelines.traces.timestamps import UNITS_NS
from pipelines.traces.trace_format import Reading

_FIELDS = {"timestamp", "input_length", "output_length", "hash_ids"}

NO_BLOCKS = (
    "the hash_ids of this log name the texts that a prompt was put together from, whose lengths it does not state, "
    "not blocks of one size after equal prefixes: they are not read, and no prefix cache can be simulated on them"
)


class _RagPulse(JsonlFormat):
    """A format that says what it leaves unread."""

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The requests of a log, a block at a time."""
        reading.notes.append(NO_BLOCKS)
        return super().read(log, reading)


def _is_head(record: Record) -> bool:
    return set(record) >= _FIELDS and isinstance(record["hash_ids"], dict)


def _row(record: Record) -> Row:
    return {
        "timestamp_ns": time_of(record, "timestamp", UNITS_NS["s"]),
        "prompt_tokens": tokens_of(record, "input_length", "prompt_tokens"),
        "output_tokens": tokens_of(record, "output_length", "output_tokens"),
    }


RAGPULSE = _RagPulse(
    name="ragpulse",
    expects="JSONL with timestamp (s), input_length, output_length and an object of hash_ids",
    is_head=_is_head,
    row=_row,
)
