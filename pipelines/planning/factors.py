"""Which inputs of a scenario can be changed, and how far (docs/arithmetic.md, section 9)."""

from dataclasses import dataclass

import numpy as np

from pipelines.arithmetic.numbers import Bools, Floats
from pipelines.frames.inputs import BOUNDS, InputTable
from pipelines.frames.varied import VariedInputs
from pipelines.topologies.constants import CONCURRENCY_INPUT, RATE_INPUT, constants

COUNTS = (CONCURRENCY_INPUT, "inventory.kv_tokens_per_worker")
"""Counts that are changed like any quantity; so are the slots of a worker. Others are shapes, not figures."""
_SLOTS = ".max_sequences"

_BELOW_ONE = (
    ".utilization_ceiling",
    ".prefix_hit_ratio",
    ".competing_traffic",
    ".prefix_at_destination",
    ".overlap",
    ".memory_utilization",
    ".attainment",
    ".transfer_reserve",
)
_AT_LEAST_ONE = (".layout_factor", ".relayout_factor")


def is_measured(path: str) -> bool:
    """Whether an input is a figure that somebody can measure: objectives and ceilings are chosen."""
    return not path.startswith("objectives.") and not path.endswith(_BELOW_ONE[0])


@dataclass(frozen=True)
class Variable:
    """An input that is changed: path, nominal value in SI units, and that it is multiplied by more than ``low``, less than ``high``."""

    path: str
    value: float
    low: float
    high: float
    observed: bool

    def allows(self, factors: Floats) -> Bools:
        """Which of ``factors`` it can be multiplied by."""
        return (factors > self.low) & (factors < self.high)


def variables(inputs: InputTable, read: list[str], trace_rate: float | None, *, trace_observed: bool) -> list[Variable]:
    """The inputs among those ``read`` that are changed, in table order; first the rate of an open trace where there is one."""
    found = []
    if trace_rate is not None and not inputs.has(RATE_INPUT) and not inputs.has(CONCURRENCY_INPUT):
        found.append(Variable(RATE_INPUT, trace_rate, 0.0, np.inf, trace_observed))
    for path in read:
        row = inputs.rows[path]
        value, unit = row["value"], row["unit"]
        counted = unit == "count" and path not in COUNTS and not path.endswith(_SLOTS)
        if isinstance(value, float) and value != 0 and not counted:
            found.append(Variable(path, value, *_domain(inputs, path), inputs.provenance(path) == "observed"))
    return found


def _domain(inputs: InputTable, path: str) -> tuple[float, float]:
    row = inputs.rows[path]
    ends = [float(str(row[name])) for name in ("value", "low", "high", "conservative") if row[name] is not None]
    if path.endswith(_BELOW_ONE):
        return 0.0, 1 / max(ends)
    if path.endswith(_AT_LEAST_ONE):
        return float(np.nextafter(1 / min(ends), 0.0)), np.inf
    return 0.0, np.inf


def has_memory(inputs: VariedInputs, rows: int) -> Bools:
    """Which rows leave every pool's workers some KV memory under both bounds."""
    kept = np.ones(rows, dtype=bool)
    for bound in BOUNDS:
        for memory in constants(inputs, bound).kv_memory.values():
            kept &= np.broadcast_to(np.asarray(memory) > 0, (rows,))
    return kept


def varied(inputs: InputTable, paths: list[str], factors: Floats) -> VariedInputs:
    """``inputs`` with one row per factor, in which the path at its place is multiplied by it."""
    of_path = {path: np.ones(len(factors)) for path in paths}
    for place, (path, factor) in enumerate(zip(paths, factors, strict=True)):
        of_path[path][place] = factor
    return VariedInputs(inputs.rows, of_path)
