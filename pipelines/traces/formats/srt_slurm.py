"""The session logs that srt-slurm replays: JSON lines, one turn each, of which only the first of a session has a timestamp.

``timestamp`` and ``delay`` are in milliseconds; ``delay`` runs from the end of the turn before. How long a turn takes depends on the
system that serves it, so the log cannot say when later turns arrive: they are placed by what a cohort declares of turns. A turn with a
timestamp of its own is placed there, be it the first of its session or not.

``hash_ids`` are left unread: the block size is an option of the tool that writes them, which the log does not state, and a later turn
lists only the blocks of what it adds to the conversation. Its ``input_length`` counts the same, and is read as it is written.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import polars as pl

from pipelines.traces import faults
from pipelines.traces.jsonl import InvalidRow, Record, Row, read_records, time_of, tokens_of
from pipelines.traces.log_file import Head, LogFile
from pipelines.traces.timestamps import LATEST_NS, NS_PER_S, UNITS_NS
from pipelines.traces.trace_format import Reading

_FIELDS = {"session_id", "input_length", "output_length"}
_TIMES = {"timestamp", "delay"}
_OTHERS = {"chat_id"}

NO_BLOCKS = (
    "the hash_ids of this log are not read: it does not state their block size, and those of a later turn leave out the "
    "conversation before it; no prefix cache can be simulated on them"
)
NEW_TOKENS_ONLY = (
    "input_length of a later turn counts what the turn adds, and a replay sends the conversation before it as well; "
    "prompts are as long here as the log writes them"
)


@dataclass(frozen=True)
class SrtSlurm:
    """Logs of sessions whose later turns follow the turn before them."""

    name: str = "srt-slurm"
    expects: str = "JSONL with session_id, input_length, output_length, and timestamp (ms) or delay (ms)"
    block_tokens: int | None = None

    def detect(self, head: Head) -> bool:
        """Whether the first record is a turn of a session."""
        record = head.record
        return (
            record is not None
            and set(record) >= _FIELDS
            and bool(_TIMES & set(record))
            and not _OTHERS & set(record)
            and not isinstance(record.get("hash_ids"), dict)
        )

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The turns of a log, a block at a time."""
        turns = _Turns(reading.options.turn_time_ns or 0, reading.options.turn_time_per_output_token_ns or 0)
        yield from read_records(log, reading, turns.row, ())
        if turns.have_hashes:
            reading.notes.append(NO_BLOCKS)
        if turns.later:
            reading.steps.append(("place_turns", turns.detail()))
            reading.notes.append(NEW_TOKENS_ONLY)
        if turns.later and not (turns.turn_ns or turns.token_ns):
            reading.notes.append(
                "the log does not say how long a turn took: later turns are placed as early as they can be, as if it took no "
                "time; declare requests.trace.turn_time"
            )


@dataclass
class _Turns:
    """Places turn ``k + 1`` of a session at ``arrival_k + turn_ns + output_tokens_k * token_ns + delay``; all in ns."""

    turn_ns: int
    token_ns: int
    later: int = 0
    have_hashes: bool = False
    _ends: dict[str | int, int | None] = field(default_factory=dict)
    """When the last turn of a session ended; None where it was invalid, so that it is not known."""

    def row(self, record: Record) -> Row:
        """One turn as a request; InvalidRow where it is none."""
        session = record.get("session_id")
        key = session if isinstance(session, str | int) else None
        self.have_hashes = self.have_hashes or bool(record.get("hash_ids"))
        before = None if key is None else self._ends.get(key)
        if key is not None:
            self._ends[key] = None  # until this turn turns out to be valid
        prompt = tokens_of(record, "input_length", "prompt_tokens")
        output = tokens_of(record, "output_length", "output_tokens")
        arrival = self._arrival(record, before)
        if key is not None:
            self._ends[key] = arrival + self.turn_ns + output * self.token_ns
        return {"timestamp_ns": arrival, "prompt_tokens": prompt, "output_tokens": output}

    def _arrival(self, record: Record, before: int | None) -> int:
        if record.get("timestamp") is not None or record.get("delay") is None:
            return time_of(record, "timestamp", UNITS_NS["ms"])
        delay = time_of(record, "delay", UNITS_NS["ms"])
        if before is None:
            raise InvalidRow(faults.OUT_OF_ORDER)
        if before + delay >= LATEST_NS:
            raise InvalidRow(faults.TIME_OUT_OF_RANGE, "time", "delay")
        self.later += 1
        return before + delay

    def detail(self) -> str:
        """How many turns were placed, and where."""
        count = f"{self.later:,} later {'turn' if self.later == 1 else 'turns'}"
        parts = [_seconds(self.turn_ns)] if self.turn_ns else []
        if self.token_ns:
            parts.append(f"{_seconds(self.token_ns)} per output token of that turn")
        return f"{count}, each at the arrival of the turn before it + {' + '.join([*parts, 'its delay'])}"


def _seconds(ns: int) -> str:
    return f"{ns / NS_PER_S:.12g} s"


SRT_SLURM = SrtSlurm()
