"""Mutated logs of every format through its reader, as fast as one process can: what was accepted, what refused, in what time.

Usage: fuzz_readers.py [CASES] [SEED] [FORMAT ...]. A case that is neither read nor refused is kept in a file.
tests/traces/test_fuzz.py holds fewer cases of the same samples to the same claims.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from random import Random

import orjson
import polars as pl

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from benchmarks.log_samples import CANARY, LENGTHS, SAMPLES  # noqa: E402
from pipelines.declarations.problems import DeclarationProblems  # noqa: E402
from pipelines.declarations.typed import ColumnMap  # noqa: E402
from pipelines.frames.requests import MAX_TOKENS  # noqa: E402
from pipelines.traces import log_file  # noqa: E402
from pipelines.traces.formats import servegen  # noqa: E402
from pipelines.traces.formats.aiperf_results import AIPERF_RESULTS  # noqa: E402
from pipelines.traces.formats.servegen import SERVEGEN  # noqa: E402
from pipelines.traces.formats.sglang_results import SGLANG_RESULTS  # noqa: E402
from pipelines.traces.formats.vllm_results import VLLM_RESULTS  # noqa: E402
from pipelines.traces.log import Log, LogOptions, read_as  # noqa: E402
from pipelines.traces.log_file import LogFile  # noqa: E402
from pipelines.traces.registry import FORMATS  # noqa: E402
from pipelines.traces.trace_format import ReadOptions, TraceFormat  # noqa: E402

READERS: dict[str, TraceFormat] = {
    known.name: known for known in (VLLM_RESULTS, SGLANG_RESULTS, AIPERF_RESULTS, SERVEGEN, *FORMATS.values())
}

BLOCK_BYTES, MOST_REQUESTS = 256, 20_000
PIECE_BYTES = 100
"""Small enough that a sample is read in many pieces, and blocks end anywhere."""


PAYLOADS = (
    *(
        b"NaN",
        b"Infinity",
        b"null",
        b"true",
        b"-1",
        b"0",
        b"-0.0",
        b"1.5",
        b"1e309",
        b"1e-400",
        b"2147483648",
        b"9" * 25,
        b"9" * 5000,
    ),
    *(
        b'""',
        b"[]",
        b"{}",
        b'{"a":{"b":[1,[2]]}}',
        b"[" * 2000,
        b'"',
        b"'",
        b",",
        b";",
        b":",
        b"{",
        b"}",
        b"]",
        b" ",
        b"\t",
    ),
    *(
        b"\x00",
        b"\x1c",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xe9",
        "é\u2028\ufeff".encode(),
        b"\\ud800",
        b"\x1f\x8b",
        b"PAR1",
    ),
    *(b"\r", b"\r\n", b"\n", b"\n\n", b"Gamma", b"+05:30", b"Z"),
)
"""What a log may hold where none of its readers expects it."""

_NUMBER = re.compile(rb"[0-9][0-9.eE+-]*")


@dataclass(frozen=True)
class Move:
    """One change of a log: what kind, two places as fractions of it, what is put there."""

    kind: str
    at: float
    to: float
    payload: bytes


MOVES = (
    "byte",
    "insert",
    "number",
    "cut",
    "copy",
    "truncate",
    "drop line",
    "repeat line",
    "swap lines",
    "replace field",
)


def mutated(data: bytes, move: Move) -> bytes:
    """``data`` after one change."""
    if not data:
        return move.payload
    start = int(move.at * len(data))
    end = min(len(data), start + 1 + int(move.to * 40))
    if move.kind == "byte":
        return data[:start] + bytes([int(move.to * 256)]) + data[start + 1 :]
    if move.kind == "insert":
        return data[:start] + move.payload + data[start:]
    if move.kind == "number":
        found = list(_NUMBER.finditer(data))
        if not found:
            return data
        one = found[int(move.at * len(found))]
        return data[: one.start()] + move.payload + data[one.end() :]
    if move.kind == "cut":
        return data[:start] + data[end:]
    if move.kind == "copy":
        place = int(move.to * len(data))
        return data[:place] + data[start:end] + data[place:]
    if move.kind == "truncate":
        return data[:start]
    if move.kind == "replace field":
        fields = data.split(b",")
        fields[int(move.at * len(fields))] = move.payload
        return b",".join(fields)
    return _with_lines_moved(data, move)


def _with_lines_moved(data: bytes, move: Move) -> bytes:
    lines = data.split(b"\n")
    one, other = int(move.at * len(lines)), int(move.to * len(lines))
    if move.kind == "drop line":
        del lines[one]
    elif move.kind == "repeat line":
        lines.insert(other, lines[one])
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


@dataclass(frozen=True)
class MemoryLog(LogFile):
    """A log that was never written."""

    data: bytes = b""

    def _chunks(self) -> Iterator[bytes]:
        for start in range(0, len(self.data), PIECE_BYTES):
            yield self.data[start : start + PIECE_BYTES]


def log_of(data: bytes) -> LogFile:
    """A log that holds ``data``: on disk if it is Parquet, which is not read in pieces."""
    if not data.startswith(b"PAR1"):
        return MemoryLog(Path("log"), "log", data)
    path = Path(tempfile.gettempdir()) / f"fuzz_readers_{os.getpid()}.parquet"
    path.write_bytes(data)
    return LogFile(path, "log")


def options_of(name: str, lengths: Path) -> LogOptions:
    """How a format's samples are to be read."""
    columns = ColumnMap("at", "s", "prompt", "output") if name == "generic" else None
    reading = ReadOptions(columns=columns, lengths=lengths if name == "servegen" else None)
    return LogOptions(on_invalid="drop", reading=reading)


def read(reader: TraceFormat, data: bytes, options: LogOptions) -> Log | None:
    """A log, or None where it was refused; AssertionError where what is read or said is not what it should be."""
    usual = log_file.BLOCK_BYTES, servegen.MOST_REQUESTS
    log_file.BLOCK_BYTES, servegen.MOST_REQUESTS = BLOCK_BYTES, MOST_REQUESTS
    file = log_of(data)
    is_said = CANARY.encode() in data.strip().split(b"\n")[0]  # it may then be the name of a column
    try:
        reader.detect(file.head)
        log = read_as(file, reader, options)
    except DeclarationProblems as refused:
        problems, log = refused.problems, None
    finally:
        log_file.BLOCK_BYTES, servegen.MOST_REQUESTS = usual
    if log is None:
        assert problems, "refused without a reason"
        assert is_said or CANARY not in "".join(map(str, problems)), "a message holds what is in the log"
        return None
    _assert_right(log)
    said = [*log.warnings, *map(str, log.steps), *map(str, log.invalid.problems("log"))]
    assert is_said or CANARY not in "".join(said), "a note holds what is in the log"
    expected = rows_in(reader.name, data)
    assert expected is None or log.rows_read == expected, f"{log.rows_read} rows read of {expected}"
    return log


def _assert_right(log: Log) -> None:
    tokens = [log.rows[name] for name in ("prompt_tokens", "output_tokens")]
    assert not any(column.null_count() for column in tokens), "a request without a length"
    assert all(column.min() >= 1 and column.max() <= MAX_TOKENS for column in tokens), "a length out of range"  # type: ignore[operator]
    if log.is_timed:
        times = log.rows["timestamp_ns"]
        assert times.null_count() == 0, "a request without an arrival"
        assert times[0] == 0, "arrivals that do not begin at 0"
        assert times.is_sorted(), "arrivals out of order"
    texts = [name for name, dtype in log.rows.schema.items() if dtype == pl.String and name != "model"]
    assert not any(log.rows[name].eq(CANARY).any() for name in texts), "a text in the frame"


def rows_in(name: str, data: bytes) -> int | None:
    """How many rows a log has, counted without its reader; None where that takes more than counting."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data or name == "otel-genai" or data.startswith(b"PAR1"):
        return None
    if name in ("vllm-results", "sglang-results"):
        try:
            return len(json.loads(data)["input_lens"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
    lines = data.decode(errors="surrogateescape").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if name == "servegen":
        rates, starts = ([float(line.split(",")[place].strip()) for line in lines] for place in (1, 0))
        return int(sum(map(Fraction, rates)) * Fraction(starts[1] - starts[0]) + Fraction(1, 2))
    if name == "aiperf-results":
        return sum(not _is_warm_up(line) for line in lines)
    may_be_json = any(sample.startswith(b"{") for sample in SAMPLES.get(name, ()))
    if may_be_json and any(line.lstrip().startswith("{") for line in lines[:1]):
        return len(lines)
    if '"' in "".join(lines):
        return None
    while lines and not lines[0].strip():
        lines.pop(0)
    return len(lines) - 1


def _is_warm_up(line: str) -> bool:
    try:
        record = orjson.loads(line.encode(errors="surrogateescape"))
    except ValueError:
        return False
    metadata = record.get("metadata") if isinstance(record, dict) else None
    return isinstance(metadata, dict) and metadata.get("benchmark_phase") == "warmup"


def samples_of(name: str) -> tuple[bytes, ...]:
    """Valid logs of a format; those of all others for one that has none here."""
    return SAMPLES.get(name) or tuple(sample for samples in SAMPLES.values() for sample in samples)


def _moves(draw: Random) -> list[Move]:
    count = 1 if draw.random() < 0.5 else draw.randint(2, 6)
    return [Move(draw.choice(MOVES), draw.random(), draw.random(), draw.choice(PAYLOADS)) for _ in range(count)]


def _case(draw: Random, samples: tuple[bytes, ...]) -> bytes:
    data = draw.choice(samples)
    for move in _moves(draw):
        data = mutated(data, move)
    return data


def main() -> None:
    """Run the cases of every format and print what came of them."""
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    names = sys.argv[3:] or [*READERS, "servegen lengths"]
    print(f"{'format':<18}{'cases':>9}{'accepted':>10}{'refused':>9}{'seconds':>9}")
    with tempfile.TemporaryDirectory() as directory:
        lengths = Path(directory) / "lengths.json"
        for name in names:
            draw, began, accepted = Random(f"{seed} {name}"), time.perf_counter(), 0
            of_lengths = name == "servegen lengths"
            reader = READERS["servegen" if of_lengths else name]
            options = options_of(reader.name, lengths)
            lengths.write_bytes(LENGTHS)
            for _ in range(cases):
                data = _case(draw, (LENGTHS,) if of_lengths else samples_of(name))
                if of_lengths:
                    lengths.write_bytes(data)
                try:
                    accepted += read(reader, SAMPLES["servegen"][0] if of_lengths else data, options) is not None
                except Exception:
                    failing = Path(tempfile.gettempdir()) / f"fuzz_{name.replace(' ', '_')}.log"
                    failing.write_bytes(data)
                    print(f"{name}: neither read nor refused: {failing}")
                    raise
            seconds = time.perf_counter() - began
            print(f"{name:<18}{cases:>9,}{accepted:>10,}{cases - accepted:>9,}{seconds:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
