"""Which inputs a scenario's figures rest on, and how much of that is not observed."""

import polars as pl

from pipelines.frames.digits import significant
from pipelines.frames.inputs import InputTable

TRACE = "requests.trace"

_NEVER_READ = (
    "service.prefill.discipline",
    "service.decode.discipline",
    "service.prefill.peak_tokens_per_second",
    "service.decode.peak_tokens_per_second",
    "network.line_rate",
    "network.peak_bandwidth",
)
_OBJECTIVES_OF_FIGURE = {"goodput": ("ttft", "tpot"), "transfer_envelope_share": ("ttft_growth",)}


def _reads(topology: str, path: str) -> bool:
    """Whether the evaluation of ``topology`` reads the input ``path``."""
    if path in _NEVER_READ:
        return False
    separate = topology == "disaggregated"
    if path == "service.first_token_source" or path.startswith("network."):
        return separate
    if path == "topologies.chunked.chunk_tokens":
        return topology == "chunked"
    return path.startswith(("requests.", "model.", "service.", "inventory."))


def _objectives(gates: pl.DataFrame, topology: str) -> set[str]:
    read: set[str] = set()
    for gate in gates.iter_rows(named=True):
        if gate["limit"] is None or topology not in gate["topologies"].split():
            continue
        names = {gate["objective"]} if gate["objective"] is not None else set()
        read |= {f"objectives.{name}" for name in names | set(_OBJECTIVES_OF_FIGURE.get(gate["metric"], ()))}
    return read


def rests_on(
    inputs: InputTable, gates: pl.DataFrame, topologies: list[str], trace_provenance: str
) -> list[dict[str, str]]:
    """Path and provenance of each input that ``topologies`` and the gates on them read, in table order, then the trace.

    ``gates`` are the resolved ones: those without a limit do not apply.
    """
    objectives = set().union(*(_objectives(gates, name) for name in topologies))
    paths = [path for path in inputs.rows if path in objectives or any(_reads(name, path) for name in topologies)]
    rows = [{"path": path, "provenance": inputs.provenance(path)} for path in paths]
    return [*rows, {"path": TRACE, "provenance": trace_provenance}]


def unobserved_share(reliance: list[dict[str, str]]) -> float:
    """Share of the inputs relied on that are not observed."""
    return significant(sum(row["provenance"] != "observed" for row in reliance) / len(reliance))
