"""What a plan says of its rules beside the verdicts, and why a decision is not accepted."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from pipelines.gates.wording import worded


def rules_said(gates: pl.DataFrame, exceptions: pl.DataFrame, rule_set: pl.DataFrame) -> list[str]:
    """What a reader has to know of the rules beside the verdicts: what stands in whose place, what does not apply, what is waived.

    ``gates`` are resolved.
    """
    said_of = []
    for row in gates.iter_rows(named=True):
        if row["overrides"] is not None:
            said_of.append(
                f"overridden: {row['gate']}: {row['file']} of the cohort instead of {row['overrides']} ({row['instead_of']})"
            )
    decision = rule_set.row(0, named=True)
    if decision["decision_overrides"] is not None:
        said_of.append(
            f"overridden: the decision: {decision['decision_file']} of the cohort instead of {decision['decision_overrides']}"
        )
    for row in gates.filter(~pl.col("applies")).iter_rows(named=True):
        why = "the cohort does not declare its objective" if row["here"] else f"a gate of {row['cohorts']} only"
        said_of.append(f"not judged: {row['gate']}: {why}")
    for row in exceptions.filter(pl.col("standing") != "other_cohort").iter_rows(named=True):
        until = "until" if row["standing"] == "holds" else "on"
        where = f" for {', '.join(row['topologies'].split())}" if row["topologies"] else ""
        label = "waived" if row["standing"] == "holds" else "expired"
        said_of.append(f"{label}: {row['gate']}{where} {until} {row['expires']}: {row['reason']} ({row['owner']})")
    if decision["as_of"] is not None:
        said_of.append(f"as of {decision['as_of']}")
    return said_of


def objection_said(one: Mapping[str, Any], frames: Mapping[str, pl.DataFrame]) -> str:
    """One reason why a decision is not accepted, as a clause."""
    if one["kind"] == "no_topology":
        return "no topology qualifies"
    own = pl.col("gate") == one["gate"]
    if one["kind"] == "exception":
        row = frames["exceptions"].row(by_predicate=own & (pl.col("standing") == "expired"), named=True)
        return f"the exception of {row['gate']} ({row['reason']}; {row['owner']}) expired on {row['expires']}"
    verdict = frames["acceptance"].row(by_predicate=own, named=True)
    return worded(verdict, frames["gates"].row(by_predicate=own, named=True))
