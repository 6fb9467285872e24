"""What a sequence takes of a KV cache, what an engine reserves for it, and what fits into a memory (docs/kv.md), exactly."""

from dataclasses import dataclass
from fractions import Fraction

from pipelines.arithmetic.kv import CacheBytes, cache_bytes, in_blocks, rank_cache_bytes
from pipelines.declarations.cache import CacheShape

LARGEST = 2**52
"""Bytes from which on a figure with half a byte is no double, so that JSON would round it: 4 PiB."""


@dataclass(frozen=True)
class Asked:
    """What a cache is held against. ``encoder_tokens`` are positions of an encoder; ``memory`` is bytes of all ranks together."""

    tokens: int | None = None
    encoder_tokens: int = 0
    block_tokens: int = 1
    memory: int | None = None


@dataclass(frozen=True)
class Figures:
    """Bytes of one copy, of one rank, or of all ranks together; those of a sequence are None where no tokens were asked for."""

    cache: CacheBytes
    kv_bytes: Fraction | None
    kv_bytes_in_blocks: Fraction | None
    allocated_bytes: Fraction | None
    allocated_bytes_in_blocks: Fraction | None

    @property
    def largest(self) -> Fraction:
        """The largest of them."""
        sums = (self.cache.allocated, self.cache.state, self.cache.cross, self.allocated_bytes_in_blocks or Fraction(0))
        return max(sums)


def kept_bytes(cache: CacheBytes, tokens: int, encoder_tokens: int = 0, block_tokens: int = 1) -> Fraction:
    """Bytes that a sequence of ``tokens`` keeps, and that move with it: growth, windows as far as filled, state, encoder positions.

    With ``block_tokens``, each of these lengths is rounded up to whole blocks.

    >>> from pipelines.declarations.cache import cache_shape
    >>> int(kept_bytes(cache_bytes(cache_shape("full:18x8x64+64 window:18x8x64+64@128"), "bf16"), 1000))
    41582592
    """
    bounded = sum(
        (each.bytes_per_token * in_blocks(min(tokens, each.tokens), block_tokens) for each in cache.windows),
        Fraction(0),
    )
    encoded = cache.cross * in_blocks(encoder_tokens, block_tokens)
    return cache.growth * in_blocks(tokens, block_tokens) + bounded + cache.state + encoded


def reserved_bytes(cache: CacheBytes, tokens: int, encoder_tokens: int = 0, block_tokens: int = 1) -> Fraction:
    """Bytes that an engine reserves for a sequence of ``tokens`` where it gives every layer the full length."""
    encoded = cache.cross * in_blocks(encoder_tokens, block_tokens)
    return cache.allocated * in_blocks(tokens, block_tokens) + cache.state + encoded


def once_bytes(cache: CacheBytes, asked: Asked) -> Fraction:
    """Bytes that a sequence takes however many tokens it has: its state, and the encoder positions that it attends to."""
    return cache.state + cache.cross * in_blocks(asked.encoder_tokens, asked.block_tokens)


def tokens_that_fit(cache: CacheBytes, asked: Asked) -> int | None:
    """Tokens in the asked memory, in whole blocks; None where no memory was asked for, or no layer keeps anything per token.

    Of all sequences together where nothing but tokens takes memory; else of a single sequence, in what :func:`once_bytes` leaves.

    >>> from pipelines.declarations.cache import cache_shape
    >>> tokens_that_fit(cache_bytes(cache_shape("full:32x8x128+128"), "bf16"), Asked(memory=2**30))
    8192
    >>> tokens_that_fit(
    ...     cache_bytes(cache_shape("full:1x1x4+4 state:1x1x20+10"), "bf16"), Asked(memory=260)
    ... )  # (260 - 100) / 16
    10
    """
    if asked.memory is None or not cache.allocated:
        return None
    left = max(asked.memory - once_bytes(cache, asked), Fraction(0))
    return int(left // (cache.allocated * asked.block_tokens)) * asked.block_tokens


def sequences_that_fit(cache: CacheBytes, asked: Asked) -> int | None:
    """Sequences of the asked tokens (none: of state alone) in the asked memory; None where one takes nothing, or cannot be told."""
    if asked.memory is None or (asked.tokens is None and cache.allocated):
        return None
    each = reserved_bytes(cache, asked.tokens or 0, asked.encoder_tokens, asked.block_tokens)
    return int(asked.memory // each) if each else None


def figures(cache: CacheBytes, asked: Asked) -> Figures:
    """The figures of ``cache``, in exact tokens and in whole blocks."""
    if asked.tokens is None:
        return Figures(cache, None, None, None, None)
    lengths = (asked.tokens, asked.encoder_tokens)
    return Figures(
        cache,
        kept_bytes(cache, *lengths),
        kept_bytes(cache, *lengths, asked.block_tokens),
        reserved_bytes(cache, *lengths),
        reserved_bytes(cache, *lengths, asked.block_tokens),
    )


@dataclass(frozen=True)
class Report:
    """The figures of one copy, of the rank with the most heads, and of all ranks together."""

    copy: Figures
    rank: Figures
    ranks: Figures
    tokens_that_fit: int | None
    sequences_that_fit: int | None


def report(shape: CacheShape, kv_dtype: str, tensor_parallel: int, asked: Asked) -> Report:
    """All figures of a cache of ``shape``. What fits is reckoned with what all ranks hold, of the memory of all ranks."""
    ranks = cache_bytes(shape, kv_dtype, tensor_parallel)
    return Report(
        figures(cache_bytes(shape, kv_dtype), asked),
        figures(rank_cache_bytes(shape, kv_dtype, tensor_parallel), asked),
        figures(ranks, asked),
        tokens_that_fit(ranks, asked),
        sequences_that_fit(ranks, asked),
    )
