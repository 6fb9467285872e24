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
from pipelines.gates.aggregates import UPPER_LIMITS, aggregated
from pipelines.gates.judge import bucket_requests, judged_by_bucket
from pipelines.gates.rules import concerns, waived_for
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.evaluator import Evaluated, evaluated
from pipelines.topologies.figures import Figures
from pipelines.topologies.paths.path import Sizes
from pipelines.topologies.question import Layout, Question, Workload
from pipelines.topologies.scenarios import CHUNKS_INPUT

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
    """Gates that block rows: the place in :data:`VERDICTS` of every row and gate, their margins (NaN where there is none).

    ``examined`` says whether any gate that is declared blocking applies, be it waived.
    """

    gates: tuple[Gate, ...]
    examined: bool
    verdicts: NDArray[np.int64]
    margins: Floats
    refused: Bools

    @property
    def passes(self) -> Bools:
        """Whether a row is not refused nominally and passes all gates, if it is examined at all."""
        if not self.examined:
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


def _deciding(gates: Sequence[Gate], topology: str) -> list[Gate]:
    """The gates on ``topology`` that are declared blocking, by figures of the closed forms alone.

    All that is planned rests on this: gates on replayed figures are left out, since what a changed cohort or another scenario does to
    them would have to be replayed (docs/arithmetic.md, section 9). The decision itself is made with them, from the verdicts.
    """
    own = [gate for gate in gates if gate["blocking"] and concerns(gate, topology)]
    return [gate for gate in own if not METRICS[gate["metric"]].replayed]


def blocking_on(gates: Sequence[Gate], topology: str) -> tuple[Gate, ...]:
    """The gates that block scenarios of ``topology`` by the closed forms, in order; ``gates`` are resolved on the cohort."""
    return tuple(gate for gate in _deciding(gates, topology) if not waived_for(gate, topology))


def examines(gates: Sequence[Gate], topology: str) -> bool:
    """Whether a gate that is declared blocking applies to ``topology``, be it waived."""
    return bool(_deciding(gates, topology))


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
            figures = found[gate["bound"]].figures
            verdicts[:, place], margins[:, place] = _judged(inputs, workload, rows, figures, gate)
    return Standing(
        own, examines(gates, rows.layout.topology.name), verdicts, margins, found["nominal"].figures.judged.refused
    )


def _judged(
    inputs: InputTable, workload: Workload, rows: Rows, figures: Figures, gate: Gate
) -> tuple[NDArray[np.int64], Floats]:
    figure, limit = gate_figure(inputs, rows, figures, gate, workload)
    if METRICS[gate["metric"]].needs_latency:
        figure = np.where(figures.judged.refused, np.nan, figure)
    relative = gate["limit_metric"] is not None or gate["limit_baseline"] is not None
    limits = significant_values(limit) if relative else limit
    exported = significant_values(figure)  # what is judged has the exported digits; margins keep all
    absent = np.isnan(figure) | np.isnan(limits)
    verdict = np.where(absent, REFUSED, np.where(holds(gate, exported, limits), PASS, FAIL))
    distance = limit - figure if gate["op"] in UPPER_LIMITS else figure - limit
    return verdict, np.where(limit != 0, distance / np.where(limit != 0, limit, 1.0), np.nan)


def holds(gate: Gate, figure: Floats, limit: Floats) -> Bools:
    """Whether each figure is on the right side of its limit."""
    found: Bools = _HOLDS[gate["op"]](figure, limit)
    return found


def gate_figure(
    inputs: InputTable, rows: Rows, figures: Figures, gate: Gate, workload: Workload
) -> tuple[Floats, Floats]:
    """The figure that ``gate`` judges in every row, and its limit; NaN where there is none."""
    latency = judged_by_bucket(gate)
    if latency is not None:
        seconds = figures.beside(latency)
        objectives = np.broadcast_to(figures.objective(latency), seconds.shape)
        ratio = np.where(np.isnan(seconds), -np.inf, seconds / objectives)
        worst = ratio.argmax(axis=1)
        every = np.arange(rows.count)
        return seconds[every, worst], objectives[every, worst]
    if gate["aggregate"] is None:
        figure = metric_figure(gate["metric"], inputs, rows, figures)
    else:
        own = gate
        if gate["within_objective"] is not None:
            own = {**gate, "within": inputs.number(f"objectives.{gate['within_objective']}")}
        figure = aggregated(own, _by_bucket(gate["metric"], figures, rows), bucket_requests(workload.buckets))
    if gate["limit_baseline"] is not None:
        return figure, gate["limit_times"] * _of_baseline(inputs, workload, rows, gate)
    return figure, np.broadcast_to(_limit(inputs, rows, figures, gate), figure.shape)


def _of_baseline(inputs: InputTable, workload: Workload, rows: Rows, gate: Gate) -> Floats:
    """The best figure that a gate's baseline reaches on as many GPUs as each row has; NaN where it has none."""
    topology = TOPOLOGIES[gate["limit_baseline"]]
    workers = rows.gpus // inputs.number("inventory.gpus_per_worker")
    chunked = topology.name == "chunked"
    budgets = [float(word) for word in inputs.words(CHUNKS_INPUT)] if chunked else [np.nan]
    question = Question(inputs, workload, gate["bound"])
    alone = {**gate, "limit_baseline": None, "limit": 1.0, "objective": None}
    best = np.full(rows.count, np.nan)
    for budget in budgets:
        sizes = Sizes(mixed=np.maximum(workers, 1.0), chunk_tokens=np.full(rows.count, budget) if chunked else None)
        others = Rows(Layout(topology, None, chunked), sizes, rows.gpus, rows.parts)
        found = evaluated(question, others.layout, others.sizes, others.count).figures
        figure, _ = gate_figure(inputs, others, found, alone, workload)
        if METRICS[gate["metric"]].needs_latency:
            figure = np.where(found.judged.refused, np.nan, figure)
        best = np.fmin(best, figure) if gate["op"] in UPPER_LIMITS else np.fmax(best, figure)
    return np.where(workers >= 1, best, np.nan)


def _limit(inputs: InputTable, rows: Rows, figures: Figures, gate: Gate) -> Floats:
    metric, objective = gate["limit_metric"], gate["objective"]
    if metric is not None:
        figure = gate["limit_times"] * metric_figure(metric, inputs, rows, figures)
        hidden = METRICS[metric].needs_latency & figures.judged.refused
        return np.where(hidden, np.nan, figure)
    limit: Number = gate["limit"] if objective is None else inputs.number(f"objectives.{objective}")
    return np.asarray(limit, dtype=np.float64)


def _by_bucket(metric: str, figures: Figures, rows: Rows) -> Floats:
    """The figures of a metric by bucket, rows x buckets; NaN where there is none."""
    if metric == "transfer":
        values = figures.lane("transfer_wait_s") + figures.lane("kv_movement_s")
    elif metric in ("prefill_wait", "decode_wait"):
        values = figures.lane(f"{metric}_s")
    else:
        values = figures.beside(metric)
    return np.broadcast_to(values, (rows.count, values.shape[-1]))


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
