"""Forges receipts: changes a real one, then mends everything a careful forger would, up to the seal.

The forger works with the verifier's own equations, so that a forged receipt agrees with itself everywhere but in
what was changed.
"""

from __future__ import annotations

import copy
import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from pipelines.oracle import Verification, verify
from pipelines.oracle.accepting import critical_pools, evidence_of, judge_decision, objections_to
from pipelines.oracle.canonical import canonical_bytes, sha256_of
from pipelines.oracle.deciding import Candidate, decide
from pipelines.oracle.derived import rules_fingerprint
from pipelines.oracle.equations import prefill_of
from pipelines.oracle.findings import Ledger
from pipelines.oracle.inputs import check_inputs
from pipelines.oracle.judging import Judged, grounds_of, is_replayed, judge_all, passes
from pipelines.oracle.loop import solved_rps
from pipelines.oracle.matrix import cells_of, columns_of
from pipelines.oracle.names import BOUNDS, LANES, TOPOLOGIES
from pipelines.oracle.objectives import Objectives, objectives_of
from pipelines.oracle.parameters import Inputs
from pipelines.oracle.reasons import reason_of_choice, reason_of_rejection
from pipelines.oracle.recomputing import plan_of, scalars
from pipelines.oracle.resting import rests_on
from pipelines.oracle.scenario import Evaluation, Knobs
from pipelines.oracle.topologies import Evaluator
from pipelines.oracle.traffic import traffic_of
from tests.oracle.changing_by_search import changes_of, search_of
from tests.oracle.filling import Change, Receipt, as_it_is, budget_of, digits, kv_of, setting_of, transfer_of
from tests.oracle.replaying_again import empty_replay, replay_of

KNOBS = ("workers_mixed", "workers_prefill", "workers_decode", "chunk_tokens", "threshold_tokens")
_LATENCY = (
    "ttft_worst_s",
    "ttft_worst_bucket",
    "tpot_worst_s",
    "tpot_worst_bucket",
    "e2e_worst_s",
    "stall_s",
    "goodput",
    "dominant_queue",
    "decode_batch",
    "ttft_judged_bucket",
    "tpot_judged_bucket",
    "e2e_judged_bucket",
    "cost_per_million_tokens",
    "transfer_worst_s",
    "transfer_envelope_share",
)


def knobs_of(row: Receipt) -> Knobs:
    return Knobs(row["topology"], *(row[name] for name in KNOBS))


def load(directory: Path) -> Receipt:
    receipt: Receipt = json.loads((directory / "receipt.json").read_bytes())
    return receipt


def scenario(receipt: Receipt, name: str) -> Receipt:
    return next(row for row in receipt["scenarios"] if row["scenario"] == name)


def scenarios(receipt: Receipt, topology: str, status: str | None = None, bound: str = "nominal") -> list[Receipt]:
    rows = [row for row in receipt["scenarios"] if row["topology"] == topology]
    return [row for row in rows if status is None or row["bounds"][bound]["status"] == status]


def input_row(receipt: Receipt, path: str) -> Receipt:
    return next(row for row in receipt["inputs"] if row["path"] == path)


def usable_inputs(receipt: Receipt) -> Inputs:
    inputs = check_inputs(Ledger(), receipt["inputs"])
    assert inputs is not None
    return inputs


def exported(evaluation: Evaluation, evaluator: Evaluator, rate_rps: float, gpus: int) -> Receipt:
    """One bound of a scenario as a receipt holds it."""
    refusal, figures = evaluation.refusal, evaluation.figures
    row: Receipt = {
        "rate_rps": rate_rps,
        "status": "refused" if refusal else "evaluated",
        "refusal": refusal and {"kind": refusal.kind, "resource": refusal.resource, "figure": digits(refusal.figure),
                                "limit": refusal.limit},
        "label": "modeled",
        "provenance": "derived",
        "loads": [{"resource": load.resource, "utilization": digits(load.utilization), "ceiling": load.ceiling}
                  for load in evaluation.loads],
        "pressure": digits(evaluation.pressure),
        "tightest": evaluation.tightest,
        "headroom": digits(1 - evaluation.pressure),
        "lanes": [],
        "screening": [],
        **dict.fromkeys(_LATENCY),
    }  # fmt: skip
    if figures is None:
        return row
    for line in figures.timelines:
        lanes = {f"{lane}_s": digits(seconds) for lane, seconds in zip(LANES, line.lanes, strict=True)}
        sums = {"ttft_s": digits(line.ttft_s), "tpot_s": digits(line.tpot_s), "e2e_s": digits(line.e2e_s)}
        row["lanes"].append({"bucket": line.bucket, **lanes, **sums})
    summarize(row, None, evaluator.setting.objectives)
    row |= {name: digits(value) for name, value in scalars(evaluator, figures, rate_rps, gpus).items()}
    row["dominant_queue"] = figures.dominant_queue
    row["screening"] = figures.screening(evaluator.setting.objectives)
    return row


def summarize(bound: Receipt, envelope: float | None, objectives: Objectives) -> None:
    """Fill what follows from the lanes of one bound."""
    for name in ("ttft", "tpot", "e2e"):
        having = [lanes for lanes in bound["lanes"] if lanes[f"{name}_s"] is not None]
        worst = max(having, key=lambda lanes: float(lanes[f"{name}_s"]), default=None)
        bound[f"{name}_worst_s"] = worst and worst[f"{name}_s"]
        if name != "e2e":
            bound[f"{name}_worst_bucket"] = worst and worst["bucket"]
        pairs = [(lanes["bucket"], lanes[f"{name}_s"]) for lanes in bound["lanes"]]
        bound[f"{name}_judged_bucket"] = objectives.judged_bucket(name, pairs)
    if envelope is not None:
        transfer = max(lanes["transfer_wait_s"] + lanes["kv_movement_s"] for lanes in bound["lanes"])
        bound["transfer_worst_s"] = digits(transfer)
        bound["transfer_envelope_share"] = digits(transfer / envelope)


def add_up(bound: Receipt, receipt: Receipt, lanes_to_first_token: int, *, moves: bool) -> None:
    """After lanes were changed by hand: sums, worst figures, transfer figures."""
    outputs = {row["bucket"]: row["output_tokens_mean"] for row in receipt["workload"]["buckets"]}
    for lanes in bound["lanes"]:
        values = [lanes[f"{lane}_s"] for lane in LANES]
        ttft, e2e = sum(values[:lanes_to_first_token]), sum(values)
        lanes["ttft_s"], lanes["e2e_s"] = digits(ttft), digits(e2e)
        if lanes["tpot_s"] is not None:
            lanes["tpot_s"] = digits((e2e - ttft) / (outputs[lanes["bucket"]] - 1))
    envelope = input_row(receipt, "objectives.ttft_growth")["value"] if moves else None
    summarize(bound, envelope, objectives_of({row["path"]: row for row in receipt["inputs"]}))


def recompute(
    receipt: Receipt,
    change: Change = as_it_is,
    mistaken: Callable[[Knobs], Knobs] = lambda knobs: knobs,
    topologies: Iterable[str] = TOPOLOGIES,
) -> None:
    """Fill every scenario as a planner that makes one mistake consistently would."""
    inputs, receipt["service"] = usable_inputs(receipt), []
    at = {}
    for bound in BOUNDS:
        traffic, setting = traffic_of(receipt["workload"], inputs, bound), setting_of(inputs, bound, change)
        at[bound] = Evaluator(setting, traffic)
        prefill = prefill_of(setting.mixed, traffic.requests)
        receipt["service"] += [
            {"bound": bound, "bucket": k.bucket, "prefill_mean_s": digits(prefill.mean_s(k)),
             "prefill_m2_s2": digits(prefill.m2_s2(k))}
            for k in (traffic.whole, *traffic.buckets)
        ]  # fmt: skip
    for row in receipt["scenarios"]:
        if row["topology"] in topologies:
            for bound, evaluator in at.items():
                row["bounds"][bound] = filled(evaluator, mistaken(knobs_of(row)), row["gpus"])
    receipt["kv"] = kv_of(receipt, inputs, change)
    receipt["transfer"] = transfer_of(receipt, inputs, change)
    rejudge(receipt, change, changes_too=True)


def filled(evaluator: Evaluator, knobs: Knobs, gpus: int) -> Receipt:
    closed = evaluator.traffic.concurrency is not None
    rate = solved_rps(evaluator, knobs) if closed else evaluator.traffic.rate_rps
    return exported(evaluator.evaluate(knobs, rate), evaluator, rate, gpus)


def at_rate(receipt: Receipt, row: Receipt, bound: str, rate_rps: float) -> None:
    """Evaluate one scenario at a rate of the forger's choice, and judge it anew."""
    inputs = usable_inputs(receipt)
    evaluator = Evaluator(inputs.setting(bound), traffic_of(receipt["workload"], inputs, bound))
    evaluation = evaluator.evaluate(knobs_of(row), rate_rps)
    row["bounds"][bound] = exported(evaluation, evaluator, rate_rps, row["gpus"])
    rejudge(receipt)


def rejudge(receipt: Receipt, change: Change = as_it_is, *, changes_too: bool = False) -> None:
    """Make verdicts, decision, what it rests on and the transfer budget follow from the figures."""
    gates, inputs = receipt["rules"]["gates"], usable_inputs(receipt)
    replay_first(receipt, inputs)
    grounds, candidates = grounds_of(receipt, inputs), []
    for place, row in enumerate(receipt["scenarios"]):
        row["verdicts"] = []
        judged = judge_all(row, gates, grounds)
        row["verdicts"] = [{**verdict_of(j), "bound": j.gate["bound"]} for j in judged]
        row["passes"] = passes(row, judged)
        candidates.append(Candidate(place, row, judged))
    prefer = receipt["rules"]["decision"]["prefer"]
    name_rules_anew(receipt)
    choice = decide(candidates, inputs.compared, prefer)
    if receipt["transfer"] is not None:
        receipt["transfer"]["budget"] = budget_of(receipt, inputs, choice.of_topology("disaggregated"), change)
    resting = rests_on(receipt, inputs, [(c.topology, c.judged) for c in choice.resting])
    receipt["decision"] = {
        "outcome": "topology_chosen" if choice.chosen else "no_topology_qualifies",
        "scenario": choice.chosen.name if choice.chosen else None,
        "topology": choice.chosen.topology if choice.chosen else None,
        "reason": reason_of_choice(choice, candidates),
        "rests_on": [{"path": path, "provenance": provenance} for path, provenance in resting],
        "unobserved_share": digits(sum(provenance != "observed" for _, provenance in resting) / len(resting)),
    }
    plan = plan_of(receipt, inputs)
    receipt["search"] = search_of(plan, choice)
    if receipt["replay"]["which"] == "finalists":
        receipt["replay"] = replay_of(plan, choice, "finalists") or receipt["replay"]
    if changes_too or "changes" not in receipt:
        receipt["changes"] = changes_of(plan, choice, prefer)
    evidence, critical = evidence_of(receipt, inputs, resting), critical_pools(receipt, receipt["decision"]["topology"])
    on_decision = judge_decision(gates, evidence, receipt["as_of"], grounds, critical)
    objections = objections_to(receipt, receipt["decision"]["outcome"], on_decision)
    receipt["decision"] |= {
        "verdicts": [{**verdict_of(one.judged), "inputs": one.inputs[0]} for one in on_decision],
        "accepted": not objections,
        "objections": [{"kind": kind, "gate": name} for kind, name in objections],
    }
    receipt["rejected"] = [
        {"topology": c.topology, "scenario": c.name, "status": "passes_but_larger" if c.passes else "nearest_miss",
         "failing": [{"gate": j.gate["id"], "verdict": j.verdict, "figure": j.figure, "limit": j.limit}
                     for j in c.failing],
         "reason": reason_of_rejection(c, choice.chosen, prefer)}
        for c in choice.rejected
    ]  # fmt: skip


def replay_first(receipt: Receipt, inputs: Inputs) -> None:
    """Replay all scenarios where a gate is on what comes out of it, or they were; else those that will speak, later."""
    asked = any(gate["applies"] and is_replayed(gate) for gate in receipt["rules"]["gates"])
    which = "all" if asked else receipt.get("replay", {"which": "finalists"})["which"]
    if "replay" not in receipt or which != receipt["replay"]["which"]:
        receipt["replay"] = empty_replay(inputs, which, None)
    if which == "all":
        receipt["replay"] = replay_of(plan_of(receipt, inputs), None, "all") or receipt["replay"]


def verdict_of(judged: Judged) -> Receipt:
    return {
        "gate": judged.gate["id"],
        "figure": judged.figure,
        "limit": judged.limit,
        "margin": judged.margin,
        "verdict": judged.verdict,
        "waived": judged.waived,
    }


def rows_of(receipt: Receipt) -> list[Receipt]:
    """The scenarios of the inventory, not evaluated yet."""
    inventory = plan_of(receipt, usable_inputs(receipt)).inventory
    parts = {row["topology"]: row["operating_parts"] for row in receipt["topologies"]}
    return [
        {"scenario": knobs.name, "topology": knobs.topology, **{name: getattr(knobs, name) for name in KNOBS},
         "gpus": inventory.gpus_of(knobs), "operating_parts": parts[knobs.topology], "bounds": {}, "verdicts": [],
         "passes": False}
        for knobs in inventory.scenarios()
    ]  # fmt: skip


def shrink(receipt: Receipt, workers: int, chunk_tokens: int) -> Receipt:
    """The same cohort on a smaller inventory: an honest receipt with few rows."""
    small = copy.deepcopy(receipt)
    gpus = workers * input_row(small, "inventory.gpus_per_worker")["value"]
    input_row(small, "inventory.gpus").update(value=gpus, conservative=gpus)
    chunks = input_row(small, "topologies.chunked.chunk_tokens")
    chunks.update(value=str(chunk_tokens), conservative=str(chunk_tokens))
    small["scenarios"] = rows_of(small)
    recompute(small)
    name_anew(small)
    attach(small, matrix_rows(small))
    return small


def name_anew(receipt: Receipt) -> None:
    """Give the receipt the fingerprint of its changed question."""
    workload = receipt["workload"]
    names = ("requests_sha256", "bucket_edges_tokens")
    receipt["fingerprint"] = sha256_of({"inputs": receipt["inputs"], **{name: workload[name] for name in names}})


def name_rules_anew(receipt: Receipt) -> None:
    """Give the rules the fingerprint that they have with the date, as changed."""
    receipt["rules"]["fingerprint"] = rules_fingerprint(receipt)


def matrix_rows(receipt: Receipt) -> list[list[str]]:
    columns = columns_of(receipt)
    rows = [cells_of(receipt, row) for row in receipt["scenarios"]]
    return [columns, *([cells[column] for column in columns] for cells in rows)]


def csv_bytes(rows: list[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def attach(receipt: Receipt, rows: list[list[str]]) -> bytes:
    """Describe the matrix in the receipt, and return its bytes."""
    raw = csv_bytes(rows)
    receipt["matrix"] = {"rows": len(rows) - 1, "columns": rows[0], "sha256": hashlib.sha256(raw).hexdigest()}
    return raw


def write(directory: Path, receipt: Receipt, matrix: bytes) -> Path:
    """Seal the receipt and write both files."""
    receipt["seal"] = sha256_of({name: value for name, value in receipt.items() if name != "seal"})
    (directory / "matrix.csv").write_bytes(matrix)
    path = directory / "receipt.json"
    path.write_bytes(canonical_bytes(receipt))
    return path


def verified(directory: Path, receipt: Receipt, rows: list[list[str]] | None = None) -> Verification:
    """Write a forged receipt with the matrix it implies (or the given one), and verify it."""
    matrix = attach(receipt, matrix_rows(receipt) if rows is None else rows)
    return verify(write(directory, receipt, matrix))
