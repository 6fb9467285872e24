"""The parts of a receipt that follow from the inputs alone: KV bytes, transfer assumptions, operating parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .canonical import sha256_of
from .equations import prefill_m2_s2, prefill_s
from .findings import Ledger, close
from .parameters import ELEMENT_BYTES, OVERHEAD_INPUTS, Inputs
from .recomputing import operating_parts
from .structure import BOUNDS, PART_KINDS
from .topologies import PARTS
from .traffic import traffic_of


def check_fingerprint(ledger: Ledger, receipt: Mapping[str, Any]) -> None:
    """The fingerprint names the frozen question: inputs, trace, bucket edges."""
    workload = receipt["workload"]
    question = {
        "inputs": receipt["inputs"],
        "requests_sha256": workload["requests_sha256"],
        "bucket_edges_tokens": workload["bucket_edges_tokens"],
    }
    ledger.same("fingerprint", "fingerprint", receipt["fingerprint"], sha256_of(question), "the frozen question")


def check_kv(ledger: Ledger, kv: Mapping[str, Any], inputs: Inputs) -> None:
    """Recompute KV bytes per token from the model's shape."""
    factors = {name: inputs.nominal(f"model.{name}") for name in ("layers", "kv_heads", "head_dim", "layout_factor")}
    factors["element_bytes"] = ELEMENT_BYTES[inputs.nominal("model.kv_dtype")]
    for name, value in factors.items():
        ledger.same("kv", f"kv.factors.{name}", kv["factors"][name], value, "the model's inputs")
    for bound in BOUNDS:
        expected = float(inputs.kv_bytes_per_token(bound))
        ledger.figure(
            "kv", f"kv.bytes_per_token.{bound}", kv["bytes_per_token"][bound], expected, "docs/arithmetic.md section 2"
        )


def check_service(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs) -> None:
    """Recompute mean and second moment of a whole prompt's prefill, of all requests and of each bucket."""
    found, expected = receipt["service"], []
    for bound in BOUNDS:
        of, traffic = inputs.parameters(bound), traffic_of(receipt["workload"], inputs, bound)
        moments = (traffic.whole, *traffic.buckets)
        expected += [(bound, k.bucket, prefill_s(of, k.u1, k.z1), prefill_m2_s2(of, k)) for k in moments]
    places = [(row["bound"], row["bucket"]) for row in found]
    order = [(bound, bucket) for bound, bucket, *_ in expected]
    if not ledger.listed("service", "service", places, order, "nominal, then conservative; all, then each bucket"):
        return
    for row, (bound, bucket, mean, second) in zip(found, expected, strict=True):
        where, why = f"service[{bound}/{bucket}]", "docs/arithmetic.md section 3"
        ledger.figure("service", f"{where}.prefill_mean_s", row["prefill_mean_s"], mean, why)
        ledger.figure("service", f"{where}.prefill_m2_s2", row["prefill_m2_s2"], second, why)


def check_transfer(ledger: Ledger, transfer: Mapping[str, Any] | None, inputs: Inputs) -> None:
    """Recompute the transfer assumptions: the effective bandwidth, and the sum of the fixed overheads."""
    moved = "disaggregated" in inputs.compared
    ledger.same("transfer", "transfer", transfer is not None, moved, "there when a disaggregated topology is compared")
    if transfer is None or not moved:
        return
    ledger.same(
        "transfer",
        "transfer.bandwidth_input",
        transfer["bandwidth_input"],
        "network.effective_bandwidth",
        "peak and line rate are never used as a rate",
    )
    ledger.listed(
        "transfer", "transfer.overhead_inputs", transfer["overhead_inputs"], list(OVERHEAD_INPUTS), "overheads"
    )
    for bound in BOUNDS:
        of, found = inputs.parameters(bound), transfer[bound]
        ledger.figure(
            "transfer",
            f"transfer.{bound}.overhead_s",
            found["overhead_s"],
            of.transfer_overhead_s,
            " + ".join(OVERHEAD_INPUTS),
        )
        where, bandwidth, expected = (
            f"transfer.{bound}.bandwidth_bytes_per_s",
            found["bandwidth_bytes_per_s"],
            of.bandwidth_bytes_per_s,
        )
        agrees = close(bandwidth, expected, 1.0)
        ledger.holds("transfer", where, agrees, bandwidth, expected, "network.effective_bandwidth")


def check_parts(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs) -> None:
    """Count the operating parts of each compared topology, and weigh them."""
    found = receipt["topologies"]
    names = [row["topology"] for row in found]
    ledger.listed("parts", "topologies", names, list(inputs.compared), "the compared topologies, in order")
    weights = receipt["rules"]["decision"]["operating_part_weights"]
    for row in found:
        where = f"topologies[{row['topology']}]"
        for kind in PART_KINDS:
            named = row["parts"][kind]
            expected = PARTS[row["topology"]][kind]
            ledger.same("parts", f"{where}.parts.{kind}", len(set(named)), expected, "distinct parts (docs/formats.md)")
            ledger.same("parts", f"{where}.parts.{kind}", len(named), expected, "parts (docs/formats.md)")
        ledger.figure(
            "parts",
            f"{where}.operating_parts",
            row["operating_parts"],
            operating_parts(row["topology"], weights),
            "parts x weights",
        )
