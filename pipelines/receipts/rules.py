"""The rules, the decision and what it rejects, as sections of a receipt."""

from typing import Any

import polars as pl

from pipelines.gates.rules import applicable, part_weights, preferred_keys, resolved
from pipelines.planning.acceptance import objections
from pipelines.planning.reliance import rests_on, unobserved_share
from pipelines.receipts.headlines import NOTHING_PASSES
from pipelines.receipts.plan import PlanFrames

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


def rules_section(plan: PlanFrames) -> Json:
    """Every gate with what it comes to on this cohort, the exceptions, and the decision rule."""
    gates = [_gate(row) for row in resolved(plan.gates, plan.table).iter_rows(named=True)]
    exceptions = [
        row | {"topologies": row["topologies"].split(), "cohorts": _words(row["cohorts"])}
        for row in plan.exceptions.iter_rows(named=True)
    ]
    row = plan.rule_set.row(0, named=True)
    decision = {
        "file": row["decision_file"],
        "overrides": row["decision_overrides"],
        "prefer": preferred_keys(plan.preference),
        "operating_part_weights": part_weights(plan.preference),
    }
    return {"gates": gates, "exceptions": exceptions, "decision": decision}


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


def decision_section(plan: PlanFrames) -> Json:
    """What was chosen, what that rests on, and whether it is accepted."""
    chosen = plan.decision.filter(pl.col("standing") == "chosen")
    found = not chosen.is_empty()
    topologies = (chosen if found else plan.decision)["topology"].to_list()
    gates = applicable(plan.gates, plan.table)
    reliance = rests_on(plan.table, gates, topologies, plan.frozen["provenance"].item())
    against = objections(plan.decision, plan.acceptance, plan.exceptions)
    kept = ("gate", "figure", "limit", "margin", "verdict", "waived")
    return {
        "outcome": "topology_chosen" if found else "no_topology_qualifies",
        "scenario": chosen["scenario"].item() if found else None,
        "topology": chosen["topology"].item() if found else None,
        "reason": chosen["reason"].item() if found else NOTHING_PASSES,
        "rests_on": reliance,
        "unobserved_share": unobserved_share(reliance),
        "verdicts": [
            {name: row[name] for name in kept} | {"inputs": row["inputs"].split()}
            for row in plan.acceptance.iter_rows(named=True)
        ],
        "accepted": not against,
        "objections": against,
    }


def rejected_section(plan: PlanFrames) -> list[Json]:
    """The compared topologies that were not chosen, and the gates that block them."""
    rejected = []
    for row in plan.decision.filter(pl.col("standing") != "chosen").iter_rows(named=True):
        failing = plan.verdicts.filter(
            pl.col("blocking") & (pl.col("scenario") == row["scenario"]) & (pl.col("verdict") != "pass")
        )
        rejected.append(
            {
                "topology": row["topology"],
                "scenario": row["scenario"],
                "status": row["standing"],
                "failing": failing.select("gate", "verdict", "figure", "limit").to_dicts(),
                "reason": row["reason"],
            }
        )
    return rejected
