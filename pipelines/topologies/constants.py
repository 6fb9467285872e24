"""The constants of one cohort under one bound: declared symbols of docs/arithmetic.md, by pool."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.arithmetic.curves import Curve
from pipelines.arithmetic.numbers import Number
from pipelines.arithmetic.prefill import PrefillTimes
from pipelines.declarations.service_curve import parse_points
from pipelines.frames.inputs import Bound, InputTable
from pipelines.topologies.memory import Memory, kv_memory_bytes, memory_of

RATE_INPUT = "requests.rate"
CONCURRENCY_INPUT = "requests.concurrency"
ARRIVAL_SCV_INPUT = "requests.arrival_scv"
HIT_RATIO_INPUT = "service.prefill.prefix_hit_ratio"
PENALTY_INPUT = "service.mixed_step_penalty"
LINK_CEILING = "network.utilization_ceiling"
PRICE_INPUT = "inventory.gpu_hour_price"

MIXED, PREFILL, DECODE = "mixed", "prefill", "decode"
POOLS = (MIXED, PREFILL, DECODE)

_TIMED = ("tokens_per_second", "overhead", "step_overhead")
"""What a measured curve stands in place of."""


@dataclass(frozen=True)
class DecodeTimes:
    """One worker's decode: t0 of a step (s), saturated rate r_d (tokens/s) or a ``curve`` of both, γ (s/token), slots B_0, ceiling u_d."""

    t0: Number
    r_d: Number
    curve: Curve | None
    gamma: Number
    slots: Number
    ceiling: Number


@dataclass(frozen=True)
class Constants:
    """Every declared number of one bound, each one number or one per evaluated row.

    Admission ``a`` (s), hit factors α and β, ``ca2``, mixed-step penalty ψ; prefill and decode of a mixed worker and of the
    separate pools, their ceilings, and the KV memory of each pool's worker (bytes).
    """

    dispatch: str
    discipline: str
    first_token: str
    a: Number
    penalty: Number
    alpha: Number
    beta: Number
    prefill: dict[str, PrefillTimes]
    prefill_ceiling: dict[str, Number]
    decode: dict[str, DecodeTimes]
    memory: Memory
    kv_memory: dict[str, Number]
    link_ceiling: Number
    link_sharing: str


def declared_rate_rps(inputs: InputTable, bound: Bound = "nominal") -> float | None:
    """Λ in requests/s where the cohort declares it."""
    return inputs.number(RATE_INPUT, bound) if inputs.has(RATE_INPUT) else None


def miss_factors(inputs: InputTable, bound: Bound) -> tuple[Number, Number]:
    """α = 1 - η and β = 1 - η²: what a declared hit ratio leaves of uncached tokens and of attention; both 1 where none is."""
    eta = inputs.number(HIT_RATIO_INPUT, bound) if inputs.has(HIT_RATIO_INPUT) else 0.0
    return 1 - eta, 1 - eta * eta


def gpus_per_worker(inputs: InputTable) -> dict[str, int]:
    """GPUs of one worker of each pool."""
    whole = int(inputs.number("inventory.gpus_per_worker"))
    own = {pool: f"separated.{pool}.gpus_per_worker" for pool in (PREFILL, DECODE)}
    return {MIXED: whole} | {
        pool: int(inputs.number(path)) if inputs.has(path) else whole for pool, path in own.items()
    }


def _path(inputs: InputTable, pool: str, phase: str, name: str) -> str | None:
    """Where a worker of ``pool`` has the input ``name`` of ``phase``: its own section, else the service's; None where nowhere.

    A curve of its own stands for the rate and overhead that it would inherit, and the other way round.
    """
    own = f"separated.{pool}.{name}"
    if pool != MIXED:
        if inputs.has(own):
            return own
        instead = _TIMED if name == "curve" else ("curve",) if name in _TIMED else ()
        if any(inputs.has(f"separated.{pool}.{other}") for other in instead):
            return None
    common = f"service.{phase}.{name}"
    return common if inputs.has(common) else None


def pool_number(inputs: InputTable, bound: Bound, pool: str, phase: str, name: str, default: float = 0.0) -> Number:
    """The input ``name`` of ``phase`` for a worker of ``pool``; ``default`` where a curve stands in its place."""
    path = _path(inputs, pool, phase, name)
    return inputs.number(path, bound) if path is not None else default


def _curve(inputs: InputTable, bound: Bound, pool: str, phase: str) -> Curve | None:
    path = _path(inputs, pool, phase, "curve")
    return declared_curve(inputs.word(path), bound) if path is not None else None


def declared_curve(text: str, bound: Bound) -> Curve:
    """The service curve of an input's text under ``bound``: under the conservative one, upper times where a point has them."""
    return curve_under(parse_points(text), bound)


def curve_under(points: Iterable[tuple[Any, Any, Any]], bound: Bound) -> Curve:
    """A curve of points (size, seconds, upper seconds or None) under ``bound``."""
    upper = bound == "conservative"
    return Curve(tuple((float(b), float(high if upper and high is not None else tau)) for b, tau, high in points))


def prefill_times(inputs: InputTable, bound: Bound, pool: str = MIXED) -> PrefillTimes:
    """Prefill of one worker of ``pool``."""

    def number(name: str, default: float = 0.0) -> Number:
        return pool_number(inputs, bound, pool, PREFILL, name, default)

    return PrefillTimes(
        d=number("overhead"),
        r_p=number("tokens_per_second", 1.0),
        q=number("seconds_per_token_squared"),
        curve=_curve(inputs, bound, pool, PREFILL),
    )


def decode_times(inputs: InputTable, bound: Bound, pool: str = MIXED) -> DecodeTimes:
    """Decode of one worker of ``pool``."""

    def number(name: str, default: float = 0.0) -> Number:
        return pool_number(inputs, bound, pool, DECODE, name, default)

    return DecodeTimes(
        t0=number("step_overhead"),
        r_d=number("tokens_per_second", 1.0),
        curve=_curve(inputs, bound, pool, DECODE),
        gamma=number("seconds_per_context_token"),
        slots=number("max_sequences"),
        ceiling=number("utilization_ceiling"),
    )


def _kv_memory(inputs: InputTable, bound: Bound) -> dict[str, Number]:
    common = kv_memory_bytes(inputs, bound)
    own = {pool: f"separated.{pool}.kv_memory_per_worker" for pool in (PREFILL, DECODE)}
    return {MIXED: common} | {
        pool: inputs.number(path, bound) if inputs.has(path) else common for pool, path in own.items()
    }


def constants(inputs: InputTable, bound: Bound) -> Constants:
    """Everything that an evaluation under ``bound`` reads, but for arrivals, transfers and objectives."""
    alpha, beta = miss_factors(inputs, bound)
    sharing = "network.link_sharing"
    return Constants(
        dispatch=inputs.word("service.dispatch"),
        discipline=inputs.word("service.prefill.discipline"),
        first_token=inputs.word("service.first_token_source"),
        a=inputs.number("service.admission", bound),
        penalty=inputs.number(PENALTY_INPUT, bound) if inputs.has(PENALTY_INPUT) else 0.0,
        alpha=alpha,
        beta=beta,
        prefill={pool: prefill_times(inputs, bound, pool) for pool in (MIXED, PREFILL)},
        prefill_ceiling={
            pool: pool_number(inputs, bound, pool, PREFILL, "utilization_ceiling") for pool in (MIXED, PREFILL)
        },
        decode={pool: decode_times(inputs, bound, pool) for pool in (MIXED, DECODE)},
        memory=memory_of(inputs, bound),
        kv_memory=_kv_memory(inputs, bound),
        link_ceiling=inputs.number(LINK_CEILING, bound) if inputs.has(LINK_CEILING) else 1.0,
        link_sharing=inputs.word(sharing) if inputs.has(sharing) else "shared",
    )


@dataclass(frozen=True)
class Arrivals:
    """Λ (requests/s; None in a closed loop), ca², and K (None unless closed) of all requests."""

    rate: Number | None
    ca2: Number
    concurrency: Number | None


def arrivals(inputs: InputTable, bound: Bound, trace_rate: float | None, trace_ca2: float | None) -> Arrivals:
    """The declared arrivals, or else the trace's."""
    declared = inputs.has(ARRIVAL_SCV_INPUT)
    ca2 = inputs.number(ARRIVAL_SCV_INPUT, bound) if declared else float(trace_ca2 or 0.0)
    if inputs.has(CONCURRENCY_INPUT):
        return Arrivals(None, ca2, inputs.number(CONCURRENCY_INPUT, bound))
    if inputs.has(RATE_INPUT):
        return Arrivals(inputs.number(RATE_INPUT, bound), ca2, None)
    assert trace_rate is not None
    return Arrivals(trace_rate * inputs.factor(RATE_INPUT), ca2, None)


@dataclass(frozen=True)
class Objectives:
    """Latency objectives of each bucket of a path in seconds, arrays (rows or one) x buckets; ``e2e`` is infinite where not declared."""

    ttft: np.ndarray
    tpot: np.ndarray
    e2e: np.ndarray


def bucket_objective_path(inputs: InputTable, upper: int | None, name: str) -> str:
    """Where the objective ``name`` of a bucket is declared: at the smallest edge at or above its upper one, if there, else in common."""
    edges = {int(path.split(".")[2]) for path in inputs.rows if path.startswith("objectives.buckets.")}
    fitting = [edge for edge in edges if upper is not None and edge >= upper]
    own = f"objectives.buckets.{min(fitting)}.{name}" if fitting else ""
    return own if inputs.has(own) else f"objectives.{name}"


def objectives(inputs: InputTable, bound: Bound, uppers: list[int | None]) -> Objectives:
    """The objectives of buckets with the given upper edges."""

    def of(name: str) -> np.ndarray:
        paths = [bucket_objective_path(inputs, upper, name) for upper in uppers]
        values = [inputs.number(path, bound) if inputs.has(path) else np.inf for path in paths]
        return np.stack(np.broadcast_arrays(*[np.atleast_1d(value) for value in values]), axis=-1)

    return Objectives(of("ttft"), of("tpot"), of("e2e"))
