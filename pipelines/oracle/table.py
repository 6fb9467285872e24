"""The rows that an inputs table may hold, in their order, with units and ranges (docs/formats.md, The inputs table)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from .cache import ELEMENT_BYTES
from .names import ALLOCATIONS, DISPATCHES, LINK_SHARING, MEMORY_POLICIES
from .objectives import LATENCIES, edge_of
from .parameters import (
    ARRIVAL_SCV,
    BANDWIDTH,
    CACHE,
    CHUNKS,
    CONCURRENCY,
    CURVE,
    KV_MEMORY,
    KV_TOKENS,
    OVERHEAD_INPUTS,
    PRICE,
    RATE,
    ROUTED_CHUNKS,
    SWAP_BANDWIDTH,
    THRESHOLDS,
    WHEN_FULL,
)

Range = Literal["positive", "not negative", "ratio", "below one", "ceiling", "one or more", "count"]
Presence = Literal[
    "always",
    "optional",
    "network",
    "optional network",
    "affine",
    "line",
    "declared arrivals",
    "swap",
    "prefill line",
    "decode line",
    "chunked",
    "routed",
    "optional routed",
]
"""`network`: there exactly when a separated topology is compared; `affine`: then, but for a curve alone; `line`: then,
and optional beside a curve; `declared arrivals`: with a rate or a concurrency; `swap`: where full memory is swapped;
`prefill line`, `decode line`: without a curve of that phase; `chunked`, `routed`: where that topology is compared."""
DEFAULT_CHUNKS = "256 512 1024 2048"
"""Budgets of chunks that a separated topology is compared with, where none are declared."""


@dataclass(frozen=True)
class Row:
    """What the inputs table may hold at one path."""

    path: str
    unit: str
    hurts: Literal["low", "high"] | None = None
    range: Range = "positive"
    presence: Presence = "always"
    default: float | str | None = None
    words: tuple[str, ...] = ()


_REQUESTS = (
    Row(RATE, "requests/s", "high", presence="optional"),
    Row(CONCURRENCY, "count", "high", "count", "optional"),
    Row(ARRIVAL_SCV, "ratio", "high", "not negative", "declared arrivals", 1.0),
)
_MODEL = (
    Row("model.name", "text", presence="optional"),
    Row("model.layers", "count", range="count"),
    Row("model.kv_heads", "count", range="count"),
    Row("model.head_dim", "count", range="count"),
    Row(CACHE, "text"),
    Row("model.kv_dtype", "text", words=tuple(ELEMENT_BYTES)),
    Row("model.layout_factor", "ratio", "high", default=1.0),
    Row("model.tensor_parallel", "count", range="count", default=1),
    Row("model.block_tokens", "count", range="count", default=1),
    Row("model.kv_allocation", "text", words=ALLOCATIONS, default="uniform"),
)
_PREFILL = (
    Row("service.prefill.tokens_per_second", "tokens/s", "low", presence="prefill line"),
    Row("service.prefill.overhead", "s", "high", "not negative", "prefill line"),
    Row("service.prefill.seconds_per_token_squared", "s/token^2", "high", "not negative", default=0.0),
    Row("service.prefill.prefix_hit_ratio", "ratio", "low", "ratio", default=0.0),
    Row("service.prefill.curve", "text", presence="optional"),
    Row("service.prefill.utilization_ceiling", "ratio", "low", "ceiling"),
    Row("service.prefill.peak_tokens_per_second", "tokens/s", presence="optional"),
)
_DECODE = (
    Row("service.decode.tokens_per_second", "tokens/s", "low", presence="decode line"),
    Row("service.decode.step_overhead", "s", "high", "not negative", "decode line"),
    Row("service.decode.seconds_per_context_token", "s/token", "high", "not negative", default=0.0),
    Row("service.decode.curve", "text", presence="optional"),
    Row("service.decode.max_sequences", "count", "low", "count"),
    Row("service.decode.utilization_ceiling", "ratio", "low", "ceiling"),
    Row("service.decode.peak_tokens_per_second", "tokens/s", presence="optional"),
)
_SERVICE = (
    Row("service.dispatch", "text", words=DISPATCHES),
    Row(WHEN_FULL, "text", presence="optional", words=MEMORY_POLICIES),
    Row(SWAP_BANDWIDTH, "B/s", "low", presence="swap"),
    Row("service.first_token_source", "text", words=("decode", "prefill")),
    Row("service.admission", "s", "high", "not negative"),
    Row("service.mixed_step_penalty", "ratio", "high", "not negative", default=0.0),
    Row("service.prefill.discipline", "text", words=("fifo", "shortest_first")),
    *_PREFILL,
    Row("service.decode.discipline", "text", words=("fifo",)),
    *_DECODE,
)


def _pool(phase: str, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows of a pool of its own: as those of the service, each only where it is declared."""
    own = [
        replace(row, path=row.path.replace("service.", "separated."), presence="optional network", default=None)
        for row in rows
        if not row.path.endswith(".prefix_hit_ratio")
    ]
    gpus = Row(f"separated.{phase}.gpus_per_worker", "count", range="count", presence="optional network")
    memory = Row(f"separated.{phase}.kv_memory_per_worker", "B", "low", presence="optional network")
    return (gpus, *own, memory)


_INVENTORY = (
    Row("inventory.gpus", "count", range="count"),
    Row("inventory.gpus_per_worker", "count", range="count"),
    Row(KV_MEMORY, "B", "low"),
    Row(KV_TOKENS, "count", "low", "count"),
    Row("inventory.gpu_memory", "B", "low"),
    Row("inventory.memory_utilization", "ratio", "low", "ceiling"),
    Row("inventory.weights_per_worker", "B", "high", "not negative"),
    Row("inventory.activations_per_worker", "B", "high", "not negative"),
    Row(PRICE, "price/h", presence="optional"),
)
_NETWORK = (
    Row("network.links", "count", "low", "count", "network"),
    Row("network.links_per_transfer", "count", None, "count", "network", 1),
    Row("network.link_sharing", "text", presence="network", words=LINK_SHARING, default="shared"),
    Row("network.line_rate", "B/s", presence="line"),
    Row(BANDWIDTH, "B/s", "low", presence="affine"),
    Row("network.peak_bandwidth", "B/s", presence="optional network"),
    Row("network.competing_traffic", "ratio", "high", "below one", "network", 0.0),
    *(Row(path, "s", "high", "not negative", "affine") for path in OVERHEAD_INPUTS),
    Row("network.router_handover", "s", "high", "not negative", "network", 0.0),
    Row("network.seconds_per_descriptor", "s", "high", "not negative", "affine", 0.0),
    Row("network.regions_per_block", "count", "high", "count", "affine", 2),
    Row("network.relayout_factor", "ratio", "high", "one or more", "network", 1.0),
    Row("network.prefix_at_destination", "ratio", "low", "ratio", "network", 0.0),
    Row("network.overlap", "ratio", "low", "ratio", "network", 0.0),
    Row("network.utilization_ceiling", "ratio", "low", "ceiling", "network"),
    Row(CURVE, "text", presence="optional network"),
)
_OBJECTIVES = (
    Row("objectives.ttft", "s"),
    Row("objectives.tpot", "s"),
    Row("objectives.e2e", "s", presence="optional"),
    Row("objectives.stall", "s", presence="optional"),
    Row("objectives.ttft_growth", "s", presence="optional"),
    Row("objectives.transfer_reserve", "ratio", range="ceiling", presence="optional"),
    Row("objectives.attainment", "ratio", range="ceiling"),
)
_TOPOLOGIES = (
    Row("topologies.compared", "text"),
    Row(CHUNKS, "text", presence="chunked", default=DEFAULT_CHUNKS),
    Row(THRESHOLDS, "text", presence="routed"),
    Row(ROUTED_CHUNKS, "text", presence="optional routed"),
)
_BEFORE_BUCKETS = (
    *_REQUESTS,
    *_MODEL,
    *_SERVICE,
    *_pool("prefill", _PREFILL),
    *_pool("decode", _DECODE),
    *_INVENTORY,
    *_NETWORK,
    *_OBJECTIVES,
)
ROWS = (*_BEFORE_BUCKETS, *_TOPOLOGIES)
"""All rows but the objectives of buckets, which come before those of the topologies."""
_BY_PATH = {row.path: row for row in ROWS}


def row_of(path: str) -> Row | None:
    """Return what the table may hold at a path; None of a path that no table has."""
    if edge_of(path) is not None:
        return Row(path, "s", presence="optional")
    return _BY_PATH.get(path)


def rows_with(paths: Collection[str]) -> tuple[Row, ...]:
    """All rows in table order, with the objectives of the buckets that are among the paths."""
    found = [item for item in map(edge_of, paths) if item is not None]
    ordered = sorted(found, key=lambda item: (item[0], LATENCIES.index(item[1])))
    own = [Row(f"objectives.buckets.{edge}.{name}", "s", presence="optional") for edge, name in ordered]
    return (*_BEFORE_BUCKETS, *own, *_TOPOLOGIES)
