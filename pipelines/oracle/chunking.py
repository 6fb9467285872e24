"""The chunked topology: decode tokens first, and up to a budget of prompt tokens in every step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import equations as eq
from .memory import batch_cap, resident_bytes
from .parameters import Parameters
from .scenario import Figures, Gauge, Knobs, Refusal, Refused, timeline
from .traffic import Moments, Stratum, Traffic

PASSES = 12


@dataclass(frozen=True)
class Settled:
    """Where the passes over the batch ended: load `rho`, step `t` (s), batch `b`, room `C'` for prompts (tokens)."""

    rho: float
    step_s: float
    batch: float
    room: float


def settle(of: Parameters, traffic: Traffic, n: float, budget: int, x: float, c: float) -> Settled:
    """`C' = C - b` and `b = x·t` in turn, 12 times from b = 0; ends early at `rho ≥ 1` or `C' < 1`."""
    whole, rho, t, batch = traffic.whole, 0.0, 0.0, 0.0
    for _ in range(PASSES):
        room = budget - batch
        if room < 1:
            break
        chunks = math.fsum(s.share * chunks_of(s, room) for s in traffic.strata)
        work = of.prefill_overhead_s * chunks + whole.u1 / of.prefill_tokens_per_s + of.prefill_s_per_token2 * whole.z1
        rho_pc = traffic.rate_rps / n * work
        rho = rho_pc + x * c
        if rho >= 1:
            break
        t = max(of.step_overhead_s / (1 - rho), (of.step_overhead_s + c) / (1 - rho_pc))
        batch = x * t
    return Settled(rho, t, batch, budget - batch)


def chunks_of(stratum: Stratum, room: float) -> int:
    """`K_s = max(1, ceil(u_s/C'))`: steps that a prompt of the stratum takes."""
    return max(1, math.ceil(stratum.u1 / room))


def chunked(of: Parameters, traffic: Traffic, knobs: Knobs, gauge: Gauge) -> Figures:
    """One pool of n workers; prompts advance by what a step's budget leaves."""
    n, whole = float(knobs.workers_mixed or 0), traffic.whole
    work = eq.decode_work(whole, prefill_emits_first_token=True)
    c = eq.seconds_per_sequence(of, work)
    x = traffic.rate_rps * work.steps / n
    end = settle(of, traffic, n, knobs.chunk_tokens or 0, x, c)
    gauge.take("mixed", end.rho, of.mixed_ceiling)
    if end.room < 1:
        raise Refused(Refusal("prefill_starved", "prefill_lane", end.room, 1.0))

    t, batch = end.step_s, end.batch
    full_step = of.step_overhead_s + batch * c + of.prefill_overhead_s
    executions = tuple(
        chunks_of(s, end.room) * full_step + s.u1 / of.prefill_tokens_per_s + of.prefill_s_per_token2 * s.z1
        for s in traffic.strata
    )
    each = list(zip(traffic.strata, executions, strict=True))
    service = math.fsum(s.share * seconds for s, seconds in each)
    service_m2 = math.fsum(s.share * seconds**2 for s, seconds in each)
    rho_lane = traffic.rate_rps / n * service
    gauge.take("prefill_lane", rho_lane, of.prefill_ceiling)
    cap = batch_cap(of, work.steps, work.resident_tokens)
    gauge.take_slots(of, batch, cap)
    held = math.fsum(s.share * s.p1 * seconds for s, seconds in each) + t * work.token_steps
    resident = traffic.rate_rps / n * resident_bytes(of, held, service + t * work.steps)
    gauge.take("kv_mixed", resident / of.kv_memory_bytes, 1.0)

    scv = eq.squared_variation(service, service_m2)
    queue = eq.pool_queue(of, traffic.arrival_scv, scv, rho_lane, n, service)
    step = of.step_overhead_s + c * max(1.0, batch)
    wait = queue.mean_s + eq.residual_step_s(batch, step) + eq.slot_wait_s(cap, work, batch, t)

    def lanes(k: Moments) -> tuple[float, ...]:
        own = [(s.requests, seconds) for s, seconds in each if s.bucket == k.bucket]
        execution = math.fsum(count * seconds for count, seconds in own) / sum(count for count, _ in own)
        rest = max(0.0, k.o1 - 1 - k.multi_token_share) * t
        return (of.admission_s, wait, execution, 0.0, 0.0, 0.0, k.multi_token_share * t, rest)

    return Figures(
        timelines=tuple(timeline(k, lanes(k), 3) for k in traffic.buckets),
        stratum_ttft_s=tuple(of.admission_s + wait + execution for execution in executions),
        queue=queue,
        waits_s={"prefill": wait, "transfer": 0.0, "decode": 0.0},
        decode_batch=batch,
        stall_s=full_step + last_chunk_s(of, whole.p_max, min(end.room, whole.u_max)) if work.steps else None,
    )


def last_chunk_s(of: Parameters, p_max: float, y: float) -> float:
    """`y/r_p + q·(p_max² - (p_max - y)²)` (s) with `y = min(C', u_max)`: the last, most expensive chunk."""
    return y / of.prefill_tokens_per_s + of.prefill_s_per_token2 * (p_max**2 - (p_max - y) ** 2)
