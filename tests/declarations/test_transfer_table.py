"""Tables of measured transfers are read exactly, and all that is wrong with one is said at once, where it is."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations.problems import DeclarationProblems
from pipelines.declarations.transfer_table import (
    MAX_ROWS,
    ColumnChoice,
    ColumnChoices,
    CurvePoint,
    TransferTable,
    as_curve,
    curve_text,
    parse_curve,
    read_transfer_table,
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table(*lines: str, choices: ColumnChoices | None = None) -> TransferTable:
    file = Path("t.csv")
    file.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return read_transfer_table(file, choices or ColumnChoices())


def problems(*lines: str, choices: ColumnChoices | None = None) -> list[str]:
    with pytest.raises(DeclarationProblems) as found:
        table(*lines, choices=choices)
    return str(found.value).splitlines()


def test_rows_are_exact_and_know_their_lines() -> None:
    read = table("kv_mib,transfer_ms,transfer_high_ms", "", "1.5,0.1,0.3", '"2",1e-1,0.2')
    assert [(row.bytes, row.seconds, row.high_s, row.line) for row in read.rows] == [
        (1572864, Fraction(1, 10_000), Fraction(3, 10_000), 3),
        (2097152, Fraction(1, 10_000), Fraction(2, 10_000), 4),
    ]
    assert read.notes == ()


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("bytes", 1),
        ("kv_bytes", 1),
        ("size_bytes", 1),
        ("kv_kb", 1000),
        ("kv_kB", 1000),
        ("kv_KB", 1000),
        ("kv_mb", 10**6),
        ("kv_MB", 10**6),
        ("kv_gb", 10**9),
        ("kv_kib", 1024),
        ("kv_mib", 2**20),
        ("kv_MiB", 2**20),
        ("kv_gib", 2**30),
    ],
)
def test_a_column_of_sizes_says_its_unit(name: str, factor: int) -> None:
    assert table(f"{name},seconds", "3,1").rows[0].bytes == 3 * factor


@pytest.mark.parametrize(
    ("name", "factor"),
    [("seconds", 1), ("transfer_seconds", 1), ("transfer_s", 1), ("p50_ms", 1000), ("mean_us", 10**6)],
)
def test_a_column_of_times_says_its_unit(name: str, factor: int) -> None:
    assert table(f"bytes,{name}", "3,1").rows[0].seconds == Fraction(1, factor)


@pytest.mark.parametrize("name", ["high_s", "p99_high_s", "high_ms", "transfer_high_us", "high_seconds"])
def test_a_column_of_upper_times_is_no_second_column_of_times(name: str) -> None:
    read = table(f"bytes,t_us,{name}", "3,1,9")
    assert (read.seconds_column.name, read.high_column and read.high_column.name) == ("t_us", name)


@pytest.mark.parametrize("name", ["rate_gb_s", "bytes_per_s", "gbit_s", "tokens_s", "req_s"])
def test_a_rate_is_no_time(name: str) -> None:
    assert table(f"bytes,t_s,{name}", "3,1,9").seconds_column.name == "t_s"


def test_other_columns_are_named_in_a_note() -> None:
    read = table('tokens,bytes,seconds,"a, b"', '1,3,1,"x, y"')
    assert read.notes == ('columns that are not read: tokens, "a, b"',)


def test_columns_can_be_named_with_their_units() -> None:
    choices = ColumnChoices(ColumnChoice("size", "KiB"), ColumnChoice("p50_ms"), ColumnChoice("p99", "us"))
    (row,) = table("size,p50_ms,p90_ms,p99,bytes", "1,2,3,4000,5", choices=choices).rows
    assert (row.bytes, row.seconds, row.high_s) == (1024, Fraction(2, 1000), Fraction(4, 1000))


SIZES = "expected bytes, or a name that ends in _bytes, _kib, _mib, _gib, _kb, _mb or _gb"
TIMES = "expected seconds, or a name that ends in _s, _ms or _us"


@pytest.mark.parametrize(
    ("header", "choices", "said"),
    [
        (
            "size,t_s",
            None,
            f"1:1: no column of sizes among size, t_s; {SIZES} (hint: rename size, or name its unit, as in --bytes-column size=MiB)",
        ),
        (
            "bytes,latency",
            None,
            f"1:1: no column of times among bytes, latency; {TIMES} "
            "(hint: rename latency, or name its unit, as in --seconds-column latency=ms)",
        ),
        (
            "payload_gb,p50,p99",
            None,
            f"1:1: no column of times among payload_gb, p50, p99; {TIMES} "
            "(hint: rename p50, or name its unit, as in --seconds-column p50=ms)",
        ),
        ("kv_Mb,t_s", None, f"1:1: no column of sizes among kv_Mb, t_s; {SIZES}"),
        ("bytes,gb_s", None, f"1:1: no column of times among bytes, gb_s; {TIMES}"),
        ("bytes,kv_mib,t_s", None, "1:7: 2 columns of sizes: bytes, kv_mib; expected one (hint: name one with --bytes-column)"),
        ("bytes,t_s,t_s", None, "1:11: 2 columns of times: t_s, t_s; expected one"),
        (
            "bytes,t_s,high_s,b_high_ms",
            None,
            "1:18: 2 columns of upper times: high_s, b_high_ms; expected one (hint: name one with --high-column)",
        ),
        ("bytes,t_s", ColumnChoices(seconds=ColumnChoice("p50")), "1:1: --seconds-column: no column p50; expected one of bytes, t_s"),
        (
            "bytes,t_s,p50",
            ColumnChoices(seconds=ColumnChoice("p50")),
            f"1:11: the column p50 states no unit of times; {TIMES} (hint: name its unit, as in --seconds-column p50=ms)",
        ),
        (
            "bytes,t_s",
            ColumnChoices(high=ColumnChoice("t_s")),
            "1:1: one column is named for two roles; expected a column of its own for each",
        ),
    ],
)  # fmt: skip
def test_a_column_that_is_not_certain_is_an_error(header: str, choices: ColumnChoices | None, said: str) -> None:
    row = ",".join("1" for _ in header.split(","))
    assert problems(header, row, choices=choices) == [f"t.csv:{said}"]


def test_both_columns_may_be_missing_at_once() -> None:
    assert [line[:9] for line in problems("a,b", "1,2")] == ["t.csv:1:1", "t.csv:1:1"]


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("bytes;seconds", "are the fields separated by semicolons? expected commas"),
        ("bytes\tseconds", "are the fields separated by tabs? expected commas"),
        ("1024,0.5", "is the header line missing? put the names of the columns on the first line"),
    ],
)
def test_a_file_of_another_form_is_told(header: str, hint: str) -> None:
    assert all(line.endswith(f"(hint: {hint})") for line in problems(header, "1,1"))


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("", "nothing in the cell; expected a number of ms"),
        ("fast", '"fast" is not a number; expected a number of ms'),
        ("0.5 ms", '"0.5 ms" is not a number; expected a number of ms (hint: write 0.5: the column states the unit)'),
        ("-0.5", "-0.5 ms is negative; expected more than 0"),
        ("0", "0 ms; expected more than 0"),
        ("-0.0", "-0.0 ms; expected more than 0"),
        (
            "NaN",
            '"NaN" is no measured number; expected a number of ms (hint: leave out transfers that were not measured)',
        ),
        (
            "inf",
            '"inf" is no measured number; expected a number of ms (hint: leave out transfers that were not measured)',
        ),
        (
            '"1,234.5"',
            '"1,234.5" has separators; expected a number of ms (hint: write the digits without separators, decimals after a point)',
        ),
        (
            "1_000",
            '"1_000" has separators; expected a number of ms (hint: write the digits without separators, decimals after a point)',
        ),
        ("1e30", "1e30 ms is out of range; expected 1e-24 to 1e15 in bytes or seconds"),
        ("1e-22", "1e-22 ms is out of range; expected 1e-24 to 1e15 in bytes or seconds"),
        ("0." + "1" * 39, f'"0.{"1" * 39}" has too many digits; expected at most 40 characters'),
        ("٣", '"٣" is not a number; expected a number of ms'),
    ],
)
def test_a_cell_that_is_no_measured_time(cell: str, said: str) -> None:
    assert problems("note,t_ms,bytes", f'"x, y",{cell},7', "a,1,8") == [f"t.csv:2:8: t_ms: {said}"]


def test_all_rows_are_reported_at_once() -> None:
    assert problems("bytes,t_s,high_s", "-1,x,2", "1,2", '1,"2,3', "1,2,1.5", "1,2,3,4", "0,1,1") == [
        "t.csv:2:1: bytes: -1 B is negative; expected more than 0",
        't.csv:2:4: t_s: "x" is not a number; expected a number of s',
        "t.csv:3:1: 2 fields; expected 3, as the header has",
        "t.csv:4:1: a quote that is not closed on its line; expected one row a line",
        "t.csv:5:5: high_s: 1.5 s is below the time 2 s; expected an upper time of at least that",
        "t.csv:6:1: 4 fields; expected 3, as the header has "
        "(hint: a comma within a number? write the digits without separators)",
        "t.csv:7:1: bytes: 0 B; expected more than 0",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "1:1: the file is empty; expected a header line with the names of the columns, and rows"),
        (b"bytes,t_s\n", "1:1: no rows; expected measured transfers below the header"),
        (b'"bytes,t_s\n1,1\n', "1:1: a quote that is not closed on its line; expected one row a line"),
        (
            b'bytes,t_s\n1,"1"2\n',
            "2:1: a stray quote or line end within a field; expected fields with commas between them",
        ),
        (
            b"\xef\xbb\xbfbytes,t_s\n1,1\n",
            "1:1: a UTF-8 byte order mark; expected plain UTF-8 (hint: save the file as UTF-8 without BOM)",
        ),
        (
            b"bytes,t_s\n1,\xff\n",
            "2:3: byte 0xff is not UTF-8; expected UTF-8 text (hint: save the file as UTF-8)",
        ),
        (b"bytes,t_s\n" + b"1,1\n" * (MAX_ROWS + 1), "10002:1: 10001 rows; expected at most 10000"),
    ],
)
def test_a_file_that_is_no_table(content: bytes, said: str) -> None:
    Path("t.csv").write_bytes(content)
    with pytest.raises(DeclarationProblems) as found:
        read_transfer_table(Path("t.csv"))
    assert str(found.value) == f"t.csv:{said}"


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(DeclarationProblems, match=r"none\.csv:1:1: does not exist; expected a CSV table of measured"):
        read_transfer_table(Path("none.csv"))


def test_windows_line_ends_do_not_matter() -> None:
    Path("t.csv").write_bytes(b"bytes,t_s\r\n1,2\r\n\r\n")
    assert len(read_transfer_table(Path("t.csv")).rows) == 1


def test_a_curve_has_the_median_of_repeats_and_their_largest_upper_time() -> None:
    read = table("bytes,t_ms,high_ms", "9,4,5", "5,3,3", "5,1,2", "5,2,7", "9,8,9")
    assert as_curve(read) == (
        CurvePoint(5, Fraction(2, 1000), Fraction(7, 1000)),
        CurvePoint(9, Fraction(6, 1000), Fraction(9, 1000)),
    )
    assert curve_text(as_curve(read)) == "5:0.002:0.007 9:0.006:0.009"


def test_sizes_of_a_curve_are_rounded_half_up_to_whole_bytes() -> None:
    assert curve_text(as_curve(table("kv_kib,t_s", "0.00146484375,1", "0.00244140625,2"))) == "2:1.0 3:2.0"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            ["8,1", "2,0.5", "4,1.5", "16,0.75"],
            [
                "t.csv:2:1: t_s: 8 bytes took 1.0 s, less than 1.5 s for 4 bytes on line 4; expected non-decreasing times "
                "(hint: repeat the measurement, or declare a fitted overhead and bandwidth)",
                "t.csv:5:1: t_s: 16 bytes took 0.75 s, less than 1.0 s for 8 bytes on line 2; expected non-decreasing times "
                "(hint: repeat the measurement, or declare a fitted overhead and bandwidth)",
            ],
        ),
        (
            ["8,1", "8,2"],
            ["t.csv:2:1: bytes: a single size; expected transfers of at least two sizes for a curve"],
        ),
        (["0.4,1", "8,2"], ["t.csv:2:1: bytes: rounds to 0 bytes; expected at least half a byte"]),
    ],
)
def test_a_table_that_is_no_curve(rows: list[str], said: list[str]) -> None:
    read = table("bytes,t_s", *rows)
    with pytest.raises(DeclarationProblems) as found:
        as_curve(read)
    assert str(found.value).splitlines() == said


def test_upper_times_of_a_curve_do_not_decrease_either() -> None:
    read = table("bytes,t_s,high_s", "1,1,5", "2,2,4")
    with pytest.raises(
        DeclarationProblems, match=r"t\.csv:3:1: high_s: 2 bytes took 4\.0 s, less than 5\.0 s for 1 by"
    ):
        as_curve(read)


steps = st.lists(
    st.tuples(st.integers(1, 10**12), st.floats(0, 1e3, allow_subnormal=False), st.floats(0, 10)),
    min_size=2,
    max_size=9,
)


@given(steps, st.booleans())
def test_a_curve_is_read_back_from_its_text(grown: list[tuple[int, float, float]], has_high: bool) -> None:
    points, size, time, most = [], 0, 1e-6, 0.0
    for more, longer, above in grown:
        size, time = size + more + size // 10**5, time + longer
        most = max(most, time + above)
        points.append(CurvePoint(size, Fraction(repr(time)), Fraction(repr(most)) if has_high else None))
    assert parse_curve(curve_text(tuple(points))) == tuple(points)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a:b",
        "1:2",
        "1:1.0",
        "1:1.0 1:2.0",
        "2:1.0 1:2.0",
        "1:2.0 2:1.0",
        "1:1 2:2",
        "01:1.0 2:2.0",
        "1:1.0  2:2.0",
        "0:1.0 1:2.0",
        "1:0.0 2:1.0",
        "1:nan 2:2.0",
        "1:1e999 2:1e999",
        "1:1.0:0.5 2:2.0:2.0",
        "1:1.0:3.0 2:1.0:2.0",
        "1:1.0:2.0:3.0 2:4.0",
    ],
)
def test_no_other_text_is_a_curve(text: str) -> None:
    with pytest.raises(ValueError, match=r"curve; expected|point of a curve"):
        parse_curve(text)


def test_a_published_table_is_a_curve(shared: Path) -> None:
    read = read_transfer_table(shared / "measurements" / "kv_transfer_qwen3_8b_8xroce.csv")
    assert read.notes == ("columns that are not read: prompt_tokens, source",)
    assert curve_text(as_curve(read)).startswith("18874368:0.00054 37748736:0.00061 ")


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("size,transfer_s", "rename size so that it names its unit"),
        ("payload_gb,p50", "rename p50 so that it names its unit"),
        (
            "bytes,t_s,p50_ms",
            "rename all but one of t_s, p50_ms so that only one of them names a unit of times",
        ),
        (
            "bytes,kv_mib,t_s",
            "rename all but one of bytes, kv_mib so that only one of them names a unit of sizes",
        ),
        (
            "bytes,t_s,high_s,p99_high_s",
            "rename all but one of high_s, p99_high_s so that only one of them names a unit of upper times",
        ),
        ("bytes,t_s,t_s", "rename all but one of t_s, t_s so that only one of them names a unit of times"),
    ],
)
def test_no_option_is_named_where_there_is_none(header: str, hint: str) -> None:
    row = ",".join("1" for _ in header.split(","))
    Path("t.csv").write_text(f"{header}\n{row}\n")
    with pytest.raises(DeclarationProblems) as found:
        read_transfer_table(Path("t.csv"))
    assert str(found.value).endswith(f"(hint: {hint})")
    assert "--" not in str(found.value)
