"""A receipt with rules of every kind: by bucket, limits that are metrics or baselines, on the decision, exceptions."""

from __future__ import annotations

from tests.oracle.forging import Receipt, input_row
from tests.oracle.handmade import (
    PLAIN,
    RULE,
    exception,
    gate_by_bucket,
    gate_on_decision,
    gate_with_baseline,
    receipt_of,
)

AS_OF = "2026-11-30"
OBSERVED = {
    "service.prefill.tokens_per_second": "runs of 2026-13-01, 2026-08-31 and 2026-11-29",
    "service.decode.step_overhead": "a profile (2026-11-02)",
    "network.effective_bandwidth": "iperf on 2025-01-01",
    "service.admission": "gateway logs of 2026-08-31T10:00",
}
"""What is observed, and its source."""
SEPARATED = ["disaggregated"]


def ruled() -> Receipt:
    return receipt_of("rate", amend=amend)


def amend(receipt: Receipt) -> None:
    receipt["as_of"] = AS_OF
    for path, source in OBSERVED.items():
        input_row(receipt, path).update(provenance="observed", source=source)
    receipt["rules"]["gates"] += [
        gate_by_bucket("ttft_mean", "ttft", "request_weighted", "lte", 1.0, message="{scenario}: {figure}, {{not}} {limit}"),
        gate_by_bucket("e2e_share", "e2e", "share", "gte", 0.5, within=2.0, within_source="declared"),
        gate_by_bucket(
            "tpot_share", "tpot", "share", "gt", 0.9, within=0.05, within_source="objectives.tpot", bound="conservative"
        ),
        gate_by_bucket("longest_wait", "prefill_wait", "worst", "lte", None, buckets=["longest"],
                       limit_source="metrics.ttft_worst", limit_times=0.75),
        gate_by_bucket("transfer_short", "transfer", "worst", "lt", 0.001, buckets=["shortest", "[512,4096)"],
                       topologies=SEPARATED, cohorts=["handmade", "another"]),
        gate_by_bucket("waits", "decode_wait", "worst", "lte", 1.0, severity="warn", blocking=False, owner="another",
                       rationale="to be seen"),
        {**RULE, "id": "generation", "metric": "e2e_worst", "unit": "s", "topologies": list(PLAIN), "op": "lte",
         "limit": None, "limit_source": "metrics.tpot_worst", "limit_times": 2000},
        {**RULE, "id": "elsewhere", "metric": "stall", "unit": "s", "topologies": list(PLAIN), "op": "lte", "limit": 0.001,
         "limit_source": "declared", "cohorts": ["another"], "applies": False},
        gate_by_bucket("e2e_promised", "e2e", "worst", "lte", None, limit_source="objectives.e2e", applies=False),
        gate_on_decision("share", "unobserved_share", "lte", 0.95),
        gate_on_decision("how_many", "unobserved_inputs", "lt", 4, inputs=["service.*", "requests.trace"],
                         severity="warn", blocking=False),
        gate_on_decision("age", "evidence_age", "lte", 90, inputs=["service.*"]),
        gate_on_decision("network_age", "evidence_age", "lte", 30, inputs=["network.*"], cohorts=["handmade"]),
        gate_on_decision("none_unobserved", "unobserved_inputs", "lte", 0),
        gate_with_baseline("tpot_gain", "tpot_worst", "chunked", 0.95, topologies=SEPARATED),
        gate_with_baseline("mean_start", "ttft", "aggregated", 1.5, aggregate="request_weighted", bound="conservative",
                           topologies=["chunked", *SEPARATED], blocking=False),
        gate_on_decision("spare", "critical_pools", "lte", 1),
    ]  # fmt: skip
    receipt["rules"]["exceptions"] += [
        exception("transfer_short", SEPARATED, AS_OF),
        exception("stall", ["aggregated", "chunked"], "2026-11-29", standing="expired"),
        exception("goodput", ["chunked"], "2020-02-29", cohorts=["another"], standing="other_cohort"),
        exception("none_unobserved", [], "2028-02-29", cohorts=["handmade"]),
    ]
