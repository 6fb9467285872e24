"""Qwen-Bailian: seconds, blocks of 16 tokens, and no id of a chat beyond the reader."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.mooncake import MOONCAKE
from pipelines.traces.formats.qwen_bailian import QWEN_BAILIAN
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile
from pipelines.traces.trace_format import EXTRA_SCHEMA, ROW_SCHEMA, Reading

Write = Callable[[str | bytes], Path]

FIRST = {
    "chat_id": 159,
    "parent_chat_id": -1,
    "timestamp": 61.114,
    "input_length": 33,
    "output_length": 132,
    "type": "text",
    "turn": 1,
    "hash_ids": [1089, 1090, 1091],
}
LATER = FIRST | {
    "chat_id": 160,
    "parent_chat_id": 159,
    "timestamp": 62,
    "input_length": 48,
    "output_length": 7,
    "turn": 2,
}
LINES = f"{json.dumps(FIRST)}\n{json.dumps(LATER)}\n"
REQUESTS = [(0, 33, 132, [1089, 1090, 1091]), (886_000_000, 48, 7, [1089, 1090, 1091])]


def read(path: Path, **options: object) -> Log:
    return read_as(LogFile(path, "requests.jsonl"), QWEN_BAILIAN, LogOptions(**options))  # type: ignore[arg-type]


def requests(path: Path) -> list[tuple[object, ...]]:
    return read(path).rows.select("timestamp_ns", "prompt_tokens", "output_tokens", "hash_ids").rows()


def dropped(path: Path) -> dict[str, int]:
    return read(path, on_invalid="drop").invalid.by_code()


def test_the_reader_yields_the_times_of_the_log_and_the_ids_of_its_blocks(log_file: Write) -> None:
    reading = Reading()
    frames = list(QWEN_BAILIAN.read(LogFile(log_file(LINES), "requests.jsonl"), reading))
    expected = pl.DataFrame(
        {
            "row": [1, 2],
            "timestamp_ns": [61_114_000_000, 62_000_000_000],
            "prompt_tokens": [33, 48],
            "output_tokens": [132, 7],
            "hash_ids": [[1089, 1090, 1091]] * 2,
        },
        schema=ROW_SCHEMA | {"hash_ids": EXTRA_SCHEMA["hash_ids"]},
    )
    assert len(frames) == 1
    assert frames[0].equals(expected)
    assert not reading.faults
    assert not reading.notes


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        LINES.rstrip("\n"),
        LINES.replace("\n", "\r\n"),
        f"\N{ZERO WIDTH NO-BREAK SPACE}{LINES}",
        f"{LINES}\n  \n",
        "".join(reversed(LINES.splitlines(keepends=True))),
        gzip.compress(LINES.encode(), mtime=0),
    ],
    ids=["plain", "no newline", "CRLF", "BOM", "blank end", "unsorted", "gzip"],
)
def test_a_log_reads_the_same_however_its_lines_are_written(content: str | bytes, log_file: Write) -> None:
    path = log_file(content)
    assert QWEN_BAILIAN.detect(LogFile(path, "x").head)
    assert requests(path) == REQUESTS


def test_blocks_of_another_size_are_told(log_file: Write) -> None:
    wrong = FIRST | {"input_length": 4900}
    log = read_as(LogFile(log_file(f"{LINES}{json.dumps(wrong)}\n"), "x"), QWEN_BAILIAN, LogOptions())
    (warning,) = [text for text in log.warnings if "block hashes" in text]
    assert warning == (
        f"1 of {log.rows.height} requests have a number of block hashes that does not fit prompts in blocks of 16 tokens: "
        "is the block size that of this log?"
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"timestamp": None}, "time_empty"),
        ({"timestamp": "SECRET"}, "time_not_a_time"),
        ({"timestamp": -1.5}, "time_negative"),
        ({"input_length": None}, "prompt_tokens_empty"),
        ({"input_length": 0}, "prompt_tokens_zero"),
        ({"output_length": -4}, "output_tokens_negative"),
        ({"output_length": 0}, "output_tokens_zero"),
        ({"output_length": "SECRET"}, "output_tokens_not_a_number"),
        ({"output_length": 1.5}, "output_tokens_not_whole"),
        ({"hash_ids": None}, "hash_ids_missing"),
        ({"hash_ids": ["SECRET"]}, "hash_ids_not_a_list"),
    ],
)
def test_a_field_that_cannot_be_read_makes_its_row_invalid(
    change: dict[str, object], code: str, log_file: Write
) -> None:
    path = log_file(f"{LINES}{json.dumps(FIRST | change)}\n")
    log = read(path, on_invalid="drop")
    assert log.invalid.by_code() == {code: 1}
    assert log.rows_read == 3
    with pytest.raises(DeclarationProblems, match="row 3") as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("timestamp", "time_empty"),
        ("input_length", "prompt_tokens_empty"),
        ("output_length", "output_tokens_empty"),
        ("hash_ids", "hash_ids_missing"),
    ],
)
def test_a_missing_field_is_not_0(field: str, code: str, log_file: Write) -> None:
    short = {name: value for name, value in FIRST.items() if name != field}
    assert dropped(log_file(f"{LINES}{json.dumps(short)}\n")) == {code: 1}


def test_a_last_line_that_is_cut_off_and_a_blank_line_between_are_told(log_file: Write) -> None:
    first, later = LINES.splitlines()
    assert dropped(log_file(f"{first}\n\n{later}\n{first[:40]}")) == {"blank_line": 1, "cut_off": 1}


def test_numbers_may_be_text(log_file: Write) -> None:
    text = FIRST | {"timestamp": "61.114", "input_length": "33", "output_length": "132"}
    assert requests(log_file(json.dumps(text))) == REQUESTS[:1]


def test_no_id_and_no_type_leaves_the_reader(log_file: Write) -> None:
    marked = FIRST | {"chat_id": "SECRET", "parent_chat_id": "SECRET", "type": "SECRET", "turn": "SECRET"}
    path = log_file(f"{json.dumps(marked)}\n{json.dumps(marked | {'output_length': 0})}\n")
    log = read(path, on_invalid="drop")
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens", "hash_ids"]
    assert "SECRET" not in repr(log)
    with pytest.raises(DeclarationProblems) as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


def test_only_logs_with_chat_ids_and_lists_of_blocks_are_of_this_format(log_file: Write) -> None:
    assert not MOONCAKE.detect(LogFile(log_file(LINES), "x").head)
    for change in ({"hash_ids": {"history": [1]}}, {"chat_id": ...}):
        record = {name: value for name, value in (FIRST | change).items() if value is not ...}
        assert not QWEN_BAILIAN.detect(LogFile(log_file(json.dumps(record)), "x").head)
    assert not QWEN_BAILIAN.detect(LogFile(log_file("chat_id,timestamp,input_length\n1,2,3\n"), "x").head)
