"""KV memory: the cache model of a cohort, what fits into a worker, and how many sequences that are (docs/arithmetic.md, section 2)."""

from typing import Any

import polars as pl

from pipelines.arithmetic.kv import CacheModel, cache_model
from pipelines.declarations.cache import CacheShape, cache_shape, plain_shape
from pipelines.frames.inputs import Bound, InputTable

SHAPE_INPUT = "model.cache"
MEMORY_INPUT = "inventory.kv_memory_per_worker"
TOKENS_INPUT = "inventory.kv_tokens_per_worker"
UNIFORM = "uniform"

_WINDOW = "resident_window_{}"


def served_shape(inputs: InputTable) -> CacheShape:
    """The declared cache: its kinds of layers, or the one kind that layers, KV heads and head dimension make."""
    if inputs.has(SHAPE_INPUT):
        return cache_shape(inputs.word(SHAPE_INPUT))
    return plain_shape(*(int(inputs.number(f"model.{name}")) for name in ("layers", "kv_heads", "head_dim")))


def served_cache(inputs: InputTable, bound: Bound) -> CacheModel:
    """The cache of the served model under ``bound``, over all ranks of a worker."""
    return cache_model(
        served_shape(inputs),
        inputs.word("model.kv_dtype"),
        tensor_parallel=int(inputs.number("model.tensor_parallel")),
        layout_factor=inputs.number("model.layout_factor", bound),
        block_tokens=int(inputs.number("model.block_tokens")),
    )


def kv_memory_bytes(inputs: InputTable, bound: Bound) -> float:
    """M: bytes of KV cache that a worker has room for, as declared or derived from what is."""
    if inputs.has(MEMORY_INPUT):
        return inputs.number(MEMORY_INPUT, bound)
    if inputs.has(TOKENS_INPUT):
        return served_cache(inputs, bound).allocated * inputs.number(TOKENS_INPUT, bound)
    each, used, weights, activations = (
        inputs.number(f"inventory.{name}", bound)
        for name in ("gpu_memory", "memory_utilization", "weights_per_worker", "activations_per_worker")
    )
    return inputs.number("inventory.gpus_per_worker") * each * used - weights - activations


def bounded_windows(inputs: InputTable) -> tuple[int, ...]:
    """Lengths in tokens of the windows that bound what a sequence holds; none where every layer gets the full length."""
    if inputs.word("model.kv_allocation") == UNIFORM:
        return ()
    return tuple(window.tokens for window in served_cache(inputs, "nominal").windows)


def memory_constants(inputs: InputTable, bound: Bound) -> dict[str, Any]:
    """What :func:`resident_bytes` and the batch cap read, as columns."""
    cache = served_cache(inputs, bound)
    uniform = inputs.word("model.kv_allocation") == UNIFORM
    windows = () if uniform else cache.windows
    return {
        "resident_growth": cache.allocated if uniform else cache.growth,
        "resident_state": cache.state,
        "block_rest": cache.block_rest,
        "kv_memory": kv_memory_bytes(inputs, bound),
    } | {_WINDOW.format(place): window.bytes_per_token for place, window in enumerate(windows)}


def resident_bytes(token_seconds: pl.Expr, sequence_seconds: pl.Expr, windows: tuple[int, ...]) -> pl.Expr:
    """Res(Θ, Ψ): byte-seconds of ``token_seconds`` in ``sequence_seconds``, or bytes of so many tokens in so many sequences.

    ``windows`` are those of :func:`bounded_windows`; a layer with one holds at most its window of each sequence.
    """
    tokens = token_seconds + pl.col("block_rest") * sequence_seconds
    bounded = [
        pl.col(_WINDOW.format(place)) * pl.min_horizontal(tokens, length * sequence_seconds)
        for place, length in enumerate(windows)
    ]
    grown = pl.col("resident_growth") * tokens + pl.col("resident_state") * sequence_seconds
    return pl.sum_horizontal([grown, *bounded]) if bounded else grown
