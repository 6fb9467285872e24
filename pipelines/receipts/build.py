"""The receipt as a JSON value (docs/formats.md, Receipt)."""

import json
from typing import Any

import polars as pl

from pipelines import __version__, arithmetic
from pipelines.arithmetic import service
from pipelines.frames.canonical import digest
from pipelines.frames.digits import RESULT_DIGITS, round_results
from pipelines.frames.evaluation import LANES
from pipelines.frames.inputs import BOUNDS, inputs_json
from pipelines.gates.decision import standing
from pipelines.gates.rules import applicable, part_weights, preferred_keys
from pipelines.receipts.cache import kv_section, transfer_section
from pipelines.receipts.headlines import NOTHING_PASSES
from pipelines.receipts.matrix_csv import COLUMNS_OF_BOUND, matrix_csv
from pipelines.receipts.plan import PlanFrames
from pipelines.receipts.reliance import rests_on, unobserved_share
from pipelines.topologies.constants import bound_constants, workload_moments
from pipelines.topologies.declared import PART_KINDS, TOPOLOGIES
from pipelines.topologies.transfers import prefill_symbols

STATEMENT = (
    "Deterministic arithmetic over declared inputs. Inputs are observed or supplied, results are derived, latencies are modeled means: "
    "nothing here is a measurement of a GPU, a network, a scheduler or a running service, and no percentile is stated."
)
UNMEASURED = (
    "latencies, goodput and utilization of the real stack",
    "bursts beyond what the variation of inter-arrival times expresses",
    "interference between transfers and other traffic on the links",
    "how the scheduler batches prompts",
    "behaviour after a worker, a transfer or a router fails",
)

Json = dict[str, Any]


def build_receipt(plan: PlanFrames) -> tuple[Json, bytes]:
    """The sealed receipt and the bytes of its matrix.csv."""
    body: Json = {
        "apiVersion": "phaseledger/v1",
        "kind": "TopologyReceipt",
        "versions": {"product": __version__, "arithmetic": arithmetic.VERSION, "significant_digits": RESULT_DIGITS},
        "truth_boundary": {"statement": STATEMENT, "latency_label": "modeled", "unmeasured": list(UNMEASURED)},
        "fingerprint": plan.frozen["fingerprint"].item(),
        "cohort": {"name": plan.frozen["name"].item(), "title": plan.frozen["title"].item()},
        "inputs": inputs_json(plan.inputs),
        "workload": _workload(plan),
        "kv": kv_section(plan),
        "service": _service(plan),
        "transfer": transfer_section(plan),
        "topologies": _topologies(plan),
        "rules": _rules(plan),
        "scenarios": _scenarios(plan),
        "decision": _decision(plan),
        "rejected": _rejected(plan),
    }
    columns, rows, data, sha256 = matrix_csv(body)
    body["matrix"] = {"rows": rows, "columns": columns, "sha256": sha256}
    return body | {"seal": digest(body)}, data


def _workload(plan: PlanFrames) -> Json:
    row = plan.frozen.row(0, named=True)
    kept = (
        "kind",
        "requests_sha256",
        "format",
        "provenance",
        "source",
        "note",
        "requests",
        "duration_s",
        "rows_read",
        "rows_dropped",
    )
    as_json = ("dropped", "steps", "prefix_cache", "warnings")
    return (
        {name: row[name] for name in kept}
        | {name: None if row[name] is None else json.loads(row[name]) for name in as_json}
        | {
            "bucket_edges_tokens": [int(edge) for edge in row["bucket_edges_tokens"].split()],
            # attention of a very long prompt is no whole number that JSON holds exactly: the double is what is computed with
            "buckets": plan.buckets.with_columns(pl.col("attention_max").cast(pl.Float64)).to_dicts(),
            "strata": plan.strata.to_dicts(),
            "windows": plan.windows.to_dicts(),
        }
    )


def _service(plan: PlanFrames) -> list[Json]:
    """E[S] and E[S²] of whole prompts, per bound and bucket."""
    rows = []
    for bound in BOUNDS:
        d, r_p, q = prefill_symbols(plan.table, bound)
        for bucket in plan.buckets.iter_rows(named=True):
            u1, u2, z1, z2, uz = (
                workload_moments(bucket, plan.table, bound)[symbol] for symbol in ("u1", "u2", "z1", "z2", "uz")
            )
            mean = service.prefill_s(u1, z1, d=d, r_p=r_p, q=q)
            second = service.prefill_second_moment(u1, u2, z1, z2, uz, d=d, r_p=r_p, q=q)
            rows.append((bound, bucket["bucket"], mean, second))
    columns = ("bound", "bucket", "prefill_mean_s", "prefill_m2_s2")
    return round_results(pl.DataFrame(rows, schema=list(columns), orient="row")).to_dicts()


def _topologies(plan: PlanFrames) -> list[Json]:
    weights = part_weights(plan.preference)
    declared = [TOPOLOGIES[name] for name in plan.table.words("topologies.compared")]
    return [
        {
            "topology": topology.name,
            "parts": {kind: list(getattr(topology, kind)) for kind in PART_KINDS},
            "operating_parts": topology.operating_parts(weights),
        }
        for topology in declared
    ]


def _rules(plan: PlanFrames) -> Json:
    gates = []
    for row in applicable(plan.gates, plan.table).iter_rows(named=True):
        objective = row.pop("objective")
        gates.append(
            {"id": row.pop("gate")}
            | row
            | {
                "topologies": row["topologies"].split(),
                "limit_source": "declared" if objective is None else f"objectives.{objective}",
                "applies": row["limit"] is not None,
            }
        )
    decision = {"prefer": preferred_keys(plan.preference), "operating_part_weights": part_weights(plan.preference)}
    return {"gates": gates, "decision": decision}


def _scenarios(plan: PlanFrames) -> list[Json]:
    lanes = _lanes_by_scenario(plan)
    ceilings = {row["bound"]: row for row in bound_constants(plan.table, plan.buckets).iter_rows(named=True)}
    verdicts: dict[str, list[Json]] = {}
    for row in plan.verdicts.iter_rows(named=True):
        kept = {name: row[name] for name in ("gate", "bound", "figure", "limit", "margin", "verdict")}
        verdicts.setdefault(row["scenario"], []).append(kept)
    passing = dict(standing(plan.matrix, plan.verdicts).select("scenario", "passes").iter_rows())
    rows = list(plan.matrix.iter_rows(named=True))
    scenarios = []
    for nominal, conservative in zip(rows[::2], rows[1::2], strict=True):
        name = nominal["scenario"]
        knobs = (
            "scenario",
            "topology",
            "workers_mixed",
            "workers_prefill",
            "workers_decode",
            "chunk_tokens",
            "gpus",
            "operating_parts",
        )
        bounds = {row["bound"]: _bound(row, ceilings[row["bound"]], lanes) for row in (nominal, conservative)}
        scenarios.append(
            {knob: nominal[knob] for knob in knobs}
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


def _bound(row: Json, ceilings: Json, lanes: dict[tuple[str, str], list[Json]]) -> Json:
    refusal = {name: row[f"refusal_{name}"] for name in ("kind", "resource", "figure", "limit")}
    loads = [
        {"resource": load.resource, "utilization": row[f"load_{load.resource}"], "ceiling": ceilings[load.ceiling]}
        for load in TOPOLOGIES[row["topology"]].loads
        if row[f"load_{load.resource}"] is not None
    ]
    figures = [name for name in COLUMNS_OF_BOUND if name != "status" and not name.startswith("refusal_")]
    return {
        "rate_rps": row["rate_rps"],
        "status": row["status"],
        "refusal": refusal if row["status"] == "refused" else None,
        "label": "modeled",
        "provenance": "derived",
        "loads": loads,
        "ttft_worst_bucket": row["ttft_worst_bucket"],
        "tpot_worst_bucket": row["tpot_worst_bucket"],
        "lanes": lanes.get((row["scenario"], row["bound"]), []),
    } | {name: row[name] for name in figures}


def _decision(plan: PlanFrames) -> Json:
    chosen = plan.decision.filter(pl.col("standing") == "chosen")
    found = not chosen.is_empty()
    topologies = (chosen if found else plan.decision)["topology"].to_list()
    gates = applicable(plan.gates, plan.table)
    reliance = rests_on(plan.table, gates, topologies, plan.frozen["provenance"].item())
    return {
        "outcome": "topology_chosen" if found else "no_topology_qualifies",
        "scenario": chosen["scenario"].item() if found else None,
        "topology": chosen["topology"].item() if found else None,
        "reason": chosen["reason"].item() if found else NOTHING_PASSES,
        "rests_on": reliance,
        "unobserved_share": unobserved_share(reliance),
    }


def _rejected(plan: PlanFrames) -> list[Json]:
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
