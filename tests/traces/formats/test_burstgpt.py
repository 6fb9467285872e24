"""BurstGPT: the columns of all three releases, by name; failed requests are invalid rows; sessions stay behind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.azure_llm import AZURE_LLM
from pipelines.traces.formats.burstgpt import BURSTGPT
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile

Write = Callable[[str | bytes], Path]

V1 = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
V3 = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
SESSION = "5ec2e7a0-canary"


def read(path: Path, **options: object) -> Log:
    return read_as(LogFile(path, "requests.csv"), BURSTGPT, LogOptions(**options))  # type: ignore[arg-type]


def test_the_first_two_releases_have_whole_seconds(log_file: Write) -> None:
    path = log_file(f"{V1}\n5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n")
    assert BURSTGPT.detect(LogFile(path, "x").head)
    assert not AZURE_LLM.detect(LogFile(path, "x").head)
    log = read(path)
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens", "model"]
    assert log.rows.rows() == [(0, 472, 18, "ChatGPT"), (40 * 10**9, 1087, 230, "GPT-4")]


def test_the_third_release_has_two_more_columns_and_fractions(log_file: Write) -> None:
    rows = f"19440110.0,{SESSION},43,GPT-4,906,446,1352,Conversation log\n19440110.5,,,ChatGPT,36,29,65,API log\n"
    path = log_file(f"{V3}\n{rows}")
    assert BURSTGPT.detect(LogFile(path, "x").head)
    log = read(path)
    assert log.rows.rows() == [(0, 906, 446, "GPT-4"), (500_000_000, 36, 29, "ChatGPT")]
    assert SESSION not in repr(log.rows.to_dicts())


def test_a_response_of_no_tokens_is_an_invalid_row(log_file: Write) -> None:
    path = log_file(f"{V1}\n5,ChatGPT,472,18,490,API log\n45,GPT-4,1087,0,1087,API log\n46,GPT-4,9,1,10,API log\n")
    with pytest.raises(DeclarationProblems, match="Response tokens: a token count of 0 in 1 row \\(row 3\\)"):
        read(path)
    log = read(path, on_invalid="drop")
    assert (log.rows.height, log.rows_read, log.invalid.by_code()) == (2, 3, {"output_tokens_zero": 1})


def test_the_total_is_not_read(log_file: Write) -> None:
    assert read(log_file(f"{V1}\n5,ChatGPT,472,18,,API log\n6,ChatGPT,1,1,many,API log\n")).rows.height == 2


def test_a_log_without_models_is_read_without_them(log_file: Write) -> None:
    log = read(log_file("Timestamp,Request tokens,Response tokens\n5,472,18\n"))
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens"]
