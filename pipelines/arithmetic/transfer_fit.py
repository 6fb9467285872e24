"""One overhead and one bandwidth from measured transfers: t(x) = o + x/w, and how far that is from what was measured.

The estimator is weighted least squares with weights 1/t²: it minimises Σ((t − o − x/w)/t)², the squared relative residuals.

- Relative, because sizes of one table span two orders of magnitude or more. Unweighted, the largest transfers decide alone and
  the overhead, which only the small ones show, becomes noise. A plan is wrong by a share of its time, too.
- Closed form, because a straight line has one: no iteration, no start value, no solver whose last digits depend on its build.
- Sums are of fractions: exact but for the weights, which are doubles of (shortest t / t)². So the order of rows does not matter,
  other units of size and time give the same line to the last digit, and affine data are recovered exactly.
- Bound to o ≥ 0 and w > 0. A negative overhead means nothing: the line then goes through the origin, with the w that is best
  there (the objective is convex, so this is the best line with o ≥ 0). Times that do not grow with bytes are refused.

Residuals are shares of the measured time: positive where a transfer took longer than the line says.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Literal

from pipelines.declarations.transfer_table import TransferRow

CONSTANT_MISLEADS = Fraction(5, 4)
"""One bandwidth without overhead misleads where it is more than so many times wrong: a quarter is about the least that the
bundled cohorts leave between a bandwidth and its conservative end (2.8 to 2.2 GB/s), so no declared range would cover more."""

AFFINE_MISLEADS = Fraction(1, 10)
"""A line misleads where it is off by more than this share of a measured time: measured tables that follow a line stay within 7 %
(docs/transfer.md), and a tenth is what a gate on time to first token would still show."""

FASTEST_PLAUSIBLE = 10 * 10**12
"""10 TB/s, in B/s: above the HBM of one GPU (8 TB/s on B200), so no KV cache leaves one so fast."""

SLOWEST_PLAUSIBLE = 10**6
"""1 MB/s, in B/s: below what engines reach even where they fall back to TCP (2 MB/s and more)."""

BINARY_OVER_DECIMAL = Fraction(2**30, 10**9)
"""GiB over GB, 1.0737: the widest of the ratios that mixing binary and decimal units gives in this range of sizes."""

BITS, THOUSAND = 8, 1000

_LEAST_SHARE = Fraction(1, 2)
"""A mistake of a factor explains a figure where, mended, it lies between half of the line rate and all of it."""

_SIZES_FOR_CURVATURE = 3

Curvature = Literal["upward", "downward", "none"]


class FitError(ValueError):
    """Measurements that no line can be fitted to: what was found and expected, and a hint."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        """Keep the message and the hint apart."""
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class FittedPoint:
    """A measured transfer beside the line: bytes, seconds, and the residual as a share of the measured seconds."""

    bytes: Fraction
    measured_s: Fraction
    high_s: Fraction | None
    fitted_s: Fraction
    residual: Fraction


@dataclass(frozen=True)
class ConstantBandwidth:
    """What one bandwidth without overhead, read off one size, says about the size at the other end of the table.

    ``wrong_by`` is the factor between that and what was measured there; ``most_wrong_by`` the largest such factor over all points.
    """

    bandwidth: Fraction
    says_s: Fraction
    measured_s: Fraction
    wrong_by: Fraction
    most_wrong_by: Fraction


@dataclass(frozen=True)
class TransferFit:
    """The line, its conservative companion, and how well both describe what was measured. Exact, in s, B and B/s.

    ``points`` are in ascending order of bytes, then time. Every measured time, and every upper time of the table, is at or below
    ``overhead_high_s`` + bytes / ``bandwidth_low``: both ends of the line stretched by ``stretch``, the most that any of them
    exceeds the line by (1 where none does).
    """

    overhead_s: Fraction
    bandwidth: Fraction
    overhead_high_s: Fraction
    bandwidth_low: Fraction
    stretch: Fraction
    points: tuple[FittedPoint, ...]
    sizes: int
    of_largest: ConstantBandwidth
    of_smallest: ConstantBandwidth
    curvature: Curvature | None
    bounded: bool

    @property
    def largest_residual(self) -> Fraction:
        """The largest residual without its sign."""
        return max(abs(point.residual) for point in self.points)

    @property
    def median_residual(self) -> Fraction:
        """The median of the residuals without their signs."""
        return median(abs(point.residual) for point in self.points)

    @property
    def half_performance_bytes(self) -> Fraction:
        """Bytes at which overhead takes as long as the payload, o·w: half of the bandwidth is reached (Hockney's n½)."""
        return self.overhead_s * self.bandwidth

    @property
    def is_exact_by_count(self) -> bool:
        """Whether a line always goes through so few measurements, so that residuals say nothing."""
        return len(self.points) == 2 and not self.bounded

    @property
    def constant_misleads(self) -> bool:
        """Whether the bandwidth of the largest size, taken alone, is wrong beyond CONSTANT_MISLEADS anywhere."""
        return self.of_largest.most_wrong_by > CONSTANT_MISLEADS

    @property
    def affine_misleads(self) -> bool:
        """Whether the line is off beyond AFFINE_MISLEADS anywhere."""
        return self.largest_residual > AFFINE_MISLEADS


def fit_transfers(rows: Iterable[TransferRow]) -> TransferFit:
    """The best overhead and bandwidth for measured transfers of at least two sizes; FitError where there are none.

    >>> rows = [
    ...     TransferRow(Fraction(1000 * n), Fraction(t, 1000), None, 1) for n, t in ((1, 2), (3, 4))
    ... ]  # 1 ms + 1 MB/s
    >>> fit = fit_transfers(rows)
    >>> float(fit.overhead_s), float(fit.bandwidth), fit.largest_residual
    (0.001, 1000000.0, Fraction(0, 1))
    """
    ordered = sorted(rows, key=lambda row: (row.bytes, row.seconds, row.high_s or row.seconds))
    sizes = len({row.bytes for row in ordered})
    if sizes < 2:
        found = "no transfers" if not ordered else "transfers of a single size"
        raise FitError(f"{found}; expected at least two sizes for an overhead and a bandwidth")
    x, t = [row.bytes for row in ordered], [row.seconds for row in ordered]
    weights = relative_weights(t)
    overhead, slope = weighted_line(x, t, weights)
    if slope <= 0:
        hint = "measure larger transfers: all of these took about the overhead"
        raise FitError("times that do not grow with bytes; expected larger transfers to take longer", hint)
    bounded = overhead < 0
    if bounded:
        overhead, slope = Fraction(0), weighted_slope(x, t, weights)
    points = tuple(_point(row, overhead + slope * row.bytes) for row in ordered)
    stretch = max(Fraction(1), *((point.high_s or point.measured_s) / point.fitted_s for point in points))
    return TransferFit(
        overhead_s=overhead,
        bandwidth=1 / slope,
        overhead_high_s=stretch * overhead,
        bandwidth_low=1 / (stretch * slope),
        stretch=stretch,
        points=points,
        sizes=sizes,
        of_largest=_constant(points, x[-1], x[0]),
        of_smallest=_constant(points, x[0], x[-1]),
        curvature=_curvature(x, t, weights) if sizes >= _SIZES_FOR_CURVATURE else None,
        bounded=bounded,
    )


def relative_weights(t: Sequence[Fraction]) -> list[Fraction]:
    """(t_min/t)² as doubles: 1/t² in a scale without unit, short enough for sums of thousands of fractions.

    >>> relative_weights([Fraction(1), Fraction(2)])
    [Fraction(1, 1), Fraction(1, 4)]
    """
    shortest = min(t)
    return [Fraction(float(shortest / one) ** 2) for one in t]


def weighted_line(
    x: Sequence[Fraction], y: Sequence[Fraction], weights: Sequence[Fraction]
) -> tuple[Fraction, Fraction]:
    """(a, b) that minimise Σ w·(y − a − b·x)²: b = (Σw·Σwxy − Σwx·Σwy)/(Σw·Σwx² − (Σwx)²), a = (Σwy − b·Σwx)/Σw.

    >>> weighted_line([Fraction(0), Fraction(1)], [Fraction(5), Fraction(7)], [Fraction(1), Fraction(3)])
    (Fraction(5, 1), Fraction(2, 1))
    """
    total = sum(weights)
    wx, wy = _sum(weights, x), _sum(weights, y)
    slope = (total * _sum(weights, x, y) - wx * wy) / (total * _sum(weights, x, x) - wx * wx)
    return (wy - slope * wx) / total, slope


def weighted_slope(x: Sequence[Fraction], y: Sequence[Fraction], weights: Sequence[Fraction]) -> Fraction:
    """The b that minimises Σ w·(y − b·x)²: Σwxy/Σwx².

    >>> weighted_slope([Fraction(1), Fraction(2)], [Fraction(3), Fraction(6)], [Fraction(1), Fraction(1)])
    Fraction(3, 1)
    """
    return _sum(weights, x, y) / _sum(weights, x, x)


def _sum(*factors: Sequence[Fraction]) -> Fraction:
    """The sum of products."""
    total = Fraction(0)
    for group in zip(*factors, strict=True):
        product = Fraction(1)
        for one in group:
            product *= one
        total += product
    return total


def _point(row: TransferRow, fitted: Fraction) -> FittedPoint:
    return FittedPoint(row.bytes, row.seconds, row.high_s, fitted, (row.seconds - fitted) / row.seconds)


def _constant(points: Sequence[FittedPoint], of: Fraction, at: Fraction) -> ConstantBandwidth:
    """The bandwidth of the size ``of`` at the size ``at``, with the medians of repeats."""
    bandwidth = of / median(point.measured_s for point in points if point.bytes == of)
    measured = median(point.measured_s for point in points if point.bytes == at)
    wrong = max(_factor(point.bytes / bandwidth, point.measured_s) for point in points)
    return ConstantBandwidth(bandwidth, at / bandwidth, measured, _factor(at / bandwidth, measured), wrong)


def _factor(one: Fraction, other: Fraction) -> Fraction:
    return max(one / other, other / one)


def _curvature(x: Sequence[Fraction], t: Sequence[Fraction], weights: Sequence[Fraction]) -> Curvature:
    """The sign of c in the best o + x/w + c·x²: that of Σ w·q·t, with q what a line leaves of x² (orthogonal to 1 and x)."""
    squares = [one * one for one in x]
    level, slope = weighted_line(x, squares, weights)
    rest = [square - level - slope * one for square, one in zip(squares, x, strict=True)]
    bend = _sum(weights, rest, t)
    return "none" if bend == 0 else "upward" if bend > 0 else "downward"


def likely_mistake(ratio: Fraction) -> str:
    """What a bandwidth of ``ratio`` times the line rate (above 1) was probably read wrong by.

    A factor explains a ratio where, mended, the bandwidth is at most the line rate and at least half of it; the narrower first.

    >>> likely_mistake(Fraction(105, 100)), likely_mistake(Fraction(2))
    ('sizes in GB read as GiB?', 'only the last chunk timed?')
    """
    explanations: tuple[tuple[Callable[[Fraction], bool], str], ...] = (
        (lambda r: r <= BINARY_OVER_DECIMAL, "sizes in GB read as GiB?"),
        (_explained_by(BITS), "Gbit/s for GB/s?"),
        (_explained_by(THOUSAND), "times in s read as ms, or in ms read as us?"),
    )
    return next((words for explains, words in explanations if explains(ratio)), "only the last chunk timed?")


def _explained_by(factor: int) -> Callable[[Fraction], bool]:
    return lambda ratio: factor * _LEAST_SHARE <= ratio <= factor * BINARY_OVER_DECIMAL
