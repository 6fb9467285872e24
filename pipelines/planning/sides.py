"""The paths of routed scenarios, evaluated once per pool sizes, and what two of them together come to (docs/arithmetic.md, section 10)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Bools, Floats
from pipelines.frames.digits import significant_values
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.frames.metrics import METRICS
from pipelines.gates.aggregates import UPPER_LIMITS
from pipelines.gates.decision import UNMEASURED_VIOLATION
from pipelines.planning.margins import Gate, Rows, gate_figure, holds, metric_figure
from pipelines.topologies.evaluator import figures_of
from pipelines.topologies.figures import NONE, Figures
from pipelines.topologies.question import Question, Workload

_ROWS = 4096
_THREADS = 2

LEAST, SUM, PRESSURE, SIZE = "least", "sum", "pressure", "size"
_ROLES = {"goodput": SUM, "pressure": PRESSURE, "headroom": PRESSURE, "gpus": SIZE, "operating_parts": SIZE}
"""How the figures of two paths make that of a scenario: the larger one counts, they add up, or neither decides alone."""


def role(gate: Gate) -> str:
    """How ``gate`` sees two paths together."""
    return _ROLES.get(gate["metric"], LEAST)


def decomposes(gate: Gate) -> bool:
    """Whether what ``gate`` says of a scenario follows from what its paths come to: not so where buckets of both are weighed together."""
    return gate["aggregate"] is None and gate["limit_metric"] is None and gate["limit_baseline"] is None


def combines(gate: Gate) -> bool:
    """Whether two paths can be searched apart under ``gate``: what is better of either is better together."""
    upper = gate["op"] in UPPER_LIMITS
    return role(gate) == SIZE or upper == (gate["metric"] not in ("goodput", "headroom"))


@dataclass(frozen=True)
class Side:
    """Paths of one kind for all pool sizes. Per row: GPUs, a code of its place among its kind, whether each bound refuses it, its pressure.

    Per row and gate: ``margin`` and ``ok`` of a figure that must be within its limit on both paths, ``part`` of one that adds up, and
    whether it is ``absent`` although not refused. ``loaded`` says whether a load, not a floor, refuses.
    """

    gpus: Floats
    code: Floats
    refused: Bools
    loaded: Bools
    pressure: Floats
    headroom: Floats
    margin: Floats
    ok: Bools
    part: Floats
    absent: Bools
    figures: Floats
    within: Bools

    def at(self, places: NDArray[np.int64]) -> "Side":
        """The rows at ``places``."""
        return Side(*(getattr(self, field.name)[places] for field in fields(self)))

    def beside(self, other: "Side") -> "Side":
        """These rows and then those of ``other``."""
        return Side(
            *(np.concatenate([getattr(self, field.name), getattr(other, field.name)]) for field in fields(self))
        )

    def best_of_levels(self) -> tuple[Floats, "Side"]:
        """The distinct numbers of GPUs, and of each what is best of all its rows, one figure at a time."""
        levels, inverse = np.unique(self.gpus, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        starts = np.searchsorted(inverse[order], np.arange(len(levels)))

        def best(values: Any, reduce: Any) -> Any:
            return reduce.reduceat(values[order], starts, axis=0)

        return levels, Side(
            gpus=levels,
            code=best(self.code, np.minimum),
            refused=best(self.refused, np.logical_and),
            loaded=best(self.loaded, np.logical_or),
            pressure=best(self.pressure, np.fmin),
            headroom=best(self.headroom, np.fmax),
            margin=best(self.margin, np.fmax),
            ok=best(self.ok, np.logical_or),
            part=best(self.part, np.fmax),
            absent=best(self.absent, np.logical_and),
            figures=best(self.figures, np.fmin),
            within=best(self.within, np.logical_or),
        )


def side(
    inputs: InputTable, workload: Workload, rows: Rows, code: Floats, gates: Sequence[Gate], frontier: Sequence[str]
) -> Side:
    """Evaluate all ``rows`` of one path under both bounds."""
    places = [np.arange(begin, min(begin + _ROWS, rows.count)) for begin in range(0, rows.count, _ROWS)]
    questions = {bound: Question(inputs, workload, bound) for bound in BOUNDS}
    for question in questions.values():
        question.paths(rows.layout, rows.sizes.at(places[0][:1]))  # what threads share is looked up before them

    def part(own: NDArray[np.int64]) -> Side:
        few = Rows(rows.layout, rows.sizes.at(own), rows.gpus[own], rows.parts)
        return _side(questions, workload, few, code[own], gates, frontier)

    with ThreadPoolExecutor(_THREADS) as pool:
        parts = list(pool.map(part, places))
    return Side(*(np.concatenate([getattr(one, field.name) for one in parts]) for field in fields(Side)))


def _side(
    questions: dict[Bound, Question],
    workload: Workload,
    rows: Rows,
    code: Floats,
    gates: Sequence[Gate],
    frontier: Sequence[str],
) -> Side:
    found = {bound: figures_of(question, rows.layout, rows.sizes, rows.count) for bound, question in questions.items()}
    inputs = questions["nominal"].inputs
    judged = [found[bound].judged for bound in BOUNDS]
    pressures = np.stack([one.pressure for one in judged], axis=1)
    shape = (rows.count, len(gates))
    margin, ok, part = np.full(shape, np.inf), np.ones(shape, dtype=bool), np.zeros(shape)
    absent = np.zeros(shape, dtype=bool)
    with np.errstate(all="ignore"):
        for place, gate in enumerate(gates):
            figures = found[gate["bound"]]
            if role(gate) == SUM:
                part[:, place] = metric_figure(gate["metric"], inputs, rows, figures)
            elif role(gate) == LEAST:
                own = _least(inputs, workload, rows, figures, gate)
                margin[:, place], ok[:, place], absent[:, place] = own
        nominal = found["nominal"]
        values = [significant_values(metric_figure(_METRIC[name], inputs, rows, nominal)) for name in frontier]
    return Side(
        gpus=rows.gpus,
        code=code,
        refused=np.stack([one.refused for one in judged], axis=1),
        loaded=np.stack(
            [one.refused & (one.refusing < len(one.loads)) & (one.refusing != NONE) for one in judged], axis=1
        ),
        pressure=significant_values(pressures),
        headroom=significant_values(1 - pressures),
        margin=margin,
        ok=ok,
        part=part,
        absent=absent,
        figures=np.stack(values, axis=1) if values else np.zeros((rows.count, 0)),
        within=np.stack([_within(name, inputs, workload, rows, nominal) for name in frontier], axis=1)
        if frontier
        else np.zeros((rows.count, 0), dtype=bool),
    )


_METRIC = {"ttft": "ttft_worst", "tpot": "tpot_worst", "stall": "stall"}


def _within(name: str, inputs: InputTable, workload: Workload, rows: Rows, figures: Figures) -> Bools:
    """Whether a figure is within its objective, by bucket; true where there is none."""
    if name == "stall" and not inputs.has("objectives.stall"):
        return np.ones(rows.count, dtype=bool)
    gate = {"metric": _METRIC[name], "objective": name, "limit": None, "op": "lte", "bound": "nominal"}
    gate |= {"aggregate": None, "limit_metric": None, "limit_baseline": None}
    figure, limit = gate_figure(inputs, rows, figures, gate, workload)
    return np.isnan(figure) | (significant_values(figure) <= limit)


def _least(
    inputs: InputTable, workload: Workload, rows: Rows, figures: Figures, gate: Gate
) -> tuple[Floats, Bools, Bools]:
    figure, limit = gate_figure(inputs, rows, figures, gate, workload)
    figure = significant_values(figure)
    absent = np.isnan(figure)
    passes = holds(gate, figure, limit)
    return np.where(absent, np.inf, _margin(gate, figure, limit)), absent | passes, absent


def _margin(gate: Gate, figure: Floats, limit: Floats) -> Floats:
    distance = limit - figure if gate["op"] in UPPER_LIMITS else figure - limit
    return np.where(limit != 0, distance / np.where(limit != 0, limit, 1.0), np.nan)


@dataclass(frozen=True)
class Pairs:
    """Two paths together, one entry per pair: how they stand under the gates."""

    passes: Bools
    margin: Floats
    refusals: Floats
    violation: Floats
    pressure: Floats
    gpus: Floats
    code: Floats


def together(
    short: Side, long: Side, gates: Sequence[Gate], limits: Sequence[float], parts: float, codes: float, examined: bool
) -> Pairs:
    """Each entry of ``short`` with the entry of ``long`` beside it; ``codes`` is how many codes the long path has.

    ``examined`` says whether a gate that is declared blocking applies at all, be it waived.
    """
    gpus = short.gpus + long.gpus
    refused = short.refused | long.refused
    pressures = np.where(short.loaded, short.pressure, np.fmax(short.pressure, long.pressure))
    headrooms = np.where(short.loaded, short.headroom, np.fmin(short.headroom, long.headroom))
    count = len(gpus)
    least, violation = np.full(count, np.inf), np.zeros(count)
    refusals, unmet = np.zeros(count), np.zeros(count, dtype=bool)
    for place, (gate, limit) in enumerate(zip(gates, limits, strict=True)):
        margin, ok, absent = _gate_together(short, long, gate, limit, place, pressures, headrooms, gpus, parts)
        if METRICS[gate["metric"]].needs_latency:
            absent = absent | refused[:, BOUNDS.index(gate["bound"])]
        rounded = significant_values(margin)
        failing = ~ok & ~absent
        least = np.fmin(least, np.where(absent, np.inf, np.where(np.isnan(rounded), np.inf, rounded)))
        missed = np.where(np.isnan(rounded), UNMEASURED_VIOLATION, -rounded)
        violation = np.where(failing, np.maximum(violation, missed), violation)
        refusals += absent
        unmet |= absent | failing
    return Pairs(
        passes=~unmet & ~refused[:, 0] & examined,
        margin=np.where(np.isinf(least), 0.0, least),
        refusals=refusals,
        violation=violation,
        pressure=pressures[:, 0],
        gpus=gpus,
        code=short.code * codes + long.code,
    )


def _larger_of(short: Side, long: Side, gate: Gate, place: int) -> tuple[Floats, Bools, Bools]:
    """The larger figure of two paths keeps an upper limit if both do, and a lower one if either does."""
    margins, oks = (short.margin[:, place], long.margin[:, place]), (short.ok[:, place], long.ok[:, place])
    lacks = (short.absent[:, place], long.absent[:, place])
    both_lack = lacks[0] & lacks[1]
    if gate["op"] in UPPER_LIMITS:
        return np.minimum(*margins), oks[0] & oks[1], both_lack
    known = [np.where(lack, -np.inf, margin) for lack, margin in zip(lacks, margins, strict=True)]
    return np.maximum(*known), (oks[0] & ~lacks[0]) | (oks[1] & ~lacks[1]), both_lack


def _gate_together(
    short: Side,
    long: Side,
    gate: Gate,
    limit: float,
    place: int,
    pressures: Floats,
    headrooms: Floats,
    gpus: Floats,
    parts: float,
) -> tuple[Floats, Bools, Bools]:
    kind = role(gate)
    if kind == LEAST:
        return _larger_of(short, long, gate, place)
    if kind == SUM:
        figure = significant_values(np.clip(short.part[:, place] + long.part[:, place], 0.0, 1.0))
    elif kind == PRESSURE:
        pressure = pressures[:, BOUNDS.index(gate["bound"])]
        figure = pressure if gate["metric"] == "pressure" else headrooms[:, BOUNDS.index(gate["bound"])]
    else:
        figure = gpus if gate["metric"] == "gpus" else np.full(len(gpus), parts)
    limits = np.full(len(gpus), limit)
    with np.errstate(all="ignore"):
        return _margin(gate, figure, limits), holds(gate, figure, limits), np.isnan(figure)
