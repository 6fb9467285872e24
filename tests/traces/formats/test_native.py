"""The project's own format: what is written is read again, to the nanosecond, in each of its forms."""

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces import export
from pipelines.traces.export import SUFFIXES, write_requests
from pipelines.traces.formats.native import PHASELEDGER
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile

Write = Callable[[str | bytes], Path]

CENTURY_NS = 100 * 366 * 86_400 * 10**9
SCHEMA = {
    "timestamp_ns": pl.Int64,
    "prompt_tokens": pl.Int32,
    "cached_prompt_tokens": pl.Int32,
    "output_tokens": pl.Int32,
    "model": pl.String,
    "adapter": pl.String,
    "priority": pl.String,
}
COUNTS = list(SCHEMA)[:4]
FEW = pl.DataFrame(
    [
        (0, 4808, 0, 10, "gpt-4", None, "1"),
        (1, 7, 3, 1, None, "a, b", "1"),
        (1_500_000_000, 7, 6, 1, 'say "no"', "two\nlines", "low"),
        (9_007_199_254_740_993, 2**31 - 1, 0, 2**31 - 1, "模型", "null", "007"),
    ],
    schema=SCHEMA,
    orient="row",
)


def read(path: Path, **options: object) -> Log:
    return read_as(LogFile(path, path.name), PHASELEDGER, LogOptions(**options))  # type: ignore[arg-type]


def in_order_of(rows: pl.DataFrame, names: list[str]) -> list[tuple[object, ...]]:
    return rows.select(names).rows()


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "names", [COUNTS, [*COUNTS, "model"], list(SCHEMA), ["timestamp_ns", "prompt_tokens", "output_tokens"]]
)
def test_what_is_written_is_read_again(suffix: str, names: list[str], tmp_path: Path) -> None:
    path = tmp_path / f"requests{suffix}"
    write_requests(FEW.select(names), path)
    assert PHASELEDGER.detect(LogFile(path, "x").head)
    log = read(path)
    assert set(log.rows.columns) == set(names)
    assert in_order_of(log.rows, names) == in_order_of(FEW, names)
    assert not log.invalid
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def requests() -> st.SearchStrategy[pl.DataFrame]:
    # what a log in CSV can hold: a name has no space around it, and is not empty
    name = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(str.strip).map(
        lambda text: text or None
    )
    count = st.integers(1, 2**31 - 1)
    row = st.tuples(st.integers(0, CENTURY_NS), count, st.just(0), count, name, name, name)
    return st.lists(row, min_size=1, max_size=6).map(
        lambda rows: pl.DataFrame(
            [(0, *rows[0][1:]), *sorted(rows, key=lambda one: one[0])], schema=SCHEMA, orient="row"
        )
    )


@given(rows=requests(), suffix=st.sampled_from([".csv", ".jsonl", ".parquet", ".csv.gz", ".jsonl.zst"]))
@example(rows=FEW.with_columns(model=pl.lit("a\rb"), adapter=pl.lit('"'), priority=pl.lit("\x00")), suffix=".csv")
def test_any_requests_come_back(rows: pl.DataFrame, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"requests{suffix}"
    write_requests(rows, path)
    said = rows.select(name for name in SCHEMA if name in COUNTS or rows[name].null_count() < rows.height)
    assert in_order_of(read(path).rows, said.columns) == said.rows()


@pytest.mark.parametrize("suffix", [".csv", ".jsonl.gz", ".parquet"])
def test_a_log_is_written_in_slices(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_ROWS_AT_ONCE", 3)
    rows = pl.concat([FEW, FEW]).sort("timestamp_ns", maintain_order=True)
    write_requests(rows, tmp_path / f"requests{suffix}")
    assert in_order_of(read(tmp_path / f"requests{suffix}").rows, list(SCHEMA)) == rows.rows()


def test_the_text_is_as_said(tmp_path: Path) -> None:
    write_requests(FEW.head(3).drop("adapter"), tmp_path / "requests.csv")
    assert (tmp_path / "requests.csv").read_text() == (
        "arrival_s,prompt_tokens,cached_prompt_tokens,output_tokens,model,priority\n"
        '0,4808,0,10,gpt-4,1\n0.000000001,7,3,1,,1\n1.5,7,6,1,"say ""no""",low\n'
    )
    write_requests(FEW.tail(1).select(*COUNTS, "model"), tmp_path / "requests.jsonl")
    assert json.loads((tmp_path / "requests.jsonl").read_text()) == {
        "arrival_s": "9007199.254740993",
        "prompt_tokens": 2147483647,
        "cached_prompt_tokens": 0,
        "output_tokens": 2147483647,
        "model": "模型",
    }
    write_requests(FEW, tmp_path / "requests.parquet")
    arrivals = pl.read_parquet(tmp_path / "requests.parquet")["arrival_s"]
    assert arrivals.dtype == pl.Decimal(19, 9)
    assert arrivals.to_list()[-1] == Decimal("9007199.254740993")


def test_the_same_requests_make_the_same_packed_file(tmp_path: Path) -> None:
    for name in ("one.csv.gz", "two.csv.gz"):
        write_requests(FEW, tmp_path / name)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


@pytest.mark.parametrize(
    "name", ["requests", "requests.tsv", "requests.parquet.gz", "requests.csv.bz2", "requests.csv "]
)
def test_another_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"\.csv, \.csv\.gz, \.csv\.zst, \.jsonl, \.jsonl\.gz, \.jsonl\.zst, \.parquet"
    ):
        write_requests(FEW, tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".csv", ".jsonl.zst", ".parquet"])
def test_a_place_that_cannot_be_written_is_an_error_of_the_system(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        write_requests(FEW, tmp_path / "none" / f"requests{suffix}")


def test_a_file_stays_as_it_was_where_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("as it was")
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        write_requests(FEW.drop("timestamp_ns"), path)
    assert path.read_text() == "as it was"
    assert [one.name for one in tmp_path.iterdir()] == ["requests.csv"]


@pytest.mark.parametrize("arrivals", [("0.5", "1.000000001"), (0.5, 1.000000001), ("0.5", 1.000000001)])
def test_arrivals_of_json_lines_are_text_or_numbers(arrivals: tuple[object, object], log_file: Write) -> None:
    lines = [{"arrival_s": one, "prompt_tokens": 5, "output_tokens": 1, "user": "canary"} for one in arrivals]
    log = read(log_file("\n".join(map(json.dumps, lines))))
    assert log.rows.rows() == [(0, 5, 1), (500_000_001, 5, 1)]


def test_a_missing_arrival_is_no_arrival_at_0(log_file: Write) -> None:
    first = '{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 1}\n'
    with pytest.raises(DeclarationProblems, match="arrival_s: a timestamp that is missing or null in 2 rows"):
        read(log_file(f'{first}{{"prompt_tokens": 5, "output_tokens": 1}}\n{first.replace("1,", "null,", 1)}'))


def test_a_field_that_the_first_record_does_not_have_is_said_not_to_be_read(log_file: Write) -> None:
    first = '{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 1}\n'
    log = read(log_file(first + first.replace("{", '{"model": "gpt-4", ')))
    assert log.warnings == ("model is in some records and not in the first, which decides: it was not read",)
    assert "model" not in log.rows.columns


def test_parquet_of_another_shape_is_told_what_to_declare(tmp_path: Path) -> None:
    path = tmp_path / "requests.parquet"
    pl.DataFrame({"when": [1], "prompt": [2], "secret prompt: canary canary canary canary canary": [3]}).write_parquet(
        path
    )
    with pytest.raises(DeclarationProblems) as caught:
        read(path)
    assert str(caught.value) == (
        "requests.parquet:1:1: a Parquet file with the columns when, prompt, (another name); expected arrival_s, "
        "prompt_tokens, output_tokens (hint: or format: generic, and in requests.trace.columns which column holds what)"
    )


def test_packed_csv_without_the_optional_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "requests"
    path.write_bytes(gzip.compress(b"output_tokens,arrival_s,prompt_tokens\n1,0.25,5\n2,0.5,6\n"))
    assert read(path).rows.rows() == [(0, 5, 1), (250_000_000, 6, 2)]
