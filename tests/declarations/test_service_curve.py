"""Measured service curves are read exactly, and their text says all of them."""

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations import Cohort, load_cohort
from pipelines.declarations.service_curve import (
    LARGEST_SIZE,
    MOST_POINTS,
    ServicePoint,
    parse_points,
    service_curve_text,
)

GOOD = Path(__file__).parent / "good"


def with_table(directory: Path, name: str, text: str) -> Cohort:
    for file in ("requests.csv", "prefill.csv", "decode.csv"):
        (directory / file).write_bytes((GOOD / file).read_bytes())
    (directory / "cohort.yaml").write_bytes((GOOD / "routed.yaml").read_bytes())
    (directory / name).write_text(text, encoding="utf-8")
    return load_cohort(directory)


def curve(cohort: Cohort, phase: str) -> str:
    return next(str(row.value) for row in cohort.inputs if row.path == f"service.{phase}.curve")


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("tokens,ms\n512,50\n1,0.1\n", "1:0.0001 512:0.05"),
        ("tokens,seconds\n512,0.05\n1024,0.05\n", "512:0.05 1024:0.05"),
        ("seconds_high,tokens,seconds\n0.06,512,0.05\n0.06,1024,0.06\n", "512:0.05:0.06 1024:0.06:0.06"),
        ("tokens,ms,seconds_high\n512.0,50,0.06\n1024,60,0.07\n", "512:0.05:0.06 1024:0.06:0.07"),
        ('tokens,ms,p50_ms,note\n512,50,1,"a, b"\n\n1024,60,,\n', "512:0.05 1024:0.06"),
    ],
)
def test_a_table_becomes_the_points_of_the_inputs_table(table: str, text: str, tmp_path: Path) -> None:
    assert curve(with_table(tmp_path, "prefill.csv", table), "prefill") == text


def test_a_decode_curve_is_by_sequences(tmp_path: Path) -> None:
    cohort = with_table(tmp_path, "decode.csv", "tokens,sequences,ms\n9,8,15\n9,1,12\n")
    assert curve(cohort, "decode") == "1:0.012 8:0.015"


def test_a_curve_may_have_as_many_points_as_a_receipt_holds(tmp_path: Path) -> None:
    rows = "".join(f"{size},{size + 10}\n" for size in range(1, MOST_POINTS + 1))
    cohort = with_table(tmp_path, "decode.csv", f"sequences,ms\n{rows}")
    assert len(parse_points(curve(cohort, "decode"))) == MOST_POINTS


@st.composite
def curves(draw: st.DrawFn) -> tuple[ServicePoint, ...]:
    sizes = sorted(draw(st.sets(st.integers(1, LARGEST_SIZE), min_size=2, max_size=8)))
    times = sorted(draw(st.lists(st.integers(1, 10**6), min_size=len(sizes), max_size=len(sizes))))
    more = draw(st.none() | st.integers(0, 1000))
    return tuple(
        ServicePoint(size, Fraction(time, 1000), None if more is None else Fraction(time + more, 1000))
        for size, time in zip(sizes, times, strict=True)
    )


@given(points=curves())
def test_the_text_of_a_curve_is_read_back_exactly(points: tuple[ServicePoint, ...]) -> None:
    read = parse_points(service_curve_text(points))
    assert read == points
    assert all(one.size < other.size and one.seconds <= other.seconds for one, other in pairwise(read))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "512:0.05",
        "512:0.05  1024:0.06",
        "512:0.05 512:0.06",
        "1024:0.05 512:0.06",
        "512:0.06 1024:0.05",
        "512:0.05 1024:0.060",
        "512:5e-2 1024:0.06",
        "0:0.05 1024:0.06",
        "-1:0.05 1024:0.06",
        "512:-0.05 1024:0.06",
        "512:0.0 1024:0.06",
        "512:0.05:0.04 1024:0.06:0.07",
        "512:0.05:0.08 1024:0.06:0.07",
        "512:0.05:0.06 1024:0.06",
        "512:0.05:0.06:0.07 1024:0.06",
        "512:0.05 1024:1e+16",
        "512:nan 1024:0.06",
        "512:0.05 3000000000:0.06",
        "٥:0.05 1024:0.06",
    ],
)
def test_any_other_text_is_no_curve(text: str) -> None:
    with pytest.raises(ValueError, match=r"no point of a curve|not a canonical curve"):
        parse_points(text)
