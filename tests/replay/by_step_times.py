"""Durations in ticks: each from its expression, in double precision, rounded once."""

from math import floor

from tests.replay.cases import Worker

LAST_TICK = 2**62
"""The replay stops here."""


class Times:
    """How long a worker takes for what it does."""

    def __init__(self, worker: Worker, ticks_per_second: int) -> None:
        self.worker = worker
        self.ticks_per_second = ticks_per_second
        self.per_resident_token = floor(worker.gamma * ticks_per_second + 0.5)

    def base(self, sequences: int) -> int:
        """Ticks of a decode step with so many sequences, beside what it reads."""
        worker = self.worker
        curve = worker.decode_curve
        seconds = on_curve(curve, sequences) if curve else worker.t0 + sequences / worker.r_d
        return max(1, floor(seconds * self.ticks_per_second + 0.5))

    def decode(self, sequences: int, resident: int) -> int:
        """Ticks of the decode part of a step."""
        return self.base(sequences) + self.per_resident_token * resident

    def piece_ns(self, cached: int, tokens: int) -> int:
        """Nanoseconds of so many prompt tokens behind those that are in the cache."""
        worker, x, y = self.worker, cached, tokens
        if worker.prefill_curve:
            seconds = on_curve(worker.prefill_curve, y) + worker.q * (2.0 * x * y)
        else:
            seconds = worker.d + y / worker.r_p + worker.q * (y * y + 2.0 * x * y)
        return max(1, nanoseconds(seconds))

    def piece(self, cached: int, tokens: int) -> int:
        """Ticks of a piece that runs alone."""
        return ticks(self.piece_ns(cached, tokens), self.ticks_per_second)


def within_clock(began: int, length: int) -> int:
    """Ticks that something of such a length has taken when the clock ends, if it is not over before."""
    return max(0, min(length, LAST_TICK - began))


def on_curve(points: tuple[tuple[float, float], ...], at: int) -> float:
    """Seconds on the straight line between two points; the first time before the first, the last line beyond the last.

    >>> [on_curve(((2.0, 1.0), (4.0, 2.0), (5.0, 4.0)), at) for at in (1, 2, 3, 4, 6)]
    [1.0, 1.0, 1.5, 2.0, 6.0]
    """
    if at < points[0][0]:
        return points[0][1]
    i = max(number for number in range(len(points) - 1) if points[number][0] <= at)
    (y0, t0), (y1, t1) = points[i], points[i + 1]
    return t0 + (at - y0) * ((t1 - t0) / (y1 - y0))


def nanoseconds(seconds: float) -> int:
    """The nearest whole nanosecond."""
    return floor(seconds * 1e9 + 0.5)


def ticks(whole_nanoseconds: int, ticks_per_second: int) -> int:
    """Ticks of so many nanoseconds."""
    return whole_nanoseconds * (ticks_per_second // 10**9)
