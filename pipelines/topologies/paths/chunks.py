"""Chunks: one pool, each step carries the decode tokens and a bounded number of prompt tokens (docs/arithmetic.md, section 5)."""

from dataclasses import dataclass

import numpy as np

from pipelines.arithmetic import queues, service
from pipelines.arithmetic.batches import Batch, poisson_most
from pipelines.arithmetic.numbers import Bools, Floats, Number, column, where
from pipelines.arithmetic.prefill import PrefillTimes
from pipelines.arithmetic.queues import Dispatch, Wait
from pipelines.topologies.constants import MIXED
from pipelines.topologies.paths.path import (
    FULL_LANE,
    LONG_RUNS,
    LONG_RUNS_ALONE,
    Decoding,
    Generation,
    Load,
    PathResult,
    PathWork,
    PrefillWait,
    Sizes,
    beyond_curves,
    decoding,
    order_of,
    rows_of,
    screened,
)

PASSES = 24
"""Passes of the fixed point between the decode batch, the room it leaves for prompts, and what prompts leave of the steps."""


@dataclass(frozen=True)
class _Pool:
    """What does not change from pass to pass: the rows' sizes, dispatch, decode tokens/s per worker (x), one worker's times."""

    work: PathWork
    n: Floats
    budget: Floats
    of: Dispatch
    own: Decoding
    times: PrefillTimes
    x: Floats

    @property
    def rate(self) -> Floats:
        """l: requests/s of a worker."""
        return rows_of(self.work.rate / self.n, len(self.n))


@dataclass(frozen=True)
class _Lane:
    """Prompts in the pieces that ``room`` (C') of a step of ``step`` seconds (θ) allows, and how they queue; all per row.

    ``pieces`` is K, ``first`` and ``second`` are s1 and s2, ``mean`` and ``cs2`` those of V; ``rho`` the lane's load, ``prompts`` ρ_pc.
    """

    room: Floats
    step: Floats
    pieces: Floats
    first: Floats
    second: Floats
    mean: Floats
    cs2: Floats
    rho: Floats
    prompts: Floats
    queue: Wait
    residual: Floats


@dataclass(frozen=True)
class _Strata:
    """The same prompts stratum by stratum, rows x strata: steps K, own seconds G, time on the lane V and its slope per token."""

    steps: Floats
    own_s: Floats
    on_lane_s: Floats
    slope: Floats


@dataclass(frozen=True)
class _Means:
    """K, s1, s2, E[V] and E[V²] of every row."""

    pieces: Floats
    first: Floats
    second: Floats
    lane: Floats
    lane_second: Floats


@dataclass(frozen=True)
class _Decoded:
    """What decode sees: t, the batch that the pass began with, what short and long answers meet more of prompts (e), f."""

    t: Floats
    after: Floats
    followers: Floats


def _steps(pool: _Pool, room: Floats) -> Floats:
    """K of every row and stratum."""
    return np.maximum(1.0, np.ceil(pool.work.computed.u / np.maximum(room, 1.0)[:, None]))


def _strata(pool: _Pool, room: Floats, step: Floats) -> _Strata:
    """The prompts of every stratum where a step of ``step`` seconds has ``room`` for them."""
    computed, times = pool.work.computed, pool.times.rows()
    penalty, per_token, steps = 1 + column(pool.work.constants.penalty), (step / room)[:, None], _steps(pool, room)
    own = np.asarray(penalty * times.prompt_s(computed.u, computed.z, computed.u * computed.u, steps))
    begun = penalty * times.d * (1 + computed.u / room[:, None] - steps)
    slope = per_token + penalty * times.slope(computed.u / steps)
    return _Strata(steps, own, per_token * computed.u + own + begun, slope)


def _means(pool: _Pool, room: Floats, step: Floats) -> _Means:
    """Means over the strata. With a declared rate, all that depends on a row is K, and one factor of what is known of the strata."""
    mean, computed = pool.work.requests.strata.mean, pool.work.computed
    if pool.times.curve is not None:
        of = _strata(pool, room, step)
        second = mean(of.on_lane_s**2 + of.slope**2 * computed.variance)
        return _Means(mean(of.steps), mean(of.own_s), mean(of.own_s**2), mean(of.on_lane_s), second)
    times, penalty = pool.times, 1 + pool.work.constants.penalty
    rows = times.rows()
    rest, steps = computed.u / rows.r_p + rows.q * computed.z, _steps(pool, room)
    d, per_token = penalty * times.d, step / room
    pieces = mean(steps)
    crossed = mean(steps * rest)
    whole = column(penalty) * rest + column(d)
    factor = per_token + d / room
    slope = per_token + penalty / times.r_p
    return _Means(
        pieces=pieces,
        first=d * pieces + penalty * mean(rest),
        second=d * d * mean(steps * steps) + 2 * d * penalty * crossed + penalty**2 * mean(rest * rest),
        lane=mean(whole) + factor * mean(computed.u),
        lane_second=mean(whole * whole)
        + factor * (2 * mean(whole * computed.u) + factor * mean(computed.u * computed.u))
        + slope**2 * mean(computed.variance),
    )


def _lane(pool: _Pool, room: Floats, step: Floats, of: _Means, batching: Batch) -> _Lane:
    work, mean = pool.work, of.lane
    cs2 = rows_of(service.scv(mean, of.lane_second), len(mean))
    rho = pool.rate * mean
    queue = queues.pool_wait(pool.of, cs2, work.rate * mean, mean)
    alone = pool.own.steps.seconds(1.0)
    offered = pool.rate * pool.of.sharing * (of.pieces * step + of.first + pool.own.d1 * alone)
    free = queues.first_free(pool.of.sharing, offered, (1 - rho) * (1 - batching.some))
    residual = rows_of(free.wait_s(rho, pool.of.sharing, step), len(pool.n))
    return _Lane(room, step, of.pieces, of.first, of.second, mean, cs2, rho, pool.rate * of.first, queue, residual)


def _decoded(pool: _Pool, lane: _Lane, t: Floats) -> _Decoded:
    """What a request meets more of prompts than decode does on average: exact for answers of one step, and of very many."""
    of, l_rate, d1 = pool.of, pool.rate, pool.own.d1
    wait, probability, rho, rho_pc = lane.queue.mean_s, lane.queue.probability, lane.rho, lane.prompts
    behind: Number = np.maximum(0.0, l_rate * (wait + lane.mean) + (of.ca2 - 1) / 2) / (1 - rho)
    seen: Number = lane.first * wait / lane.mean
    if not np.all(of.alone):
        runs = queues.run_length(pool.n, pool.work.rate * lane.mean)
        shared = probability * (1 + (runs - 1) * (1 + lane.cs2) / 2) + l_rate * wait / (1 - rho)
        behind = where(of.alone, behind, shared)
        seen = where(of.alone, seen, lane.first * (rho * (1 + lane.cs2) / 2 + l_rate * wait))
    usual = (1 - rho_pc / rho) / (1 - rho_pc)
    prompt_step = lane.step * rho / (rho - rho_pc)
    many = (behind * (1 - rho) * lane.first - usual * seen) / (1 - rho_pc)
    one = d1 * (probability * prompt_step + (1 - probability) * lane.step - lane.step / (1 - rho_pc))
    both = (many > 0) & (one > 0)
    after = np.where(both, many * one / np.where(both, many + one, 1.0), 0.0)
    followers = (
        pool.work.requests.moments["m"] * behind * (1 - rho * usual) * d1 / (d1 + behind * lane.mean / prompt_step)
        if d1 > 0
        else np.zeros_like(rho)
    )
    return _Decoded(t, after, followers)


@dataclass(frozen=True)
class _Settled:
    """Where the passes ended: ρ, t (s), b of each row, and what decode saw."""

    rho: Floats
    batch: Floats
    decoded: _Decoded


def _settle(pool: _Pool) -> _Settled:
    """Batch, room and what prompts take of a step in turn, from an empty worker; a row ends early at ρ ≥ 1 or C' < 1."""
    rows, m = len(pool.n), pool.work.requests.moments["m"]
    batch, rho, followers = np.zeros(rows), np.full(rows, np.nan), np.zeros(rows)
    t, after = np.full(rows, np.nan), np.zeros(rows)
    going: Bools = np.ones(rows, dtype=bool)
    for _ in range(PASSES):
        room = pool.budget - batch
        going = going & (room >= 1)
        step = rows_of(pool.own.steps.seconds(batch), rows)
        of = _means(pool, room, step)
        rho_pc = pool.rate * of.first
        rho = np.where(going, rho_pc + pool.x * pool.own.steps.c, rho)
        going = going & (rho < 1)
        if not going.any():
            break
        next_t = rows_of(pool.own.steps.pace_s(rho_pc, pool.x, 1.0, followers), rows)
        lane = _lane(pool, room, step, of, pool.own.batch(rho_pc, pool.x))
        seen = _decoded(pool, lane, next_t)
        t, after, followers = (
            np.where(going, new, old) for new, old in ((seen.t, t), (seen.after, after), (seen.followers, followers))
        )
        batch = np.where(going, batch / 2 + (pool.x * t + pool.rate * m * after) / 2, batch)
    return _Settled(rho, batch, _Decoded(t, after, followers))


def _shared_step_s(pool: _Pool, lane: _Lane, batching: Batch) -> Floats:
    """F: what a prompt waits in its first step for others that came during the one before, and in its last for room."""
    rho_pc, sharing = lane.prompts, pool.of.sharing
    step = lane.step / (1 - rho_pc) + pool.rate * lane.second / (1 - rho_pc**2) / sharing
    others = 2 * sharing * rho_pc * where(pool.of.alone, 1 / pool.n, 1.0)
    first = step * (batching.some + others) / (sharing + 1) - lane.queue.mean_s - lane.residual
    full = (1 + pool.work.constants.penalty) * (pool.times.piece_s(lane.room) - pool.times.piece_s(1.0)) / 2
    last = (1 - 1 / lane.pieces) * lane.queue.probability * full
    return rows_of(np.maximum(0.0, first) / lane.pieces + last, len(pool.n))


def _stall_s(pool: _Pool, batch: Floats, batching: Batch) -> Floats:
    """One full step of pieces of several prompts, with the last, most expensive piece of the longest."""
    work, moments, times, log_n = pool.work, pool.work.computed.moments, pool.times, pool.work.log_n
    most = pool.own.most(batching, log_n)
    piece = np.minimum(pool.budget, moments["u_max"])
    prompts = poisson_most(pool.rate * (pool.own.steps.seconds(most) + times.piece_s(piece)), log_n) + 2
    p_max = moments["p_max"]
    before = (p_max * p_max - (p_max - piece) ** 2) - piece * piece
    starts = (np.minimum(pool.budget, prompts) - 1) * times.piece_s(1.0)
    tokens = times.piece_s(np.minimum(pool.budget, prompts * moments["u_max"]))
    together = starts + tokens + times.q * before
    stall: Floats = pool.own.long_step(batch, most, log_n) + (1 + work.constants.penalty) * together
    return stall


def _floor(pool: _Pool) -> Floats:
    """TTFT° of every row and bucket: alone on an idle worker."""
    step = rows_of(pool.own.steps.seconds(0.0), len(pool.budget))
    alone = _strata(pool, pool.budget, step)
    return column(pool.work.constants.a) + pool.work.requests.strata.per_bucket(
        alone.steps * step[:, None] + alone.own_s
    )


def evaluate(work: PathWork, sizes: Sizes) -> PathResult:
    """Waits, pace, stall and loads of every row; prefill emits the first token."""
    known, n, budget = work.constants, sizes.mixed, sizes.chunk_tokens
    assert n is not None
    assert budget is not None
    own = decoding(work, MIXED, prefill_emits=True)
    x = rows_of(work.rate * own.d1 / n, len(n))
    pool = _Pool(work, n, budget, work.dispatched(n), own, known.prefill[MIXED], x)
    settled = _settle(pool)
    room, step = budget - settled.batch, rows_of(own.steps.seconds(settled.batch), len(n))
    of = _means(pool, room, step)
    batching = own.batch(pool.rate * of.first, x)
    return _result(pool, settled, _lane(pool, room, step, of, batching), batching)


def _result(pool: _Pool, settled: _Settled, lane: _Lane, batching: Batch) -> PathResult:
    work, known, own = pool.work, pool.work.constants, pool.own
    rows, m, strata, n = len(pool.n), work.requests.moments["m"], work.requests.strata, pool.n
    t, after, batch = settled.decoded.t, settled.decoded.after, settled.batch
    of_strata = _strata(pool, lane.room, lane.step)
    execution = of_strata.steps * lane.step[:, None] + of_strata.own_s
    mean = strata.mean(execution)
    held = known.memory.resident(
        strata.mean(strata.p * execution) + work.requests.moments["p1"] * m * after + own.token_seconds(t),
        mean + m * after + own.seconds(t),
    )
    prefill_ceiling, decode_ceiling = known.prefill_ceiling[MIXED], known.decode[MIXED].ceiling
    slots = own.slots_load("slots_mixed", batch, decode_ceiling)
    sharing, rho_pc = pool.of.sharing, lane.prompts
    limit = np.where(np.greater(n, 1) & np.asarray(pool.of.alone), LONG_RUNS_ALONE, LONG_RUNS)
    wait = PrefillWait(
        lane.queue,
        lane.residual + _shared_step_s(pool, lane, batching),
        rows_of(own.slot_wait(batch, sharing, t), rows),
        order_of(work, pool.rate, of_strata.on_lane_s),
    )
    return PathResult(
        requests=work.requests,
        first_token="prefill",
        admission=known.a,
        prefill_wait=wait,
        transfer_wait=np.zeros(rows),
        after_wait=after,
        first_step=t,
        t=t,
        batch=batch,
        stall=_stall_s(pool, batch, batching) if own.d1 > 0 else np.full(rows, np.nan),
        execution_strata=execution,
        execution_buckets=strata.per_bucket(execution),
        movement_strata=np.zeros(1),
        movement_buckets=np.zeros(1),
        spread=np.sqrt(work.computed.variance) * of_strata.slope,
        kept=wait.kept(),
        generation=Generation(
            t=t,
            alone=own.steps.seconds(1.0),
            wait=after,
            wait_scv=2 / np.where(np.greater(lane.queue.probability, 0), lane.queue.probability, 1.0) - 1,
            per_step=t * (1 - rho_pc) * pool.rate * lane.second / (1 - rho_pc) ** 3,
            others=(own.steps.chord(rho_pc, pool.x) / (1 - rho_pc)) ** 2 * batch / ((1 - batching.success) * sharing),
            turnover=(1 - batching.success) / own.d1 if own.d1 > 0 else 1.0,
            surely_s=lane.step + (1 + known.penalty) * pool.times.piece_s(lane.room),
        ),
        floor_ttft=_floor(pool),
        floor_tpot=own.steps.seconds(1.0),
        loads=(
            Load("mixed", settled.rho, np.minimum(prefill_ceiling, decode_ceiling), "utilization"),
            Load("prefill_lane", lane.rho, prefill_ceiling, "prefill_starved", room=lane.room),
            slots,
            Load("kv_mixed", pool.rate * held / known.kv_memory[MIXED], 1.0, "kv_memory"),
        ),
        screening=screened(work, pool.of, lane.cs2, slots, rows)
        | {"runs": m * after > limit * (m * after + own.seconds(t)), "lane": lane.rho > FULL_LANE}
        | beyond_curves(pool.times, (work.computed.u / of_strata.steps).max(axis=-1), own.steps, lane.prompts, pool.x),
    )
