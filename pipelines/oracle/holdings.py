"""What a receipt says of the KV cache: bytes by kind of layer, memory of a worker, sequences that fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cache import layer_bytes
from .equations import decode_work
from .findings import Ledger, close
from .memory import batch_cap, resident_bytes
from .names import BOUNDS
from .parameters import SEPARATED, Inputs
from .traffic import Cohort

CHECK = "kv"
SECTION = "docs/arithmetic.md section 2"


def check_kv(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs) -> None:
    """Recompute everything that `kv` says, from the model's inputs and the requests."""
    kv = receipt["kv"]
    for member, path in (
        ("kv_dtype",) * 2,
        ("tensor_parallel",) * 2,
        ("block_tokens",) * 2,
        ("allocation", "kv_allocation"),
    ):
        ledger.same(CHECK, f"kv.{member}", kv[member], inputs.nominal(f"model.{path}"), f"model.{path}")
    _check_layers(ledger, kv, inputs)
    for bound in BOUNDS:
        _check_bound(ledger, kv[bound], inputs, bound)
    _check_batch_caps(ledger, receipt, inputs)


def _check_layers(ledger: Ledger, kv: Mapping[str, Any], inputs: Inputs) -> None:
    """Bytes of one layer on all ranks, without the layout factor."""
    found = [
        tuple(row[name] for name in ("kind", "layers", "heads", "first", "second", "tokens")) for row in kv["layers"]
    ]
    shape = inputs.shape
    expected = [(of.kind, of.layers, of.heads, of.first, of.second, of.tokens) for of in shape]
    if ledger.listed(CHECK, "kv.layers", found, expected, "the model's inputs"):
        for place, (row, of) in enumerate(zip(kv["layers"], shape, strict=True)):
            size = layer_bytes(of, inputs.nominal("model.kv_dtype"), int(inputs.nominal("model.tensor_parallel")))
            where = f"kv.layers[{place}].bytes_per_layer"
            ledger.figure(CHECK, where, row["bytes_per_layer"], float(size), SECTION)


def _check_bound(ledger: Ledger, found: Mapping[str, Any], inputs: Inputs, bound: str) -> None:
    where, cache = f"kv.{bound}", inputs.cache(bound)
    factor, memory = inputs.at("model.layout_factor", bound), inputs.kv_memory_bytes(bound)
    ledger.same(CHECK, f"{where}.layout_factor", found["layout_factor"], factor, "model.layout_factor")
    agrees = close(found["kv_memory_bytes"], memory, 1.0)
    ledger.holds(CHECK, f"{where}.kv_memory_bytes", agrees, found["kv_memory_bytes"], memory, SECTION)
    figures = {
        "growth_bytes_per_token": cache.growth_bytes,
        "state_bytes_per_sequence": cache.state_bytes,
        "allocated_bytes_per_token": cache.allocated_bytes,
    }
    for name, value in figures.items():
        ledger.figure(CHECK, f"{where}.{name}", found[name], value, SECTION)
    lengths = [row["window_tokens"] for row in found["windows"]]
    if ledger.listed(CHECK, f"{where}.windows", lengths, [w.tokens for w in cache.windows], "lengths, ascending"):
        for row, window in zip(found["windows"], cache.windows, strict=True):
            place = f"{where}.windows[{window.tokens}].bytes_per_token"
            ledger.figure(CHECK, place, row["bytes_per_token"], window.bytes_per_token, SECTION)


def _check_batch_caps(ledger: Ledger, receipt: Mapping[str, Any], inputs: Inputs) -> None:
    """`R`, `Res(R, 1)`, `B` and `B_M·R` of every compared topology of one path; of separated pools, those of the decode pool."""
    found = receipt["kv"]["batch_caps"]
    one_path = [topology for topology in inputs.compared if topology != "routed"]
    order = [(topology, bound) for topology in one_path for bound in BOUNDS]
    places = [(row["topology"], row["bound"]) for row in found]
    if not ledger.listed(CHECK, "kv.batch_caps", places, order, "topologies; nominal, then conservative"):
        return
    cohort = Cohort(receipt["workload"])
    for row, (topology, bound) in zip(found, order, strict=True):
        separated = topology in SEPARATED
        of, whole = inputs.parameters(bound, separated=separated), cohort.traffic(inputs, bound).whole
        emits = not separated or not of.decode_emits_first_token
        work, where = decode_work(whole, prefill_emits_first_token=emits), f"kv.batch_caps[{topology}/{bound}]"
        tokens = work.resident_tokens
        ledger.figure(
            CHECK, f"{where}.sequence_tokens", row["sequence_tokens"], tokens, "R: docs/arithmetic.md section 3"
        )
        held = resident_bytes(of, tokens, 1.0)
        ledger.figure(CHECK, f"{where}.sequence_bytes", row["sequence_bytes"], held, f"Res(R, 1): {SECTION}")
        ledger.figure(CHECK, f"{where}.sequences", row["sequences"], batch_cap(of, work.steps, tokens), f"B: {SECTION}")
        fitting = of.kv_memory_bytes / held * tokens if tokens else None
        ledger.figure(CHECK, f"{where}.resident_tokens", row["resident_tokens"], fitting, f"B_M·R: {SECTION}")
