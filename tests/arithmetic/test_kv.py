"""Bytes of a KV cache: figures worked by hand, figures that others published, and laws."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.arithmetic.kv import ELEMENT_BYTES, cache_bytes, in_blocks, rank_cache_bytes
from pipelines.arithmetic.kv_report import (
    Asked,
    figures,
    kept_bytes,
    report,
    reserved_bytes,
    sequences_that_fit,
    tokens_that_fit,
)
from pipelines.cli.kv_arguments import shape_by_hand
from pipelines.declarations.cache import KINDS, CacheLayers, CacheShape, cache_shape, plain_shape, shape_text
from pipelines.declarations.kv_dtypes import NAMES, PACKED_LATENT

KIB, MIB, GIB = 2**10, 2**20, 2**30

PUBLISHED = [
    ("Llama-3.1-8B", plain_shape(32, 8, 128), "bf16", 2 * 32 * 8 * 128 * 2, 131_072),
    ("Llama-3-70B", plain_shape(80, 8, 128), "bf16", 2 * 80 * 8 * 128 * 2, 640 * MIB // 2048),
    ("Yi-1.5-34B", plain_shape(60, 8, 128), "bf16", 2 * 60 * 8 * 128 * 2, 480 * MIB // 2048),
    ("Command-R v01", plain_shape(40, 64, 128), "bf16", 2 * 40 * 64 * 128 * 2, 2560 * MIB // 2048),
    ("Qwen3-4B", plain_shape(36, 8, 128), "bf16", 2 * 36 * 8 * 128 * 2, 288 * MIB // 2048),
    ("Qwen3-8B", plain_shape(36, 8, 128), "bf16", 2 * 36 * 8 * 128 * 2, 4.5 * GIB // 32768),
    ("OLMo-2-7B", plain_shape(32, 32, 128), "bf16", 2 * 32 * 32 * 128 * 2, 512 * KIB),
    ("GPT-2 XL", plain_shape(48, 25, 64), "fp16", 2 * 48 * 1600 * 2, 300 * KIB),
    ("OPT-66B", plain_shape(64, 72, 128), "fp16", 2 * 64 * 9216 * 2, 1.125 * GIB // 512),
    ("OPT-175B", plain_shape(96, 96, 128), "fp16", 2 * 96 * 12288 * 2, 4.5 * MIB),
    ("DeepSeek-V3", cache_shape("latent:61x1x512+64"), "bf16", 61 * (512 + 64) * 2, 70_272),
    ("DeepSeek-V2", cache_shape("latent:60x1x512+64"), "bf16", 60 * (512 + 64) * 2, 69_120),
    ("GLM-5", cache_shape("latent:78x1x512+64 index:78x1x128+4"), "fp8_ds_mla", 78 * (656 + 132), 61_464),
    ("gpt-oss-120b", cache_shape("full:18x8x64+64 window:18x8x64+64@128"), "bf16", 2 * 36 * 8 * 64 * 2, 73_728),
]


@pytest.mark.parametrize(
    ("model", "shape", "dtype", "by_hand", "published"), PUBLISHED, ids=[row[0] for row in PUBLISHED]
)
def test_allocated_bytes_per_token_are_those_that_were_published(
    model: str, shape: CacheShape, dtype: str, by_hand: int, published: float
) -> None:
    assert cache_bytes(shape, dtype).allocated == by_hand == published


def test_a_window_is_allocated_and_does_not_grow() -> None:
    cache = cache_bytes(cache_shape("full:18x8x64+64 window:18x8x64+64@128"), "bf16")
    assert cache.growth == 2 * 18 * 8 * 64 * 2 == 36_864
    assert cache.window == 36_864
    assert kept_bytes(cache, 1000) == 36_864 * 1000 + 36_864 * 128
    assert reserved_bytes(cache, 1000) == 73_728 * 1000


def test_heads_are_replicated_where_there_are_more_ranks() -> None:
    made = report(plain_shape(94, 4, 128), "bf16", 8, Asked(tokens=32_768))
    assert made.copy.cache.growth == 2 * 94 * 4 * 128 * 2 == 192_512
    assert made.rank.cache.growth == 2 * 94 * 1 * 128 * 2 == 48_128
    assert made.ranks.cache.growth == 8 * 48_128 == 385_024
    assert made.ranks.kv_bytes == 385_024 * 32_768 == 12_616_466_432  # published as 12.62 GB


def test_a_latent_is_kept_by_every_rank() -> None:
    made = report(cache_shape("latent:61x1x512+64"), "bf16", 8, Asked())
    assert (made.copy.cache.growth, made.rank.cache.growth, made.ranks.cache.growth) == (70_272, 70_272, 8 * 70_272)


def test_memory_holds_the_blocks_that_an_engine_reported() -> None:
    llama = cache_bytes(plain_shape(32, 8, 128), "bf16")
    # 2.89 GiB were 1,478 blocks of 16 in a log that prints two decimals: 1,479 fit below 2.895 GiB, 1,477 from 2.885 GiB on
    low, high = (tokens_that_fit(llama, Asked(memory=int(size * GIB), block_tokens=16)) or 0 for size in (2.885, 2.895))
    assert low <= 1478 * 16 <= high
    assert high - low <= 6 * 16


def test_memory_holds_the_blocks_that_a_planner_printed() -> None:
    qwen25 = cache_bytes(plain_shape(24, 2, 64), "bf16")  # Qwen2.5-0.5B: 12,288 bytes per token
    assert tokens_that_fit(qwen25, Asked(memory=int(68.89 * GIB), block_tokens=16)) == 376_231 * 16


def test_a_packed_latent_with_its_index_is_what_a_server_logged() -> None:
    glm5 = cache_bytes(cache_shape("latent:78x1x512+64 index:78x1x128+4"), "fp8_ds_mla")
    assert float(glm5.allocated) == pytest.approx(26.22 * GIB / 457_920, rel=0.0005)


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        (plain_shape(28, 4, 128), 2 * 3584 * 28 * 8, "hidden size for KV heads, and bits for bytes"),
        (cache_shape("latent:61x1x512+64"), 61 * 2 * 512 * 2, "a latent for keys and another for values"),
        (plain_shape(28, 8, 128), 2 * 28 * 8 * (1024 // 16) * 2, "hidden size over heads (Qwen3-0.6B)"),
        (plain_shape(94, 4, 128), 2 * 94 * 4 * (4096 // 64) * 2, "hidden size over heads (Qwen3-235B)"),
        (plain_shape(64, 8, 128), 2 * 64 * 8 * (5120 // 64) * 2, "hidden size over heads (Qwen3-32B)"),
        (plain_shape(40, 8, 128), 2 * 40 * 8 * (5120 // 32) * 2, "hidden size over heads (Mistral-Nemo)"),
        (cache_shape("full:18x8x64+64 window:18x8x64+64@128"), 2 * 18 * 8 * 64 * 2, "only the layers that grow"),
        (plain_shape(48, 8, 128), 2 * 64 * 8 * 128 * 2, "64 layers of a model that has 48"),
        (cache_shape("latent:61x1x512+64"), 61 * (512 + 64) * 2 // 8, "a latent divided by the ranks"),
    ],
)
def test_figures_of_wrong_calculators_are_not_ours(right: CacheShape, wrong: int, why: str) -> None:
    assert cache_bytes(right, "bf16").allocated != wrong, why
    assert rank_cache_bytes(right, "bf16", 1).allocated != wrong, why


def test_qwen25_7b_takes_a_28th_of_what_was_computed_in_public() -> None:
    growth = cache_bytes(plain_shape(28, 4, 128), "bf16").growth
    assert growth == 57_344
    assert 28 * growth == 2 * 3584 * 28 * 8


def test_a_state_is_per_sequence_and_no_tokens_fit() -> None:
    cache = cache_bytes(cache_shape("state:32x40x4096+5120"), "bf16")
    assert cache.state == 32 * (40 * 4096 * 4 + 5120 * 2) == 21_299_200
    assert tokens_that_fit(cache, Asked(memory=GIB)) is None
    assert sequences_that_fit(cache, Asked(memory=GIB)) == GIB // 21_299_200 == 50
    assert sequences_that_fit(cache, Asked(memory=GIB, tokens=9000)) == 50


def test_an_encoder_that_nobody_measured_takes_no_memory_and_divides_nothing() -> None:
    cache = cache_bytes(cache_shape("cross:6x8x64+64"), "bf16")
    assert tokens_that_fit(cache, Asked(memory=GIB)) is None
    assert sequences_that_fit(cache, Asked(memory=GIB, tokens=10)) is None


def test_tokens_beside_a_state_are_those_of_a_single_sequence() -> None:
    qwen35 = cache_bytes(cache_shape("full:12x2x256+256 state:36x64x16384+36864"), "bf16")
    assert (qwen35.state, qwen35.allocated) == (153_649_152, 24_576)
    assert tokens_that_fit(qwen35, Asked(memory=GIB)) == (GIB - 153_649_152) // 24_576 == 37_438
    assert tokens_that_fit(qwen35, Asked(memory=153_649_152)) == tokens_that_fit(qwen35, Asked(memory=MIB)) == 0
    whisper = cache_bytes(cache_shape("full:4x6x64+64 cross:4x6x64+64@1500"), "bf16")
    assert tokens_that_fit(whisper, Asked(encoder_tokens=1500, memory=6144 * 1516)) == 16


def test_whisper_keeps_its_1500_frames_once() -> None:
    cache = cache_bytes(cache_shape("full:4x6x64+64 cross:4x6x64+64@1500"), "bf16")
    assert (cache.growth, cache.cross) == (2 * 4 * 6 * 64 * 2, 6144)
    assert kept_bytes(cache, 100, 1500) == 6144 * 100 + 6144 * 1500


def test_a_width_of_half_a_byte_gives_halves() -> None:
    assert figures(cache_bytes(cache_shape("full:1x1x1+0"), "fp4"), Asked(tokens=3)).kv_bytes == Fraction(3, 2)


def test_the_data_types_that_are_read_are_those_that_have_a_width() -> None:
    assert set(NAMES) == {*ELEMENT_BYTES, PACKED_LATENT}


SMALL = st.integers(1, 200)


@st.composite
def layers(draw: st.DrawFn) -> CacheLayers:
    kind = draw(st.sampled_from(KINDS))
    heads = 1 if kind in ("latent", "index") else draw(st.integers(1, 70))
    tokens = draw(SMALL) if kind == "window" else None
    return CacheLayers(kind, draw(SMALL), heads, draw(SMALL), draw(SMALL), tokens)


SHAPES = st.lists(layers(), min_size=1, max_size=5).map(tuple)
DTYPES = st.sampled_from(NAMES)


@given(SHAPES, DTYPES, SMALL, SMALL, SMALL)
def test_more_tokens_never_take_less(shape: CacheShape, dtype: str, tokens: int, more: int, block: int) -> None:
    cache = cache_bytes(shape, dtype)
    for of in (kept_bytes, reserved_bytes):
        assert of(cache, tokens, 0, block) <= of(cache, tokens + more, 0, block)
        assert of(cache, tokens, tokens, block) <= of(cache, tokens, tokens + more, block)


@given(SHAPES, SHAPES, DTYPES, st.integers(1, 80), SMALL)
def test_kinds_of_layers_add_up(one: CacheShape, other: CacheShape, dtype: str, ranks: int, tokens: int) -> None:
    both, first, second = (cache_bytes(shape, dtype, ranks) for shape in (one + other, one, other))
    assert kept_bytes(both, tokens, tokens) == kept_bytes(first, tokens, tokens) + kept_bytes(second, tokens, tokens)
    assert both.allocated == first.allocated + second.allocated


@given(SHAPES, DTYPES, st.integers(1, 80), SMALL)
def test_ranks_never_hold_less_than_one_copy(shape: CacheShape, dtype: str, ranks: int, tokens: int) -> None:
    made = report(shape, dtype, ranks, Asked(tokens=tokens, encoder_tokens=tokens))
    assert made.ranks.kv_bytes == ranks * (made.rank.kv_bytes or 0)
    assert (made.ranks.kv_bytes or 0) >= (made.copy.kv_bytes or 0) >= (made.rank.kv_bytes or 0)
    assert (made.copy.allocated_bytes or 0) >= (made.copy.kv_bytes or 0)


@given(SHAPES, DTYPES, SMALL, SMALL)
def test_blocks_round_up_by_less_than_one(shape: CacheShape, dtype: str, tokens: int, block: int) -> None:
    cache = cache_bytes(shape, dtype)
    assert tokens <= in_blocks(tokens, block) < tokens + block
    assert 0 <= reserved_bytes(cache, tokens, 0, block) - reserved_bytes(cache, tokens) <= cache.allocated * (block - 1)
    assert 0 <= kept_bytes(cache, tokens, 0, block) - kept_bytes(cache, tokens) <= cache.allocated * (block - 1)


@given(SHAPES, DTYPES, st.integers(1, 10**7), SMALL)
def test_what_fits_fits_and_one_block_more_does_not(shape: CacheShape, dtype: str, memory: int, block: int) -> None:
    cache = cache_bytes(shape, dtype)
    fitting = tokens_that_fit(cache, Asked(memory=memory, block_tokens=block))
    if fitting is None:
        assert cache.allocated == 0
    else:
        assert fitting % block == 0
        assert not fitting or reserved_bytes(cache, fitting) <= memory
        assert memory < reserved_bytes(cache, fitting + block)


@given(SHAPES)
def test_a_shape_is_the_same_after_it_was_written(shape: CacheShape) -> None:
    assert cache_shape(shape_text(shape)) == shape == shape_by_hand(shape_text(shape))
