"""The best of all pairs of two paths, not looking at all: levels of GPUs are bounded by what is best of each (docs/arithmetic.md, 10)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Floats
from pipelines.planning.margins import Gate
from pipelines.planning.sides import Pairs, Side, combines, together

Key = tuple[float, ...]


@dataclass(frozen=True)
class Best:
    """The scenario that speaks for a topology: where its two rows are, and the key by which it was preferred, smallest first."""

    key: Key
    short: int
    long: int


@dataclass(frozen=True)
class Minimum:
    """The smallest figure with so many GPUs, and the first pair that has it."""

    gpus: int
    value: float
    code: float
    pair: tuple[int, int]


def nothing_beside(gates: int) -> Side:
    """The other path of a topology that has one: it takes no GPUs and meets everything."""
    none = np.zeros((1, gates))
    return Side(
        gpus=np.zeros(1),
        code=np.zeros(1),
        refused=np.zeros((1, 2), dtype=bool),
        loaded=np.zeros((1, 2), dtype=bool),
        pressure=np.full((1, 2), np.nan),
        headroom=np.full((1, 2), np.nan),
        margin=np.full((1, gates), np.inf),
        ok=np.ones((1, gates), dtype=bool),
        part=none,
        absent=np.ones((1, gates), dtype=bool),
        figures=np.full((1, 3), np.nan),
        within=np.ones((1, 3), dtype=bool),
    )


def _keys(pairs: Pairs, prefer: Sequence[str], parts: float, threshold: int) -> Floats:
    """One row per pair: whether it passes, how it ranks among those that pass or that miss, and its place in the matrix."""
    ranking = {"operating_parts": np.full(len(pairs.gpus), parts), "gpus": pairs.gpus, "margin": -pairs.margin}
    passing = [ranking[name] for name in prefer]
    missing = [pairs.refusals, pairs.violation, np.nan_to_num(pairs.pressure, nan=np.inf), pairs.gpus]
    width = max(len(passing), len(missing))
    padded = [
        np.stack([*columns, *[np.zeros(len(pairs.gpus))] * (width - len(columns))], axis=1)
        for columns in (passing, missing)
    ]
    ranks = np.where(pairs.passes[:, None], *padded)
    place = np.full(len(pairs.gpus), float(threshold))
    return np.column_stack([~pairs.passes, ranks, place, pairs.code])


def _smallest(keys: Floats) -> int:
    return int(np.lexsort(keys.T[::-1])[0])


def best_pair(
    short: Side,
    long: Side,
    gates: Sequence[Gate],
    prefer: Sequence[str],
    parts: float,
    most_gpus: int,
    threshold: int,
    *,
    examined: bool,
) -> Best:
    """The pair that is preferred among those that pass, else the nearest miss, of all that fit ``most_gpus``."""
    limits = [float(gate["limit"]) for gate in gates]
    codes = float(long.code.max()) + 1

    def keys(one: Side, other: Side) -> Floats:
        return _keys(together(one, other, gates, limits, parts, codes, examined), prefer, parts, threshold)

    one_levels, one_best = short.best_of_levels()
    other_levels, other_best = long.best_of_levels()
    first, second = np.nonzero(one_levels[:, None] + other_levels[None, :] <= most_gpus)
    bounds = keys(one_best.at(first), other_best.at(second))
    if not all(combines(gate) for gate in gates):
        bounds[:] = -np.inf  # nothing is known of a block that was not looked at
    order = np.lexsort(bounds.T[::-1])
    best: Best | None = None
    by_level = {level: np.flatnonzero(short.gpus == level) for level in one_levels}
    by_other = {level: np.flatnonzero(long.gpus == level) for level in other_levels}
    for block in order:
        if best is not None and tuple(bounds[block]) > best.key:
            break
        ones, others = by_level[one_levels[first[block]]], by_other[other_levels[second[block]]]
        one, other = (grid.ravel() for grid in np.meshgrid(ones, others, indexing="ij"))
        own = keys(short.at(one), long.at(other))
        place = _smallest(own)
        key = tuple(float(value) for value in own[place])
        if best is None or key < best.key:
            best = Best(key, int(one[place]), int(other[place]))
    assert best is not None
    return best


def level_minima(short: Side, long: Side, figure: int, most_gpus: int) -> list[Minimum]:
    """Of every number of GPUs the smallest figure of a pair that is refused under no bound and holds the other objectives."""
    one, other = _candidates(short, figure), _candidates(long, figure)
    if not len(one) or not len(other):
        return []
    one_levels, one_least = _least(short, one, figure)
    other_levels, other_least = _least(long, other, figure)
    first, second = np.nonzero(one_levels[:, None] + other_levels[None, :] <= most_gpus)
    totals, values = one_levels[first] + other_levels[second], np.fmax(one_least[first], other_least[second])
    found = []
    for total in np.unique(totals):
        own = np.flatnonzero(totals == total)
        value = np.nanmin(values[own]) if not np.isnan(values[own]).all() else np.nan
        if np.isnan(value):
            continue
        codes = float(long.code.max()) + 1
        pairs = [
            _first(short, one, one_levels[first[block]], long, other, other_levels[second[block]], figure, value)
            for block in own
            if values[block] == value
        ]
        code, pair = min((short.code[a] * codes + long.code[b], (a, b)) for a, b in pairs)
        found.append(Minimum(int(total), float(value), float(code), pair))
    return found


def _candidates(of: Side, figure: int) -> NDArray[np.int64]:
    others = [place for place in range(of.within.shape[1]) if place != figure]
    return np.flatnonzero(~of.refused.any(axis=1) & of.within[:, others].all(axis=1))


def _least(of: Side, candidates: NDArray[np.int64], figure: int) -> tuple[Floats, Floats]:
    """The levels of GPUs among ``candidates``, and the smallest figure of each; NaN where none has it."""
    levels, inverse = np.unique(of.gpus[candidates], return_inverse=True)
    least = np.full(len(levels), np.inf)
    np.minimum.at(least, inverse, np.nan_to_num(of.figures[candidates, figure], nan=np.inf))
    absent = np.isinf(least)
    return levels, np.where(absent, np.nan, least)


def _first(
    short: Side,
    one: NDArray[np.int64],
    one_level: float,
    long: Side,
    other: NDArray[np.int64],
    other_level: float,
    figure: int,
    value: float,
) -> tuple[int, int]:
    """The first pair of two levels whose figures are not above ``value``."""

    def first(of: Side, candidates: NDArray[np.int64], level: float) -> int:
        own = candidates[of.gpus[candidates] == level]
        fitting = own[~(of.figures[own, figure] > value)]
        return int(fitting[of.code[fitting].argmin()])

    return first(short, one, one_level), first(long, other, other_level)
