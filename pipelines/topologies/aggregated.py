"""Aggregated: one pool, a whole prompt before the next decode step (docs/arithmetic.md, section 5)."""

import polars as pl

from pipelines.arithmetic import queues, service
from pipelines.topologies.phases import (
    CA2,
    D1,
    KAPPA,
    RATE,
    T0,
    C,
    Phases,
    Stratum,
    decode_token_seconds,
    no_movement_s,
    prefill_token_seconds,
    whole_prompt_s,
    with_decode_demand,
    with_step_and_slots,
    with_whole_prompt_moments,
)


def evaluate(base: pl.DataFrame, dispatch: str, first_token: str, strata: tuple[Stratum, ...]) -> Phases:
    """Waits, TPOT, stall and loads of every aggregated scenario in ``base``; prefill always emits the first token."""
    del first_token, strata
    n = pl.col("workers_mixed")
    rho_p, b, t = pl.col("rho_p"), pl.col("decode_batch"), pl.col("t")
    frame = with_decode_demand(with_whole_prompt_moments(base), "prefill", n)
    frame = frame.with_columns(rho_p=RATE * pl.col("s_mean") / n).with_columns(
        load_mixed=rho_p + pl.col("rho_d"), t=service.tpot_s(T0, C, rho_prefill=rho_p, rho_decode=pl.col("rho_d"))
    )
    frame = with_step_and_slots(frame.with_columns(decode_batch=pl.col("x") * t))
    queue = queues.pool_wait(dispatch, CA2, pl.col("cs2"), rho_p, n, pl.col("s_mean"))
    frame = frame.with_columns(
        load_kv_mixed=KAPPA * RATE / n * (prefill_token_seconds() + decode_token_seconds()) / pl.col("kv_memory"),
        queue_wait_s=queue.mean_s,
        queue_probability=queue.probability,
        prefill_wait_s=queue.mean_s + pl.col("residual_s") + pl.col("slot_wait_s"),
        transfer_wait_s=pl.lit(0.0),
        decode_wait_s=pl.lit(0.0),
        stall_s=pl.when(D1 > 0).then(pl.col("s_max") + service.step_s(T0, C, b)),
    )
    return Phases(frame, whole_prompt_s, no_movement_s, "prefill")
