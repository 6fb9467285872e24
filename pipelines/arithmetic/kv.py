"""KV cache bytes (docs/arithmetic.md, section 2), exactly: fractions of a byte where elements are smaller than one."""

from dataclasses import dataclass, replace
from fractions import Fraction

from pipelines.declarations.cache import CacheLayers, CacheShape
from pipelines.declarations.kv_dtypes import PACKED_LATENT

KEYS_AND_VALUES = 2
"""Each token leaves one key and one value vector per layer and KV head."""

ELEMENT_BYTES = {
    "fp32": Fraction(4),
    "bf16": Fraction(2),
    "fp16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "fp4": Fraction(1, 2),
}
"""Bytes of one element by ``model.kv_dtype``: the width that the name states. Scales of quantized blocks are a layout factor."""

PACKED_SCALE_BYTES, PACKED_SCALE_ELEMENTS, PACKED_POSITION_BYTES = 4, 128, 2
"""One fp32 scale for 128 fp8 elements of a latent; 2 bytes per element that carries the position."""

FORMULA = (
    "bytes of a sequence = growth x tokens + sum over windows of bytes_per_token x min(tokens, window_tokens) + state, each of them"
    " layout_factor x layers x bytes_per_layer; bytes_per_layer = tensor_parallel x ceil(heads / tensor_parallel) x bytes of one head,"
    " (first + second) x element bytes for keys and values (docs/arithmetic.md, section 2, has the other kinds)"
)

RECURRENT_BYTES, CONVOLUTION_BYTES = 4, 2
"""Engines keep a recurrent state in fp32 and a convolution state in 16 bits, whatever the KV dtype (vLLM's default for Mamba layers)."""


def element_bytes(kv_dtype: str) -> Fraction:
    """Bytes of one element of a key or value. With the packed latent layout, those of fp8."""
    return ELEMENT_BYTES["fp8" if kv_dtype == PACKED_LATENT else kv_dtype]


def head_bytes(layers: CacheLayers, kv_dtype: str) -> Fraction:
    """Bytes that one head of one layer keeps: per token, of ``state`` per sequence and without the convolution state.

    >>> head_bytes(CacheLayers("full", 32, 8, 128, 128), "bf16")  # 128 + 128 elements of 2 bytes
    Fraction(512, 1)
    >>> head_bytes(CacheLayers("latent", 61, 1, 512, 64), "fp8_ds_mla")  # 512 + 4 scales of 4 + 64 of 2 bytes
    Fraction(656, 1)
    """
    if layers.kind == "state":
        return Fraction(RECURRENT_BYTES * layers.first)
    if layers.kind == "index":
        return Fraction(layers.first + layers.second)
    if layers.kind == "latent" and kv_dtype == PACKED_LATENT:
        scales = -(-layers.first // PACKED_SCALE_ELEMENTS)
        return Fraction(layers.first + PACKED_SCALE_BYTES * scales + PACKED_POSITION_BYTES * layers.second)
    return element_bytes(kv_dtype) * (layers.first + layers.second)


def rank_bytes(layers: CacheLayers, kv_dtype: str, tensor_parallel: int) -> Fraction:
    """Bytes that one of ``tensor_parallel`` ranks keeps of one layer: per token, of ``state`` per sequence.

    Ranks share out the heads; where there are more ranks than heads, several keep the same head.

    >>> rank_bytes(CacheLayers("full", 94, 4, 128, 128), "bf16", 8)  # one of the 4 heads
    Fraction(512, 1)
    """
    heads = -(-layers.heads // tensor_parallel)
    convolution = -(-layers.second // min(tensor_parallel, layers.heads)) if layers.kind == "state" else 0
    return heads * head_bytes(layers, kv_dtype) + CONVOLUTION_BYTES * convolution


def layer_bytes(layers: CacheLayers, kv_dtype: str, tensor_parallel: int = 1) -> Fraction:
    """Bytes that all ranks together keep of one layer: per token, of ``state`` per sequence.

    >>> layer_bytes(CacheLayers("full", 94, 4, 128, 128), "bf16", 8)  # twice what one copy takes: two ranks per head
    Fraction(4096, 1)
    """
    return tensor_parallel * rank_bytes(layers, kv_dtype, tensor_parallel)


@dataclass(frozen=True)
class Window:
    """Layers that keep the last ``tokens`` tokens only, ``bytes_per_token`` of them together."""

    tokens: int
    bytes_per_token: Fraction


@dataclass(frozen=True)
class CacheBytes:
    """What a model keeps, in bytes, in all layers: of one rank, or of all ranks together.

    ``attention`` and ``index`` are per token and grow for ever; ``windows`` are bounded; ``state`` is per sequence;
    ``cross`` is per position of an encoder, of which there are ``cross_tokens`` (None: those of the prompt).
    """

    attention: Fraction
    index: Fraction
    windows: tuple[Window, ...]
    state: Fraction
    cross: Fraction
    cross_tokens: int | None

    @property
    def growth(self) -> Fraction:
        """Bytes per token of the layers that grow for ever (g)."""
        return self.attention + self.index

    @property
    def window(self) -> Fraction:
        """Bytes per token of all bounded layers, while within their windows."""
        return sum((window.bytes_per_token for window in self.windows), Fraction(0))

    @property
    def allocated(self) -> Fraction:
        """Bytes per token that an engine reserves which gives every layer the full length (A)."""
        return self.growth + self.window


def cache_bytes(shape: CacheShape, kv_dtype: str, tensor_parallel: int = 1) -> CacheBytes:
    """What all ``tensor_parallel`` ranks together keep.

    >>> cache_bytes((CacheLayers("full", 94, 4, 128, 128),), "bf16", tensor_parallel=8).growth
    Fraction(385024, 1)
    """
    return _cache_bytes(shape, {layers: layer_bytes(layers, kv_dtype, tensor_parallel) for layers in shape})


def rank_cache_bytes(shape: CacheShape, kv_dtype: str, tensor_parallel: int) -> CacheBytes:
    """What one of ``tensor_parallel`` ranks keeps: the rank with the most heads, where they do not divide evenly."""
    return _cache_bytes(shape, {layers: rank_bytes(layers, kv_dtype, tensor_parallel) for layers in shape})


def _cache_bytes(shape: CacheShape, each: dict[CacheLayers, Fraction]) -> CacheBytes:
    def total(*kinds: str) -> Fraction:
        return sum((part.layers * each[part] for part in shape if part.kind in kinds), Fraction(0))

    lengths = sorted({part.tokens for part in shape if part.kind == "window" and part.tokens is not None})
    windows = tuple(
        Window(
            length,
            sum(
                (part.layers * each[part] for part in shape if part.kind == "window" and part.tokens == length),
                Fraction(0),
            ),
        )
        for length in lengths
    )
    cross = next((part.tokens for part in shape if part.kind == "cross"), None)
    return CacheBytes(total("full", "latent"), total("index"), windows, total("state"), total("cross"), cross)


def in_blocks(tokens: int, block_tokens: int) -> int:
    """``tokens`` rounded up to whole blocks.

    >>> in_blocks(100, 16)
    112
    """
    return -(-tokens // block_tokens) * block_tokens


def _in_blocks(layers: CacheLayers, block_tokens: int) -> CacheLayers:
    if layers.kind != "window" or layers.tokens is None:
        return layers
    return replace(layers, tokens=in_blocks(layers.tokens, block_tokens))


@dataclass(frozen=True)
class BoundedLayers:
    """Layers that keep the last ``tokens`` tokens: how many they are, and their bytes per token together (ω)."""

    tokens: int
    layers: int
    bytes_per_token: float


@dataclass(frozen=True)
class CacheModel:
    """The cache of a served model under one bound, over all ranks of a worker, layout factor included.

    ``growth`` (g) and ``windows`` (ω) are in bytes per token, ``state`` (s) in bytes per sequence. ``growing_layers`` and
    ``state_layers`` count layers, of each kind apart.
    """

    growth: float
    growing_layers: int
    windows: tuple[BoundedLayers, ...]
    state: float
    state_layers: int
    block_tokens: int = 1

    @property
    def allocated(self) -> float:
        """Bytes per token where every layer gets the full length (A)."""
        return self.growth + sum(window.bytes_per_token for window in self.windows)

    @property
    def block_rest(self) -> float:
        """Tokens that whole blocks take beyond those of a sequence, on average over uniform remainders: (β - 1)/2."""
        return (self.block_tokens - 1) / 2


def cache_model(
    shape: CacheShape, kv_dtype: str, *, tensor_parallel: int, layout_factor: float, block_tokens: int
) -> CacheModel:
    """``shape`` under one bound. Windows are of whole blocks.

    >>> cache_model(
    ...     (CacheLayers("full", 32, 8, 128, 128),), "bf16", tensor_parallel=1, layout_factor=1.5, block_tokens=1
    ... ).growth
    196608.0
    """
    shape = tuple(_in_blocks(part, block_tokens) for part in shape)
    found = cache_bytes(shape, kv_dtype, tensor_parallel)
    factor = Fraction(layout_factor)

    def layers(kinds: tuple[str, ...], tokens: int | None = None) -> int:
        return sum(part.layers for part in shape if part.kind in kinds and tokens in (None, part.tokens))

    windows = tuple(
        BoundedLayers(window.tokens, layers(("window",), window.tokens), float(factor * window.bytes_per_token))
        for window in found.windows
    )
    return CacheModel(
        growth=float(factor * found.growth),
        growing_layers=layers(("full", "latent", "index")),
        windows=windows,
        state=float(factor * found.state),
        state_layers=layers(("state",)),
        block_tokens=block_tokens,
    )
