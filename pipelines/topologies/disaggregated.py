"""Disaggregated: a prefill pool, links, a decode pool (docs/arithmetic.md, section 5)."""

import polars as pl

from pipelines.arithmetic import queues, service, transfer
from pipelines.topologies.phases import (
    CA2,
    D1,
    KAPPA,
    P1,
    P2,
    P_MAX,
    RATE,
    SLOTS,
    T0,
    C,
    Phases,
    Span,
    Stratum,
    decode_token_seconds,
    prefill_token_seconds,
    whole_prompt_s,
    with_decode_demand,
    with_step_and_slots,
    with_whole_prompt_moments,
)

_W, _PHI, _OVERHEAD, _LINKS = pl.col("w"), pl.col("phi"), pl.col("overhead"), pl.col("links")


def movement_s(span: Span) -> pl.Expr:
    """Mean KV movement of a span in seconds that is not hidden behind its prefill."""
    p1 = span.prompts.p1
    moved = transfer.transfer_s(p1, overhead=_OVERHEAD, kappa=KAPPA, w=_W)
    return moved - transfer.hidden_s(p1, whole_prompt_s(span), phi=_PHI, kappa=KAPPA, w=_W)


def _with_transfers(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``transfer_mean_s`` (T̄), ``load_link``, ``transfer_wait_s``, ``link_probability`` and E[p·T] as ``transfer_token_seconds``."""
    mean = pl.col("transfer_mean_s")
    second = pl.lit(1.0) * transfer.transfer_second_moment(P1, P2, overhead=_OVERHEAD, kappa=KAPPA, w=_W)
    frame = frame.with_columns(transfer_mean_s=transfer.transfer_s(P1, overhead=_OVERHEAD, kappa=KAPPA, w=_W))
    frame = frame.with_columns(load_link=RATE * mean / _LINKS)
    link = queues.shared_queue_wait(1.0, service.scv(mean, second), pl.col("load_link"), _LINKS, mean)
    return frame.with_columns(
        transfer_wait_s=link.mean_s,
        link_probability=link.probability,
        transfer_token_seconds=_OVERHEAD * P1 + KAPPA / _W * P2,
    )


def _with_memory(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``load_kv_prefill``, ``load_kv_decode`` and ``load_staging``."""
    wait, moved, memory = P1 * pl.col("transfer_wait_s"), pl.col("transfer_token_seconds"), pl.col("kv_memory")
    per_prefill, per_decode = RATE / pl.col("workers_prefill"), RATE / pl.col("workers_decode")
    in_flight = per_decode * (pl.col("transfer_wait_s") + pl.col("transfer_mean_s"))
    return frame.with_columns(
        load_kv_prefill=KAPPA * per_prefill * (prefill_token_seconds() + wait + moved) / memory,
        load_kv_decode=KAPPA
        * per_decode
        * (wait + moved + P1 * pl.col("decode_wait_s") + decode_token_seconds())
        / memory,
        load_staging=in_flight / (SLOTS - pl.col("decode_batch")),
    )


def _with_stall(frame: pl.DataFrame, first_token: str) -> pl.DataFrame:
    if first_token == "decode":
        return frame.with_columns(stall_s=pl.when(pl.col("m") > 0).then("t"))
    longest = transfer.transfer_s(P_MAX, overhead=_OVERHEAD, kappa=KAPPA, w=_W)
    hidden = transfer.hidden_s(P_MAX, pl.col("s_max"), phi=_PHI, kappa=KAPPA, w=_W)
    gap = pl.col("transfer_wait_s") + longest - hidden + pl.col("decode_wait_s") + pl.col("t")
    return frame.with_columns(stall_s=pl.when(D1 > 0).then(gap))


def evaluate(base: pl.DataFrame, dispatch: str, first_token: str, strata: tuple[Stratum, ...]) -> Phases:
    """Waits, TPOT, stall and loads of every disaggregated scenario in ``base``."""
    del strata
    n_p, n_d = pl.col("workers_prefill"), pl.col("workers_decode")
    frame = with_decode_demand(with_whole_prompt_moments(base), first_token, n_d)
    frame = frame.with_columns(
        load_prefill=RATE * pl.col("s_mean") / n_p,
        load_decode=pl.col("rho_d"),
        t=service.tpot_s(T0, C, rho_prefill=0.0, rho_decode=pl.col("rho_d")),
    ).with_columns(decode_batch=pl.col("x") * pl.col("t"))
    frame = _with_transfers(with_step_and_slots(frame))
    queue = queues.pool_wait(dispatch, CA2, pl.col("cs2"), pl.col("load_prefill"), n_p, pl.col("s_mean"))
    frame = frame.with_columns(
        prefill_wait_s=queue.mean_s, decode_wait_s=pl.col("residual_s") + pl.col("slot_wait_s")
    ).with_columns(queue_probability=queue.probability, queue_wait_s=queue.mean_s)
    if first_token == "decode":
        link_dominates = pl.col("transfer_wait_s") > pl.col("prefill_wait_s")
        frame = frame.with_columns(
            queue_probability=pl.when(link_dominates).then("link_probability").otherwise("queue_probability"),
            queue_wait_s=pl.when(link_dominates).then("transfer_wait_s").otherwise("queue_wait_s"),
        )
    return Phases(_with_stall(_with_memory(frame), first_token), whole_prompt_s, movement_s, first_token)
