"""Cached prompt tokens against caches worked out by hand, a slow cache that is plain to see, the laws of LRU and Mooncake's trace."""

import json
from bisect import bisect_left
from itertools import accumulate
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.traces.prefix_cache import block_mismatch, cached_prompt_tokens

LARGEST_ID = 2**64 - 1

Ids = list[list[int]]


def lists_of(ids: Ids) -> pl.Series:
    return pl.Series("hash_ids", ids, dtype=pl.List(pl.UInt64))


def hit_blocks(*ids: list[int], capacity: int | None = None, workers: int = 1) -> list[int]:
    """Hit blocks of requests with a last block that is never counted whole: blocks of 2 tokens, prompts one token longer."""
    prompts = pl.Series([2 * len(blocks) + 1 for blocks in ids])
    tokens = None if capacity is None else 2 * capacity
    cached = cached_prompt_tokens(prompts, lists_of(list(ids)), block_tokens=2, capacity_tokens=tokens, workers=workers)
    assert all(one % 2 == 0 for one in cached)
    return [one // 2 for one in cached]


class TestLongestPrefix:
    def test_a_block_hits_only_after_blocks_that_hit(self) -> None:
        assert hit_blocks([1, 2, 3], [9, 2, 3], [1, 8, 3], [1, 2, 7]) == [0, 0, 1, 2]

    def test_the_blocks_of_a_request_do_not_hit_each_other(self) -> None:
        assert hit_blocks([1, 1, 1]) == [0]
        assert hit_blocks([1, 1, 1], capacity=3) == [0]

    def test_a_block_that_is_cached_hits_as_often_as_it_occurs(self) -> None:
        assert hit_blocks([1], [1, 1, 2, 1]) == [0, 2]
        assert hit_blocks([1], [1, 1, 2, 1], capacity=3) == [0, 2]

    def test_a_request_without_blocks_hits_and_touches_nothing(self) -> None:
        assert hit_blocks([1, 2], [], [1, 2]) == [0, 0, 2]
        assert hit_blocks([1, 2], [], [1, 2], capacity=2) == [0, 0, 2]

    def test_ids_are_of_64_bits_without_a_sign(self) -> None:
        ids = [LARGEST_ID, LARGEST_ID - 1, 2**63, 2**61 - 1, 0]
        assert hit_blocks(ids, ids, [2**61 - 1], [1]) == [0, 5, 1, 0]
        assert hit_blocks(ids, ids, [2**61 - 1], [1], capacity=5) == [0, 5, 1, 0]


class TestEviction:
    def test_nothing_hits_in_a_cache_of_no_block(self) -> None:
        assert hit_blocks([1], [1], [1, 2], [1, 2], capacity=0) == [0, 0, 0, 0]

    def test_a_cache_of_one_block_holds_the_first_of_the_last_request(self) -> None:
        assert hit_blocks([1, 2], [1, 2], [2, 1], [2], [1], capacity=1) == [0, 1, 0, 1, 0]

    def test_the_first_blocks_of_a_request_larger_than_the_cache_stay(self) -> None:
        assert hit_blocks([8, 9], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], capacity=3) == [0, 0, 3]

    def test_a_repeated_block_takes_one_place(self) -> None:
        assert hit_blocks([1, 1, 2, 2, 3], [1, 2, 3], capacity=2) == [0, 2]
        assert hit_blocks([1, 2, 1, 3], [1, 2, 3], capacity=3) == [0, 3]

    def test_nothing_is_left_of_others_when_one_request_fills_the_cache(self) -> None:
        assert hit_blocks([8], [1, 2, 3], [8], capacity=3) == [0, 0, 0]
        assert hit_blocks([8], [1, 2, 3], [8], capacity=4) == [0, 0, 1]

    def test_the_later_block_of_a_prefix_is_evicted_first(self) -> None:
        # From least to most recent: 3 2 1, then 2 1 9 without 3.
        assert hit_blocks([1, 2, 3], [9], [1, 2, 3], capacity=3) == [0, 0, 2]

    def test_a_repeated_block_counts_as_touched_where_it_occurs_first(self) -> None:
        # Touched 1 2 1: from least to most recent 2 1, then 1 9.
        assert hit_blocks([1, 2, 1], [9], [1], capacity=2) == [0, 0, 1]

    def test_a_hit_makes_a_block_recent(self) -> None:
        # 1, then 2; 1 is touched again, so 3 takes the place of 2.
        assert hit_blocks([1], [2], [1], [3], [1], [2], capacity=2) == [0, 0, 1, 0, 1, 0]

    def test_blocks_behind_a_miss_become_recent_too(self) -> None:
        # [9, 1] misses at 9 and touches 1: from least to most recent 2 1 9, and 3 takes the place of 2.
        assert hit_blocks([1], [2], [9, 1], [3], [1], capacity=3) == [0, 0, 0, 0, 1]
        assert hit_blocks([1], [2], [9, 1], [3], [2], capacity=3) == [0, 0, 0, 0, 0]

    def test_the_prefix_found_is_the_one_at_arrival(self) -> None:
        # Putting 4 in evicts 2, yet 1 and 2 had been found.
        assert hit_blocks([1, 2], [1, 2, 4], [1, 2, 4], capacity=2) == [0, 2, 2]


class TestTokens:
    def cached(self, prompts: list[int], ids: Ids, block: int, capacity: int | None = None) -> list[int]:
        return cached_prompt_tokens(
            pl.Series(prompts), lists_of(ids), block_tokens=block, capacity_tokens=capacity, workers=1
        ).to_list()

    @pytest.mark.parametrize(
        ("prompt", "cached"),
        [
            (1, 0),
            (511, 510),
            (512, 511),
        ],
    )
    def test_the_last_token_of_a_prompt_is_computed(self, prompt: int, cached: int) -> None:
        assert self.cached([prompt, prompt], [[1], [1]], 512) == [0, cached]

    def test_hits_before_the_last_block_count_whole(self) -> None:
        assert self.cached([513, 513, 600], [[1, 2], [1, 3], [1, 2]], 512) == [0, 512, 599]

    def test_a_capacity_holds_whole_blocks_only(self) -> None:
        ids = [[1, 2], [1, 2]]
        assert [self.cached([33, 33], ids, 16, tokens)[1] for tokens in (0, 15, 16, 31, 32)] == [0, 0, 16, 16, 32]

    def test_the_result_is_a_column_of_32_bit_counts(self) -> None:
        result = cached_prompt_tokens(
            pl.Series([2**31 - 1] * 2), lists_of([[5], [5]]), block_tokens=2**31 - 1, capacity_tokens=None, workers=1
        )
        assert result.name == "cached_prompt_tokens"
        assert result.dtype == pl.Int32
        assert result.to_list() == [0, 2**31 - 2]

    def test_more_hits_than_the_prompt_has_tokens(self) -> None:
        ids = [list(range(9)), list(range(9)), [0]]
        assert self.cached([5, 5, 0], ids, 2**31 - 1) == [0, 4, 0]

    @pytest.mark.parametrize("capacity", [None, 0, 100])
    @pytest.mark.parametrize("workers", [1, 3])
    def test_no_requests_and_no_blocks(self, capacity: int | None, workers: int) -> None:
        def cached(prompts: pl.Series, ids: pl.Series) -> list[int]:
            result = cached_prompt_tokens(prompts, ids, block_tokens=16, capacity_tokens=capacity, workers=workers)
            assert result.dtype == pl.Int32
            return result.to_list()

        assert cached(pl.Series([], dtype=pl.Int32), lists_of([])) == []
        assert cached(pl.Series([7, 0]), lists_of([[], []])) == [0, 0]

    def test_columns_in_pieces_are_read_like_whole_ones(self) -> None:
        ids: Ids = [[1], [1, 2], [], [1, 2, 3], [1, 2, 3, 4]]
        pieces = lists_of([[7], *ids[:2]])[1:].append(lists_of([*ids[2:], [7]])[:-1])
        assert pieces.n_chunks() == 2
        prompts = pl.Series([100] * 5)
        for capacity in (None, 200):
            got = cached_prompt_tokens(prompts, pieces, block_tokens=16, capacity_tokens=capacity, workers=1)
            assert got.to_list() == [0, 16, 0, 32, 48]


class TestWorkers:
    def test_requests_go_to_the_workers_in_turn(self) -> None:
        assert hit_blocks([1], [1], [1], [1], [1], workers=2) == [0, 0, 1, 1, 1]
        assert hit_blocks([1], [1], [1], [1], [1], workers=3) == [0, 0, 0, 1, 1]

    def test_each_worker_has_the_whole_capacity(self) -> None:
        assert hit_blocks([1], [2], [1], [2], capacity=1, workers=2) == [0, 0, 1, 1]
        assert hit_blocks([1], [2], [1], [2], capacity=1) == [0, 0, 0, 0]

    def test_a_request_without_blocks_takes_its_turn(self) -> None:
        assert hit_blocks([1], [], [1], workers=2) == [0, 0, 1]

    def test_more_workers_than_requests(self) -> None:
        assert hit_blocks([1], [1], workers=10**9) == [0, 0]
        assert hit_blocks([1], [1], capacity=1, workers=10**9) == [0, 0]


class TestRefusals:
    @pytest.mark.parametrize(
        ("quantity", "message"),
        [
            ({"block_tokens": 0}, "blocks of 0 tokens; expected 1 to 2147483647"),
            ({"block_tokens": 2**31}, "blocks of 2147483648 tokens; expected 1 to 2147483647"),
            ({"capacity_tokens": -1}, "a capacity of -1 tokens; expected 0 or more, or None"),
            ({"workers": 0}, "0 workers; expected 1 or more"),
        ],
    )
    def test_quantities_out_of_range(self, quantity: dict[str, int], message: str) -> None:
        quantities: dict[str, int] = {"block_tokens": 16, "capacity_tokens": 16, "workers": 1, **quantity}
        with pytest.raises(ValueError, match=f"^{message}$"):
            cached_prompt_tokens(pl.Series([1]), lists_of([[1]]), **quantities)

    @pytest.mark.parametrize(
        ("prompts", "ids", "message"),
        [
            ([1, 2], [[1]], "2 prompts and 1 lists of blocks; expected one list per prompt"),
            ([1, None], [[1], [1]], "1 nulls in prompt_tokens; expected none"),
            ([1, 2], [[1], None], "1 nulls in hash_ids; expected none"),
            ([1, 2], [[1], [None]], "1 nulls in block ids; expected none"),
        ],
    )
    def test_columns_that_do_not_go_together(self, prompts: list[int], ids: Ids, message: str) -> None:
        with pytest.raises(ValueError, match=f"^{message}$"):
            cached_prompt_tokens(pl.Series(prompts), lists_of(ids), block_tokens=1, capacity_tokens=None, workers=1)

    def test_a_mismatch_of_columns_or_of_blocks_without_tokens(self) -> None:
        with pytest.raises(ValueError, match="2 prompts and 1 lists"):
            block_mismatch(pl.Series([1, 2]), lists_of([[1]]), 16)
        with pytest.raises(ValueError, match="blocks of 0 tokens"):
            block_mismatch(pl.Series([1]), lists_of([[1]]), 0)


class TestMismatch:
    def test_the_last_block_may_be_filled_or_not_and_have_an_id_or_not(self) -> None:
        prompts = [1, 15, 16, 17, 32, 33]
        right = [1, 1, 1, 2, 2, 3]
        whole = [0, 0, 1, 1, 2, 2]

        def mismatches(counts: list[int]) -> list[bool]:
            return block_mismatch(pl.Series(prompts), lists_of([[7] * count for count in counts]), 16).to_list()

        assert mismatches(right) == [False] * 6
        assert mismatches([count + 1 for count in right]) == [True] * 6
        assert mismatches(whole) == [False] * 6
        assert mismatches([max(0, count - 1) for count in whole]) == [False, False, True, True, True, True]

    def test_nulls_are_mismatches(self) -> None:
        found = block_mismatch(pl.Series([1, None, None, 1]), lists_of([None, [1], None, [1]]), 16)  # type: ignore[list-item]
        assert found.to_list() == [True, True, True, False]

    def test_the_longest_prompt_of_32_bits(self) -> None:
        prompts = pl.Series([2**31 - 1], dtype=pl.Int32)
        assert block_mismatch(prompts, lists_of([[1]]), 2**31 - 1).to_list() == [False]
        assert block_mismatch(prompts, lists_of([[1]]), 2**30 - 1).to_list() == [True]


def plain_cached_prompt_tokens(
    prompts: list[int], ids: Ids, block_tokens: int, capacity_tokens: int | None, workers: int
) -> list[int]:
    """A list per worker, least recent first; every touch evicts at once."""
    caches: list[list[int]] = [[] for _ in range(workers)]
    result = []
    for row, (prompt, blocks) in enumerate(zip(prompts, ids, strict=True)):
        cache = caches[row % workers]
        hits = 0
        while hits < len(blocks) and blocks[hits] in cache:
            hits += 1
        result.append(max(0, min(hits * block_tokens, prompt - 1)))
        for block in blocks[::-1]:
            if block in cache:
                cache.remove(block)
            cache.append(block)
            if capacity_tokens is not None and len(cache) > capacity_tokens // block_tokens:
                cache.pop(0)
    return result


def chained(ids: Ids) -> Ids:
    """Ids of the same blocks that stand for their prefixes as well."""
    known: dict[tuple[int, ...], int] = {}
    return [
        [known.setdefault(prefix, len(known)) for prefix in accumulate((block,) for block in blocks)] for blocks in ids
    ]


any_ids = st.lists(st.lists(st.integers(0, 6) | st.sampled_from([2**63, LARGEST_ID]), max_size=6), max_size=25)
chained_ids = st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=25).map(chained)
ids_of_requests = any_ids | chained_ids


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[int], Ids, int]:
    """Prompts, ids and block size; every prompt has as many tokens as its blocks may hold."""
    ids, block = draw(ids_of_requests), draw(st.sampled_from([1, 3, 16]))
    prompts = [max(1, len(blocks) * block - draw(st.integers(0, block - 1))) for blocks in ids]
    return prompts, ids, block


capacities = st.integers(0, 200)
worker_counts = st.integers(1, 4)


def cached(
    prompts: list[int], ids: Ids, block_tokens: int, capacity_tokens: int | None = None, workers: int = 1
) -> list[int]:
    return cached_prompt_tokens(
        pl.Series(prompts, dtype=pl.Int32),
        lists_of(ids),
        block_tokens=block_tokens,
        capacity_tokens=capacity_tokens,
        workers=workers,
    ).to_list()


class TestLaws:
    @given(logs(), st.none() | capacities, worker_counts)
    def test_the_result_is_that_of_a_plain_cache(
        self, log: tuple[list[int], Ids, int], capacity: int | None, workers: int
    ) -> None:
        assert cached(*log, capacity, workers) == plain_cached_prompt_tokens(*log, capacity, workers)

    @given(logs(), st.none() | capacities, worker_counts)
    def test_some_token_is_computed(self, log: tuple[list[int], Ids, int], capacity: int | None, workers: int) -> None:
        assert all(0 <= h < p for p, h in zip(log[0], cached(*log, capacity, workers), strict=True))

    @given(logs(), capacities, capacities, worker_counts)
    def test_more_capacity_takes_no_hit_away(
        self, log: tuple[list[int], Ids, int], one: int, other: int, workers: int
    ) -> None:
        smaller, larger = (cached(*log, capacity, workers) for capacity in sorted([one, other]))
        assert all(less <= more for less, more in zip(smaller, larger, strict=True))

    @given(logs(), capacities, worker_counts)
    def test_no_capacity_hits_more_than_an_unlimited_one(
        self, log: tuple[list[int], Ids, int], capacity: int, workers: int
    ) -> None:
        pairs = zip(cached(*log, capacity, workers), cached(*log, None, workers), strict=True)
        assert all(less <= more for less, more in pairs)

    @given(logs(), worker_counts)
    def test_a_capacity_of_all_distinct_blocks_is_unlimited(
        self, log: tuple[list[int], Ids, int], workers: int
    ) -> None:
        _, ids, block = log
        enough = block * len({one for blocks in ids for one in blocks})
        assert cached(*log, enough, workers) == cached(*log, None, workers)

    @given(logs(), worker_counts)
    def test_caches_apart_hit_no_more_than_one_that_is_shared(
        self, log: tuple[list[int], Ids, int], workers: int
    ) -> None:
        pairs = zip(cached(*log, None, workers), cached(*log, None, 1), strict=True)
        assert all(less <= more for less, more in pairs)

    @given(logs(), st.none() | capacities, st.integers(0, 25))
    def test_what_comes_later_changes_nothing(
        self, log: tuple[list[int], Ids, int], capacity: int | None, kept: int
    ) -> None:
        prompts, ids, block = log
        assert cached(prompts[:kept], ids[:kept], block, capacity) == cached(*log, capacity)[:kept]

    @given(logs(), st.none() | capacities)
    def test_ids_are_names(self, log: tuple[list[int], Ids, int], capacity: int | None) -> None:
        prompts, ids, block = log
        renamed = [[LARGEST_ID - one for one in blocks] for blocks in ids]
        assert cached(prompts, renamed, block, capacity) == cached(*log, capacity)

    @given(chained_ids)
    def test_every_block_of_chained_ids_misses_once_in_an_unlimited_cache(self, ids: Ids) -> None:
        distinct = {block for blocks in ids for block in blocks}
        assert sum(hit_blocks(*ids)) == sum(map(len, ids)) - len(distinct)

    @given(logs())
    def test_only_the_number_of_blocks_decides_on_a_mismatch(self, log: tuple[list[int], Ids, int]) -> None:
        prompts, ids, block = log
        found = block_mismatch(pl.Series(prompts, dtype=pl.Int32), lists_of(ids), block)
        assert found.to_list() == [not blocks and p >= block for p, blocks in zip(prompts, ids, strict=True)]


class Mooncake:
    """The prompts and block ids of a trace of Mooncake, in order of arrival."""

    block = 512

    def __init__(self, path: Path) -> None:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        self.prompts: list[int] = [row["input_length"] for row in rows]
        self.ids: Ids = [row["hash_ids"] for row in rows]

    def cached(self, capacity_tokens: int | None = None, workers: int = 1) -> list[int]:
        return cached(self.prompts, self.ids, self.block, capacity_tokens, workers)

    def tokens(self, hits: list[int]) -> list[int]:
        return [min(self.block * count, prompt - 1) for count, prompt in zip(hits, self.prompts, strict=True)]

    def hits_of_seen(self) -> list[int]:
        """Hit blocks of an unlimited cache, with a set of what was seen."""
        seen: set[int] = set()
        hits = []
        for blocks in self.ids:
            hits.append(next((place for place, block in enumerate(blocks) if block not in seen), len(blocks)))
            seen.update(blocks)
        return hits

    def hits_by_depth(self, capacity: int) -> list[int]:
        """Hit blocks without a cache: those before the first block since whose last touch ``capacity`` others were touched."""
        touches: list[int] = []  # the last touch of every block, ascending
        last: dict[int, int] = {}
        hits, now = [], 0
        for blocks in self.ids:
            oldest = touches[-capacity] if len(touches) >= capacity else 0
            found = (place for place, block in enumerate(blocks) if last.get(block, -1) < oldest)
            hits.append(next(found, len(blocks)))
            for block in reversed(blocks):
                if block in last:
                    del touches[bisect_left(touches, last[block])]
                touches.append(now)
                last[block] = now
                now += 1
        return hits


@pytest.fixture(scope="module")
def trace(shared: Path) -> Mooncake:
    """The conversation trace of FAST'25."""
    return Mooncake(shared / "traces" / "mooncake_fast25_conversation.jsonl")


class TestMooncake:
    def test_its_blocks_have_512_tokens(self, trace: Mooncake) -> None:
        prompts, ids = pl.Series(trace.prompts), lists_of(trace.ids)
        assert prompts.len() == 12_031
        assert not block_mismatch(prompts, ids, 512).any()
        assert block_mismatch(prompts, ids, 16).all()

    def test_an_unlimited_cache_holds_what_was_seen(self, trace: Mooncake) -> None:
        got = trace.cached()
        assert got == trace.tokens(trace.hits_of_seen())
        assert (sum(got), sum(trace.prompts)) == (54_098_293, 144_793_823)
        assert round(sum(got) / sum(trace.prompts), 6) == 0.373623

    def test_every_block_misses_once_in_an_unlimited_cache(self, trace: Mooncake) -> None:
        flat = [block for blocks in trace.ids for block in blocks]
        assert (len(flat), len(set(flat))) == (288_500, 182_790)
        assert sum(trace.hits_of_seen()) == 288_500 - 182_790

    @pytest.mark.parametrize(
        ("capacity_tokens", "cached_tokens"),
        [
            (512, 6_159_360),
            (3_000_000, 20_087_241),
            (30_000_000, 52_972_405),
        ],
    )
    def test_an_lru_cache_holds_what_was_touched_recently(
        self, trace: Mooncake, capacity_tokens: int, cached_tokens: int
    ) -> None:
        got = trace.cached(capacity_tokens)
        assert got == trace.tokens(trace.hits_by_depth(capacity_tokens // 512))
        assert sum(got) == cached_tokens

    def test_four_workers_hit_about_half_as_much(self, trace: Mooncake) -> None:
        got = trace.cached(workers=4)
        for worker in range(4):
            own = cached(trace.prompts[worker::4], trace.ids[worker::4], 512)
            assert got[worker::4] == own
        assert sum(got) == 28_317_964
