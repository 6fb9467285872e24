"""What sequences hold of a worker's memory, and how many fit (docs/arithmetic.md section 2)."""

from __future__ import annotations

import math

from .parameters import Parameters


def mean_tokens(of: Parameters, tokens: float) -> float:
    """`v' = v + (β - 1)/2`: tokens of cache that a prompt of a mean length takes, in blocks."""
    return tokens + (of.block_tokens - 1) / 2


def whole_tokens(of: Parameters, tokens: float) -> float:
    """`v' = ceil(v/β)·β`: tokens of cache that one prompt takes, in blocks."""
    return float(math.ceil(tokens / of.block_tokens) * of.block_tokens)


def resident_bytes(of: Parameters, tokens: float, sequences: float) -> float:
    """`Res(Θ, Ψ)`: bytes held by so many tokens in so many sequences (or token-seconds, in sequence-seconds)."""
    held, cache = tokens + sequences * (of.block_tokens - 1) / 2, of.cache
    if not of.by_kind:
        return cache.allocated_bytes * held + cache.state_bytes * sequences
    bounded = math.fsum(w.bytes_per_token * min(held, w.tokens * sequences) for w in cache.windows)
    return cache.growth_bytes * held + bounded + cache.state_bytes * sequences


def batch_cap(of: Parameters, decode_steps: float, tokens_of_sequence: float) -> float:
    """`B = min(B_0, M/Res(R, 1))`: sequences that decode at once at most; `B_0` if nothing is decoded."""
    if not decode_steps:
        return of.max_sequences
    return min(of.max_sequences, of.kv_memory_bytes / resident_bytes(of, tokens_of_sequence, 1.0))
