"""Mooncake's traces, with and without block hashes."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.mooncake import MOONCAKE
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile

FIRST = {"timestamp": 27_000, "input_length": 1000, "output_length": 5, "hash_ids": [46, 47]}
LATER = {"timestamp": 30_000, "input_length": 600, "output_length": 7, "hash_ids": [46, 48]}


def read(path: Path, *records: dict[str, Any], on_invalid: Any = "reject") -> Log:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    file = LogFile(path, "log")
    assert MOONCAKE.detect(file.head)
    return read_as(file, MOONCAKE, LogOptions(on_invalid=on_invalid))


def test_timestamps_are_milliseconds(tmp_path: Path) -> None:
    log = read(tmp_path / "log", LATER, FIRST)
    assert log.rows.rows() == [(0, 1000, 5, [46, 47]), (3_000_000_000, 600, 7, [46, 48])]
    assert log.block_tokens == 512
    assert log.warnings == ("1 row comes before the row above; the log was sorted by time",)


def test_hashes_may_be_left_out_of_some_records_and_of_all(tmp_path: Path) -> None:
    bare = {name: value for name, value in LATER.items() if name != "hash_ids"}
    assert read(tmp_path / "log", FIRST, bare).rows["hash_ids"].to_list() == [[46, 47], []]
    without = read(tmp_path / "log", bare, bare | {"timestamp": 31_000})
    assert (without.block_tokens, "hash_ids" in without.rows.columns) == (None, False)


@pytest.mark.parametrize(
    ("input_length", "fits"), [(1024, True), (1023, True), (1100, True), (1025, True), (1536, False)]
)
def test_hashes_that_do_not_fit_the_prompt_are_doubted(tmp_path: Path, input_length: int, fits: bool) -> None:
    """Two hashes: two blocks, or one block and a part, or two blocks and a part without a hash."""
    log = read(tmp_path / "log", FIRST, LATER | {"input_length": input_length})
    assert (log.warnings == ()) == fits


@pytest.mark.parametrize("wrong", [{"hash_ids": "46"}, {"hash_ids": [1.5]}, {"hash_ids": [2**64]}, {"hash_ids": None}])
def test_hashes_that_are_none_are_invalid(tmp_path: Path, wrong: dict[str, Any]) -> None:
    log = read(tmp_path / "log", FIRST, LATER | wrong, on_invalid="drop")
    assert log.rows.height == log.invalid.total == 1


def test_ids_have_all_their_64_bits(tmp_path: Path) -> None:
    big = [2**64 - 1, 2**32]
    assert read(tmp_path / "log", FIRST, LATER | {"hash_ids": big}).rows["hash_ids"][1].to_list() == big


def test_a_missing_timestamp_is_not_time_zero(tmp_path: Path) -> None:
    with pytest.raises(DeclarationProblems, match="timestamp: a timestamp that is missing or null in 1 row"):
        read(tmp_path / "log", FIRST, LATER | {"timestamp": None})
