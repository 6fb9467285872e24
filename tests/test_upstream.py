"""What we assume of polars and pandera, so that an upgrade that breaks it says so here."""

from io import BytesIO
from pathlib import Path
from typing import Literal

import pandera.polars as pa
import polars as pl
import pytest
from pandera.errors import SchemaError, SchemaErrors


class Positive(pa.DataFrameModel):
    tokens: int = pa.Field(ge=1)

    class Config:
        strict = True


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_sums_128_bit_integers_exactly(engine: Literal["in-memory", "streaming"]) -> None:
    wide = pl.col("n").cast(pl.Int128)
    frame = pl.LazyFrame({"k": [0, 1] * 500, "n": [2**57 - 1, 2**56 + 1] * 500})
    total = frame.select((wide * wide).sum()).collect(engine=engine).item()
    by_group = dict(frame.group_by("k").agg((wide * wide).sum()).collect(engine=engine).iter_rows())
    assert by_group == {0: 500 * (2**57 - 1) ** 2, 1: 500 * (2**56 + 1) ** 2}
    assert total == sum(by_group.values())


def test_polars_wraps_beyond_128_bits_without_a_word() -> None:
    """Why token counts have an upper limit."""
    wide = pl.Series([2**62] * 8, dtype=pl.Int64).cast(pl.Int128)
    assert (wide * wide).sum() == -(2**127)


def test_polars_multi_column_sort_orders_ties() -> None:
    frame = pl.DataFrame({"a": [1, 0, 1, 0], "b": [2, 9, 1, 3]})
    assert frame.sort("a", "b").rows() == [(0, 3), (0, 9), (1, 1), (1, 2)]


def test_polars_parquet_returns_what_was_written_and_the_same_bytes(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"i": [1, None, 2**62], "f": [0.1, None, 1e300], "s": ["", None, "ü"], "b": [True, None, False]},
        schema={"i": pl.Int64, "f": pl.Float64, "s": pl.String, "b": pl.Boolean},
    )
    for name in ("one", "two"):
        frame.write_parquet(tmp_path / name)
    assert pl.read_parquet(tmp_path / "one").equals(frame)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_polars_csv_refuses_integers_that_are_not_written_as_such() -> None:
    for cell in ("1.0", "1e3", "x", "9223372036854775808"):
        with pytest.raises(pl.exceptions.PolarsError):
            pl.read_csv(BytesIO(f"n,m\n{cell},1\n".encode()), columns=["n"], schema_overrides={"n": pl.Int64})


def test_polars_csv_hides_ragged_rows_when_it_reads_some_columns() -> None:
    """Why the log reader counts the fields of every line itself."""
    table = pl.read_csv(BytesIO(b"n,m\n1\n2,3,4\n"), columns=["n"])
    assert table.rows() == [(1,), (2,)]


@pytest.mark.parametrize(
    ("text", "ns"), [("03", 0), ("03.1", 100_000_000), ("03.1234567", 123_456_700), ("03.123456789", 123_456_789)]
)
def test_polars_reads_fractions_of_any_length(text: str, ns: int) -> None:
    column = pl.Series([f"2023-11-16 18:17:{text}"])
    read = column.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="ns").to_physical().item()
    assert read % 10**9 == ns


def test_pandera_checks_values_of_an_eager_frame() -> None:
    with pytest.raises(SchemaError):
        Positive.validate(pl.DataFrame({"tokens": [1, 0]}))
    with pytest.raises(SchemaErrors):
        Positive.validate(pl.DataFrame({"tokens": [1, 0]}), lazy=True)


def test_pandera_refuses_unknown_columns_nulls_and_other_types() -> None:
    bad_frames = (
        pl.DataFrame({"tokens": [1], "text": ["a"]}),
        pl.DataFrame({"tokens": [1, None]}),
        pl.DataFrame({"tokens": [1.0]}),
        pl.DataFrame({"tokens": [1]}, schema={"tokens": pl.Int32}),
    )
    for frame in bad_frames:
        with pytest.raises(SchemaError):
            Positive.validate(frame)


def test_pandera_does_not_check_values_of_a_lazy_frame() -> None:
    """Why frames are validated eagerly."""
    assert Positive.validate(pl.LazyFrame({"tokens": [1, 0]})).collect().height == 2


def test_pandera_keeps_the_metadata_of_a_column() -> None:
    class Documented(pa.DataFrameModel):
        tokens: int = pa.Field(title="T", description="D", metadata={"unit": "tokens", "meaning": "M"})

    column = Documented.to_schema().columns["tokens"]
    assert (column.title, column.description, column.metadata) == ("T", "D", {"unit": "tokens", "meaning": "M"})
