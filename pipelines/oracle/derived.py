"""The parts of a receipt that follow from inputs and requests alone: service, transfer assumptions, operating parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import transfers as tr
from .canonical import sha256_of
from .equations import prefill_of
from .findings import Ledger, close
from .memory import mean_tokens, whole_tokens
from .names import BOUNDS, PART_KINDS
from .parameters import BANDWIDTH, CURVE, HANDOVER, OVERHEAD_INPUTS, SEPARATED, Inputs, Parameters
from .recomputing import operating_parts
from .topologies import PATHS
from .traffic import Cohort, Requests
from .words import PARTS, WORDS


def check_fingerprints(ledger: Ledger, receipt: Mapping[str, Any]) -> None:
    """One names the frozen question: inputs, trace, bucket edges; the other the rules, and the date that they are read at."""
    workload = receipt["workload"]
    question = {
        "inputs": receipt["inputs"],
        "requests_sha256": workload["requests_sha256"],
        "bucket_edges_tokens": workload["bucket_edges_tokens"],
    }
    ledger.same("fingerprints", "fingerprint", receipt["fingerprint"], sha256_of(question), "the frozen question")
    found, expected = receipt["rules"]["fingerprint"], rules_fingerprint(receipt)
    ledger.same("fingerprints", "rules.fingerprint", found, expected, "the rules and their date")


def rules_fingerprint(receipt: Mapping[str, Any]) -> str:
    """Name the rules of a receipt and the date they are read at, but for what its cohort makes of them."""
    rules = {name: value for name, value in receipt["rules"].items() if name != "fingerprint"}
    rules["gates"] = [_as_declared(gate) for gate in rules["gates"]]
    rules["exceptions"] = [{k: v for k, v in row.items() if k != "standing"} for row in rules["exceptions"]]
    return sha256_of({"as_of": receipt["as_of"], "rules": rules})


def _as_declared(gate: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out whether a gate applies, and every number that is not its own."""
    declared = {name: value for name, value in gate.items() if name != "applies"}
    for name in ("limit", "within"):
        if gate[f"{name}_source"] != "declared":
            declared[name] = None
    return declared


def check_service(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs) -> None:
    """Recompute mean and second moment of a whole prompt's prefill, of all requests and of each bucket."""
    found, expected = receipt["service"], []
    cohort = Cohort(receipt["workload"])
    for bound in BOUNDS:
        requests = cohort.traffic(inputs, bound).requests
        prefill = prefill_of(inputs.parameters(bound), requests)
        moments = (requests.whole, *requests.buckets)
        expected += [(bound, k.bucket, prefill.mean_s(k), prefill.m2_s2(k)) for k in moments]
    places = [(row["bound"], row["bucket"]) for row in found]
    order = [(bound, bucket) for bound, bucket, *_ in expected]
    if not ledger.listed("service", "service", places, order, "nominal, then conservative; all, then each bucket"):
        return
    for row, (bound, bucket, mean, second) in zip(found, expected, strict=True):
        where, why = f"service[{bound}/{bucket}]", "docs/arithmetic.md section 3"
        ledger.figure("service", f"{where}.prefill_mean_s", row["prefill_mean_s"], mean, why)
        ledger.figure("service", f"{where}.prefill_m2_s2", row["prefill_m2_s2"], second, why)


def check_transfer(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs) -> None:
    """Recompute the transfer assumptions: what a transfer is computed from, its overheads, bytes and channels."""
    transfer, moved = receipt["transfer"], inputs.separated
    ledger.same("transfer", "transfer", transfer is not None, moved, f"there when one of {SEPARATED} is compared")
    if transfer is None or not moved:
        return
    affine, curve = BANDWIDTH in inputs.rows, CURVE in inputs.rows
    sources = [name for name, there in (("affine", affine), ("curve", curve)) if there]
    ledger.listed("transfer", "transfer.sources", transfer["sources"], sources, "what the network's inputs declare")
    why, named = "peak and line rate are never used as a rate", BANDWIDTH if affine else None
    ledger.same("transfer", "transfer.bandwidth_input", transfer["bandwidth_input"], named, why)
    overheads = [HANDOVER, *(OVERHEAD_INPUTS if affine else ())]
    ledger.listed("transfer", "transfer.overhead_inputs", transfer["overhead_inputs"], overheads, "overheads")
    for bound in BOUNDS:
        of, traffic = inputs.parameters(bound, separated=True), Cohort(receipt["workload"]).traffic(inputs, bound)
        _check_transfer_bound(ledger, f"transfer.{bound}", transfer[bound], of, traffic.requests)


def _check_transfer_bound(
    ledger: Ledger, where: str, found: Mapping[str, Any], of: Parameters, requests: Requests
) -> None:
    bandwidth, shown = tr.transfer_bandwidth(of), found["bandwidth_bytes_per_s"]
    agrees = shown is None if bandwidth is None else shown is not None and close(shown, bandwidth, 1.0)
    why = f"links_per_transfer x {BANDWIDTH} x (1 - competing_traffic)"
    ledger.holds("transfer", f"{where}.bandwidth_bytes_per_s", agrees, shown, bandwidth, why)
    overhead = of.transfer_overhead_s if bandwidth is not None else None
    ledger.figure("transfer", f"{where}.overhead_s", found["overhead_s"], overhead, " + ".join(OVERHEAD_INPUTS))
    ledger.figure("transfer", f"{where}.handover_s", found["handover_s"], of.handover_s, HANDOVER)
    ledger.same(
        "transfer", f"{where}.channels", found["channels"], tr.channels(of), "floor(links / links_per_transfer)"
    )
    sizes = tuple(tr.moved_bytes(of, mean_tokens(of, tr.tokens_of(of, s))) for s in requests.strata)
    largest, why = tr.moved_bytes(of, whole_tokens(of, requests.whole.p_max)), "docs/arithmetic.md section 3, Transfers"
    mean = requests.mean("all", sizes)
    ledger.figure("transfer", f"{where}.bytes_mean", found["bytes_mean"], mean, why)
    ledger.figure("transfer", f"{where}.bytes_max", found["bytes_max"], largest, why)
    leaves = None if of.curve is None else not all(of.curve.covers(size) for size in (*sizes, largest))
    ledger.same("transfer", f"{where}.leaves_curve", found["leaves_curve"], leaves, why)


def check_parts(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs) -> None:
    """Compare the paths and operating parts of each compared topology, and weigh these."""
    found = receipt["topologies"]
    names = [row["topology"] for row in found]
    ledger.listed("topologies", "topologies", names, list(inputs.compared), "the compared topologies, in order")
    weights = receipt["rules"]["decision"]["operating_part_weights"]
    for row in found:
        where = f"topologies[{row['topology']}]"
        _check_paths(ledger, f"{where}.paths", row, inputs)
        for kind in PART_KINDS:
            named, expected = row["parts"][kind], list(PARTS[row["topology"]][kind])
            ledger.listed("topologies", f"{where}.parts.{kind}", named, expected, WORDS)
        ledger.figure(
            "topologies",
            f"{where}.operating_parts",
            row["operating_parts"],
            operating_parts(row["topology"], weights),
            "parts x weights",
        )


def _check_paths(ledger: Ledger, where: str, row: Mapping[str, Any], inputs: Inputs) -> None:
    """Which prompts take which kind of path, and which pool emits their first token there."""
    source = inputs.nominal("service.first_token_source")
    found = [tuple(path[name] for name in ("prompts", "kind", "first_token")) for path in row["paths"]]
    expected = [
        (prompts, kind, source if kind == "separated" else "prefill") for prompts, kind in PATHS[row["topology"]]
    ]
    ledger.listed("topologies", where, found, expected, "docs/arithmetic.md section 5")
