"""The inputs table: which of model, memory and network it may hold together."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pipelines.oracle.findings import Ledger
from pipelines.oracle.inputs import check_inputs
from tests.oracle.handmade import inputs_of
from tests.oracle.stacks import STACKS

Table = list[dict[str, Any]]


def table_of(stack: str, changes: dict[str, Any]) -> Table:
    """The inputs of a stack, with other values; None for a row that is left out, a pair for value and conservative end."""
    table = copy.deepcopy(inputs_of("open", None, stack))
    for path, value in changes.items():
        row = next(row for row in table if row["path"] == path)
        if value is None:
            table.remove(row)
            continue
        value, end = value if isinstance(value, tuple) else (value, value)
        low, high = (end if end < value else None, end if end > value else None) if end != value else (None, None)
        row.update(value=value, conservative=end, low=low, high=high, note=None)
    return table


def faults(table: Table) -> list[str]:
    ledger = Ledger()
    usable = check_inputs(ledger, table)
    assert usable is not None or ledger.disagreements
    return [item.where for item in ledger.disagreements]


@pytest.mark.parametrize("stack", STACKS)
def test_what_may_be_declared(stack: str) -> None:
    assert faults(table_of(stack, {})) == []


FORGED: dict[str, tuple[str, dict[str, Any], str]] = {
    "more ranks than GPUs": ("hybrid", {"model.tensor_parallel": 3}, "inputs[model.tensor_parallel].value"),
    "a kind of layers that is not planned": ("windows", {"model.cache": "cross:6x8x64+64"}, "inputs[model.cache].value"),
    "a cache written otherwise": ("windows", {"model.cache": "full:18x8x64+064"}, "inputs[model.cache].value"),
    "a type of latents without one": ("windows", {"model.kv_dtype": "fp8_ds_mla"}, "inputs[model.kv_dtype].value"),
    "a type nobody knows": ("windows", {"model.kv_dtype": "fp6"}, "inputs[model.kv_dtype].value"),
    "an allocation nobody knows": ("windows", {"model.kv_allocation": "paged"}, "inputs[model.kv_allocation].value"),
    "no shape": ("windows", {"model.cache": None}, "inputs[model.layers]"),
    "part of a shape": ("plain", {"model.kv_heads": None}, "inputs[model.kv_heads]"),
    "blocks of no tokens": ("windows", {"model.block_tokens": 0}, "inputs[model.block_tokens].value"),
    "tokens by kind": ("latent", {"model.kv_allocation": "by_kind"}, "inputs[model.kv_allocation].value"),
    "tokens of a model without any": (
        "latent", {"model.cache": "state:36x32x16384+24576", "model.kv_dtype": "bf16"},
        "inputs[inventory.kv_tokens_per_worker].value"),
    "no memory left": ("windows", {"inventory.weights_per_worker": 80e9}, "inputs[inventory.gpu_memory].value"),
    "no memory left, conservatively": (
        "windows", {"inventory.weights_per_worker": (16e9, 80e9)}, "inputs[inventory.gpu_memory].value"),
    "more than all of the memory": (
        "windows", {"inventory.memory_utilization": 1.1}, "inputs[inventory.memory_utilization].value"),
    "part of the memory's inputs": (
        "windows", {"inventory.activations_per_worker": None}, "inputs[inventory.activations_per_worker]"),
    "fewer links than a transfer uses": ("latent", {"network.links": 3}, "inputs[network.links].value"),
    "fewer links, conservatively": ("latent", {"network.links": (8, 3)}, "inputs[network.links].conservative"),
    "links shared by nobody": ("latent", {"network.link_sharing": "each"}, "inputs[network.link_sharing].value"),
    "all of the link taken": ("windows", {"network.competing_traffic": 1}, "inputs[network.competing_traffic].value"),
    "all of it, conservatively": (
        "windows", {"network.competing_traffic": (0.5, 1)}, "inputs[network.competing_traffic].conservative"),
    "a relayout that saves bytes": ("hybrid", {"network.relayout_factor": 0.9}, "inputs[network.relayout_factor].value"),
    "more of the prefix than there is": (
        "hybrid", {"network.prefix_at_destination": 1.1}, "inputs[network.prefix_at_destination].value"),
    "half a region": ("hybrid", {"network.regions_per_block": 1.5}, "inputs[network.regions_per_block].value"),
    "a bandwidth above the line": (
        "windows", {"network.effective_bandwidth": 6e10}, "inputs[network.effective_bandwidth].value"),
    "a bandwidth above the line at its high end": (
        "windows", {"network.effective_bandwidth": (2e10, 6e10)}, "inputs[network.effective_bandwidth].high"),
    "neither a bandwidth nor a curve": ("windows", {"network.effective_bandwidth": None},
                                        "inputs[network.effective_bandwidth]"),
    "a curve with some of the overheads": (
        "hybrid", {"network.registration": None}, "inputs[network.registration]"),
    "a curve with overheads alone": (
        "hybrid", {"network.effective_bandwidth": None}, "inputs[network.effective_bandwidth]"),
    "a bandwidth without its line": ("windows", {"network.line_rate": None}, "inputs[network.line_rate]"),
    "a curve that falls": (
        "latent", {"network.transfer_curve": "1000000:0.02 2000000:0.01"}, "inputs[network.transfer_curve].value"),
    "a curve that falls, conservatively": (
        "latent", {"network.transfer_curve": "1000000:0.02:0.05 2000000:0.03"}, "inputs[network.transfer_curve].value"),
    "a curve of one point": (
        "latent", {"network.transfer_curve": "1000000:0.02"}, "inputs[network.transfer_curve].value"),
    "a curve that is faster than its lines": (
        "hybrid", {"network.transfer_curve": "100000000:0.0009 200000000:0.02"}, "inputs[network.transfer_curve].value"),
    "separated alone": (
        "routed", {"topologies.compared": "chunked disaggregated routed"}, "inputs[topologies.compared].value"),
    "another order of topologies": (
        "routed", {"topologies.compared": "aggregated chunked routed disaggregated"},
        "inputs[topologies.compared].value"),
    "thresholds that descend": (
        "routed", {"topologies.routed.threshold_tokens": "4096 512"}, "inputs[topologies.routed.threshold_tokens].value"),
    "chunks that descend": (
        "plain", {"topologies.chunked.chunk_tokens": "1024 512"}, "inputs[topologies.chunked.chunk_tokens].value"),
    "nothing to route by": (
        "routed", {"topologies.routed.threshold_tokens": None}, "inputs[topologies.routed.threshold_tokens]"),
    "prefill times that fall": (
        "measured", {"service.prefill.curve": "1:0.02 2:0.01"}, "inputs[service.prefill.curve].value"),
    "upper times at some points": (
        "measured", {"service.decode.curve": "1:0.02:0.03 2:0.04"}, "inputs[service.decode.curve].value"),
    "a curve of half sequences": (
        "measured", {"service.decode.curve": "1.5:0.02 2:0.04"}, "inputs[service.decode.curve].value"),
    "neither a rate nor a curve": (
        "measured", {"service.decode.curve": None}, "inputs[service.decode.tokens_per_second]"),
    "workers of other GPUs, of unknown memory": (
        "measured", {"separated.decode.kv_memory_per_worker": None}, "inputs[separated.decode.gpus_per_worker]"),
    "workers of other GPUs, of unknown overhead": (
        "measured", {"separated.decode.step_overhead": None}, "inputs[separated.decode.gpus_per_worker]"),
    "a penalty below nothing": (
        "routed", {"service.mixed_step_penalty": -0.1}, "inputs[service.mixed_step_penalty].value"),
    "a price of nothing": ("routed", {"inventory.gpu_hour_price": 0}, "inputs[inventory.gpu_hour_price].value"),
    "more paths than a cohort may span": ("routed", {"inventory.gpus": 1000}, "inputs[inventory.gpus].value"),
    "a reserve of nothing": ("windows", {"objectives.transfer_reserve": 0}, "inputs[objectives.transfer_reserve].value"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORGED)
def test_what_may_not(form: str) -> None:
    stack, changes, place = FORGED[form]
    assert place in faults(table_of(stack, changes))


@pytest.mark.parametrize(
    ("stack", "other", "path"),
    [
        ("plain", "windows", "model.cache"),
        ("plain", "windows", "inventory.gpu_memory"),
        ("plain", "latent", "inventory.kv_tokens_per_worker"),
        ("latent", "windows", "inventory.gpu_memory"),
    ],
)
def test_two_ways_to_say_one_thing(stack: str, other: str, path: str) -> None:
    table, surplus = table_of(stack, {}), next(row for row in table_of(other, {}) if row["path"] == path)
    for place in range(len(table) + 1):
        assert "inputs" in faults([*table[:place], surplus, *table[place:]])


@pytest.mark.parametrize("path", ["network.seconds_per_descriptor", "network.regions_per_block"])
def test_descriptors_beside_a_curve_alone(path: str) -> None:
    table = table_of("latent", {})
    at = [row["path"] for row in table].index("network.router_handover") + 1
    surplus = next(row for row in table_of("hybrid", {}) if row["path"] == path)
    assert "inputs" in faults([*table[:at], surplus, *table[at:]])


def test_descriptors_of_blocks_that_nobody_declared() -> None:
    for path in ("network.seconds_per_descriptor", "network.regions_per_block"):
        found = faults(table_of("plain", {path: 1}))
        assert ("inputs[model.block_tokens].note" in found) == path.endswith("descriptor")


def test_a_line_rate_may_be_declared_beside_a_curve() -> None:
    assert faults(table_of("hybrid", {"network.line_rate": None})) == []
    table = table_of("latent", {})
    at = [row["path"] for row in table].index("network.link_sharing") + 1
    line = next(row for row in table_of("hybrid", {}) if row["path"] == "network.line_rate")
    assert faults([*table[:at], line, *table[at:]]) == []


def test_exactly_the_speed_of_the_lines() -> None:
    # 2 x 50 GB/s
    assert faults(table_of("hybrid", {"network.transfer_curve": "100000000:0.001 1100000000:0.011"})) == []


def test_a_curve_has_a_thousand_points_at_most() -> None:
    points = [f"{size * 10**8}:{size}" for size in range(1, 1002)]
    assert faults(table_of("latent", {"network.transfer_curve": " ".join(points[:1000])})) == []
    assert faults(table_of("latent", {"network.transfer_curve": " ".join(points)}))


@pytest.mark.parametrize("path", ["model.tensor_parallel", "network.link_sharing", "network.router_handover"])
def test_a_default_is_that_of_its_path(path: str) -> None:
    table = table_of("plain", {})
    row = next(row for row in table if row["path"] == path)
    assert row["note"] == "not declared: default"
    row["provenance"], row["source"] = "observed", "a guess"
    assert f"inputs[{path}][3]" in faults(table)


def test_more_ranks_than_the_smallest_worker_has() -> None:
    changes = {"inventory.gpus_per_worker": 2, "model.tensor_parallel": 2}
    assert faults(table_of("measured", changes)) == []
    changes |= {"separated.decode.gpus_per_worker": 1}
    assert "inputs[model.tensor_parallel].value" in faults(table_of("measured", changes))


def test_a_pool_of_the_same_gpus_inherits_what_it_does_not_declare() -> None:
    for path in ("kv_memory_per_worker", "max_sequences"):
        changes = {"separated.decode.gpus_per_worker": 1, f"separated.decode.{path}": None}
        assert faults(table_of("measured", changes)) == []
    # a rate in place of a curve needs its overhead
    changes = {"separated.decode.gpus_per_worker": 1, "separated.decode.step_overhead": None}
    assert "inputs[separated.decode.*]" in faults(table_of("measured", changes))


def test_objectives_of_buckets_stand_in_their_order() -> None:
    table = table_of("routed", {})
    places = [place for place, row in enumerate(table) if row["path"].startswith("objectives.buckets.")]
    assert [table[place]["path"].split(".", 2)[2] for place in places] == ["512.ttft", "4096.tpot", "4096.e2e"]
    assert table[places[0] - 1]["path"] == "objectives.attainment"
    table[places[1]], table[places[2]] = table[places[2]], table[places[1]]
    assert "inputs" in faults(table)


def test_chunk_budgets_that_nobody_declared() -> None:
    table = table_of("plain", {})
    row = next(row for row in table if row["path"] == "topologies.chunked.chunk_tokens")
    default = "256 512 1024 2048"
    row.update(value=default, conservative=default, note="not declared: default")
    assert faults(table) == []
    row.update(value="256 512", conservative="256 512")
    assert "inputs[topologies.chunked.chunk_tokens][0]" in faults(table)


def test_a_loop_of_fewer_scenarios() -> None:
    table = inputs_of("closed", None, "routed")
    row = next(row for row in table if row["path"] == "inventory.gpus")
    for gpus, fits in ((20, True), (60, False)):
        row.update(value=gpus, conservative=gpus)
        assert (faults(table) == []) == fits
