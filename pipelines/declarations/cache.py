"""The shape of a model's KV cache: kinds of layers, and the line of text that stands for them in the inputs table.

``full:18x8x64+64 window:18x8x64+64@128`` is a model of 36 layers with 8 KV heads of 64 key and 64 value elements, half of which
keep the last 128 tokens only. docs/kv.md says what each kind keeps.
"""

import re
from dataclasses import dataclass
from typing import Literal, get_args

CacheKind = Literal["full", "window", "latent", "index", "state", "cross"]
KINDS: tuple[CacheKind, ...] = get_args(CacheKind)

_PART = re.compile(r"([a-z]+):([0-9]{1,6})x([0-9]{1,6})x([0-9]{1,9})\+([0-9]{1,9})(?:@([0-9]{1,10}))?", re.ASCII)


@dataclass(frozen=True)
class CacheLayers:
    """``layers`` of a model that keep the same, each.

    Per head, ``first`` and ``second`` are elements of

    - ``full``, ``window``, ``cross``: a token's key, and its value;
    - ``latent``: a token's compressed latent, and the part of its key that carries the position (``heads`` is 1);
    - ``index``: a token's index vector at one byte an element, and bytes of scale beside it (``heads`` is 1);
    - ``state``: the recurrent state of a sequence. There ``second`` is of the whole layer: its convolution state.

    ``tokens`` is the length of a window. Of ``cross`` it is the number of positions that the encoder always has, and None where they
    are those of the prompt.
    """

    kind: CacheKind
    layers: int
    heads: int
    first: int
    second: int
    tokens: int | None = None

    def __str__(self) -> str:
        """The text that :func:`cache_shape` reads."""
        end = "" if self.tokens is None else f"@{self.tokens}"
        return f"{self.kind}:{self.layers}x{self.heads}x{self.first}+{self.second}{end}"


CacheShape = tuple[CacheLayers, ...]


def plain_shape(layers: int, kv_heads: int, head_dim: int) -> CacheShape:
    """The cache of a model with full attention in every layer: MHA, GQA or MQA."""
    return (CacheLayers("full", layers, kv_heads, head_dim, head_dim),)


def shape_text(shape: CacheShape) -> str:
    """The line that stands for ``shape`` in the inputs table.

    >>> shape_text(plain_shape(32, 8, 128))
    'full:32x8x128+128'
    """
    return " ".join(str(layers) for layers in shape)


def cache_shape(text: str) -> CacheShape:
    """The shape that ``text`` stands for; ValueError where it is none.

    >>> cache_shape("latent:61x1x512+64 index:61x1x128+4")[1].first
    128
    """
    found = tuple(_layers(part) for part in text.split(" "))
    if shape_text(found) != text:
        raise ValueError(f"{text!r} is not written as it would be read")
    return found


def _layers(part: str) -> CacheLayers:
    match = _PART.fullmatch(part)
    kind = next((kind for kind in KINDS if match and match.group(1) == kind), None)
    if match is None or kind is None:
        raise ValueError(f"{part!r} is not a kind of layers")
    layers, heads, first, second = (int(match.group(i)) for i in range(2, 6))
    return CacheLayers(kind, layers, heads, first, second, int(match.group(6)) if match.group(6) else None)
