"""The decision and what it rejects, as sections of a receipt."""

from typing import Any

import polars as pl

from pipelines.gates.rules import applicable
from pipelines.planning.acceptance import objections
from pipelines.planning.reliance import rests_on, unobserved_share
from pipelines.receipts.headlines import NOTHING_PASSES
from pipelines.receipts.plan import PlanFrames

Json = dict[str, Any]


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
