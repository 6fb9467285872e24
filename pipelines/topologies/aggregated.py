"""Aggregated: one pool, a whole prompt before the next decode step (docs/arithmetic.md, section 5)."""

import polars as pl

from pipelines.arithmetic import queues, service
from pipelines.topologies.phases import (
    CA2,
    D1,
    KV_MEMORY,
    RATE,
    T0,
    C,
    Phases,
    Setting,
    decode_seconds,
    decode_token_seconds,
    no_movement_s,
    prefill_token_seconds,
    whole_prompt_s,
    with_decode_demand,
    with_step_and_slots,
    with_whole_prompt_moments,
)


def evaluate(base: pl.DataFrame, setting: Setting) -> Phases:
    """Waits, TPOT, stall and loads of every aggregated scenario in ``base``; prefill always emits the first token."""
    n = pl.col("workers_mixed")
    rho_p, b, t = pl.col("rho_p"), pl.col("decode_batch"), pl.col("t")
    frame = with_decode_demand(with_whole_prompt_moments(base), setting, "prefill", n)
    frame = frame.with_columns(rho_p=RATE * pl.col("s_mean") / n).with_columns(
        load_mixed=rho_p + pl.col("rho_d"), t=service.tpot_s(T0, C, rho_prefill=rho_p, rho_decode=pl.col("rho_d"))
    )
    frame = with_step_and_slots(frame.with_columns(decode_batch=pl.col("x") * t))
    queue = queues.pool_wait(setting.dispatch, CA2, pl.col("cs2"), rho_p, n, pl.col("s_mean"))
    held = setting.resident_bytes(prefill_token_seconds() + decode_token_seconds(), pl.col("s_mean") + decode_seconds())
    frame = frame.with_columns(
        load_kv_mixed=RATE / n * held / KV_MEMORY,
        queue_wait_s=queue.mean_s,
        queue_probability=queue.probability,
        prefill_wait_s=queue.mean_s + pl.col("residual_s") + pl.col("slot_wait_s"),
        transfer_wait_s=pl.lit(0.0),
        decode_wait_s=pl.lit(0.0),
        stall_s=pl.when(D1 > 0).then(pl.col("s_max") + service.step_s(T0, C, b)),
    )
    return Phases(frame, whole_prompt_s, no_movement_s, "prefill")
