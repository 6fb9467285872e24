"""What the three topologies share: spans of prompts, moments as columns, decode batches."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from pipelines.arithmetic import queues, service
from pipelines.topologies.memory import resident_bytes

P1, P2, P_MAX = pl.col("p1"), pl.col("p2"), pl.col("p_max")
U1, U2, U_MAX = pl.col("u1"), pl.col("u2"), pl.col("u_max")
Z1, Z2, Z_MAX = pl.col("z1"), pl.col("z2"), pl.col("z_max")
UZ, PU, PZ = pl.col("uz"), pl.col("pu"), pl.col("pz")
RATE, CA2, ALPHA, BETA = pl.col("rate"), pl.col("ca2"), pl.col("alpha"), pl.col("beta")
D, R_P, Q = pl.col("d"), pl.col("r_p"), pl.col("q")
T0, KV_MEMORY, BATCH_CAP = pl.col("t0"), pl.col("kv_memory"), pl.col("batch_cap")
C, D1, D2, PD = pl.col("c"), pl.col("d1"), pl.col("d2"), pl.col("pd")
"""``c``, ``d1``, ``d2``, ``pd`` and ``batch_cap`` are :func:`with_decode_demand`'s. Moments of u and z are scaled by the hit ratio."""


@dataclass(frozen=True)
class Prompts:
    """Mean prompt of a set of requests: E[p] and E[u] in tokens, E[z] in token pairs, as the trace has them.

    ``p1`` tokens are moved and held; :attr:`uncached` and :attr:`attention` are computed, less what a declared hit ratio saves.
    """

    p1: float
    u1: float
    z1: float

    @property
    def uncached(self) -> pl.Expr:
        """α·E[u]."""
        return ALPHA * self.u1

    @property
    def attention(self) -> pl.Expr:
        """β·E[z]."""
        return BETA * self.z1


@dataclass(frozen=True)
class Stratum:
    """``share`` of the cohort's requests (v_s), about alike in their uncached tokens.

    ``moved_s`` is the KV movement that is not hidden behind prefill, nominal and conservative, in seconds.
    """

    share: float
    prompts: Prompts
    moved_s: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Span:
    """A set of requests by its mean prompt, and the strata within."""

    prompts: Prompts
    strata: tuple[Stratum, ...]


@dataclass(frozen=True)
class Setting:
    """What is the same for all scenarios of a cohort and under both bounds.

    ``windows`` are the lengths in tokens of windows that bound what a sequence holds in memory.
    """

    dispatch: str
    first_token: str
    link_sharing: str
    windows: tuple[int, ...]
    strata: tuple[Stratum, ...]

    def resident_bytes(self, token_seconds: pl.Expr, sequence_seconds: pl.Expr) -> pl.Expr:
        """Res(Θ, Ψ) of the served model."""
        return resident_bytes(token_seconds, sequence_seconds, self.windows)


@dataclass(frozen=True)
class Phases:
    """What a topology computes for all its scenarios at once.

    ``frame`` has, per scenario and bound: ``load_*``, ``t`` (TPOT, s), ``decode_batch``, ``prefill_wait_s``,
    ``transfer_wait_s``, ``decode_wait_s``, ``stall_s``, and ``queue_wait_s`` with ``queue_probability`` of the queue that
    keeps its distribution in goodput. ``execution_s`` and ``movement_s`` give a span's prefill execution and KV movement
    in seconds.
    """

    frame: pl.DataFrame
    execution_s: Callable[[Span], pl.Expr]
    movement_s: Callable[[Span], pl.Expr]
    first_token: str


def whole_prompt_s(span: Span) -> pl.Expr:
    """Execution of a span's prompts, each in one piece: d + u1/r_p + q·z1, in seconds."""
    prompts = span.prompts
    return pl.lit(1.0) * service.prefill_s(prompts.uncached, prompts.attention, d=D, r_p=R_P, q=Q)


def no_movement_s(_: Span) -> pl.Expr:
    """Nothing moves where both phases share a worker."""
    return pl.lit(0.0)


def with_whole_prompt_moments(frame: pl.DataFrame) -> pl.DataFrame:
    """Add ``s_mean`` (S̄, s), ``cs2`` and ``s_max`` (s) of prompts that are prefilled in one piece."""
    second = pl.lit(1.0) * service.prefill_second_moment(U1, U2, Z1, Z2, UZ, d=D, r_p=R_P, q=Q)
    return frame.with_columns(
        s_mean=service.prefill_s(U1, Z1, d=D, r_p=R_P, q=Q),
        s_max=service.prefill_s(U_MAX, Z_MAX, d=D, r_p=R_P, q=Q),
    ).with_columns(cs2=service.scv(pl.col("s_mean"), second))


def with_decode_demand(frame: pl.DataFrame, setting: Setting, first_token: str, workers: pl.Expr) -> pl.DataFrame:
    """Add ``d1``, ``d2``, ``pd``, ``c`` (s), ``x`` (decode tokens/s per worker) and ``rho_d`` of a pool of ``workers``.

    Of one worker, ``sequence_tokens`` (R), ``sequence_bytes`` and ``batch_cap`` (B): the sequences that its slots and memory allow.
    """
    g = 1 if first_token == "prefill" else 0
    d1, d2, pd = service.decode_steps(pl.col("o1"), pl.col("o2"), pl.col("po"), P1, g=g)
    resident = pl.col("sequence_tokens")
    in_memory = KV_MEMORY / pl.col("sequence_bytes")
    return (
        frame.with_columns(
            pl.lit(1.0).mul(d1).alias("d1"), pl.lit(1.0).mul(d2).alias("d2"), pl.lit(1.0).mul(pd).alias("pd")
        )
        .with_columns(sequence_tokens=service.resident_tokens(D1, D2, PD))
        .with_columns(sequence_bytes=setting.resident_bytes(resident, pl.lit(1.0)))
        .with_columns(batch_cap=pl.when(D1 > 0).then(pl.min_horizontal("slots", in_memory)).otherwise("slots"))
        .with_columns(c=service.decode_step_cost(pl.col("r_d"), pl.col("gamma"), resident), x=RATE * D1 / workers)
        .with_columns(rho_d=pl.col("x") * C)
    )


def with_step_and_slots(frame: pl.DataFrame) -> pl.DataFrame:
    """From ``decode_batch`` and ``t`` add ``residual_s``, ``slot_wait_s`` and ``load_slots``."""
    b = pl.col("decode_batch")
    return frame.with_columns(
        residual_s=queues.residual_step_s(b, service.step_s(T0, C, b)),
        slot_wait_s=queues.slot_wait_s(b, BATCH_CAP, D1, D2, pl.col("t")),
        load_slots=pl.when(BATCH_CAP < 1).then(1 / BATCH_CAP).otherwise(b / BATCH_CAP),
    )


def decode_token_seconds() -> pl.Expr:
    """Token-seconds of KV that one request holds while it decodes: t·(PD + D2/2)."""
    return pl.col("t") * (PD + D2 / 2)


def decode_seconds() -> pl.Expr:
    """Seconds for which one request decodes: t·D1."""
    return pl.col("t") * D1


def prefill_token_seconds() -> pl.Expr:
    """Token-seconds of KV that one request holds while it is prefilled in one piece: E[p·S]."""
    return pl.lit(1.0) * service.prefill_token_seconds(P1, PU, PZ, d=D, r_p=R_P, q=Q)
