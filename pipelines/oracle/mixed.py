"""What both kinds of paths on a mixed pool share: lanes of a bucket, orders, slots (docs/arithmetic.md section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from .equations import Decode
from .parameters import Parameters
from .queues import Pool, orders, slot_wait_s
from .scenario import Timeline, timeline
from .traffic import Moments, Requests


def prompt_orders(of: Parameters, requests: Requests, times: Sequence[float], rate_rps: float) -> tuple[float, ...]:
    """`ω_s` of every stratum whose prompts take a worker for such times (s); 1 with `fifo`."""
    if not of.shortest_first:
        return (1.0,) * len(requests.strata)
    work = [(s.u1, s.share * seconds) for s, seconds in zip(requests.strata, times, strict=True)]
    return orders(work, rate_rps)


def slots_wait_s(pool: Pool, decode: Decode, batch: float, pace_s: float) -> float:
    """`W_slot` (s)."""
    work = decode.work
    return slot_wait_s(pool, decode.cap, work.steps_scv, batch, work.steps * pace_s)


def mixed_timelines(
    of: Parameters,
    requests: Requests,
    waits_s: Sequence[float],
    executions_s: Sequence[float],
    decoding: tuple[float, float, float],
) -> tuple[Timeline, ...]:
    """Timelines of the buckets: prefill emits the first token, nothing moves; `decoding` are wait, first step and pace (s)."""
    each = zip(requests.buckets, waits_s, executions_s, strict=True)
    return tuple(timeline(k, mixed_lanes(of, k, wait, execution, decoding), 3) for k, wait, execution in each)


def mixed_lanes(
    of: Parameters, k: Moments, wait_s: float, execution_s: float, decoding: tuple[float, float, float]
) -> tuple[float, ...]:
    """The eight lanes of a bucket on a mixed pool (s)."""
    decode_wait, first_step, pace = decoding
    m, rest = k.multi_token_share, max(0.0, k.o1 - 1 - k.multi_token_share)
    return of.admission_s, wait_s, execution_s, 0.0, 0.0, m * decode_wait, m * first_step, rest * pace
