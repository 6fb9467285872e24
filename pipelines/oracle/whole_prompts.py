"""A mixed pool that runs a whole prompt before the next decode step (docs/arithmetic.md section 5, Whole prompts)."""

from __future__ import annotations

from dataclasses import dataclass

from . import equations as eq
from . import extremes as ex
from .goodput import FirstTokens, Generation
from .memory import resident_bytes
from .mixed import mixed_timelines, prompt_orders, slots_wait_s
from .pacing import Crowd
from .parameters import Parameters
from .queues import Pool, Wait, free_moment, run_prompts
from .scenario import Gauge, PathFigures
from .screening import Regime, waiting_share
from .traffic import Requests


@dataclass(frozen=True)
class Running:
    """A pool at a rate: waits, the pace, and how many sequences decode."""

    pool: Pool
    rate_rps: float
    arrival_scv: float
    rho_p: float
    queue: Wait
    rest_s: float
    """`W_res` (s)."""
    met: float
    """`φ`: how much of prefill meets a worker that decodes."""
    orders: tuple[float, ...]
    decode_wait_s: float
    """`dw` (s)."""
    pace_s: float
    batch: float
    crowd: Crowd

    @property
    def per_worker_rps(self) -> float:
        """`l = Λ/n`."""
        return self.rate_rps / self.pool.workers

    @property
    def queue_rps(self) -> float:
        """`Λ_q = Λ·n'/n`."""
        return self.per_worker_rps * self.pool.sharing

    @property
    def step_s(self) -> float:
        """`t·(1 - φ·ρ_p)` (s): a step of a worker that decodes."""
        return self.pace_s * (1 - self.met * self.rho_p)


@dataclass(frozen=True)
class WholePrompts:
    """What the pool's size and the rate leave as it is: prefill and decode of the requests."""

    of: Parameters
    requests: Requests
    prefill: eq.Prefill
    decode: eq.Decode
    mean_s: float
    second_s2: float
    token_s: float
    buckets_s: tuple[float, ...]

    @property
    def scv(self) -> float:
        """`cs²` of prefill."""
        return eq.squared_variation(self.mean_s, self.second_s2)

    def evaluate(self, rate_rps: float, arrival_scv: float, workers: int, gauge: Gauge) -> PathFigures:
        """Evaluate n workers at a rate."""
        of, work, requests = self.of, self.decode.work, self.requests
        rho_p, x = rate_rps * self.mean_s / workers, rate_rps * work.steps / workers
        gauge.take("mixed", rho_p + x * self.decode.steps.per_sequence_s, of.mixed_ceiling)
        at = self.run(rate_rps, arrival_scv, Pool(workers, of.round_robin))
        gauge.take_slots("mixed", of, at.batch, self.decode.cap)
        dw, t, m = at.decode_wait_s, at.pace_s, requests.whole.multi_token_share
        held = self.token_s + requests.whole.p1 * m * dw + t * work.token_steps
        resident = at.per_worker_rps * resident_bytes(of, held, self.mean_s + m * dw + t * work.steps)
        gauge.take("kv_mixed", resident / of.kv_memory_bytes, 1.0)

        slot, wait = slots_wait_s(at.pool, self.decode, at.batch, t), at.queue.mean_s + at.rest_s
        waits = [requests.mean(k.bucket, at.orders) * wait + slot for k in requests.buckets]
        return PathFigures(
            requests=requests,
            timelines=mixed_timelines(of, requests, waits, self.buckets_s, (dw, at.step_s, t)),
            waits_s={
                "prefill": requests.mean("all", at.orders) * wait + slot,
                "transfer": 0.0,
                "decode": dw,
            },
            decode_batch=at.batch,
            firsts=lambda: self._firsts(at, slot),
            generation=lambda: self._generation(at),
            stall=lambda: self._stall_s(at),
            regime=lambda: self._regime(at),
        )

    def run(self, rate_rps: float, arrival_scv: float, pool: Pool) -> Running:
        """Return waits and pace of a pool whose utilization is below 1."""
        of, work, steps, mean, n = self.of, self.decode.work, self.decode.steps, self.mean_s, pool.workers
        rho_p, x, per_worker = rate_rps * mean / n, rate_rps * work.steps / n, rate_rps / n
        crowd = steps.crowd(rho_p, x)
        offered = per_worker * pool.sharing * (mean + work.steps * steps.first_s)
        moment = free_moment(pool, offered, rho_p, crowd.busy)
        met = moment.met
        rest = moment.rest_s(rho_p, (1 - met * rho_p) * steps.pace(rho_p, x, met))
        queue = pool.wait(arrival_scv, self.scv, rho_p, mean)
        orders = prompt_orders(of, self.requests, self.prefill.strata_s, per_worker)
        dw = self._decode_wait_s(pool, rate_rps, arrival_scv, queue, rest)
        if of.shortest_first:
            dw = max(0.0, dw + (queue.mean_s + rest) * (1 - self.requests.mean("all", orders)))
        beside = self.requests.whole.multi_token_share * dw / mean
        t = steps.pace(rho_p, x, met, beside)
        return Running(pool, rate_rps, arrival_scv, rho_p, queue, rest, met, orders, dw, t, x * t, crowd)

    def _decode_wait_s(self, pool: Pool, rate_rps: float, arrival_scv: float, queue: Wait, rest_s: float) -> float:
        """`dw` (s) with `fifo`: prompts behind one's own run before it decodes."""
        mean, per_worker = self.mean_s, rate_rps / pool.workers
        rho_p = per_worker * mean
        if pool.sharing == 1:
            behind = per_worker * (queue.mean_s + rest_s + mean) + (pool.scv(arrival_scv) - 1) / 2
            return max(0.0, behind) * mean / (1 - rho_p)
        further = (run_prompts(pool.workers, rho_p) - 1) * (arrival_scv + self.scv) / 2
        came = per_worker * queue.mean_s + rate_rps * rest_s
        return mean * (queue.probability * (1 + further) + came / (1 - rho_p))

    def _firsts(self, at: Running, slot_s: float) -> FirstTokens:
        fixed = [
            self.of.admission_s + order * at.rest_s + slot_s + seconds
            for order, seconds in zip(at.orders, self.prefill.strata_s, strict=True)
        ]
        return FirstTokens(at.queue, at.orders, fixed, self.prefill.spreads_s())

    def _generation(self, at: Running) -> Generation:
        """`σ²` is `dw²·(2/P_r - 1) + D·τ_r·l·φ·S2/(1 - φ·ρ_p)³ + v_b`."""
        dw, interrupted = at.decode_wait_s, at.per_worker_rps * at.met * self.second_s2
        waiting = min(1.0, at.queue.probability + at.per_worker_rps * at.rest_s) or 1.0
        return Generation(
            crowd=at.crowd,
            pace_s=at.pace_s,
            batch=at.batch,
            sharing=at.pool.sharing,
            steps=self.decode.work.steps,
            waits_s=(dw,) * len(self.requests.buckets),
            wait_variance_s2=dw**2 * (2 / waiting - 1),
            step_variance_s2=at.step_s * interrupted / (1 - at.met * at.rho_p) ** 3,
        )

    def _stall_s(self, at: Running) -> float | None:
        """Several whole prompts may run ahead of a decode step."""
        if not self.decode.work.steps:
            return None
        log_n = ex.log_requests(self.requests.whole)
        step = self.decode.steps.seconds(ex.most_sequences(at.crowd, log_n, self.decode.cap))
        times = self.mean_s, self.second_s2, eq.longest_prefill_s(self.of, self.requests.whole)
        return ex.longest_run_s(log_n, at.pool.sharing, at.queue_rps, times, step)

    def _regime(self, at: Running) -> Regime:
        whole = self.requests.whole
        leaves = eq.leaves_curves(self.of, whole.u_max, at.crowd.sequences)
        waiting = whole.multi_token_share * at.decode_wait_s
        return Regime(
            arrival_scv=at.arrival_scv,
            sharing=at.pool.sharing,
            prefill_scv=self.scv,
            slots=at.batch / self.decode.cap,
            leaves_curve=leaves,
            waiting=waiting_share(waiting, self.decode.work.steps * at.pace_s),
            in_turn=at.pool.round_robin and at.pool.workers > 1,
            pace_s=at.pace_s,
            buckets=tuple(k.bucket for k in self.requests.buckets),
        )

    def floors_s(self) -> list[float]:
        """`TTFT°_k = a + S̄_k` (s) of each bucket."""
        return [self.of.admission_s + seconds for seconds in self.buckets_s]

    @property
    def pace_floor_s(self) -> float:
        """`TPOT° = t(1)` (s)."""
        return self.decode.steps.first_s


def whole_prompts(of: Parameters, requests: Requests) -> WholePrompts:
    """Collect the constants of the path."""
    prefill, whole = eq.prefill_of(of, requests), requests.whole
    return WholePrompts(
        of,
        requests,
        prefill,
        eq.decode_of(of, whole, prefill_emits_first_token=True),
        prefill.mean_s(whole),
        prefill.m2_s2(whole),
        prefill.token_s(),
        tuple(prefill.mean_s(k) for k in requests.buckets),
    )
