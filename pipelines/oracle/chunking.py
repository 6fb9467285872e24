"""A mixed pool that serves decode tokens first, and up to a budget of prompt tokens in every step (section 5, Chunks)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from . import equations as eq
from . import extremes as ex
from .goodput import FirstTokens, Generation
from .memory import resident_bytes
from .mixed import mixed_timelines, prompt_orders, slots_wait_s
from .pacing import Crowd
from .parameters import Parameters
from .pieces import Cutter, Lane, Pieces
from .queues import Pool, Wait, free_moment, run_prompts
from .scenario import Gauge, PathFigures, Refusal, Refused
from .screening import Regime, waiting_share
from .traffic import Requests

PASSES = 24


@dataclass(frozen=True)
class Arriving:
    """A pool, and the requests that reach it."""

    pool: Pool
    rate_rps: float
    arrival_scv: float

    @property
    def per_worker_rps(self) -> float:
        """`l = Λ/n`."""
        return self.rate_rps / self.pool.workers


@dataclass(frozen=True)
class Pass:
    """One look at the pool with a batch of `b`: steps, pieces, the lane and the queue before it."""

    step_s: float
    """`θ = t(b)` (s)."""
    room: float
    """`C'` (tokens)."""
    pieces: Pieces
    rho_pc: float
    lane: Lane
    rho_lane: float
    queue: Wait


@dataclass(frozen=True)
class Settled:
    """Where the passes ended: the pool's load, batch and room; what else they found, and a look with the last batch."""

    rho: float
    batch: float
    room: float
    pace_s: float = 0.0
    decode_wait_s: float = 0.0
    """`e` (s)."""
    beside: float = 0.0
    """`f`: sequences more beside one."""
    last: Pass | None = None


@dataclass(frozen=True)
class Settling(Arriving):
    """What waits come to at the end of the passes."""

    end: Settled
    last: Pass
    crowd: Crowd
    rest_s: float
    shared_s: float
    """`W_res` and `F` (s)."""
    orders: tuple[float, ...]


@dataclass(frozen=True)
class Chunks:
    """What the pool's size and the rate leave as it is."""

    of: Parameters
    requests: Requests
    budget: int
    decode: eq.Decode
    cutter: Cutter

    def look(self, batch: float, arriving: Arriving) -> Pass:
        """Return the lane and its queue beside a batch."""
        step, room = self.decode.steps.seconds(batch), self.budget - batch
        pieces = self.cutter.pieces(room)
        lane = pieces.lane(step, room)
        rho_pc, rho_lane = arriving.per_worker_rps * pieces.own[0], arriving.per_worker_rps * lane.mean_s
        queue = arriving.pool.wait(arriving.arrival_scv, lane.scv, rho_lane, lane.mean_s)
        return Pass(step, room, pieces, rho_pc, lane, rho_lane, queue)

    def settle(self, arriving: Arriving) -> Settled:
        """Look and correct the batch, 24 times from `b = e = f = 0`; ends early at `ρ ≥ 1` or `C' < 1`."""
        steps, per_worker = self.decode.steps, arriving.per_worker_rps
        x, m = per_worker * self.decode.work.steps, self.requests.whole.multi_token_share
        at = Settled(0.0, 0.0, float(self.budget))
        for _ in range(PASSES):
            if at.room < 1:
                return at
            seen = self.look(at.batch, arriving)
            rho = seen.rho_pc + x * steps.per_sequence_s
            if rho >= 1:
                return replace(at, rho=rho)
            t = steps.pace(seen.rho_pc, x, 1.0, at.beside)
            wait, beside = self._beside(seen, arriving)
            batch = at.batch / 2 + (x * t + per_worker * m * wait) / 2
            at = Settled(rho, batch, self.budget - batch, t, wait, beside)
        return at if at.room < 1 else replace(at, last=self.look(at.batch, arriving))

    def _beside(self, seen: Pass, arriving: Arriving) -> tuple[float, float]:
        """`e` (s), what decode sees more of prompts than the mean, and `f`, who comes out of a run beside one."""
        steps, per_worker = self.decode.work.steps, arriving.per_worker_rps
        rho_pc, rho_lane, theta, mean = seen.rho_pc, seen.rho_lane, seen.step_s, seen.lane.mean_s
        if not steps or rho_lane <= rho_pc:
            return 0.0, 0.0
        behind, own = self._behind(seen, arriving), seen.pieces.own[0]
        kappa, tau = (1 - rho_pc / rho_lane) / (1 - rho_pc), theta * rho_lane / (rho_lane - rho_pc)
        if arriving.pool.sharing == 1:
            met = own * seen.queue.mean_s / mean
        else:
            met = own * (rho_lane * (1 + seen.lane.scv) / 2 + per_worker * seen.queue.mean_s)
        long = (behind * (1 - rho_lane) * own - kappa * met) / (1 - rho_pc)
        waiting = seen.queue.probability
        short = steps * (waiting * tau + (1 - waiting) * theta - theta / (1 - rho_pc))
        wait = long * short / (long + short) if long > 0 and short > 0 else 0.0
        beside = behind * (1 - rho_lane * kappa) * steps / (steps + behind * mean / tau)
        return wait, self.requests.whole.multi_token_share * beside

    def _behind(self, seen: Pass, arriving: Arriving) -> float:
        """`F_o`: prompts behind one's own on the lane."""
        pool, per_worker, rho_lane = arriving.pool, arriving.per_worker_rps, seen.rho_lane
        if pool.sharing == 1:
            came = per_worker * (seen.queue.mean_s + seen.lane.mean_s) + (pool.scv(arriving.arrival_scv) - 1) / 2
            return max(0.0, came) / (1 - rho_lane)
        further = (run_prompts(pool.workers, rho_lane) - 1) * (1 + seen.lane.scv) / 2
        return seen.queue.probability * (1 + further) + per_worker * seen.queue.mean_s / (1 - rho_lane)

    def evaluate(self, rate_rps: float, arrival_scv: float, workers: int, gauge: Gauge) -> PathFigures:
        """Evaluate n workers at a rate."""
        of, requests, work = self.of, self.requests, self.decode.work
        arriving = Arriving(Pool(workers, of.round_robin), rate_rps, arrival_scv)
        end = self.settle(arriving)
        gauge.take("mixed", end.rho, of.mixed_ceiling)
        if end.last is None:
            raise Refused(Refusal("prefill_starved", "prefill_lane", end.room, 1.0))
        gauge.take("prefill_lane", end.last.rho_lane, of.prefill_ceiling)
        gauge.take_slots("mixed", of, end.batch, self.decode.cap)
        executions = end.last.pieces.executions_s(end.last.step_s)
        self._take_memory(arriving, end, executions, gauge)

        at, t = self._settled(arriving, end, end.last), end.pace_s
        slot, wait = slots_wait_s(at.pool, self.decode, end.batch, t), end.last.queue.mean_s + at.rest_s + at.shared_s
        waits = [requests.mean(k.bucket, at.orders) * wait + slot for k in requests.buckets]
        means = [requests.mean(k.bucket, executions) for k in requests.buckets]
        return PathFigures(
            requests=requests,
            timelines=mixed_timelines(of, requests, waits, means, (end.decode_wait_s, t, t)),
            waits_s={
                "prefill": requests.mean("all", at.orders) * wait + slot,
                "transfer": 0.0,
                "decode": end.decode_wait_s,
            },
            decode_batch=end.batch,
            firsts=lambda: self._firsts(at, executions, slot),
            generation=lambda: self._generation(at),
            stall=lambda: self._stall_s(at) if work.steps else None,
            regime=lambda: self._regime(at),
        )

    def _take_memory(self, arriving: Arriving, end: Settled, executions: tuple[float, ...], gauge: Gauge) -> None:
        """Take the KV resident per worker as a share of its memory."""
        each, whole, work = (
            list(zip(self.requests.strata, executions, strict=True)),
            self.requests.whole,
            self.decode.work,
        )
        waiting = whole.multi_token_share * end.decode_wait_s
        service = math.fsum(s.share * seconds for s, seconds in each)
        held = math.fsum(s.share * s.p1 * seconds for s, seconds in each) + whole.p1 * waiting
        held += end.pace_s * work.token_steps
        resident = resident_bytes(self.of, held, service + waiting + end.pace_s * work.steps)
        gauge.take("kv_mixed", arriving.per_worker_rps * resident / self.of.kv_memory_bytes, 1.0)

    def _settled(self, arriving: Arriving, end: Settled, last: Pass) -> Settling:
        """`W_res` on the lane, `F` on the first step that a prompt shares, and the order of prompts."""
        pool, per_worker, steps = arriving.pool, arriving.per_worker_rps, self.decode.steps
        crowd = steps.crowd(last.rho_pc, per_worker * self.decode.work.steps)
        own = last.pieces.count * last.step_s + last.pieces.own[0]
        offered = per_worker * pool.sharing * (own + self.decode.work.steps * steps.first_s)
        rest = free_moment(pool, offered, last.rho_lane, crowd.busy).rest_s(last.rho_lane, last.step_s)
        orders = (1.0,) * len(self.requests.strata)
        if self.of.shortest_first:
            times = last.pieces.lane_times_s(last.step_s, last.room)
            orders = prompt_orders(self.of, self.requests, times, per_worker)
        shared = self._shared_s(arriving, last, crowd.busy, rest)
        return Settling(pool, arriving.rate_rps, arriving.arrival_scv, end, last, crowd, rest, shared, orders)

    def _shared_s(self, arriving: Arriving, last: Pass, busy: float, rest_s: float) -> float:
        """`F` (s): a prompt shares its first step with others that came during the step before."""
        pool, rho_pc, count = arriving.pool, last.rho_pc, last.pieces.count
        n, of = pool.sharing, self.of
        met = arriving.per_worker_rps * last.pieces.own[1] / (1 - rho_pc**2) / n
        step = last.step_s / (1 - rho_pc) + met
        turn = n / pool.workers if pool.round_robin else 1.0
        first = step * (busy + 2 * n * rho_pc * turn) / (n + 1) - last.queue.mean_s - rest_s
        full = (1 + of.mixed_step_penalty) * (eq.piece_s(of, last.room) - eq.piece_s(of, 1.0)) / 2
        return max(0.0, first) / count + (1 - 1 / count) * last.queue.probability * full

    def _firsts(self, at: Settling, executions: tuple[float, ...], slot_s: float) -> FirstTokens:
        waits = at.rest_s + at.shared_s
        fixed = [
            self.of.admission_s + order * waits + slot_s + seconds
            for order, seconds in zip(at.orders, executions, strict=True)
        ]
        share = at.last.step_s / at.last.room
        each = zip(self.requests.strata, at.last.pieces.spacings_s, strict=True)
        spreads = [math.sqrt(s.uncached_variance) * (share + spacing) for s, spacing in each]
        return FirstTokens(at.last.queue, at.orders, fixed, spreads)

    def _generation(self, at: Settling) -> Generation:
        """`σ²` is `e²·(2/P_r - 1) + D·τ_r·l·s2/(1 - ρ_pc)³ + v_b`."""
        e, free, t = at.end.decode_wait_s, 1 - at.last.rho_pc, at.end.pace_s
        full = (1 + self.of.mixed_step_penalty) * eq.piece_s(self.of, at.last.room)
        return Generation(
            crowd=at.crowd,
            pace_s=t,
            batch=at.end.batch,
            sharing=at.pool.sharing,
            steps=self.decode.work.steps,
            waits_s=(e,) * len(self.requests.buckets),
            wait_variance_s2=e**2 * (2 / (at.last.queue.probability or 1.0) - 1),
            step_variance_s2=t * free * at.per_worker_rps * at.last.pieces.own[1] / free**3,
            longest_step_s=at.last.step_s + full,
        )

    def _stall_s(self, at: Settling) -> float:
        """One full step of pieces of several prompts, with the last, most expensive piece of the longest (s)."""
        of, whole, c = self.of, self.requests.whole, float(self.budget)
        log_n = ex.log_requests(whole)
        most = ex.most_sequences(at.crowd, log_n, self.decode.cap)
        y = min(c, whole.u_max)
        step = self.decode.steps.seconds(most) + eq.piece_s(of, y)
        others = ex.most_arrivals(at.per_worker_rps * step, log_n)
        pieces = full_step_s(of, whole.p_max, (y, min(c, others + 2), min(c, (others + 2) * whole.u_max)))
        return ex.longest_step_s(of, self.decode, whole, at.end.batch, most) + pieces

    def _regime(self, at: Settling) -> Regime:
        work, whole, t = self.decode.work, self.requests.whole, at.end.pace_s
        return Regime(
            arrival_scv=at.arrival_scv,
            sharing=at.pool.sharing,
            prefill_scv=at.last.lane.scv,
            slots=at.end.batch / self.decode.cap,
            leaves_curve=eq.leaves_curves(self.of, at.last.pieces.longest, at.crowd.sequences),
            waiting=waiting_share(whole.multi_token_share * at.end.decode_wait_s, work.steps * t),
            in_turn=at.pool.round_robin and at.pool.workers > 1,
            lane=at.last.rho_lane,
            pace_s=t,
            buckets=tuple(k.bucket for k in self.requests.buckets),
        )

    def floors_s(self) -> list[float]:
        """`TTFT°_k` (s) of each bucket: admission and execution with `b = 0`, in chunks of the whole budget."""
        executions = self.cutter.pieces(float(self.budget)).executions_s(self.decode.steps.seconds(0.0))
        return [self.of.admission_s + self.requests.mean(k.bucket, executions) for k in self.requests.buckets]

    @property
    def pace_floor_s(self) -> float:
        """`TPOT° = t(1)` (s)."""
        return self.decode.steps.first_s


def chunks(of: Parameters, requests: Requests, budget: int) -> Chunks:
    """Collect the constants of the path."""
    decode = eq.decode_of(of, requests.whole, prefill_emits_first_token=True)
    return Chunks(of, requests, budget, decode, Cutter(of, requests))


def full_step_s(of: Parameters, p_max: float, tokens: tuple[float, float, float]) -> float:
    """`(1 + ψ)·((min(C, j + 2) - 1)·f(1) + f(Y) + q·((p_max² - (p_max - y)²) - y²))` (s); `tokens` are `y`, the minimum, `Y`."""
    y, prompts, together = tokens
    before = of.prefill_s_per_token2 * ((p_max**2 - (p_max - y) ** 2) - y**2)
    pieces = (prompts - 1) * eq.piece_s(of, 1.0) + eq.piece_s(of, together)
    return (1 + of.mixed_step_penalty) * (pieces + before)
