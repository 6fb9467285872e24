"""The scenarios of a receipt: every kept one with its figures, lanes and verdicts under both bounds."""

from typing import Any

import polars as pl

from pipelines.frames.digits import round_results
from pipelines.frames.evaluation import LANES, LOADS
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.gates.decision import standing
from pipelines.receipts.matrix_csv import COLUMNS_OF_BOUND
from pipelines.receipts.plan import PlanFrames
from pipelines.topologies.constants import DECODE, MIXED, PREFILL, constants
from pipelines.topologies.scenarios import KNOBS

Json = dict[str, Any]

_SHOWN = ("scenario", "topology", *KNOBS, "gpus", "operating_parts")
_BUCKETS = tuple(f"{name}_bucket" for name in ("ttft_worst", "tpot_worst", "ttft_judged", "tpot_judged", "e2e_judged"))
_SEPARATELY = ("status", "refusal_kind", "refusal_resource", "refusal_figure", "refusal_limit", "screening")


def ceilings(inputs: InputTable, bound: Bound) -> dict[str, float]:
    """The ceiling of every load under ``bound``."""
    known = constants(inputs, bound)
    prefill, decode = known.prefill_ceiling, {pool: known.decode[pool].ceiling for pool in (MIXED, DECODE)}
    of_pools = {
        "mixed": min(float(prefill[MIXED]), float(decode[MIXED])),
        "prefill_lane": float(prefill[MIXED]),
        "slots_mixed": float(decode[MIXED]),
        "prefill": float(prefill[PREFILL]),
        "decode": float(decode[DECODE]),
        "slots_decode": float(decode[DECODE]),
        "link": float(known.link_ceiling),
    }
    return {resource: of_pools.get(resource, 1.0) for resource in LOADS}


def scenarios_section(plan: PlanFrames) -> list[Json]:
    """One object per kept scenario, in matrix order."""
    lanes = _lanes_by_scenario(plan)
    of_bound = {bound: ceilings(plan.table, bound) for bound in BOUNDS}
    verdicts: dict[str, list[Json]] = {}
    for row in plan.verdicts.iter_rows(named=True):
        kept = {name: row[name] for name in ("gate", "bound", "figure", "limit", "margin", "verdict", "waived")}
        verdicts.setdefault(row["scenario"], []).append(kept)
    passing = dict(standing(plan.matrix, plan.verdicts).select("scenario", "passes").iter_rows())
    rows = list(plan.matrix.iter_rows(named=True))
    scenarios = []
    for nominal, conservative in zip(rows[::2], rows[1::2], strict=True):
        name = nominal["scenario"]
        bounds = {row["bound"]: _bound(row, of_bound[row["bound"]], lanes) for row in (nominal, conservative)}
        scenarios.append(
            {shown: nominal[shown] for shown in _SHOWN}
            | {"bounds": bounds, "verdicts": verdicts.get(name, []), "passes": passing[name]}
        )
    return scenarios


def _lanes_by_scenario(plan: PlanFrames) -> dict[tuple[str, str], list[Json]]:
    shown: dict[tuple[str, str], list[Json]] = {}
    columns = ("bucket", *LANES, "ttft_s", "tpot_s", "e2e_s")
    for evaluation in plan.evaluations:
        evaluated = evaluation.filter(pl.col("status") == "evaluated").select("scenario", "bound", *columns)
        for row in round_results(evaluated).iter_rows(named=True):
            shown.setdefault((row.pop("scenario"), row.pop("bound")), []).append(row)
    return shown


def _bound(row: Json, limits: dict[str, float], lanes: dict[tuple[str, str], list[Json]]) -> Json:
    refusal = {name: row[f"refusal_{name}"] for name in ("kind", "resource", "figure", "limit")}
    loads = [
        {"resource": name, "utilization": row[f"load_{name}"], "ceiling": limits[name]}
        for name in LOADS
        if row[f"load_{name}"] is not None
    ]
    figures = [name for name in COLUMNS_OF_BOUND if name not in _SEPARATELY]
    return {
        "rate_rps": row["rate_rps"],
        "status": row["status"],
        "refusal": refusal if row["status"] == "refused" else None,
        "label": "modeled",
        "provenance": "derived",
        "loads": loads,
        "screening": row["screening"].split(),
        "lanes": lanes.get((row["scenario"], row["bound"]), []),
    } | {name: row[name] for name in (*_BUCKETS, *figures)}
