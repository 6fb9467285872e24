"""The clock of a replay and what takes how long on it, in whole numbers (docs/replay.md, The clock, Memory)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from .cache import Cache
from .curves import Curve
from .memory import whole_tokens
from .parameters import Parameters
from .transfers import descriptors, moved_bytes, transfer_bandwidth

NS_PER_S = 10**9
LAST_TICK = 2**62
"""The replay stops there."""
_MOST_DIGITS, _FEWEST_DIGITS = 14, 9
_FOREVER = 2.0**63
"""More ticks, and more nanoseconds, than the clock has."""
_SPANS, _SPARE_S = 4, 10_000
"""So many spans of the log, and so many seconds more, fit before the last tick."""


def nearest(value: float) -> int:
    """`floor(x + 0.5)`.

    >>> nearest(2.5), nearest(2.4), nearest(-0.5)
    (3, 2, 0)
    """
    return math.floor(value + 0.5)


def ticks_per_second(span_ns: int) -> int:
    """`T`: the largest power of ten with `2⁶²/T ≥ 4·span + 10000`.

    >>> [ticks_per_second(seconds * NS_PER_S) for seconds in (0, 9029, 9030, 10**8)]
    [100000000000000, 100000000000000, 10000000000000, 10000000000]
    """
    demanded = _SPANS * span_ns + _SPARE_S * NS_PER_S
    fitting = (10**digits for digits in range(_MOST_DIGITS, _FEWEST_DIGITS, -1))
    return next((ticks for ticks in fitting if ticks * demanded <= LAST_TICK * NS_PER_S), NS_PER_S)


def duration(value: float) -> int:
    """`floor(x + 0.5)` of nanoseconds or ticks that something takes; of what no clock has time for, so many that none has.

    >>> duration(2.5), duration(1e18), duration(math.inf) > LAST_TICK
    (3, 1000000000000000000, True)
    """
    return nearest(min(value, _FOREVER))


def at_least_one(seconds: float) -> int:
    """`max(1, floor(s·10⁹ + 0.5))`: what takes some time takes a nanosecond."""
    return max(1, duration(seconds * NS_PER_S))


def before_the_end(begins: int, ticks: int) -> int:
    """Of the ticks that something takes, those before the clock ends.

    >>> before_the_end(5, 7), before_the_end(LAST_TICK - 3, 7), before_the_end(LAST_TICK + 2, 7)
    (7, 3, 0)
    """
    return max(0, min(ticks, LAST_TICK - begins))


def along(curve: Curve, size: float) -> float:
    """`τ_i + (y - y_i)·((τ_(i+1) - τ_i)/(y_(i+1) - y_i))` (s), the terms in this order.

    >>> [along(Curve(((10.0, 1.0), (20.0, 2.0), (40.0, 3.0))), y) for y in (5.0, 15.0, 20.0, 60.0)]
    [1.0, 1.5, 2.0, 4.0]
    """
    points = curve.points
    if size < points[0][0]:
        return points[0][1]
    place = max(i for i in range(len(points) - 1) if points[i][0] <= size)
    (here, seconds), (there, later) = points[place], points[place + 1]
    return seconds + (size - here) * ((later - seconds) / (there - here))


@dataclass(frozen=True)
class Footprint:
    """Bytes of a worker that a request holds, whole ones: `G`, `s`, each `(ω_j, W_j)`, and the size of a block."""

    growth: int
    state: int
    windows: tuple[tuple[int, int], ...]
    block: int
    whole: bool
    """Whether all of it is held from the beginning (`wait`)."""

    def fixed(self, p: int, o: int) -> int:
        """`fixed = s + Σ_j ω_j·min(p + o + β - 1, W_j)`, the windows where they are bounded."""
        tokens = p + o + self.block - 1
        return self.state + sum(per_token * min(tokens, length) for per_token, length in self.windows)

    def prompt(self, p: int, o: int) -> int:
        """`fixed + G·(p + β - 1)`: what a request holds before its first token."""
        return self.fixed(p, o) + self.growth * (p + self.block - 1)

    def complete(self, p: int, o: int) -> int:
        """`fixed + G·(p + o + β - 1)`: the whole of it."""
        return self.prompt(p, o) + self.growth * o


def footprint_of(of: Parameters) -> Footprint:
    """Read `G` and `fixed`: `A` and `s`, or with windows that are bounded `g`, `s` and the windows."""
    cache: Cache = of.cache
    own = [(nearest(w.bytes_per_token), w.tokens) for w in cache.windows] if of.by_kind else []
    growth = cache.growth_bytes if of.by_kind else cache.allocated_bytes
    waits = of.when_memory_is_full == "wait"
    return Footprint(nearest(growth), nearest(cache.state_bytes), tuple(own), of.block_tokens, waits)


@dataclass(frozen=True)
class Clock:
    """Durations of the activities of one kind of workers, in ticks of which `T` are a second."""

    of: Parameters
    ticks_per_s: int
    _bases: dict[int, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def ns(self) -> int:
        """Ticks of a nanosecond."""
        return self.ticks_per_s // NS_PER_S

    def ticks_of(self, seconds: float) -> int:
        """Ticks of an objective, or of admission: whole nanoseconds."""
        return duration(seconds * NS_PER_S) * self.ns

    def base(self, sequences: int) -> int:
        """`base[b]`: the decode part of a step with so many sequences."""
        if sequences not in self._bases:
            self._bases[sequences] = self._base(sequences)
        return self._bases[sequences]

    def _base(self, sequences: int) -> int:
        of = self.of
        if of.decode_curve is not None:
            seconds = along(of.decode_curve, float(sequences))
        else:
            seconds = of.step_overhead_s + sequences / of.decode_tokens_per_s
        return max(1, duration(seconds * self.ticks_per_s))

    @cached_property
    def per_resident_token(self) -> int:
        """`γ_T`: each token that a step reads from the cache."""
        return duration(self.of.decode_s_per_context_token * self.ticks_per_s)

    def piece_s(self, behind: int, tokens: int) -> float:
        """`d + y/r_p + q·(y·y + 2·x·y)`, or `P(y) + q·(2·x·y)` (s), as it is written."""
        of, x, y = self.of, float(behind), float(tokens)
        if of.prefill_curve is not None:
            return along(of.prefill_curve, y) + of.prefill_s_per_token2 * (2 * x * y)
        return of.prefill_overhead_s + y / of.prefill_tokens_per_s + of.prefill_s_per_token2 * (y * y + 2 * x * y)

    def prompt(self, behind: int, tokens: int) -> int:
        """Ticks of one piece alone."""
        return at_least_one(self.piece_s(behind, tokens)) * self.ns

    def pieces(self, pieces: Iterable[tuple[int, int]], *, beside: bool) -> int:
        """Ticks of the prompt part of a step, longer beside decode tokens."""
        total = sum(at_least_one(self.piece_s(x, y)) for x, y in pieces)
        if beside:
            total = duration(total * (1 + self.of.mixed_step_penalty))
        return total * self.ns

    def moved_to_host(self, size: int) -> int:
        """Ticks in which so many bytes are moved between GPU and host."""
        if self.of.swap_bandwidth_bytes_per_s is None:
            raise ValueError("nothing is swapped: no bandwidth is declared")
        return at_least_one(size / self.of.swap_bandwidth_bytes_per_s) * self.ns

    def transfer(self, p: int, h: int) -> tuple[int, int]:
        """Ticks from the start of a transfer until its cache arrives, and those that its channel is kept."""
        of = self.of
        total, payload = transfer_s(of, p - of.prefix_at_destination * h)
        hidden = min(of.overlap * payload, self.piece_s(h, p - h))
        return at_least_one(total - hidden) * self.ns, at_least_one(total - of.handover_s) * self.ns


def transfer_s(of: Parameters, tokens: float) -> tuple[float, float]:
    """`T(v)` and `Y(v)` (s) of one prompt in whole blocks, as they are written (section 3, Transfers)."""
    held = whole_tokens(of, tokens)
    size, curve, bandwidth = moved_bytes(of, held), of.curve, transfer_bandwidth(of)
    if curve is not None and (bandwidth is None or curve.covers(size)):
        free, seconds = 1 - of.competing_traffic, along(curve, size)
        return of.handover_s + seconds / free, (seconds - curve.first[1]) / free
    if bandwidth is None:
        raise ValueError("neither a bandwidth nor a curve is declared")
    payload = size / bandwidth
    total = of.handover_s + of.transfer_overhead_s + of.descriptor_s * descriptors(of, held) + payload
    return total, payload


@lru_cache(maxsize=16)
def clock_of(of: Parameters, ticks_per_s: int) -> Clock:
    """The clock of workers, made once."""
    return Clock(of, ticks_per_s)
