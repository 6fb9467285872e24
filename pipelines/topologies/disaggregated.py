"""Disaggregated: a prefill pool, links, a decode pool (docs/arithmetic.md, section 5)."""

import polars as pl

from pipelines.arithmetic import queues, service
from pipelines.topologies.phases import (
    BATCH_CAP,
    CA2,
    D1,
    KV_MEMORY,
    P1,
    RATE,
    T0,
    C,
    Phases,
    Setting,
    Span,
    decode_seconds,
    decode_token_seconds,
    prefill_token_seconds,
    whole_prompt_s,
    with_decode_demand,
    with_step_and_slots,
    with_whole_prompt_moments,
)
from pipelines.topologies.transfers import Transfers

_TRANSFER_S, _WAIT_S = pl.col("transfer_mean_s"), pl.col("transfer_wait_s")

LINK_QUEUES = {
    "shared": pl.lit(1),
    "per_prefill_worker": pl.col("workers_prefill"),
    "per_decode_worker": pl.col("workers_decode"),
}
"""Queues for links (n_q) by ``network.link_sharing``."""


def transfer_constants(moved: Transfers) -> dict[str, float]:
    """The transfers under one bound as columns: ``transfer_mean_s`` (T̄), ``link_s``, ``link_scv``, ``transfer_token_seconds`` (E[p·T]), the
    longest one with its payload, ``phi`` and ``channels``.
    """
    return {
        "transfer_mean_s": moved.mean_s,
        "link_s": moved.link_s,
        "link_scv": moved.link_scv,
        "transfer_token_seconds": moved.token_seconds,
        "longest_s": moved.longest.seconds,
        "longest_payload_s": moved.longest.payload_s,
        "phi": moved.overlap,
        "channels": moved.channels,
    }


def movement_s(span: Span) -> pl.Expr:
    """Mean KV movement of a span in seconds that is not hidden behind its prefill, over its strata."""
    total = sum(stratum.share for stratum in span.strata)
    nominal, conservative = (
        sum(stratum.share / total * stratum.moved_s[place] for stratum in span.strata) for place in (0, 1)
    )
    return pl.when(pl.col("bound") == "nominal").then(nominal).otherwise(conservative)


def _with_transfers(frame: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """Add ``load_link``, ``transfer_wait_s`` and ``link_probability``."""
    channels, busy = pl.col("channels"), pl.col("link_s")
    frame = frame.with_columns(load_link=RATE * busy / (LINK_QUEUES[setting.link_sharing] * channels))
    link = queues.shared_queue_wait(1.0, pl.col("link_scv"), pl.col("load_link"), channels, busy)
    return frame.with_columns(transfer_wait_s=link.mean_s, link_probability=link.probability)


def in_transfer(setting: Setting) -> tuple[pl.Expr, pl.Expr]:
    """Sequences in flight to one decode worker (f), and their bytes."""
    rate = RATE / pl.col("workers_decode")
    token_seconds = P1 * _WAIT_S + pl.col("transfer_token_seconds")
    return rate * (_WAIT_S + _TRANSFER_S), rate * setting.resident_bytes(token_seconds, _WAIT_S + _TRANSFER_S)


def decoding_bytes(setting: Setting) -> pl.Expr:
    """Bytes that a decode worker holds of sequences that wait for it or decode."""
    waiting = pl.col("decode_wait_s")
    held = setting.resident_bytes(P1 * waiting + decode_token_seconds(), waiting + decode_seconds())
    return RATE / pl.col("workers_decode") * held


def _with_memory(frame: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """Add ``load_kv_prefill``, ``load_kv_decode`` and ``load_staging``."""
    token_seconds, seconds = P1 * _WAIT_S + pl.col("transfer_token_seconds"), _WAIT_S + _TRANSFER_S
    waiting = pl.col("decode_wait_s")
    prefilling = setting.resident_bytes(prefill_token_seconds() + token_seconds, pl.col("s_mean") + seconds)
    decoding = setting.resident_bytes(
        token_seconds + P1 * waiting + decode_token_seconds(), seconds + waiting + decode_seconds()
    )
    return frame.with_columns(
        load_kv_prefill=RATE / pl.col("workers_prefill") * prefilling / KV_MEMORY,
        load_kv_decode=RATE / pl.col("workers_decode") * decoding / KV_MEMORY,
        load_staging=in_transfer(setting)[0] / (BATCH_CAP - pl.col("decode_batch")),
    )


def _with_stall(frame: pl.DataFrame, first_token: str) -> pl.DataFrame:
    if first_token == "decode":
        return frame.with_columns(stall_s=pl.when(pl.col("m") > 0).then("t"))
    hidden = pl.min_horizontal(pl.col("phi") * pl.col("longest_payload_s"), pl.col("s_max"))
    gap = _WAIT_S + pl.col("longest_s") - hidden + pl.col("decode_wait_s") + pl.col("t")
    return frame.with_columns(stall_s=pl.when(D1 > 0).then(gap))


def evaluate(base: pl.DataFrame, setting: Setting) -> Phases:
    """Waits, TPOT, stall and loads of every disaggregated scenario in ``base``, which holds the :func:`transfer_constants`."""
    n_p, n_d, first_token = pl.col("workers_prefill"), pl.col("workers_decode"), setting.first_token
    frame = with_decode_demand(with_whole_prompt_moments(base), setting, first_token, n_d)
    frame = frame.with_columns(
        load_prefill=RATE * pl.col("s_mean") / n_p,
        load_decode=pl.col("rho_d"),
        t=service.tpot_s(T0, C, rho_prefill=0.0, rho_decode=pl.col("rho_d")),
    ).with_columns(decode_batch=pl.col("x") * pl.col("t"))
    frame = _with_transfers(with_step_and_slots(frame), setting)
    queue = queues.pool_wait(setting.dispatch, CA2, pl.col("cs2"), pl.col("load_prefill"), n_p, pl.col("s_mean"))
    frame = frame.with_columns(
        prefill_wait_s=queue.mean_s, decode_wait_s=pl.col("residual_s") + pl.col("slot_wait_s")
    ).with_columns(queue_probability=queue.probability, queue_wait_s=queue.mean_s)
    if first_token == "decode":
        link_dominates = pl.col("prefill_wait_s") < _WAIT_S
        frame = frame.with_columns(
            queue_probability=pl.when(link_dominates).then("link_probability").otherwise("queue_probability"),
            queue_wait_s=pl.when(link_dominates).then("transfer_wait_s").otherwise("queue_wait_s"),
        )
    return Phases(_with_stall(_with_memory(frame, setting), first_token), whole_prompt_s, movement_s, first_token)
