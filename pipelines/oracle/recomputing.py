"""Recomputes every scenario of a receipt and sets it beside what was exported."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from .findings import Ledger, unit_of_last_digit
from .loop import check_solved_rate
from .parameters import Inputs, Parameters
from .scenario import Evaluation, Figures, Knobs, Timeline, goodput
from .names import BOUNDS, LANES, PART_KINDS
from .topologies import PARTS, evaluate
from .traffic import Traffic, traffic_of

SECTION = "docs/arithmetic.md section {}"
_KNOBS = ("workers_mixed", "workers_prefill", "workers_decode", "chunk_tokens")
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


def scenarios_of(inputs: Inputs) -> Iterator[Knobs]:
    """Every scenario of the inventory, in matrix order (docs/formats.md, Scenarios)."""
    workers = inputs.workers
    if "aggregated" in inputs.compared:
        yield from (Knobs("aggregated", n) for n in range(1, workers + 1))
    if "chunked" in inputs.compared:
        for n in range(1, workers + 1):
            yield from (Knobs("chunked", n, chunk_tokens=budget) for budget in sorted(inputs.chunk_tokens))
    if "disaggregated" in inputs.compared:
        for p in range(1, workers):
            yield from (Knobs("disaggregated", workers_prefill=p, workers_decode=d) for d in range(1, workers - p + 1))


def count_scenarios(inputs: Inputs) -> int:
    """Return how many scenarios the inventory has, without listing them."""
    workers, per_topology = inputs.workers, {"aggregated": 1, "chunked": len(inputs.chunk_tokens)}
    pooled = sum(per_topology.get(name, 0) for name in inputs.compared) * workers
    return pooled + (workers * (workers - 1) // 2 if "disaggregated" in inputs.compared else 0)


def check_scenarios(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs) -> None:
    """Check that every scenario is there once, in order, and recompute each."""
    found = receipt["scenarios"]
    expected = list(islice(scenarios_of(inputs), len(found) + 1))
    ledger.same(
        "scenarios", "scenarios", len(found), count_scenarios(inputs), "rows of the inventory (docs/formats.md)"
    )
    names, known = [row["scenario"] for row in found], {knobs.name: knobs for knobs in expected}
    for name, times in Counter(names).items():
        if times > 1:
            ledger.holds("scenarios", f"scenarios[{name}]", False, f"{times} rows", "one row")
    for name in known.keys() - set(names) if len(found) < count_scenarios(inputs) else ():
        ledger.holds("scenarios", f"scenarios[{name}]", False, "nothing", "a row", "every scenario is kept")
    at = {bound: (inputs.parameters(bound), traffic_of(receipt["workload"], inputs, bound)) for bound in BOUNDS}
    weights = receipt["rules"]["decision"]["operating_part_weights"]
    for index, row in enumerate(found):
        where = f"scenarios[{row['scenario']}]"
        in_place = expected[index].name if index < len(expected) else "nothing"
        ledger.same(
            "scenarios", f"scenarios[{index}].scenario", row["scenario"], in_place, "matrix order (docs/formats.md)"
        )
        if row["scenario"] in known:
            knobs = known[row["scenario"]]
            _check_row(ledger, where, row, knobs, inputs, weights)
            for bound in BOUNDS:
                _check_bound(ledger, f"{where}.bounds.{bound}", row["bounds"][bound], knobs, *at[bound])


def operating_parts(topology: str, weights: Mapping[str, float]) -> float:
    """Return the weighted number of a topology's operating parts."""
    return math.fsum(PARTS[topology][kind] * weights[kind] for kind in PART_KINDS)


def _check_row(
    ledger: Ledger, where: str, row: Mapping[str, Any], knobs: Knobs, inputs: Inputs, weights: Mapping[str, float]
) -> None:
    ledger.same("scenarios", f"{where}.topology", row["topology"], knobs.topology, "the scenario's name")
    for name in _KNOBS:
        ledger.same("scenarios", f"{where}.{name}", row[name], getattr(knobs, name), "the scenario's name")
    gpus = knobs.workers * int(inputs.nominal("inventory.gpus_per_worker"))
    ledger.same("scenarios", f"{where}.gpus", row["gpus"], gpus, "workers x inventory.gpus_per_worker")
    parts = operating_parts(knobs.topology, weights)
    ledger.figure("scenarios", f"{where}.operating_parts", row["operating_parts"], parts, "docs/formats.md, Scenarios")


def _check_bound(
    ledger: Ledger, where: str, found: Mapping[str, Any], knobs: Knobs, of: Parameters, traffic: Traffic
) -> None:
    _check_additions(ledger, where, found, traffic)
    try:
        if traffic.concurrency is None:
            ledger.same("rates", f"{where}.rate_rps", found["rate_rps"], traffic.rate_rps, "the rate of this bound")
        else:
            traffic = traffic.at_rate(found["rate_rps"])
            check_solved_rate(ledger, f"{where}.rate_rps", traffic.rate_rps, of, traffic, knobs)
        evaluation = evaluate(of, traffic, knobs)
        _check_loads(ledger, where, found, evaluation)
        _check_latency(ledger, where, found, evaluation, of, traffic)
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
    ledger: Ledger, where: str, found: Mapping[str, Any], evaluation: Evaluation, of: Parameters, traffic: Traffic
) -> None:
    """Compare every latency figure; a refused row has none."""
    figures = evaluation.figures
    if figures is None:
        for name in _LATENCY_MEMBERS:
            ledger.same("figures", f"{where}.{name}", found[name], None, "a refused scenario has no latency figure")
        ledger.same("lanes", f"{where}.lanes", found["lanes"], [], "a refused scenario has no lanes")
        return
    expected = _scalars(of, traffic, figures)
    for name, value in expected.items():
        ledger.figure("figures", f"{where}.{name}", found[name], value, _WHY.get(name, SECTION.format(7)))
    ledger.same(
        "figures", f"{where}.dominant_queue", found["dominant_queue"], figures.dominant_queue, SECTION.format(7)
    )
    for name in ("ttft", "tpot"):
        bucket = _worst_bucket(found["lanes"], f"{name}_s")
        ledger.same(
            "figures",
            f"{where}.{name}_worst_bucket",
            found[f"{name}_worst_bucket"],
            bucket,
            "the first bucket with the largest exported figure",
        )
    labels = [lanes["bucket"] for lanes in found["lanes"]]
    if ledger.listed("lanes", f"{where}.lanes", labels, [k.bucket for k in traffic.buckets], "one entry per bucket"):
        for lanes, line in zip(found["lanes"], figures.timelines, strict=True):
            _check_lanes(ledger, f"{where}.lanes[{line.bucket}]", lanes, line)


def _scalars(of: Parameters, traffic: Traffic, figures: Figures) -> dict[str, float | None]:
    transfer, envelope = figures.transfer_worst_s, of.ttft_growth_s
    return {
        "ttft_worst_s": figures.ttft_worst_s,
        "tpot_worst_s": figures.tpot_worst_s,
        "e2e_worst_s": figures.e2e_worst_s,
        "stall_s": figures.stall_s,
        "goodput": goodput(of, traffic, figures),
        "decode_batch": figures.decode_batch,
        "transfer_worst_s": transfer,
        "transfer_envelope_share": transfer / envelope if transfer is not None and envelope else None,
    }


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


def _check_additions(ledger: Ledger, where: str, found: Mapping[str, Any], traffic: Traffic) -> None:
    """What adds up must add up in the exported digits, up to half a unit of the last digit of each term."""
    _check_sum(ledger, f"{where}.headroom", found["headroom"], [1.0, -found["pressure"]], "headroom = 1 - pressure")
    output_mean = {k.bucket: k.o1 for k in traffic.buckets}
    for lanes in found["lanes"]:
        place, values = f"{where}.lanes[{lanes['bucket']}]", [lanes[f"{lane}_s"] for lane in LANES]
        _check_sum(ledger, f"{place}.e2e_s", lanes["e2e_s"], values, "the eight lanes add up to E2E")
        sums = (values[:3], values[:7])
        closest = min(sums, key=lambda part: abs(math.fsum(part) - lanes["ttft_s"]))
        _check_sum(ledger, f"{place}.ttft_s", lanes["ttft_s"], closest, "the lanes to the first token add up to TTFT")
        later = output_mean.get(lanes["bucket"], 1.0) - 1
        if lanes["tpot_s"] is not None and later > 0:
            terms = [lanes["e2e_s"], -lanes["ttft_s"]]
            slack = later * unit_of_last_digit(lanes["tpot_s"], 10)
            _check_sum(
                ledger, f"{place}.tpot_s", lanes["tpot_s"] * later, terms, "TPOT x (outputs - 1) = E2E - TTFT", slack
            )


def _check_sum(ledger: Ledger, where: str, total: float, terms: Sequence[float], why: str, slack: float = 0.0) -> None:
    expected = math.fsum(terms)
    slack += sum(unit_of_last_digit(value, 10) for value in (total, *terms)) + 1e-15
    ledger.holds("additions", where, abs(total - expected) <= slack, total, expected, why)
