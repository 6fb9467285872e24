"""Measured curves: straight lines between points (docs/arithmetic.md, section 3)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pipelines.arithmetic.numbers import Floats, Number, where


@dataclass(frozen=True)
class Curve:
    """Measured (size, seconds) points, ascending: before the first, its time; beyond the last, the last piece goes on."""

    points: tuple[tuple[float, float], ...]

    @cached_property
    def sizes(self) -> Floats:
        """Where the points are."""
        return np.array([size for size, _ in self.points])

    @cached_property
    def times(self) -> Floats:
        """Seconds at the points."""
        return np.array([seconds for _, seconds in self.points])

    @cached_property
    def slopes(self) -> Floats:
        """Seconds per unit of size: 0 before the first point, then of each piece."""
        return np.concatenate([[0.0], np.diff(self.times) / np.diff(self.sizes)])

    @property
    def last_slope(self) -> float:
        """Seconds per unit of size beyond the last point."""
        return float(self.slopes[-1])

    def covers(self, size: Any) -> Any:
        """Whether ``size`` lies within the measured range."""
        return (self.points[0][0] <= size) & (size <= self.points[-1][0])

    def slope(self, size: Number) -> Number:
        """Seconds per unit of size: of the piece that ``size`` begins or lies in, of the last one from the end on, 0 before the first.

        >>> curve = Curve(((10.0, 1.0), (20.0, 2.0), (40.0, 3.0)))
        >>> [curve.slope(size) for size in (5, 10, 20, 40, 80)]
        [0.0, 0.1, 0.05, 0.05, 0.05]
        """
        return where(True, self.slopes[self._piece(size)], 0.0)

    def seconds(self, size: Number) -> Number:
        """Time at ``size``.

        >>> Curve(((10.0, 1.0), (20.0, 2.0), (40.0, 3.0))).seconds(30.0)
        2.5
        """
        piece = self._piece(size)
        begin = np.maximum(piece - 1, 0)
        return where(True, self.times[begin] + (size - self.sizes[begin]) * self.slopes[piece], 0.0)

    def _piece(self, size: Number) -> Any:
        """0 before the first point, then 1 to the number of pieces."""
        return np.minimum(np.searchsorted(self.sizes, size, side="right"), len(self.points) - 1)
