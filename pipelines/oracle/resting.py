"""What an answer rests on: the inputs that the evaluation of a topology reads, and its gates (docs/formats.md, Receipt)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .judging import Judged, is_replayed, judged_by_bucket, limit_metric
from .objectives import LATENCIES, edge_of, objectives_of
from .parameters import CHUNKS, PRICE, ROUTED_CHUNKS, SEPARATED, SWAP_BANDWIDTH, THRESHOLDS, WHEN_FULL, Inputs

TRACE = "requests.trace"
_NEVER_READ = ("service.decode.discipline", "network.line_rate", "network.peak_bandwidth", PRICE)
_OF_REPLAY = (WHEN_FULL, SWAP_BANDWIDTH)
"""Inputs that count only where a gate is on a replayed figure."""
_OF_FLOORS = ("ttft", "tpot")
_PROMISED = (*LATENCIES, "stall")
_OF_METRICS = {
    "goodput": LATENCIES,
    "transfer_envelope_share": ("ttft_growth",),
    "replayed_goodput": _PROMISED,
    "replayed_goodput_tokens": _PROMISED,
}
"""Objectives that a figure is computed with."""


def rests_on(
    receipt: Mapping[str, Any], inputs: Inputs, resting: Sequence[tuple[str, Sequence[Judged]]]
) -> list[tuple[str, str]]:
    """Return path and provenance of every input that the decision rests on, in table order, then the trace."""
    gates = [entry.gate for _, judged in resting for entry in judged]
    paths = paths_read(inputs, {topology for topology, _ in resting}, gates)
    entries = [(path, str(inputs.rows[path]["provenance"])) for path in paths]
    return [*entries, (TRACE, str(receipt["workload"]["provenance"]))]


def paths_read(inputs: Inputs, topologies: Iterable[str], gates: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the inputs that topologies or gates read, in table order."""
    judging, names = list(gates), set(topologies)
    objectives = {path for gate in judging for path in objectives_read(gate, inputs)}
    replayed = any(is_replayed(gate) and names.intersection(gate["topologies"]) for gate in judging)
    hidden = () if replayed else _OF_REPLAY
    return [
        path
        for path in inputs.rows
        if path in objectives or (path not in hidden and any(reads(name, path, inputs) for name in names))
    ]


def objectives_read(gate: Mapping[str, Any], inputs: Inputs) -> set[str]:
    """Paths of the objectives a gate reads: its limit's, its `within`'s, those of its figure and of the metric that its limit is.

    Where it judges a bucket by that bucket's own objective, these too.
    """
    names = {name for metric in (gate["metric"], limit_metric(gate)) for name in _OF_METRICS.get(metric or "", ())}
    latencies = {*names, judged_by_bucket(gate, objectives_of(inputs.rows))}
    own = {path for path in inputs.rows if (found := edge_of(path)) is not None and found[1] in latencies}
    sources = {str(gate["limit_source"]), str(gate["within_source"])}
    return {*sources, *(f"objectives.{name}" for name in names), *own}


def reads(topology: str, path: str, inputs: Inputs) -> bool:
    """Whether the evaluation of a topology reads an input."""
    if path in _NEVER_READ or path.endswith(".peak_tokens_per_second"):
        return False
    separated = topology in SEPARATED
    of_topology = {
        "service.first_token_source": separated,
        "service.mixed_step_penalty": topology == "chunked" or (topology == "routed" and ROUTED_CHUNKS in inputs.rows),
        CHUNKS: topology == "chunked",
        THRESHOLDS: topology == "routed",
        ROUTED_CHUNKS: topology == "routed",
    }
    if path in of_topology:
        return of_topology[path]
    room, _, name = path.partition(".")
    if room == "objectives":
        found = edge_of(path)
        return (found[1] if found else name) in _OF_FLOORS
    return room in ("requests", "model", "service", "inventory") or (room in ("network", "separated") and separated)
