"""Moving a prompt's KV cache to the decode pool (docs/arithmetic.md, section 3), under one bound."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from pipelines.arithmetic.kv import CacheModel, in_blocks

FORMULA = (
    "transfer_s = router_handover + registration + synchronization + receiver_visibility"
    " + seconds_per_descriptor x descriptors + bytes / (links_per_transfer x effective_bandwidth x (1 - competing_traffic));"
    " within the range of a declared curve: router_handover + curve(bytes) / (1 - competing_traffic)"
)


@dataclass(frozen=True)
class Affine:
    """Fixed overhead, a cost per descriptor, and the bandwidth of one transfer (w', bytes/s)."""

    overhead_s: float
    seconds_per_descriptor: float
    bandwidth: float


@dataclass(frozen=True)
class Curve:
    """Measured (bytes, seconds) of single transfers, ascending, straight between two points."""

    points: tuple[tuple[float, float], ...]

    def covers(self, size: float) -> bool:
        """Whether ``size`` bytes lie within the measured range."""
        return self.points[0][0] <= size <= self.points[-1][0]

    def slope(self, size: float) -> float:
        """Seconds per byte at ``size``: of the piece that it begins or lies in, of the last one from the end on, 0 below the range.

        >>> curve = Curve(((10.0, 1.0), (20.0, 2.0), (40.0, 3.0)))
        >>> [curve.slope(size) for size in (5, 10, 20, 40, 80)]
        [0.0, 0.1, 0.05, 0.05, 0.05]
        """
        if size < self.points[0][0]:
            return 0.0
        (b, tau), (next_b, next_tau) = self._piece(size)
        return (next_tau - tau) / (next_b - b)

    def seconds(self, size: float) -> float:
        """Time of ``size`` bytes; the time of the smallest below the range, on along the last piece above it.

        >>> Curve(((10.0, 1.0), (20.0, 2.0), (40.0, 3.0))).seconds(30.0)
        2.5
        """
        if size < self.points[0][0]:
            return self.points[0][1]
        (b, tau), _ = self._piece(size)
        return tau + (size - b) * self.slope(size)

    def _piece(self, size: float) -> tuple[tuple[float, float], tuple[float, float]]:
        pieces = list(pairwise(self.points))
        place = bisect_right(self.points, size, key=lambda point: point[0]) - 1
        return pieces[min(place, len(pieces) - 1)]


@dataclass(frozen=True)
class Moved:
    """One transfer: bytes (K), descriptors (X), time (T) and the payload's part of it (Y) in seconds, slope of T in seconds per token.

    ``busy_s`` is T without the router's hand-over, which keeps no link busy.
    """

    size_bytes: float
    descriptors: float
    seconds: float
    busy_s: float
    payload_s: float
    slope: float


@dataclass(frozen=True)
class TransferModel:
    """How a prompt's cache moves: at least one of ``affine`` and ``curve``, the curve where it was measured.

    ``relayout`` (r_x) is bytes moved per byte of cache, ``regions`` (n_r) descriptors per layer and block, ``competing`` (χ) the
    share of a link that other traffic takes.
    """

    cache: CacheModel
    affine: Affine | None
    curve: Curve | None
    handover_s: float = 0.0
    competing: float = 0.0
    relayout: float = 1.0
    regions: float = 2.0

    def of_mean(self, tokens: float) -> Moved:
        """A transfer of ``tokens`` tokens on average, which end anywhere in their last block.

        >>> plain = CacheModel(growth=131072.0, growing_layers=32, windows=(), state=0.0, state_layers=0)
        >>> TransferModel(plain, Affine(0.003, 0.0, 131072e6), curve=None).of_mean(1000.0).seconds
        0.004
        """
        return self._of_cache(tokens + self.cache.block_rest)

    def of_prompt(self, tokens: int) -> Moved:
        """The transfer of one prompt of exactly ``tokens`` tokens, in whole blocks."""
        return self._of_cache(float(in_blocks(tokens, self.cache.block_tokens)))

    def size_bytes(self, tokens: float) -> float:
        """K of ``tokens`` tokens that fill their blocks: growing layers take all of them, the others what their window holds."""
        held = sum(window.bytes_per_token * min(tokens, window.tokens) for window in self.cache.windows)
        return self.relayout * (self.cache.growth * tokens + held + self.cache.state)

    def descriptors(self, tokens: float) -> float:
        """X of ``tokens`` tokens that fill their blocks: regions x blocks of each layer, and one per state."""
        held = sum(window.layers * min(tokens, window.tokens) for window in self.cache.windows)
        blocks = (self.cache.growing_layers * tokens + held) / self.cache.block_tokens
        return self.regions * blocks + self.cache.state_layers

    def of_bytes(self, size: float, descriptors: float) -> tuple[float, float]:
        """T and Y in seconds of a transfer of ``size`` bytes in so many descriptors."""
        busy, payload = self._busy(size, descriptors)
        return self.handover_s + busy, payload

    def _busy(self, size: float, descriptors: float) -> tuple[float, float]:
        """T without the hand-over, and Y."""
        curve, affine = self.curve, self.affine
        if curve is not None and (affine is None or curve.covers(size)):
            slowed = 1 / (1 - self.competing)
            seconds = curve.seconds(size) * slowed
            return seconds, seconds - curve.points[0][1] * slowed
        assert affine is not None
        payload = size / affine.bandwidth
        return affine.overhead_s + affine.seconds_per_descriptor * descriptors + payload, payload

    def leaves_curve(self, size: float) -> bool:
        """Whether ``size`` bytes are outside of the measured range."""
        return self.curve is not None and not self.curve.covers(size)

    def _of_cache(self, tokens: float) -> Moved:
        size, descriptors = self.size_bytes(tokens), self.descriptors(tokens)
        busy, payload = self._busy(size, descriptors)
        return Moved(size, descriptors, self.handover_s + busy, busy, payload, self._slope(tokens, size))

    def _slope(self, tokens: float, size: float) -> float:
        growing = [window for window in self.cache.windows if tokens < window.tokens]
        per_token = self.relayout * (self.cache.growth + sum(window.bytes_per_token for window in growing))
        curve, affine = self.curve, self.affine
        if curve is not None and (affine is None or curve.covers(size)):
            return curve.slope(size) * per_token / (1 - self.competing)
        assert affine is not None
        layers = self.cache.growing_layers + sum(window.layers for window in growing)
        descriptors = self.regions * layers / self.cache.block_tokens
        return affine.seconds_per_descriptor * descriptors + per_token / affine.bandwidth
