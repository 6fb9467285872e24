"""Measured curves: times by size (bytes, tokens or sequences), with straight lines between them."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

_SIZE, _NUMBER = r"[1-9][0-9]{0,17}", r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
_POINT = re.compile(rf"({_SIZE}):({_NUMBER})(?::({_NUMBER}))?")
FEWEST_POINTS, MOST_POINTS = 2, 1000
"""A piece of the curve has two ends."""


@dataclass(frozen=True)
class Curve:
    """Points `(b_i, τ_i)`: a size, and the seconds that were measured at it."""

    points: tuple[tuple[float, float], ...]

    @property
    def first(self) -> tuple[float, float]:
        """The smallest size that was timed."""
        return self.points[0]

    def covers(self, size: float) -> bool:
        """Whether a size lies between two that were timed."""
        return self.points[0][0] <= size <= self.points[-1][0]

    def slope(self, size: float) -> float:
        """Seconds per unit of the piece `b_i ≤ size < b_(i+1)`: at and above the last point, of the last piece.

        >>> Curve(((10.0, 1.0), (20.0, 2.0), (40.0, 3.0))).slope(20.0)
        0.05
        """
        if size < self.points[0][0]:
            return 0.0
        (b, tau), (c, next_tau) = self._piece(size)
        return (next_tau - tau) / (c - b)

    @property
    def last_slope(self) -> float:
        """Seconds per unit of the last piece."""
        (b, tau), (c, next_tau) = self.points[-2:]
        return (next_tau - tau) / (c - b)

    def seconds(self, size: float) -> float:
        """`τ` of a size; below the range that of its first point, above it on along the last piece.

        >>> [Curve(((10.0, 1.0), (20.0, 2.0))).seconds(size) for size in (5.0, 15.0, 30.0)]
        [1.0, 1.5, 3.0]
        """
        if size < self.points[0][0]:
            return self.points[0][1]
        (b, tau), (c, next_tau) = self._piece(size)
        return tau + (size - b) * (next_tau - tau) / (c - b)

    @cached_property
    def _sizes(self) -> list[float]:
        return [size for size, _ in self.points]

    def _piece(self, size: float) -> tuple[tuple[float, float], tuple[float, float]]:
        place = min(bisect_right(self._sizes, size), len(self.points) - 1)
        return self.points[place - 1], self.points[place]

    @property
    def falls(self) -> bool:
        """Whether a larger size takes less time than a smaller one."""
        return any(right[1] < left[1] for left, right in pairwise(self.points))

    @property
    def fastest_bytes_per_s(self) -> float:
        """Size per second of the fastest that was timed."""
        return max(size / seconds for size, seconds in self.points)


@lru_cache(maxsize=64)
def parse_curve(text: str) -> tuple[Curve, Curve] | None:
    """Read the text of a curve: its times, and those with the upper ones; None if it is not one.

    >>> [curve.points for curve in parse_curve("100:0.1:0.2 200:0.3")]
    [((100.0, 0.1), (200.0, 0.3)), ((100.0, 0.2), (200.0, 0.3))]
    >>> parse_curve("100:0.1") is parse_curve("200:0.1 100:0.2") is parse_curve("100:0.2:0.1 200:0.3") is None
    True
    """
    found = [_POINT.fullmatch(word) for word in text.split(" ")]
    matches = [match for match in found if match is not None]
    if len(matches) != len(found) or not FEWEST_POINTS <= len(matches) <= MOST_POINTS:
        return None
    sizes = [int(match[1]) for match in matches]
    times = [(float(match[2]), float(match[3] or match[2])) for match in matches]
    ascending = all(left < right for left, right in pairwise(sizes))
    if not ascending or not all(0 < tau <= high < math.inf for tau, high in times):
        return None
    nominal, upper = zip(*times, strict=True)
    ends = [float(size) for size in sizes]
    return Curve(tuple(zip(ends, nominal, strict=True))), Curve(tuple(zip(ends, upper, strict=True)))


def uppers_in_all_or_none(text: str) -> bool:
    """Whether every point of a curve has an upper time, or none has.

    >>> uppers_in_all_or_none("1:0.1:0.2 2:0.3:0.4"), uppers_in_all_or_none("1:0.1:0.2 2:0.3")
    (True, False)
    """
    return len({word.count(":") for word in text.split(" ")}) == 1
