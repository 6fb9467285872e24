"""Searches for what the verifier only tries: break-evens, more GPUs, rates; and fills `search` and `changes` of a receipt."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipelines.oracle.changes import DOWN, LARGEST_FACTOR, UP, _moved, distance_of
from pipelines.oracle.changing import Bench, Standing, is_chosen
from pipelines.oracle.deciding import Candidate, Choice
from pipelines.oracle.findings import round_significant
from pipelines.oracle.parameters import CONCURRENCY, RATE, SEPARATED
from pipelines.oracle.recomputing import Plan
from pipelines.oracle.scenario import Knobs
from pipelines.oracle.searching import frontier_of

Receipt = dict[str, Any]
STEPS = [1.1, *(2 ** (step / 2) for step in range(1, 9))]


def digits(value: float | None) -> float | None:
    return None if value is None else round_significant(value, 10)


def search_of(plan: Plan, choice: Choice) -> Receipt:
    total, rows = plan.inventory.count(), plan.receipt["scenarios"]
    baselines = []
    for candidate in choice.speaking:
        knobs = plan.inventory.parse(candidate.name)
        if knobs is not None and knobs.topology in SEPARATED:
            others = plan.inventory.baselines(knobs)
            names = {kind: [k.name for k in others if k.topology == kind] for kind in ("aggregated", "chunked")}
            aggregated = names["aggregated"][0] if names["aggregated"] else None
            baselines.append({"scenario": knobs.name, "aggregated": aggregated, "chunked": names["chunked"]})
    return {"scenarios": total, "kept": len(rows), "complete": total <= 1000,
            "frontier": frontier_of(rows, plan.inputs), "baselines": baselines}  # fmt: skip


def changes_of(plan: Plan, choice: Choice, prefer: Sequence[str], *, thorough: bool = False) -> Receipt:
    bench = Bench(plan)
    speaking = [_speaking(plan, bench, candidate, thorough) for candidate in choice.speaking]
    return {"speaking": speaking, "measure_next": _measure_next(plan, choice, prefer, speaking)}


def _speaking(plan: Plan, bench: Bench, candidate: Candidate, thorough: bool) -> Receipt:
    knobs = plan.inventory.parse(candidate.name)
    assert knobs is not None
    base, paths = bench.standing(knobs), bench.changed_inputs(knobs.topology)
    sides = {path: [bench.standing(knobs, path, factor) if bench.changeable(path, factor) else None
                    for factor in (DOWN, UP)] for path in paths}  # fmt: skip
    moves = {path: max((_moved(base, side) for side in both if side), default=-1.0)
             for path, both in sides.items() if not is_chosen(path)}  # fmt: skip
    furthest = max(moves.values(), default=-1.0)
    evens = [row for path in paths for row in _break_evens(bench, knobs, base, path, sides[path], thorough)]
    nearest = min(evens, key=distance_of, default=None)
    return {
        "topology": knobs.topology,
        "scenario": knobs.name,
        "margin": digits(base.margin),
        "most_sensitive": next((path for path, move in moves.items() if move == furthest and move >= 0), None),
        "sensitivity": [_sensitivity(path, *both) for path, both in sides.items()],
        "break_even": evens,
        "fix": {name: nearest[name] for name in ("path", "factor", "value")} if nearest and not base.passes else None,
        "more_gpus": None if base.passes else _more_gpus(plan, bench, knobs),
        "rate": _rate(plan, bench, knobs, base, evens),
        "one_worker_less": [
            {"pool": pool, "workers": size, "load_factor": digits(size / (size - 1)) if size > 1 else None,
             "passes": standing.passes, "margin": digits(standing.margin)}
            for pool, size, standing in bench.one_less(knobs)
        ],
    }  # fmt: skip


def _sensitivity(path: str, down: Standing | None, up: Standing | None) -> Receipt:
    return {"path": path, "margin_down": digits(down.margin) if down else None,
            "margin_up": digits(up.margin) if up else None, "passes_down": down.passes if down else None,
            "passes_up": up.passes if up else None}  # fmt: skip


def _break_evens(
    bench: Bench, knobs: Knobs, base: Standing, path: str, sides: Sequence[Standing | None], thorough: bool
) -> list[Receipt]:
    found = []
    for outward, side in ((-1, sides[0]), (1, sides[1])):
        if thorough or (side is not None and side.passes != base.passes):
            factor = _turn(bench, knobs, base, path, outward)
            if factor is not None:
                found.append({"path": path, "factor": factor, "value": digits(bench.value(path) * factor),
                              "event": "fails" if base.passes else "passes"})  # fmt: skip
    return found


def _turn(bench: Bench, knobs: Knobs, base: Standing, path: str, outward: int) -> float | None:
    """The factor nearest to 1, in one direction, at which passing changes."""

    def turned(factor: float) -> bool:
        return bench.standing(knobs, path, factor).passes != base.passes

    before = 1.0
    for step in STEPS if outward > 0 else [1 / 0.9, *STEPS[1:]]:
        after = min(step, LARGEST_FACTOR) ** outward
        if not bench.changeable(path, after):
            return None
        if turned(after):
            while abs(math.log(after / before)) > 1e-11:
                middle = math.sqrt(before * after)
                before, after = (before, middle) if turned(middle) else (middle, after)
            return round_significant(after, 8)
        before = after
    return None


def _more_gpus(plan: Plan, bench: Bench, knobs: Knobs) -> Receipt | None:
    """Three times as many workers are tried; the fewest GPUs are a matter for the planner."""
    larger = replace(plan.inventory, gpus=4 * plan.inventory.gpus)
    sizes = {f"workers_{pool}": 3 * size for pool, size in knobs.pools.items()}
    tried = replace(knobs, **sizes)  # type: ignore[arg-type]
    there = larger.has(tried) and larger.gpus_of(tried) > plan.inventory.gpus and bench.standing(tried).passes
    return {"gpus": larger.gpus_of(tried), "scenario": tried.name} if there else None


def _rate(plan: Plan, bench: Bench, knobs: Knobs, base: Standing, evens: Sequence[Receipt]) -> Receipt | None:
    closed = CONCURRENCY in plan.inputs.rows
    path = CONCURRENCY if closed else RATE
    own = next((row for row in evens if row["path"] == path and (row["factor"] > 1) == base.passes), None)
    if own is None:
        return None
    failing = bench.standing(knobs, path, own["factor"] * (1 + 1e-6)).failing
    return {"factor": own["factor"], "rate_rps": None if closed else digits(bench.value(path) * own["factor"]),
            "event": own["event"], "gate": failing.gate["id"] if failing else None,
            "verdict": failing.verdict if failing else None}  # fmt: skip


def _measure_next(plan: Plan, choice: Choice, prefer: Sequence[str], speaking: Sequence[Receipt]) -> list[str]:
    chosen, distances = choice.chosen, {}
    keys = list(itertools.takewhile(lambda key: key != "margin", prefer))
    for row, candidate in zip(speaking, choice.speaking, strict=True):
        preferred = chosen is None or candidate.preference(keys)[:-1] < chosen.preference(keys)[:-1]
        if candidate is chosen or (not candidate.passes and preferred):
            for even in row["break_even"]:
                distances[even["path"]] = min(distances.get(even["path"], math.inf), distance_of(even))
    rows, trace = plan.inputs.rows, plan.receipt["workload"]["provenance"]
    order = [RATE, *(path for path in rows if path != RATE)]
    found = [
        p
        for p in order
        if p in distances and not is_chosen(p) and (rows[p]["provenance"] if p in rows else trace) != "observed"
    ]
    return sorted(found, key=lambda path: distances[path])[:5]
