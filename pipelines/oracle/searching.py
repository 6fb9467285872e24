"""How the answer was searched: how many scenarios there are, which are kept, what they are compared with (section 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .deciding import Choice
from .enumerating import KEPT_AT_MOST
from .findings import Ledger
from .names import BOUNDS, FRONTIERS
from .objectives import Objectives, objectives_of
from .parameters import SEPARATED, Inputs
from .recomputing import Plan
from .scenario import Knobs

CHECK = "search"
SECTION = "docs/arithmetic.md section 10"
BETTER = 0.99
"""A figure that is no smaller than this share of another is no better."""
_LATENCIES = {"ttft": "ttft_worst_s", "tpot": "tpot_worst_s", "stall": "stall_s"}

Row = Mapping[str, Any]


def check_search(ledger: Ledger, plan: Plan, choice: Choice) -> None:
    """Check counts, frontier, baselines, and that what the decision is checked by was kept."""
    found, rows, total = plan.receipt["search"], plan.receipt["scenarios"], plan.inventory.count()
    ledger.same(CHECK, "search.scenarios", found["scenarios"], total, "scenarios of the inventory")
    ledger.same(CHECK, "search.kept", found["kept"], len(rows), "scenarios in this receipt")
    complete = total <= KEPT_AT_MOST
    ledger.same(CHECK, "search.complete", found["complete"], complete, f"up to {KEPT_AT_MOST} scenarios are kept")
    _check_frontier(ledger, found["frontier"], frontier_of(rows, plan.inputs))
    speaking = [knobs for c in choice.speaking if (knobs := plan.inventory.parse(c.name)) is not None]
    _check_baselines(ledger, plan, found["baselines"], [knobs for knobs in speaking if knobs.topology in SEPARATED])
    if not complete:
        kept = {row["scenario"] for row in rows}
        for knobs in demanded(plan, speaking):
            ledger.holds(CHECK, f"scenarios[{knobs.name}]", knobs.name in kept, "nothing", "a row", SECTION)


def demanded(plan: Plan, speaking: Iterable[Knobs]) -> list[Knobs]:
    """Return what has to be kept, beside the frontier: speaking scenarios, neighbours, baselines, single workers."""
    inventory = plan.inventory
    near = [other for knobs in speaking for other in (knobs, *inventory.neighbours(knobs))]
    baselines = [other for knobs in near if knobs.topology in SEPARATED for other in inventory.baselines(knobs)]
    return list(dict.fromkeys((*near, *baselines, *inventory.single_workers())))


def frontier_of(rows: Sequence[Row], inputs: Inputs) -> list[dict[str, Any]]:
    """Return which figures could be promised with how much to operate: what no other scenario improves on."""
    objectives, found = objectives_of(inputs.rows), []
    stall = inputs.nominal("objectives.stall")
    for figure in FRONTIERS:
        candidates = [row for row in rows if _may_stand(row, figure, objectives, stall)]
        points = [(row["operating_parts"], row["gpus"], _value(row, figure)) for row in candidates]
        found += [
            {"figure": figure, "scenario": candidates[place]["scenario"]}
            | dict(zip(("operating_parts", "gpus", "value_s"), points[place], strict=True))
            for place in unimproved(points)
        ]
    return found


def _value(row: Row, figure: str) -> float | None:
    value = row["bounds"]["nominal"][_LATENCIES[figure]]
    return None if value is None else float(value)


def _may_stand(row: Row, figure: str, objectives: Objectives, stall_s: float | None) -> bool:
    """Not refused, with this figure, and within the objectives of the others."""
    if any(row["bounds"][bound]["status"] != "evaluated" for bound in BOUNDS) or _value(row, figure) is None:
        return False
    others = [name for name in FRONTIERS if name != figure]
    return all(_within(row["bounds"]["nominal"], name, objectives, stall_s) for name in others)


def _within(bound: Row, name: str, objectives: Objectives, stall_s: float | None) -> bool:
    """Whether a figure is within its objective, as judged; one that is absent, or has none, is."""
    if name == "stall":
        return stall_s is None or bound["stall_s"] is None or bound["stall_s"] <= stall_s
    bucket = bound[f"{name}_judged_bucket"]
    figure = next((lanes[f"{name}_s"] for lanes in bound["lanes"] if lanes["bucket"] == bucket), None)
    objective = objectives.of(name, bucket) if bucket is not None else None
    return figure is None or objective is None or figure <= objective


def unimproved(points: Sequence[tuple[Any, ...]]) -> list[int]:
    """Return the places of the points (parts, GPUs, figure) whose figure is below 99 % of all before with as few of both.

    >>> unimproved([(1, 2, 0.5), (1, 1, 0.7), (2, 1, 0.7), (1, 2, 0.5), (2, 2, 0.4), (2, 3, 0.399)])
    [1, 0, 4]
    """
    best: list[int] = []
    for place in sorted(range(len(points)), key=lambda place: (points[place], place)):
        parts, gpus, figure = points[place]
        as_few = [points[kept][2] for kept in best if points[kept][0] <= parts and points[kept][1] <= gpus]
        if all(figure < BETTER * other for other in as_few):
            best.append(place)
    return best


def _check_frontier(ledger: Ledger, found: Sequence[Row], expected: Sequence[Row]) -> None:
    places = [(row["figure"], row["scenario"]) for row in found]
    known = [(row["figure"], row["scenario"]) for row in expected]
    if ledger.listed(CHECK, "search.frontier", places, known, SECTION):
        for row, other in zip(found, expected, strict=True):
            for name in ("operating_parts", "gpus", "value_s"):
                where = f"search.frontier[{row['figure']}/{row['scenario']}].{name}"
                ledger.same(CHECK, where, row[name], other[name], "the exported figure")


def _check_baselines(ledger: Ledger, plan: Plan, found: Sequence[Row], speaking: Sequence[Knobs]) -> None:
    names = [row["scenario"] for row in found]
    if not ledger.listed(CHECK, "search.baselines", names, [k.name for k in speaking], "speaking and separated"):
        return
    for row, knobs in zip(found, speaking, strict=True):
        where, others = f"search.baselines[{knobs.name}]", plan.inventory.baselines(knobs)
        aggregated = next((other.name for other in others if other.topology == "aggregated"), None)
        ledger.same(CHECK, f"{where}.aggregated", row["aggregated"], aggregated, SECTION)
        chunked = [other.name for other in others if other.topology == "chunked"]
        ledger.listed(CHECK, f"{where}.chunked", row["chunked"], chunked, SECTION)
