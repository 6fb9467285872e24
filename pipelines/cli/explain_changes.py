"""What a receipt leaves unmeasured, and what would change its decision."""

import math
from typing import Any

from pipelines.cli.explain_reading import BOUNDS, CONCURRENCY_INPUT, RATE_INPUT, Receipt

Json = dict[str, Any]

NEAREST = 4
"""Break-evens that are shown of a scenario."""


def uncertainty(receipt: Receipt) -> Json:
    """What the decision rests on that nobody has observed, what to measure first, and what no receipt can know."""
    rests_on = receipt.json["decision"]["rests_on"]
    unobserved = [row["path"] for row in rests_on if row["provenance"] != "observed"]
    screening = [
        {"scenario": row["scenario"], "bound": bound, "marks": marks}
        for row in receipt.speaking
        for bound in BOUNDS
        if (marks := receipt.scenario(row["scenario"])["bounds"][bound]["screening"])
    ]
    return {
        "inputs": len(rests_on),
        "unobserved": unobserved,
        "unobserved_share": receipt.json["decision"]["unobserved_share"],
        "measure_next": [_to_measure(receipt, path) for path in receipt.json["changes"]["measure_next"]],
        "unmeasured": receipt.json["truth_boundary"]["unmeasured"],
        "screening": screening,
    }


def _to_measure(receipt: Receipt, path: str) -> Json:
    """An input and the break-even that makes it matter: the nearest of those that would change the decision."""
    candidates = [
        {"scenario": one["scenario"]} | {name: row[name] for name in ("factor", "value", "event")}
        for one in receipt.json["changes"]["speaking"]
        if _decides(receipt, one["scenario"])
        for row in one["break_even"]
        if row["path"] == path
    ]
    of = receipt.input(path)
    nearest = min(candidates, key=_distance, default=None)
    return {name: of[name] for name in ("path", "unit", "value", "provenance")} | {"break_even": nearest}


def _decides(receipt: Receipt, name: str) -> bool:
    """Whether the decision changes where the scenario begins or ceases to pass (docs/arithmetic.md, section 9)."""
    chosen, own = receipt.chosen, receipt.scenario(name)
    if chosen is None or name == chosen:
        return True
    prefer = receipt.json["rules"]["decision"]["prefer"]
    before = prefer[: prefer.index("margin")] if "margin" in prefer else prefer
    best = receipt.scenario(chosen)
    return not own["passes"] and [own[key] for key in before] < [best[key] for key in before]


def changes(receipt: Receipt) -> list[Json]:
    """Of each speaking scenario that was chosen or missed: the nearest break-evens, its mending, and its room."""
    return [_of_scenario(receipt, row) for row in receipt.speaking]


def _of_scenario(receipt: Receipt, row: Json) -> Json:
    passes = receipt.scenario(row["scenario"])["passes"]
    nearest = sorted(row["break_even"], key=_distance)[:NEAREST]
    return {
        "topology": row["topology"],
        "scenario": row["scenario"],
        "standing": receipt.standing(row["topology"], row["scenario"]),
        "margin": row["margin"],
        "most_sensitive": row["most_sensitive"],
        "break_evens": len(row["break_even"]),
        "nearest": [_break_even(receipt, one) for one in nearest],
        "fix": None if row["fix"] is None else _break_even(receipt, row["fix"] | {"event": "passes"}),
        "more_gpus": row["more_gpus"],
        "rate": _rate(receipt, row),
        "one_worker_less": [one | {"oscillates": passes and not one["passes"]} for one in row["one_worker_less"]],
    }


def _break_even(receipt: Receipt, row: Json) -> Json:
    of = receipt.input(row["path"])
    known = {"path": row["path"], "unit": of["unit"], "declared": of["value"], "provenance": of["provenance"]}
    return known | {name: row[name] for name in ("factor", "value", "event")}


def _rate(receipt: Receipt, row: Json) -> Json | None:
    """How far the traffic is from where the verdict changes, in requests/s or, in a closed loop, in requests at once."""
    rate = row["rate"]
    if rate is None:
        return None
    path = CONCURRENCY_INPUT if CONCURRENCY_INPUT in receipt.inputs else RATE_INPUT
    same = (one["value"] for one in row["break_even"] if one["path"] == path and one["factor"] == rate["factor"])
    known = {name: rate[name] for name in ("factor", "event", "gate", "verdict")}
    return {"path": path, "now": receipt.input(path)["value"], "value": next(same, rate["rate_rps"])} | known


def _distance(row: Json) -> float:
    """How far a factor is from 1; one of 0 is infinitely far."""
    return abs(math.log(row["factor"])) if row["factor"] > 0 else math.inf
