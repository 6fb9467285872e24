"""The disaggregated topology: a pool that prefills, one that decodes, and links between them (section 5)."""

from __future__ import annotations

import math

from . import equations as eq
from . import transfers as tr
from .memory import batch_cap, resident_bytes, whole_tokens
from .parameters import Parameters
from .scenario import Figures, Gauge, Knobs, Transit, timeline
from .traffic import Moments, Traffic


def disaggregated(of: Parameters, traffic: Traffic, knobs: Knobs, gauge: Gauge) -> Figures:
    """A pool that prefills, a pool that decodes, and links that carry the KV cache from one to the other."""
    n_p, whole = float(knobs.workers_prefill or 0), traffic.whole
    service = eq.prefill_s(of, whole.u1, whole.z1)
    rho_p = traffic.rate_rps * service / n_p
    gauge.take("prefill", rho_p, of.prefill_ceiling)
    transit = transit_of(of, traffic, knobs, gauge)
    take_memory(of, traffic, gauge, n_p, transit)

    scv = eq.squared_variation(service, eq.prefill_m2_s2(of, whole))
    queue = eq.pool_queue(of, traffic.arrival_scv, scv, rho_p, n_p, service)
    link, t = transit.link, transit.step_s
    visible = visible_movements(of, traffic, transit.movement)
    to_first_token = 7 if of.decode_emits_first_token else 3

    def lanes(prefill: float, movement: float, o1: float, multi: float) -> tuple[float, ...]:
        first, rest = (1.0, o1 - 1) if of.decode_emits_first_token else (multi, max(0.0, o1 - 1 - multi))
        return of.admission_s, queue.mean_s, prefill, link.mean_s, movement, transit.decode_wait_s, first * t, rest * t

    def of_bucket(k: Moments) -> tuple[float, ...]:
        movement = tr.strata_mean(traffic, k.bucket, visible)
        return lanes(eq.prefill_s(of, k.u1, k.z1), movement, k.o1, k.multi_token_share)

    pairs = zip(traffic.strata, visible, strict=True)
    of_strata = [lanes(eq.prefill_s(of, s.u1, s.z1), movement, 1.0, 0.0) for s, movement in pairs]
    return Figures(
        timelines=tuple(timeline(k, of_bucket(k), to_first_token) for k in traffic.buckets),
        stratum_ttft_s=tuple(math.fsum(own[:to_first_token]) for own in of_strata),
        queue=queue if queue.mean_s >= link.mean_s or not of.decode_emits_first_token else link,
        waits_s={"prefill": queue.mean_s, "transfer": link.mean_s, "decode": transit.decode_wait_s},
        decode_batch=transit.batch,
        stall_s=stall_s(of, whole, transit),
        transit=transit,
    )


def transit_of(of: Parameters, traffic: Traffic, knobs: Knobs, gauge: Gauge) -> Transit:
    """Take the loads of decode workers, links and slots; then the waits after prefill."""
    n_p, n_d, whole = float(knobs.workers_prefill or 0), float(knobs.workers_decode or 0), traffic.whole
    work = eq.decode_work(whole, prefill_emits_first_token=not of.decode_emits_first_token)
    c = eq.seconds_per_sequence(of, work)
    x = traffic.rate_rps * work.steps / n_d
    rho_d = x * c
    gauge.take("decode", rho_d, of.decode_ceiling)
    movement, queues = tr.movement_of(of, traffic), tr.link_queues(of, n_p, n_d)
    rho_l = tr.link_load(of, traffic, movement, queues)
    gauge.take("link", rho_l, of.link_ceiling)

    t = max(of.step_overhead_s / (1 - rho_d), of.step_overhead_s + c)
    batch, cap = x * t, batch_cap(of, work.steps, work.resident_tokens)
    gauge.take_slots(of, batch, cap)
    link = tr.link_wait(of, movement, rho_l)
    decode_wait = eq.residual_step_s(batch, t) + eq.slot_wait_s(cap, work, batch, t)
    return Transit(queues, n_d, link, movement, decode_wait, t, batch, cap, work)


def visible_movements(of: Parameters, traffic: Traffic, movement: tr.Movement) -> tuple[float, ...]:
    """`T_s - H_s` of every stratum (s)."""
    pairs = zip(traffic.strata, movement.transfers, strict=True)
    return tuple(tr.visible_s(of, transfer, eq.prefill_s(of, s.u1, s.z1)) for s, transfer in pairs)


def take_memory(of: Parameters, traffic: Traffic, gauge: Gauge, n_p: float, transit: Transit) -> None:
    """Take the KV resident per prefill and per decode worker as shares of its memory, and what is in flight to one."""
    whole, moved, rate = traffic.whole, transit.movement, traffic.rate_rps
    moving, moving_s = whole.p1 * transit.wait_s + moved.prompt_token_s, transit.wait_s + moved.mean_s
    held, held_s = eq.prefill_token_s(of, whole) + moving, eq.prefill_s(of, whole.u1, whole.z1) + moving_s
    gauge.take("kv_prefill", rate / n_p * resident_bytes(of, held, held_s) / of.kv_memory_bytes, 1.0)
    decoding, decoding_s = decoding_of(traffic, transit)
    resident = rate / transit.workers_decode * resident_bytes(of, moving + decoding, moving_s + decoding_s)
    gauge.take("kv_decode", resident / of.kv_memory_bytes, 1.0)
    gauge.take("staging", in_flight_sequences(traffic, transit) / (transit.cap - transit.batch), 1.0)


def decoding_of(traffic: Traffic, transit: Transit) -> tuple[float, float]:
    """`p1·decode_wait + t·(PD + D2/2)` (token·s) and `decode_wait + t·D1` (s): held from the transfer's end on."""
    tokens = traffic.whole.p1 * transit.decode_wait_s + transit.step_s * transit.work.token_steps
    return tokens, transit.decode_wait_s + transit.step_s * transit.work.steps


def in_flight_sequences(traffic: Traffic, transit: Transit) -> float:
    """`f = (Λ/n_d)·(W_l + T̄)`: sequences on their way to one decode worker."""
    return traffic.rate_rps / transit.workers_decode * (transit.wait_s + transit.movement.mean_s)


def stall_s(of: Parameters, whole: Moments, transit: Transit) -> float | None:
    """Return the longest gap between two tokens (s): a step, or the hand-over if prefill emits the first token."""
    if of.decode_emits_first_token:
        return transit.step_s if whole.multi_token_share else None
    if not transit.work.steps:
        return None
    longest = tr.transfer_of(of, whole_tokens(of, whole.p_max))
    moving = tr.visible_s(of, longest, eq.longest_prefill_s(of, whole))
    return transit.wait_s + moving + transit.decode_wait_s + transit.step_s
