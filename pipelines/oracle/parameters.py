"""The parameters of the equations: what each bound and each pool takes from the inputs table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from .cache import Cache, Layers, cache_of, parse_cache, whole_windows
from .curves import Curve, parse_curve
from .objectives import Objectives, objectives_of

RATE, CONCURRENCY, ARRIVAL_SCV = "requests.rate", "requests.concurrency", "requests.arrival_scv"
HIT_RATIO = "service.prefill.prefix_hit_ratio"
OVERHEAD_INPUTS = ("network.registration", "network.synchronization", "network.receiver_visibility")
HANDOVER, BANDWIDTH, CURVE = "network.router_handover", "network.effective_bandwidth", "network.transfer_curve"
PLAIN_SHAPE, CACHE = ("model.layers", "model.kv_heads", "model.head_dim"), "model.cache"
KV_MEMORY, KV_TOKENS = "inventory.kv_memory_per_worker", "inventory.kv_tokens_per_worker"
GPU_MEMORY = tuple(
    f"inventory.{name}" for name in ("gpu_memory", "memory_utilization", "weights_per_worker", "activations_per_worker")
)
PRICE = "inventory.gpu_hour_price"
WHEN_FULL, SWAP_BANDWIDTH = "service.when_memory_is_full", "service.swap_bandwidth"
SEPARATED = ("disaggregated", "routed")
"""The topologies with a separated path."""
CHUNKS, THRESHOLDS = "topologies.chunked.chunk_tokens", "topologies.routed.threshold_tokens"
ROUTED_CHUNKS = "topologies.routed.chunk_tokens"
POOLS = ("mixed", "prefill", "decode")
_POOL_MEMORY = "separated.{}.kv_memory_per_worker"
_INSTEAD = {
    "prefill": ("curve", ("tokens_per_second", "overhead")),
    "decode": ("curve", ("tokens_per_second", "step_overhead")),
}
"""A measured curve, and what it stands in place of."""


@dataclass(frozen=True)
class Parameters:
    """Every number that the evaluation of a path reads, at one bound, with its symbol in docs/arithmetic.md section 1."""

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
    round_robin: bool
    decode_emits_first_token: bool
    kv_memory_prefill_bytes: float = 0.0
    """`M_p`, where prompts are prefilled by a pool of their own; `kv_memory_bytes` is then `M_d`."""
    prefill_curve: Curve | None = None
    decode_curve: Curve | None = None
    mixed_step_penalty: float = 0.0
    shortest_first: bool = False
    shortest_queue: bool = False
    when_memory_is_full: str = "recompute"
    swap_bandwidth_bytes_per_s: float | None = None
    """What only the replay reads: whether each worker has a line, what full memory does, and how fast it is moved."""
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
class Setting:
    """What an evaluation at one bound reads beside the requests: workers of both kinds of pools, objectives, price."""

    mixed: Parameters
    separated: Parameters
    objectives: Objectives
    gpu_hour_price: float | None = None


@dataclass(frozen=True)
class Inputs:
    """The inputs table of a receipt, found to be complete and in range."""

    rows: Mapping[str, Mapping[str, Any]]
    compared: tuple[str, ...]
    chunk_tokens: tuple[int, ...]
    thresholds: tuple[int, ...] = ()
    routed_chunk_tokens: tuple[int, ...] = ()
    rate_factor: float = 1.0
    """What the rate is multiplied by, declared or the trace's."""

    def scaled(self, path: str, factor: float) -> Inputs:
        """Return the inputs with one of them multiplied; `requests.rate` may be the trace's."""
        if path == RATE:
            return replace(self, rate_factor=self.rate_factor * factor)
        row = dict(self.rows[path])
        for member in ("value", "low", "high", "conservative"):
            row[member] = None if row[member] is None else row[member] * factor
        return replace(self, rows={**self.rows, path: row})

    @property
    def separated(self) -> bool:
        """Whether a topology with a separated path is compared."""
        return any(name in SEPARATED for name in self.compared)

    @property
    def gpus(self) -> int:
        """GPUs of the inventory."""
        return int(self.rows["inventory.gpus"]["value"])

    def gpus_per_worker(self, pool: str) -> int:
        """GPUs of one worker of a pool."""
        own = self.nominal(f"separated.{pool}.gpus_per_worker")
        return int(self.nominal("inventory.gpus_per_worker") if own is None else own)

    def nominal(self, path: str) -> Any:
        """Return the declared value at a path, or None where it is not declared."""
        return self.rows[path]["value"] if path in self.rows else None

    def at(self, path: str, bound: str) -> Any:
        """Return the value that a bound takes at a path, or None where it is not declared."""
        return self.rows[path]["value" if bound == "nominal" else "conservative"] if path in self.rows else None

    @cached_property
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

    def kv_memory_bytes(self, bound: str, pool: str = "mixed") -> float:
        """`M`, `M_p` or `M_d`: declared in bytes, in tokens of the full length, or left over by weights and activations."""
        own = self.at(_POOL_MEMORY.format(pool), bound)
        if own is not None:
            return float(own)
        if KV_MEMORY in self.rows:
            return float(self.at(KV_MEMORY, bound))
        if KV_TOKENS in self.rows:
            return float(self.cache(bound).allocated_bytes * self.at(KV_TOKENS, bound))
        memory, share, weights, activations = (Fraction(self.at(path, bound)) for path in GPU_MEMORY)
        return float(int(self.nominal("inventory.gpus_per_worker")) * memory * share - weights - activations)

    @property
    def when_memory_is_full(self) -> str:
        """What an engine does when a worker's memory is full: `recompute` where nothing is declared."""
        return str(self.nominal(WHEN_FULL) or "recompute")

    def setting(self, bound: str) -> Setting:
        """Collect what an evaluation reads at one bound."""
        mixed = self.parameters(bound)
        return Setting(
            mixed,
            self.parameters(bound, separated=True) if self.separated else mixed,
            objectives_of(self.rows),
            self.nominal(PRICE),
        )

    def parameters(self, bound: str, *, separated: bool = False) -> Parameters:
        """Collect what the evaluation of a path on the mixed pool, or of a separated one, reads at one bound."""
        prefill, decode = (self._service(phase, bound, separated) for phase in ("prefill", "decode"))
        return Parameters(
            admission_s=self.at("service.admission", bound),
            prefill_overhead_s=prefill("overhead") or 0.0,
            prefill_tokens_per_s=prefill("tokens_per_second") or 0.0,
            prefill_s_per_token2=prefill("seconds_per_token_squared"),
            prefill_ceiling=prefill("utilization_ceiling"),
            prefill_curve=_curve(prefill("curve"), bound),
            step_overhead_s=decode("step_overhead") or 0.0,
            decode_tokens_per_s=decode("tokens_per_second") or 0.0,
            decode_s_per_context_token=decode("seconds_per_context_token"),
            max_sequences=decode("max_sequences"),
            decode_ceiling=decode("utilization_ceiling"),
            decode_curve=_curve(decode("curve"), bound),
            kv_memory_bytes=self.kv_memory_bytes(bound, "decode" if separated else "mixed"),
            kv_memory_prefill_bytes=self.kv_memory_bytes(bound, "prefill"),
            cache=self.cache(bound),
            block_tokens=int(self.nominal("model.block_tokens")),
            by_kind=self.nominal("model.kv_allocation") == "by_kind",
            mixed_step_penalty=self.at("service.mixed_step_penalty", bound),
            round_robin=self.at("service.dispatch", bound) == "round_robin",
            shortest_first=self.at("service.prefill.discipline", bound) == "shortest_first",
            shortest_queue=self.at("service.dispatch", bound) == "shortest_queue",
            when_memory_is_full=self.when_memory_is_full,
            swap_bandwidth_bytes_per_s=self.at(SWAP_BANDWIDTH, bound),
            decode_emits_first_token=self.at("service.first_token_source", bound) == "decode",
            ttft_growth_s=self.at("objectives.ttft_growth", bound),
            **(self._network(bound) if separated else {}),
        )

    def _service(self, phase: str, bound: str, separated: bool) -> Any:
        """Return what finds a service input of a phase: the pool's own, else the mixed pool's, but beside a curve."""
        curve, instead = _INSTEAD[phase]
        home, own = f"service.{phase}.", f"separated.{phase}."
        replaced = separated and any(f"{own}{name}" in self.rows for name in instead)
        measured = separated and f"{own}{curve}" in self.rows

        def find(name: str) -> Any:
            if separated and f"{own}{name}" in self.rows:
                return self.at(f"{own}{name}", bound)
            if (name == curve and replaced) or (name in instead and measured):
                return None
            return self.at(f"{home}{name}", bound)

        return find

    def _network(self, bound: str) -> dict[str, Any]:
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
        network["curve"] = _curve(self.nominal(CURVE), bound)
        return network | (self._affine(bound) if BANDWIDTH in self.rows else {})

    def _affine(self, bound: str) -> dict[str, Any]:
        """What a transfer outside of a measured curve is computed from."""
        return {
            "bandwidth_bytes_per_s": float(self.at(BANDWIDTH, bound)),
            "transfer_overhead_s": float(sum(Fraction(self.at(path, bound)) for path in OVERHEAD_INPUTS)),
            "descriptor_s": self.at("network.seconds_per_descriptor", bound),
            "regions_per_block": self.at("network.regions_per_block", bound),
        }


def _curve(text: str | None, bound: str) -> Curve | None:
    """Return the measured times, or the upper ones of the points that have them."""
    both = parse_curve(text) if text is not None else None
    return both[0 if bound == "nominal" else 1] if both else None
