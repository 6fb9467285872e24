"""Recomputes every scenario of a receipt and sets it beside what was exported."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from .additions import check_additions
from .enumerating import KEPT_AT_MOST, Inventory, inventory_of, matrix_order
from .findings import Ledger
from .loop import check_solved_rate
from .names import BOUNDS, LANES, PART_KINDS
from .parameters import Inputs
from .scenario import Evaluation, Figures, Knobs, Timeline, met_by_bucket
from .topologies import Evaluator
from .traffic import Cohort
from .words import PARTS

SECTION = "docs/arithmetic.md section {}"
_KNOBS = ("threshold_tokens", "workers_mixed", "workers_prefill", "workers_decode", "chunk_tokens")
_LATENCY_MEMBERS = (
    "ttft_worst_s",
    "ttft_worst_bucket",
    "tpot_worst_s",
    "tpot_worst_bucket",
    "e2e_worst_s",
    "stall_s",
    "goodput",
    "dominant_queue",
    "decode_batch",
    "ttft_judged_bucket",
    "tpot_judged_bucket",
    "e2e_judged_bucket",
    "cost_per_million_tokens",
    "transfer_worst_s",
    "transfer_envelope_share",
)
_CANCELLED = 1e-14
"""Rounding of a difference of numbers near 1."""
_WHY = {
    "pressure": SECTION.format(6),
    "tightest": SECTION.format(6),
    "headroom": SECTION.format(6),
    "stall_s": SECTION.format(5),
    "decode_batch": SECTION.format(5),
}


@dataclass(frozen=True)
class Plan:
    """What a receipt is recomputed from: inputs, the cohort's requests, and the inventory."""

    receipt: Mapping[str, Any]
    inputs: Inputs
    cohort: Cohort

    @cached_property
    def inventory(self) -> Inventory:
        """The scenarios that there are."""
        return inventory_of(self.inputs, self.cohort.thresholds(self.inputs))

    @cached_property
    def evaluators(self) -> dict[str, Evaluator]:
        """One evaluator of each bound."""
        return {
            bound: Evaluator(self.inputs.setting(bound), self.cohort.traffic(self.inputs, bound)) for bound in BOUNDS
        }


def plan_of(receipt: Mapping[str, Any], inputs: Inputs) -> Plan:
    """Read the cohort of a receipt."""
    return Plan(receipt, inputs, Cohort(receipt["workload"]))


def check_scenarios(ledger: Ledger, plan: Plan) -> bool:
    """Check that the rows are scenarios of the inventory in order, and recompute each; say whether each is there once."""
    found, inventory = plan.receipt["scenarios"], plan.inventory
    names = [row["scenario"] for row in found]
    known = {name: knobs for name in names if (knobs := inventory.parse(name)) is not None}
    for name, times in Counter(names).items():
        if times > 1:
            ledger.holds("scenarios", f"scenarios[{name}]", False, f"{times} rows", "one row")
    _check_places(ledger, plan, names, known)
    if len(set(names)) < len(names):
        return False
    weights = plan.receipt["rules"]["decision"]["operating_part_weights"]
    for row in found:
        name = row["scenario"]
        if name in known:
            where, knobs = f"scenarios[{name}]", known[name]
            _check_row(ledger, where, row, knobs, plan, weights)
            for bound in BOUNDS:
                _check_bound(
                    ledger, f"{where}.bounds.{bound}", row["bounds"][bound], knobs, plan.evaluators[bound], row["gpus"]
                )
    return True


def _check_places(ledger: Ledger, plan: Plan, names: Sequence[str], known: Mapping[str, Knobs]) -> None:
    """All scenarios in their order, or of too many, some of them in their order."""
    total, why = plan.inventory.count(), "matrix order (docs/formats.md)"
    if total <= KEPT_AT_MOST:
        ledger.same("scenarios", "scenarios", len(names), total, "rows of the inventory (docs/formats.md)")
        expected = [knobs.name for knobs in islice(plan.inventory.scenarios(), len(names) + 1)]
        for name in sorted({*expected} - {*names}) if len(names) < total else ():
            ledger.holds("scenarios", f"scenarios[{name}]", False, "nothing", "a row", "every scenario is kept")
    else:
        ordered = sorted(set(known.values()), key=matrix_order)
        expected = [knobs.name for knobs in ordered]
    for index, name in enumerate(names):
        in_place = expected[index] if index < len(expected) else "nothing"
        ledger.same("scenarios", f"scenarios[{index}].scenario", name, in_place, why)


def operating_parts(topology: str, weights: Mapping[str, float]) -> float:
    """Return the weighted number of a topology's operating parts."""
    return math.fsum(len(PARTS[topology][kind]) * weights[kind] for kind in PART_KINDS)


def _check_row(
    ledger: Ledger, where: str, row: Mapping[str, Any], knobs: Knobs, plan: Plan, weights: Mapping[str, float]
) -> None:
    ledger.same("scenarios", f"{where}.topology", row["topology"], knobs.topology, "the scenario's name")
    for name in _KNOBS:
        ledger.same("scenarios", f"{where}.{name}", row[name], getattr(knobs, name), "the scenario's name")
    gpus = plan.inventory.gpus_of(knobs)
    ledger.same("scenarios", f"{where}.gpus", row["gpus"], gpus, "workers of each pool x its gpus_per_worker")
    parts = operating_parts(knobs.topology, weights)
    ledger.figure("scenarios", f"{where}.operating_parts", row["operating_parts"], parts, "docs/formats.md, Scenarios")


def _check_bound(
    ledger: Ledger, where: str, found: Mapping[str, Any], knobs: Knobs, evaluator: Evaluator, gpus: int
) -> None:
    traffic, rate = evaluator.traffic, found["rate_rps"]
    check_additions(ledger, where, found, traffic.requests)
    try:
        if traffic.concurrency is None:
            ledger.same("rates", f"{where}.rate_rps", rate, traffic.rate_rps, "the rate of this bound")
            rate = traffic.rate_rps
        else:
            check_solved_rate(ledger, f"{where}.rate_rps", rate, evaluator, knobs)
        evaluation = evaluator.evaluate(knobs, rate)
        _check_loads(ledger, where, found, evaluation)
        _check_latency(ledger, where, found, evaluation, evaluator, (rate, gpus))
    except (ArithmeticError, ValueError) as error:
        ledger.holds("figures", where, False, found["status"], f"nothing: {error}", "the inputs give no number here")


def _check_loads(ledger: Ledger, where: str, found: Mapping[str, Any], evaluation: Evaluation) -> None:
    """Compare loads, refusal, pressure and what follows from them."""
    refusal, exported = evaluation.refusal, found["refusal"]
    status = "refused" if refusal else "evaluated"
    ledger.same("loads", f"{where}.status", found["status"], status, SECTION.format(6))
    resources = [load["resource"] for load in found["loads"]]
    ledger.listed("loads", f"{where}.loads", resources, [load.resource for load in evaluation.loads], SECTION.format(6))
    by_name = {load["resource"]: load for load in found["loads"]}
    for load in evaluation.loads:
        if load.resource in by_name:
            place, row = f"{where}.loads[{load.resource}]", by_name[load.resource]
            ledger.figure(
                "loads", f"{place}.utilization", row["utilization"], load.utilization, SECTION.format("5 and 6")
            )
            ledger.same("loads", f"{place}.ceiling", row["ceiling"], load.ceiling, SECTION.format(6))
    if refusal is None or exported is None:
        expected = None if refusal is None else {"kind": refusal.kind, "resource": refusal.resource}
        ledger.same("loads", f"{where}.refusal", exported, expected, SECTION.format(6))
    else:
        ledger.same("loads", f"{where}.refusal.kind", exported["kind"], refusal.kind, SECTION.format(6))
        ledger.same("loads", f"{where}.refusal.resource", exported["resource"], refusal.resource, SECTION.format(6))
        ledger.figure("loads", f"{where}.refusal.figure", exported["figure"], refusal.figure, SECTION.format(6))
        ledger.same("loads", f"{where}.refusal.limit", exported["limit"], refusal.limit, SECTION.format(6))
    ledger.figure("loads", f"{where}.pressure", found["pressure"], evaluation.pressure, _WHY["pressure"])
    ledger.same("loads", f"{where}.tightest", found["tightest"], evaluation.tightest, _WHY["tightest"])
    headroom = 1 - evaluation.pressure
    near_zero = abs(found["headroom"] - headroom) <= _CANCELLED  # 10 digits of a difference that cancels mean nothing
    shown = found["headroom"] if near_zero else headroom
    ledger.figure("loads", f"{where}.headroom", found["headroom"], shown, _WHY["headroom"])


def _check_latency(
    ledger: Ledger,
    where: str,
    found: Mapping[str, Any],
    evaluation: Evaluation,
    evaluator: Evaluator,
    at: tuple[float, int],
) -> None:
    """Compare every latency figure; a refused row has none. `at` are the rate and the GPUs of the row."""
    figures = evaluation.figures
    if figures is None:
        for name in _LATENCY_MEMBERS:
            ledger.same("figures", f"{where}.{name}", found[name], None, "a refused scenario has no latency figure")
        for name, check in (("lanes", "lanes"), ("screening", "figures")):
            ledger.same(check, f"{where}.{name}", found[name], [], f"a refused scenario has no {name}")
        return
    for name, value in scalars(evaluator, figures, *at).items():
        ledger.figure("figures", f"{where}.{name}", found[name], value, _WHY.get(name, SECTION.format(7)))
    ledger.same(
        "figures", f"{where}.dominant_queue", found["dominant_queue"], figures.dominant_queue, SECTION.format(7)
    )
    names = figures.screening(evaluator.setting.objectives)
    ledger.listed("figures", f"{where}.screening", found["screening"], names, SECTION.format("7, Screening"))
    _check_buckets(ledger, where, found, evaluator)
    labels = [lanes["bucket"] for lanes in found["lanes"]]
    buckets = [k.bucket for k in evaluator.traffic.buckets]
    if ledger.listed("lanes", f"{where}.lanes", labels, buckets, "one entry per bucket"):
        for lanes, line in zip(found["lanes"], figures.timelines, strict=True):
            _check_lanes(ledger, f"{where}.lanes[{line.bucket}]", lanes, line)


def _check_buckets(ledger: Ledger, where: str, found: Mapping[str, Any], evaluator: Evaluator) -> None:
    """Worst and judged buckets follow from the exported figures."""
    why = "the first bucket with the largest exported figure"
    for name in ("ttft", "tpot"):
        bucket = _worst_bucket(found["lanes"], f"{name}_s")
        ledger.same("figures", f"{where}.{name}_worst_bucket", found[f"{name}_worst_bucket"], bucket, why)
    for name in ("ttft", "tpot", "e2e"):
        pairs = [(lanes["bucket"], lanes[f"{name}_s"]) for lanes in found["lanes"]]
        bucket = evaluator.setting.objectives.judged_bucket(name, pairs)
        judged = found[f"{name}_judged_bucket"]
        ledger.same("figures", f"{where}.{name}_judged_bucket", judged, bucket, SECTION.format(7))


def scalars(evaluator: Evaluator, figures: Figures, rate_rps: float, gpus: int) -> dict[str, float | None]:
    """Return the figures of a scenario that are numbers."""
    setting = evaluator.setting
    transfer, envelope = figures.transfer_worst_s, setting.separated.ttft_growth_s
    met = met_by_bucket(setting.objectives, figures)
    return {
        "ttft_worst_s": figures.ttft_worst_s,
        "tpot_worst_s": figures.tpot_worst_s,
        "e2e_worst_s": figures.e2e_worst_s,
        "stall_s": figures.stall_s,
        "goodput": math.fsum(met.values()),
        "decode_batch": figures.decode_batch,
        "transfer_worst_s": transfer,
        "transfer_envelope_share": transfer / envelope if transfer is not None and envelope else None,
        "cost_per_million_tokens": _cost(evaluator, met, rate_rps, gpus),
    }


def _cost(evaluator: Evaluator, met: Mapping[str, float], rate_rps: float, gpus: int) -> float | None:
    """`gpus·price/3600 / (Λ·Σ_k met_k·o1_k)·10⁶`: of a million output tokens that met their objectives."""
    price = evaluator.setting.gpu_hour_price
    tokens_per_s = rate_rps * math.fsum(met[k.bucket] * k.o1 for k in evaluator.traffic.buckets)
    return None if price is None or tokens_per_s <= 0 else gpus * price / 3600 / tokens_per_s * 1e6


def _worst_bucket(lanes: Sequence[Mapping[str, Any]], name: str) -> str | None:
    """Return the bucket with the largest exported figure; the first of equals; None if no bucket has the figure."""
    having = [line for line in lanes if line[name] is not None]
    return str(max(having, key=lambda line: float(line[name]))["bucket"]) if having else None


def _check_lanes(ledger: Ledger, where: str, found: Mapping[str, Any], line: Timeline) -> None:
    why = SECTION.format(5)
    for lane, seconds in zip(LANES, line.lanes, strict=True):
        ledger.figure("lanes", f"{where}.{lane}_s", found[f"{lane}_s"], seconds, why)
    ledger.figure("lanes", f"{where}.ttft_s", found["ttft_s"], line.ttft_s, why)
    ledger.figure("lanes", f"{where}.e2e_s", found["e2e_s"], line.e2e_s, why)
    ledger.figure("lanes", f"{where}.tpot_s", found["tpot_s"], line.tpot_s, why)
