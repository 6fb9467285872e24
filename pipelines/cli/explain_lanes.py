"""Which lane shrank and which grew between two scenarios of a receipt, bucket by bucket."""

import math
from typing import Any

from pipelines.cli.explain_reading import SEPARATED, Receipt
from pipelines.cli.explain_words import LEAST_CHANGE_S, why_refused

Json = dict[str, Any]

LANES = (
    "admission",
    "prefill_wait",
    "prefill_execution",
    "transfer_wait",
    "kv_movement",
    "decode_wait",
    "first_decode_step",
    "remaining_generation",
)

TOTALS = ("ttft_s", "tpot_s", "e2e_s")


def comparisons(receipt: Receipt) -> list[Json]:
    """Every pair of scenarios that a reviewer asks about, from the one without separation to the other."""
    return [_compared(receipt, *pair) for pair in _pairs(receipt)]


def _pairs(receipt: Receipt) -> list[tuple[str, str, str]]:
    """Baseline, scenario, and why these two."""
    chosen = receipt.chosen
    speaking = [row["scenario"] for row in receipt.speaking]
    if chosen is not None and receipt.scenario(chosen)["topology"] not in SEPARATED:
        return [(chosen, name, "the chosen one") for name in speaking if name != chosen]
    separated = [name for name in speaking if receipt.scenario(name)["topology"] in SEPARATED]
    focus = [name for name in separated if name == chosen] or separated
    if not focus and chosen is None and len(speaking) > 1:
        return [(speaking[0], name, "the first compared") for name in speaking[1:]]
    pairs: list[tuple[str, str, str]] = []
    for name in focus:
        pairs += [(baseline, name, why) for baseline, why in _baselines(receipt, name)]
    return pairs


def _baselines(receipt: Receipt, name: str) -> list[tuple[str, str]]:
    """The aggregated baseline of a separated scenario, and of the chunked ones that which comes nearest to passing."""
    row = next((row for row in receipt.json["search"]["baselines"] if row["scenario"] == name), None)
    if row is None:
        return []
    found = [] if row["aggregated"] is None else [(row["aggregated"], "the aggregated baseline")]
    if row["chunked"]:
        nearest = min(row["chunked"], key=lambda one: _distance(receipt, one))
        among = len(row["chunked"])
        which = "the chunked baseline" if among == 1 else f"of {among} chunked baselines the nearest to passing"
        found.append((nearest, which))
    return found


def _distance(receipt: Receipt, name: str) -> tuple[int, float]:
    """How far a scenario is from passing: gates without a figure, then the worst margin."""
    verdicts = [
        row for row in receipt.scenario(name)["verdicts"] if row["gate"] in receipt.blocking and not row["waived"]
    ]
    without = sum(row["verdict"] == "refused" for row in verdicts)
    return without, -min((row["margin"] for row in verdicts if row["margin"] is not None), default=-math.inf)


def _compared(receipt: Receipt, baseline: str, scenario: str, why: str) -> Json:
    names = {"baseline": baseline, "scenario": scenario}
    rows = {side: receipt.scenario(name) for side, name in names.items()}
    bounds = {side: row["bounds"]["nominal"] for side, row in rows.items()}
    first = {side: _first_tokens(receipt, row["topology"]) for side, row in rows.items()}
    refusals = [
        {"scenario": names[side], "reason": why_refused(bound["refusal"])}
        for side, bound in bounds.items()
        if bound["refusal"] is not None
    ]
    after = {lanes["bucket"]: lanes for lanes in bounds["scenario"]["lanes"]}
    buckets = [
        _bucket(before, after[before["bucket"]]) for before in bounds["baseline"]["lanes"] if before["bucket"] in after
    ]
    return names | {
        "baseline_is": why,
        "baseline_gpus": rows["baseline"]["gpus"],
        "scenario_gpus": rows["scenario"]["gpus"],
        "refused": refusals,
        "first_token_elsewhere": first["baseline"] != first["scenario"],
        "stall": _moved(bounds["baseline"]["stall_s"], bounds["scenario"]["stall_s"]),
        "tpot_worst": _moved(bounds["baseline"]["tpot_worst_s"], bounds["scenario"]["tpot_worst_s"]),
        "goodput": {side: bound["goodput"] for side, bound in bounds.items()},
        "buckets": buckets,
    }


def _first_tokens(receipt: Receipt, topology: str) -> set[str]:
    """The phases that emit first tokens, by the declaration of a topology."""
    return {
        path["first_token"]
        for row in receipt.json["topologies"]
        if row["topology"] == topology
        for path in row["paths"]
    }


def _bucket(before: Json, after: Json) -> Json:
    lanes = [{"lane": lane} | _moved(before[f"{lane}_s"], after[f"{lane}_s"]) for lane in LANES]
    least, most = min(lanes, key=_change), max(lanes, key=_change)
    return {
        "bucket": before["bucket"],
        "lanes": lanes,
        "shrank_most": least if _change(least) <= -LEAST_CHANGE_S else None,
        "grew_most": most if _change(most) >= LEAST_CHANGE_S else None,
    } | {name.removesuffix("_s"): _moved(before[name], after[name]) for name in TOTALS}


def _change(moved: Json) -> float:
    return float(moved["change_s"])


def _moved(before: float | None, after: float | None) -> Json:
    """Two times and their difference, null where one of them is absent."""
    change = None if before is None or after is None else after - before
    return {"baseline_s": before, "scenario_s": after, "change_s": change}
