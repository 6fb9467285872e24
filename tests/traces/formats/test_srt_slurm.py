"""Sessions of srt-slurm: later turns are placed after the turn before them, and sessions are forgotten."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.mooncake import MOONCAKE
from pipelines.traces.formats.srt_slurm import NEW_TOKENS_ONLY, NO_BLOCKS, SRT_SLURM
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile
from pipelines.traces.timestamps import LATEST_NS
from pipelines.traces.trace_format import ROW_SCHEMA, Reading, ReadOptions

Write = Callable[[str | bytes], Path]
Turn = dict[str, object]

MS, S = 10**6, 10**9
NO_TURN_TIME = (
    "the log does not say how long a turn took: later turns are placed as early as they can be, as if it took no time; "
    "declare requests.trace.turn_time"
)


def first(session: object, timestamp: object, prompt: object = 100, output: object = 10, **more: object) -> Turn:
    lengths = {"session_id": session, "input_length": prompt, "output_length": output}
    return lengths | {"timestamp": timestamp, "group_id": 0} | more


def later(session: object, delay: object, prompt: object = 20, output: object = 5, **more: object) -> Turn:
    return {"session_id": session, "input_length": prompt, "output_length": output, "delay": delay} | more


def lines(*turns: Turn) -> str:
    return "".join(f"{json.dumps(turn)}\n" for turn in turns)


def read(path: Path, *, turn_ns: int | None = None, token_ns: int | None = None, **options: object) -> Log:
    reading = ReadOptions(turn_time_ns=turn_ns, turn_time_per_output_token_ns=token_ns)
    return read_as(LogFile(path, "requests.jsonl"), SRT_SLURM, LogOptions(reading=reading, **options))  # type: ignore[arg-type]


def in_file(path: Path, options: ReadOptions = ReadOptions()) -> tuple[pl.DataFrame, Reading]:  # noqa: B008
    reading = Reading(options)
    return pl.concat(SRT_SLURM.read(LogFile(path, "requests.jsonl"), reading)), reading


TWO_SESSIONS = lines(
    first("s-1", 0.0, 1200, 50, hash_ids=[0, 1, 2]),
    later("s-1", 100.0, 512, 30, hash_ids=[3]),
    first("s-2", 0.5, 1500, 40, hash_ids=[4, 5, 6]),
)


def test_a_later_turn_is_placed_after_the_turn_before_it(log_file: Write) -> None:
    options = ReadOptions(turn_time_ns=2 * S, turn_time_per_output_token_ns=20 * MS)
    rows, reading = in_file(log_file(TWO_SESSIONS), options)
    expected = pl.DataFrame(
        {
            "row": [1, 2, 3],
            "timestamp_ns": [0, 2 * S + 50 * 20 * MS + 100 * MS, 500_000],
            "prompt_tokens": [1200, 512, 1500],
            "output_tokens": [50, 30, 40],
        },
        schema=ROW_SCHEMA,
    )
    assert rows.equals(expected)
    assert reading.steps == [
        (
            "place_turns",
            "1 later turn, each at the arrival of the turn before it + 2 s + 0.02 s per output token of that turn + its delay",
        )
    ]
    assert reading.notes == [NO_BLOCKS, NEW_TOKENS_ONLY]


@pytest.mark.parametrize(
    ("turn_ns", "token_ns", "arrival", "said"),
    [
        (None, None, 100 * MS, "its delay"),
        (3 * S, None, 3 * S + 100 * MS, "3 s + its delay"),
        (None, 20 * MS, 1100 * MS, "0.02 s per output token of that turn + its delay"),
    ],
)
def test_either_length_of_a_turn_may_be_declared_or_none(
    turn_ns: int | None, token_ns: int | None, arrival: int, said: str, log_file: Write
) -> None:
    log = read(log_file(TWO_SESSIONS), turn_ns=turn_ns, token_ns=token_ns)
    assert log.rows.filter(pl.col("prompt_tokens") == 512)["timestamp_ns"].to_list() == [arrival]
    assert log.steps == (("place_turns", f"1 later turn, each at the arrival of the turn before it + {said}"),)
    assert (NO_TURN_TIME in log.warnings) == (turn_ns is None and token_ns is None)


def test_the_public_sample_is_read(shared: Path) -> None:
    path = shared / "traces/srt_slurm_sample.jsonl"
    assert SRT_SLURM.detect(LogFile(path, "x").head)
    log = read(path, turn_ns=S)
    assert log.rows.rows() == [(0, 1200, 50), (500_000, 1500, 40), (S + 100 * MS, 512, 30)]
    assert log.block_tokens is None


@pytest.mark.parametrize(
    "content",
    [
        TWO_SESSIONS,
        TWO_SESSIONS.rstrip("\n"),
        TWO_SESSIONS.replace("\n", "\r\n"),
        f"\N{ZERO WIDTH NO-BREAK SPACE}{TWO_SESSIONS}",
        f"{TWO_SESSIONS}\n \n",
        gzip.compress(TWO_SESSIONS.encode(), mtime=0),
    ],
    ids=["plain", "no newline", "CRLF", "BOM", "blank end", "gzip"],
)
def test_a_log_reads_the_same_however_its_lines_are_written(content: str | bytes, log_file: Write) -> None:
    path = log_file(content)
    assert SRT_SLURM.detect(LogFile(path, "x").head)
    assert read(path).rows.rows() == [(0, 1200, 50), (500_000, 1500, 40), (100 * MS, 512, 30)]


def test_sessions_may_interleave_and_come_out_of_order(log_file: Write) -> None:
    rows, reading = in_file(
        log_file(
            lines(
                first("b", 9_000),
                first("a", 1_000),
                later("b", 10),
                later("a", 20),
                later("a", 30, prompt=21),
                first("c", 0),
            )
        )
    )
    assert rows["timestamp_ns"].to_list() == [9_000 * MS, 1_000 * MS, 9_010 * MS, 1_020 * MS, 1_050 * MS, 0]
    assert reading.steps[0][1].startswith("3 later turns, each at")
    assert not reading.faults


def test_a_session_goes_on_from_one_block_of_the_file_to_the_next(
    log_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.traces.log_file.BLOCK_BYTES", 64)
    monkeypatch.setattr("pipelines.traces.log_file._READ_BYTES", 64)
    rows, reading = in_file(log_file(lines(first("a", 1), *[later("a", 1)] * 50)))
    assert rows["row"].to_list() == list(range(1, 52))
    assert rows["timestamp_ns"].to_list() == [MS * place for place in range(1, 52)]
    assert len(reading.steps) == 1


def test_a_turn_with_a_timestamp_is_placed_there_be_it_the_first_or_not(log_file: Write) -> None:
    turns = first("a", 0), later("a", None, timestamp=5_000), later("a", 100), later("a", 7, timestamp=9_000)
    rows, reading = in_file(log_file(lines(*turns)))
    assert rows["timestamp_ns"].to_list() == [0, 5_000 * MS, 5_100 * MS, 9_000 * MS]
    assert reading.steps[0][1].startswith("1 later turn,")


def test_single_turns_need_no_placing_and_no_session(log_file: Write) -> None:
    log = read(log_file(lines(first("a", 0), first(None, 500), first("b", 1_000.25))))
    assert log.rows["timestamp_ns"].to_list() == [0, 500 * MS, 1_000_250_000]
    assert not log.steps
    assert not log.warnings


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (first("a", 0, prompt=0), "prompt_tokens_zero"),
        (first("a", 0, output=None), "output_tokens_empty"),
        (first("a", 0, output=-1), "output_tokens_negative"),
        (first("a", "SECRET"), "time_not_a_time"),
        (first("a", None), "time_empty"),
        (first("a", -1), "time_negative"),
    ],
)
def test_turns_after_an_invalid_one_are_invalid_too_until_a_timestamp(wrong: Turn, code: str, log_file: Write) -> None:
    path = log_file(
        lines(wrong, later("a", 1), first("b", 3), later("a", 1), later("b", 4), first("a", 50), later("a", 1))
    )
    log = read(path, on_invalid="drop")
    assert log.invalid.by_code() == {"no_first_turn": 2, code: 1}
    assert log.rows["timestamp_ns"].to_list() == [0, 4 * MS, 47 * MS, 48 * MS]
    assert log.rows_read == 7


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (later("a", -1), "time_negative"),
        (later("a", "SECRET"), "time_not_a_time"),
        (later("a", None), "time_empty"),
        (later("a", 1, output=0), "output_tokens_zero"),
        (later("a", LATEST_NS // MS - 1), "time_out_of_range"),
        (later("unseen", 1), "no_first_turn"),
        (later(None, 1), "no_first_turn"),
        (later(["a"], 1), "no_first_turn"),
    ],
)
def test_a_later_turn_that_cannot_be_read_or_placed_is_invalid(wrong: Turn, code: str, log_file: Write) -> None:
    path = log_file(lines(first("a", 5), wrong, first("z", 6)))
    log = read(path, on_invalid="drop")
    assert log.invalid.by_code() == {code: 1}
    assert log.rows["timestamp_ns"].to_list() == [0, MS]
    with pytest.raises(DeclarationProblems, match="row 2") as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


def test_a_turn_after_an_invalid_later_turn_is_invalid(log_file: Write) -> None:
    path = log_file(lines(first("a", 0), later("a", 1, output=0), later("a", 1)))
    assert read(path, on_invalid="drop").invalid.by_code() == {"no_first_turn": 1, "output_tokens_zero": 1}


def test_a_last_line_that_is_cut_off_and_a_blank_line_between_are_told(log_file: Write) -> None:
    path = log_file(f"\n{TWO_SESSIONS}{TWO_SESSIONS[:30]}")
    assert read(path, on_invalid="drop").invalid.by_code() == {"blank_line": 1, "cut_off": 1}


def test_no_session_id_leaves_the_reader(log_file: Write) -> None:
    turns = first("SECRET", 0, group_id="SECRET", hash_ids=["SECRET"], text_input="SECRET"), later("SECRET", 5)
    path = log_file(lines(*turns, later("SECRET-2", 1)))
    log = read(path, on_invalid="drop")
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens"]
    assert "SECRET" not in repr(log)
    with pytest.raises(DeclarationProblems) as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


def test_sessions_tell_this_format_from_its_neighbours(log_file: Write) -> None:
    head = LogFile(log_file(TWO_SESSIONS), "x").head
    assert not MOONCAKE.detect(head)
    assert SRT_SLURM.detect(LogFile(log_file(lines(later("a", 1))), "x").head)
    others = (
        {"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]},
        first("a", 0, chat_id=1),
        first("a", "0", hash_ids={"history": [1]}),
        {"session_id": "a", "input_length": 1, "output_length": 1},
    )
    assert not any(SRT_SLURM.detect(LogFile(log_file(lines(other)), "x").head) for other in others)


@given(
    turns=st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 10**6)), min_size=1, max_size=20),
    turn_ns=st.integers(0, 10**10),
    token_ns=st.integers(0, 10**8),
)
def test_every_gap_is_a_turn_and_a_delay(
    turns: list[tuple[int, int]], turn_ns: int, token_ns: int, log_file: Write
) -> None:
    (output, start), *rest = turns
    path = log_file(lines(first("a", start, output=output), *(later("a", delay, output=out) for out, delay in rest)))
    rows, _ = in_file(path, ReadOptions(turn_time_ns=turn_ns, turn_time_per_output_token_ns=token_ns))
    gaps = [turn_ns + token_ns * before + delay * MS for (before, _), (_, delay) in zip(turns, rest, strict=False)]
    assert rows["timestamp_ns"][0] == start * MS
    assert rows["timestamp_ns"].diff().drop_nulls().to_list() == gaps
