"""Quantities are read exactly, round-trip, and mistakes are named as what they probably are."""

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations.units import BANDWIDTHS, SIZES, TIMES, QuantityError, Unit, exact, si, within

TABLES: tuple[tuple[Unit, Mapping[str, Fraction]], ...] = (("s", TIMES), ("B", SIZES), ("B/s", BANDWIDTHS))
DIMENSIONS = [(unit, name) for unit, table in TABLES for name in table]
UNITS: tuple[Unit, ...] = ("s", "B", "B/s", "ratio", "count", "tokens/s")
decimals = st.decimals(min_value=0, max_value=10**9, allow_nan=False, allow_infinity=False, places=6)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("8 ms", "s", 0.008),
        ("0.1 ms", "s", 0.0001),
        ("3 us", "s", 3e-6),
        ("3 µs", "s", 3e-6),
        ("3 μs", "s", 3e-6),
        ("1.5 min", "s", 90.0),
        ("2 h", "s", 7200.0),
        ("7 ns", "s", 7e-9),
        ("16 GiB", "B", 16 * 2.0**30),
        ("80GB", "B", 80e9),
        ("512 KiB", "B", 524288.0),
        ("21 GB/s", "B/s", 21e9),
        ("21 GBps", "B/s", 21e9),
        ("400 Gbit/s", "B/s", 50e9),
        ("400 Gbps", "B/s", 50e9),
        ("400 Gb/s", "B/s", 50e9),
        ("0.8 Tbit/s", "B/s", 100e9),
        ("2e1 GiB/s", "B/s", 20 * 2.0**30),
        ("80 %", "ratio", 0.8),
        ("99.9%", "ratio", 0.999),
        (0.8, "ratio", 0.8),
        (11800, "tokens/s", 11800.0),
        (3e-12, "s/token^2", 3e-12),
        (256, "count", 256.0),
        (256.0, "count", 256.0),
    ],
)
def test_a_quantity_is_the_nearest_double_of_what_is_written(text: object, unit: Unit, value: float) -> None:
    assert si(text, unit) == value


@given(number=decimals, dimension=st.sampled_from(DIMENSIONS), space=st.sampled_from(["", " ", "  "]))
def test_a_number_and_a_unit_multiply_exactly(number: object, dimension: tuple[Unit, str], space: str) -> None:
    unit, name = dimension
    one = exact(f"1 {name}", unit)
    assert exact(f"{number}{space}{name}", unit) == Fraction(str(number)) * one


@given(seconds=st.floats(min_value=1e-12, max_value=1e12), dimension=st.sampled_from(DIMENSIONS))
def test_a_figure_survives_being_written_in_its_si_unit(seconds: float, dimension: tuple[Unit, str]) -> None:
    unit, _ = dimension
    assert si(f"{seconds!r} {unit}", unit) == seconds


@given(number=st.integers(min_value=1, max_value=10**6))
def test_equal_quantities_in_two_units_are_equal(number: int) -> None:
    assert si(f"{number} ms", "s") == si(f"{number * 1000} us", "s")
    assert si(f"{8 * number} Gbit/s", "B/s") == si(f"{number} GB/s", "B/s")
    assert si(f"{number} GiB", "B") == si(f"{number * 1024} MiB", "B")


def said_of(raw: object, unit: Unit) -> str | None:
    try:
        exact(raw, unit)
    except QuantityError as error:
        return error.message
    return None


@given(raw=st.one_of(st.text(max_size=20), st.floats(), st.integers(), st.booleans(), st.none()))
def test_anything_else_is_a_quantity_error(raw: object) -> None:
    if isinstance(raw, float) and (raw != raw or abs(raw) == float("inf")):
        return  # the reader of YAML has refused these before
    for unit in UNITS:
        said = said_of(raw, unit)
        assert said is None or ("expected" in said and said.isprintable())


@pytest.mark.parametrize(
    ("raw", "unit", "hint"),
    [
        ("5 m", "s", "min is minutes, ms is milliseconds"),
        ("5 M", "s", "min is minutes, ms is milliseconds"),
        ("5 secs", "s", "did you mean s?"),
        ("5 Ms", "s", "did you mean ms?"),
        ("5 gb/s", "B/s", "GB/s is bytes, Gbit/s is bits"),
        ("5 mbps", "B/s", "MB/s is bytes, Mbit/s is bits"),
        ("5 GB", "B/s", "did you mean GB/s?"),
        ("5 Gbit", "B/s", "did you mean Gbit/s?"),
        ("5 Gbit", "B", "GB is bytes"),
        ("5 G", "B", "GB is decimal, GiB is binary"),
        ("5 Gi", "B", "did you mean GiB?"),
        ("5 bytes", "B", "did you mean B?"),
        ("11800 tokens/s", "tokens/s", "write 11800: the key names the unit"),
        ("0.8", "ratio", "write 0.8 without quotes"),
    ],
)
def test_a_likely_mistake_is_named(raw: str, unit: Unit, hint: str) -> None:
    with pytest.raises(QuantityError) as caught:
        exact(raw, unit)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "raw", ["1e9999999999 s", "9" * 200 + " s", "1e30 s", "1e-30 s", "1_000 s", "1,5 s", "nan s", "inf s"]
)
def test_numbers_nobody_means_are_refused_at_once(raw: str) -> None:
    with pytest.raises(QuantityError):
        exact(raw, "s")


def test_a_percentage_is_told_from_a_ratio() -> None:
    with pytest.raises(QuantityError) as caught:
        within(Fraction(99), "share", "ratio", "99")
    assert caught.value.hint == "99 is a percentage? write 0.99 or 99 %"
