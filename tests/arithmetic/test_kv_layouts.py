"""Layouts of a latent whose parts do not divide evenly."""

from fractions import Fraction

import pytest

from pipelines.arithmetic.kv import cache_model, head_bytes
from pipelines.declarations.cache import CacheLayers


@pytest.mark.parametrize(("rank", "scales"), [(128, 1), (129, 2), (200, 2), (512, 4), (513, 5)])
def test_a_part_of_128_elements_has_a_scale_of_its_own(rank: int, scales: int) -> None:
    """One byte an element, 4 bytes a scale, 2 bytes for each of the 64 elements that carry the position."""
    assert head_bytes(CacheLayers("latent", 1, 1, rank, 64), "fp8_ds_mla") == Fraction(rank + 4 * scales + 128)


def test_windows_are_of_whole_blocks_and_equal_ones_are_one() -> None:
    """2047 and 2040 tokens in blocks of 16 are both 2048; 2 heads of 4 + 4 elements of 2 bytes are 32 bytes a layer."""
    shape = (CacheLayers("window", 3, 2, 4, 4, 2047), CacheLayers("window", 5, 2, 4, 4, 2040))
    (window,) = cache_model(shape, "bf16", tensor_parallel=1, layout_factor=1.0, block_tokens=16).windows
    assert (window.tokens, window.layers, window.bytes_per_token) == (2048, 8, 256.0)
    apart = cache_model(shape, "bf16", tensor_parallel=1, layout_factor=1.0, block_tokens=1).windows
    assert [(one.tokens, one.layers) for one in apart] == [(2040, 5), (2047, 3)]
