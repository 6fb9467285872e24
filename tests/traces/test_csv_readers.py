"""The quick CSV reader and the careful one give the same verdict on every row, wherever the blocks of the log end."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces import csv_format, csv_rows, faults, log_file
from pipelines.traces.csv_format import CsvColumns, Only, read_csv
from pipelines.traces.csv_rows import CarefulReader
from pipelines.traces.log_file import LogFile
from pipelines.traces.timestamps import NS_PER_S, parse_number
from pipelines.traces.token_counts import count_of_text
from pipelines.traces.trace_format import Reading

ONLY_ONE = Only("b", 1, faults.BATCHED)
DATETIMES = CsvColumns(arrival="t", prompt_tokens="p", output_tokens="o", cached_prompt_tokens="c", model="m")
SECONDS = CsvColumns(arrival="t", unit="s", prompt_tokens="p", output_tokens="o", model="m", only=(ONLY_ONE,))
NANOSECONDS = CsvColumns(arrival="t", unit="ns", prompt_tokens="p", output_tokens="o")
LENGTHS = CsvColumns(prompt_tokens="p", output_tokens="o", priority="m")
HEADER = f"{'x' * 60},t,p,o,c,m,b"

TIMES = [
    "2023-11-16 18:17:03",
    "2023-11-16 18:17:03.1234567",
    "2023-11-16T18:17:03",
    "2023-11-16 18:17:03Z",
    "2023-11-16 18:17:03+02:00",
    "2023-02-30 18:17:03",
    "2023-11-16 18:17:60",
    "1969-12-31 23:59:59",
    "2199-12-31 23:59:59.999999999",
    "2200-01-01 00:00:00",
    "2023-11-16 18:17:03.1234567890",
    "2023-11-16 18:17:03.",
    " 2023-11-16 18:17:03",
    "soon",
    "",
]
NUMBERS = [
    "0",
    "5",
    "1.5",
    "199.96150599999999",
    "1.99999999999999999999999999999999999999999999999999",
    "19440110.0",
    "1700158623.125",
    "7258118399.999999999",
    "7258118400",
    "7258118399999999999",
    "9999999999999999999",
    "12.",
    ".5",
    ".",
    "1e3",
    "1e400",
    "-1",
    "+5",
    "007",
    " 12 ",
    "\x1f12",
    "nan",
    "inf",
    "1,5",
    "１",
]
COUNTS = ["1", "17", "+5", "007", " 12 ", "3 ", "\t3", "\x0b3", "\x1f3", "0", "-1", "-0", "1.0", "12.", "12.5", "1e3"]
COUNTS += ["", "x", "2147483647", "2147483648", "2147483647.0", "2147483648.0", "00000000005.0", "9" * 18, "9" * 19]
COUNTS += ["9" * 40, "1_0", "0x1", "nan", "null", "３", "1\x00", "True", "'5'"]
NAMES = ["gpt-4", " gpt-4 ", "\x1fgpt\x85", "", " ", "é", "模型", "null", "a\x00b", "#", "12", "\ufeff"]
OTHERS = ["", "a", "5", "é", "#", " ", "\x00", "'", "a;b", '"a, b"', '"two\nlines"', '"say ""no"""', 'a"b', '"a"b']
ENDS = ["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n \n", "\r\n\r\n"]


def lines(times: list[str]) -> st.SearchStrategy[str]:
    fields = (OTHERS, times, COUNTS, COUNTS, COUNTS, NAMES, ["1", "1", "01", " 1", "1.0", "2", "0", "", "x"])
    return st.builds(
        lambda row, quoted, extra, end: ",".join([*(f'"{one}"' if quoted else one for one in row), *extra]) + end,
        st.tuples(*map(st.sampled_from, fields)),
        st.sampled_from([False, False, True]),
        st.sampled_from([(), (), (), (), ("7",)]),
        st.sampled_from(ENDS),
    )


def plain(time: str) -> st.SearchStrategy[str]:
    return st.builds(
        lambda prompt, output, name: f"a,{time},{prompt},{output},0,{name},1\n",
        st.sampled_from(["1", "17", "+5", "007"]),
        st.sampled_from(["1", "2147483647"]),
        st.sampled_from(["gpt-4", "", "模型"]),
    )


ODD = ["\n", "\r\n", ",\n", ",,,,,,\n", '"a,2023-11-16 18:17:03,1,1,0,m,1\n', "a,5,1,1\n", f"{HEADER}\n", "é\n"]
BAD_BYTES = [b"", b"", b"", b"\xff", b'"', b"\r", b",", b"\n"]

Outcome = tuple[list[tuple[object, ...]], dict[str, list[int]], dict[str, int], list[list[int]]] | str


def outcome(path: Path, columns: CsvColumns) -> Outcome:
    """What is read: the rows, the first rows and counts of each fault, how the clock is written; or how the log is refused."""
    reading = Reading()
    try:
        parts = list(read_csv(LogFile(path, "log"), reading, columns))
    except DeclarationProblems as problems:
        return str(problems)
    assert all(part.schema == pl.Schema(columns.schema) for part in parts)
    rows = [row for part in parts for row in part.rows()]
    found = {f"{fault.code} {fault.column}": first for fault, first in reading.faults.rows.items()}
    counts = {f"{fault.code} {fault.column}": count for fault, count in reading.faults.counts.items()}
    clock = [
        [one.total, *(row for first in one.rows.values() for row in first)]
        for one in (reading.rows_naive, reading.rows_with_offset)
    ]
    return rows, found, counts, clock


@contextmanager
def patched(**values: object) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not values.pop("quick", True):
            patch.setattr(csv_format._QuickReader, "read", lambda *_: None)
        for name, value in values.items():
            patch.setattr(log_file, name, value)
        yield


def check(content: bytes, columns: CsvColumns, block_bytes: int, directory: Path) -> None:
    path = directory / "log.csv"
    path.write_bytes(content)
    with patched(quick=False):
        careful = outcome(path, columns)
    assert outcome(path, columns) == careful
    with patched(BLOCK_BYTES=block_bytes, _READ_BYTES=max(block_bytes // 2, 1)):
        assert outcome(path, columns) == careful
    if isinstance(careful, str):
        return
    rows, first, counts, _ = careful
    read, lines = len(rows) + sum(counts.values()), expected_rows(content, [int(str(row[0])) for row in rows])
    # an invalid row whose quotes join lines counts once if it has as many fields as the header
    assert read == lines if b'"' not in content else len(rows) <= read <= lines
    assert all(one == sorted(one) for one in first.values())


def expected_rows(content: bytes, kept: list[int]) -> int:
    """Lines below the header, without the blank ones at the end, and each kept row as one however many lines it takes."""
    text = content.decode(errors="replace").split("\n")
    while text and not text[-1].strip():
        text.pop()
    header = next(place for place, line in enumerate(text, 1) if line.strip())
    return len(text) - header - sum(lines_of(text[row - 1 :]) - 1 for row in kept)


def lines_of(text: list[str]) -> int:
    reader = csv.reader(f"{line}\n" for line in text)
    next(reader)
    return reader.line_num


LOGS = st.sampled_from([(DATETIMES, TIMES), (SECONDS, NUMBERS), (NANOSECONDS, NUMBERS), (LENGTHS, NUMBERS)])


@st.composite
def dirty(draw: st.DrawFn) -> tuple[bytes, CsvColumns]:
    columns, times = draw(LOGS)
    good = st.lists(plain(times[0]), max_size=5)
    some = st.lists(lines(times) | st.sampled_from(ODD), max_size=4)
    text = "".join([*draw(good), *draw(some), *draw(good), *draw(some), *draw(good)])
    cut = draw(st.sampled_from([0, 0, 0, 1, 2, 5]))
    body = text[: len(text) - cut].encode()
    at = draw(st.integers(0, len(body)))
    start = draw(st.sampled_from(["", "", "\n", "\ufeff"]))
    return f"{start}{HEADER}\n".encode() + body[:at] + draw(st.sampled_from(BAD_BYTES)) + body[at:], columns


@given(log=dirty(), block_bytes=st.sampled_from([32, 64, 100, 1000]))
@example(log=(f"{HEADER}\na,2023-11-16 18:17:03,1,1,0,m,1\na,soon,1,1,0,m,1\n".encode(), DATETIMES), block_bytes=64)
@example(
    log=(f"{HEADER}\na,2023-11-16 18:17:03,1,1,0,m,1\na,5,1\na,5,1,1,0,m,1,2,3,4,5\n".encode(), DATETIMES),
    block_bytes=64,
)
@example(log=(f"{HEADER}\na,5,1,1,0,m,1\na,{NUMBERS[4]},1,1,0,\x1fm\x85,1\n".encode(), SECONDS), block_bytes=64)
@example(log=(f'{HEADER}\na,5,1,1,0,m,1\n"\n\n\n",5,1,1,0,m,1\na,5,1,1,0,m,1\n'.encode(), SECONDS), block_bytes=32)
@example(log=(b"\n" * 200 + f"{HEADER}\na,5,1,1,0,m,1\n".encode(), SECONDS), block_bytes=32)
def test_every_row_gets_the_same_verdict_whichever_way_it_is_read(
    log: tuple[bytes, CsvColumns], block_bytes: int, tmp_path: Path
) -> None:
    check(*log, block_bytes, tmp_path)


@given(rows=st.lists(plain(TIMES[1]), min_size=1, max_size=5))
def test_plain_files_never_reach_the_careful_reader(rows: list[str], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"{HEADER}\n{''.join(rows)}")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("read", "read_lines"):
            patch.setattr(CarefulReader, name, lambda *_: pytest.fail("a plain file was read row by row"))
        assert sum(part.height for part in read_csv(LogFile(path, "log"), Reading(), DATETIMES)) == len(rows)


def test_a_row_over_several_lines_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f'{HEADER}\n"a\nb",5,1,1,0,m,1\n"c\nd\ne",6,0,1,0,m,1\na,7,1,1,0,m,1\n')
    reading = Reading()
    kept = [row for part in read_csv(LogFile(path, "log"), reading, SECONDS) for row in part["row"].to_list()]
    assert (kept, reading.faults.total, list(reading.faults.rows.values())) == ([2, 7], 1, [[4]])


def test_lines_that_a_stray_quote_joins_count_each(tmp_path: Path) -> None:
    """The quote that opens in line 3 closes in line 5: three rows, or one, that cannot be read."""
    path = tmp_path / "log.csv"
    path.write_text(f'{HEADER}\na,5,1,1,0,m,1\n"a,6,1,1,0,m,1\na,7,1,1,0,m,1\na,8,1,1,0,m",1\na,9,1,1,0,m,1\n')
    reading = Reading()
    kept = [row for part in read_csv(LogFile(path, "log"), reading, SECONDS) for row in part["row"].to_list()]
    assert (kept, reading.faults.total) == ([2, 6], 3)


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ("a,1700158623.125,12.0,12.,0,m,1", SECONDS),
        ("a,1700158623125000001,1,1,0,m,1", NANOSECONDS),
        ("a,2023-11-16 18:17:03+00:00,1,1,0,m,1", DATETIMES),
        ('"a","2023-11-16 18:17:03+00:00","1","1","0","","1"', DATETIMES),
    ],
    ids=["seconds since 1970, and counts that were floats", "nanoseconds since 1970", "with an offset", "quoted"],
)
def test_the_quick_reader_reads_what_many_logs_have(row: str, columns: CsvColumns) -> None:
    names = HEADER.split(",")
    found = csv_format._QuickReader(names, columns).read(log_file.Block(2, f"{row}\n".encode(), True))
    assert found is not None
    assert found.right.all()


def test_a_short_row_and_a_long_one_do_not_make_up_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t,p,o\n1,2\n1,2,3,4\n5,6,7\n")
    rows, _, counts, _ = outcome(path, NANOSECONDS)
    assert rows == [(4, 5, 6, 7)]
    assert counts == {"too_few_fields ": 1, "too_many_fields ": 1}


def test_a_time_is_cut_off_below_the_nanosecond_never_rounded() -> None:
    nines = "1." + "9" * 50
    assert parse_number(nines, NS_PER_S) == 1_999_999_999


def test_a_carriage_return_within_a_row_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"t,p,o\n1,2,3\r4,5,6\n7,8,9\n")
    rows, first, _, _ = outcome(path, NANOSECONDS)
    assert (rows, first) == ([(3, 7, 8, 9)], {"lone_cr ": [2]})


def test_a_long_text_in_place_of_a_number_takes_no_long_time() -> None:
    # a pattern that tries every way to split these digits would take hours
    digits = "0" * 1_000_000
    assert count_of_text(f"{digits}7") == 7
    assert count_of_text(f"{digits}x") is faults.NOT_A_NUMBER
    assert count_of_text(f"{digits}.5x") is faults.NOT_A_NUMBER
    assert parse_number(f"{digits}x", NS_PER_S) is faults.NOT_A_NUMBER_TIME


def test_a_quote_that_stays_open_is_given_up_before_all_of_the_log_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.csv"
    path.write_text('t,p,o\n1,2,3\n4,"5,6\n' + "7,8,9\n" * 1_000)
    monkeypatch.setattr(csv_rows, "LONGEST_LINE_BYTES", 100)
    monkeypatch.setattr(CarefulReader, "finish", lambda reader: pytest.fail(f"after {len(reader._open)} lines"))
    with pytest.raises(pytest.fail.Exception, match="after 20 lines"):
        outcome(path, NANOSECONDS)
