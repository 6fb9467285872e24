"""The constants of one cohort under each bound, as columns named by the symbols of docs/arithmetic.md."""

from typing import Any

import polars as pl

from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.frames.workload import ALL
from pipelines.topologies.memory import memory_constants

RATE_INPUT = "requests.rate"
CONCURRENCY_INPUT = "requests.concurrency"
ARRIVAL_SCV_INPUT = "requests.arrival_scv"
HIT_RATIO_INPUT = "service.prefill.prefix_hit_ratio"

_SYMBOLS = {
    "a": "service.admission",
    "d": "service.prefill.overhead",
    "r_p": "service.prefill.tokens_per_second",
    "q": "service.prefill.seconds_per_token_squared",
    "u_p": "service.prefill.utilization_ceiling",
    "t0": "service.decode.step_overhead",
    "r_d": "service.decode.tokens_per_second",
    "gamma": "service.decode.seconds_per_context_token",
    "slots": "service.decode.max_sequences",
    "u_d": "service.decode.utilization_ceiling",
    "ttft_objective": "objectives.ttft",
    "tpot_objective": "objectives.tpot",
}
_LINK_CEILING = "network.utilization_ceiling"
_WORKLOAD_SYMBOLS = {
    "p1": "prompt_tokens_mean",
    "p2": "prompt_tokens_m2",
    "p_max": "prompt_tokens_max",
    "u1": "uncached_tokens_mean",
    "u2": "uncached_tokens_m2",
    "u_max": "uncached_tokens_max",
    "z1": "attention_mean",
    "z2": "attention_m2",
    "z_max": "attention_max",
    "uz": "uncached_attention_mean",
    "pu": "prompt_uncached_mean",
    "pz": "prompt_attention_mean",
    "o1": "output_tokens_mean",
    "o2": "output_tokens_m2",
    "po": "prompt_output_mean",
    "m": "multi_token_share",
}


def declared_rate_rps(inputs: InputTable, bound: Bound = "nominal") -> float | None:
    """Λ in requests/s where the cohort declares it."""
    return inputs.number(RATE_INPUT, bound) if inputs.has(RATE_INPUT) else None


def miss_factors(inputs: InputTable, bound: Bound) -> tuple[float, float]:
    """α = 1 - η and β = 1 - η²: what a declared hit ratio leaves of uncached tokens and of attention; both 1 where none is."""
    eta = inputs.number(HIT_RATIO_INPUT, bound) if inputs.has(HIT_RATIO_INPUT) else 0.0
    return 1 - eta, 1 - eta * eta


def workload_moments(bucket: dict[str, Any], inputs: InputTable, bound: Bound) -> dict[str, float]:
    """The moments of one row of :class:`pipelines.frames.workload.Buckets` by symbol, scaled by a declared hit ratio.

    Units are powers of tokens. The largest u and z stay: the longest prompt may miss entirely.
    """
    alpha, beta = miss_factors(inputs, bound)
    moments = {symbol: float(bucket[column]) for symbol, column in _WORKLOAD_SYMBOLS.items()}
    left = {"u1": alpha, "u2": alpha**2, "z1": beta, "z2": beta**2, "uz": alpha * beta, "pu": alpha, "pz": beta}
    return moments | {symbol: factor * moments[symbol] for symbol, factor in left.items()}


def _arrivals(bucket: dict[str, Any], inputs: InputTable, bound: Bound) -> dict[str, float | None]:
    """Λ (requests/s; none in a closed loop), ca² and K (none unless closed) of all requests."""
    declared = inputs.has(ARRIVAL_SCV_INPUT)
    ca2 = inputs.number(ARRIVAL_SCV_INPUT, bound) if declared else float(bucket["arrival_scv"])
    concurrency = inputs.number(CONCURRENCY_INPUT, bound) if inputs.has(CONCURRENCY_INPUT) else None
    rate = declared_rate_rps(inputs, bound) if declared else float(bucket["rate_rps"])
    return {"rate": rate, "ca2": ca2, "concurrency": concurrency}


def _constants(inputs: InputTable, bound: Bound) -> dict[str, float | str]:
    row: dict[str, float | str] = {symbol: inputs.number(path, bound) for symbol, path in _SYMBOLS.items()}
    row["u_m"] = min(inputs.number(_SYMBOLS["u_p"], bound), inputs.number(_SYMBOLS["u_d"], bound))
    row["alpha"], row["beta"] = miss_factors(inputs, bound)
    if inputs.has(_LINK_CEILING):
        row["u_l"] = inputs.number(_LINK_CEILING, bound)
    return row | memory_constants(inputs, bound) | {"bound": bound, "one": 1.0}


def bound_constants(inputs: InputTable, buckets: pl.DataFrame) -> pl.DataFrame:
    """Two rows, nominal and conservative: declared symbols, KV memory, α, β, arrivals, and the moments of all requests (bucket ``all``).

    Arrivals are ``rate`` (Λ) and ``ca2``, declared or else the trace's, and ``concurrency`` (K). One of ``rate`` and
    ``concurrency`` is null: in a closed loop, the rate is each scenario's own.
    """
    overall = buckets.filter(pl.col("bucket") == ALL).row(0, named=True)
    rows = [
        {**_constants(inputs, bound), **_arrivals(overall, inputs, bound), **workload_moments(overall, inputs, bound)}
        for bound in BOUNDS
    ]
    return pl.DataFrame(rows).with_columns(pl.col("rate", "concurrency").cast(pl.Float64))
