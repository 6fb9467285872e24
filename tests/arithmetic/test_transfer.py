"""Single transfers: pieces of a curve, the straight form, and which of them holds."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.arithmetic.kv import BoundedLayers, CacheModel
from pipelines.arithmetic.transfer import Affine, Curve, TransferModel

CURVE = Curve(((10.0, 1.0), (20.0, 2.0), (40.0, 3.0)))
"""A tenth of a second a byte up to 20 bytes, and half of that beyond."""

PLAIN = CacheModel(growth=10.0, growing_layers=4, windows=(), state=0.0, state_layers=0)
MIXED = CacheModel(
    growth=10.0,
    growing_layers=4,
    windows=(BoundedLayers(8, 2, 3.0), BoundedLayers(32, 1, 2.0)),
    state=100.0,
    state_layers=3,
    block_tokens=4,
)

some_curves = st.lists(
    st.tuples(st.integers(1, 10**9), st.floats(0, 0.1)), min_size=2, max_size=8, unique_by=lambda point: point[0]
).map(lambda points: _rising(sorted(points)))


def _rising(points: list[tuple[int, float]]) -> Curve:
    times = [sum(more for _, more in points[: place + 1]) for place in range(len(points))]
    return Curve(tuple((float(size), seconds) for (size, _), seconds in zip(points, times, strict=True)))


class TestCurve:
    @pytest.mark.parametrize(
        ("size", "seconds"), [(0, 1.0), (9.9, 1.0), (10, 1.0), (15, 1.5), (20, 2.0), (30, 2.5), (40, 3.0), (60, 4.0)]
    )
    def test_straight_between_points_flat_below_and_on_above(self, size: float, seconds: float) -> None:
        assert CURVE.seconds(size) == pytest.approx(seconds, rel=1e-15)

    @pytest.mark.parametrize(
        ("size", "slope"), [(0, 0), (9.9, 0), (10, 0.1), (19.9, 0.1), (20, 0.05), (40, 0.05), (1e6, 0.05)]
    )
    def test_the_slope_at_a_point_is_that_of_the_piece_that_begins_there(self, size: float, slope: float) -> None:
        assert CURVE.slope(size) == pytest.approx(slope, rel=1e-15)

    def test_both_ends_are_covered(self) -> None:
        assert [CURVE.covers(size) for size in (9.99, 10, 25, 40, 40.01)] == [False, True, True, True, False]

    @given(some_curves, st.lists(st.floats(0, 2e9), min_size=2, max_size=20))
    def test_more_bytes_never_take_less(self, curve: Curve, sizes: list[float]) -> None:
        times = [curve.seconds(size) for size in sorted(sizes)]
        assert all(sooner <= later + 1e-12 for sooner, later in pairwise(times))

    @given(some_curves)
    def test_it_goes_through_its_points(self, curve: Curve) -> None:
        assert [curve.seconds(size) for size, _ in curve.points] == pytest.approx(
            [s for _, s in curve.points], abs=1e-15
        )


class TestAffine:
    def test_overhead_descriptors_and_bytes(self) -> None:
        """100 tokens of 10 bytes over 500 bytes/s; 2 regions x 4 layers x 100 blocks of one token, 1 ms each."""
        moved = TransferModel(PLAIN, Affine(0.25, 0.001, 500.0), None, handover_s=0.5).of_mean(100.0)
        assert (moved.size_bytes, moved.descriptors) == (1000.0, 800.0)
        assert (moved.seconds, moved.payload_s) == pytest.approx((0.5 + 0.25 + 0.8 + 2.0, 2.0), rel=1e-15)
        assert moved.slope == pytest.approx(0.001 * 8 + 10 / 500, rel=1e-15)

    @pytest.mark.parametrize(
        ("tokens", "held_bytes", "layer_tokens"),
        [
            (6.5, 15 * 8, 4 * 8 + 2 * 8 + 8),  # 8 with half a block less half a token: (4 - 1)/2
            (14.5, 12 * 16 + 3 * 8, 4 * 16 + 2 * 8 + 16),
            (98.5, 10 * 100 + 3 * 8 + 2 * 32, 4 * 100 + 2 * 8 + 32),
        ],
    )
    def test_windows_hold_themselves_at_most_and_states_are_one_each(
        self, tokens: float, held_bytes: float, layer_tokens: float
    ) -> None:
        moved = TransferModel(MIXED, Affine(0.0, 1.0, 1.0), None, relayout=1.5, regions=3.0).of_mean(tokens)
        assert moved.size_bytes == pytest.approx(1.5 * (held_bytes + 100), rel=1e-15)
        assert moved.descriptors == pytest.approx(3 * layer_tokens / 4 + 3, rel=1e-15)

    @pytest.mark.parametrize(
        ("tokens", "per_token", "layers"), [(6.4, 15, 7), (6.5, 12, 5), (30.4, 12, 5), (30.5, 10, 4), (1000, 10, 4)]
    )
    def test_the_slope_is_of_the_windows_that_are_not_full(self, tokens: float, per_token: float, layers: int) -> None:
        """3 bytes of 2 layers up to 8 tokens, 2 bytes of one up to 32, which includes 1.5 tokens of the last block."""
        model = TransferModel(MIXED, Affine(0.0, 0.01, 100.0), None, relayout=1.5)
        expected = 0.01 * 2 * layers / 4 + 1.5 * per_token / 100
        assert model.of_mean(tokens).slope == pytest.approx(expected, rel=1e-14)

    @pytest.mark.parametrize(("tokens", "held"), [(1, 4), (4, 4), (5, 8), (97, 100), (100, 100)])
    def test_one_prompt_takes_whole_blocks(self, tokens: int, held: int) -> None:
        model = TransferModel(MIXED, Affine(0.0, 0.0, 1.0), None)
        assert model.of_prompt(tokens).size_bytes == model.size_bytes(held)
        assert model.of_prompt(tokens).seconds == pytest.approx(10 * held + 3 * min(held, 8) + 2 * min(held, 32) + 100)


class TestWhichHolds:
    """10 bytes a token; half of the bandwidth is taken by others."""

    ALONE = TransferModel(PLAIN, None, CURVE, handover_s=0.5, competing=0.5)
    BOTH = TransferModel(PLAIN, Affine(0.25, 0.0, 8.0), CURVE, handover_s=0.5, competing=0.5)

    @pytest.mark.parametrize("model", [ALONE, BOTH])
    def test_within_the_range_the_curve_stretched(self, model: TransferModel) -> None:
        """15 bytes: 1.5 s, twice as long; payload is what exceeds the smallest; 0.1 s/byte x 10 bytes a token, twice."""
        moved = model.of_mean(1.5)
        assert (moved.seconds, moved.payload_s, moved.slope) == pytest.approx((3.5, 1.0, 2.0), rel=1e-14)

    def test_alone_below_and_above(self) -> None:
        below, above = self.ALONE.of_mean(0.5), self.ALONE.of_mean(6.0)
        assert (below.seconds, below.payload_s, below.slope) == (2.5, 0.0, 0.0)
        assert (above.seconds, above.payload_s, above.slope) == pytest.approx((8.5, 6.0, 1.0), rel=1e-14)

    @pytest.mark.parametrize("tokens", [0.5, 6.0])
    def test_outside_the_bandwidth_where_there_is_one(self, tokens: float) -> None:
        """It is given as what one transfer gets: other traffic is taken off before."""
        moved = self.BOTH.of_mean(tokens)
        payload = 10 * tokens / 8
        assert (moved.seconds, moved.payload_s, moved.slope) == pytest.approx(
            (0.75 + payload, payload, 1.25), rel=1e-14
        )

    @pytest.mark.parametrize(("tokens", "slope"), [(1.0, 2.0), (2.0, 1.0), (4.0, 1.0), (4.1, 1.25)])
    def test_slopes_at_the_points_of_the_range(self, tokens: float, slope: float) -> None:
        assert self.BOTH.of_mean(tokens).slope == pytest.approx(slope, rel=1e-14)

    @pytest.mark.parametrize(("size", "leaves"), [(9.9, True), (10, False), (40, False), (40.1, True)])
    def test_whether_it_is_left(self, size: float, leaves: bool) -> None:
        assert self.BOTH.leaves_curve(size) == self.ALONE.leaves_curve(size) == leaves
        assert not TransferModel(PLAIN, Affine(0.0, 0.0, 1.0), None).leaves_curve(size)

    def test_descriptors_are_part_of_what_was_measured(self) -> None:
        model = TransferModel(PLAIN, Affine(0.25, 1.0, 8.0), CURVE)
        assert model.of_bytes(15.0, 1000.0) == pytest.approx((1.5, 0.5), rel=1e-14)
        assert model.of_bytes(80.0, 3.0) == pytest.approx((0.25 + 3 + 10, 10), rel=1e-14)


@given(
    some_curves, st.floats(0, 0.1), st.floats(0, 1e-6), st.floats(1e3, 1e12), st.floats(0, 0.9),
    st.lists(st.floats(0, 1e6), min_size=2, max_size=10), st.booleans(),
)  # fmt: skip
def test_time_grows_with_tokens_along_either_form(
    curve: Curve, overhead: float, each: float, bandwidth: float, competing: float, tokens: list[float], straight: bool
) -> None:
    affine = Affine(overhead, each, bandwidth) if straight else None
    model = TransferModel(MIXED, affine, None if straight else curve, 0.001, competing)
    moved = [model.of_mean(one) for one in sorted(tokens)]
    for less, more in pairwise(moved):
        assert less.size_bytes <= more.size_bytes
        assert less.seconds <= more.seconds * (1 + 1e-12)
        assert less.payload_s <= more.payload_s * (1 + 1e-12) + 1e-12
    assert all(one.slope >= 0 for one in moved)
