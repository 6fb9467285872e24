"""Cached prompt tokens from the block hashes of a request log: what a prefix cache holds of each prompt when it arrives.

A log of this kind cuts every prompt into blocks of ``block_tokens`` tokens (512 in Mooncake's, 16 in Qwen-Bailian's), the last one
filled or not, and gives each an id. Ids are chained: equal ids mean equal blocks after equal prefixes.

The cache, in blocks:

- A request finds its longest cached prefix: a block hits if it and every block before it are in the cache at the arrival.
- Thereupon all its blocks are in the cache, at once: no time passes until they are computed.
- They are touched from the last to the first, so that its first block is the most recently used of all and, of two blocks of one
  prefix, the later one is evicted first. A block that occurs twice in a request counts as touched where it occurs first.
- When all are touched, the least recently used blocks are evicted until ``floor(capacity_tokens / block_tokens)`` are left. Of a
  request with more distinct blocks than that, just the first that many stay, and nothing else. Evicting at each touch would leave the
  same blocks: those touched last.
- With several workers, request ``i`` in order of arrival, counted from 0, goes to worker ``i mod workers``, which has a cache of that
  capacity for itself.

Time is linear in the blocks of the log; memory beyond the log itself is linear in its distinct blocks or, with a capacity, in the blocks
that the caches hold.
"""

from collections import OrderedDict
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.frames.requests import MAX_TOKENS

_Counts: TypeAlias = NDArray[np.int64]

_ROWS_AT_ONCE = 1024
"""Requests whose ids are Python objects at one time."""


def cached_prompt_tokens(
    prompt_tokens: pl.Series, hash_ids: pl.Series, *, block_tokens: int, capacity_tokens: int | None, workers: int
) -> pl.Series:
    """Tokens ``h`` of each prompt that the prefix cache holds, Int32: ``h = min(hit blocks · block_tokens, p - 1)``.

    ``prompt_tokens`` (``p``, tokens) and ``hash_ids`` (List(UInt64), one id per block) are in order of arrival; an engine computes the
    last token of a prompt even if all of it is cached, hence ``p - 1``. A request without blocks has ``h = 0`` and touches nothing.
    ``capacity_tokens`` is that of one worker, None for a cache that never evicts; one worker is a shared cache.
    ValueError for nulls, columns of different length and quantities out of range.

    >>> blocks = pl.Series([[1, 2, 3], [1, 2, 3], [1, 2, 4]], dtype=pl.List(pl.UInt64))
    >>> log = pl.Series([1200, 1200, 1500]), blocks
    >>> cached_prompt_tokens(*log, block_tokens=512, capacity_tokens=None, workers=1).to_list()
    [0, 1199, 1024]
    >>> cached_prompt_tokens(*log, block_tokens=512, capacity_tokens=1000, workers=1).to_list()  # holds block 1
    [0, 512, 512]
    >>> cached_prompt_tokens(*log, block_tokens=512, capacity_tokens=None, workers=2).to_list()  # 0 and 2 meet
    [0, 0, 1024]
    """
    _check_columns(prompt_tokens, hash_ids)
    _check_quantities(block_tokens, capacity_tokens, workers)
    hit_blocks = np.zeros(hash_ids.len(), dtype=np.int64)
    for worker in range(min(workers, hash_ids.len())):
        of_worker = hash_ids.gather_every(workers, offset=worker)
        hit_blocks[worker::workers] = (
            _hit_blocks_unlimited(of_worker)
            if capacity_tokens is None
            else _hit_blocks_lru(of_worker, capacity_tokens // block_tokens)
        )
    prompts = prompt_tokens.cast(pl.Int64).to_numpy()
    cached = np.maximum(np.minimum(hit_blocks * block_tokens, prompts - 1), 0)
    return pl.Series("cached_prompt_tokens", cached, dtype=pl.Int64).cast(pl.Int32)


def block_mismatch(prompt_tokens: pl.Series, hash_ids: pl.Series, block_tokens: int) -> pl.Series:
    """Where a request has neither as many block ids as started blocks nor as whole ones, Boolean; a null in either column is a mismatch.

    Blocks of 512 tokens that are taken for blocks of 16 hit with 1/32 of their tokens, and no figure looks wrong; nearly all rows
    mismatch. A last block that is not full has an id in some logs and none in others.

    >>> blocks = pl.Series([[1], [1], [1, 2]], dtype=pl.List(pl.UInt64))
    >>> block_mismatch(pl.Series([512, 513, 512]), blocks, 512).to_list()
    [False, False, True]
    """
    _check_same_length(prompt_tokens, hash_ids)
    _check_quantities(block_tokens, None, 1)
    tokens, blocks = prompt_tokens.cast(pl.Int64), hash_ids.list.len().cast(pl.Int64)
    started, whole = (tokens + (block_tokens - 1)) // block_tokens, tokens // block_tokens
    return ((blocks != started) & (blocks != whole)).fill_null(value=True).alias("block_mismatch")


def _hit_blocks_unlimited(hash_ids: pl.Series) -> _Counts:
    """Hit blocks of each request in a cache that never evicts: the blocks before its first one that no row above has.

    That block is the first of its id in the whole column, and no block before it in its request is.

    >>> _hit_blocks_unlimited(pl.Series([[1, 2], [1, 2, 3, 1], [], [1, 4, 2]])).tolist()
    [0, 2, 0, 1]
    """
    blocks = hash_ids.list.len().cast(pl.Int64).to_numpy()
    starts = np.cumsum(blocks) - blocks
    new = _flat(hash_ids).is_first_distinct().arg_true().cast(pl.Int64).to_numpy()
    next_new = np.append(new, blocks.sum())[np.searchsorted(new, starts)]
    hits: _Counts = np.minimum(next_new - starts, blocks)
    return hits


def _hit_blocks_lru(hash_ids: pl.Series, capacity_blocks: int) -> _Counts:
    """Hit blocks of each request in a cache of ``capacity_blocks`` blocks that evicts the least recently used.

    >>> _hit_blocks_lru(pl.Series([[1, 2, 3], [1, 2, 3], [4], [1, 2]]), 2).tolist()  # 4 takes the place of 2
    [0, 2, 0, 1]
    """
    # A dict would do but for eviction: to find its oldest key it steps over all that were deleted before.
    cache: OrderedDict[int, None] = OrderedDict()
    touch, evict = cache.move_to_end, cache.popitem
    hits = []
    for rows in hash_ids.to_frame("ids").iter_slices(_ROWS_AT_ONCE):
        for blocks in rows["ids"].to_list():
            hits.append(_cached_prefix(blocks, cache))
            for block in reversed(blocks):
                cache[block] = None
                touch(block)
            for _ in range(len(cache) - capacity_blocks):
                evict(last=False)
    return np.array(hits, dtype=np.int64)


def _cached_prefix(blocks: list[int], cache: OrderedDict[int, None]) -> int:
    """How many of ``blocks`` come before the first that is not in the cache."""
    for place, block in enumerate(blocks):
        if block not in cache:
            return place
    return len(blocks)


def _flat(hash_ids: pl.Series) -> pl.Series:
    """All ids in order of arrival; a request without blocks adds none."""
    return hash_ids.explode(empty_as_null=False)


def _check_columns(prompt_tokens: pl.Series, hash_ids: pl.Series) -> None:
    _check_same_length(prompt_tokens, hash_ids)
    for what, column in (("prompt_tokens", prompt_tokens), ("hash_ids", hash_ids), ("block ids", _flat(hash_ids))):
        if column.null_count():
            raise ValueError(f"{column.null_count()} nulls in {what}; expected none")


def _check_same_length(prompt_tokens: pl.Series, hash_ids: pl.Series) -> None:
    if prompt_tokens.len() != hash_ids.len():
        found = f"{prompt_tokens.len()} prompts and {hash_ids.len()} lists of blocks"
        raise ValueError(f"{found}; expected one list per prompt")


def _check_quantities(block_tokens: int, capacity_tokens: int | None, workers: int) -> None:
    if not 1 <= block_tokens <= MAX_TOKENS:
        raise ValueError(f"blocks of {block_tokens} tokens; expected 1 to {MAX_TOKENS}")
    if capacity_tokens is not None and capacity_tokens < 0:
        raise ValueError(f"a capacity of {capacity_tokens} tokens; expected 0 or more, or None")
    if workers < 1:
        raise ValueError(f"{workers} workers; expected 1 or more")
