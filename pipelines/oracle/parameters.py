"""The parameters of the equations: what each bound takes from the inputs table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .cache import Cache, Layers, cache_of, parse_cache, whole_windows
from .curves import Curve, parse_curve

RATE, CONCURRENCY, ARRIVAL_SCV = "requests.rate", "requests.concurrency", "requests.arrival_scv"
HIT_RATIO = "service.prefill.prefix_hit_ratio"
OVERHEAD_INPUTS = ("network.registration", "network.synchronization", "network.receiver_visibility")
HANDOVER, BANDWIDTH, CURVE = "network.router_handover", "network.effective_bandwidth", "network.transfer_curve"
PLAIN_SHAPE, CACHE = ("model.layers", "model.kv_heads", "model.head_dim"), "model.cache"
KV_MEMORY, KV_TOKENS = "inventory.kv_memory_per_worker", "inventory.kv_tokens_per_worker"
GPU_MEMORY = tuple(
    f"inventory.{name}" for name in ("gpu_memory", "memory_utilization", "weights_per_worker", "activations_per_worker")
)


@dataclass(frozen=True)
class Parameters:
    """Every number an evaluation reads, at one bound, with its symbol in docs/arithmetic.md section 1."""

    admission_s: float
    prefill_overhead_s: float
    prefill_tokens_per_s: float
    prefill_s_per_token2: float
    prefill_ceiling: float
    step_overhead_s: float
    decode_tokens_per_s: float
    decode_s_per_context_token: float
    max_sequences: float
    decode_ceiling: float
    kv_memory_bytes: float
    cache: Cache
    ttft_objective_s: float
    tpot_objective_s: float
    round_robin: bool
    decode_emits_first_token: bool
    block_tokens: int = 1
    by_kind: bool = False
    links: float = 1.0
    links_per_transfer: float = 1.0
    link_sharing: str = "shared"
    bandwidth_bytes_per_s: float | None = None
    curve: Curve | None = None
    competing_traffic: float = 0.0
    transfer_overhead_s: float = 0.0
    handover_s: float = 0.0
    descriptor_s: float = 0.0
    regions_per_block: float = 2.0
    relayout_factor: float = 1.0
    prefix_at_destination: float = 0.0
    overlap: float = 0.0
    link_ceiling: float = 1.0
    ttft_growth_s: float | None = None

    @property
    def mixed_ceiling(self) -> float:
        """`u_m`: the ceiling of a pool that does both phases."""
        return min(self.prefill_ceiling, self.decode_ceiling)


@dataclass(frozen=True)
class Inputs:
    """The inputs table of a receipt, found to be complete and in range."""

    rows: Mapping[str, Mapping[str, Any]]
    compared: tuple[str, ...]
    chunk_tokens: tuple[int, ...]

    @property
    def workers(self) -> int:
        """`W`: workers the inventory can hold."""
        return int(self.rows["inventory.gpus"]["value"] // self.rows["inventory.gpus_per_worker"]["value"])

    def nominal(self, path: str) -> Any:
        """Return the declared value at a path, or None where it is not declared."""
        return self.rows[path]["value"] if path in self.rows else None

    def at(self, path: str, bound: str) -> Any:
        """Return the value that a bound takes at a path, or None where it is not declared."""
        return self.rows[path]["value" if bound == "nominal" else "conservative"] if path in self.rows else None

    @property
    def shape(self) -> tuple[Layers, ...]:
        """The kinds of layers of the model."""
        if CACHE in self.rows:
            return parse_cache(self.nominal(CACHE)) or ()
        layers, heads, size = (int(self.nominal(path)) for path in PLAIN_SHAPE)
        return (Layers("full", layers, heads, size, size),)

    def cache(self, bound: str) -> Cache:
        """`g`, `ω_j`, `s` (docs/arithmetic.md section 2)."""
        ranks, factor = int(self.nominal("model.tensor_parallel")), self.at("model.layout_factor", bound)
        shape = whole_windows(self.shape, int(self.nominal("model.block_tokens")))
        return cache_of(shape, self.nominal("model.kv_dtype"), ranks, factor)

    def kv_memory_bytes(self, bound: str) -> float:
        """`M`: declared in bytes, in tokens of the full length, or left over by weights and activations."""
        if KV_MEMORY in self.rows:
            return float(self.at(KV_MEMORY, bound))
        if KV_TOKENS in self.rows:
            return float(self.cache(bound).allocated_bytes * self.at(KV_TOKENS, bound))
        memory, share, weights, activations = (Fraction(self.at(path, bound)) for path in GPU_MEMORY)
        return float(int(self.nominal("inventory.gpus_per_worker")) * memory * share - weights - activations)

    def parameters(self, bound: str) -> Parameters:
        """Collect what an evaluation reads at one bound."""
        return Parameters(
            admission_s=self.at("service.admission", bound),
            prefill_overhead_s=self.at("service.prefill.overhead", bound),
            prefill_tokens_per_s=self.at("service.prefill.tokens_per_second", bound),
            prefill_s_per_token2=self.at("service.prefill.seconds_per_token_squared", bound),
            prefill_ceiling=self.at("service.prefill.utilization_ceiling", bound),
            step_overhead_s=self.at("service.decode.step_overhead", bound),
            decode_tokens_per_s=self.at("service.decode.tokens_per_second", bound),
            decode_s_per_context_token=self.at("service.decode.seconds_per_context_token", bound),
            max_sequences=self.at("service.decode.max_sequences", bound),
            decode_ceiling=self.at("service.decode.utilization_ceiling", bound),
            kv_memory_bytes=self.kv_memory_bytes(bound),
            cache=self.cache(bound),
            block_tokens=int(self.nominal("model.block_tokens")),
            by_kind=self.nominal("model.kv_allocation") == "by_kind",
            ttft_objective_s=self.at("objectives.ttft", bound),
            tpot_objective_s=self.at("objectives.tpot", bound),
            round_robin=self.at("service.dispatch", bound) == "round_robin",
            decode_emits_first_token=self.at("service.first_token_source", bound) == "decode",
            ttft_growth_s=self.at("objectives.ttft_growth", bound),
            **self._network(bound),
        )

    def _network(self, bound: str) -> dict[str, Any]:
        if "network.links" not in self.rows:
            return {}
        names = {
            "links": "links",
            "links_per_transfer": "links_per_transfer",
            "link_sharing": "link_sharing",
            "competing_traffic": "competing_traffic",
            "handover_s": "router_handover",
            "relayout_factor": "relayout_factor",
            "prefix_at_destination": "prefix_at_destination",
            "overlap": "overlap",
            "link_ceiling": "utilization_ceiling",
        }
        network = {symbol: self.at(f"network.{name}", bound) for symbol, name in names.items()}
        network["curve"] = self._curve(bound)
        return network | (self._affine(bound) if BANDWIDTH in self.rows else {})

    def _affine(self, bound: str) -> dict[str, Any]:
        """What a transfer outside of a measured curve is computed from."""
        return {
            "bandwidth_bytes_per_s": float(self.at(BANDWIDTH, bound)),
            "transfer_overhead_s": float(sum(Fraction(self.at(path, bound)) for path in OVERHEAD_INPUTS)),
            "descriptor_s": self.at("network.seconds_per_descriptor", bound),
            "regions_per_block": self.at("network.regions_per_block", bound),
        }

    def _curve(self, bound: str) -> Curve | None:
        """Return the measured times, or the upper ones of the points that have them."""
        both = parse_curve(self.nominal(CURVE)) if CURVE in self.rows else None
        return both[0 if bound == "nominal" else 1] if both else None
