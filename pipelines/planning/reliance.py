"""Which inputs a scenario's figures rest on, and how much of that is not observed."""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from pipelines.frames.digits import significant
from pipelines.frames.inputs import InputTable
from pipelines.frames.metrics import METRICS
from pipelines.gates.judge import judged_by_bucket
from pipelines.gates.rules import concerns
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.scenarios import ROUTED_CHUNKS_INPUT

TRACE = "requests.trace"

_NEVER_READ = ("service.decode.discipline", "network.line_rate", "network.peak_bandwidth", "inventory.gpu_hour_price")
_PEAK = "peak_tokens_per_second"
_PENALTY = "service.mixed_step_penalty"
_REPLAY_ALONE = ("service.when_memory_is_full", "service.swap_bandwidth")
"""What the closed forms do not read, and gates on replayed figures do."""
_MET = ("ttft", "tpot", "e2e")
_OBJECTIVES_OF_FIGURE = {
    "goodput": _MET,
    "transfer_envelope_share": ("ttft_growth",),
    "replayed_goodput": (*_MET, "stall"),
    "replayed_goodput_tokens": (*_MET, "stall"),
}
_FLOORS = ("ttft", "tpot")
"""Objectives that the floors of every scenario are held against."""


def _reads(inputs: InputTable, topology: str, path: str) -> bool:
    """Whether the evaluation of ``topology`` reads the input ``path``."""
    if path in _NEVER_READ or path in _REPLAY_ALONE or path.endswith(_PEAK):
        return False
    if path == "service.first_token_source" or path.startswith(("network.", "separated.")):
        return TOPOLOGIES[topology].separates
    if path == _PENALTY:
        return topology == "chunked" or (topology == "routed" and inputs.has(ROUTED_CHUNKS_INPUT))
    if path.startswith("topologies."):
        return path.startswith(f"topologies.{topology}.")
    return path.startswith(("requests.", "model.", "service.", "inventory."))


def _named(inputs: InputTable, names: Iterable[str], *, by_bucket: bool) -> set[str]:
    """The inputs that declare objectives of these names, those of buckets too where they are read ``by_bucket``."""
    own = tuple(names)
    found = {f"objectives.{name}" for name in own}
    if by_bucket:
        found |= {
            path for path in inputs.rows if path.startswith("objectives.buckets.") and path.rpartition(".")[2] in own
        }
    return found


def _objectives(inputs: InputTable, gates: Iterable[Mapping[str, Any]], topology: str) -> set[str]:
    read = _named(inputs, _FLOORS, by_bucket=True)
    for gate in gates:
        if not concerns(gate, topology):
            continue
        if gate["objective"] is not None:
            read |= _named(inputs, [gate["objective"]], by_bucket=judged_by_bucket(gate) is not None)
        if gate["within_objective"] is not None:
            read |= _named(inputs, [gate["within_objective"]], by_bucket=False)
        for metric in (gate["metric"], gate["limit_metric"]):
            read |= _named(inputs, _OBJECTIVES_OF_FIGURE.get(metric, ()), by_bucket=True)
    return read


def inputs_read(inputs: InputTable, gates: Iterable[Mapping[str, Any]], topologies: Iterable[str]) -> list[str]:
    """The paths that ``topologies`` and the resolved ``gates`` on them read, in table order."""
    rows, names = list(gates), list(topologies)
    named = set().union(*(_objectives(inputs, rows, name) for name in names))
    if any(METRICS[gate["metric"]].replayed and concerns(gate, name) for gate in rows for name in names):
        named |= set(_REPLAY_ALONE)
    return [path for path in inputs.rows if path in named or any(_reads(inputs, name, path) for name in names)]


def rests_on(
    inputs: InputTable, gates: pl.DataFrame, topologies: list[str], trace_provenance: str
) -> list[dict[str, str]]:
    """Path and provenance of each input that ``topologies`` and the gates on them read, in table order, then the trace.

    ``gates`` are the resolved ones on scenarios.
    """
    paths = inputs_read(inputs, gates.iter_rows(named=True), topologies)
    rows = [{"path": path, "provenance": inputs.provenance(path)} for path in paths]
    return [*rows, {"path": TRACE, "provenance": trace_provenance}]


def unobserved_share(reliance: list[dict[str, str]]) -> float:
    """Share of the inputs relied on that are not observed."""
    return significant(sum(row["provenance"] != "observed" for row in reliance) / len(reliance))
