"""The words that every receipt has (docs/formats.md, Words)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .findings import Ledger

WORDS = "docs/formats.md, Words"
STATEMENT = (
    "Deterministic arithmetic over declared inputs. Inputs are observed or supplied, results are derived, latencies are"
    " modeled means: nothing here is a measurement of a GPU, a network, a scheduler or a running service, and no"
    " percentile is stated."
)
UNMEASURED = (
    "latencies, goodput and utilization of the real stack",
    "bursts beyond what the variation of inter-arrival times expresses",
    "interference between transfers and other traffic on the links",
    "how the scheduler batches prompts",
    "behaviour after a worker, a transfer or a router fails",
)
KV_FORMULA = (
    "bytes of a sequence = growth x tokens + sum over windows of bytes_per_token x min(tokens, window_tokens) + state,"
    " each of them layout_factor x layers x bytes_per_layer; bytes_per_layer = tensor_parallel x"
    " ceil(heads / tensor_parallel) x bytes of one head, (first + second) x element bytes for keys and values"
    " (docs/arithmetic.md, section 2, has the other kinds)"
)
TRANSFER_FORMULA = (
    "transfer_s = router_handover + registration + synchronization + receiver_visibility + seconds_per_descriptor x"
    " descriptors + bytes / (links_per_transfer x effective_bandwidth x (1 - competing_traffic)); within the range of a"
    " declared curve: router_handover + curve(bytes) / (1 - competing_traffic)"
)
_OF_STATE = (
    "prefill_worker_lost",
    "transfer_failed",
    "state_after_admission_window",
    "decode_worker_restarted",
    "network_degraded",
)
"""What may fail where the state of a request moves."""
PARTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "aggregated": {
        "pools": ("mixed",),
        "queues": ("prompts",),
        "state_transfers": (),
        "failure_edges": ("worker_lost",),
    },
    "chunked": {
        "pools": ("mixed",),
        "queues": ("prompts", "partly_prefilled"),
        "state_transfers": (),
        "failure_edges": ("worker_lost",),
    },
    "disaggregated": {
        "pools": ("prefill", "decode"),
        "queues": ("prompts", "transfers", "decode_admission"),
        "state_transfers": ("kv_cache",),
        "failure_edges": _OF_STATE,
    },
    "routed": {
        "pools": ("mixed", "prefill", "decode"),
        "queues": ("short_prompts", "partly_prefilled", "long_prompts", "transfers", "decode_admission"),
        "state_transfers": ("kv_cache",),
        "failure_edges": ("router_misplaced", "worker_lost", *_OF_STATE),
    },
}
"""Names of the operating parts of each topology."""


def check_truth(ledger: Ledger, check: str, truth: Mapping[str, Any]) -> None:
    """Compare what the receipt says that it is, and what it does not say."""
    ledger.same(check, "truth_boundary.statement", truth["statement"], STATEMENT, WORDS)
    ledger.listed(check, "truth_boundary.unmeasured", truth["unmeasured"], list(UNMEASURED), WORDS)


def check_formulas(ledger: Ledger, receipt: Mapping[str, Any]) -> None:
    """Compare the formulas, in words, of cache bytes and transfer times."""
    ledger.same("kv", "kv.formula", receipt["kv"]["formula"], KV_FORMULA, WORDS)
    if receipt["transfer"] is not None:
        ledger.same("transfer", "transfer.formula", receipt["transfer"]["formula"], TRANSFER_FORMULA, WORDS)
