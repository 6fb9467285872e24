"""An overhead and a bandwidth from measured transfers: by hand, by law, and on a published table."""

import random
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.arithmetic.transfer_fit import (
    AFFINE_MISLEADS,
    CONSTANT_MISLEADS,
    FitError,
    TransferFit,
    fit_transfers,
    likely_mistake,
)
from pipelines.declarations.transfer_table import TransferRow, read_transfer_table


def row(size: int | Fraction, seconds: int | str | Fraction, high: int | str | Fraction | None = None) -> TransferRow:
    return TransferRow(Fraction(size), Fraction(seconds), None if high is None else Fraction(high), 1)


def fit_of(*points: tuple[int, int | str]) -> TransferFit:
    return fit_transfers([row(size, seconds) for size, seconds in points])


def test_two_points_by_hand() -> None:
    fit = fit_of((1000, "0.002"), (3000, "0.004"))
    assert (fit.overhead_s, fit.bandwidth) == (Fraction(1, 1000), 10**6)
    assert [point.residual for point in fit.points] == [0, 0]
    assert (fit.stretch, fit.overhead_high_s, fit.bandwidth_low) == (1, Fraction(1, 1000), 10**6)
    assert fit.half_performance_bytes == 1000  # 1 ms of payload
    assert fit.is_exact_by_count
    assert fit.curvature is None


def test_three_points_by_hand() -> None:
    """Weights 1, 1/4, 1/16: Σw = 21/16, Σwx = 37/16, Σwt = 28/16, Σwx² = 133/16, Σwxt = 76/16."""
    fit = fit_of((1, 1), (3, 2), (9, 4))
    assert (fit.overhead_s, 1 / fit.bandwidth) == (Fraction(57, 89), Fraction(35, 89))  # (21·76 − 37·28)/(21·133 − 37²)
    assert [point.fitted_s for point in fit.points] == [Fraction(92, 89), Fraction(162, 89), Fraction(372, 89)]
    assert [point.residual for point in fit.points] == [Fraction(-3, 89), Fraction(8, 89), Fraction(-4, 89)]
    assert (fit.largest_residual, fit.median_residual) == (Fraction(8, 89), Fraction(4, 89))
    assert (fit.stretch, fit.overhead_high_s, fit.bandwidth_low) == (
        Fraction(89, 81),
        Fraction(57, 81),
        Fraction(81, 35),
    )
    assert fit.half_performance_bytes == Fraction(57, 35)
    assert (fit.curvature, fit.bounded, fit.is_exact_by_count) == ("downward", False, False)


def test_one_bandwidth_from_either_end_by_hand() -> None:
    fit = fit_of((1, 1), (3, 2), (9, 4))
    largest, smallest = fit.of_largest, fit.of_smallest
    assert (largest.bandwidth, largest.says_s, largest.measured_s) == (Fraction(9, 4), Fraction(4, 9), 1)
    assert (smallest.bandwidth, smallest.says_s, smallest.measured_s) == (1, 9, 4)
    assert (largest.wrong_by, smallest.wrong_by, largest.most_wrong_by) == (Fraction(9, 4),) * 3


def test_a_bandwidth_may_be_most_wrong_between_the_ends() -> None:
    fit = fit_of((1, 1), (2, 6), (4, 4))
    assert (fit.of_largest.wrong_by, fit.of_largest.most_wrong_by) == (1, 3)


def test_an_overhead_below_zero_is_bound_to_zero() -> None:
    """Σw(x, t) of 1, 2, 3 and 1, 2, 4: the line has o = −70/231, so the slope is Σwxt/Σwx² = 44/41."""
    fit = fit_of((1, 1), (2, 2), (3, 4))
    assert (fit.overhead_s, 1 / fit.bandwidth, fit.bounded) == (0, Fraction(44, 41), True)
    assert fit.curvature == "upward"
    assert fit.overhead_high_s == 0


def test_two_points_below_an_overhead_of_zero_are_not_exact() -> None:
    fit = fit_of((1, 1), (2, 4))
    assert fit.bounded
    assert not fit.is_exact_by_count
    assert fit.largest_residual > 0


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([], "no transfers; expected at least two sizes for an overhead and a bandwidth"),
        ([(5, 1)], "transfers of a single size; expected at least two sizes for an overhead and a bandwidth"),
        ([(5, 1), (5, 2)], "transfers of a single size; expected at least two sizes for an overhead and a bandwidth"),
        ([(1, 2), (2, 1)], "times that do not grow with bytes; expected larger transfers to take longer"),
        ([(1, 1), (2, 1)], "times that do not grow with bytes; expected larger transfers to take longer"),
    ],
)
def test_measurements_without_a_line_are_refused(points: list[tuple[int, int]], said: str) -> None:
    with pytest.raises(FitError) as found:
        fit_of(*points)
    assert found.value.message == said


def test_repeats_are_kept_each_with_its_residual() -> None:
    fit = fit_of((4, 3), (1, 1), (1, 2))
    assert [(point.bytes, point.measured_s) for point in fit.points] == [(1, 1), (1, 2), (4, 3)]
    assert fit.sizes == 2
    assert fit.points[0].residual < 0 < fit.points[1].residual
    assert fit.of_smallest.bandwidth == Fraction(2, 3)  # 1 byte in the median of 1 and 2 s


def test_the_conservative_line_covers_upper_times() -> None:
    fit = fit_transfers([row(1000, "0.002", "0.0025"), row(3000, "0.004", "0.006")])
    assert fit.stretch == Fraction(3, 2)
    assert (fit.overhead_high_s, fit.bandwidth_low) == (Fraction(3, 2000), Fraction(2 * 10**6, 3))


def test_thresholds_are_passed_not_reached() -> None:
    exactly = fit_of((1, 1), (5, 4))
    assert exactly.of_largest.most_wrong_by == CONSTANT_MISLEADS
    assert not exactly.constant_misleads
    assert fit_of((1, 1), (6, 4)).constant_misleads
    assert fit_of((1, 1), (3, 2), (9, 4)).largest_residual < AFFINE_MISLEADS
    assert not fit_of((1, 1), (3, 2), (9, 4)).affine_misleads  # 8/89
    assert fit_of((1, 1), (3, 2), (27, 4)).affine_misleads


sizes = st.lists(st.integers(1, 10**12), min_size=2, max_size=8, unique=True)
times = st.decimals(min_value=0, max_value=10, places=7, allow_nan=False).map(Fraction)
slopes = st.integers(1, 10**12).map(lambda bandwidth: Fraction(1, bandwidth))
measured = st.lists(
    st.tuples(st.integers(1, 10**10), st.decimals("0.0001", "9", places=6).map(Fraction)), min_size=2, max_size=12
)


def fitted_or_none(points: list[tuple[int, Fraction]]) -> TransferFit | None:
    try:
        return fit_transfers([row(size, seconds) for size, seconds in points])
    except FitError:
        return None


@given(sizes, times, slopes)
def test_affine_measurements_are_recovered_exactly(x: list[int], overhead: Fraction, slope: Fraction) -> None:
    fit = fit_transfers([row(size, overhead + slope * size) for size in x])
    assert (fit.overhead_s, fit.bandwidth) == (overhead, 1 / slope)
    assert (fit.largest_residual, fit.stretch, fit.bounded, fit.affine_misleads) == (0, 1, False, False)
    assert fit.curvature in (None, "none")
    assert (fit.curvature is None) == (len(x) == 2)


@given(measured, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(points: list[tuple[int, Fraction]], order: random.Random) -> None:
    shuffled = order.sample(points, len(points))
    assert fitted_or_none(points) == fitted_or_none(shuffled)


@given(measured, st.sampled_from([1000, 1024, 2**30]), st.sampled_from([Fraction(1000), Fraction(1, 10**6), 60]))
def test_other_units_give_the_same_line(points: list[tuple[int, Fraction]], size: int, time: Fraction) -> None:
    fit, scaled = fitted_or_none(points), fitted_or_none([(size * x, time * t) for x, t in points])
    assert (fit is None) == (scaled is None)
    if fit is not None and scaled is not None:
        assert scaled.overhead_s == time * fit.overhead_s
        assert scaled.bandwidth == fit.bandwidth * size / time
        assert [point.residual for point in scaled.points] == [point.residual for point in fit.points]


@given(measured)
def test_no_measured_time_is_above_the_conservative_line(points: list[tuple[int, Fraction]]) -> None:
    fit = fitted_or_none(points)
    if fit is not None:
        assert all(t <= fit.overhead_high_s + x / fit.bandwidth_low for x, t in points)
        assert fit.overhead_high_s >= fit.overhead_s >= 0
        assert 0 < fit.bandwidth_low <= fit.bandwidth


@given(measured, st.sampled_from([(1, 0), (-1, 0), (0, 1), (0, -1)]))
def test_no_line_nearby_fits_better(points: list[tuple[int, Fraction]], step: tuple[int, int]) -> None:
    fit = fitted_or_none(points)
    if fit is None:
        return
    overhead = max(Fraction(0), fit.overhead_s + Fraction(step[0], 1000))
    slope = 1 / fit.bandwidth * (1 + Fraction(step[1], 100))

    def loss(o: Fraction, s: Fraction) -> float:
        return float(sum(((t - o - s * x) / t) ** 2 for x, t in points))

    assert loss(fit.overhead_s, 1 / fit.bandwidth) <= loss(overhead, slope) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        ("1.0001", "sizes in GB read as GiB?"),
        ("1.024", "sizes in GB read as GiB?"),
        ("1.0737", "sizes in GB read as GiB?"),
        ("1.08", "only the last chunk timed?"),
        ("3.9", "only the last chunk timed?"),
        ("4", "Gbit/s for GB/s?"),
        ("8.5", "Gbit/s for GB/s?"),
        ("8.6", "only the last chunk timed?"),
        ("499", "only the last chunk timed?"),
        ("500", "times in s read as ms, or in ms read as us?"),
        ("1073", "times in s read as ms, or in ms read as us?"),
        ("1074", "only the last chunk timed?"),
    ],
)
def test_a_bandwidth_above_the_line_rate_has_a_likely_reason(ratio: str, said: str) -> None:
    assert likely_mistake(Fraction(ratio)) == said


def test_a_published_table_follows_a_line_and_no_single_bandwidth(shared: Path) -> None:
    fit = fit_transfers(read_transfer_table(shared / "measurements" / "kv_transfer_qwen3_8b_8xroce.csv").rows)
    assert float(fit.overhead_s) == pytest.approx(0.000394328, rel=1e-5)
    assert float(fit.bandwidth) == pytest.approx(146.0732e9, rel=1e-6)
    assert all(abs(point.residual) < Fraction(8, 100) for point in fit.points)
    assert float(fit.largest_residual) == pytest.approx(0.0701, abs=5e-5)
    assert fit.of_largest.wrong_by > 4
    assert fit.constant_misleads
    assert not fit.affine_misleads
    assert fit.curvature == "downward"
