"""Whole prompts: one pool, a whole prompt before the next decode step (docs/arithmetic.md, section 5)."""

import numpy as np

from pipelines.arithmetic import queues
from pipelines.arithmetic.batches import Batch
from pipelines.arithmetic.numbers import Floats, Number, where
from pipelines.arithmetic.queues import Dispatch, Wait
from pipelines.arithmetic.stalls import run_of_prompts_s
from pipelines.topologies.constants import MIXED
from pipelines.topologies.paths.path import (
    LONG_RUNS,
    LONG_RUNS_ALONE,
    Decoding,
    Generation,
    Load,
    PathResult,
    PathWork,
    PrefillWait,
    Sizes,
    WholePrompts,
    beyond_curves,
    decoding,
    order_of,
    rows_of,
    screened,
    whole_prompts,
)


def _decode_wait(
    work: PathWork, of: Dispatch, prompts: WholePrompts, queue: Wait, residual: Number, order: Number
) -> Number:
    """dw: what a request waits after its own prefill, for the prompts behind it on its worker."""
    n, mean, l_rate = of.workers, prompts.mean, work.rate / of.workers
    rho = l_rate * mean
    came = l_rate * (queue.mean_s + residual + mean) + (of.ca2 - 1) / 2
    alone = np.maximum(0.0, came) * mean / (1 - rho)
    later = (queue.mean_s + residual) * (1 - order)
    if np.all(of.alone):
        return np.maximum(0.0, alone + later)
    runs = queues.run_length(n, work.rate * mean)
    shared = mean * (
        queue.probability * (1 + (runs - 1) * (work.ca2 + prompts.cs2) / 2)
        + (l_rate * queue.mean_s + work.rate * residual) / (1 - rho)
    )
    return np.maximum(0.0, where(of.alone, alone, shared) + later)


def _stall_s(work: PathWork, of: Dispatch, prompts: WholePrompts, own: Decoding, batching: Batch) -> Number:
    """The gap that is exceeded about once in as many requests as there are: prompts that run ahead of a decode step."""
    run = run_of_prompts_s(
        prompts.mean,
        prompts.second,
        prompts.longest,
        work.rate * of.sharing / of.workers,
        of.sharing,
        own.steps.seconds(own.most(batching, work.log_n)),
        work.log_n,
    )
    return np.where(np.greater(of.sharing, 1), prompts.longest, 0.0) + run


def _loads(work: PathWork, slots: Load, utilization: Number, held: Number) -> tuple[Load, ...]:
    """Those of the pool, with ``held`` bytes per worker."""
    known = work.constants
    ceiling = np.minimum(known.prefill_ceiling[MIXED], known.decode[MIXED].ceiling)
    return (
        Load("mixed", np.asarray(utilization), ceiling, "utilization"),
        slots,
        Load("kv_mixed", np.asarray(held / known.kv_memory[MIXED]), 1.0, "kv_memory"),
    )


def evaluate(work: PathWork, sizes: Sizes) -> PathResult:
    """Waits, pace, stall and loads of every row; prefill emits the first token."""
    known, n = work.constants, sizes.mixed
    assert n is not None
    rows, prompts, of = len(n), whole_prompts(work, known.prefill[MIXED]), work.dispatched(n)
    own, m, l_rate = decoding(work, MIXED, prefill_emits=True), work.requests.moments["m"], work.rate / n
    rho_p, x = l_rate * prompts.mean, l_rate * own.d1
    batching = own.batch(rho_p, x)
    free = queues.first_free(of.sharing, _offered(work, of, prompts, own), (1 - rho_p) * (1 - batching.some))
    phi = free.interruption
    undisturbed = (1 - phi * rho_p) * own.steps.pace_s(rho_p, x, phi)
    residual = rows_of(free.wait_s(rho_p, of.sharing, undisturbed), rows)
    queue = queues.pool_wait(of, prompts.cs2, work.rate * prompts.mean, prompts.mean)
    order = order_of(work, rows_of(l_rate, rows), prompts.of_strata)
    mean_order = 1.0 if order is None else work.requests.strata.mean(order)
    after = rows_of(_decode_wait(work, of, prompts, queue, residual, mean_order), rows)
    t = rows_of(own.steps.pace_s(rho_p, x, phi, m * after / prompts.mean), rows)
    batch, first_step = x * t, t * (1 - phi * rho_p)
    held = known.memory.resident(
        prompts.token_seconds + work.requests.moments["p1"] * m * after + own.token_seconds(t),
        prompts.mean + m * after + own.seconds(t),
    )
    slots = own.slots_load("slots_mixed", batch, known.decode[MIXED].ceiling)
    generation = Generation(
        t=t,
        alone=own.steps.seconds(1.0),
        wait=after,
        wait_scv=_wait_scv(queue.probability + l_rate * residual),
        per_step=first_step * l_rate * phi * prompts.second / (1 - phi * rho_p) ** 3,
        others=_others(own.steps.chord(rho_p, x), rho_p, batch, batching.success, of.sharing),
        turnover=(1 - batching.success) / own.d1 if own.d1 > 0 else 1.0,
    )
    limit = np.where(np.greater(n, 1) & np.asarray(of.alone), LONG_RUNS_ALONE, LONG_RUNS)
    wait = PrefillWait(queue, residual, rows_of(own.slot_wait(batch, of.sharing, t), rows), order)
    return PathResult(
        requests=work.requests,
        first_token="prefill",
        admission=known.a,
        prefill_wait=wait,
        transfer_wait=np.zeros(rows),
        after_wait=after,
        first_step=first_step,
        t=t,
        batch=batch,
        stall=rows_of(_stall_s(work, of, prompts, own, batching), rows) if own.d1 > 0 else np.full(rows, np.nan),
        execution_strata=prompts.of_strata,
        execution_buckets=prompts.of_buckets,
        movement_strata=np.zeros(1),
        movement_buckets=np.zeros(1),
        spread=np.sqrt(work.computed.variance) * prompts.slope,
        kept=wait.kept(),
        generation=generation,
        floor_ttft=np.atleast_1d(np.asarray(known.a)[..., None] + prompts.of_buckets),
        floor_tpot=own.steps.seconds(1.0),
        loads=_loads(work, slots, rho_p + x * own.steps.c, l_rate * held),
        screening=screened(work, of, prompts.cs2, slots, rows)
        | {"runs": m * after > limit * (m * after + own.seconds(t))}
        | beyond_curves(known.prefill[MIXED], work.computed.moments["u_max"], own.steps, rho_p, rows_of(x, rows)),
    )


def _offered(work: PathWork, of: Dispatch, prompts: WholePrompts, own: Decoding) -> Number:
    """Offered load a of the workers that share a queue: one number where it is the same for all rows."""
    offered: Number = work.rate * of.sharing / of.workers * (prompts.mean + own.d1 * own.steps.seconds(1.0))
    return float(np.ravel(offered)[0]) if work.alike and np.all(of.sharing == of.workers) else offered


def _wait_scv(probability: Number) -> Number:
    """2/P - 1 of a wait that is 0 or exponential, with P at most 1; 1 where P is 0."""
    known = np.minimum(1.0, probability)
    return 2 / np.where(np.greater(known, 0), known, 1.0) - 1


def _others(chord: Number, rho_prefill: Number, batch: Floats, success: Number, sharing: Number) -> Floats:
    """Variance of a step's length, by the number of sequences in it, in s² per step²."""
    others: Floats = (chord / (1 - rho_prefill)) ** 2 * batch / ((1 - success) * sharing)
    return others
