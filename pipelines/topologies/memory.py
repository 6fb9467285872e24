"""KV memory: the cache model of a cohort, what fits into a worker, and how many sequences that are (docs/arithmetic.md, section 2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.arithmetic.kv import CacheModel, cache_model
from pipelines.arithmetic.numbers import Number
from pipelines.declarations.cache import CacheShape, cache_shape, plain_shape
from pipelines.frames.inputs import Bound, InputTable

SHAPE_INPUT = "model.cache"
MEMORY_INPUT = "inventory.kv_memory_per_worker"
TOKENS_INPUT = "inventory.kv_tokens_per_worker"
LAYOUT_INPUT = "model.layout_factor"
UNIFORM = "uniform"


def served_shape(inputs: InputTable) -> CacheShape:
    """The declared cache: its kinds of layers, or the one kind that layers, KV heads and head dimension make."""
    if inputs.has(SHAPE_INPUT):
        return cache_shape(inputs.word(SHAPE_INPUT))
    return plain_shape(*(int(inputs.number(f"model.{name}")) for name in ("layers", "kv_heads", "head_dim")))


def served_cache(inputs: InputTable, layout_factor: float = 1.0) -> CacheModel:
    """The cache of the served model over all ranks of a worker, its bytes times ``layout_factor``."""
    return cache_model(
        served_shape(inputs),
        inputs.word("model.kv_dtype"),
        tensor_parallel=int(inputs.number("model.tensor_parallel")),
        layout_factor=layout_factor,
        block_tokens=int(inputs.number("model.block_tokens")),
    )


def kv_memory_bytes(inputs: InputTable, bound: Bound) -> Number:
    """M: bytes of KV cache that a worker has room for, as declared or derived from what is."""
    if inputs.has(MEMORY_INPUT):
        return inputs.number(MEMORY_INPUT, bound)
    if inputs.has(TOKENS_INPUT):
        allocated = served_cache(inputs).allocated * inputs.number(LAYOUT_INPUT, bound)
        return allocated * inputs.number(TOKENS_INPUT, bound)
    each, used, weights, activations = (
        inputs.number(f"inventory.{name}", bound)
        for name in ("gpu_memory", "memory_utilization", "weights_per_worker", "activations_per_worker")
    )
    return inputs.number("inventory.gpus_per_worker") * each * used - weights - activations


@dataclass(frozen=True)
class Memory:
    """What sequences hold: bytes per token of layers that grow, of each window that bounds others, and per sequence of a state.

    ``block_rest`` is the tokens that whole blocks take beyond those of a sequence, on average.
    """

    growth: Number
    windows: tuple[tuple[int, Number], ...]
    state: Number
    block_rest: float

    def resident(self, tokens: Number, sequences: Number) -> Number:
        """Res(Θ, Ψ): bytes of ``tokens`` in ``sequences``, or byte-seconds of token-seconds in sequence-seconds.

        >>> float(
        ...     Memory(2.0, ((100, 1.0),), 5.0, 0.5).resident(250.0, 2.0)
        ... )  # 251 tokens with blocks, 200 of them in the window
        712.0
        """
        filled = tokens + self.block_rest * sequences
        bounded: Any = sum(each * np.minimum(filled, length * sequences) for length, each in self.windows)
        held: Number = self.growth * filled + bounded + self.state * sequences
        return held


def memory_of(inputs: InputTable, bound: Bound) -> Memory:
    """The served model's under ``bound``; with uniform allocation every layer gets the full length."""
    cache, factor = served_cache(inputs), inputs.number(LAYOUT_INPUT, bound)
    if inputs.word("model.kv_allocation") == UNIFORM:
        return Memory(cache.allocated * factor, (), cache.state * factor, cache.block_rest)
    windows = tuple((window.tokens, window.bytes_per_token * factor) for window in cache.windows)
    return Memory(cache.growth * factor, windows, cache.state * factor, cache.block_rest)
