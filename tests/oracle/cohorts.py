"""Cohorts for the planner, made of a bundled one by declaring other things of model, memory and network."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from pipelines.receipts import build
from tests.oracle.filling import Receipt
from tests.plans import plan_of

Changes = dict[str, Any]
"""Path in the cohort's file -> what is declared there, or None where nothing is."""


def supplied(value: Any, **ends: Any) -> dict[str, Any]:
    return {"value": value, **ends, "provenance": "supplied"}


_NO_SHAPE: Changes = dict.fromkeys(("model.layers", "model.kv_heads", "model.head_dim"))
FULL = {"kind": "full", "layers": 18, "kv_heads": 8, "head_dim": 64}
_WINDOW = {"kind": "window", "layers": 18, "kv_heads": 8, "head_dim": 64, "window_tokens": 128}
_STATE = {"kind": "state", "layers": 36, "heads": 32, "elements_per_head": 16384, "convolution_elements": 24576}
_HYBRID = {"kind": "full", "layers": 12, "kv_heads": 4, "head_dim": 256}
_LATENT = {"kind": "latent", "layers": 61, "latent_dim": 512, "rope_dim": 64}
_INDEX = {"kind": "index", "layers": 61, "index_dim": 128, "scale_bytes": 4}
_CURVE = {"file": "transfers.csv", "provenance": "observed", "source": "a table of transfers"}
STRAIGHT = _CURVE | {"file": "largest.csv"}
"""The bandwidth of the largest transfer of the table, at every size."""
_TABLES = {
    "transfers.csv": ((10**6, 0.001, 0.002), (2 * 10**7, 0.003, 0.006), (10**8, 0.011, 0.02), (10**9, 0.05, 0.09)),
    "largest.csv": ((1, 5e-11, 9e-11), (10**9, 0.05, 0.09)),
}

WINDOWS: Changes = _NO_SHAPE | {
    "model.cache": [FULL, _WINDOW],
    "model.block_tokens": 16,
    "model.kv_allocation": "by_kind",
    "inventory.kv_memory_per_worker": None,
    "inventory.gpu_memory": supplied("80 GiB", low="79 GiB"),
    "inventory.memory_utilization": supplied(0.9, low=0.85),
    "inventory.weights_per_worker": supplied("66.1 GB"),
    "inventory.activations_per_worker": supplied("3 GB", high="5 GB"),
    "network.competing_traffic": supplied(0.1, high=0.3),
    "network.router_handover": supplied("5 ms", high="20 ms"),
    "network.seconds_per_descriptor": supplied("1 us", high="2 us"),
    "network.regions_per_block": supplied(2, high=3),
}
LATENT: Changes = _NO_SHAPE | {
    "model.cache": [_LATENT, _INDEX],
    "model.kv_dtype": "fp8_ds_mla",
    "model.tensor_parallel": 8,
    "model.block_tokens": 64,
    "inventory.gpus": 32,
    "inventory.gpus_per_worker": 8,
    "inventory.kv_memory_per_worker": None,
    "inventory.kv_tokens_per_worker": supplied(78384, low=70000),
    "network.links": supplied(8),
    "network.links_per_transfer": supplied(4),
    "network.link_sharing": "per_decode_worker",
    "network.overlap": supplied(0.5, low=0.25),
    **dict.fromkeys(
        f"network.{name}"
        for name in ("effective_bandwidth", "peak_bandwidth", "registration", "synchronization", "receiver_visibility")
    ),
    "network.transfer_curve": _CURVE,
}
HYBRID: Changes = _NO_SHAPE | {
    "model.cache": [_HYBRID, _WINDOW, _STATE],
    "model.kv_dtype": "fp8",
    "model.tensor_parallel": 2,
    "inventory.gpus": 8,
    "inventory.gpus_per_worker": 2,
    "service.first_token_source": "prefill",
    "network.links": supplied(6, low=4),
    "network.links_per_transfer": supplied(2),
    "network.link_sharing": "per_prefill_worker",
    "network.relayout_factor": supplied(1.25, high=1.5),
    "network.prefix_at_destination": supplied(0.5, low=0.25),
    "network.overlap": supplied(0.6),
    "network.transfer_curve": _CURVE,
    "service.prefill.prefix_hit_ratio": supplied(0.4, low=0.3),
    "objectives.ttft_growth": "100 ms",
}
STACKS = {"plain": {}, "windows": WINDOWS, "latent": LATENT, "hybrid": HYBRID}


def write_cohort(base: Path, directory: Path, changes: Changes) -> Path:
    """A copy of a cohort with other declarations, beside tables of transfers."""
    shutil.copytree(base, directory)
    declared = yaml.safe_load((directory / "cohort.yaml").read_text(encoding="utf-8"))
    for path, value in changes.items():
        *way, last = path.split(".")
        block = declared
        for name in way:
            block = block[name]
        if value is None:
            block.pop(last, None)
        else:
            block[last] = value
    (directory / "cohort.yaml").write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
    for name, points in _TABLES.items():
        rows = "".join(f"{size},{seconds:.11f},{high:.11f}\n" for size, seconds, high in points)
        (directory / name).write_text(f"bytes,seconds,high_s\n{rows}", encoding="utf-8")
    return directory


def planned(base: Path, rules: Path, directory: Path, changes: Changes) -> tuple[Receipt, bytes]:
    """The receipt and the matrix that the planner, as it is now, exports for it."""
    receipt, matrix = build.build_receipt(plan_of(write_cohort(base, directory, changes), rules))
    return dict(receipt), matrix
