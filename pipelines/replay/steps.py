"""How long things take, in ticks: runs of decode steps, and pieces of prompts (docs/replay.md, The clock)."""

import math

from pipelines.replay.compiled import part, rare
from pipelines.replay.records import (
    BEYOND,
    COUNTABLE,
    LAST_TICK,
    NANOSECONDS,
    WHOLE_NANOSECONDS,
    Record,
    Times,
)


@part
def run_ticks(worker: Record, gamma: int, steps: int) -> int:
    """Ticks of the first ``steps`` of the worker's run: all of one batch, which reads ``batch`` tokens more in each step."""
    context = steps * worker.resident + worker.batch * (steps * (steps - 1) // 2)
    return steps * worker.each + gamma * context


@rare
def steps_until(worker: Record, gamma: int, ticks: int) -> int:
    """The fewest steps of the worker's run, one at least, that take ``ticks`` or longer."""
    if ticks <= 1 or worker.steps == 1:
        return 1
    first = worker.each + gamma * worker.resident
    growth = gamma * worker.batch
    if growth == 0:
        return (ticks + first - 1) // first
    half = 0.5 * growth
    linear = first - half
    steps = int(2.0 * ticks / (linear + math.sqrt(linear * linear + 4.0 * half * ticks)))
    if steps < 1:
        steps = 1
    while steps > 1 and run_ticks(worker, gamma, steps - 1) >= ticks:
        steps -= 1
    while run_ticks(worker, gamma, steps) < ticks:
        steps += 1
    return steps


@part
def nanoseconds(seconds: float) -> int:
    """The nearest whole number of nanoseconds; no more than are ever needed."""
    ns = seconds * NANOSECONDS + 0.5
    return int(ns) if ns < BEYOND else BEYOND


@part
def added_ns(ns: int, more: int) -> int:
    """Nanoseconds of one thing and another; no more than are ever needed."""
    return ns + more if ns < BEYOND - more else BEYOND


@part
def ticks_of(ns: int, tpn: int, now: int) -> int:
    """Ticks of so many nanoseconds from ``now`` on; of too many, so that they end just after the last tick."""
    left = LAST_TICK + 1 - now
    return min(ns * tpn, left) if float(ns) * tpn < COUNTABLE else left


@part
def piece_ns(times: Times, before: int, tokens: int) -> int:
    """Nanoseconds of a piece of ``tokens`` of a prompt behind ``before`` that are in the cache."""
    if times.tokens.size == 0:
        attention = times.q * (tokens * tokens + 2 * before * tokens)
        return max(1, nanoseconds(times.d + tokens / times.rate + attention))
    return max(1, nanoseconds(_on_curve(times, tokens) + times.q * (2 * before * tokens)))


@rare
def _on_curve(times: Times, tokens: int) -> float:
    """Seconds at ``tokens`` on the measured curve of prefill."""
    last = times.tokens.size - 1
    if tokens < times.tokens[0] or last == 0:
        return times.seconds[0]
    piece = 0
    while piece < last - 1 and tokens >= times.tokens[piece + 1]:
        piece += 1
    slope = (times.seconds[piece + 1] - times.seconds[piece]) / (times.tokens[piece + 1] - times.tokens[piece])
    return times.seconds[piece] + (tokens - times.tokens[piece]) * slope


@part
def beside_decode_ns(times: Times, ns: int) -> int:
    """The prompt part of a step with sequences that decode."""
    if times.penalty == 0.0 and ns < WHOLE_NANOSECONDS:
        return ns
    longer = ns * (1.0 + times.penalty) + 0.5
    return int(longer) if longer < BEYOND else BEYOND
