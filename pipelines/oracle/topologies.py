"""The three topologies, evaluated from the exported inputs (docs/arithmetic.md sections 5 and 6)."""

from __future__ import annotations

from . import equations as eq
from .chunking import chunked
from .disaggregation import disaggregated
from .memory import batch_cap, resident_bytes
from .parameters import Parameters
from .scenario import Evaluation, Figures, Gauge, Knobs, Refused, timeline
from .traffic import Moments, Traffic

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
    cap = batch_cap(of, work.steps, work.resident_tokens)
    gauge.take_slots(of, batch, cap)
    held = eq.prefill_token_s(of, whole) + t * work.token_steps
    resident = traffic.rate_rps / n * resident_bytes(of, held, service + t * work.steps)
    gauge.take("kv_mixed", resident / of.kv_memory_bytes, 1.0)

    scv = eq.squared_variation(service, eq.prefill_m2_s2(of, whole))
    queue = eq.pool_queue(of, traffic.arrival_scv, scv, rho_p, n, service)
    step = of.step_overhead_s + c * max(1.0, batch)
    other_waits = eq.residual_step_s(batch, step) + eq.slot_wait_s(cap, work, batch, t)
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


_FIGURES = {"aggregated": aggregated, "chunked": chunked, "disaggregated": disaggregated}
