"""Moving a prompt's KV cache to the decode pool (docs/arithmetic.md, section 3), under one bound."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.arithmetic.curves import Curve
from pipelines.arithmetic.kv import CacheModel, in_blocks
from pipelines.arithmetic.numbers import Number, column, where

FORMULA = (
    "transfer_s = router_handover + registration + synchronization + receiver_visibility"
    " + seconds_per_descriptor x descriptors + bytes / (links_per_transfer x effective_bandwidth x (1 - competing_traffic));"
    " within the range of a declared curve: router_handover + curve(bytes) / (1 - competing_traffic)"
)


@dataclass(frozen=True)
class Affine:
    """Fixed overhead, a cost per descriptor, and the bandwidth of one transfer (w', bytes/s)."""

    overhead_s: Number
    seconds_per_descriptor: Number
    bandwidth: Number


@dataclass(frozen=True)
class Moved:
    """One transfer: bytes (K), descriptors (X), time (T) and the payload's part of it (Y) in seconds, slope of T in seconds per token.

    ``busy_s`` is T without the router's hand-over, which keeps no link busy.
    """

    size_bytes: Number
    descriptors: Number
    seconds: Number
    busy_s: Number
    payload_s: Number
    slope: Number


@dataclass(frozen=True)
class TransferModel:
    """How a prompt's cache moves: at least one of ``affine`` and ``curve``, the curve where it was measured.

    ``relayout`` (r_x) is bytes moved per byte of cache, ``regions`` (n_r) descriptors per layer and block, ``competing`` (χ) the
    share of a link that other traffic takes, ``layout`` (f) what the bytes of ``cache`` are multiplied by.
    """

    cache: CacheModel
    affine: Affine | None
    curve: Curve | None
    handover_s: Number = 0.0
    competing: Number = 0.0
    relayout: Number = 1.0
    regions: Number = 2.0
    layout: Number = 1.0

    def rows(self) -> "TransferModel":
        """The same, beside the columns of an array of strata."""
        affine = self.affine
        if affine is not None:
            affine = Affine(column(affine.overhead_s), column(affine.seconds_per_descriptor), column(affine.bandwidth))
        names = ("handover_s", "competing", "relayout", "regions", "layout")
        named: dict[str, Any] = {name: column(getattr(self, name)) for name in names}
        return replace(self, affine=affine, **named)

    def of_mean(self, tokens: Number) -> Moved:
        """A transfer of ``tokens`` tokens on average, which end anywhere in their last block.

        >>> plain = CacheModel(growth=131072.0, growing_layers=32, windows=(), state=0.0, state_layers=0)
        >>> TransferModel(plain, Affine(0.003, 0.0, 131072e6), curve=None).of_mean(1000.0).seconds
        0.004
        """
        return self._of_cache(tokens + self.cache.block_rest)

    def of_prompt(self, tokens: int) -> Moved:
        """The transfer of one prompt of exactly ``tokens`` tokens, in whole blocks."""
        return self._of_cache(float(in_blocks(tokens, self.cache.block_tokens)))

    def size_bytes(self, tokens: Number) -> Number:
        """K of ``tokens`` tokens that fill their blocks: growing layers take all of them, the others what their window holds."""
        held: Any = sum(window.bytes_per_token * np.minimum(tokens, window.tokens) for window in self.cache.windows)
        size: Number = self.relayout * self.layout * (self.cache.growth * tokens + held + self.cache.state)
        return size

    def descriptors(self, tokens: Number) -> Number:
        """X of ``tokens`` tokens that fill their blocks: regions x blocks of each layer, and one per state."""
        held: Any = sum(window.layers * np.minimum(tokens, window.tokens) for window in self.cache.windows)
        blocks = (self.cache.growing_layers * tokens + held) / self.cache.block_tokens
        descriptors: Number = self.regions * blocks + self.cache.state_layers
        return descriptors

    def of_bytes(self, size: Number, descriptors: Number) -> tuple[Number, Number]:
        """T and Y in seconds of a transfer of ``size`` bytes in so many descriptors."""
        busy, payload = self._busy(size, descriptors)
        return self.handover_s + busy, payload

    def _busy(self, size: Number, descriptors: Number) -> tuple[Number, Number]:
        """T without the hand-over, and Y."""
        curve, affine = self.curve, self.affine
        if affine is not None:
            payload = size / affine.bandwidth
            busy = affine.overhead_s + affine.seconds_per_descriptor * descriptors + payload
            if curve is None:
                return busy, payload
        assert curve is not None
        slowed = 1 / (1 - self.competing)
        measured = curve.seconds(size) * slowed
        beyond_least = measured - curve.points[0][1] * slowed
        if affine is None:
            return measured, beyond_least
        inside = curve.covers(size)
        return where(inside, measured, busy), where(inside, beyond_least, payload)

    def leaves_curve(self, size: Number) -> bool:
        """Whether any of ``size`` bytes is outside of the measured range."""
        return self.curve is not None and not bool(np.all(self.curve.covers(size)))

    def _of_cache(self, tokens: Number) -> Moved:
        size, descriptors = self.size_bytes(tokens), self.descriptors(tokens)
        busy, payload = self._busy(size, descriptors)
        return Moved(size, descriptors, self.handover_s + busy, busy, payload, self._slope(tokens, size))

    def _slope(self, tokens: Number, size: Number) -> Number:
        growing = [(np.less(tokens, window.tokens), window) for window in self.cache.windows]
        bounded: Any = sum(grows * window.bytes_per_token for grows, window in growing)
        per_token = self.relayout * self.layout * (self.cache.growth + bounded)
        curve, affine = self.curve, self.affine
        if affine is not None:
            more: Any = sum(grows * window.layers for grows, window in growing)
            descriptors = self.regions * (self.cache.growing_layers + more) / self.cache.block_tokens
            slope: Number = affine.seconds_per_descriptor * descriptors + per_token / affine.bandwidth
            if curve is None:
                return slope
        assert curve is not None
        measured: Number = curve.slope(size) * per_token / (1 - self.competing)
        return measured if affine is None else where(curve.covers(size), measured, slope)
