"""Declared rules as frames of one cohort, and what of them applies to it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import polars as pl

from pipelines.declarations import Gate, Rules
from pipelines.declarations.typed import Waiver
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import Exceptions, Gates, Preference, RuleSet
from pipelines.frames.metrics import METRICS

ON_DECISION = "decision"
AGE = "evidence_age"


def _joined(words: Iterable[str] | None) -> str | None:
    return None if words is None else " ".join(words)


def _frame(model: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {name: column.dtype.type for name, column in model.to_schema().columns.items()}
    frame: pl.DataFrame = model.validate(pl.DataFrame(rows, schema=schema, orient="row"))
    return frame


def gates_frame(rules: Rules, cohort: str, as_of: date | None) -> pl.DataFrame:
    """A :class:`Gates` frame, one row per gate in their order, as they stand for the cohort of this name on the day ``as_of``."""
    holding = [one for one in rules.exceptions if _standing(one, cohort, as_of) == "holds"]
    return _frame(Gates, [_gate(gate, cohort, holding) for gate in rules.gates])


def _gate(gate: Gate, cohort: str, holding: list[Waiver]) -> dict[str, Any]:
    own = [one for one in holding if one.gate == gate.id]
    if gate.scope == ON_DECISION:
        waived = ["decision"] if own else []
    else:
        waived = [str(name) for name in gate.topologies if any(name in one.topologies for one in own)]
    same = (
        "file",
        "overrides",
        "instead_of",
        "kind",
        "scope",
        "metric",
        "aggregate",
        "within",
        "within_objective",
        "bound",
        "op",
        "limit",
        "objective",
        "limit_metric",
        "limit_baseline",
        "limit_times",
        "severity",
        "blocking",
        "message",
        "owner",
        "rationale",
    )
    lists = ("topologies", "buckets", "inputs", "cohorts")
    return (
        {name: getattr(gate, name) for name in same}
        | {name: _joined(getattr(gate, name)) for name in lists}
        | {"gate": gate.id, "unit": "ratio" if gate.aggregate == "share" else METRICS[gate.metric].unit}
        | {"here": gate.concerns(cohort), "waived": " ".join(waived)}
    )


def with_own(rules: Rules, of_cohorts: Iterable[Rules]) -> Rules:
    """``rules`` with the gates that single cohorts add to them, each id once."""
    gates = {gate.id: gate for gate in rules.gates}
    for own in of_cohorts:
        gates = {gate.id: gate for gate in own.gates} | gates
    return replace(rules, gates=tuple(gates.values()))


def _standing(waiver: Waiver, cohort: str, as_of: date | None) -> str:
    if not waiver.concerns(cohort):
        return "other_cohort"
    return "expired" if as_of is not None and as_of > waiver.expires else "holds"


def exceptions_frame(rules: Rules, cohort: str, as_of: date | None) -> pl.DataFrame:
    """An :class:`Exceptions` frame: every exception, and whether it holds for the cohort of this name on the day ``as_of``."""
    rows = [
        {"gate": one.gate, "file": one.file, "reason": one.reason, "owner": one.owner}
        | {"topologies": _joined(one.topologies), "cohorts": _joined(one.cohorts)}
        | {"expires": one.expires.isoformat(), "standing": _standing(one, cohort, as_of)}
        for one in rules.exceptions
    ]
    return _frame(Exceptions, rows)


def reads_a_date(rules: Rules, cohort: str) -> bool:
    """Whether what the rules say of the cohort of this name depends on the day."""
    return any(one.concerns(cohort) for one in rules.exceptions) or any(
        gate.metric == AGE and gate.concerns(cohort) for gate in rules.gates
    )


def rule_set_frame(rules: Rules, as_of: date | None) -> pl.DataFrame:
    """A :class:`RuleSet` frame of one row."""
    decision = rules.decision
    return _frame(
        RuleSet,
        [
            {
                "as_of": None if as_of is None else as_of.isoformat(),
                "decision_file": decision.file,
                "decision_overrides": decision.overrides,
            }
        ],
    )


def preference_frame(rules: Rules) -> pl.DataFrame:
    """A :class:`Preference` frame of the decision rule."""
    rows = [("prefer", name, float(rank)) for rank, name in enumerate(rules.decision.prefer)]
    rows += [("weight", name, float(weight)) for name, weight in rules.decision.operating_part_weights.items()]
    return Preference.validate(pl.DataFrame(rows, schema=["rule", "name", "value"], orient="row"))


def part_weights(preference: pl.DataFrame) -> dict[str, float]:
    """Weight by kind of operating part."""
    return dict(preference.filter(pl.col("rule") == "weight").select("name", "value").iter_rows())


def preferred_keys(preference: pl.DataFrame) -> list[str]:
    """The ranking keys, most important first."""
    return preference.filter(pl.col("rule") == "prefer").sort("value")["name"].to_list()


def resolved(gates: pl.DataFrame, inputs: InputTable) -> pl.DataFrame:
    """``gates`` with limits and ``within`` resolved, and whether each ``applies``: to this cohort, with objectives that it declares."""
    rows = []
    for row in gates.iter_rows(named=True):
        own = row | {"limit": _figure(row["limit"], row["objective"], inputs)}
        own["within"] = _figure(row["within"], row["within_objective"], inputs)
        lacks = [
            own[key] is None for key, name in (("limit", "objective"), ("within", "within_objective")) if row[name]
        ]
        rows.append(own | {"applies": row["here"] and not any(lacks)})
    return pl.DataFrame(rows, schema=gates.schema | {"applies": pl.Boolean}, orient="row")


def _figure(declared: float | None, objective: str | None, inputs: InputTable) -> float | None:
    path = f"objectives.{objective}"
    return inputs.number(path) if objective is not None and inputs.has(path) else declared


def applicable(gates: pl.DataFrame, inputs: InputTable) -> pl.DataFrame:
    """The gates on scenarios among ``gates``, resolved: those that do not apply have ``applies`` false."""
    return resolved(gates, inputs).filter(pl.col("scope") != ON_DECISION)


def waived_for(gate: Mapping[str, Any], topology: str) -> bool:
    """Whether an exception of ``gate`` holds for ``topology``."""
    return topology in str(gate["waived"]).split()


def concerns(gate: Mapping[str, Any], topology: str) -> bool:
    """Whether the resolved ``gate`` applies, and to scenarios of ``topology``."""
    return bool(gate["applies"]) and topology in str(gate["topologies"]).split()
