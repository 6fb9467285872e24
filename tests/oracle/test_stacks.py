"""Kinds of caches, memory and networks: honest receipts hold; those computed from other inputs than they state do not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle import render_text
from tests.oracle import forging as forge
from tests.oracle.forging import Receipt, input_row
from tests.oracle.handmade import receipt_of
from tests.oracle.rejection import check, rejected_at
from tests.oracle.stacks import STACKS

Mutation = Callable[[Receipt], None]
ARRIVALS: dict[str, dict[str, Any]] = {
    "open": {"kind": "open"},
    "open, with hits": {"kind": "open", "cached": True},
    "rate, with a declared hit ratio": {"kind": "rate", "hit_ratio": (0.3, 0.2)},
    "closed": {"kind": "closed"},
}
MOVEMENT = r"disaggregated/.*\.lanes\[.*\]\.kv_movement_s$"
LINK, SLOTS = r"disaggregated/.*\.loads\[link\]\.utilization$", r"\.loads\[slots_\w+\]\.utilization$"


@pytest.fixture(scope="module")
def receipts() -> dict[str, Receipt]:
    return {stack: receipt_of("open", cached=True, stack=stack) for stack in STACKS}


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_an_honest_receipt_is_verified(stack: str, arrivals: str, tmp_path: Path) -> None:
    receipt = receipt_of(stack=stack, **ARRIVALS[arrivals])
    verification = forge.verified(tmp_path, receipt)
    assert verification.passed, render_text(verification)
    assert {row["topology"] for row in forge.scenarios(receipt, "disaggregated", "evaluated")}
    assert receipt["transfer"]["budget"]["rows"]


# figures of other inputs than the receipt states


def put(receipt: Receipt, changes: dict[str, Any]) -> None:
    """Declare other values, and no range; None for what is not declared."""
    for path, value in changes.items():
        row = input_row(receipt, path)
        if value is None:
            receipt["inputs"].remove(row)
        else:
            row.update(value=value, low=None, high=None, conservative=value, note=None)


def computed_from(changes: dict[str, Any]) -> Mutation:
    """Every figure, assumption and budget of other inputs, in a receipt that states the honest ones."""

    def mutate(receipt: Receipt) -> None:
        honest = copy.deepcopy(receipt["inputs"])
        put(receipt, changes)
        forge.recompute(receipt)
        receipt["inputs"] = honest
        forge.name_anew(receipt)

    return mutate


def computed_from_less(path: str) -> Mutation:
    return computed_from({path: 0})


FULL, WINDOWED = "full:18x8x64+64", "window:18x8x64+64@128"
HYBRID = "full:12x4x256+256 window:4x4x128+128@512 window:2x4x128+128@64"
OTHER_INPUTS: dict[str, tuple[str, Mutation, str]] = {
    **{
        f"{name} removed": ("windows", computed_from_less(f"network.{name}"), MOVEMENT)
        for name in ("registration", "synchronization", "receiver_visibility", "router_handover", "seconds_per_descriptor")
    },
    "handover removed beside a curve": ("windows", computed_from_less("network.router_handover"), r"\.handover_s$"),
    "fewer regions of a block": ("windows", computed_from({"network.regions_per_block": 1}), MOVEMENT),
    "replication dropped": ("latent", computed_from({"model.tensor_parallel": 1}), MOVEMENT),
    "replication dropped, in the bytes of a layer": (
        "latent", computed_from({"model.tensor_parallel": 1}), r"^kv\.layers\[0\]\.bytes_per_layer$"),
    "windows counted as growing": ("windows", computed_from({"model.cache": "full:36x8x64+64"}), MOVEMENT),
    "windows not counted": ("windows", computed_from({"model.cache": FULL}), MOVEMENT),
    "windows of another length": ("windows", computed_from({"model.cache": f"{FULL} {WINDOWED[:-3]}64"}), MOVEMENT),
    "windows held in full": (
        "windows", computed_from({"model.kv_allocation": "uniform"}), r"\.loads\[kv_\w+\]\.utilization$"),
    "windows held in full, as the caps say": (
        "windows", computed_from({"model.kv_allocation": "uniform"}), r"^kv\.batch_caps\[.*\]\.sequence_bytes$"),
    "state dropped": ("hybrid", computed_from({"model.cache": HYBRID}), MOVEMENT),
    "convolution dropped": ("hybrid", computed_from({"model.cache": f"{HYBRID} state:36x32x16384+0"}), MOVEMENT),
    "an index dropped": ("latent", computed_from({"model.cache": "latent:61x1x512+64"}), MOVEMENT),
    "another type of elements": ("latent", computed_from({"model.kv_dtype": "fp8"}), MOVEMENT),
    "a curve replaced by the bandwidth of its largest point": (
        "latent", computed_from({"network.transfer_curve": "1:1.25e-10 400000000:0.05"}), MOVEMENT),
    "a curve denied beside a bandwidth": ("hybrid", computed_from({"network.transfer_curve": None}), MOVEMENT),
    "competing traffic dropped": ("windows", computed_from_less("network.competing_traffic"), MOVEMENT),
    "line rate for effective bandwidth": ("windows", computed_from({"network.effective_bandwidth": 5e10}), MOVEMENT),
    "peak for effective bandwidth": ("windows", computed_from({"network.effective_bandwidth": 4e10}), MOVEMENT),
    "blocks ignored": ("windows", computed_from({"model.block_tokens": 1}), MOVEMENT),
    "relayout ignored": ("hybrid", computed_from({"network.relayout_factor": 1}), MOVEMENT),
    "all of the prefix at its destination": ("hybrid", computed_from({"network.prefix_at_destination": 1}), MOVEMENT),
    "all of the payload hidden": ("latent", computed_from({"network.overlap": 1}), MOVEMENT),
    "links of each worker for shared ones": (
        "windows", computed_from({"network.link_sharing": "per_prefill_worker"}), LINK),
    "links of the other pool": ("hybrid", computed_from({"network.link_sharing": "per_decode_worker"}), LINK),
    "each link a channel of a timed transfer": ("latent", computed_from({"network.links_per_transfer": 1}), LINK),
    "channels of single links": ("latent", computed_from({"network.links_per_transfer": 1}), r"\.nominal\.channels$"),
    "weights that take no memory": ("windows", computed_from_less("inventory.weights_per_worker"), r"\[kv_decode\]"),
    "tokens of a larger cache": ("latent", computed_from({"inventory.kv_tokens_per_worker": 10**6}), SLOTS),
    "tokens of a larger cache, in the caps": (
        "latent", computed_from({"inventory.kv_tokens_per_worker": 10**6}), r"^kv\.batch_caps\[.*\]\.sequences$"),
    "a reserve of all": (
        "windows", computed_from({"objectives.transfer_reserve": 1}), r"budget\.rows\[nominal/.*\]\.limit_share$"),
}  # fmt: skip


@pytest.mark.parametrize("form", OTHER_INPUTS)
def test_figures_of_other_inputs(form: str, receipts: dict[str, Receipt], tmp_path: Path) -> None:
    stack, mutation, pattern = OTHER_INPUTS[form]
    check(copy.deepcopy(receipts[stack]), tmp_path, mutation, pattern)


# what the receipt says of cache, transfer and budget


def scaled(*path: str | int, by: float) -> Mutation:
    def mutate(receipt: Receipt) -> None:
        at: Any = receipt
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = forge.digits(at[path[-1]] * by)

    return mutate


def replaced(*path: str | int, value: Any) -> Mutation:
    def mutate(receipt: Receipt) -> None:
        at: Any = receipt
        for key in path[:-1]:
            at = at[key]
        assert at[path[-1]] != value
        at[path[-1]] = value

    return mutate


def one_token_more(receipt: Receipt) -> None:
    receipt["transfer"]["budget"]["rows"][0]["largest_prompt_tokens"] += 1


def budget_of_one_bound(receipt: Receipt) -> None:
    budget = receipt["transfer"]["budget"]
    budget["rows"] = [row for row in budget["rows"] if row["bound"] == "nominal"]
    budget["staging"] = budget["staging"][:1]


def budget_of_another_scenario(receipt: Receipt) -> None:
    budget = receipt["transfer"]["budget"]
    other = next(row for row in forge.scenarios(receipt, "disaggregated") if row["scenario"] != budget["scenario"])
    budget["scenario"] = other["scenario"]


ROW, BUDGET = ("transfer", "budget", "rows", 1), r"^transfer\.budget\."
NAMED_ROW = rf"{BUDGET}rows\[nominal/\[512,4096\)\]\."
STATED: dict[str, tuple[str, Mutation, str]] = {
    "a batch cap raised": ("latent", scaled("kv", "batch_caps", 0, "sequences", by=1.5), r"^kv\.batch_caps\[aggr.*\.seq"),
    "more tokens than fit": ("windows", scaled("kv", "batch_caps", 0, "resident_tokens", by=1.1), r"\.resident_tokens$"),
    "more memory than there is": ("windows", scaled("kv", "nominal", "kv_memory_bytes", by=1.1), r"\.kv_memory_bytes$"),
    "a window of fewer bytes": (
        "windows", scaled("kv", "nominal", "windows", 0, "bytes_per_token", by=0.5), r"\.windows\[128\]\.bytes"),
    "no windows": ("windows", replaced("kv", "nominal", "windows", value=[]), r"^kv\.nominal\.windows$"),
    "layers of another kind": ("windows", replaced("kv", "layers", 1, "kind", value="full"), r"^kv\.layers\[1\]$"),
    "bytes of one rank": ("latent", scaled("kv", "layers", 0, "bytes_per_layer", by=1 / 8), r"^kv\.layers\[0\]\.bytes"),
    "another allocation": ("windows", replaced("kv", "allocation", value="uniform"), r"^kv\.allocation$"),
    "a curve denied": ("hybrid", replaced("transfer", "sources", value=["affine"]), r"^transfer\.sources$"),
    "a bandwidth of a curve": (
        "latent", replaced("transfer", "bandwidth_input", value="network.line_rate"), r"^transfer\.bandwidth_input$"),
    "a handover denied": (
        "windows", replaced("transfer", "overhead_inputs", value=[f"network.{name}" for name in (
            "registration", "synchronization", "receiver_visibility")]), r"^transfer\.overhead_inputs$"),
    "within the curve after all": (
        "latent", replaced("transfer", "nominal", "leaves_curve", value=False), r"^transfer\.nominal\.leaves_curve$"),
    "beyond the curve after all": (
        "plain", replaced("transfer", "nominal", "leaves_curve", value=True), r"^transfer\.nominal\.leaves_curve$"),
    "fewer bytes moved": ("hybrid", scaled("transfer", "conservative", "bytes_mean", by=0.5), r"\.bytes_mean$"),
    "a longest prompt of fewer bytes": ("hybrid", scaled("transfer", "nominal", "bytes_max", by=0.5), r"\.bytes_max$"),
    "a bandwidth without competition": (
        "windows", scaled("transfer", "nominal", "bandwidth_bytes_per_s", by=1 / 0.9), r"\.bandwidth_bytes_per_s$"),
    "less used of the envelope": ("windows", scaled(*ROW, "used_s", by=0.9), rf"{NAMED_ROW}used_s$"),
    "a smaller share": ("windows", scaled(*ROW, "envelope_share", by=0.9), rf"{NAMED_ROW}envelope_share$"),
    "a smaller share of the limit": ("windows", scaled(*ROW, "limit_share", by=0.9), rf"{NAMED_ROW}limit_share$"),
    "more bytes at the limit": ("plain", scaled(*ROW, "bytes_at_limit", by=1.00001), rf"{NAMED_ROW}bytes_at_limit"),
    "fewer bytes at the limit": ("latent", scaled(*ROW, "bytes_at_limit", by=0.99999), rf"{NAMED_ROW}bytes_at_limit"),
    "less bandwidth at the limit": (
        "windows", scaled(*ROW, "bandwidth_at_limit_bytes_per_s", by=0.99999), rf"{NAMED_ROW}bandwidth"),
    "any bandwidth at the limit": (
        "windows", replaced(*ROW, "bandwidth_at_limit_bytes_per_s", value=None), rf"{NAMED_ROW}bandwidth"),
    "one token more": ("hybrid", one_token_more, rf"{BUDGET}rows\[.*\]\.largest_prompt_tokens$"),
    "any prompt": ("plain", replaced(*ROW, "largest_prompt_tokens", value=None), rf"{NAMED_ROW}largest_prompt"),
    "a wider envelope": ("plain", scaled("transfer", "budget", "envelope_s", by=2), rf"{BUDGET}envelope_s$"),
    "a larger reserve": ("windows", replaced("transfer", "budget", "reserve", value=1), rf"{BUDGET}reserve$"),
    "budget of one bound": ("windows", budget_of_one_bound, rf"{BUDGET}rows$"),
    "staging of one bound": ("windows", budget_of_one_bound, rf"{BUDGET}staging$"),
    "budget of another scenario": ("plain", budget_of_another_scenario, rf"{BUDGET}scenario$"),
    "no budget": ("plain", replaced("transfer", "budget", value=None), rf"{BUDGET}scenario$"),
    **{
        f"staging, {name}": (
            "windows", scaled("transfer", "budget", "staging", 1, name, by=1.001),
            rf"{BUDGET}staging\[conservative\]\.{name}$")
        for name in ("in_flight_sequences", "free_sequences", "in_flight_bytes", "free_bytes")
    },
}  # fmt: skip


@pytest.mark.parametrize("form", STATED)
def test_what_is_stated_of_cache_and_transfer(form: str, receipts: dict[str, Receipt], tmp_path: Path) -> None:
    stack, mutation, pattern = STATED[form]
    check(copy.deepcopy(receipts[stack]), tmp_path, mutation, pattern)


# strata


def stratum(name: str, share: float) -> Mutation:
    """One mean of a stratum moved, and everything computed with it."""

    def mutate(receipt: Receipt) -> None:
        row = receipt["workload"]["strata"][5]
        row[name] = float(f"{row[name] * (1 + share):.11e}")
        forge.recompute(receipt)

    return mutate


def no_variation(receipt: Receipt) -> None:
    """Every stratum as if all of its prompts had one length."""
    for row in receipt["workload"]["strata"]:
        row["prompt_tokens_m2"] = float(f"{row['prompt_tokens_mean'] ** 2:.11e}")
    forge.recompute(receipt)


STRATA = {
    "prompts": (stratum("prompt_tokens_m2", 1e-6), r"^workload\.buckets\[.*\]\.prompt_tokens_m2$"),
    "prompts x uncached": (stratum("prompt_uncached_mean", 1e-6), r"^workload\.buckets\[.*\]\.prompt_uncached_mean$"),
    "uncached": (stratum("uncached_tokens_m2", 1e-6), r"^workload\.buckets\[.*\]\.uncached_tokens_m2$"),
    "attention that follows": (stratum("prompt_uncached_mean", 1e-6), r"^workload\.strata\[.*\]\.attention_mean$"),
    "less than the square of the mean": (
        stratum("prompt_tokens_m2", -0.5),
        r"^workload\.strata\[.*\]\.prompt_tokens_m2$",
    ),
    "more than requests allow": (stratum("uncached_tokens_m2", 99), r"^workload\.strata\[.*\]\.uncached_tokens_m2$"),
    "beyond both deviations": (stratum("prompt_uncached_mean", 9), r"^workload\.strata\[.*\]\.prompt_uncached_mean$"),
    "no variation": (no_variation, r"^workload\.buckets\[.*\]\.prompt_tokens_m2$"),
}


@pytest.mark.parametrize("form", STRATA)
def test_second_moments_of_strata(form: str, receipts: dict[str, Receipt], tmp_path: Path) -> None:
    check(copy.deepcopy(receipts["plain"]), tmp_path, *STRATA[form])


def test_a_gate_on_a_reserve_is_one_on_a_ratio(receipts: dict[str, Receipt], tmp_path: Path) -> None:
    receipt = copy.deepcopy(receipts["windows"])
    gate = next(gate for gate in receipt["rules"]["gates"] if gate["id"] == "transfer")
    gate.update(metric="transfer_envelope_share", unit="ratio", limit=0.75, limit_source="objectives.transfer_reserve")
    forge.rejudge(receipt, changes_too=True)
    verification = forge.verified(tmp_path, copy.deepcopy(receipt))
    assert verification.passed, render_text(verification)
    gate.update(metric="transfer_worst", unit="s")
    forge.rejudge(receipt)
    rejected_at(forge.verified(tmp_path, receipt), r"^rules\.gates\[transfer\]\.limit_source$")


def test_a_network_without_a_bandwidth_has_an_empty_column(receipts: dict[str, Receipt]) -> None:
    for stack, filled in (("latent", False), ("hybrid", True)):
        columns, *rows = forge.matrix_rows(receipts[stack])
        place = columns.index("effective_bandwidth_bytes_per_s")
        disaggregated = [row[place : place + 2] for row in rows if row[1].startswith("disaggregated")]
        assert all(all(cells) == filled and any(cells) == filled for cells in disaggregated)
