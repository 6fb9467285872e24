"""Equations that no number solves at sight, worked from their text: by halves, and pass by pass, for one worker."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

LN_4, LN_2 = math.log(4), math.log(2)
"""`ln N` of the example, and of half of it."""


def halved(excess: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function is 0."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    return (low + high) / 2


def most_sequences(kappa: float, r0: float, log_n: float) -> float:
    """`k_N` where slots do not matter."""

    def excess(k: float) -> float:
        return k * math.log(k / (kappa * (k + r0))) + r0 * math.log(r0 / ((1 - kappa) * (k + r0))) - log_n

    return max(1.0, halved(excess, r0 * kappa / (1 - kappa), 1e4))


def longer_step_s(batch: float, c: float, log_n: float) -> float:
    """`v` where context costs nothing: `c_max = c`."""
    w = halved(lambda w: batch * ((1 + w) * math.log(1 + w) - w) - log_n, 0.0, 1e6)
    return batch * c * w


def run_s(log_n: float, rate: float, mean: float, second: float, longest: float, step: float) -> float:
    """The gap that runs of prompts on one worker leave once in `N` requests."""
    found = []
    for i in range(-40, 25):
        s = 2 ** (i / 4) / longest
        m = 1 + s * mean + second / longest**2 * (math.exp(s * longest) - 1 - s * longest)
        room = s - rate * (m - 1)
        if room > 0:
            found.append((log_n + math.log(m) + rate * step * (m - 1)) / room + step)
    return min(found)


@dataclass(frozen=True)
class Chunked:
    """What 24 passes come to with two strata of half the requests, one worker and Poisson arrivals."""

    batch: float
    pace: float
    wait: float
    busy: float
    step: float
    counts: tuple[int, int]
    own: tuple[float, float]
    rho_pc: float
    lane: float
    mean: float
    queue: float

    @property
    def executions(self) -> tuple[float, ...]:
        return tuple(count * self.step + own for count, own in zip(self.counts, self.own, strict=True))

    def prefill_wait(self, rate: float, full: float) -> float:
        """`W + W_res + F`; `full` is `(1 + ψ)·(f(C') - f(1))`."""
        second, count = sum(own**2 for own in self.own) / 2, sum(self.counts) / 2
        rest = self.busy * self.step / 2
        step = self.step / (1 - self.rho_pc) + rate * second / (1 - self.rho_pc**2)
        first = max(0.0, step * (self.busy + 2 * self.rho_pc) / 2 - self.queue - rest)
        return self.queue + rest + first / count + (1 - 1 / count) * self.lane * full / 2


def chunked(rate: float, budget: float, penalty: float = 0.0) -> Chunked:
    """The example: prompts of 1000 and 3000 tokens at 20000/s, 10 ms a piece, 20 steps of 10 ms and 1 ms a sequence."""
    d, per_token, steps, c, grown = 0.01, 1 / 20000, 20.0, 0.001, 1 + penalty
    lengths, x = (1000.0, 3000.0), rate * 20.0

    def look(batch: float) -> tuple[float, ...]:
        theta, room = 0.01 + c * batch, budget - batch
        counts = [math.ceil(u / room) for u in lengths]
        own = [grown * (k * d + u * per_token) for k, u in zip(counts, lengths, strict=True)]
        taken = [
            theta * u / room + g + grown * d * (1 + u / room - k) for u, g, k in zip(lengths, own, counts, strict=True)
        ]
        mean, second = sum(taken) / 2, sum(v**2 for v in taken) / 2
        return theta, sum(own) / 2, mean, rate * second / (2 * (1 - rate * mean)), *counts, *own

    batch = wait = beside = pace = 0.0
    for _ in range(24):
        theta, s1, mean, queue, *_ = look(batch)
        rho_pc, lane = rate * s1, rate * mean
        pace = (0.01 + c * (1 + beside)) / (1 - rho_pc - x * c)
        behind = rate * (queue + mean) / (1 - lane)
        kappa, tau = (1 - rho_pc / lane) / (1 - rho_pc), theta * lane / (lane - rho_pc)
        long = (behind * (1 - lane) * s1 - kappa * s1 * queue / mean) / (1 - rho_pc)
        short = steps * (lane * tau + (1 - lane) * theta - theta / (1 - rho_pc))
        wait = long * short / (long + short) if min(long, short) > 0 else 0.0
        beside = behind * (1 - lane * kappa) * steps / (steps + behind * mean / tau)
        batch = batch / 2 + (x * pace + rate * wait) / 2
    theta, s1, mean, queue, k_short, k_long, g_short, g_long = look(batch)
    rho_pc = rate * s1
    busy = 1 - (1 - x * c / (1 - rho_pc)) ** (0.011 / c)
    counts = int(k_short), int(k_long)
    return Chunked(batch, pace, wait, busy, theta, counts, (g_short, g_long), rho_pc, rate * mean, mean, queue)
