"""SplitwiseSim: one request a row, of text generation."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.splitwise_sim import SPLITWISE_SIM
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile

Write = Callable[[str | bytes], Path]

HEADER = "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size"


def read(path: Path, **options: object) -> Log:
    return read_as(LogFile(path, "requests.csv"), SPLITWISE_SIM, LogOptions(**options))  # type: ignore[arg-type]


def test_the_sample_of_the_simulator_is_read(shared: Path) -> None:
    path = shared / "traces/splitwise_sim_test.csv"
    assert SPLITWISE_SIM.detect(LogFile(path, "x").head)
    log = read(path)
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens"]
    assert log.rows.rows() == [(0, 4096, 32), (2 * 10**9, 2048, 8), (3 * 10**9, 2048, 16)]


def test_arrivals_of_its_generator_have_many_digits(log_file: Write) -> None:
    path = log_file(f"{HEADER}\n0,2,0,0.0158697,1,374,44\n1,2,0,0.034201984375123,1,396,109\n")
    assert read(path).rows["timestamp_ns"].to_list() == [0, 34_201_984 - 15_869_700]


@pytest.mark.parametrize(
    ("row", "column", "code", "found"),
    [
        ("1,2,0,3,4,2048,8", "batch_size", "batched", "a row that stands for a batch of requests"),
        ("1,2,0,3,,2048,8", "batch_size", "batched", "a row that stands for a batch of requests"),
        ("1,0,0,3,1,2048,8", "request_type", "other_request", "a request that is not one of text generation"),
        ("1,2,0,3,1,2048,0", "token_size", "output_tokens_zero", "a token count of 0"),
    ],
)
def test_what_is_not_one_request_is_an_invalid_row(
    row: str, column: str, code: str, found: str, log_file: Write
) -> None:
    path = log_file(f"{HEADER}\n0,2,0,1,1,4096,32\n{row}\n2,2,0,4,01,2048,16\n")
    with pytest.raises(DeclarationProblems) as caught:
        read(path)
    assert str(caught.value).startswith(f"requests.csv:3:1: {column}: {found} in 1 row (row 3); expected ")
    log = read(path, on_invalid="drop")
    assert (log.rows.height, log.invalid.by_code()) == (2, {code: 1})


def test_a_log_without_types_and_batches_is_read(log_file: Write) -> None:
    assert read(log_file("arrival_timestamp,prompt_size,token_size\n1,4096,32\n")).rows.height == 1
