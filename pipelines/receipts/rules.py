"""The rules as a section of a receipt, with the digest that says whether two receipts were judged alike."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.frames.canonical import digest
from pipelines.frames.inputs import InputTable
from pipelines.gates.rules import part_weights, preferred_keys, resolved

Json = dict[str, Any]

_LISTS = ("topologies", "buckets", "inputs", "cohorts")
_AS_THEY_ARE = (
    "file",
    "overrides",
    "kind",
    "scope",
    "metric",
    "unit",
    "aggregate",
    "within",
    "bound",
    "op",
    "limit",
    "limit_times",
    "severity",
    "blocking",
    "applies",
    "message",
    "owner",
    "rationale",
)


def _words(text: str | None) -> list[str] | None:
    return None if text is None else text.split()


@dataclass(frozen=True)
class RuleFrames:
    """The rules as they stand for one cohort."""

    gates: pl.DataFrame  # Gates
    exceptions: pl.DataFrame  # Exceptions
    rule_set: pl.DataFrame  # RuleSet, one row
    preference: pl.DataFrame  # Preference

    @property
    def as_of(self) -> str | None:
        """The date that exceptions and ages are read at, as YYYY-MM-DD; None where no rule reads one."""
        day: str | None = self.rule_set["as_of"].item()
        return day


def rules_section(rules: RuleFrames, inputs: InputTable) -> Json:
    """Every gate with what it comes to on the cohort of ``inputs``, the exceptions, the decision rule, and the digest of it all."""
    gates = [_gate(row) for row in resolved(rules.gates, inputs).iter_rows(named=True)]
    exceptions = [
        row | {"topologies": row["topologies"].split(), "cohorts": _words(row["cohorts"])}
        for row in rules.exceptions.iter_rows(named=True)
    ]
    row = rules.rule_set.row(0, named=True)
    decision = {
        "file": row["decision_file"],
        "overrides": row["decision_overrides"],
        "prefer": preferred_keys(rules.preference),
        "operating_part_weights": part_weights(rules.preference),
    }
    section = {"gates": gates, "exceptions": exceptions, "decision": decision}
    return {"fingerprint": _fingerprint(rules.as_of, section)} | section


def _fingerprint(as_of: str | None, section: Json) -> str:
    """Digest of the rules as they are declared, without what a cohort adds to them: the same for all that are judged by them."""
    gates = []
    for gate in section["gates"]:
        own = {name: value for name, value in gate.items() if name != "applies"}
        gates.append(own | {name: None for name in ("limit", "within") if gate[f"{name}_source"] != "declared"})
    exceptions = [{name: one[name] for name in one if name != "standing"} for one in section["exceptions"]]
    return digest({"as_of": as_of, "rules": section | {"gates": gates, "exceptions": exceptions}})


def _gate(row: Json) -> Json:
    if row["limit_metric"] is not None:
        source = f"metrics.{row['limit_metric']}"
    elif row["limit_baseline"] is not None:
        source = f"baselines.{row['limit_baseline']}"
    else:
        source = "declared" if row["objective"] is None else f"objectives.{row['objective']}"
    within = "declared" if row["within_objective"] is None else f"objectives.{row['within_objective']}"
    return (
        {"id": row["gate"], "limit_source": source, "within_source": within if row["aggregate"] == "share" else None}
        | {name: row[name] for name in _AS_THEY_ARE}
        | {name: _words(row[name]) for name in _LISTS}
    )
