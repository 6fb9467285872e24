"""Quantities are read exactly, round-trip, and mistakes are named as what they probably are."""

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations.units import (
    BANDWIDTHS,
    REQUEST_RATES,
    SIZES,
    TIMES,
    QuantityError,
    Unit,
    exact,
    exact_decimal,
    si,
    whole_ns,
    within,
)

TABLES: tuple[tuple[Unit, Mapping[str, Fraction]], ...] = (
    ("s", TIMES),
    ("B", SIZES),
    ("B/s", BANDWIDTHS),
    ("requests/s", REQUEST_RATES),
)
DIMENSIONS = [(unit, name) for unit, table in TABLES for name in table]
UNITS: tuple[Unit, ...] = ("s", "B", "B/s", "requests/s", "ratio", "count", "tokens/s")
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
        ("3.2/s", "requests/s", 3.2),
        ("3.2 req/s", "requests/s", 3.2),
        ("192/min", "requests/s", 3.2),
        ("11520 requests/h", "requests/s", 3.2),
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
        ("3 s", "requests/s", "did you mean /s?"),
        ("3 rps", "requests/s", "did you mean req/s?"),
        ("3 1/s", "requests/s", "did you mean /s?"),
        ("180 rpm", "requests/s", "did you mean req/min?"),
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


@given(nanoseconds=st.integers(min_value=1, max_value=2**63 - 1))
def test_times_are_kept_to_the_nanosecond(nanoseconds: int) -> None:
    assert whole_ns(f"{nanoseconds} ns", "", "positive") == nanoseconds
    assert whole_ns(f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09} s", "", "positive") == nanoseconds


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("0.5 ns", "0.5 ns is not a whole number of nanoseconds"),
        ("300000000000 min", "is more than 292 years"),
        ("0 s", "is zero"),
        ("-1 s", "is negative"),
        (5, "has no unit"),
    ],
)
def test_a_time_that_no_log_can_hold_is_refused(raw: object, said: str) -> None:
    with pytest.raises(QuantityError, match=said):
        whole_ns(raw, str(raw), "positive")


@pytest.mark.parametrize("written", ["1e-25", "1e25", "1." + "3" * 50])
def test_a_factor_that_nobody_means_is_refused(written: str) -> None:
    with pytest.raises(QuantityError):
        exact_decimal(float(written), written)


@given(number=decimals.filter(bool))
def test_a_factor_is_the_decimal_that_is_written(number: object) -> None:
    assert exact_decimal(float(str(number)), str(number)) == Fraction(str(number))


def test_a_zero_is_read_at_once_however_it_is_written() -> None:
    assert exact_decimal(0.0, "0e-99999999") == 0


def test_the_whole_is_no_ratio_below_one() -> None:
    within(Fraction(0), "below_one", "ratio", "0")
    with pytest.raises(QuantityError, match="expected a ratio below 1"):
        within(Fraction(1), "below_one", "ratio", "1")


def test_a_percentage_is_told_from_a_ratio() -> None:
    with pytest.raises(QuantityError) as caught:
        within(Fraction(99), "share", "ratio", "99")
    assert caught.value.hint == "99 is a percentage? write 0.99 or 99 %"
