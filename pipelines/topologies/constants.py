"""The constants of one cohort under each bound, as columns named by the symbols of docs/arithmetic.md."""

import polars as pl

from pipelines.arithmetic import kv
from pipelines.frames.inputs import BOUNDS, Bound, InputTable

OVERHEAD_INPUTS = ("network.registration", "network.synchronization", "network.receiver_visibility")
BANDWIDTH_INPUT = "network.effective_bandwidth"

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
    "kv_memory": "inventory.kv_memory_per_worker",
    "ttft_objective": "objectives.ttft",
    "tpot_objective": "objectives.tpot",
}
_NETWORK_SYMBOLS = {
    "links": "network.links",
    "w": BANDWIDTH_INPUT,
    "phi": "network.overlap",
    "u_l": "network.utilization_ceiling",
}
_WORKLOAD_SYMBOLS = {
    "rate": "rate_rps",
    "ca2": "arrival_scv",
    "p1": "prompt_tokens_mean",
    "p2": "prompt_tokens_m2",
    "p3": "prompt_tokens_m3",
    "p4": "prompt_tokens_m4",
    "p_max": "prompt_tokens_max",
    "o1": "output_tokens_mean",
    "o2": "output_tokens_m2",
    "po": "prompt_output_mean",
    "m": "multi_token_share",
}


def kv_bytes_per_token(inputs: InputTable, bound: Bound) -> float:
    """κ of the declared model shape under ``bound``, in bytes."""
    shape = {name: int(inputs.number(f"model.{name}")) for name in ("layers", "kv_heads", "head_dim")}
    return kv.bytes_per_token(
        **shape, kv_dtype=inputs.word("model.kv_dtype"), layout_factor=inputs.number("model.layout_factor", bound)
    )


def transfer_overhead_s(inputs: InputTable, bound: Bound) -> float:
    """o_x: registration, synchronization and receiver visibility under ``bound``, in seconds."""
    return sum(inputs.number(path, bound) for path in OVERHEAD_INPUTS)


def _constants(inputs: InputTable, bound: Bound) -> dict[str, float | str]:
    row: dict[str, float | str] = {symbol: inputs.number(path, bound) for symbol, path in _SYMBOLS.items()}
    row["u_m"] = min(inputs.number(_SYMBOLS["u_p"], bound), inputs.number(_SYMBOLS["u_d"], bound))
    row["kappa"] = kv_bytes_per_token(inputs, bound)
    if inputs.has(BANDWIDTH_INPUT):
        row |= {symbol: inputs.number(path, bound) for symbol, path in _NETWORK_SYMBOLS.items()}
        row["overhead"] = transfer_overhead_s(inputs, bound)
    return row | {"bound": bound, "one": 1.0}


def bound_constants(inputs: InputTable, buckets: pl.DataFrame) -> pl.DataFrame:
    """Two rows, nominal and conservative: declared symbols, κ, and the moments of the whole cohort (bucket ``all``)."""
    overall = buckets.filter(pl.col("bucket") == "all").row(0, named=True)
    moments = [pl.lit(float(overall[column])).alias(symbol) for symbol, column in _WORKLOAD_SYMBOLS.items()]
    return pl.DataFrame([_constants(inputs, bound) for bound in BOUNDS]).with_columns(moments)
