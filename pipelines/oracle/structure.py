"""The shape of a receipt, as docs/formats.md lists its members."""

from __future__ import annotations

from .cache import ELEMENT_BYTES, KINDS
from .excepting import DATE
from .findings import Ledger
from .judged_shapes import DECISION, REJECTED, RULES, VERDICT
from .names import (
    ALLOCATIONS,
    ARRIVAL_KINDS,
    BOUNDS,
    FORMATS,
    FRONTIERS,
    LANES,
    PART_KINDS,
    STEPS,
    TOPOLOGIES,
)
from .replayed_shapes import REPLAY
from .shapes import Shape, boolean, count, line, listing, nullable, number, number_or_text, one_of, record, text

_SHA256 = "[0-9a-f]{64}"
_VERSION = r"[0-9]+(?:\.[0-9]+)+(?:(?:a|b|rc)[0-9]+)?(?:\.post[0-9]+)?(?:\.dev[0-9]+)?(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?"
"""A version as PEP 440 writes it in canonical form, with a point at least."""
_PROVENANCE = one_of("observed", "supplied")

_INPUT = record(
    {
        "path": line(),
        "unit": line(),
        "value": number_or_text(),
        "low": nullable(number()),
        "high": nullable(number()),
        "conservative": number_or_text(),
        "provenance": _PROVENANCE,
        "source": nullable(text()),
        "note": nullable(text(empty=True)),
    }
)

_BUCKET = record(
    {
        "bucket": text(),
        "requests": count(1),
        "rate_rps": nullable(number(0)),
        "arrival_scv": nullable(number(0)),
        "prompt_tokens_mean": number(1),
        "prompt_tokens_m2": number(1),
        "prompt_tokens_max": count(1),
        "uncached_tokens_mean": number(1),
        "uncached_tokens_m2": number(1),
        "uncached_tokens_max": count(1),
        "attention_mean": number(1),
        "attention_m2": number(1),
        "attention_max": number(1),
        "uncached_attention_mean": number(1),
        "prompt_uncached_mean": number(1),
        "prompt_attention_mean": number(1),
        "output_tokens_mean": number(1),
        "output_tokens_m2": number(1),
        "output_tokens_max": count(1),
        "prompt_output_mean": number(1),
        "multi_token_share": number(0),
    }
)

_STRATUM = record(
    {
        "bucket": text(),
        "stratum": count(0),
        "requests": count(1),
        "prompt_tokens_mean": number(1),
        "uncached_tokens_mean": number(1),
        "attention_mean": number(1),
        "prompt_tokens_m2": number(1),
        "prompt_uncached_mean": number(1),
        "uncached_tokens_m2": number(1),
    }
)

_OUTPUTS = record(
    {
        "bucket": text(),
        "stratum": count(0),
        "requests": count(1),
        "output_tokens_mean": number(1),
    }
)

_WINDOW = record(
    {
        "bucket": text(),
        "window_s": number(0),
        "windows": count(1),
        "dispersion": nullable(number(0)),
        "peak_rps": number(0),
    }
)

_PREFIX_CACHE = record(
    {
        "capacity_tokens": nullable(count(1)),
        "scope": one_of("shared", "per_worker"),
        "workers": count(1),
        "block_tokens": count(1),
        "hit_ratio": number(0),
    }
)

_WORKLOAD = record(
    {
        "kind": one_of(*ARRIVAL_KINDS),
        "requests_sha256": text(_SHA256),
        "format": one_of(*FORMATS),
        "provenance": _PROVENANCE,
        "source": nullable(text()),
        "note": nullable(text(empty=True)),
        "requests": count(1),
        "duration_s": nullable(number(0)),
        "bucket_edges_tokens": listing(count(2)),
        "rows_read": count(1),
        "rows_dropped": count(0),
        "dropped": listing(record({"kind": text(r"[a-z][a-z0-9_]*"), "rows": count(1)}), key="kind"),
        "steps": listing(
            record({"step": one_of(*STEPS), "detail": text(empty=True), "requests": count(1)}), key="step"
        ),
        "prefix_cache": nullable(_PREFIX_CACHE),
        "warnings": listing(text()),
        "buckets": listing(_BUCKET, key="bucket", least=2),
        "strata": listing(_STRATUM, least=1),
        "outputs": listing(_OUTPUTS, least=1),
        "windows": listing(_WINDOW),
    }
)

_KV_LAYERS = record(
    {
        "kind": one_of(*KINDS),
        "layers": count(1),
        "heads": count(1),
        "first": count(0),
        "second": count(0),
        "tokens": nullable(count(1)),
        "bytes_per_layer": number(0),
    }
)

_KV_BOUND = record(
    {
        "layout_factor": number(0),
        "growth_bytes_per_token": number(0),
        "windows": listing(record({"window_tokens": count(1), "bytes_per_token": number(0)})),
        "state_bytes_per_sequence": number(0),
        "allocated_bytes_per_token": number(0),
        "kv_memory_bytes": number(0),
    }
)

_BATCH_CAP = record(
    {
        "topology": one_of(*TOPOLOGIES),
        "bound": one_of(*BOUNDS),
        "sequence_tokens": number(0),
        "sequence_bytes": number(0),
        "sequences": number(0),
        "resident_tokens": nullable(number(0)),
    }
)

_KV = record(
    {
        "formula": text(),
        "kv_dtype": one_of(*ELEMENT_BYTES),
        "tensor_parallel": count(1),
        "block_tokens": count(1),
        "allocation": one_of(*ALLOCATIONS),
        "layers": listing(_KV_LAYERS, least=1),
        "nominal": _KV_BOUND,
        "conservative": _KV_BOUND,
        "batch_caps": listing(_BATCH_CAP, least=2),
    }
)

_SERVICE = record({"bound": one_of(*BOUNDS), "bucket": text(), "prefill_mean_s": number(0), "prefill_m2_s2": number(0)})

_TRANSFER_BOUND = record(
    {
        "overhead_s": nullable(number(0)),
        "handover_s": number(0),
        "bandwidth_bytes_per_s": nullable(number(0)),
        "channels": count(1),
        "bytes_mean": number(0),
        "bytes_max": number(0),
        "leaves_curve": nullable(boolean()),
    }
)

_BUDGET_ROW = record(
    {
        "bound": one_of(*BOUNDS),
        "bucket": text(),
        "used_s": number(0),
        "envelope_share": number(0),
        "limit_s": number(0),
        "limit_share": number(0),
        "bytes_mean": number(0),
        "bytes_at_limit": nullable(number(0)),
        "bandwidth_at_limit_bytes_per_s": nullable(number(0)),
        "largest_prompt_tokens": nullable(count(0)),
    }
)

_STAGING = record(
    {
        "bound": one_of(*BOUNDS),
        "in_flight_sequences": number(0),
        "free_sequences": number(0),
        "in_flight_bytes": number(0),
        "free_bytes": number(),
    }
)

_BUDGET = record(
    {
        "scenario": text(),
        "envelope_s": number(0),
        "reserve": nullable(number(0)),
        "rows": listing(_BUDGET_ROW),
        "staging": listing(_STAGING, key="bound"),
    }
)

_TRANSFER = record(
    {
        "formula": text(),
        "sources": listing(one_of("affine", "curve"), least=1),
        "bandwidth_input": nullable(text()),
        "overhead_inputs": listing(text(), least=1),
        "nominal": _TRANSFER_BOUND,
        "conservative": _TRANSFER_BOUND,
        "budget": nullable(_BUDGET),
    }
)

_PATH = record(
    {
        "prompts": one_of("all", "below_threshold", "from_threshold"),
        "kind": one_of("whole_prompts", "chunks", "separated", "whole_prompts_or_chunks"),
        "first_token": one_of("prefill", "decode"),
    }
)

_TOPOLOGY = record(
    {
        "topology": one_of(*TOPOLOGIES),
        "paths": listing(_PATH, least=1),
        "parts": record({kind: listing(text()) for kind in PART_KINDS}),
        "operating_parts": number(0),
    }
)

_TIMELINE = record(
    {"bucket": text()}
    | {f"{lane}_s": number(0) for lane in LANES}
    | {"ttft_s": number(0), "tpot_s": nullable(number(0)), "e2e_s": number(0)}
)

_BOUND = record(
    {
        "rate_rps": number(0),
        "status": one_of("evaluated", "refused"),
        "refusal": nullable(record({"kind": text(), "resource": text(), "figure": number(), "limit": number()})),
        "label": text(),
        "provenance": text(),
        "loads": listing(
            record({"resource": text(), "utilization": number(0), "ceiling": number(0)}), key="resource", least=1
        ),
        "pressure": number(0),
        "tightest": text(),
        "headroom": number(),
        "ttft_worst_s": nullable(number(0)),
        "ttft_worst_bucket": nullable(text()),
        "tpot_worst_s": nullable(number(0)),
        "tpot_worst_bucket": nullable(text()),
        "e2e_worst_s": nullable(number(0)),
        "stall_s": nullable(number(0)),
        "goodput": nullable(number(0)),
        "dominant_queue": nullable(text()),
        "decode_batch": nullable(number(0)),
        "ttft_judged_bucket": nullable(text()),
        "tpot_judged_bucket": nullable(text()),
        "e2e_judged_bucket": nullable(text()),
        "cost_per_million_tokens": nullable(number(0)),
        "screening": listing(text()),
        "transfer_worst_s": nullable(number(0)),
        "transfer_envelope_share": nullable(number(0)),
        "lanes": listing(_TIMELINE, key="bucket"),
    }
)

_SCENARIO = record(
    {
        "scenario": text(),
        "topology": one_of(*TOPOLOGIES),
        "threshold_tokens": nullable(count(1)),
        "workers_mixed": nullable(count(1)),
        "workers_prefill": nullable(count(1)),
        "workers_decode": nullable(count(1)),
        "chunk_tokens": nullable(count(1)),
        "gpus": count(1),
        "operating_parts": number(0),
        "bounds": record(dict.fromkeys(BOUNDS, _BOUND)),
        "verdicts": listing(VERDICT, key="gate"),
        "passes": boolean(),
    }
)

_FRONTIER = record(
    {
        "figure": one_of(*FRONTIERS),
        "scenario": text(),
        "operating_parts": number(0),
        "gpus": count(1),
        "value_s": number(0),
    }
)

_SEARCH = record(
    {
        "scenarios": count(1),
        "kept": count(1),
        "complete": boolean(),
        "frontier": listing(_FRONTIER),
        "baselines": listing(
            record({"scenario": text(), "aggregated": nullable(text()), "chunked": listing(text())}), key="scenario"
        ),
    }
)

_SENSITIVITY = record(
    {
        "path": text(),
        "margin_down": nullable(number()),
        "margin_up": nullable(number()),
        "passes_down": nullable(boolean()),
        "passes_up": nullable(boolean()),
    }
)

_EVENT = one_of("passes", "fails")

_SPEAKING = record(
    {
        "topology": one_of(*TOPOLOGIES),
        "scenario": text(),
        "margin": nullable(number()),
        "most_sensitive": nullable(text()),
        "sensitivity": listing(_SENSITIVITY, key="path"),
        "break_even": listing(
            record({"path": text(), "factor": number(0), "value": number(0), "event": _EVENT}), key="path"
        ),
        "fix": nullable(record({"path": text(), "factor": number(0), "value": number(0)})),
        "more_gpus": nullable(record({"gpus": count(1), "scenario": text()})),
        "rate": nullable(
            record(
                {
                    "factor": number(0),
                    "rate_rps": nullable(number(0)),
                    "event": _EVENT,
                    "gate": nullable(text()),
                    "verdict": nullable(one_of("fail", "refused")),
                }
            )
        ),
        "one_worker_less": listing(
            record(
                {
                    "pool": one_of("mixed", "prefill", "decode"),
                    "workers": count(0),
                    "load_factor": nullable(number(1)),
                    "passes": boolean(),
                    "margin": nullable(number()),
                }
            ),
            key="pool",
        ),
    }
)

_CHANGES = record({"speaking": listing(_SPEAKING, key="topology"), "measure_next": listing(text())})

SECTIONS: dict[str, Shape] = {
    "apiVersion": one_of("phaseledger/v1"),
    "kind": one_of("TopologyReceipt"),
    "versions": record({"product": text(_VERSION), "arithmetic": text(), "significant_digits": count(1)}),
    "truth_boundary": record({"statement": text(), "latency_label": text(), "unmeasured": listing(text(), least=1)}),
    "fingerprint": text(_SHA256),
    "cohort": record({"name": text("[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"), "title": line()}),
    "as_of": nullable(text(DATE)),
    "inputs": listing(_INPUT, key="path", least=1),
    "workload": _WORKLOAD,
    "kv": _KV,
    "service": listing(_SERVICE, least=4),
    "transfer": nullable(_TRANSFER),
    "topologies": listing(_TOPOLOGY, key="topology", least=1),
    "rules": RULES,
    "scenarios": listing(_SCENARIO, key="scenario", least=1),
    "decision": DECISION,
    "rejected": listing(REJECTED, key="topology"),
    "search": _SEARCH,
    "changes": _CHANGES,
    "replay": REPLAY,
    "matrix": record({"rows": count(1), "columns": listing(text(), least=1), "sha256": text(_SHA256)}),
    "seal": text(_SHA256),
}
"""Of each member of a receipt what it has to be."""

RECEIPT: Shape = record(SECTIONS)


def check_structure(ledger: Ledger, receipt: object) -> bool:
    """Check every member, type and enumeration; say whether the receipt can be recomputed from."""
    return RECEIPT(ledger, "", receipt)
