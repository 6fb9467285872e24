"""Chunks: one pool, each step carries the decode tokens and a bounded piece of a prompt (docs/arithmetic.md, section 5)."""

from dataclasses import dataclass

import numpy as np

from pipelines.arithmetic import queues, service
from pipelines.arithmetic.numbers import Floats, Number, column
from pipelines.arithmetic.prefill import PrefillTimes
from pipelines.topologies.constants import MIXED
from pipelines.topologies.paths.path import Decoding, Load, PathResult, PathWork, Sizes, decoding, rows_of

PASSES = 12
"""Passes of the fixed point between the decode batch and the room it leaves for prompts; its steps only grow, see docs/arithmetic.md."""


@dataclass(frozen=True)
class _Settled:
    """Where the passes ended: ρ, t (s), b and room C' (tokens) of each row."""

    rho: Floats
    t: Floats
    batch: Floats
    room: Floats


@dataclass(frozen=True)
class _Pieces:
    """The prompts of a path, cut into the pieces that ``room`` tokens of a step allow: steps (K) and their own seconds (G) per stratum."""

    steps: Floats
    own_s: Floats


def _pieces(work: PathWork, times: PrefillTimes, room: Floats) -> _Pieces:
    computed = work.computed
    steps = np.maximum(1.0, np.ceil(computed.u / np.maximum(room, 1.0)[:, None]))
    own = times.prompt_s(computed.u, computed.z, computed.uu, steps)
    return _Pieces(steps, (1 + column(work.constants.penalty)) * own)


def _settle(work: PathWork, n: Floats, budget: Floats, own: Decoding, times: PrefillTimes) -> _Settled:
    """C' = C - b and b = x·t in turn, from b = 0; a row ends early at ρ ≥ 1 or C' < 1."""
    rows, strata = len(n), work.requests.strata
    x = rows_of(work.rate * own.d1 / n, rows)
    batch, t, rho = np.zeros(rows), np.full(rows, np.nan), np.full(rows, np.nan)
    going = np.ones(rows, dtype=bool)
    for _ in range(PASSES):
        room = budget - batch
        going &= room >= 1
        rho_pc = work.rate / n * strata.mean(_pieces(work, times, room).own_s)
        rho = np.where(going, rho_pc + x * own.steps.c, rho)
        going &= rho < 1
        t = np.where(going, own.steps.pace_s(rho_pc, x), t)
        batch = np.where(going, x * t, batch)
    return _Settled(rho, t, batch, budget - batch)


def _full_step_s(work: PathWork, times: PrefillTimes, own: Decoding, settled: _Settled) -> Number:
    """One full step with the last, most expensive piece of the longest prompt."""
    moments = work.computed.moments
    p_max, piece = moments["p_max"], np.minimum(settled.room, moments["u_max"])
    before = (p_max * p_max - (p_max - piece) ** 2) - piece * piece
    prompt = times.piece_s(piece) + times.q * before
    return own.steps.seconds(settled.batch) + (1 + work.constants.penalty) * prompt


def _floor(work: PathWork, times: PrefillTimes, own: Decoding, budget: Floats) -> Floats:
    """TTFT° of every row and bucket: alone on an idle worker."""
    pieces = _pieces(work, times, budget)
    alone = pieces.steps * column(own.steps.seconds(0.0)) + pieces.own_s
    return column(work.constants.a) + work.requests.strata.per_bucket(alone)


def evaluate(work: PathWork, sizes: Sizes) -> PathResult:
    """Waits, pace, stall and loads of every row; prefill emits the first token."""
    known, strata, n, budget = work.constants, work.requests.strata, sizes.mixed, sizes.chunk_tokens
    assert n is not None and budget is not None
    rows, times = len(n), known.prefill[MIXED].rows()
    own = decoding(work, MIXED, prefill_emits=True)
    settled = _settle(work, n, budget, own, times)
    batch, t = settled.batch, settled.t
    pieces = _pieces(work, times, settled.room)
    execution = pieces.steps * own.steps.seconds(batch)[:, None] + pieces.own_s
    mean = strata.mean(execution)
    cs2 = service.scv(mean, strata.mean(execution**2))
    lane = work.rate / n * mean
    queue = queues.pool_wait(known.dispatch, work.ca2, cs2, lane, n, mean)
    held = known.memory.resident(strata.mean(strata.p * execution) + own.token_seconds(t), mean + own.seconds(t))
    prefill_ceiling, decode_ceiling = known.prefill_ceiling[MIXED], known.decode[MIXED].ceiling
    nothing = np.zeros(rows)
    return PathResult(
        requests=work.requests,
        first_token="prefill",
        admission=known.a,
        prefill_wait=queue.mean_s + own.waits(batch, t),
        transfer_wait=nothing,
        decode_wait=nothing,
        queue=queue,
        t=t,
        batch=batch,
        stall=_full_step_s(work, known.prefill[MIXED], own, settled) if own.d1 > 0 else np.full(rows, np.nan),
        execution_strata=execution,
        execution_buckets=strata.per_bucket(execution),
        movement_strata=np.zeros(1),
        movement_buckets=np.zeros(1),
        floor_ttft=_floor(work, times, own, budget),
        floor_tpot=own.steps.seconds(1.0),
        loads=(
            Load("mixed", settled.rho, np.minimum(prefill_ceiling, decode_ceiling), "utilization"),
            Load("prefill_lane", lane, prefill_ceiling, "prefill_starved", room=settled.room),
            own.slots_load("slots_mixed", batch, decode_ceiling),
            Load("kv_mixed", work.rate / n * held / known.kv_memory[MIXED], 1.0, "kv_memory"),
        ),
    )
