"""The three topologies, evaluated from the exported inputs (docs/arithmetic.md sections 5 and 6)."""

from __future__ import annotations

import math

from . import equations as eq
from .chunking import chunked
from .parameters import Parameters
from .scenario import Evaluation, Figures, Gauge, Knobs, Refused, timeline
from .traffic import Moments, Stratum, Traffic

PARTS = {
    "aggregated": {"pools": 1, "queues": 1, "state_transfers": 0, "failure_edges": 1},
    "chunked": {"pools": 1, "queues": 2, "state_transfers": 0, "failure_edges": 1},
    "disaggregated": {"pools": 2, "queues": 3, "state_transfers": 1, "failure_edges": 5},
}


def evaluate(of: Parameters, traffic: Traffic, knobs: Knobs) -> Evaluation:
    """Evaluate one scenario at the bound of the parameters."""
    gauge = Gauge()
    try:
        figures = _FIGURES[knobs.topology](of, traffic, knobs, gauge)
    except Refused as refused:
        return Evaluation(tuple(gauge.loads), refused.refusal, None)
    return Evaluation(tuple(gauge.loads), None, figures)


def aggregated(of: Parameters, traffic: Traffic, knobs: Knobs, gauge: Gauge) -> Figures:
    """One pool of n workers; a whole prompt runs before the next decode step."""
    n, whole = float(knobs.workers_mixed or 0), traffic.whole
    work = eq.decode_work(whole, prefill_emits_first_token=True)
    c = eq.seconds_per_sequence(of, work)
    service = eq.prefill_s(of, whole.u1, whole.z1)
    rho_p = traffic.rate_rps * service / n
    x = traffic.rate_rps * work.steps / n
    rho = rho_p + x * c
    gauge.take("mixed", rho, of.mixed_ceiling)

    t = max(of.step_overhead_s / (1 - rho), (of.step_overhead_s + c) / (1 - rho_p))
    batch = x * t
    gauge.take("slots", batch / of.max_sequences, of.decode_ceiling)
    prefilling = eq.prefill_token_s(of, whole)
    resident = of.kv_bytes_per_token * traffic.rate_rps / n * (prefilling + t * work.token_steps)
    gauge.take("kv_mixed", resident / of.kv_memory_bytes, 1.0)

    scv = eq.squared_variation(service, eq.prefill_m2_s2(of, whole))
    queue = eq.pool_queue(of, traffic.arrival_scv, scv, rho_p, n, service)
    step = of.step_overhead_s + c * max(1.0, batch)
    other_waits = eq.residual_step_s(batch, step) + eq.slot_wait_s(of, work, batch, t)
    wait = queue.mean_s + other_waits

    def lanes(k: Moments) -> tuple[float, ...]:
        rest = max(0.0, k.o1 - 1 - k.multi_token_share) * t
        return (of.admission_s, wait, eq.prefill_s(of, k.u1, k.z1), 0.0, 0.0, 0.0, k.multi_token_share * t, rest)

    return Figures(
        timelines=tuple(timeline(k, lanes(k), 3) for k in traffic.buckets),
        stratum_ttft_s=tuple(of.admission_s + wait + eq.prefill_s(of, s.u1, s.z1) for s in traffic.strata),
        queue=queue,
        waits_s={"prefill": wait, "transfer": 0.0, "decode": 0.0},
        decode_batch=batch,
        stall_s=eq.longest_prefill_s(of, whole) + step if work.steps else None,
    )


def disaggregated(of: Parameters, traffic: Traffic, knobs: Knobs, gauge: Gauge) -> Figures:
    """A pool that prefills, a pool that decodes, and links that carry the KV cache from one to the other."""
    n_p, n_d, whole = float(knobs.workers_prefill or 0), float(knobs.workers_decode or 0), traffic.whole
    work = eq.decode_work(whole, prefill_emits_first_token=not of.decode_emits_first_token)
    c = eq.seconds_per_sequence(of, work)
    service, movement = eq.prefill_s(of, whole.u1, whole.z1), eq.transfer_s(of, whole.p1)
    rho_p, rho_l = traffic.rate_rps * service / n_p, traffic.rate_rps * movement / of.links
    x = traffic.rate_rps * work.steps / n_d
    rho_d = x * c
    gauge.take("prefill", rho_p, of.prefill_ceiling)
    gauge.take("decode", rho_d, of.decode_ceiling)
    gauge.take("link", rho_l, of.link_ceiling)

    t = max(of.step_overhead_s / (1 - rho_d), of.step_overhead_s + c)
    batch = x * t
    gauge.take("slots", batch / of.max_sequences, of.decode_ceiling)
    link_scv = eq.squared_variation(movement, eq.transfer_m2_s2(of, whole))
    link = eq.shared_queue(1.0, link_scv, rho_l, of.links, movement)
    decode_wait = eq.residual_step_s(batch, t) + eq.slot_wait_s(of, work, batch, t)
    _take_memory(of, traffic, gauge, work, n_p, n_d, link.mean_s, decode_wait, t)
    gauge.take("staging", traffic.rate_rps / n_d * (link.mean_s + movement) / (of.max_sequences - batch), 1.0)

    scv = eq.squared_variation(service, eq.prefill_m2_s2(of, whole))
    queue = eq.pool_queue(of, traffic.arrival_scv, scv, rho_p, n_p, service)
    to_first_token = 7 if of.decode_emits_first_token else 3

    def lanes(k: Moments | Stratum, o1: float, multi: float) -> tuple[float, ...]:
        first, rest = (1.0, o1 - 1) if of.decode_emits_first_token else (multi, max(0.0, o1 - 1 - multi))
        prefill = eq.prefill_s(of, k.u1, k.z1)
        movement = visible_movement_s(of, k.p1, prefill)
        return (of.admission_s, queue.mean_s, prefill, link.mean_s, movement, decode_wait, first * t, rest * t)

    return Figures(
        timelines=tuple(timeline(k, lanes(k, k.o1, k.multi_token_share), to_first_token) for k in traffic.buckets),
        stratum_ttft_s=tuple(math.fsum(lanes(s, 1.0, 0.0)[:to_first_token]) for s in traffic.strata),
        queue=queue if queue.mean_s >= link.mean_s or not of.decode_emits_first_token else link,
        waits_s={"prefill": queue.mean_s, "transfer": link.mean_s, "decode": decode_wait},
        decode_batch=batch,
        stall_s=_stall_s(of, whole, work, link.mean_s, decode_wait, t),
        moves_state=True,
    )


def visible_movement_s(of: Parameters, p1: float, prefill_s: float) -> float:
    """`T - min(φ·κ·p/w, S)` (s): overlap hides at most the prefill that it overlaps."""
    return eq.transfer_s(of, p1) - min(of.overlap * eq.payload_s(of, p1), prefill_s)


def _take_memory(
    of: Parameters,
    traffic: Traffic,
    gauge: Gauge,
    work: eq.DecodeWork,
    n_p: float,
    n_d: float,
    link_wait: float,
    decode_wait: float,
    t: float,
) -> None:
    """Take the KV resident per prefill and per decode worker as shares of a worker's KV memory."""
    whole, per_token = traffic.whole, of.kv_bytes_per_token
    moving = whole.p1 * link_wait + of.transfer_overhead_s * whole.p1 + per_token / of.bandwidth_bytes_per_s * whole.p2
    prefilling = eq.prefill_token_s(of, whole)
    decoding = whole.p1 * decode_wait + t * work.token_steps
    gauge.take("kv_prefill", per_token * traffic.rate_rps / n_p * (prefilling + moving) / of.kv_memory_bytes, 1.0)
    gauge.take("kv_decode", per_token * traffic.rate_rps / n_d * (moving + decoding) / of.kv_memory_bytes, 1.0)


def _stall_s(
    of: Parameters, whole: Moments, work: eq.DecodeWork, link_wait: float, decode_wait: float, t: float
) -> float | None:
    """Return the longest gap between two tokens (s): a step, or the hand-over if prefill emits the first token."""
    if of.decode_emits_first_token:
        return t if whole.multi_token_share else None
    if not work.steps:
        return None
    return link_wait + visible_movement_s(of, whole.p_max, eq.longest_prefill_s(of, whole)) + decode_wait + t


_FIGURES = {"aggregated": aggregated, "chunked": chunked, "disaggregated": disaggregated}
