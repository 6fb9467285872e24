"""LLMServingSim: nanoseconds, and token ids that stay behind."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.llmservingsim import LLMSERVINGSIM
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile
from pipelines.traces.trace_format import ROW_SCHEMA, Reading

Write = Callable[[str | bytes], Path]

SECRET_ID = 777_777_777


def record(arrival: object, prompt: object, output: object) -> dict[str, object]:
    ids = {"input_tok_ids": [SECRET_ID] * 3, "output_tok_ids": [SECRET_ID]}
    return {"input_toks": prompt, "output_toks": output, "arrival_time_ns": arrival} | ids


LINES = "".join(f"{json.dumps(record(*one))}\n" for one in ((46_926_808, 10, 70), (347_938_953, 22, 104)))
REQUESTS = [(0, 10, 70), (301_012_145, 22, 104)]
SESSION = {"session_id": "SECRET", "arrival_time_ns": 5, "sub_requests": [{"input_toks": 3, "output_toks": 4}]}


def read(path: Path, **options: object) -> Log:
    return read_as(LogFile(path, "requests.jsonl"), LLMSERVINGSIM, LogOptions(**options))  # type: ignore[arg-type]


def test_the_reader_yields_nanoseconds_as_they_are_written(log_file: Write) -> None:
    reading = Reading()
    frames = list(LLMSERVINGSIM.read(LogFile(log_file(LINES), "requests.jsonl"), reading))
    expected = pl.DataFrame(
        {
            "row": [1, 2],
            "timestamp_ns": [46_926_808, 347_938_953],
            "prompt_tokens": [10, 22],
            "output_tokens": [70, 104],
        },
        schema=ROW_SCHEMA,
    )
    assert len(frames) == 1
    assert frames[0].equals(expected)
    assert not reading.notes


def test_the_public_example_is_read(shared: Path) -> None:
    path = shared / "traces/llmservingsim_example.jsonl"
    assert LLMSERVINGSIM.detect(LogFile(path, "x").head)
    log = read(path)
    assert log.rows.height == 10
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens"]
    assert log.rows.row(0) == (0, 10, 70)
    assert log.rows.row(-1) == (1_026_970_077 - 46_926_808, 5, 26)
    assert log.rows["prompt_tokens"].sum() == 10 + 22 + 16 + 4 + 13 + 15 + 15 + 2 + 18 + 5


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        LINES.rstrip("\n"),
        LINES.replace("\n", "\r\n"),
        f"\N{ZERO WIDTH NO-BREAK SPACE}{LINES}",
        f"{LINES}\n\n",
        "".join(reversed(LINES.splitlines(keepends=True))),
        gzip.compress(LINES.encode(), mtime=0),
    ],
    ids=["plain", "no newline", "CRLF", "BOM", "blank end", "unsorted", "gzip"],
)
def test_a_log_reads_the_same_however_its_lines_are_written(content: str | bytes, log_file: Write) -> None:
    path = log_file(content)
    assert LLMSERVINGSIM.detect(LogFile(path, "x").head)
    assert read(path).rows.rows() == REQUESTS


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (record(None, 1, 1), "time_empty"),
        (record("SECRET", 1, 1), "time_not_a_time"),
        (record(-1, 1, 1), "time_negative"),
        (record(1, None, 1), "prompt_tokens_empty"),
        (record(1, 0, 1), "prompt_tokens_zero"),
        (record(1, 1, 0), "output_tokens_zero"),
        (record(1, 1, -2), "output_tokens_negative"),
        (record(1, 1, "SECRET"), "output_tokens_not_a_number"),
        ({"input_toks": 1, "output_toks": 1}, "time_empty"),
        (SESSION, "session"),
    ],
)
def test_a_record_that_is_no_request_makes_its_row_invalid(
    wrong: dict[str, object], code: str, log_file: Write
) -> None:
    path = log_file(f"{LINES}{json.dumps(wrong)}\n")
    log = read(path, on_invalid="drop")
    assert log.invalid.by_code() == {code: 1}
    assert log.rows_read == 3
    with pytest.raises(DeclarationProblems, match="row 3") as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


def test_a_log_of_sessions_is_recognised_and_told(log_file: Write) -> None:
    path = log_file(json.dumps(SESSION))
    assert LLMSERVINGSIM.detect(LogFile(path, "x").head)
    with pytest.raises(DeclarationProblems, match="a session of requests that wait for each other in 1 row"):
        read(path)


def test_fewer_token_ids_than_tokens_are_no_fault(log_file: Write) -> None:
    assert read(log_file(json.dumps(record(0, 128, 512)))).rows.rows() == [(0, 128, 512)]


def test_a_last_line_that_is_cut_off_and_a_blank_line_between_are_told(log_file: Write) -> None:
    path = log_file(f"\n{LINES}{LINES[:20]}")
    assert read(path, on_invalid="drop").invalid.by_code() == {"blank_line": 1, "cut_off": 1}


def test_no_token_id_leaves_the_reader(log_file: Write) -> None:
    path = log_file(f"{LINES}{json.dumps(record(1, 1, 0))}\n")
    assert str(SECRET_ID) not in repr(read(path, on_invalid="drop").rows.to_dicts())
    with pytest.raises(DeclarationProblems) as caught:
        read(path)
    assert str(SECRET_ID) not in str(caught.value)


def test_other_names_are_another_format(log_file: Write) -> None:
    other = {"request_id": "r", "prompt_length": 3, "decode_length": 4, "arrival_time_ns": 0}
    assert not LLMSERVINGSIM.detect(LogFile(log_file(json.dumps(other)), "x").head)
    assert not LLMSERVINGSIM.detect(LogFile(log_file("input_toks,output_toks,arrival_time_ns\n1,2,3\n"), "x").head)
