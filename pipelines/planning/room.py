"""How many scenarios an inventory has, and the fewest GPUs with which one of a topology passes."""

from dataclasses import replace

import numpy as np
import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.gates.rules import applicable
from pipelines.planning.margins import Rows, stand
from pipelines.topologies.constants import CONCURRENCY_INPUT, DECODE, MIXED, PREFILL, gpus_per_worker
from pipelines.topologies.declared import Topology
from pipelines.topologies.evaluator import layouts
from pipelines.topologies.question import Workload, sizes_of
from pipelines.topologies.scenarios import CHUNKS_INPUT, ROUTED_CHUNKS_INPUT, scenario_frame

MOST_TIMES = 4
"""How many times the inventory is looked at for one that suffices."""

MOST_SCENARIOS, MOST_CLOSED_SCENARIOS = 4_000, 500
"""Scenarios of the largest inventory looked at; in a closed loop each costs a search for its rate."""

_GPUS = "inventory.gpus"
_ROWS = 4096


def with_gpus(inputs: InputTable, gpus: int) -> InputTable:
    """The same cohort with another inventory."""
    return replace(
        inputs, rows=inputs.rows | {_GPUS: inputs.rows[_GPUS] | {"value": float(gpus), "conservative": float(gpus)}}
    )


def scenario_count(inputs: InputTable, topology: str, thresholds: int, gpus: int | None = None) -> int:
    """How many scenarios of ``topology`` fit the inventory, or ``gpus``."""
    most, each = int(inputs.number(_GPUS)) if gpus is None else gpus, gpus_per_worker(inputs)
    budgets = len(inputs.words(CHUNKS_INPUT))
    if topology in ("aggregated", "chunked"):
        return most // each[MIXED] * (budgets if topology == "chunked" else 1)
    pairs = _pairs(most, each[PREFILL], each[DECODE])
    if topology == "disaggregated":
        return int(pairs[most])
    beside = [int(pairs[most - mixed * each[MIXED]]) for mixed in range(1, most // each[MIXED] + 1)]
    return thresholds * (1 + len(inputs.words(ROUTED_CHUNKS_INPUT))) * sum(beside)


def _pairs(most: int, prefill: int, decode: int) -> np.ndarray:
    """Pairs of pool sizes within each number of GPUs from 0 to ``most``."""
    counts = np.zeros(most + 1, dtype=np.int64)
    for workers in range(1, most // prefill + 1):
        left = most - workers * prefill
        counts[workers * prefill :] += np.arange(left + 1) // decode
    return counts


def fewest_gpus(
    inputs: InputTable, workload: Workload, gates: pl.DataFrame, topology: Topology, parts: float
) -> tuple[int, str] | None:
    """The fewest GPUs with which a scenario of ``topology`` passes, and the first such scenario; None where none does."""
    thresholds = workload.thresholds(inputs)
    limit = MOST_CLOSED_SCENARIOS if inputs.has(CONCURRENCY_INPUT) else MOST_SCENARIOS
    declared = int(inputs.number(_GPUS))
    sizes = range(declared, MOST_TIMES * declared + 1)
    few = [gpus for gpus in sizes if scenario_count(inputs, topology.name, len(thresholds), gpus) <= limit]
    if not few:
        return None
    larger = with_gpus(inputs, max(few))
    scenarios = scenario_frame(larger, thresholds, [topology.name]).filter(pl.col("gpus") > declared)
    rules = list(applicable(gates, inputs).iter_rows(named=True))
    found: list[tuple[int, int, str]] = []
    for layout, own in layouts(scenarios):
        for part in own.iter_slices(_ROWS):
            rows = Rows(layout, sizes_of(part), part["gpus"].cast(pl.Float64).to_numpy(), parts)
            passing = part.filter(pl.Series(stand(larger, workload, rows, rules).passes))
            found += list(passing.select("gpus", "place", "scenario").iter_rows())
    return (min(found)[0], min(found)[2]) if found else None
