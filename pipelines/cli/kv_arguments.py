"""Arguments of ``phaseledger kv``: counts, data types, sizes, and a shape of a cache written by hand."""

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pipelines.declarations.cache import CacheKind, CacheLayers, CacheShape

EXAMPLES = "as in 32x8x128, 'full:18x8x64 window:18x8x64@128' or latent:61x512+64"
_FORM = "[kind:]LAYERSxHEADSxKEY[+VALUE][@TOKENS]"
_PART = re.compile(
    r"(?:([a-z]+):)?([0-9]{1,6})x(?:([0-9]{1,6})x)?([0-9]{1,9})(?:\+([0-9]{1,9}))?(?:@([0-9]{1,10}))?", re.ASCII
)
_OTHER_SIGN = re.compile(r"(?<=[0-9])[X×✕*](?=[0-9]|$)")
"""What people write between numbers in place of an x."""
_GAP = re.compile(r"(?:^|[:x+@])(?=[x+@]|$)")
"""Where a number is missing in a text of nothing but a kind, numbers and the signs between them."""
_SPLIT = re.compile(r"[\s,]+")
_SHARED = ("latent", "index")
"""Kinds of which every layer keeps one for all heads."""


class DataType(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """The data type of a KV cache."""

    name = "dtype"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """``bfloat16`` as ``bf16``."""
        from pipelines.declarations.kv_dtypes import kv_dtype
        from pipelines.declarations.units import QuantityError

        try:
            return kv_dtype(value)
        except QuantityError as error:
            self.fail(error.message + (f" ({error.hint})" if error.hint else ""), param, ctx)


class Memory(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A size with its unit, as whole bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """``16 GiB`` as 17,179,869,184."""
        from pipelines.arithmetic.kv_report import LARGEST
        from pipelines.declarations.units import QuantityError, exact, within

        if isinstance(value, int):
            return value
        try:
            size = exact(value, "B", str(value))
            within(size, "positive", "B", str(value))
        except QuantityError as error:
            self.fail(error.message + (f" ({error.hint})" if error.hint else ""), param, ctx)
        if size >= LARGEST:
            self.fail(f"{value} is too much; expected less than 4 PiB", param, ctx)
        return int(size)


class Count(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A whole number from ``smallest`` to ``largest``."""

    name = "number"

    def __init__(self, largest: int, smallest: int = 1) -> None:
        """Keep the limits."""
        self.smallest, self.largest = smallest, largest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """``32768`` as a number."""
        from pipelines.declarations.problems import show

        if isinstance(value, int):
            return value
        text, expected = str(value).strip(), f"expected a whole number from {self.smallest:,} to {self.largest:,}"
        short = re.fullmatch(r"([0-9]{1,6})([kKmM])", text)
        if short:
            thousand = 1 if short.group(2) in "kK" else 2
            low, high = int(short.group(1)) * 1000**thousand, int(short.group(1)) * 1024**thousand
            self.fail(f"{show(text)} may be {low:,} or {high:,}; {expected}", param, ctx)
        if re.fullmatch(r"[0-9]{1,3}(?:[_,' ][0-9]{3})+", text):
            self.fail(f"{show(text)} has separators; {expected}: write {re.sub(r'[^0-9]', '', text)}", param, ctx)
        if not re.fullmatch(r"\+?[0-9]{1,30}", text, re.ASCII) or not self.smallest <= int(text) <= self.largest:
            self.fail(f"{show(text)} is not one; {expected}", param, ctx)
        return int(text)


class Shape(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """The shape of a cache, written by hand."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "CacheShape":
        """``32x8x128`` as full attention in 32 layers."""
        if isinstance(value, tuple):
            return value
        try:
            return shape_by_hand(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def shape_by_hand(text: str) -> "CacheShape":
    """The shape that a person wrote, with spaces or commas between its parts; ValueError where it is none.

    Shorter than what ``cache_shape`` reads, and the same otherwise: without a kind it is ``full``; without a second number the value
    is as long as the key; a ``latent`` or an ``index`` needs no heads.

    >>> from pipelines.declarations.cache import shape_text
    >>> shape_text(shape_by_hand("18x8x64, window:18x8x64@128"))
    'full:18x8x64+64 window:18x8x64+64@128'
    >>> shape_text(shape_by_hand("latent:61x512+64"))
    'latent:61x1x512+64'
    """
    parts = [part for part in _SPLIT.split(text.strip()) if part]
    if not parts:
        raise ValueError(f"nothing is written; expected {_FORM}, {EXAMPLES}")
    if len(parts) > 64:
        raise ValueError(f"{len(parts)} kinds of layers; expected at most 64")
    found = tuple(_layers(part) for part in parts)
    lengths = {layers.tokens for layers in found if layers.kind == "cross"}
    if len(lengths) > 1:
        raise ValueError("cross layers with different numbers of positions; expected one number for all of them")
    return found


def _layers(part: str) -> "CacheLayers":
    from pipelines.declarations.cache import CacheLayers
    from pipelines.declarations.problems import show

    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"{show(part)} {_unread(part)}; expected {_FORM}, {EXAMPLES}")
    kind = _kind(match.group(1))
    layers, first = int(match.group(2)), int(match.group(4))
    heads, second, tokens = (None if number is None else int(number) for number in match.group(3, 5, 6))
    if heads is None and kind not in _SHARED:
        raise ValueError(f"{show(part)} names two numbers; expected three: {_FORM}, {EXAMPLES}")
    if second is None:
        if kind not in ("full", "window", "cross"):
            raise ValueError(f"{show(part)} ends early; expected {_second(kind)}")
        second = first
    if kind in _SHARED and heads not in (None, 1):
        raise ValueError(f"{show(part)} has {heads} heads; expected 1: all heads share one {kind}")
    _check_tokens(part, kind, tokens)
    if not layers or heads == 0 or not first + second or (not first and kind != "state"):
        raise ValueError(f"{show(part)} has a 0 where something is kept; expected numbers above 0")
    return CacheLayers(kind, layers, heads or 1, first, second, tokens)


def _unread(part: str) -> str:
    """Why a part has not the form of one."""
    other = _OTHER_SIGN.search(part)
    if other:
        return f"has {other.group()} between its numbers, where a lower-case x belongs"
    if re.fullmatch(r"(?:[a-z]+:)?[0-9x+@]+", part, re.ASCII) and _GAP.search(part.rpartition(":")[2]):
        return "lacks a number beside an x, + or @"
    return "cannot be read"


def _kind(name: str | None) -> "CacheKind":
    from pipelines.declarations.cache import KINDS
    from pipelines.declarations.problems import did_you_mean, show

    kind = next((kind for kind in KINDS if kind == (name or "full")), None)
    if kind is None:
        hint = did_you_mean(name, KINDS)
        raise ValueError(f"unknown kind {show(name)}; expected {', '.join(KINDS)}{f' ({hint})' if hint else ''}")
    return kind


def _second(kind: str) -> str:
    """What follows the + of a kind of which it cannot be left out."""
    return {
        "latent": "+ and the elements that carry the position, as in latent:61x512+64",
        "index": "+ and the bytes of scale, as in index:61x128+4",
    }.get(kind, "+ and the elements of the convolution state (0 for none), as in state:48x64x16384+30720")


def _check_tokens(part: str, kind: str, tokens: int | None) -> None:
    """Whether the kind has a length where it needs one, and none where it would mean nothing."""
    from pipelines.declarations.problems import show

    if kind == "window" and tokens is None:
        raise ValueError(f"{show(part)} has no length; expected @ and tokens, as in window:18x8x64@128")
    if tokens is not None and kind not in ("window", "cross"):
        raise ValueError(f"{show(part)} has a length, which only window and cross have; expected no @{tokens}")
    if tokens == 0:
        raise ValueError(f"{show(part)} has a length of 0; expected 1 or more")
