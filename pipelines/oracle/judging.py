"""Gates: their limits, and the verdict of each gate on each scenario from the exported figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from .findings import SIGNIFICANT_DIGITS, Ledger, round_significant
from .names import METRIC_UNITS
from .objectives import LATENCIES, Objectives
from .parameters import SEPARATED, Inputs

RULES = "docs/formats.md, Rules"
_COMPARE = {"lte": le, "lt": lt, "gte": ge, "gt": gt}
_SCENARIO_METRICS = ("gpus", "operating_parts")
_LOAD_METRICS = ("pressure", "headroom")
_TRANSFER_METRICS = ("transfer_worst", "transfer_envelope_share")


@dataclass(frozen=True)
class Judged:
    """A gate's verdict on a scenario, recomputed from the exported figure."""

    gate: Mapping[str, Any]
    figure: float | None
    limit: float
    verdict: str
    margin: float | None

    @property
    def blocks(self) -> bool:
        """Whether this verdict keeps the scenario from passing."""
        return bool(self.gate["blocking"]) and self.verdict != "pass"


def check_gates(ledger: Ledger, gates: Sequence[Mapping[str, Any]], inputs: Inputs) -> None:
    """Check the declared gates against the inputs and the metric registry."""
    names = [gate["id"] for gate in gates]
    ledger.same("gates", "rules.gates", len(set(names)), len(names), "gate names are unique")
    for gate in gates:
        where = f"rules.gates[{gate['id']}]"
        unit = METRIC_UNITS[gate["metric"]]
        ledger.same("gates", f"{where}.unit", gate["unit"], unit, f"the unit of {gate['metric']}")
        chosen = gate["topologies"]
        ledger.same("gates", f"{where}.topologies", len(set(chosen)), len(chosen), "each topology once")
        consistent = not (gate["severity"] == "warn" and gate["blocking"])
        ledger.holds("gates", f"{where}.blocking", consistent, gate["blocking"], False, "a warning does not block")
        if gate["metric"] in _TRANSFER_METRICS:
            moving = [name for name in chosen if name in SEPARATED]
            ledger.listed("gates", f"{where}.topologies", chosen, moving, "the others have no transfer")
        _check_limit(ledger, where, gate, inputs, unit)
    for topology in inputs.compared:
        examined = any(gate["blocking"] and gate["applies"] and topology in gate["topologies"] for gate in gates)
        ledger.holds("gates", "rules.gates", examined, f"no blocking gate on {topology}", "one at least", RULES)


def _check_limit(ledger: Ledger, where: str, gate: Mapping[str, Any], inputs: Inputs, unit: str) -> None:
    """A limit that is an objective equals it; a gate on an objective that is not declared does not apply."""
    source = gate["limit_source"]
    if source == "declared":
        ledger.same("gates", f"{where}.applies", gate["applies"], True, "its limit is declared")
        ledger.holds(
            "gates", f"{where}.limit", _may_be_declared(gate["limit"], unit), gate["limit"], f"a limit in {unit}"
        )
        return
    objective = inputs.rows.get(source)
    ledger.same("gates", f"{where}.applies", gate["applies"], objective is not None, f"{source} is declared or not")
    limit = objective["value"] if objective is not None else None
    ledger.same("gates", f"{where}.limit", gate["limit"], limit, source)
    known = "ratio" if source in ("objectives.attainment", "objectives.transfer_reserve") else "s"
    ledger.same("gates", f"{where}.limit_source", known, unit, f"the unit of {source} and of {gate['metric']}")


def _may_be_declared(limit: float | None, unit: str) -> bool:
    """Whether a rule may state this limit: ratios lie between 0 and 1, counts are whole."""
    if limit is None:
        return False
    return 0 <= limit <= 1 if unit == "ratio" else float(limit).is_integer() if unit == "count" else True


def figure_of(scenario: Mapping[str, Any], gate: Mapping[str, Any]) -> float | None:
    """Return the exported figure that a gate judges."""
    metric = gate["metric"]
    if metric in _SCENARIO_METRICS:
        return float(scenario[metric])
    bound = scenario["bounds"][gate["bound"]]
    if metric not in _LOAD_METRICS and bound["status"] == "refused":
        return None
    figure = bound[f"{metric}_s" if METRIC_UNITS[metric] == "s" else metric]
    return None if figure is None else float(figure)


def margin_of(figure: float | None, op: str, limit: float) -> float | None:
    """`(limit - figure)/limit` for lte and lt, `(figure - limit)/limit` for gte and gt, to 10 significant digits.

    >>> margin_of(0.6, "lte", 0.8), margin_of(0.99, "gte", 0.9), margin_of(1.0, "lte", 0)
    (0.25, 0.1, None)
    """
    margin = exact_margin(figure, op, limit)
    return None if margin is None else round_significant(margin, SIGNIFICANT_DIGITS)


def exact_margin(figure: float | None, op: str, limit: float) -> float | None:
    """Return the margin unrounded; None without a figure, or with a limit of 0."""
    if figure is None or limit == 0:
        return None
    return (figure - limit if op in ("gte", "gt") else limit - figure) / limit


def judged_by_bucket(gate: Mapping[str, Any], objectives: Objectives) -> str | None:
    """Return the latency whose judged bucket, by its own objective, a gate judges; None of all other gates."""
    name = str(gate["metric"]).removesuffix("_worst")
    own = name in LATENCIES and gate["limit_source"] == f"objectives.{name}"
    return name if own and objectives.of_edges else None


def judge(scenario: Mapping[str, Any], gate: Mapping[str, Any], objectives: Objectives) -> Judged:
    """Judge one scenario by one gate that applies to it."""
    figure, limit, name = figure_of(scenario, gate), gate["limit"], judged_by_bucket(gate, objectives)
    if name is not None and figure is not None:
        bound = scenario["bounds"][gate["bound"]]
        bucket = bound[f"{name}_judged_bucket"]
        figure = next((lanes[f"{name}_s"] for lanes in bound["lanes"] if lanes["bucket"] == bucket), None)
        limit = (objectives.of(name, bucket) if figure is not None else None) or limit
    return judge_figure(gate, figure, limit)


def judge_figure(gate: Mapping[str, Any], figure: float | None, limit: float) -> Judged:
    """Judge an exported figure; a figure that is absent is refused."""
    if figure is None:
        return Judged(gate, None, limit, "refused", None)
    verdict = "pass" if _COMPARE[gate["op"]](figure, limit) else "fail"
    return Judged(gate, figure, limit, verdict, margin_of(figure, gate["op"], limit))


def gates_on(topology: str, gates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the gates that apply and concern a topology."""
    return [gate for gate in gates if gate["applies"] and gate["limit"] is not None and topology in gate["topologies"]]


def judge_all(scenario: Mapping[str, Any], gates: Sequence[Mapping[str, Any]], objectives: Objectives) -> list[Judged]:
    """Judge one scenario by every gate that applies and concerns its topology."""
    return [judge(scenario, gate, objectives) for gate in gates_on(scenario["topology"], gates)]


def passes(scenario: Mapping[str, Any], judged: Sequence[Judged]) -> bool:
    """Not refused at its declared values, and every blocking gate passes, of which there is at least one."""
    evaluated = scenario["bounds"]["nominal"]["status"] == "evaluated"
    blocking = [entry for entry in judged if entry.gate["blocking"]]
    return evaluated and bool(blocking) and not any(entry.blocks for entry in blocking)


def check_verdicts(ledger: Ledger, scenario: Mapping[str, Any], judged: Sequence[Judged]) -> None:
    """Compare the exported verdicts of one scenario, and whether it passes."""
    where, found = f"scenarios[{scenario['scenario']}]", scenario["verdicts"]
    names = [verdict["gate"] for verdict in found]
    if ledger.listed(
        "verdicts", f"{where}.verdicts", names, [entry.gate["id"] for entry in judged], "gates that concern it"
    ):
        for verdict, entry in zip(found, judged, strict=True):
            place = f"{where}.verdicts[{verdict['gate']}]"
            ledger.same("verdicts", f"{place}.bound", verdict["bound"], entry.gate["bound"], RULES)
            ledger.same("verdicts", f"{place}.limit", verdict["limit"], entry.limit, RULES)
            ledger.same(
                "verdicts", f"{place}.figure", verdict["figure"], entry.figure, f"the exported {entry.gate['metric']}"
            )
            ledger.same("verdicts", f"{place}.verdict", verdict["verdict"], entry.verdict, RULES)
            ledger.figure("verdicts", f"{place}.margin", verdict["margin"], entry.margin, RULES)
    ledger.same(
        "verdicts", f"{where}.passes", scenario["passes"], passes(scenario, judged), "docs/formats.md, Decision"
    )
