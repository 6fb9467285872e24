"""Names that a receipt uses, as docs/formats.md lists them."""

from __future__ import annotations

TOPOLOGIES = ("aggregated", "chunked", "disaggregated", "routed")
BOUNDS = ("nominal", "conservative")
REPLAYED_UNITS = {
    "replayed_goodput": "ratio",
    "replayed_goodput_tokens": "ratio",
    "replayed_stall": "s",
    "replayed_time_above_ceiling": "s",
    "replayed_peak_queue": "count",
    "replayed_peak_kv": "ratio",
    "replayed_preemptions": "count",
}
"""Metrics of a scenario that are figures of its replay."""
METRIC_UNITS = {
    "ttft_worst": "s",
    "tpot_worst": "s",
    "e2e_worst": "s",
    "stall": "s",
    "transfer_worst": "s",
    "goodput": "ratio",
    "transfer_envelope_share": "ratio",
    "pressure": "ratio",
    "headroom": "ratio",
    "gpus": "count",
    "operating_parts": "count",
    **REPLAYED_UNITS,
}
"""Metrics of a scenario."""
BUCKET_METRICS = ("ttft", "tpot", "e2e", "prefill_wait", "transfer", "decode_wait")
"""Metrics by bucket, all in seconds."""
PROVENANCE_UNITS = {"unobserved_share": "ratio", "unobserved_inputs": "count", "evidence_age": "days"}
CRITICAL_POOLS = "critical_pools"
CAPACITY_UNITS = {CRITICAL_POOLS: "count"}
DECISION_UNITS = {**PROVENANCE_UNITS, **CAPACITY_UNITS}
"""Metrics of the decision: of gates of kind Provenance, and of kind Capacity."""
AGGREGATES = ("worst", "request_weighted", "share")
GATE_KINDS = ("LatencyObjective", "Goodput", "TransferBudget", "Capacity", "Provenance")
SHORTEST, LONGEST = "shortest", "longest"
"""Words for the first and the last bucket."""
ARRIVAL_KINDS = ("open", "rate", "closed")
FORMATS = (
    "azure-llm",
    "mooncake",
    "burstgpt",
    "qwen-bailian",
    "vidur",
    "ragpulse",
    "servegen",
    "splitwise-sim",
    "llmservingsim",
    "srt-slurm",
    "vllm-results",
    "sglang-results",
    "aiperf-results",
    "otel-genai",
    "phaseledger",
    "generic",
    "classes",
)
STEPS = ("place_turns", "expand", "spread_ties", "window", "where", "prompt_tokens", "thin", "repeat", "scale_rate")
"""What may be done to a log, in this order."""
PART_KINDS = ("pools", "queues", "state_transfers", "failure_edges")
PREFERENCES = ("operating_parts", "gpus", "margin")
LANES = (
    "admission",
    "prefill_wait",
    "prefill_execution",
    "transfer_wait",
    "kv_movement",
    "decode_wait",
    "first_decode_step",
    "remaining_generation",
)

FRONTIERS = ("ttft", "tpot", "stall")
"""Figures that have a frontier."""
ALLOCATIONS = ("uniform", "by_kind")
LINK_SHARING = ("shared", "per_prefill_worker", "per_decode_worker")
DISPATCHES = ("least_loaded", "round_robin", "shortest_queue")
MEMORY_POLICIES = ("recompute", "swap", "wait")
NOT_DECLARED = "not declared: default"
"""The note of a row whose value is the default."""
