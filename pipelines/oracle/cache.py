"""The shape of a KV cache as kinds of layers, and their bytes (docs/arithmetic.md section 2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

ELEMENT_BYTES = {
    "fp32": Fraction(4),
    "bf16": Fraction(2),
    "fp16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "fp4": Fraction(1, 2),
    "fp8_ds_mla": Fraction(1),
}
LATENT_DTYPE = "fp8_ds_mla"
GROWING = ("full", "latent", "index")
KINDS = ("full", "window", "latent", "index", "state")
_ONE_HEAD = ("latent", "index")
_LAYERS = re.compile(
    rf"({'|'.join(KINDS)}):([1-9][0-9]{{0,14}})x([1-9][0-9]{{0,14}})x(0|[1-9][0-9]{{0,14}})\+(0|[1-9][0-9]{{0,14}})"
    r"(?:@([1-9][0-9]{0,14}))?"
)


@dataclass(frozen=True)
class Layers:
    """Layers of one kind: how many, their heads, and of each head `first` and `second`; a window has `tokens`."""

    kind: str
    layers: int
    heads: int
    first: int
    second: int
    tokens: int | None = None

    @property
    def possible(self) -> bool:
        """Whether a model may have such layers: windows alone have tokens, what is no head has one, all keep something."""
        keeps = self.first + self.second > 0 if self.kind == "state" else self.first > 0
        one = self.heads == 1 or self.kind not in _ONE_HEAD
        return keeps and one and (self.tokens is not None) == (self.kind == "window")


@lru_cache(maxsize=64)
def parse_cache(text: str) -> tuple[Layers, ...] | None:
    """Read the text of `model.cache`; None where it is not written as it must be.

    >>> parse_cache("window:18x8x64+64@128")
    (Layers(kind='window', layers=18, heads=8, first=64, second=64, tokens=128),)
    >>> parse_cache("full:18x8x64") is parse_cache("cross:6x8x64+64") is parse_cache("latent:61x2x512+64") is None
    True
    """
    found = [_LAYERS.fullmatch(word) for word in text.split(" ")]
    shape = tuple(_layers_of(match) for match in found if match is not None)
    return shape if len(shape) == len(found) and all(layers.possible for layers in shape) else None


def _layers_of(match: re.Match[str]) -> Layers:
    layers, heads, first, second = (int(match[place]) for place in range(2, 6))
    return Layers(match[1], layers, heads, first, second, int(match[6]) if match[6] else None)


def head_bytes(of: Layers, dtype: str) -> Fraction:
    """Bytes of one head, per token (of `state`: per sequence).

    >>> head_bytes(Layers("latent", 61, 1, 512, 64), "fp8_ds_mla"), head_bytes(Layers("index", 61, 1, 128, 4), "bf16")
    (Fraction(656, 1), Fraction(132, 1))
    """
    if of.kind == "index":
        return Fraction(of.first + of.second)
    if of.kind == "state":
        return Fraction(4 * of.first)
    if of.kind == "latent" and dtype == LATENT_DTYPE:
        return Fraction(of.first + 4 * _ceil(of.first, 128) + 2 * of.second)
    return (of.first + of.second) * ELEMENT_BYTES[dtype]


def layer_bytes(of: Layers, dtype: str, ranks: int) -> Fraction:
    """`N·(ceil(heads/N)·bytes of one head + [state] 2·ceil(second/min(N, heads)))`: one layer, on all ranks.

    >>> layer_bytes(Layers("full", 32, 8, 128, 128), "bf16", 16)  # two ranks hold each head
    Fraction(8192, 1)
    """
    convolution = 2 * _ceil(of.second, min(ranks, of.heads)) if of.kind == "state" else 0
    return ranks * (_ceil(of.heads, ranks) * head_bytes(of, dtype) + convolution)


def whole_windows(shape: Sequence[Layers], block: int) -> tuple[Layers, ...]:
    """The same layers with windows of whole blocks: `W_j = ceil(tokens/β)·β`."""
    return tuple(of if of.tokens is None else replace(of, tokens=_ceil(of.tokens, block) * block) for of in shape)


def _ceil(count: int, parts: int) -> int:
    return -(-count // parts)


@dataclass(frozen=True)
class Window:
    """All layers with a window of one length: `W_j` tokens, `ω_j` bytes per token, `L_j` layers."""

    tokens: int
    bytes_per_token: float
    layers: int


@dataclass(frozen=True)
class Cache:
    """What a sequence holds: `g` bytes per token for ever, the windows ascending, `s` bytes per sequence."""

    growth_bytes: float
    windows: tuple[Window, ...] = ()
    state_bytes: float = 0.0
    growing_layers: int = 0
    state_layers: int = 0

    @property
    def allocated_bytes(self) -> float:
        """`A = g + Σ_j ω_j`: bytes per token where every layer gets the full length."""
        return self.growth_bytes + sum(window.bytes_per_token for window in self.windows)

    def held_bytes(self, tokens: float) -> float:
        """`g·v' + Σ_j ω_j·min(v', W_j) + s`: bytes that a prompt of so many tokens of cache leaves to be read."""
        bounded = sum(window.bytes_per_token * min(tokens, window.tokens) for window in self.windows)
        return self.growth_bytes * tokens + bounded + self.state_bytes


@lru_cache(maxsize=256)
def cache_of(shape: tuple[Layers, ...], dtype: str, ranks: int, factor: float) -> Cache:
    """Add up the layers of a model, times the layout factor `f`; exactly, up to the last conversion."""

    def total(*kinds: str, tokens: int | None = None) -> tuple[float, int]:
        own = [layers for layers in shape if layers.kind in kinds and layers.tokens == tokens]
        exact = sum((layers.layers * layer_bytes(layers, dtype, ranks) for layers in own), Fraction(0))
        return float(exact * Fraction(factor)), sum(layers.layers for layers in own)

    lengths = sorted({layers.tokens for layers in shape if layers.tokens is not None})
    (growth, growing), (state, states) = total(*GROWING), total("state")
    windows = tuple(Window(length, *total("window", tokens=length)) for length in lengths)
    return Cache(growth, windows, state, growing, states)
