"""Gates on scenarios: the verdict of each gate on each scenario from the exported figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import ge, gt, le, lt
from typing import Any

from .aggregating import aggregated
from .baselines import Baselines, baselines_of, best_of, limit_baseline, units_of_limit
from .excepting import Waived, waived_of
from .findings import SIGNIFICANT_DIGITS, Ledger, close, round_significant
from .names import BOUNDS, BUCKET_METRICS, METRIC_UNITS, REPLAYED_UNITS
from .objectives import LATENCIES, Objectives, objectives_of
from .parameters import Inputs

RULES = "docs/rules.md, Gates"
OF_METRIC = "metrics."
_COMPARE = {"lte": le, "lt": lt, "gte": ge, "gt": gt}
_SCENARIO_METRICS = ("gpus", "operating_parts")
_LOAD_METRICS = ("pressure", "headroom")

Seen = Mapping[str, Any]
"""What gates see of a scenario under one bound: its members of `bounds`, its GPUs and operating parts."""


@dataclass(frozen=True)
class Judged:
    """A gate's verdict on a scenario or on the decision, recomputed from the exported figures."""

    gate: Mapping[str, Any]
    figure: float | None
    limit: float | None
    verdict: str
    margin: float | None
    waived: bool = False

    @property
    def may_block(self) -> bool:
        """Whether the gate is blocking, and not waived."""
        return bool(self.gate["blocking"]) and not self.waived

    @property
    def blocks(self) -> bool:
        """Whether this verdict keeps the scenario from passing, or the decision from being accepted."""
        return self.may_block and self.verdict != "pass"


@dataclass(frozen=True)
class Grounds:
    """What gates judge by, beside figures: objectives, requests of the buckets, exceptions that hold, baselines."""

    objectives: Objectives
    requests: Mapping[str, int]
    waived: Waived = frozenset()
    baselines: Baselines = field(default_factory=Baselines)
    replayed: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """Figures of the replay, by scenario and bound, where there are any."""
    exact: bool = False
    """Whether limits and aggregates stay unrounded."""

    def shown(self, figure: float) -> float:
        """Return a figure as it is written, or as it is."""
        return figure if self.exact else round_significant(figure, SIGNIFICANT_DIGITS)

    def waives(self, gate: Mapping[str, Any], topology: str) -> bool:
        """Whether an exception waives a gate for a topology, or on the decision."""
        return (gate["id"], topology) in self.waived


def grounds_of(receipt: Mapping[str, Any], inputs: Inputs) -> Grounds:
    """Read what the gates of a receipt judge by."""
    requests = {row["bucket"]: row["requests"] for row in receipt["workload"]["buckets"] if row["bucket"] != "all"}
    baselines = baselines_of(receipt["scenarios"], inputs.gpus_per_worker("mixed"))
    replayed = {
        (row["scenario"], row["bound"]): row["figures"]
        for row in receipt["replay"]["scenarios"]
        if row["figures"] is not None
    }
    return Grounds(objectives_of(inputs.rows), requests, waived_of(receipt), baselines, replayed)


def is_replayed(gate: Mapping[str, Any]) -> bool:
    """Whether a gate is on a figure of the replay."""
    return gate["metric"] in REPLAYED_UNITS


def limit_metric(gate: Mapping[str, Any]) -> str | None:
    """Return the metric of which a gate's limit is a multiple."""
    source = str(gate["limit_source"])
    return source.removeprefix(OF_METRIC) if source.startswith(OF_METRIC) else None


def figure_of(seen: Seen, metric: str) -> float | None:
    """Return the figure of a metric of a scenario; None where it is refused and the metric needs a latency."""
    if metric not in _SCENARIO_METRICS + _LOAD_METRICS and seen["status"] == "refused":
        return None
    name = f"{metric}_s" if METRIC_UNITS[metric] == "s" else metric
    figure = seen.get(name) if metric in REPLAYED_UNITS else seen[name]
    return None if figure is None else float(figure)


def margin_of(figure: float | None, op: str, limit: float | None) -> float | None:
    """`(limit - figure)/limit` for lte and lt, `(figure - limit)/limit` for gte and gt, to 10 significant digits.

    >>> margin_of(0.6, "lte", 0.8), margin_of(0.99, "gte", 0.9), margin_of(1.0, "lte", 0)
    (0.25, 0.1, None)
    """
    margin = exact_margin(figure, op, limit)
    return None if margin is None else round_significant(margin, SIGNIFICANT_DIGITS)


def exact_margin(figure: float | None, op: str, limit: float | None) -> float | None:
    """Return the margin unrounded; None without a figure or a limit, or with a limit of 0."""
    if figure is None or limit is None or limit == 0:
        return None
    return (figure - limit if op in ("gte", "gt") else limit - figure) / limit


def judged_by_bucket(gate: Mapping[str, Any], objectives: Objectives) -> str | None:
    """Return the latency whose judged bucket, by its own objective, a gate judges; None of all other gates."""
    name = str(gate["limit_source"]).removeprefix("objectives.")
    own = name in LATENCIES and gate["metric"] == f"{name}_worst"
    return name if own and objectives.of_edges else None


def judge(seen: Seen, gate: Mapping[str, Any], grounds: Grounds, baseline: Sequence[Seen] = ()) -> Judged:
    """Judge a scenario under one bound by one gate that applies to it; its baseline are others under the same bound."""
    figure, limit = _judged_figure(seen, gate, grounds), _judged_limit(seen, gate, grounds, baseline)
    name = judged_by_bucket(gate, grounds.objectives)
    if name is not None and figure is not None:
        bucket = seen[f"{name}_judged_bucket"]
        figure = next((lanes[f"{name}_s"] for lanes in seen["lanes"] if lanes["bucket"] == bucket), None)
        limit = (grounds.objectives.of(name, bucket) if figure is not None else None) or limit
    return judge_figure(gate, figure, limit)


def _judged_figure(seen: Seen, gate: Mapping[str, Any], grounds: Grounds) -> float | None:
    """Return the one figure that a gate judges, of a scenario or, for its limit, of a baseline."""
    if gate["metric"] not in BUCKET_METRICS:
        return figure_of(seen, gate["metric"])
    return None if seen["status"] == "refused" else aggregated(gate, seen["lanes"], grounds.requests, grounds.shown)


def _judged_limit(seen: Seen, gate: Mapping[str, Any], grounds: Grounds, baseline: Sequence[Seen]) -> float | None:
    """Return a gate's own limit, or the multiple of a metric or of a baseline; None where there is none of these."""
    metric: str | None = limit_metric(gate)
    if metric is not None:
        of_limit = figure_of(seen, metric)
    elif limit_baseline(gate) is not None:
        of_limit = best_of((_judged_figure(one, gate, grounds) for one in baseline), gate["op"])
    else:
        own: float | None = gate["limit"]
        return own
    return None if of_limit is None else grounds.shown(gate["limit_times"] * of_limit)


def judge_figure(gate: Mapping[str, Any], figure: float | None, limit: float | None) -> Judged:
    """Judge an exported figure; where it or its limit is absent, it is refused."""
    if figure is None or limit is None:
        return Judged(gate, figure, limit, "refused", None)
    verdict = "pass" if _COMPARE[gate["op"]](figure, limit) else "fail"
    return Judged(gate, figure, limit, verdict, margin_of(figure, gate["op"], limit))


def is_multiple(gate: Mapping[str, Any]) -> bool:
    """Whether a gate's limit is a multiple: of a metric of the same scenario, or of a baseline."""
    return limit_metric(gate) is not None or limit_baseline(gate) is not None


def gates_on(topology: str, gates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the gates over figures of a scenario that apply and concern a topology."""
    return [
        gate
        for gate in gates
        if gate["applies"]
        and gate["scope"] == "scenario"
        and topology in gate["topologies"]
        and (gate["limit"] is not None or is_multiple(gate))
    ]


def judge_all(scenario: Mapping[str, Any], gates: Sequence[Mapping[str, Any]], grounds: Grounds) -> list[Judged]:
    """Judge one scenario by every gate that applies and concerns its topology.

    A figure or a limit that is reckoned from exported ones is taken as it is exported, where its last digit agrees.
    """
    topology, judged = scenario["topology"], []
    seen = {bound: _seen(scenario, bound, grounds) for bound in BOUNDS}
    exported = {verdict["gate"]: verdict for verdict in scenario["verdicts"]}
    for gate in gates_on(topology, gates):
        others = grounds.baselines.on(limit_baseline(gate) or "", scenario["gpus"])
        entry = judge(seen[gate["bound"]], gate, grounds, [_seen(row, gate["bound"], grounds) for row in others])
        found = exported.get(gate["id"])
        if found is not None:
            figure = _settled(found["figure"], entry.figure) if _is_reckoned(gate) else entry.figure
            limit = _settled(found["limit"], entry.limit, _units(gate, entry)) if is_multiple(gate) else entry.limit
            entry = judge_figure(gate, figure, limit)
        judged.append(replace(entry, waived=grounds.waives(gate, topology)))
    return judged


def _seen(scenario: Mapping[str, Any], bound: str, grounds: Grounds) -> Seen:
    """Return what gates see of an exported scenario, and of its replay."""
    replayed = grounds.replayed.get((scenario["scenario"], bound), {})
    own = {name: scenario[name] for name in _SCENARIO_METRICS}
    return {**scenario["bounds"][bound], **replayed, **own}


def _units(gate: Mapping[str, Any], entry: Judged) -> float:
    """Return by how many units of its last digit a limit may differ: that of a baseline with its own figure's last digit."""
    of_figure = limit_baseline(gate) is not None and _is_reckoned(gate)
    return 1.0 + (units_of_limit(entry.limit, gate["limit_times"]) if of_figure else 0.0)


def _is_reckoned(gate: Mapping[str, Any]) -> bool:
    """Whether a gate's figure is a sum or a mean, whose last digit may depend on how it is added up."""
    by_bucket = gate["metric"] in BUCKET_METRICS
    return by_bucket and (gate["metric"] == "transfer" or gate["aggregate"] == "request_weighted")


def _settled(found: float | None, expected: float | None, units: float = 1.0) -> float | None:
    """Return an exported number of 10 digits that is so many units of the last apart at most; else the expected one."""
    if found is None or expected is None or found != round_significant(found, SIGNIFICANT_DIGITS):
        return expected
    return found if close(found, expected, units) else expected


def passes(scenario: Mapping[str, Any], judged: Sequence[Judged]) -> bool:
    """Not refused at its declared values, a gate applies that is declared blocking, and each that blocks it passes."""
    evaluated = scenario["bounds"]["nominal"]["status"] == "evaluated"
    examined = any(entry.gate["blocking"] for entry in judged)
    return evaluated and examined and not any(entry.blocks for entry in judged)


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
            check_verdict(ledger, place, verdict, entry, f"the exported {entry.gate['metric']}")
    ledger.same(
        "verdicts", f"{where}.passes", scenario["passes"], passes(scenario, judged), "docs/formats.md, Decision"
    )


def check_verdict(ledger: Ledger, place: str, verdict: Mapping[str, Any], entry: Judged, why: str) -> None:
    """Compare one exported verdict."""
    ledger.same("verdicts", f"{place}.limit", verdict["limit"], entry.limit, RULES)
    ledger.same("verdicts", f"{place}.figure", verdict["figure"], entry.figure, why)
    ledger.same("verdicts", f"{place}.verdict", verdict["verdict"], entry.verdict, RULES)
    ledger.figure("verdicts", f"{place}.margin", verdict["margin"], entry.margin, RULES)
    ledger.same("verdicts", f"{place}.waived", verdict["waived"], entry.waived, "docs/rules.md, Exceptions")
