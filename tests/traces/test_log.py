"""Reading a log: detection, digest, memory of the last one."""

import hashlib
import os
import struct
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations.problems import DeclarationProblems
from pipelines.frames.requests import Requests
from pipelines.traces import FORMATS, Log, LogOptions, read_log, requests_sha256
from pipelines.traces.requests import requests_frame

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
READ = LogOptions()
ROWS = ["2023-11-16 18:17:03,5,2", "2023-11-16 18:17:04,7,1", "2023-11-16 18:17:04,7,3"]


def requests_of(log: Log) -> pl.DataFrame:
    return requests_frame(log.rows.with_columns(cached_prompt_tokens=pl.lit(0, pl.Int32)), is_open=True)


def test_every_format_is_known_by_its_name() -> None:
    assert all(name == known.name for name, known in FORMATS.items())


def test_the_digest_is_of_four_columns_as_little_endian_integers(log_of: Callable[..., Path]) -> None:
    arrivals, prompts, outputs = (0, 10**9, 10**9), (5, 7, 7), (2, 1, 3)
    numbers = struct.pack("<3q9i", *arrivals, *prompts, 0, 0, 0, *outputs)
    expected = hashlib.sha256(b"phaseledger requests v2\n" + numbers)
    assert requests_sha256(requests_of(read_log(log_of(*ROWS), READ))) == expected.hexdigest()


def test_the_digest_of_a_long_log_does_not_depend_on_how_it_is_stored() -> None:
    numbers = pl.Series(range(1, 200_001), dtype=pl.Int64)
    counts = numbers.cast(pl.Int32)
    frame = pl.DataFrame(
        {
            "arrival_ns": numbers - 1,
            "prompt_tokens": counts,
            "cached_prompt_tokens": counts - 1,
            "output_tokens": counts,
        }
    )
    pieces = pl.concat([frame[:7], frame[7:70_000], frame[70_000:]], rechunk=False)
    expected = hashlib.sha256(b"phaseledger requests v2\n" + struct.pack("<200000q", *range(200_000)))
    for column in (range(1, 200_001), range(200_000), range(1, 200_001)):
        expected.update(struct.pack("<200000i", *column))
    assert requests_sha256(frame) == requests_sha256(pieces) == expected.hexdigest()


def test_one_changed_number_changes_the_digest(log_of: Callable[..., Path]) -> None:
    frame = requests_of(read_log(log_of(*ROWS), READ))
    digests = {requests_sha256(frame)}
    for column in frame.columns:
        digests.add(requests_sha256(frame.with_columns(pl.col(column) + (pl.col("output_tokens") == 3))))
    assert len(digests) == 5


@given(order=st.permutations(ROWS), separator=st.sampled_from(" T"), offset=st.sampled_from(["", "Z", "+05:30"]))
def test_the_order_and_spelling_of_rows_change_nothing(
    order: list[str], separator: str, offset: str, tmp_path: Path
) -> None:
    written = [f"{row[:10]}{separator}{row[11:19]}{offset}{row[19:]}" for row in order]
    (tmp_path / "one.csv").write_text("\n".join([HEADER, *written]))
    (tmp_path / "two.csv").write_text("\n".join([HEADER, *ROWS]))
    one, two = (requests_of(read_log(tmp_path / name, READ)) for name in ("one.csv", "two.csv"))
    assert one.equals(two)
    assert requests_sha256(one) == requests_sha256(two)


def _age(path: Path) -> None:
    os.utime(path, ns=(1_700_000_000 * 10**9, 1_700_000_000 * 10**9))


def test_the_log_that_was_read_last_is_remembered(log_of: Callable[..., Path]) -> None:
    path = log_of(*ROWS)
    _age(path)
    first = read_log(path, READ)
    assert read_log(path.parent / "." / path.name, LogOptions()) is first
    assert read_log(path, LogOptions("azure-llm")) is not first


def test_a_log_that_has_changed_is_read_again(log_of: Callable[..., Path]) -> None:
    path = log_of(*ROWS)
    _age(path)
    assert read_log(path, READ).rows_read == 3
    log_of(*ROWS[:2])
    assert read_log(path, READ).rows_read == 2


def test_a_log_that_was_just_written_is_not_remembered(log_of: Callable[..., Path]) -> None:
    path = log_of(*ROWS)
    assert read_log(path, READ) is not read_log(path, READ)


def test_a_log_that_has_gone_is_told_although_it_was_remembered(log_of: Callable[..., Path]) -> None:
    path = log_of(*ROWS)
    _age(path)
    read_log(path, READ)
    path.unlink()
    with pytest.raises(DeclarationProblems, match="no such file"):
        read_log(path, READ)


def test_problems_name_the_file_as_the_reader_knows_it(tmp_path: Path) -> None:
    with pytest.raises(DeclarationProblems) as caught:
        read_log(tmp_path / "none.csv", READ, shown_as="cohorts/chat/requests.csv")
    assert caught.value.problems[0].file == "cohorts/chat/requests.csv"


@pytest.mark.parametrize(
    "columns",
    [
        {"arrival_ns": [1, 2]},
        {"arrival_ns": [0, 5, 4]},
        {"prompt_tokens": [0, 1]},
        {"cached_prompt_tokens": [-1, 0]},
        {"output_tokens": [1, None]},
        {"user": ["a", "b"]},
    ],
)
def test_the_requests_model_refuses(columns: dict[str, list[object]]) -> None:
    rows = len(next(iter(columns.values())))
    good: dict[str, list[object]] = {
        "arrival_ns": list(range(rows)),
        "prompt_tokens": [1] * rows,
        "cached_prompt_tokens": [0] * rows,
        "output_tokens": [1] * rows,
    }
    types = {name: pl.Int64 if name == "arrival_ns" else pl.Int32 for name in good}
    assert Requests.validate(pl.DataFrame(good, schema=types)).height == rows
    with pytest.raises(Exception, match=next(iter(columns))):
        Requests.validate(pl.DataFrame(good | columns, schema_overrides=types))


def test_the_requests_model_refuses_prompts_that_are_cached_whole() -> None:
    types = {"arrival_ns": pl.Int64} | dict.fromkeys(
        ("prompt_tokens", "cached_prompt_tokens", "output_tokens"), pl.Int32
    )
    with pytest.raises(Exception, match="cached whole"):
        Requests.validate(pl.DataFrame([(0, 5, 5, 1)], schema=types, orient="row"))
