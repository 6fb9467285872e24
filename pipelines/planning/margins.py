"""Gates on evaluated rows, as arrays: what of each row passes, fails or is refused, and by how much."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Bools, Floats, Number
from pipelines.frames.digits import significant_values
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.frames.metrics import METRICS
from pipelines.gates.judge import UPPER_LIMITS, judged_by_bucket
from pipelines.topologies.evaluator import Evaluated, evaluated
from pipelines.topologies.figures import Figures
from pipelines.topologies.paths.path import Sizes
from pipelines.topologies.question import Layout, Question, Workload

Gate = Mapping[str, Any]

PASS, FAIL, REFUSED = 0, 1, 2
VERDICTS = ("pass", "fail", "refused")

_HOLDS = {
    "lte": np.less_equal,
    "lt": np.less,
    "gte": np.greater_equal,
    "gt": np.greater,
}


@dataclass(frozen=True)
class Standing:
    """Blocking gates on rows: the place in :data:`VERDICTS` of every row and gate, their margins (NaN where there is none)."""

    gates: tuple[Gate, ...]
    verdicts: NDArray[np.int64]
    margins: Floats
    refused: Bools

    @property
    def passes(self) -> Bools:
        """Whether a row is not refused nominally and passes all gates, of which there is one."""
        if not self.gates:
            return np.zeros(len(self.refused), dtype=bool)
        passes: Bools = ~self.refused & (self.verdicts == PASS).all(axis=1)
        return passes

    @property
    def margin(self) -> Floats:
        """The smallest margin; NaN where a gate is refused or none has one."""
        known = np.where(np.isnan(self.margins), np.inf, self.margins)
        least = known.min(axis=1, initial=np.inf)
        none = (self.verdicts == REFUSED).any(axis=1) | np.isinf(least)
        return np.where(none, np.nan, least)


@dataclass(frozen=True)
class Rows:
    """Rows of one layout: pool sizes, GPUs and operating parts of each, asked about under both bounds."""

    layout: Layout
    sizes: Sizes
    gpus: Floats
    parts: float

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.gpus)


def blocking_on(gates: Sequence[Gate], topology: str) -> tuple[Gate, ...]:
    """The blocking gates that concern ``topology``, in order; ``gates`` are resolved on the cohort."""
    return tuple(
        gate
        for gate in gates
        if gate["blocking"] and gate["limit"] is not None and topology in gate["topologies"].split()
    )


def evaluate_rows(inputs: InputTable, workload: Workload, rows: Rows) -> dict[Bound, Evaluated]:
    """``rows`` under both bounds."""
    return {
        bound: evaluated(Question(inputs, workload, bound), rows.layout, rows.sizes, rows.count) for bound in BOUNDS
    }


def stand(inputs: InputTable, workload: Workload, rows: Rows, gates: Sequence[Gate]) -> Standing:
    """How ``rows`` stand under the blocking ``gates``, from unrounded figures."""
    found = evaluate_rows(inputs, workload, rows)
    own = blocking_on(gates, rows.layout.topology.name)
    verdicts = np.empty((rows.count, len(own)), dtype=np.int64)
    margins = np.empty((rows.count, len(own)))
    with np.errstate(all="ignore"):
        for place, gate in enumerate(own):
            verdicts[:, place], margins[:, place] = _judged(inputs, rows, found[gate["bound"]].figures, gate)
    return Standing(own, verdicts, margins, found["nominal"].figures.judged.refused)


def _judged(inputs: InputTable, rows: Rows, figures: Figures, gate: Gate) -> tuple[NDArray[np.int64], Floats]:
    figure, limit = gate_figure(inputs, rows, figures, gate)
    if METRICS[gate["metric"]].needs_latency:
        figure = np.where(figures.judged.refused, np.nan, figure)
    exported = significant_values(figure)  # what is judged has the exported digits; margins keep all
    verdict = np.where(np.isnan(figure), REFUSED, np.where(holds(gate, exported, limit), PASS, FAIL))
    distance = limit - figure if gate["op"] in UPPER_LIMITS else figure - limit
    return verdict, np.where(limit != 0, distance / np.where(limit != 0, limit, 1.0), np.nan)


def holds(gate: Gate, figure: Floats, limit: Floats) -> Bools:
    """Whether each figure is on the right side of its limit."""
    found: Bools = _HOLDS[gate["op"]](figure, limit)
    return found


def gate_figure(inputs: InputTable, rows: Rows, figures: Figures, gate: Gate) -> tuple[Floats, Floats]:
    """The figure that ``gate`` judges in every row, and its limit."""
    latency = judged_by_bucket(gate)
    if latency is not None:
        seconds = figures.beside(latency)
        objectives = np.broadcast_to(figures.objective(latency), seconds.shape)
        ratio = np.where(np.isnan(seconds), -np.inf, seconds / objectives)
        worst = ratio.argmax(axis=1)
        every = np.arange(rows.count)
        return seconds[every, worst], objectives[every, worst]
    objective = gate["objective"]
    limit: Number = gate["limit"] if objective is None else inputs.number(f"objectives.{objective}")
    figure = metric_figure(gate["metric"], inputs, rows, figures)
    return figure, np.broadcast_to(np.asarray(limit, dtype=np.float64), figure.shape)


def metric_figure(metric: str, inputs: InputTable, rows: Rows, figures: Figures) -> Floats:
    """The unrounded figure of ``metric`` in every row; NaN where it is absent."""
    if metric in ("ttft_worst", "tpot_worst", "e2e_worst"):
        seconds = figures.beside(metric.removesuffix("_worst"))
        largest = np.where(np.isnan(seconds), -np.inf, seconds).max(axis=1)
        return np.where(np.isinf(largest), np.nan, largest)
    if metric == "transfer_envelope_share":
        share: Floats = figures.transfer / np.asarray(inputs.number("objectives.ttft_growth"))
        return share
    known: dict[str, Callable[[], Floats]] = {
        "stall": lambda: figures.stall,
        "goodput": lambda: figures.goodput,
        "transfer_worst": lambda: figures.transfer,
        "pressure": lambda: figures.judged.pressure,
        "headroom": lambda: 1 - figures.judged.pressure,
        "gpus": lambda: rows.gpus,
        "operating_parts": lambda: np.full(rows.count, rows.parts),
    }
    return known[metric]()


def repeated(sizes: Sizes, rows: int) -> Sizes:
    """The sizes of one scenario, for each of so many rows."""
    return sizes.at(np.zeros(rows, dtype=np.int64))
