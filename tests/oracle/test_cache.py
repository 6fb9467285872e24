"""Section 2 of docs/arithmetic.md, bytes and memory, against numbers worked by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from pipelines.oracle.cache import Cache, Layers, Window, cache_of, head_bytes, layer_bytes, parse_cache
from pipelines.oracle.memory import batch_cap, mean_tokens, resident_bytes, whole_tokens
from pipelines.oracle.parameters import Inputs
from tests.oracle.example import parameters

HALF_WINDOWS = "full:18x8x64+64 window:18x8x64+64@128"
STATE = Layers("state", 36, 32, 16384, 24576)


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-14, abs=0.0)


def cache(text: str, dtype: str = "bf16", ranks: int = 1, factor: float = 1.0) -> Cache:
    shape = parse_cache(text)
    assert shape is not None
    return cache_of(shape, dtype, ranks, factor)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "full",
        "full:18x8x64",
        "full:018x8x64+64",
        "full:18x8x64+064",
        "full:0x8x64+64",
        "full:18x8x0+64",
        "full:18x8x64+64@128",
        "window:18x8x64+64",
        "window:18x8x64+64@0",
        "latent:61x2x512+64",
        "index:61x2x128+4",
        "cross:6x8x64+64",
        "full:18x8x64+64  window:18x8x64+64@128",
        " full:18x8x64+64",
        "full:18x8x64+64,window:18x8x64+64@128",
        "FULL:18x8x64+64",
        "state:36x32x0+0",
        "latent:61x1x0+64",
        "full:٢x8x64+64",
    ],
)
def test_what_is_no_cache(text: str) -> None:
    assert parse_cache(text) is None


@pytest.mark.parametrize(
    ("layers", "dtype", "size"),
    [
        (Layers("full", 32, 8, 128, 128), "fp32", 1024),
        (Layers("full", 32, 8, 128, 64), "bf16", 384),
        (Layers("window", 18, 8, 64, 64, 128), "fp8", 128),
        (Layers("full", 32, 8, 128, 129), "fp4", Fraction(257, 2)),
        (Layers("full", 32, 8, 128, 128), "fp8_ds_mla", 256),
        (Layers("latent", 61, 1, 512, 64), "bf16", 1152),
        # 512 bytes, a scale of four for each 128 of them, and the position in two bytes an element
        (Layers("latent", 61, 1, 512, 64), "fp8_ds_mla", 512 + 16 + 128),
        (Layers("latent", 61, 1, 513, 64), "fp8_ds_mla", 513 + 20 + 128),
        (Layers("index", 61, 1, 128, 4), "fp32", 132),
        (STATE, "fp8", 65536),
    ],
)
def test_bytes_of_one_head(layers: Layers, dtype: str, size: float) -> None:
    assert head_bytes(layers, dtype) == size


@pytest.mark.parametrize(
    ("layers", "ranks", "size"),
    [
        (Layers("full", 32, 8, 128, 128), 1, 8 * 512),
        (Layers("full", 32, 8, 128, 128), 8, 8 * 512),
        # 16 ranks: two hold each head; 3 ranks: three heads each
        (Layers("full", 32, 8, 128, 128), 16, 16 * 512),
        (Layers("full", 32, 8, 128, 128), 3, 9 * 512),
        (Layers("latent", 61, 1, 512, 64), 8, 8 * 1152),
        (STATE, 1, 32 * 65536 + 2 * 24576),
        # states of a convolution alone, and of a recurrence alone
        (Layers("state", 10, 1, 0, 2048), 4, 4 * 2 * 2048),
        (Layers("state", 10, 4, 100, 0), 4, 4 * 400),
        (STATE, 4, 4 * (8 * 65536 + 2 * 6144)),
        # each of 64 ranks has one head, and a 32nd of the convolution
        (STATE, 64, 64 * (65536 + 2 * 768)),
    ],
)
def test_bytes_of_one_layer_on_all_ranks(layers: Layers, ranks: int, size: int) -> None:
    assert layer_bytes(layers, "bf16", ranks) == size


def test_a_state_may_be_of_a_convolution_alone() -> None:
    assert cache("state:10x4x0+2048 state:2x4x100+0", ranks=2).state_bytes == 10 * 2 * 2 * 1024 + 2 * 1600


def test_half_of_the_layers_with_a_window() -> None:
    # 18 layers x 8 heads x 128 elements x 2 bytes = 36864 per token, of either half
    found = cache(HALF_WINDOWS)
    assert (found.growth_bytes, found.windows) == (36864, (Window(128, 36864, 18),))
    assert (found.allocated_bytes, found.growing_layers, found.state_layers) == (73728, 18, 0)
    assert found.held_bytes(1000) == 36864 * (1000 + 128)
    assert found.held_bytes(100) == 73728 * 100


def test_kinds_are_added_up_by_what_they_hold() -> None:
    found = cache(
        "window:2x1x10+10@64 latent:1x1x30+10 index:3x1x6+4 window:1x1x10+10@16 window:1x1x5+5@64 state:2x1x8+4"
    )
    # windows of 64: (2 x 20 + 10) x 2 bytes; of 16: 20 x 2; growing: 40 x 2 + 3 x 10; state: 2 x (32 + 8)
    assert found.windows == (Window(16, 40, 1), Window(64, 100, 3))
    assert (found.growth_bytes, found.growing_layers) == (110, 4)
    assert (found.state_bytes, found.state_layers) == (80, 2)


def test_a_latent_is_held_by_every_rank() -> None:
    assert cache("latent:61x1x512+64").growth_bytes == 61 * 1152
    assert cache("latent:61x1x512+64", ranks=8).growth_bytes == 562176
    assert cache("latent:61x1x512+64", "fp8_ds_mla", 8).growth_bytes == 320128


def test_the_layout_factor_counts_everywhere() -> None:
    found = cache(f"{HALF_WINDOWS} state:36x32x16384+24576", factor=1.5)
    assert (found.growth_bytes, found.windows[0].bytes_per_token) == (55296, 55296)
    assert found.state_bytes == 1.5 * 36 * (32 * 65536 + 2 * 24576)


def test_blocks_of_one_prompt_and_of_a_mean() -> None:
    of = parameters(block_tokens=16)
    assert [whole_tokens(of, tokens) for tokens in (1, 16, 17, 1000)] == [16, 16, 32, 1008]
    assert mean_tokens(of, 1000) == 1007.5


def test_resident_bytes_where_all_layers_are_pooled_alike() -> None:
    # 3000 tokens in 2 sequences, each with half a block more: 3015
    of = parameters(cache=cache(f"{HALF_WINDOWS} state:1x1x10+0"), block_tokens=16)
    assert resident_bytes(of, 3000, 2) == 73728 * 3015 + 2 * 40
    assert resident_bytes(of, 6000, 4) == 2 * resident_bytes(of, 3000, 2)


def test_resident_bytes_where_windows_are_bounded() -> None:
    of = parameters(cache=cache(HALF_WINDOWS), by_kind=True)
    assert resident_bytes(of, 3000, 2) == 36864 * (3000 + 256)
    assert resident_bytes(of, 200, 2) == 73728 * 200


def test_sequences_that_fit() -> None:
    of = parameters(cache=cache(HALF_WINDOWS), by_kind=True, kv_memory_bytes=36864 * 1128 * 10.5)
    assert batch_cap(of, 20, 1000) == close(10.5)
    assert batch_cap(of, 20, 10) == 64
    assert batch_cap(of, 0, 0) == 64


def inputs_of(**rows: Any) -> Inputs:
    paths = {
        "model.cache": "full:32x8x128+128", "model.kv_dtype": "bf16", "model.layout_factor": 1.0,
        "model.tensor_parallel": 1, "model.block_tokens": 1, "inventory.gpus_per_worker": 2, **rows,
    }  # fmt: skip
    table = {path: {"value": value, "conservative": value} for path, value in paths.items()}
    return Inputs(table, ("aggregated",), ())


def test_memory_as_it_is_declared() -> None:
    assert inputs_of(**{"inventory.kv_memory_per_worker": 40 * 2**30}).kv_memory_bytes("nominal") == 40 * 2**30


def test_memory_in_tokens_of_the_full_length() -> None:
    # 131072 bytes per token, a tenth more in the conservative bound
    inputs = inputs_of(**{"inventory.kv_tokens_per_worker": 78384})
    inputs.rows["model.layout_factor"]["conservative"] = 1.1  # type: ignore[index]
    assert inputs.kv_memory_bytes("nominal") == 78384 * 131072
    assert inputs.kv_memory_bytes("conservative") == close(78384 * 131072 * 1.1)


def test_memory_that_weights_and_activations_leave() -> None:
    inputs = inputs_of(**{
        "inventory.gpu_memory": 80_000_000_000, "inventory.memory_utilization": 0.75,
        "inventory.weights_per_worker": 16_000_000_000, "inventory.activations_per_worker": 3_000_000_000,
    })  # fmt: skip
    # two GPUs: 160 x 0.75 - 19 GB
    assert inputs.kv_memory_bytes("nominal") == 101e9
