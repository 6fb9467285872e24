"""Where something first changes between two ends, for many rows at once, each looked for with few evaluations of all of them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Bools, Floats

POINTS = 1024
"""Points of all rows together that one evaluation may have where evaluating as many costs little more than evaluating one."""

_FEWEST, _MOST = 3, 31
"""Points per row and evaluation."""

_BESIDE = (2.0**-8, 2.0**-5, 2.0**-14, 2.0**-26)
"""How far on both sides of the chord's crossing it is looked, as parts of the interval: the first, or the others where points are many."""

_WITH_ALL = 2 * len(_BESIDE)

Look = Callable[[NDArray[np.int64], Floats], tuple[Bools, Floats]]
"""From places of rows and points of each, a matrix: whether it has changed there, and how far that is from the change, or infinity."""


def first_crossings(
    start: Floats,
    end: Floats,
    at_start: Floats,
    at_end: Floats,
    look: Look,
    gap: float,
    most: int = POINTS,
) -> tuple[Floats, Floats]:
    """The ends of each row's interval brought together to ``gap`` times the larger: unchanged at the first, changed at the second.

    ``at_start`` and ``at_end`` are how far each row is from changing at its ends, infinite where that is unknown. What is found is the
    first change among the points looked at, so that one which is undone between two of them is missed.
    The points, ``most`` of all rows together, lie on both sides of where the chord of the distances crosses zero, and evenly.

    >>> def square_beyond_two(rows, points):
    ...     return points**2 > 2, abs(points**2 - 2)
    >>> low, high = first_crossings(*(np.array([x]) for x in (1.0, 2.0, 1.0, 2.0)), square_beyond_two, 2.0**-50)
    >>> bool(low[0] <= 2**0.5 <= high[0]), bool(high[0] - low[0] < 1e-14)
    (True, True)
    """
    start, end, before, after = start.copy(), end.copy(), at_start.copy(), at_end.copy()
    while len(rows := np.flatnonzero(np.abs(end - start) > gap * np.maximum(np.abs(start), np.abs(end)))):
        own = slice(None), None
        points = start[rows][own] + (end - start)[rows][own] * _fractions(before[rows], after[rows], most)
        changed, distance = look(rows, points)
        ends = np.zeros((len(rows), 1), dtype=np.bool_)
        changed = np.concatenate([ends, changed, ~ends], axis=1)
        distance = np.concatenate([before[rows][own], distance, after[rows][own]], axis=1)
        points = np.concatenate([start[rows][own], points, end[rows][own]], axis=1)
        every, first = np.arange(len(rows)), changed.argmax(axis=1)
        start[rows], end[rows] = points[every, first - 1], points[every, first]
        before[rows], after[rows] = distance[every, first - 1], distance[every, first]
    return start, end


def _fractions(before: Floats, after: Floats, most: int) -> Floats:
    """Where in its interval each row is looked at, ascending: a row of fractions above 0, at most 1, for each."""
    count = min(max(most // len(before), _FEWEST), _MOST)
    beside = _BESIDE[:1] if count < _WITH_ALL else _BESIDE[1:]
    offsets = np.array([sign * part for part in beside for sign in (-1, 1)])
    even = np.arange(1, count - len(offsets) + 1) / (count - len(offsets) + 1)
    every = np.arange(1, count + 1) / (count + 1)
    with np.errstate(all="ignore"):
        chord = np.where(np.isfinite(before + after), before / (before + after), np.nan)
    around = np.clip(chord[:, None] + offsets, 0.0, 1.0)
    beside_chord = np.sort(np.concatenate([around, np.broadcast_to(even, (len(before), len(even)))], axis=1), axis=1)
    found: Floats = np.where(np.isfinite(chord)[:, None], beside_chord, every)
    return found
