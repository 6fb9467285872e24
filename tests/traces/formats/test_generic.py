"""Logs of any shape, read by the columns that a cohort names."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations.problems import DeclarationProblems
from pipelines.declarations.typed import ColumnMap
from pipelines.traces.formats import parquet
from pipelines.traces.formats.generic import GENERIC
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile
from pipelines.traces.timestamps import UNITS_NS, parse_number
from pipelines.traces.trace_format import ReadOptions

Write = Callable[[str | bytes], Path]

SECONDS = ColumnMap("at", "s", "in", "out")
DATES = ColumnMap("at", "datetime", "in", "out")
LENGTHS = ColumnMap(None, None, "in", "out")
ALL = ColumnMap("at", "ms", "in", "out", "hit", "model", "lora", "class")
NESTED = ColumnMap("meta.at", "datetime", "usage.prompt_tokens", "usage.completion_tokens", model="meta.model")


def read(path: Path, columns: ColumnMap | None, **options: object) -> Log:
    said = LogOptions(reading=ReadOptions(columns=columns), **options)  # type: ignore[arg-type]
    return read_as(LogFile(path, "requests"), GENERIC, said)


def told(path: Path, columns: ColumnMap | None) -> list[str]:
    with pytest.raises(DeclarationProblems) as caught:
        read(path, columns)
    return str(caught.value).splitlines()


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes a Parquet file of the given columns."""

    def write(**columns: object) -> Path:
        path = tmp_path / "requests.parquet"
        pl.DataFrame(columns, strict=False).write_parquet(path)
        return path

    return write


def test_it_is_never_detected_and_never_guesses(log_file: Write) -> None:
    path = log_file("at,in,out\n0,1,2\n")
    assert not GENERIC.detect(LogFile(path, "x").head)
    assert told(path, None) == [
        "requests:1:1: a log of the format generic, and no columns are declared; expected requests.trace.columns in the "
        "cohort (hint: columns: {arrival: ..., unit: ..., prompt_tokens: ..., output_tokens: ...})"
    ]


@pytest.mark.parametrize(("unit", "second"), [("s", "1.5"), ("ms", "1500"), ("us", "1500000"), ("ns", "1500000000")])
def test_csv_in_every_unit(unit: str, second: str, log_file: Write) -> None:
    path = log_file(f"user,in,at,out\ncanary,5,0,1\ncanary,6,{second},2\n")
    log = read(path, ColumnMap("at", unit, "in", "out"))
    assert log.rows.rows() == [(0, 5, 1), (1_500_000_000, 6, 2)]
    assert "canary" not in repr(log)


def test_csv_with_all_columns_and_dates_and_without_arrivals(log_file: Write) -> None:
    path = log_file("at,in,out,hit,model,lora,class\n0,5,1,2,a,,1\n1.25,6,2,0,b,x,2\n")
    assert read(path, ALL).rows.select(
        "timestamp_ns", "cached_prompt_tokens", "model", "adapter", "priority"
    ).rows() == [
        (0, 2, "a", None, "1"),
        (1_250_000, 0, "b", "x", "2"),
    ]
    assert read(path, LENGTHS).rows.rows() == [(5, 1), (6, 2)]
    dated = log_file("at,in,out\n2024-05-10T00:00:00Z,1,1\n2024-05-10T00:00:01+00:00,1,1\n")
    assert read(dated, DATES).rows["timestamp_ns"].to_list() == [0, 10**9]


def test_a_column_that_is_not_there_is_told_with_those_that_are(log_file: Write, table: Callable[..., Path]) -> None:
    found = "at: no such column; found the columns when, in, out"
    assert told(log_file("when,in,out\n0,1,1\n"), SECONDS) == [f"requests:1:1: {found}"]
    assert told(table(**{"when": [0], "in": [1], "out": [1]}), SECONDS) == [f"requests:1:1: {found}"]


def line(at: object, prompt: object = 5, output: object = 1, **meta: object) -> str:
    return json.dumps({"meta": {"at": at, **meta}, "usage": {"prompt_tokens": prompt, "completion_tokens": output}})


def test_json_lines_are_read_by_dotted_paths(log_file: Write) -> None:
    path = log_file("\n".join([line("2024-05-10 00:00:00.5", model=" a "), line("2024-05-10 00:00:01", "6", model="")]))
    assert read(path, NESTED).rows.rows() == [(0, 5, 1, "a"), (500_000_000, 6, 1, None)]


def test_json_lines_with_and_without_an_offset_are_told_by_their_rows(log_file: Write) -> None:
    times = ["2024-05-10T00:00:00Z", "2024-05-10 00:00:01", "2024-05-10 00:00:02"]
    assert told(log_file("\n".join(map(line, times))), NESTED) == [
        "requests:2:1: meta.at: timestamps with a UTC offset in 1 row (row 1) and without one in 2 rows (rows 2, 3); "
        "expected all or none to state it"
    ]


def test_faults_of_json_lines(log_file: Write) -> None:
    good = line("2024-05-10 00:00:00")
    path = log_file(
        "\n".join([good, line(None), "{}", line("soon"), line("2024-05-10 00:00:00", -1), "[]", "", good, ""])
    )
    log = read(path, NESTED, on_invalid="drop")
    assert (log.rows.height, log.rows_read) == (2, 8)
    assert log.invalid.by_code() == {
        "time_empty": 2,
        "blank_line": 1,
        "not_json": 1,
        "prompt_tokens_negative": 1,
        "time_not_a_time": 1,
    }


@pytest.mark.parametrize("content", ['{\n "at": 0,\n "in": 1\n}\n', '[{"at": 0, "in": 1, "out": 1}]\n'])
def test_one_json_document_is_told_to_be_no_lines(content: str, log_file: Write) -> None:
    (first, *_) = told(log_file(content), SECONDS)
    assert "a line that is not a JSON object" in first


def test_parquet_reads_only_what_is_named(table: Callable[..., Path]) -> None:
    path = table(user=["canary", "canary"], **{"in": [5, 6], "out": [1, 2], "at": [0.0, 1.5]})
    log = read(path, SECONDS)
    assert log.rows.rows() == [(0, 5, 1), (1_500_000_000, 6, 2)]
    assert read(path, LENGTHS).rows.rows() == [(5, 1), (6, 2)]


@pytest.mark.parametrize(
    "at",
    [
        pl.Series([0, 1500], dtype=pl.Int32),
        pl.Series([7, 1507], dtype=pl.UInt64),
        pl.Series([0.5, 1500.5]),
        pl.Series([Decimal("0.25"), Decimal("1500.25")]),
        pl.Series(["0", " 1500 "]),
        pl.Series(["0", "1.5e3"], dtype=pl.Categorical),
        pl.Series([1_700_000_000_000, 1_700_000_001_500]),
    ],
    ids=lambda series: str(series.dtype),
)
def test_parquet_arrivals_that_are_numbers(at: pl.Series, table: Callable[..., Path]) -> None:
    path = table(
        at=at, hit=[0, 2], model=["a", None], lora=[" x", ""], **{"in": [5, 6], "out": [1, 2], "class": [1, 2]}
    )
    assert read(path, ALL).rows.rows() == [(0, 5, 1, 0, "a", "x", "1"), (1_500_000_000, 6, 2, 2, None, None, "2")]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_parquet_arrivals_that_are_dates(unit: str, zone: str | None, table: Callable[..., Path]) -> None:
    start = datetime(2024, 5, 10, tzinfo=UTC).replace(tzinfo=None)
    at = pl.Series([start, start + timedelta(milliseconds=1500)], dtype=pl.Datetime(unit))  # type: ignore[arg-type]
    at = at.dt.replace_time_zone(zone) if zone else at
    assert read(table(at=at, **{"in": [5, 6], "out": [1, 2]}), DATES).rows["timestamp_ns"].to_list() == [
        0,
        1_500_000_000,
    ]


def test_parquet_arrivals_that_are_the_text_of_dates(table: Callable[..., Path]) -> None:
    at = ["2024-05-10T00:00:00Z", "2024-05-10 00:00:01.5+00:00", " 2024-05-10T00:00:02Z "]
    log = read(table(at=at, **{"in": [5] * 3, "out": [1] * 3}), DATES)
    assert log.rows["timestamp_ns"].to_list() == [0, 1_500_000_000, 2_000_000_000]
    mixed = table(at=[*at, "2024-05-10 00:00:03"], **{"in": [5] * 4, "out": [1] * 4})
    (message,) = told(mixed, DATES)
    assert "with a UTC offset in 3 rows (rows 1, 2, 3) and without one in 1 row (row 4)" in message


@pytest.mark.parametrize(
    ("columns", "code", "row"),
    [
        ({"at": [0, None]}, "time_empty", 2),
        ({"at": [0.0, float("nan")]}, "time_not_a_time", 2),
        ({"at": [0, -1]}, "time_negative", 2),
        ({"at": [0, 2**40]}, "time_out_of_range", 2),
        ({"at": ["0", "soon"]}, "time_not_a_time", 2),
        ({"in": [None, 5]}, "prompt_tokens_empty", 1),
        ({"in": [5, 0]}, "prompt_tokens_zero", 2),
        ({"in": [5, -3]}, "prompt_tokens_negative", 2),
        ({"in": [5.0, 1.5]}, "prompt_tokens_not_whole", 2),
        ({"in": [5.0, float("nan")]}, "prompt_tokens_not_a_number", 2),
        ({"in": ["5", "x"]}, "prompt_tokens_not_a_number", 2),
        ({"out": [5, 2**31]}, "output_tokens_too_large", 2),
        ({"out": pl.Series([5, 2**64 - 1], dtype=pl.UInt64)}, "output_tokens_too_large", 2),
        ({"out": pl.Series([None, None, 1], dtype=pl.Int64)[:2]}, "output_tokens_empty", 1),
    ],
)
def test_faults_of_parquet_rows(columns: dict[str, object], code: str, row: int, table: Callable[..., Path]) -> None:
    path = table(**({"at": [0, 1], "in": [5, 6], "out": [1, 2]} | columns))
    if code == "output_tokens_empty":
        assert told(path, SECONDS)[0].startswith(
            "requests:1:1: out: a token count that is missing or null in 2 rows (rows 1, 2)"
        )
        return
    log = read(path, SECONDS, on_invalid="drop")
    assert (log.rows.height, log.invalid.by_code()) == (1, {code: 1})
    assert list(log.invalid.rows.values()) == [[row]]


@pytest.mark.parametrize(
    ("columns", "declared", "message"),
    [
        (
            {"at": [date(2024, 5, 10)]},
            DATES,
            "at: a column of the type date; expected dates with times, or unit: s, ms, us or ns for numbers",
        ),
        (
            {"at": [datetime(2024, 5, 10)]},
            SECONDS,
            "at: a column of the type datetime; expected numbers of s, or unit: datetime for dates with times",
        ),
        (
            {"at": [5]},
            DATES,
            "at: a column of the type int64; expected dates with times, or unit: s, ms, us or ns for numbers",
        ),
        ({"in": [[1, 2]]}, SECONDS, "in: a column of the type list; expected whole numbers of tokens"),
        ({"in": [True]}, SECONDS, "in: a column of the type boolean; expected whole numbers of tokens"),
    ],
)
def test_a_parquet_column_of_another_type_is_told(
    columns: dict[str, object], declared: ColumnMap, message: str, table: Callable[..., Path]
) -> None:
    path = table(**({"at": [0], "in": [5], "out": [1]} | columns))
    assert f"requests:1:1: {message}" in told(path, declared)


def test_parquet_is_read_a_slice_at_a_time(table: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = table(at=list(range(10)), out=[1] * 10, **{"in": [5, 5, 5, 0, 5, 5, 0, 5, 5, 5]})
    monkeypatch.setattr(parquet, "ROWS_AT_ONCE", 3)
    log = read(path, SECONDS, on_invalid="drop")
    assert log.rows["timestamp_ns"].to_list() == [at * 10**9 for at in (0, 1, 2, 4, 5, 7, 8, 9)]
    assert list(log.invalid.rows.values()) == [[4, 7]]


@given(
    values=st.lists(st.floats(0, 4e9) | st.floats(0, 1) | st.sampled_from([1e-7, 199.96150599999999, 1e9]), min_size=1),
    unit=st.sampled_from(["s", "ms", "us", "ns"]),
)
def test_a_floating_point_arrival_is_the_same_time_in_parquet_as_in_json(
    values: list[float], unit: str, tmp_path: Path
) -> None:
    path = tmp_path / "requests.parquet"
    values = sorted(values)
    pl.DataFrame({"at": values, "in": [1] * len(values), "out": [1] * len(values)}).write_parquet(path)
    expected = [parse_number(value, UNITS_NS[unit]) for value in values]
    first = expected[0]
    assert isinstance(first, int)
    found = read(path, ColumnMap("at", unit, "in", "out")).rows["timestamp_ns"].to_list()
    assert found == [one - first for one in expected if isinstance(one, int)]


def test_a_damaged_parquet_file_is_told(table: Callable[..., Path]) -> None:
    path = table(**{"at": list(range(1000)), "in": [5] * 1000, "out": [1] * 1000})
    whole = path.read_bytes()
    message = (
        "requests:1:1: a Parquet file that is cut off or damaged; expected a whole one (hint: was the file copied to its "
        "end? Parquet is compressed within: it is read without gzip or zstd around it)"
    )
    for content in (whole[:-20], whole[: len(whole) // 2], b"PAR1", whole[:4] + bytes(50) + whole[54:]):
        path.write_bytes(content)
        assert told(path, SECONDS) == [message]


def test_names_of_columns_are_names_and_no_patterns(tmp_path: Path) -> None:
    path = tmp_path / "requests"
    pl.DataFrame({"ts": [0, 1], "in": [10, 20], "out": [1, 2], "^in$": [7, 8], "*": [3, 4]}).write_parquet(path)
    columns = ColumnMap("ts", "s", "^in$", "*")
    log = read_as(LogFile(path, "requests"), GENERIC, LogOptions(reading=ReadOptions(columns)))
    assert log.rows.rows() == [(0, 7, 3), (10**9, 8, 4)]
