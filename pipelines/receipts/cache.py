"""What a receipt says of the KV cache and of moving it (docs/formats.md, Receipt: ``kv`` and ``transfer``)."""

from typing import Any

import polars as pl

from pipelines.arithmetic import kv, transfer
from pipelines.frames.digits import significant
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.receipts.plan import PlanFrames
from pipelines.topologies.budget import transfer_budget
from pipelines.topologies.constants import DECODE, MIXED
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.memory import LAYOUT_INPUT, kv_memory_bytes, served_cache, served_shape
from pipelines.topologies.paths.path import Decoding, decoding
from pipelines.topologies.question import Question
from pipelines.topologies.transfers import (
    BANDWIDTH_INPUT,
    CURVE_INPUT,
    HANDOVER_INPUT,
    LINKS_INPUT,
    OVERHEAD_INPUTS,
)

Json = dict[str, Any]

_SEPARATED = TOPOLOGIES["disaggregated"].paths[0]
"""The path on which all requests are moved."""


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
    cache, memory = served_cache(inputs, inputs.number(LAYOUT_INPUT, bound)), float(kv_memory_bytes(inputs, bound))
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
    """Tokens and bytes of a mean decoding sequence, and how many of them a worker decodes at once, where one path serves all."""
    workload, rows = plan.workload, []
    declared = [TOPOLOGIES[name] for name in plan.table.words("topologies.compared")]
    for topology in declared:
        if topology.routes:
            continue
        pool = DECODE if topology.separates else MIXED
        for bound in BOUNDS:
            question = Question(plan.table, workload, bound)
            emits = not topology.separates or question.constants.first_token == "prefill"
            own = decoding(question.work(topology.paths[0], None), pool, prefill_emits=emits)
            rows.append(
                {
                    "topology": topology.name,
                    "bound": bound,
                    "sequence_tokens": significant(own.sequence_tokens),
                    "sequence_bytes": significant(float(own.sequence_bytes)),
                    "sequences": significant(float(own.cap)),
                    "resident_tokens": _resident_tokens(own),
                }
            )
    return rows


def _resident_tokens(own: Decoding) -> float | None:
    """Tokens of the mean sequences that fit into the memory: B_M·R."""
    if not own.sequence_tokens:
        return None
    return significant(float(own.kv_memory / own.sequence_bytes * own.sequence_tokens))


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
    moved = Question(plan.table, plan.workload, bound).work(_SEPARATED, None).moved
    assert moved is not None
    affine = moved.model.affine
    return {
        "overhead_s": significant(float(affine.overhead_s)) if affine else None,
        "handover_s": significant(float(moved.model.handover_s)),
        "bandwidth_bytes_per_s": significant(float(affine.bandwidth)) if affine else None,
        "channels": moved.channels,
        "bytes_mean": significant(float(moved.bytes_mean)),
        "bytes_max": significant(float(moved.longest.size_bytes)),
        "leaves_curve": moved.leaves_curve if moved.model.curve else None,
    }


def _budget(plan: PlanFrames) -> Json | None:
    """That of the disaggregated scenario that the decision names."""
    speaking = plan.decision.filter(pl.col("topology") == "disaggregated")
    if speaking.is_empty():
        return None
    rows = plan.matrix.filter(pl.col("scenario") == speaking["scenario"].item()).to_dicts()
    budget = transfer_budget(rows, plan.table, plan.workload)
    for part in (*budget["rows"], *budget["staging"]):
        part.update({name: significant(value) for name, value in part.items() if isinstance(value, float)})
    return budget
