"""RAGPulse: seconds as text, and ids of texts that are no blocks of a prefix cache."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.mooncake import MOONCAKE
from pipelines.traces.formats.qwen_bailian import QWEN_BAILIAN
from pipelines.traces.formats.ragpulse import NO_BLOCKS, RAGPULSE
from pipelines.traces.formats.srt_slurm import SRT_SLURM
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile
from pipelines.traces.trace_format import ROW_SCHEMA, Reading

Write = Callable[[str | bytes], Path]


def record(seconds: object, prompt: object, output: object) -> dict[str, object]:
    texts = {"sys_prompt": [8302, 14332], "passages_ids": [7398, 5443], "history": [15200], "web_search": []}
    return {
        "timestamp": seconds,
        "input_length": prompt,
        "output_length": output,
        "hash_ids": texts | {"user_input": [26923]},
        "session_id": "SECRET-afhwfadnh5ew",
    }


LINES = "".join(f"{json.dumps(record(*one))}\n" for one in (("82", 3112, 192), ("126", 3266, 429), ("93", 3167, 86)))
REQUESTS = [(0, 3112, 192), (11_000_000_000, 3167, 86), (44_000_000_000, 3266, 429)]


def read(path: Path, **options: object) -> Log:
    return read_as(LogFile(path, "requests.jsonl"), RAGPULSE, LogOptions(**options))  # type: ignore[arg-type]


def test_the_reader_yields_rows_in_the_order_of_the_file_without_ids(log_file: Write) -> None:
    reading = Reading()
    frames = list(RAGPULSE.read(LogFile(log_file(LINES), "requests.jsonl"), reading))
    expected = pl.DataFrame(
        {
            "row": [1, 2, 3],
            "timestamp_ns": [82_000_000_000, 126_000_000_000, 93_000_000_000],
            "prompt_tokens": [3112, 3266, 3167],
            "output_tokens": [192, 429, 86],
        },
        schema=ROW_SCHEMA,
    )
    assert len(frames) == 1
    assert frames[0].equals(expected)
    assert reading.notes == [NO_BLOCKS]


@pytest.mark.parametrize(
    "content",
    [
        f"{LINES}\n",
        LINES.rstrip("\n"),
        f"{LINES}\n".replace("\n", "\r\n"),
        f"\N{ZERO WIDTH NO-BREAK SPACE}{LINES}",
        gzip.compress(f"{LINES}\n".encode(), mtime=0),
    ],
    ids=["blank end", "no newline", "CRLF", "BOM", "gzip"],
)
def test_a_pair_out_of_order_is_sorted_and_said(content: str | bytes, log_file: Write) -> None:
    path = log_file(content)
    assert RAGPULSE.detect(LogFile(path, "x").head)
    log = read(path)
    assert log.rows.rows() == REQUESTS
    assert log.block_tokens is None
    assert log.warnings == (NO_BLOCKS, "1 row comes before the row above; the log was sorted by time")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (record(None, 1, 1), "time_empty"),
        (record("", 1, 1), "time_empty"),
        (record("SECRET", 1, 1), "time_not_a_time"),
        (record("-3", 1, 1), "time_negative"),
        (record("9", None, 1), "prompt_tokens_empty"),
        (record("9", 0, 1), "prompt_tokens_zero"),
        (record("9", "SECRET", 1), "prompt_tokens_not_a_number"),
        (record("9", 1, -1), "output_tokens_negative"),
        (record("9", 1, 0), "output_tokens_zero"),
        ({"hash_ids": {}}, "time_empty"),
    ],
)
def test_a_field_that_cannot_be_read_makes_its_row_invalid(
    wrong: dict[str, object], code: str, log_file: Write
) -> None:
    path = log_file(f"{LINES}{json.dumps(wrong)}\n\n")
    log = read(path, on_invalid="drop")
    assert log.invalid.by_code() == {code: 1}
    assert log.rows_read == 4
    with pytest.raises(DeclarationProblems, match="row 4") as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


def test_a_last_line_that_is_cut_off_and_a_blank_line_between_are_told(log_file: Write) -> None:
    path = log_file(f"\n{LINES}{LINES[:60]}")
    assert read(path, on_invalid="drop").invalid.by_code() == {"blank_line": 1, "cut_off": 1}


def test_numbers_of_seconds_may_be_numbers_and_have_fractions(log_file: Write) -> None:
    lines = "\n".join(json.dumps(record(seconds, 5, 6)) for seconds in (82, "82.25", 83.5))
    assert read(log_file(lines)).rows["timestamp_ns"].to_list() == [0, 250_000_000, 1_500_000_000]


def test_no_session_and_no_text_id_leaves_the_reader(log_file: Write) -> None:
    marked = record("82", 5, 6) | {"hash_ids": {"user_input": ["SECRET"]}, "SECRET": "SECRET"}
    log = read(log_file(f"{LINES}{json.dumps(marked)}\n"))
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens"]
    assert "SECRET" not in repr(log)


def test_an_object_of_ids_tells_this_format_from_its_neighbours(log_file: Write) -> None:
    head = LogFile(log_file(LINES), "x").head
    assert not any(other.detect(head) for other in (MOONCAKE, QWEN_BAILIAN, SRT_SLURM))
    listed = json.dumps(record("82", 5, 6) | {"hash_ids": [1]})
    assert not RAGPULSE.detect(LogFile(log_file(listed), "x").head)
