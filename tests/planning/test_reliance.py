"""What an answer rests on: the inputs that its arithmetic and its gates read, and how many of them are not observed."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from pipelines.frames.inputs import InputTable
from pipelines.plans.reliance import rests_on, unobserved_share
from tests.gates.boards import gates
from tests.planning import inputs_frame_of
from tests.receipts.conftest import Built

MODEL = [
    f"model.{name}"
    for name in (
        "layers",
        "kv_heads",
        "head_dim",
        "kv_dtype",
        "layout_factor",
        "tensor_parallel",
        "block_tokens",
        "kv_allocation",
    )
]
PREFILL = [
    f"service.prefill.{name}"
    for name in (
        "tokens_per_second",
        "overhead",
        "seconds_per_token_squared",
        "prefix_hit_ratio",
        "utilization_ceiling",
    )
]
DECODE = [
    f"service.decode.{name}"
    for name in (
        "tokens_per_second",
        "step_overhead",
        "seconds_per_context_token",
        "max_sequences",
        "utilization_ceiling",
    )
]
INVENTORY = ["inventory.gpus", "inventory.gpus_per_worker", "inventory.kv_memory_per_worker"]
NETWORK = [
    f"network.{name}"
    for name in (
        "links",
        "links_per_transfer",
        "link_sharing",
        "effective_bandwidth",
        "competing_traffic",
        "registration",
        "synchronization",
        "receiver_visibility",
        "router_handover",
        "seconds_per_descriptor",
        "regions_per_block",
        "relayout_factor",
        "prefix_at_destination",
        "overlap",
        "utilization_ceiling",
    )
]
ONE_POOL = [*MODEL, "service.dispatch", "service.admission", *PREFILL, *DECODE, *INVENTORY]
TWO_POOLS = [*MODEL, "service.dispatch", "service.first_token_source", *ONE_POOL[len(MODEL) + 1 :], *NETWORK]


def paths(topologies: list[str], *declared: dict[str, Any], inputs: pl.DataFrame | None = None) -> list[str]:
    table = InputTable.of(inputs_frame_of() if inputs is None else inputs)
    rows = rests_on(table, gates(*declared), topologies, "supplied")
    assert rows[-1] == {"path": "requests.trace", "provenance": "supplied"}
    return [row["path"] for row in rows[:-1]]


NEVER = {"metric": "gpus", "limit": 4.0}
"""A gate that reads no objective."""


class TestPaths:
    def test_of_one_pool(self) -> None:
        assert paths(["aggregated"], NEVER) == ONE_POOL

    def test_of_chunks(self) -> None:
        assert paths(["chunked"], NEVER) == [*ONE_POOL, "topologies.chunked.chunk_tokens"]

    def test_of_two_pools(self) -> None:
        assert paths(["disaggregated"], NEVER) == TWO_POOLS

    def test_of_several_together_in_table_order(self) -> None:
        assert paths(["disaggregated", "chunked", "aggregated"], NEVER) == [
            *TWO_POOLS,
            "topologies.chunked.chunk_tokens",
        ]

    @pytest.mark.parametrize(
        ("arrivals", "read"),
        [
            ({"rate": 2.0}, ["requests.rate", "requests.arrival_scv"]),
            ({"concurrency": 8.0}, ["requests.concurrency", "requests.arrival_scv"]),
        ],
    )
    def test_of_declared_arrivals(self, arrivals: dict[str, float], read: list[str]) -> None:
        inputs = inputs_frame_of(**arrivals)
        assert paths(["aggregated"], NEVER, inputs=inputs) == [*read, *ONE_POOL]
        assert paths(["disaggregated"], NEVER, inputs=inputs) == [*read, *TWO_POOLS]

    def test_peaks_line_rate_and_discipline_are_never_read(self) -> None:
        read = paths(["aggregated", "chunked", "disaggregated"], NEVER)
        assert not {path for path in read if "peak" in path or "discipline" in path or "line_rate" in path}

    @pytest.mark.parametrize(
        ("gate", "objectives"),
        [
            (NEVER, []),
            ({"objective": "ttft"}, ["ttft"]),
            ({"metric": "stall", "objective": "stall"}, ["stall"]),
            ({"metric": "goodput", "op": "gte", "objective": "attainment"}, ["ttft", "tpot", "attainment"]),
            ({"metric": "goodput", "op": "gte", "limit": 0.9}, ["ttft", "tpot"]),
            ({"objective": "ttft", "topologies": "chunked"}, []),
            ({"objective": "ttft", "blocking": False}, ["ttft"]),
        ],
    )
    def test_objectives_are_those_that_gates_on_the_topology_read(
        self, gate: dict[str, Any], objectives: list[str]
    ) -> None:
        limit = {"limit": 0.2} if "objective" in gate else {}  # resolved, as all gates that apply are
        assert paths(["aggregated"], gate | limit) == [*ONE_POOL, *(f"objectives.{name}" for name in objectives)]

    def test_the_growth_is_read_for_the_share_of_it(self) -> None:
        share = {"metric": "transfer_envelope_share", "limit": 0.75, "topologies": "disaggregated"}
        assert paths(["disaggregated"], share) == [*TWO_POOLS, "objectives.ttft_growth"]
        assert paths(["aggregated"], share) == ONE_POOL

    def test_a_gate_without_a_limit_does_not_apply_and_reads_nothing(self) -> None:
        assert paths(["aggregated"], {"metric": "goodput", "objective": "attainment", "limit": None}, NEVER) == ONE_POOL


class TestShare:
    def test_of_one_pool_counted_by_hand(self, good: Built) -> None:
        """23 inputs, four objectives that gates on aggregated read, and the trace; the model's shape and the prefill rate are observed."""
        decision = good.receipt["decision"]
        assert decision["topology"] == "aggregated"
        objectives = [f"objectives.{name}" for name in ("ttft", "tpot", "stall", "attainment")]
        assert [row["path"] for row in decision["rests_on"]] == [*ONE_POOL, *objectives, "requests.trace"]
        observed = [row["path"] for row in decision["rests_on"] if row["provenance"] == "observed"]
        assert observed == [*MODEL[:4], PREFILL[0]]
        assert len(decision["rests_on"]) == 28
        assert decision["unobserved_share"] == float(f"{23 / 28:.9e}")

    def test_with_no_choice_every_topology_counts(self, hopeless: Built) -> None:
        decision = hopeless.receipt["decision"]
        # 23 inputs of one pool, 16 more of two, the chunk budgets, five objectives, the trace
        assert len(ONE_POOL) == 23
        assert len(decision["rests_on"]) == 23 + 16 + 1 + 5 + 1
        assert decision["unobserved_share"] == float(f"{41 / 46:.9e}")

    def test_an_observed_trace_counts(self, built_with: Callable[..., Built]) -> None:
        built = built_with(
            ("    provenance: supplied\n    note: written by hand", "    provenance: observed\n    source: gateway log")
        )
        assert built.receipt["decision"]["rests_on"][-1] == {"path": "requests.trace", "provenance": "observed"}
        assert built.receipt["decision"]["unobserved_share"] == float(f"{22 / 28:.9e}")

    def test_all_and_none(self) -> None:
        observed, supplied = ({"path": "x", "provenance": provenance} for provenance in ("observed", "supplied"))
        assert unobserved_share([observed]) == 0
        assert unobserved_share([supplied, supplied]) == 1
        assert unobserved_share([observed, supplied, supplied]) == 0.6666666667
