"""Whole prompts: one pool, a whole prompt before the next decode step (docs/arithmetic.md, section 5)."""

import numpy as np

from pipelines.arithmetic import queues
from pipelines.topologies.constants import MIXED
from pipelines.topologies.paths.path import Load, PathResult, PathWork, Sizes, decoding, rows_of, whole_prompts


def evaluate(work: PathWork, sizes: Sizes) -> PathResult:
    """Waits, pace, stall and loads of every row; prefill emits the first token."""
    known, n = work.constants, sizes.mixed
    assert n is not None
    rows, prompts = len(n), whole_prompts(work, known.prefill[MIXED])
    own = decoding(work, MIXED, prefill_emits=True)
    rho_p, x = work.rate * prompts.mean / n, work.rate * own.d1 / n
    rho = rho_p + x * own.steps.c
    t = rows_of(own.steps.pace_s(rho_p, x), rows)
    batch = x * t
    queue = queues.pool_wait(known.dispatch, work.ca2, prompts.cs2, rho_p, n, prompts.mean)
    held = known.memory.resident(prompts.token_seconds + own.token_seconds(t), prompts.mean + own.seconds(t))
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
        stall=rows_of(prompts.longest + own.steps.seconds(np.maximum(1.0, batch)), rows)
        if own.d1 > 0
        else np.full(rows, np.nan),
        execution_strata=prompts.of_strata,
        execution_buckets=prompts.of_buckets,
        movement_strata=np.zeros(1),
        movement_buckets=np.zeros(1),
        floor_ttft=np.atleast_1d(np.asarray(known.a)[..., None] + prompts.of_buckets),
        floor_tpot=own.steps.seconds(1.0),
        loads=(
            Load("mixed", rho, np.minimum(prefill_ceiling, decode_ceiling), "utilization"),
            own.slots_load("slots_mixed", batch, decode_ceiling),
            Load("kv_mixed", work.rate / n * held / known.kv_memory[MIXED], 1.0, "kv_memory"),
        ),
    )
