"""What would change the decision: sensitivity, break-even, headroom, one worker less, of speaking scenarios (docs/arithmetic.md, 9)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic.crossings import POINTS, first_crossings
from pipelines.arithmetic.numbers import Bools, Floats
from pipelines.frames.digits import significant
from pipelines.frames.inputs import InputTable
from pipelines.planning.factors import Variable, has_memory, is_measured, varied
from pipelines.planning.margins import VERDICTS, Gate, Rows, Standing, repeated, stand
from pipelines.topologies.constants import CONCURRENCY_INPUT, RATE_INPUT, gpus_per_worker
from pipelines.topologies.paths.path import Sizes
from pipelines.topologies.question import Workload

SWING = 0.1
"""By how much an input is changed up and down for its sensitivity."""

FARTHEST = 16.0
"""Break-evens are looked for down to a part of this and up to its multiple."""

STEPS_PER_DOUBLING, CLOSED_STEPS_PER_DOUBLING = 4, 1
"""How finely break-evens are looked for; in a closed loop, where each step is a search for a rate, less so."""
FACTOR_DIGITS = 8
BEYOND = 1e-6
"""How far beyond a break-even the scenario is looked at."""

_CLOSED_POINTS = 256
"""Rows that one step of narrowing has in a closed loop, where each is a search."""

_ROWS = 4096


@dataclass(frozen=True)
class Sensitivity:
    """The margin with an input a tenth down and up; None where it cannot be changed so far, or a gate is refused."""

    path: str
    margin_down: float | None
    margin_up: float | None
    passes_down: bool | None
    passes_up: bool | None


@dataclass(frozen=True)
class BreakEven:
    """Beyond ``factor`` times its value, away from 1, the scenario ``passes`` or ``fails``; ``value`` in the input's unit."""

    path: str
    factor: float
    value: float
    event: str

    @property
    def distance(self) -> float:
        """|ln factor|."""
        return abs(float(np.log(self.factor)))


@dataclass(frozen=True)
class RateHeadroom:
    """How far the traffic can grow, or must fall: its factor, and the first blocking gate that is not passed on the failing side."""

    factor: float
    value: float
    event: str
    gate: str | None
    verdict: str | None


@dataclass(frozen=True)
class WorkerLess:
    """A scenario with one worker less in ``pool`` of ``workers``; ``load_factor`` is what that multiplies the load of the others by."""

    pool: str
    workers: int
    load_factor: float | None
    passes: bool
    margin: float | None


@dataclass(frozen=True)
class Speaking:
    """A scenario as one row of its layout, with the gates and the inputs that concern it."""

    inputs: InputTable
    workload: Workload
    row: Rows
    gates: Sequence[Gate]
    variables: Sequence[Variable]

    def at(self, paths: list[str], factors: Floats) -> Standing:
        """How the scenario stands where one input each is changed."""
        stands = []
        for begin in range(0, len(paths), _ROWS):
            part = slice(begin, begin + _ROWS)
            inputs = varied(self.inputs, paths[part], factors[part])
            count = len(paths[part])
            rows = replace(self.row, sizes=repeated(self.row.sizes, count), gpus=np.repeat(self.row.gpus, count))
            stands.append(stand(inputs, self.workload, rows, self.gates))
        first = stands[0]
        return Standing(
            first.gates,
            first.examined,
            np.concatenate([one.verdicts for one in stands]),
            np.concatenate([one.margins for one in stands]),
            np.concatenate([one.refused for one in stands]),
        )

    def now(self) -> Standing:
        """How it stands as declared."""
        return stand(self.inputs, self.workload, self.row, self.gates)

    def possible(self, paths: list[str], factors: Floats) -> Bools:
        """Which changes leave what can be evaluated."""
        known = {variable.path: variable for variable in self.variables}
        allowed = np.array([bool(known[path].allows(factor)) for path, factor in zip(paths, factors, strict=True)])
        return allowed & has_memory(varied(self.inputs, paths, np.where(allowed, factors, 1.0)), len(paths))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else significant(float(value))


def sensitivities(of: Speaking) -> list[Sensitivity]:
    """Every input a tenth down and up, all in one evaluation."""
    paths = [variable.path for variable in of.variables for _ in (0, 1)]
    factors = np.array([1 - SWING, 1 + SWING] * len(of.variables))
    possible = of.possible(paths, factors)
    found = of.at(paths, np.where(possible, factors, 1.0))
    margins = [_number(value) if can else None for value, can in zip(found.margin, possible, strict=True)]
    passes = [bool(value) if can else None for value, can in zip(found.passes, possible, strict=True)]
    down, up = slice(None, None, 2), slice(1, None, 2)
    return [
        Sensitivity(variable.path, *both, *whether)
        for variable, both, whether in zip(
            of.variables,
            zip(margins[down], margins[up], strict=True),
            zip(passes[down], passes[up], strict=True),
            strict=True,
        )
    ]


def most_sensitive(rows: list[Sensitivity], margin: float | None) -> str | None:
    """The measured input whose change moves ``margin`` most; the first if equal, None where none does."""

    def moves(row: Sensitivity) -> float:
        sides = [(row.margin_down, row.passes_down), (row.margin_up, row.passes_up)]
        known = [side for side, passes in sides if passes is not None]
        if margin is None:
            return np.inf if any(side is not None for side in known) else 0.0
        return max((np.inf if side is None else abs(side - margin) for side in known), default=0.0)

    best = max((row for row in rows if is_measured(row.path)), key=moves, default=None)
    return best.path if best is not None and moves(best) > 0 else None


def break_evens(of: Speaking) -> list[BreakEven]:
    """Of every input the nearest factors below and above 1 at which the scenario begins or ceases to pass, in table order, ascending."""
    passing = bool(of.now().passes[0])
    each = CLOSED_STEPS_PER_DOUBLING if of.inputs.has(CONCURRENCY_INPUT) else STEPS_PER_DOUBLING
    ladder = 2.0 ** (np.arange(1, int(np.log2(FARTHEST)) * each + 1) / each)
    paths = [variable.path for variable in of.variables]
    flips = _first_flips(of, paths, [1 / ladder, ladder], passing)
    found: list[tuple[str, float]] = []
    if flips:
        flipped = [path for path, _, _ in flips]
        near, far = (np.array([flip[side] for flip in flips]) for side in (1, 2))
        narrowed = _narrowed(of, flipped, near, far, passing)
        found = [(path, _off_one(factor, end)) for path, factor, end in zip(flipped, narrowed, far, strict=True)]
    values = {variable.path: variable.value for variable in of.variables}
    order = {path: place for place, path in enumerate(paths)}
    event = "fails" if passing else "passes"
    return [
        BreakEven(path, factor, significant(values[path] * factor), event)
        for path, factor in sorted(found, key=lambda row: (order[row[0]], row[1]))
    ]


def _off_one(factor: float, far: float) -> float:
    """``factor`` to its digits; of a scenario that stands on the edge, the last one before 1 on the side of ``far``.

    >>> _off_one(0.99999999996, 0.84), _off_one(1.00000000002, 1.19), _off_one(0.75, 0.84)
    (0.99999999, 1.0000001, 0.75)
    """
    rounded = significant(factor, FACTOR_DIGITS)
    if rounded != 1:
        return rounded
    return 1 - 10.0**-FACTOR_DIGITS if far < 1 else 1 + 10.0 ** (1 - FACTOR_DIGITS)


def _first_flips(
    of: Speaking, paths: list[str], ladders: Sequence[Floats], passing: bool
) -> list[tuple[str, float, float]]:
    """Of each path and ladder the first factor at which it is otherwise than now, with the one before it."""
    steps = np.concatenate(ladders)
    every, factors = [path for path in paths for _ in steps], np.tile(steps, len(paths))
    possible = of.possible(every, factors)
    other = (of.at(every, np.where(possible, factors, 1.0)).passes != passing) & possible
    flips = []
    for path, row in zip(paths, other.reshape(len(paths), len(ladders), -1), strict=True):
        for ladder, flipped in zip(ladders, row, strict=True):
            if flipped.any():
                first = int(flipped.argmax())
                flips.append((path, 1.0 if first == 0 else float(ladder[first - 1]), float(ladder[first])))
    return flips


def _narrowed(of: Speaking, paths: list[str], near: Floats, far: Floats, passing: bool) -> Floats:
    """``far`` brought as close to ``near`` as it takes: there the scenario is not as now, just before it is."""

    def look(rows: NDArray[np.int64], factors: Floats) -> tuple[Bools, Floats]:
        found = of.at([paths[row] for row in rows for _ in factors[0]], factors.ravel())
        distance = np.where(np.isnan(found.margin), np.inf, np.abs(found.margin))
        return (found.passes != passing).reshape(factors.shape), distance.reshape(factors.shape)

    _, at_ends = look(np.arange(len(paths)), np.stack([near, far], axis=1))
    points = _CLOSED_POINTS if of.inputs.has(CONCURRENCY_INPUT) else POINTS
    return first_crossings(near, far, at_ends[:, 0], at_ends[:, 1], look, 10.0**-FACTOR_DIGITS / 2, points)[1]


def rate_headroom(of: Speaking, rows: list[BreakEven]) -> RateHeadroom | None:
    """The break-even of the traffic: upwards of a scenario that passes, downwards of one that does not."""
    path = CONCURRENCY_INPUT if of.inputs.has(CONCURRENCY_INPUT) else RATE_INPUT
    own = [row for row in rows if row.path == path and (row.factor > 1) == (row.event == "fails")]
    if not own:
        return None
    row = own[0]
    away = 1 + BEYOND if row.event == "fails" else 1 / (1 - BEYOND)
    failing = of.at([path], np.array([row.factor * away]))
    unmet = [
        (gate["gate"], VERDICTS[verdict])
        for gate, verdict in zip(failing.gates, failing.verdicts[0].tolist(), strict=True)
        if verdict
    ]
    gate, verdict = unmet[0] if unmet else (None, None)
    return RateHeadroom(row.factor, row.value, row.event, gate, verdict)


def workers_less(of: Speaking) -> list[WorkerLess]:
    """The scenario with one worker less in each of its pools in turn."""
    found = []
    for pool in ("mixed", "prefill", "decode"):
        sizes = getattr(of.row.sizes, pool)
        if sizes is None or np.isnan(sizes[0]):
            continue
        workers = int(sizes[0])
        if workers == 1:
            found.append(WorkerLess(pool, 1, None, False, None))
            continue
        fewer: Sizes = replace(of.row.sizes, **{pool: sizes - 1})
        gpus = of.row.gpus - gpus_per_worker(of.inputs)[pool]
        standing = stand(of.inputs, of.workload, replace(of.row, sizes=fewer, gpus=gpus), of.gates)
        factor = significant(workers / (workers - 1))
        found.append(WorkerLess(pool, workers, factor, bool(standing.passes[0]), _number(standing.margin[0])))
    return found
