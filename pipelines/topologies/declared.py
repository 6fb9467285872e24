"""The topologies as data: what each consists of, what can be full in it, and in which lane the first token appears."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.frames.digits import significant

PART_KINDS = ("pools", "queues", "state_transfers", "failure_edges")


@dataclass(frozen=True)
class Load:
    """Something that can be full: its ceiling is the bound constant ``ceiling``; at or above it, ``refusal`` names the reason."""

    resource: str
    ceiling: str
    refusal: str


@dataclass(frozen=True)
class Topology:
    """A serving layout. ``loads`` are in the order in which refusals are looked for."""

    name: str
    pools: tuple[str, ...]
    queues: tuple[str, ...]
    state_transfers: tuple[str, ...]
    failure_edges: tuple[str, ...]
    loads: tuple[Load, ...]

    def operating_parts(self, weights: Mapping[str, float]) -> float:
        """Weighted number of parts that somebody has to operate; ``weights`` has one entry per part kind."""
        return significant(sum(weights[kind] * len(getattr(self, kind)) for kind in PART_KINDS))


_MIXED = Load("mixed", "u_m", "utilization")
_SLOTS = Load("slots", "u_d", "slots")
_KV_MIXED = Load("kv_mixed", "one", "kv_memory")

AGGREGATED = Topology(
    name="aggregated",
    pools=("mixed",),
    queues=("prompts",),
    state_transfers=(),
    failure_edges=("worker_lost",),
    loads=(_MIXED, _SLOTS, _KV_MIXED),
)

CHUNKED = Topology(
    name="chunked",
    pools=("mixed",),
    queues=("prompts", "partly_prefilled"),
    state_transfers=(),
    failure_edges=("worker_lost",),
    loads=(_MIXED, Load("prefill_lane", "u_p", "prefill_starved"), _SLOTS, _KV_MIXED),
)

DISAGGREGATED = Topology(
    name="disaggregated",
    pools=("prefill", "decode"),
    queues=("prompts", "transfers", "decode_admission"),
    state_transfers=("kv_cache",),
    failure_edges=(
        "prefill_worker_lost",
        "transfer_failed",
        "state_after_admission_window",
        "decode_worker_restarted",
        "network_degraded",
    ),
    loads=(
        Load("prefill", "u_p", "utilization"),
        Load("decode", "u_d", "utilization"),
        Load("link", "u_l", "link_saturated"),
        _SLOTS,
        Load("kv_prefill", "one", "kv_memory"),
        Load("kv_decode", "one", "kv_memory"),
        Load("staging", "one", "staging"),
    ),
)

TOPOLOGIES: dict[str, Topology] = {topology.name: topology for topology in (AGGREGATED, CHUNKED, DISAGGREGATED)}
