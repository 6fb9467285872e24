"""The replay's clock: whole ticks, and what is rounded to them (docs/replay.md, The clock)."""

import math
from collections.abc import Sequence

import numpy as np

from pipelines.replay.records import BEYOND, LAST_TICK, NANOSECONDS, Floats, Int64s

FINEST = 10**14
COARSEST = 10**9
SPANS, SECONDS_MORE = 4, 10_000
"""The clock reaches to so many times the span of the log, and so much longer."""
WINDOW_S = 60


def ticks_per_second(span_s: float) -> int:
    """T of a log whose last arrival is ``span_s`` seconds after its first.

    >>> ticks_per_second(3436.0) == 10**14, ticks_per_second(7 * 86400.0) == 10**12
    (True, True)
    """
    resolution = FINEST
    while resolution > COARSEST and LAST_TICK / resolution < SPANS * span_s + SECONDS_MORE:
        resolution //= 10
    return resolution


def nanoseconds(seconds: float) -> int:
    """The nearest whole number of nanoseconds; no more than are ever needed."""
    return math.floor(min(seconds * NANOSECONDS, float(BEYOND)) + 0.5)


def ticks_of(seconds: float, resolution: int, most: int = LAST_TICK) -> int:
    """Whole nanoseconds in ticks, up to ``most``: of an objective, or of admission."""
    return min(nanoseconds(seconds) * (resolution // COARSEST), most)


def whole(value: float) -> int:
    """The nearest whole number."""
    return math.floor(value + 0.5)


def step_ticks(
    most: int, t0: float, r_d: float, curve: Sequence[tuple[float, float]] | None, resolution: int
) -> Int64s:
    """``base``: the decode part of a step in ticks, with none to ``most`` sequences, without what it reads from the cache.

    >>> step_ticks(2, 0.01, 2000.0, None, 10**9).tolist()
    [10000000, 10500000, 11000000]
    """
    sequences = np.arange(most + 1, dtype=np.float64)
    seconds = t0 + sequences / r_d if curve is None else on_curve(curve, sequences)
    base: Int64s = np.clip(np.floor(seconds * resolution + 0.5), 1, BEYOND).astype(np.int64)
    return base


def on_curve(curve: Sequence[tuple[float, float]], at: Floats) -> Floats:
    """The measured curve at each of ``at``: its first time before the first point, the last piece beyond the last.

    >>> on_curve(((10.0, 1.0), (20.0, 2.0), (40.0, 3.0)), np.array([5.0, 15.0, 80.0])).tolist()
    [1.0, 1.5, 5.0]
    """
    sizes, times = (np.array(column) for column in zip(*curve, strict=True))
    if len(sizes) == 1:
        return np.full(len(at), times[0])
    piece = np.clip(np.searchsorted(sizes, at, side="right") - 1, 0, len(sizes) - 2)
    slope = (times[piece + 1] - times[piece]) / (sizes[piece + 1] - sizes[piece])
    found: Floats = np.where(at < sizes[0], times[0], times[piece] + (at - sizes[piece]) * slope)
    return found
