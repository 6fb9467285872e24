"""The quick reader never accepts what the careful one refuses, nor reads it differently."""

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces import csv_columns
from pipelines.traces.csv_columns import CsvColumns
from pipelines.traces.csv_rows import read_rows

COLUMNS = CsvColumns(timestamp="t", prompt_tokens="p", output_tokens="o")
TIMES = [
    "2023-11-16 18:17:03",
    "2023-11-16 18:17:03.1234567",
    "2023-11-16T18:17:03",
    "2023-11-16 18:17:03Z",
    "2023-11-16 18:17:03+02:00",
    "2023-02-30 18:17:03",
    "2023-11-16 18:17:60",
    "1969-12-31 23:59:59",
    "2023-11-16 18:17:03.1234567890",
    " 2023-11-16 18:17:03",
    "",
]
TOKENS = [
    "1",
    "17",
    "+5",
    "007",
    " 3",
    "3 ",
    "\t3",
    "\x0b3",
    "0",
    "-1",
    "1.0",
    "1e3",
    "",
    "x",
    "2147483647",
    "2147483648",
]
TOKENS += ["9" * 18, "9" * 19, "9" * 40, "1_0", "0x1", "nan", "null", "３", "1\x00", "True"]
OTHERS = ["", "a", "5", "é", "#", " ", "\x00", "'", "a;b"]
ENDS = ["\n", "\r\n", "\r", "\n\n", "\n \n"]

rows = st.builds(
    lambda fields, extra, end: ",".join([*fields, *extra]) + end,
    st.tuples(st.sampled_from(OTHERS), st.sampled_from(TIMES), st.sampled_from(TOKENS), st.sampled_from(TOKENS)).map(
        list
    ),
    st.sampled_from([[], [], [], ["7"]]),
    st.sampled_from(ENDS),
) | st.sampled_from(["\n", "\r\n", ",\n", ",,,\n", '"a,2023-11-16 18:17:03,1,1\n', "a,2023-11-16 18:17:03,1\n"])
good_rows = st.builds(
    lambda time, prompt, output: f"a,{time},{prompt},{output}\n",
    st.sampled_from(TIMES[:2]),
    st.sampled_from(TOKENS[:5]),
    st.sampled_from(TOKENS[:5]),
)


def carefully(log: bytes) -> pl.DataFrame | None:
    try:
        return read_rows(log, COLUMNS.names, "log")
    except DeclarationProblems:
        return None


def quickly(log: bytes) -> pl.DataFrame | None:
    return COLUMNS._quick(log, 4)


def since_first(frame: pl.DataFrame) -> list[tuple[int, ...]]:
    return frame.with_columns(pl.col("timestamp_ns") - pl.col("timestamp_ns").min()).rows()


@given(st.lists(good_rows, max_size=4), st.lists(rows, max_size=2), st.lists(good_rows, max_size=2), st.integers(0, 2))
@example(["a,2023-11-16 18:17:03,1,1\n"], ["a,2023-11-16 18:17:03,1\n"], ["a,2023-11-16 18:17:03,1,1,1\n"], 0)
def test_what_the_quick_reader_accepts_the_careful_one_reads_alike(
    before: list[str], middle: list[str], after: list[str], cut: int
) -> None:
    text = "x,t,p,o\n" + "".join([*before, *middle, *after])
    log = text[: len(text) - cut].encode()
    quick = quickly(log)
    if quick is not None:
        careful = carefully(log)
        assert careful is not None
        assert since_first(quick) == since_first(careful)


@given(st.lists(good_rows, min_size=1))
def test_the_quick_reader_accepts_plain_files(lines: list[str]) -> None:
    assert quickly(("x,t,p,o\n" + "".join(lines)).encode()) is not None


def test_plain_files_never_reach_the_careful_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_columns, "read_rows", lambda *_: pytest.fail("a plain file was read row by row"))
    assert COLUMNS.read(b"t,p,o\n2023-11-16 18:17:03,1,1\n", "log").rows() != []
