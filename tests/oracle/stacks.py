"""What cohorts may declare of model, memory and network, other than the plain ones: changes of the inputs of `handmade`."""

from __future__ import annotations

from typing import Any

Values = dict[str, tuple[Any, ...] | None]

_NO_SHAPE: Values = dict.fromkeys(("model.layers", "model.kv_heads", "model.head_dim"))
_NO_BANDWIDTH: Values = dict.fromkeys(
    f"network.{name}"
    for name in (
        "line_rate",
        "effective_bandwidth",
        "peak_bandwidth",
        "registration",
        "synchronization",
        "receiver_visibility",
        "seconds_per_descriptor",
        "regions_per_block",
    )
)
_CURVE = "1000000:0.001:0.002 20000000:0.003:0.006 100000000:0.011:0.02 400000000:0.05:0.09"

WINDOWS: Values = _NO_SHAPE | {
    "model.cache": ("full:18x8x64+64 window:18x8x64+64@128",),
    "model.block_tokens": (16,),
    "model.kv_allocation": ("by_kind",),
    "model.layout_factor": (1.0, None, 1.1),
    "inventory.kv_memory_per_worker": None,
    "inventory.gpu_memory": (80 * 2**30, 79 * 2**30),
    "inventory.memory_utilization": (0.9, 0.85),
    "inventory.weights_per_worker": (16.1e9,),
    "inventory.activations_per_worker": (3e9, None, 5e9),
    "network.competing_traffic": (0.1, None, 0.3),
    "network.router_handover": (0.005, None, 0.04),
    "network.seconds_per_descriptor": (2e-6, None, 4e-6),
    "network.regions_per_block": (2, None, 3),
    "objectives.transfer_reserve": (0.75,),
}
"""Half of the layers with a window; descriptors and handovers; memory from that of the GPU."""

LATENT: Values = _NO_SHAPE | _NO_BANDWIDTH | {
    "model.cache": ("latent:61x1x512+64 index:61x1x128+4",),
    "model.kv_dtype": ("fp8_ds_mla",),
    "model.tensor_parallel": (8,),
    "model.block_tokens": (64,),
    "inventory.gpus": (24,),
    "inventory.gpus_per_worker": (8,),
    "inventory.kv_memory_per_worker": None,
    "inventory.kv_tokens_per_worker": (78384, 70000),
    "network.links": (8,),
    "network.links_per_transfer": (4,),
    "network.link_sharing": ("per_decode_worker",),
    "network.overlap": (0.5, 0.25),
    "network.transfer_curve": (_CURVE,),
}  # fmt: skip
"""A latent on eight ranks, over a measured curve alone; memory in tokens."""

HYBRID: Values = _NO_SHAPE | {
    "model.cache": ("full:12x4x256+256 window:4x4x128+128@512 window:2x4x128+128@64 state:36x32x16384+24576",),
    "model.kv_dtype": ("fp8",),
    "model.tensor_parallel": (2,),
    "model.block_tokens": (1,),
    "inventory.gpus": (6,),
    "inventory.gpus_per_worker": (2,),
    "service.first_token_source": ("prefill",),
    "network.links": (5, 4),
    "network.links_per_transfer": (2,),
    "network.link_sharing": ("per_prefill_worker",),
    "network.relayout_factor": (1.25, None, 1.5),
    "network.prefix_at_destination": (0.5, 0.25),
    "network.seconds_per_descriptor": (1e-5,),
    "network.overlap": (0.6,),
    "network.transfer_curve": ("100000000:0.003:0.006 160000000:0.011:0.02",),
}
"""State and two windows, over a curve that holds for some prompts and a bandwidth for the others."""

ROUTED: Values = {
    "topologies.compared": ("aggregated chunked disaggregated routed",),
    "topologies.routed.threshold_tokens": ("512 4096",),
    "topologies.routed.chunk_tokens": ("512",),
    "service.mixed_step_penalty": (0.1, None, 0.2),
    "inventory.gpus": (4,),
    "inventory.gpu_hour_price": (2.5,),
    "objectives.e2e": (30.0,),
    "objectives.buckets.512.ttft": (0.5,),
    "objectives.buckets.4096.tpot": (0.04,),
    "objectives.buckets.4096.e2e": (20.0,),
}
"""Prompts that are routed by their length, objectives of buckets, a price."""

_PREFILL = "1:0.009:0.012 512:0.06:0.07 4096:0.5:0.6"
_DECODE = "1:0.0125:0.013 8:0.014:0.015 64:0.045:0.05"
MEASURED: Values = ROUTED | {
    "service.prefill.tokens_per_second": None,
    "service.prefill.overhead": None,
    "service.prefill.peak_tokens_per_second": None,
    "service.prefill.curve": (_PREFILL,),
    "service.decode.tokens_per_second": None,
    "service.decode.step_overhead": None,
    "service.decode.curve": (_DECODE,),
    "separated.prefill.seconds_per_token_squared": (1e-9,),
    "separated.prefill.utilization_ceiling": (0.9,),
    "separated.decode.gpus_per_worker": (2,),
    "separated.decode.tokens_per_second": (4000, 3800),
    "separated.decode.step_overhead": (0.01, None, 0.012),
    "separated.decode.kv_memory_per_worker": (80 * 2**30, 70 * 2**30),
    "separated.decode.max_sequences": (128,),
    "inventory.gpus": (6,),
}
"""Measured times on the mixed pool, and decode workers of two GPUs."""

STACKS: dict[str, Values] = {
    "plain": {},
    "windows": WINDOWS,
    "latent": LATENT,
    "hybrid": HYBRID,
    "routed": ROUTED,
    "measured": MEASURED,
}
