"""What a receipt says of the search, and of what would change the decision (docs/formats.md, Receipt: ``search`` and ``changes``)."""

from typing import Any

import polars as pl

from pipelines.frames.digits import round_results
from pipelines.planning.frontier import baselines, frontier
from pipelines.planning.speaking import Changes, Decided, measure_next
from pipelines.receipts.plan import PlanFrames
from pipelines.topologies.constants import CONCURRENCY_INPUT

Json = dict[str, Any]


def decided(plan: PlanFrames) -> Decided:
    """The decision of a plan with what it was made from."""
    return Decided(
        inputs=plan.table,
        workload=plan.workload,
        gates=plan.gates,
        decision=plan.decision,
        matrix=plan.matrix,
        preference=plan.preference,
        trace_provenance=plan.frozen["provenance"].item(),
    )


def search_section(plan: PlanFrames) -> Json:
    """How many scenarios there are and are kept, the frontier, and the baselines of separated scenarios."""
    nominal = plan.matrix.filter(pl.col("bound") == "nominal")
    columns = ("figure", "scenario", "operating_parts", "gpus", "value_s")
    return {
        "scenarios": plan.searched,
        "kept": nominal.height,
        "complete": nominal.height == plan.searched,
        "frontier": frontier(plan.matrix, plan.table).select(columns).to_dicts(),
        "baselines": baselines(nominal, plan.decision["scenario"].to_list()),
    }


def changes_section(plan: PlanFrames) -> Json:
    """Everything that would change the decision, of every speaking scenario."""
    changes = Changes(plan.speaking, plan.sensitivity, plan.break_even, plan.workers_less)
    return {
        "speaking": [_speaking(plan, row) for row in round_results(plan.speaking).iter_rows(named=True)],
        "measure_next": measure_next(decided(plan), changes),
    }


def _speaking(plan: PlanFrames, row: Json) -> Json:
    def own(frame: pl.DataFrame) -> list[Json]:
        return frame.filter(pl.col("topology") == row["topology"]).drop("topology").to_dicts()

    fix = {name: row[f"fix_{name}"] for name in ("path", "factor", "value")}
    more = {"gpus": row["more_gpus"], "scenario": row["more_gpus_scenario"]}
    rate = {name: row[f"rate_{name}"] for name in ("factor", "event", "gate", "verdict")}
    rate["rate_rps"] = None if plan.table.has(CONCURRENCY_INPUT) else row["rate_value"]
    return {name: row[name] for name in ("topology", "scenario", "margin", "most_sensitive")} | {
        "sensitivity": own(plan.sensitivity),
        "break_even": own(plan.break_even),
        "fix": fix if row["fix_path"] is not None else None,
        "more_gpus": more if row["more_gpus"] is not None else None,
        "rate": rate if row["rate_factor"] is not None else None,
        "one_worker_less": own(plan.workers_less),
    }
