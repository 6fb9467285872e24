"""What rules may declare: gates whose members belong together, and whose limits are those of the inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .accepting import matches
from .baselines import BASELINES, limit_baseline
from .enumerating import KEPT_AT_MOST
from .excepting import names_cohort
from .findings import Ledger
from .judging import is_multiple, is_replayed, limit_metric
from .names import (
    BUCKET_METRICS,
    CAPACITY_UNITS,
    CRITICAL_POOLS,
    DECISION_UNITS,
    LONGEST,
    METRIC_UNITS,
    PROVENANCE_UNITS,
    REPLAYED_UNITS,
    SHORTEST,
)
from .parameters import SEPARATED, Inputs
from .resting import TRACE
from .table import ROWS, row_of

CHECK = "gates"
RULES = "docs/rules.md, Gates"
IN_RECEIPT = "docs/formats.md, Rules in a receipt"
DECLARED, OBJECTIVE = "declared", "objectives."
_TRANSFER_METRICS = ("transfer_worst", "transfer_envelope_share", "transfer")
_RATIOS = ("objectives.attainment", "objectives.transfer_reserve")
_OF_SCENARIO = ("buckets", "aggregate", "within", "within_source", "bound", "limit_times")
"""Members that gates on the decision do not have."""
_IN_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_NAMES = ("scenario", "topology", "gate", "metric", "bound", "figure", "limit", "margin", "owner")
"""What is replaced in a message."""

Gate = Mapping[str, Any]


def check_gates(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs) -> None:
    """Check the declared gates against themselves, the inputs and the metric registry."""
    gates, cohort = receipt["rules"]["gates"], receipt["cohort"]["name"]
    labels = [row["bucket"] for row in receipt["workload"]["buckets"] if row["bucket"] != "all"]
    names = [gate["id"] for gate in gates]
    ledger.same(CHECK, "rules.gates", len(set(names)), len(names), "gate names are unique")
    for gate in gates:
        where = f"rules.gates[{gate['id']}]"
        _check_words(ledger, where, gate)
        if gate["scope"] == "decision":
            _check_of_decision(ledger, where, gate, inputs)
        else:
            _check_of_scenario(ledger, where, gate, labels)
        _check_topologies(ledger, where, gate)
        _check_limit(ledger, where, gate, inputs)
        if limit_baseline(gate) is not None:
            _check_baseline(ledger, where, gate, inputs, receipt["search"]["scenarios"])
        if is_replayed(gate) and gate["applies"]:
            _check_all_kept(ledger, f"{where}.metric", receipt["search"]["scenarios"], gate["metric"])
        _check_within(ledger, where, gate, inputs)
        applies = names_cohort(gate, cohort) and all(_is_there(gate[name], inputs) for name in _SOURCES)
        ledger.same(CHECK, f"{where}.applies", gate["applies"], applies, "docs/rules.md, To whom it applies")
    for topology in inputs.compared:
        examined = any(gate["blocking"] and gate["applies"] and topology in gate["topologies"] for gate in gates)
        ledger.holds(CHECK, "rules.gates", examined, f"no blocking gate on {topology}", "one at least", RULES)


_SOURCES = ("limit_source", "within_source")


def _is_there(source: str | None, inputs: Inputs) -> bool:
    """Whether what a limit or `within` is, is declared."""
    return source is None or not source.startswith(OBJECTIVE) or source in inputs.rows


def _check_words(ledger: Ledger, where: str, gate: Gate) -> None:
    """Check scope, metric, unit, severity and the names in the message."""
    kind, known = gate["kind"], {**METRIC_UNITS, **dict.fromkeys(BUCKET_METRICS, "s")}
    on_decision = kind == "Provenance" or (kind == "Capacity" and gate["metric"] in CAPACITY_UNITS)
    scope = "decision" if on_decision else "scenario"
    ledger.same(CHECK, f"{where}.scope", gate["scope"], scope, f"the scope of {kind} and {gate['metric']}")
    if gate["scope"] == "decision":
        known = CAPACITY_UNITS if kind == "Capacity" else PROVENANCE_UNITS
    ledger.holds(CHECK, f"{where}.metric", gate["metric"] in known, gate["metric"], f"a metric of the {gate['scope']}")
    ledger.same(CHECK, f"{where}.unit", gate["unit"], unit_of(gate), f"the unit of {gate['metric']}")
    consistent = not (gate["severity"] == "warn" and gate["blocking"])
    ledger.holds(CHECK, f"{where}.blocking", consistent, gate["blocking"], False, "a warning does not block")
    names = [found[1] for found in _IN_BRACES.finditer(gate["message"] or "") if found[1] is not None]
    replaced = [name for name in names if name in _NAMES]
    ledger.listed(CHECK, f"{where}.message", names, replaced, "docs/rules.md, Message")


def unit_of(gate: Gate) -> str | None:
    """Return the unit of what a gate judges: of a share it is a ratio."""
    if gate["aggregate"] == "share":
        return "ratio"
    metric = gate["metric"]
    return "s" if metric in BUCKET_METRICS else METRIC_UNITS.get(metric, DECISION_UNITS.get(metric))


def _check_of_decision(ledger: Ledger, where: str, gate: Gate, inputs: Inputs) -> None:
    """Gates on the decision have figures as limits, and patterns that some cohort could have."""
    for name in _OF_SCENARIO:
        ledger.same(CHECK, f"{where}.{name}", gate[name], None, IN_RECEIPT)
    rising = gate["op"] in ("lte", "lt")
    ledger.holds(CHECK, f"{where}.op", rising, gate["op"], "lte or lt", "docs/rules.md, Gates on the decision")
    ledger.same(CHECK, f"{where}.limit_source", gate["limit_source"], DECLARED, "limits are figures")
    if gate["metric"] == CRITICAL_POOLS:
        ledger.same(CHECK, f"{where}.inputs", gate["inputs"], None, IN_RECEIPT)
    for place, pattern in enumerate(gate["inputs"] or []):
        possible = could_match(pattern, inputs)
        ledger.holds(CHECK, f"{where}.inputs[{place}]", possible, pattern, "a path that a cohort could have")


def could_match(pattern: str, inputs: Inputs) -> bool:
    """Whether a pattern matches a path that the inputs table of some cohort could have."""
    digits = "".join(re.findall("[0-9]", pattern.replace("e2e", "")))
    edges = [f"objectives.buckets.{edge}.{name}" for edge in (digits, f"1{digits}") for name in ("ttft", "tpot", "e2e")]
    own = [path for path in edges if row_of(path) is not None]
    return any(matches(pattern, path) for path in (*inputs.rows, *(row.path for row in ROWS), TRACE, *own))


def _check_of_scenario(ledger: Ledger, where: str, gate: Gate, labels: Sequence[str]) -> None:
    """Gates over figures of a scenario have a bound; those by bucket an aggregate, of buckets that there are."""
    ledger.holds(CHECK, f"{where}.bound", gate["bound"] is not None, gate["bound"], "nominal or conservative")
    ledger.same(CHECK, f"{where}.inputs", gate["inputs"], None, IN_RECEIPT)
    by_bucket = gate["metric"] in BUCKET_METRICS
    aggregate, why = gate["aggregate"], "there for metrics by bucket, and for these alone"
    ledger.holds(CHECK, f"{where}.aggregate", (aggregate is not None) == by_bucket, aggregate, by_bucket, why)
    ledger.holds(CHECK, f"{where}.buckets", gate["buckets"] is None or by_bucket, gate["buckets"], None, why)
    if gate["applies"]:
        for place, word in enumerate(gate["buckets"] or []):
            known = (*labels, SHORTEST, LONGEST)
            ledger.holds(CHECK, f"{where}.buckets[{place}]", word in known, word, " or ".join(known), RULES)


def _check_topologies(ledger: Ledger, where: str, gate: Gate) -> None:
    """Gates on the decision concern none; those with transfer figures only topologies that have them."""
    chosen = gate["topologies"]
    of_scenario = gate["scope"] == "scenario"
    ledger.holds(CHECK, f"{where}.topologies", bool(chosen) == of_scenario, chosen, "some of a scenario, else none")
    ledger.same(CHECK, f"{where}.topologies", len(set(chosen)), len(chosen), "each topology once")
    if gate["metric"] in _TRANSFER_METRICS or limit_metric(gate) in _TRANSFER_METRICS:
        moving = [name for name in chosen if name in SEPARATED]
        ledger.listed(CHECK, f"{where}.topologies", chosen, moving, "the others have no transfer")


def _check_limit(ledger: Ledger, where: str, gate: Gate, inputs: Inputs) -> None:
    """A limit is declared, equals an objective, or is absent because it is a multiple of a metric or of a baseline."""
    source, limit, times, unit = gate["limit_source"], gate["limit"], gate["limit_times"], unit_of(gate)
    metric, multiple = limit_metric(gate), is_multiple(gate)
    why = "there where the limit is a metric or a baseline"
    ledger.holds(CHECK, f"{where}.limit_times", (times is not None) == multiple, times, source, why)
    if multiple:
        ledger.same(CHECK, f"{where}.limit", limit, None, f"{times} x {source}")
    if metric is not None:
        other = metric in METRIC_UNITS and metric not in (gate["metric"], *REPLAYED_UNITS)
        ledger.holds(
            CHECK, f"{where}.limit_source", other, source, "another metric of a scenario, not of its replay", RULES
        )
        ledger.same(CHECK, f"{where}.limit_source", METRIC_UNITS.get(metric), unit, f"the unit of {gate['metric']}")
    elif source == DECLARED:
        ledger.holds(CHECK, f"{where}.limit", _may_be_declared(limit, unit), limit, f"a limit in {unit}")
    elif not multiple:
        ledger.same(CHECK, f"{where}.limit", limit, inputs.nominal(source), source)
    if source.startswith(OBJECTIVE):
        _check_objective(ledger, f"{where}.limit_source", source, unit)


def _check_baseline(ledger: Ledger, where: str, gate: Gate, inputs: Inputs, scenarios: int) -> None:
    """A baseline is another topology of mixed workers, has the figure, and where it counts, is compared, and all of it kept."""
    baseline, metric = limit_baseline(gate), gate["metric"]
    place = f"{where}.limit_source"
    ledger.holds(CHECK, place, baseline in BASELINES, baseline, " or ".join(BASELINES), RULES)
    had = metric not in (*_TRANSFER_METRICS, *REPLAYED_UNITS)
    ledger.holds(CHECK, place, had, metric, f"a figure that {baseline} is known to have", RULES)
    others = [name for name in gate["topologies"] if name != baseline]
    ledger.listed(CHECK, f"{where}.topologies", gate["topologies"], others, "other topologies than the baseline")
    if gate["applies"]:
        ledger.holds(CHECK, place, baseline in inputs.compared, baseline, "a topology that the cohort compares", RULES)
        _check_all_kept(ledger, place, scenarios, "a baseline")


def _check_all_kept(ledger: Ledger, where: str, scenarios: int, what: str) -> None:
    """What reads figures of all scenarios needs all of them kept."""
    few = scenarios <= KEPT_AT_MOST
    ledger.holds(CHECK, where, few, scenarios, f"at most {KEPT_AT_MOST} scenarios with {what}", RULES)


def _check_objective(ledger: Ledger, where: str, source: str, unit: str | None) -> None:
    """An objective of the cohort, in the unit of what is compared with it."""
    ledger.holds(CHECK, where, row_of(source) is not None, source, "an objective of docs/formats.md")
    ledger.same(CHECK, where, "ratio" if source in _RATIOS else "s", unit, f"the unit of {source}")


def _check_within(ledger: Ledger, where: str, gate: Gate, inputs: Inputs) -> None:
    """`within` belongs to a share: seconds, or an objective of the cohort."""
    source, within, share = gate["within_source"], gate["within"], gate["aggregate"] == "share"
    ledger.holds(CHECK, f"{where}.within_source", (source is not None) == share, source, "there for a share alone")
    if source == DECLARED:
        ledger.holds(CHECK, f"{where}.within", within is not None, within, "a figure in s")
    else:
        expected = inputs.nominal(source) if source is not None else None
        ledger.same(CHECK, f"{where}.within", within, expected, source or "there for a share alone")
    if source is not None and source != DECLARED:
        _check_objective(ledger, f"{where}.within_source", source, "s")


def _may_be_declared(limit: float | None, unit: str | None) -> bool:
    """Whether a rule may state this limit: ratios lie between 0 and 1, counts are whole."""
    if limit is None:
        return False
    return 0 <= limit <= 1 if unit == "ratio" else float(limit).is_integer() if unit == "count" else True
