"""What a receipt says of the KV cache and of moving it (docs/formats.md, Receipt: ``kv`` and ``transfer``)."""

from typing import Any

import polars as pl

from pipelines.arithmetic import kv, transfer
from pipelines.frames.digits import significant
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.receipts.plan import PlanFrames
from pipelines.topologies.budget import transfer_budget
from pipelines.topologies.constants import bound_constants
from pipelines.topologies.evaluator import scenario_setting
from pipelines.topologies.memory import kv_memory_bytes, served_cache, served_shape
from pipelines.topologies.phases import with_decode_demand
from pipelines.topologies.transfers import (
    BANDWIDTH_INPUT,
    CURVE_INPUT,
    HANDOVER_INPUT,
    LINKS_INPUT,
    OVERHEAD_INPUTS,
    transfers,
)

Json = dict[str, Any]


def kv_section(plan: PlanFrames) -> Json:
    """Kinds of layers with their bytes, what they add up to under each bound, and how many sequences fit into a worker."""
    inputs = plan.table
    dtype, ranks = inputs.word("model.kv_dtype"), int(inputs.number("model.tensor_parallel"))
    layers = [
        {
            "kind": part.kind,
            "layers": part.layers,
            "heads": part.heads,
            "first": part.first,
            "second": part.second,
            "tokens": part.tokens,
            "bytes_per_layer": significant(float(kv.layer_bytes(part, dtype, ranks))),
        }
        for part in served_shape(inputs)
    ]
    return {
        "formula": kv.FORMULA,
        "kv_dtype": dtype,
        "tensor_parallel": ranks,
        "block_tokens": int(inputs.number("model.block_tokens")),
        "allocation": inputs.word("model.kv_allocation"),
        "layers": layers,
        "batch_caps": _batch_caps(plan),
    } | {bound: _kept(inputs, bound) for bound in BOUNDS}


def _kept(inputs: InputTable, bound: Bound) -> Json:
    cache, memory = served_cache(inputs, bound), kv_memory_bytes(inputs, bound)
    return {
        "layout_factor": inputs.number("model.layout_factor", bound),
        "growth_bytes_per_token": significant(cache.growth),
        "windows": [
            {"window_tokens": window.tokens, "bytes_per_token": significant(window.bytes_per_token)}
            for window in cache.windows
        ],
        "state_bytes_per_sequence": significant(cache.state),
        "allocated_bytes_per_token": significant(cache.allocated),
        "kv_memory_bytes": significant(memory),
    }


def _batch_caps(plan: PlanFrames) -> list[Json]:
    """Tokens and bytes of a mean decoding sequence, and how many of them a worker decodes at once."""
    inputs = plan.table
    setting, constants = scenario_setting(inputs), bound_constants(inputs, plan.buckets)
    rows = []
    for topology in inputs.words("topologies.compared"):
        first_token = setting.first_token if topology == "disaggregated" else "prefill"
        frame = with_decode_demand(constants, setting, first_token, pl.lit(1))
        for row in frame.iter_rows(named=True):
            figures = {name: significant(row[f"sequence_{name}"]) for name in ("tokens", "bytes")}
            rows.append(
                {
                    "topology": topology,
                    "bound": row["bound"],
                    "sequence_tokens": figures["tokens"],
                    "sequence_bytes": figures["bytes"],
                    "sequences": significant(row["batch_cap"]),
                    "resident_tokens": _resident_tokens(row),
                }
            )
    return rows


def _resident_tokens(row: Json) -> float | None:
    """Tokens of the mean sequences that fit into the memory: B_M·R."""
    if not row["sequence_tokens"]:
        return None
    return significant(row["kv_memory"] / row["sequence_bytes"] * row["sequence_tokens"])


def transfer_section(plan: PlanFrames) -> Json | None:
    """How a transfer is computed, what it is under each bound, and the budget of the compared separated scenario."""
    inputs = plan.table
    if not inputs.has(LINKS_INPUT):
        return None
    affine = inputs.has(BANDWIDTH_INPUT)
    sources = [name for name, path in (("affine", BANDWIDTH_INPUT), ("curve", CURVE_INPUT)) if inputs.has(path)]
    return {
        "formula": transfer.FORMULA,
        "sources": sources,
        "bandwidth_input": BANDWIDTH_INPUT if affine else None,
        "overhead_inputs": [HANDOVER_INPUT, *(OVERHEAD_INPUTS if affine else ())],
        "budget": _budget(plan),
    } | {bound: _moved(plan, bound) for bound in BOUNDS}


def _moved(plan: PlanFrames, bound: Bound) -> Json:
    moved = transfers(plan.table, plan.buckets, plan.strata, bound)
    affine = moved.model.affine
    return {
        "overhead_s": significant(affine.overhead_s) if affine else None,
        "handover_s": significant(moved.model.handover_s),
        "bandwidth_bytes_per_s": significant(affine.bandwidth) if affine else None,
        "channels": moved.channels,
        "bytes_mean": significant(moved.bytes_mean),
        "bytes_max": significant(moved.longest.size_bytes),
        "leaves_curve": moved.leaves_curve if moved.model.curve else None,
    }


def _budget(plan: PlanFrames) -> Json:
    """That of the disaggregated scenario that the decision names."""
    scenario = plan.decision.filter(pl.col("topology") == "disaggregated")["scenario"].item()
    rows = plan.matrix.filter(pl.col("scenario") == scenario).to_dicts()
    budget = transfer_budget(rows, plan.table, plan.buckets, plan.strata)
    for part in (*budget["rows"], *budget["staging"]):
        part.update({name: significant(value) for name, value in part.items() if isinstance(value, float)})
    return budget
