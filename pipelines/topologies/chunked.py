"""Chunked: one pool, each step carries the decode tokens and a bounded piece of a prompt (docs/arithmetic.md, section 5)."""

import polars as pl

from pipelines.arithmetic import queues, service
from pipelines.topologies.phases import (
    CA2,
    D1,
    KV_MEMORY,
    P_MAX,
    R_P,
    RATE,
    T0,
    U1,
    U_MAX,
    Z1,
    C,
    D,
    Phases,
    Prompts,
    Q,
    Setting,
    Span,
    Stratum,
    decode_seconds,
    decode_token_seconds,
    no_movement_s,
    with_decode_demand,
    with_step_and_slots,
)

PASSES = 12
"""Passes of the fixed point between the decode batch and the room it leaves for prompts; its steps only grow, see docs/arithmetic.md."""

_ROOM = pl.col("room")


def chunks(prompts: Prompts) -> pl.Expr:
    """Steps that a prompt of u uncached tokens takes where a step has room for C': max(1, ceil(u/C'))."""
    return pl.max_horizontal(pl.lit(1.0), (prompts.uncached / _ROOM).ceil())


def _execution_s(stratum: Stratum) -> pl.Expr:
    full_step, prompts = T0 + pl.col("decode_batch") * C + D, stratum.prompts
    return chunks(prompts) * full_step + prompts.uncached / R_P + Q * prompts.attention


def _mean(strata: tuple[Stratum, ...], of: list[pl.Expr]) -> pl.Expr:
    total = sum(stratum.share for stratum in strata)
    return pl.sum_horizontal([expr * (stratum.share / total) for stratum, expr in zip(strata, of, strict=True)])


def execution_s(span: Span) -> pl.Expr:
    """Mean prefill execution of a span in seconds, over its strata."""
    return _mean(span.strata, [_execution_s(stratum) for stratum in span.strata])


def _solve_batch(frame: pl.DataFrame, strata: tuple[Stratum, ...]) -> pl.DataFrame:
    """Add ``room`` (C', tokens), ``load_mixed`` (ρ), ``t`` and ``decode_batch``: the passes of docs/arithmetic.md."""
    n, rho_pc, rho, t = pl.col("workers_mixed"), pl.col("rho_pc"), pl.col("rho"), pl.col("next_t")
    steps = _mean(strata, [chunks(stratum.prompts) for stratum in strata])
    frame = frame.with_columns(
        decode_batch=pl.lit(0.0), stopped=pl.lit(False), load_mixed=pl.lit(None, pl.Float64), t=pl.lit(None, pl.Float64)
    )
    for _ in range(PASSES):
        frame = (
            frame.with_columns(room=pl.col("chunk_tokens") - pl.col("decode_batch"))
            .with_columns(stopped=pl.col("stopped") | (_ROOM < 1))
            .with_columns(rho_pc=RATE / n * (D * steps + U1 / R_P + Q * Z1))
            .with_columns(rho=rho_pc + pl.col("rho_d"))
            .with_columns(load_mixed=pl.when("stopped").then("load_mixed").otherwise(rho))
            .with_columns(stopped=pl.col("stopped") | (rho >= 1))
            .with_columns(next_t=service.tpot_s(T0, C, rho_prefill=rho_pc, rho_decode=pl.col("rho_d")))
            .with_columns(
                t=pl.when("stopped").then("t").otherwise(t),
                decode_batch=pl.when("stopped").then("decode_batch").otherwise(pl.col("x") * t),
            )
        )
    return frame.with_columns(room=pl.col("chunk_tokens") - pl.col("decode_batch"))


def evaluate(base: pl.DataFrame, setting: Setting) -> Phases:
    """Waits, TPOT, stall and loads of every chunked scenario in ``base``; prefill always emits the first token."""
    strata = setting.strata
    n, b, s_mean = pl.col("workers_mixed"), pl.col("decode_batch"), pl.col("s_mean")
    frame = _solve_batch(with_decode_demand(base, setting, "prefill", n), strata)
    executions = [_execution_s(stratum) for stratum in strata]
    frame = frame.with_columns(
        s_mean=_mean(strata, executions),
        s_second=_mean(strata, [execution * execution for execution in executions]),
        token_seconds=_mean(
            strata, [stratum.prompts.p1 * execution for stratum, execution in zip(strata, executions, strict=True)]
        ),
    ).with_columns(cs2=service.scv(s_mean, pl.col("s_second")), lane=RATE / n * s_mean)
    frame = with_step_and_slots(frame)
    queue = queues.pool_wait(setting.dispatch, CA2, pl.col("cs2"), pl.col("lane"), n, s_mean)
    held = setting.resident_bytes(pl.col("token_seconds") + decode_token_seconds(), s_mean + decode_seconds())
    piece = pl.min_horizontal(_ROOM, U_MAX)
    full_step = T0 + b * C + D + piece / R_P + Q * (P_MAX * P_MAX - (P_MAX - piece) * (P_MAX - piece))
    frame = frame.with_columns(
        load_prefill_lane=pl.when(_ROOM >= 1).then("lane"),
        load_kv_mixed=RATE / n * held / KV_MEMORY,
        queue_wait_s=queue.mean_s,
        queue_probability=queue.probability,
        prefill_wait_s=queue.mean_s + pl.col("residual_s") + pl.col("slot_wait_s"),
        transfer_wait_s=pl.lit(0.0),
        decode_wait_s=pl.lit(0.0),
        stall_s=pl.when(D1 > 0).then(full_step),
    )
    return Phases(frame, execution_s, no_movement_s, "prefill")
