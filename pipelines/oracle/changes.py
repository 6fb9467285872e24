"""What would change the decision: recomputed where it is a figure, tried where it was searched (section 9)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from .changing import Bench, Standing, is_chosen
from .deciding import Candidate, Choice
from .findings import SIGNIFICANT_DIGITS, Ledger, close
from .parameters import CONCURRENCY, RATE
from .recomputing import Plan
from .scenario import Knobs

CHECK = "changes"
SECTION = "docs/arithmetic.md section 9"
DOWN, UP = 0.9, 1.1
LEAST_FACTOR, LARGEST_FACTOR = 1 / 16, 16.0
FIRST_STEP, FIRST_STEP_OF_LOOP = 2**0.25, 2.0
FACTOR_DIGITS = 8
"""Break-evens are looked for on four steps per doubling (one in a closed loop), and narrowed down to so many digits."""
NEAR, NEAR_OF_LOOP = 1e-6, 1e-4
"""By this share before and after a break-even, passing is not the same: by the larger in a closed loop, whose rate is solved twice."""
MOST_TO_MEASURE = 5
MOST_INVENTORY = 4
"""So many times the GPUs are looked at to mend a nearest miss."""
_MARGIN = 1e-8
"""Rounding of margins, which are differences, some of them of solved rates."""
_ALIKE = 1e-9
"""Inputs that move a margin as far as this are alike."""


@dataclass(frozen=True)
class Speaking:
    """A scenario that stands for its topology, as it is and as the receipt says it would change."""

    where: str
    found: Mapping[str, Any]
    candidate: Candidate
    knobs: Knobs
    base: Standing


def check_changes(ledger: Ledger, plan: Plan, choice: Choice, prefer: Sequence[str]) -> None:
    """Check everything that is said of the speaking scenarios, and what is to be measured next."""
    rows, candidates = plan.receipt["changes"]["speaking"], choice.speaking
    found = [(row["topology"], row["scenario"]) for row in rows]
    expected = [(candidate.topology, candidate.name) for candidate in candidates]
    if not ledger.listed(CHECK, "changes.speaking", found, expected, "one of each compared topology"):
        return
    bench = Bench(plan)
    for row, candidate in zip(rows, candidates, strict=True):
        knobs, where = plan.inventory.parse(candidate.name), f"changes.speaking[{candidate.topology}]"
        if knobs is None:
            continue
        try:
            _check_speaking(ledger, bench, Speaking(where, row, candidate, knobs, bench.standing(knobs)))
        except (ArithmeticError, ValueError) as error:
            ledger.holds(CHECK, where, False, candidate.name, f"nothing: {error}", "the inputs give no number here")
    _check_measure_next(ledger, plan, choice, prefer)


def _check_speaking(ledger: Ledger, bench: Bench, of: Speaking) -> None:
    _check_margin(ledger, f"{of.where}.margin", of.found["margin"], of.base.margin)
    paths = bench.changed_inputs(of.candidate.topology)
    _check_sensitivity(ledger, bench, of, paths)
    _check_break_evens(ledger, bench, of, paths)
    _check_fix(ledger, of)
    _check_more_gpus(ledger, bench, of)
    _check_rate(ledger, bench, of)
    _check_one_worker_less(ledger, bench, of)


def _check_margin(ledger: Ledger, where: str, found: float | None, expected: float | None) -> None:
    if found is None or expected is None:
        ledger.same(CHECK, where, found, expected, SECTION)
        return
    ledger.rounded(where, found, SIGNIFICANT_DIGITS)
    near = close(found, expected, 1.0) or abs(found - expected) <= _MARGIN * (1 + abs(expected))
    ledger.holds(CHECK, where, near, found, expected, SECTION)


def _check_sensitivity(ledger: Ledger, bench: Bench, of: Speaking, paths: Sequence[str]) -> None:
    """Check the margin with every input at 0.9 and at 1.1 of its value, and which of them moves it most."""
    rows, where = of.found["sensitivity"], f"{of.where}.sensitivity"
    listed = [row["path"] for row in rows]
    if not ledger.listed(CHECK, where, listed, list(paths), "inputs with a number that is read, in table order"):
        return
    moves: dict[str, float] = {}
    for row in rows:
        path, sides = row["path"], []
        for side, factor in (("down", DOWN), ("up", UP)):
            standing = bench.standing(of.knobs, path, factor) if bench.changeable(path, factor) else None
            margin, passes = (standing.margin, standing.passes) if standing else (None, None)
            place = f"{where}[{path}]"
            _check_margin(ledger, f"{place}.margin_{side}", row[f"margin_{side}"], margin)
            ledger.same(CHECK, f"{place}.passes_{side}", row[f"passes_{side}"], passes, SECTION)
            if standing is not None:
                sides.append(_moved(of.base, standing))
            if passes is not None and passes != of.base.passes:
                _check_turned(ledger, bench, of, path, factor)
        moves[path] = -1.0 if is_chosen(path) else max(sides, default=-1.0)
    _check_most_sensitive(ledger, of, moves)


def _moved(base: Standing, other: Standing) -> float:
    """Return how far a margin moves; a scenario that is refused, and was not, moves most; so does one that gains a margin."""
    if base.margin is None:
        return -1.0 if other.margin is None else math.inf
    return math.inf if other.margin is None else abs(other.margin - base.margin)


def _check_most_sensitive(ledger: Ledger, of: Speaking, moves: Mapping[str, float]) -> None:
    found, where = of.found["most_sensitive"], f"{of.where}.most_sensitive"
    furthest = max(moves.values(), default=-1.0)
    if furthest < 0:
        ledger.same(CHECK, where, found, None, "there is no margin to move")
        return
    first = next(path for path, move in moves.items() if move == furthest)
    moved = 0.0 if found is None else moves.get(found, -1.0)  # nothing is named where nothing moves
    alike = moved >= 0 and (moved >= furthest - _ALIKE * (1 + furthest) if furthest < math.inf else False)
    ledger.holds(CHECK, where, found == first or alike, found, first, SECTION)


def _check_turned(ledger: Ledger, bench: Bench, of: Speaking, path: str, factor: float) -> None:
    """What does not pass as before from a small change on to the first step of the search breaks even on the way."""
    first = FIRST_STEP_OF_LOOP if CONCURRENCY in bench.plan.inputs.rows else FIRST_STEP
    step = first if factor > 1 else 1 / first
    if not bench.changeable(path, step) or bench.standing(of.knobs, path, step).passes == of.base.passes:
        return
    low, high = min(step, 1.0), max(step, 1.0)
    between = [row for row in of.found["break_even"] if row["path"] == path and low <= row["factor"] <= high]
    why = f"passing is not the same at a factor of {factor}"
    ledger.holds(CHECK, f"{of.where}.break_even[{path}]", bool(between), "nothing", f"{low} to {high}", why)


def _check_break_evens(ledger: Ledger, bench: Bench, of: Speaking, paths: Sequence[str]) -> None:
    """Check their order, and that passing changes at each of them."""
    rows, where = of.found["break_even"], f"{of.where}.break_even"
    order = [(paths.index(row["path"]) if row["path"] in paths else -1, row["factor"]) for row in rows]
    ascending = order == sorted(set(order)) and all(place >= 0 for place, _ in order)
    ledger.holds(
        CHECK, where, ascending, [row["path"] for row in rows], "inputs in table order, then ascending factors"
    )
    sides = [(row["path"], row["factor"] < 1) for row in rows]
    ledger.same(CHECK, where, len(set(sides)), len(sides), "one break-even below and one above at most")
    for row in rows:
        if row["path"] in paths:
            _check_break_even(ledger, bench, of, row)


def _check_break_even(ledger: Ledger, bench: Bench, of: Speaking, row: Mapping[str, Any]) -> None:
    path, factor, where = row["path"], row["factor"], f"{of.where}.break_even[{row['path']}]"
    ledger.rounded(f"{where}.factor", factor, FACTOR_DIGITS)
    known = LEAST_FACTOR * (1 - NEAR) <= factor <= LARGEST_FACTOR * (1 + NEAR) and factor != 1
    if not ledger.holds(CHECK, f"{where}.factor", known, factor, "1/16 to 16, not 1", SECTION):
        return
    ledger.figure(CHECK, f"{where}.value", row["value"], bench.value(path) * factor, "value x factor")
    event = "fails" if of.base.passes else "passes"
    ledger.same(CHECK, f"{where}.event", row["event"], event, "what the scenario does beyond the factor")
    near = NEAR_OF_LOOP if CONCURRENCY in bench.plan.inputs.rows else NEAR
    outward = 1 + near if factor > 1 else 1 - near
    before, after = factor / outward, factor * outward
    reached = bench.changeable(path, after)
    changes = (
        reached
        and bench.standing(of.knobs, path, before).passes == of.base.passes
        and bench.standing(of.knobs, path, after).passes != of.base.passes
    )
    ledger.holds(CHECK, f"{where}.factor", changes, factor, f"{event} between {before} and {after}", SECTION)


def _check_fix(ledger: Ledger, of: Speaking) -> None:
    """Check that the fix of a nearest miss is the break-even nearest to 1."""
    found, where = of.found["fix"], f"{of.where}.fix"
    nearest = [] if of.base.passes else nearest_break_evens(of.found["break_even"])
    if not nearest or found is None:
        expected = _fix(nearest[0]) if nearest else None
        ledger.same(CHECK, where, found, expected, "of a nearest miss, the break-even nearest to 1")
        return
    fixes = [_fix(row) for row in nearest]
    ledger.holds(CHECK, where, found in fixes, found, fixes[0], SECTION)


def _fix(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("path", "factor", "value")}


def nearest_break_evens(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the break-evens with the smallest `|ln factor|`."""
    distances = [distance_of(row) for row in rows]
    return [row for row, distance in zip(rows, distances, strict=True) if distance <= min(distances) * (1 + 1e-9)]


def distance_of(row: Mapping[str, Any]) -> float:
    """`|ln factor|` of a break-even."""
    return abs(math.log(row["factor"])) if row["factor"] > 0 else math.inf


def _check_more_gpus(ledger: Ledger, bench: Bench, of: Speaking) -> None:
    """Check that the named scenario passes on the larger inventory, and occupies all that is said to be needed."""
    found, where = of.found["more_gpus"], f"{of.where}.more_gpus"
    if found is None:
        return
    inventory = bench.plan.inventory
    most = MOST_INVENTORY * inventory.gpus
    ledger.same(CHECK, where, of.base.passes, False, "only a nearest miss needs more")
    knobs = replace(inventory, gpus=most).parse(found["scenario"])
    if knobs is None or knobs.topology != of.candidate.topology:
        ledger.holds(CHECK, f"{where}.scenario", False, found["scenario"], f"a {of.candidate.topology} scenario")
        return
    gpus = inventory.gpus_of(knobs)
    ledger.same(CHECK, f"{where}.gpus", found["gpus"], gpus, "the GPUs that the scenario occupies")
    ledger.holds(CHECK, f"{where}.gpus", inventory.gpus < gpus <= most, gpus, f"above {inventory.gpus}, up to {most}")
    ledger.holds(
        CHECK, f"{where}.scenario", bench.standing(knobs).passes, found["scenario"], "one that passes", SECTION
    )


def _check_rate(ledger: Ledger, bench: Bench, of: Speaking) -> None:
    """Check that the rate's headroom is its break-even, and which gate fails just beyond it."""
    closed = CONCURRENCY in bench.plan.inputs.rows
    found, where, path = of.found["rate"], f"{of.where}.rate", CONCURRENCY if closed else RATE
    own = [row for row in of.found["break_even"] if row["path"] == path and (row["factor"] > 1) == of.base.passes]
    if found is None or not own:
        ledger.same(CHECK, where, found, own[0] if own else None, f"the break-even of {path}")
        return
    factor = own[0]["factor"]
    for name in ("factor", "event"):
        ledger.same(CHECK, f"{where}.{name}", found[name], own[0][name], f"the break-even of {path}")
    rate = None if closed else bench.value(RATE) * factor
    ledger.figure(CHECK, f"{where}.rate_rps", found["rate_rps"], rate, "rate x factor; solved in a closed loop")
    failing = bench.standing(of.knobs, path, factor * (1 + NEAR)).failing
    expected = (failing.gate["id"], failing.verdict) if failing else (None, None)
    ledger.same(CHECK, f"{where}.gate", found["gate"], expected[0], "the first gate that is not passed beyond it")
    ledger.same(CHECK, f"{where}.verdict", found["verdict"], expected[1], "its verdict")


def _check_one_worker_less(ledger: Ledger, bench: Bench, of: Speaking) -> None:
    rows, expected = of.found["one_worker_less"], bench.one_less(of.knobs)
    where, names = f"{of.where}.one_worker_less", [pool for pool, *_ in expected]
    if not ledger.listed(CHECK, where, [row["pool"] for row in rows], names, "each pool in turn"):
        return
    for row, (pool, workers, standing) in zip(rows, expected, strict=True):
        place = f"{where}[{pool}]"
        ledger.same(CHECK, f"{place}.workers", row["workers"], workers, "workers before one is lost")
        grown = workers / (workers - 1) if workers > 1 else None
        ledger.figure(CHECK, f"{place}.load_factor", row["load_factor"], grown, "n/(n - 1)")
        ledger.same(CHECK, f"{place}.passes", row["passes"], standing.passes, SECTION)
        _check_margin(ledger, f"{place}.margin", row["margin"], standing.margin)


def _check_measure_next(ledger: Ledger, plan: Plan, choice: Choice, prefer: Sequence[str]) -> None:
    """Check the inputs that are not observed, by how little of a change in them would change the decision."""
    chosen, keys = choice.chosen, list(takewhile(lambda key: key != "margin", prefer))
    distances: dict[str, float] = {}
    for row, candidate in zip(plan.receipt["changes"]["speaking"], choice.speaking, strict=True):
        preferred = chosen is None or candidate.preference(keys)[:-1] < chosen.preference(keys)[:-1]
        if candidate is chosen or (not candidate.passes and preferred):
            for entry in row["break_even"]:
                distances[entry["path"]] = min(distances.get(entry["path"], math.inf), distance_of(entry))
    order = [RATE, *(path for path in plan.inputs.rows if path != RATE)]
    unobserved = [
        path for path in order if path in distances and not is_chosen(path) and _provenance(plan, path) != "observed"
    ]
    expected = sorted(unobserved, key=lambda path: distances[path])[:MOST_TO_MEASURE]
    ledger.listed(CHECK, "changes.measure_next", plan.receipt["changes"]["measure_next"], expected, SECTION)


def _provenance(plan: Plan, path: str) -> str:
    row = plan.inputs.rows.get(path)
    return str(row["provenance"] if row is not None else plan.receipt["workload"]["provenance"])
