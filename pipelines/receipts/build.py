"""The receipt as a JSON value (docs/formats.md, Receipt)."""

from dataclasses import replace
from typing import Any

import polars as pl

from pipelines import __version__, arithmetic
from pipelines.frames.canonical import digest
from pipelines.frames.digits import RESULT_DIGITS, round_results
from pipelines.frames.inputs import BOUNDS, inputs_json
from pipelines.frames.workload import ALL
from pipelines.gates.rules import part_weights
from pipelines.receipts.cache import kv_section, transfer_section
from pipelines.receipts.changes import changes_section, search_section
from pipelines.receipts.decision import decision_section, rejected_section
from pipelines.receipts.declared import said_of_requests
from pipelines.receipts.matrix_csv import matrix_csv
from pipelines.receipts.plan import PlanFrames
from pipelines.receipts.replay import replay_section
from pipelines.receipts.rules import rules_section
from pipelines.receipts.scenarios import scenarios_section
from pipelines.topologies.constants import MIXED
from pipelines.topologies.declared import PART_KINDS, TOPOLOGIES, TopologyPath
from pipelines.topologies.paths.path import whole_prompts
from pipelines.topologies.question import Question
from pipelines.topologies.requests import Computed

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

_WHOLE = TOPOLOGIES["aggregated"].paths[0]
"""The path on which every prompt is prefilled whole, on a mixed worker."""


def build_receipt(plan: PlanFrames) -> tuple[Json, bytes]:
    """The sealed receipt and the bytes of its matrix.csv."""
    body: Json = {
        "apiVersion": "phaseledger/v1",
        "kind": "TopologyReceipt",
        "versions": {"product": __version__, "arithmetic": arithmetic.VERSION, "significant_digits": RESULT_DIGITS},
        "truth_boundary": {"statement": STATEMENT, "latency_label": "modeled", "unmeasured": list(UNMEASURED)},
        "fingerprint": plan.frozen["fingerprint"].item(),
        "cohort": {"name": plan.frozen["name"].item(), "title": plan.frozen["title"].item()},
        "as_of": plan.rules.as_of,
        "inputs": inputs_json(plan.inputs),
        "workload": _workload(plan),
        "kv": kv_section(plan),
        "service": _service(plan),
        "transfer": transfer_section(plan),
        "topologies": _topologies(plan),
        "rules": rules_section(plan.rules, plan.table),
        "scenarios": scenarios_section(plan),
        "decision": decision_section(plan),
        "rejected": rejected_section(plan),
        "search": search_section(plan),
        "changes": changes_section(plan),
        "replay": replay_section(plan),
    }
    columns, rows, data, sha256 = matrix_csv(body)
    body["matrix"] = {"rows": rows, "columns": columns, "sha256": sha256}
    return body | {"seal": digest(body)}, data


def _workload(plan: PlanFrames) -> Json:
    return said_of_requests(plan.frozen.row(0, named=True)) | {
        # attention of a very long prompt is no whole number that JSON holds exactly: the double is what is computed with
        "buckets": plan.buckets.with_columns(pl.col("attention_max").cast(pl.Float64)).to_dicts(),
        "strata": plan.strata.to_dicts(),
        "outputs": plan.outputs.to_dicts(),
        "windows": plan.windows.to_dicts(),
    }


def _service(plan: PlanFrames) -> list[Json]:
    """E[S] and E[S²] of whole prompts, per bound and bucket."""
    workload, rows = plan.workload, []
    for bound in BOUNDS:
        question = Question(plan.table, workload, bound)
        work = question.work(_WHOLE, None)
        alone = [work.requests.only(place) for place in range(len(work.requests.buckets))]
        labels = [ALL, *(bucket.label for bucket in work.requests.buckets)]
        for label, requests in zip(labels, [work.requests, *alone], strict=True):
            known = question.constants
            own = replace(work, requests=requests, computed=Computed.of(requests, known.alpha, known.beta))
            prompts = whole_prompts(own, known.prefill[MIXED])
            rows.append((bound, label, float(prompts.mean), float(prompts.second)))
    columns = ("bound", "bucket", "prefill_mean_s", "prefill_m2_s2")
    return round_results(pl.DataFrame(rows, schema=list(columns), orient="row")).to_dicts()


def _topologies(plan: PlanFrames) -> list[Json]:
    weights = part_weights(plan.preference)
    declared = [TOPOLOGIES[name] for name in plan.table.words("topologies.compared")]
    return [
        {
            "topology": topology.name,
            "paths": [
                {"prompts": path.prompts, "kind": path.kind, "first_token": _first_token(plan, path)}
                for path in topology.paths
            ],
            "parts": {kind: list(getattr(topology, kind)) for kind in PART_KINDS},
            "operating_parts": topology.operating_parts(weights),
        }
        for topology in declared
    ]


def _first_token(plan: PlanFrames, path: TopologyPath) -> str:
    """The phase that emits the first token on ``path``."""
    return plan.table.word("service.first_token_source") if path.kind == "separated" else "prefill"
