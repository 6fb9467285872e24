"""What an answer rests on: the inputs that its arithmetic and its gates read, and how many of them are not observed."""

from typing import Any

import polars as pl
import pytest

from pipelines.frames.inputs import InputTable
from pipelines.gates.rules import applicable
from pipelines.planning.reliance import rests_on, unobserved_share
from tests.gates.boards import gates
from tests.plans import inputs_frame_of

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
        "discipline",
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
BEFORE_PREFILL = [*MODEL, "service.dispatch", "service.admission"]
ONE_POOL = [*BEFORE_PREFILL, *PREFILL, *DECODE, *INVENTORY]
CHUNKS = [*BEFORE_PREFILL, "service.mixed_step_penalty", *PREFILL, *DECODE, *INVENTORY]
TWO_POOLS = [*MODEL, "service.dispatch", "service.first_token_source", *ONE_POOL[len(MODEL) + 1 :], *NETWORK]
FLOORS = ["objectives.ttft", "objectives.tpot"]
"""What the floors of every scenario are held against."""


def paths(topologies: list[str], *declared: dict[str, Any], inputs: pl.DataFrame | None = None) -> list[str]:
    table = InputTable.of(inputs_frame_of() if inputs is None else inputs)
    rows = rests_on(table, applicable(gates(*declared), table), topologies, "supplied")
    assert rows[-1] == {"path": "requests.trace", "provenance": "supplied"}
    return [row["path"] for row in rows[:-1]]


NEVER = {"metric": "gpus", "limit": 4.0}
"""A gate that reads no objective."""


class TestPaths:
    def test_of_one_pool(self) -> None:
        assert paths(["aggregated"], NEVER) == [*ONE_POOL, *FLOORS]

    def test_of_chunks(self) -> None:
        assert paths(["chunked"], NEVER) == [*CHUNKS, *FLOORS, "topologies.chunked.chunk_tokens"]

    def test_of_two_pools(self) -> None:
        assert paths(["disaggregated"], NEVER) == [*TWO_POOLS, *FLOORS]

    def test_of_several_together_in_table_order(self) -> None:
        found = paths(["disaggregated", "chunked", "aggregated"], NEVER)
        assert set(found) == {*TWO_POOLS, *CHUNKS, *FLOORS, "topologies.chunked.chunk_tokens"}
        assert found == [path for path in InputTable.of(inputs_frame_of()).rows if path in found]

    def test_what_full_memory_leads_to_is_read_by_gates_on_the_replay_alone(self) -> None:
        inputs = inputs_frame_of(when_full="swap", swap=2e10, e2e=1.0)
        full = ["service.when_memory_is_full", "service.swap_bandwidth"]
        on_replay = {"metric": "replayed_peak_kv", "limit": 0.9}
        assert paths(["aggregated"], NEVER, inputs=inputs) == [*ONE_POOL, *FLOORS]
        found = paths(["aggregated"], on_replay, inputs=inputs)
        assert [path for path in found if path not in (*ONE_POOL, *FLOORS)] == full
        assert paths(["aggregated"], on_replay | {"topologies": "chunked"}, inputs=inputs) == [*ONE_POOL, *FLOORS]

    @pytest.mark.parametrize("metric", ["replayed_goodput", "replayed_goodput_tokens"])
    def test_a_replayed_goodput_reads_every_objective_that_a_request_has(self, metric: str) -> None:
        found = paths(["aggregated"], {"metric": metric, "limit": 0.9}, inputs=inputs_frame_of(e2e=1.0))
        objectives = [path for path in found if path.startswith("objectives.")]
        assert objectives == ["objectives.ttft", "objectives.tpot", "objectives.e2e", "objectives.stall"]

    @pytest.mark.parametrize("budgets", [None, "256 512"])
    def test_of_two_paths(self, budgets: str | None) -> None:
        """Steps are mixed only where a short prompt may come in chunks, and chunks of other topologies are not read."""
        inputs = inputs_frame_of(compared="aggregated chunked routed", thresholds="512", routed_chunks=budgets)
        found = set(paths(["routed"], NEVER, inputs=inputs))
        own = {"topologies.routed.threshold_tokens"}
        if budgets is not None:
            own |= {"topologies.routed.chunk_tokens", "service.mixed_step_penalty"}
        assert found == {*TWO_POOLS, *FLOORS} | own

    def test_pools_of_their_own_are_read_where_they_are(self) -> None:
        inputs = inputs_frame_of(gpus_p=2, r_pp=5000.0, d_p=0.01, kv_memory_p=1e9, r_dd=3000.0, slots_d=9.0)
        own = {path for path in inputs["path"] if path.startswith("separated.")}
        assert len(own) == 6
        assert own <= set(paths(["disaggregated"], NEVER, inputs=inputs))
        assert not own & set(paths(["aggregated", "chunked"], NEVER, inputs=inputs))

    def test_curves_are_read_and_prices_are_not(self) -> None:
        inputs = inputs_frame_of(prefill_curve="100:0.1 1000:0.5", decode_curve="1:0.01 9:0.02", price=2.5)
        found = paths(["aggregated"], NEVER, inputs=inputs)
        assert {"service.prefill.curve", "service.decode.curve"} <= set(found)
        assert "inventory.gpu_hour_price" not in found

    @pytest.mark.parametrize(
        ("arrivals", "read"),
        [
            ({"rate": 2.0}, ["requests.rate", "requests.arrival_scv"]),
            ({"concurrency": 8.0}, ["requests.concurrency", "requests.arrival_scv"]),
        ],
    )
    def test_of_declared_arrivals(self, arrivals: dict[str, float], read: list[str]) -> None:
        inputs = inputs_frame_of(**arrivals)
        assert paths(["aggregated"], NEVER, inputs=inputs) == [*read, *ONE_POOL, *FLOORS]
        assert paths(["disaggregated"], NEVER, inputs=inputs) == [*read, *TWO_POOLS, *FLOORS]

    def test_peaks_line_rate_and_the_discipline_of_decode_are_never_read(self) -> None:
        read = paths(["aggregated", "chunked", "disaggregated"], NEVER)
        assert not {path for path in read if "peak" in path or "line_rate" in path}
        assert [path for path in read if "discipline" in path] == ["service.prefill.discipline"]

    @pytest.mark.parametrize(
        ("gate", "objectives"),
        [
            (NEVER, []),
            ({"objective": "ttft"}, []),
            ({"metric": "stall", "objective": "stall"}, ["stall"]),
            ({"metric": "e2e_worst", "objective": "e2e"}, ["e2e"]),
            ({"metric": "goodput", "op": "gte", "objective": "attainment"}, ["e2e", "attainment"]),
            ({"metric": "goodput", "op": "gte", "limit": 0.9}, ["e2e"]),
            ({"metric": "stall", "objective": "stall", "topologies": "chunked"}, []),
            ({"metric": "stall", "objective": "stall", "blocking": False}, ["stall"]),
        ],
    )
    def test_objectives_are_those_of_floors_and_of_gates_on_the_topology(
        self, gate: dict[str, Any], objectives: list[str]
    ) -> None:
        limit = {"limit": 0.2} if "objective" in gate else {}  # resolved, as all gates that apply are
        found = paths(["aggregated"], gate | limit, inputs=inputs_frame_of(e2e=9.0))
        assert found[: len(ONE_POOL)] == ONE_POOL
        assert set(found[len(ONE_POOL) :]) == {*FLOORS, *(f"objectives.{name}" for name in objectives)}

    @pytest.mark.parametrize(
        ("gate", "buckets"),
        [
            (NEVER, {"1000.ttft", "1000.tpot", "4000.ttft"}),
            ({"metric": "e2e_worst", "objective": "e2e"}, {"1000.ttft", "1000.tpot", "4000.ttft", "1000.e2e"}),
            ({"metric": "e2e_worst", "objective": "ttft"}, {"1000.ttft", "1000.tpot", "4000.ttft"}),
            ({"metric": "goodput", "op": "gte"}, {"1000.ttft", "1000.tpot", "4000.ttft", "1000.e2e"}),
        ],
    )
    def test_objectives_of_buckets_by_the_names_that_are_judged_by_bucket(
        self, gate: dict[str, Any], buckets: set[str]
    ) -> None:
        own = inputs_frame_of(e2e=9.0, ttft_1000=0.1, tpot_1000=0.01, e2e_1000=3.0, ttft_4000=0.2)
        found = paths(["aggregated"], gate | {"limit": 0.2}, inputs=own)
        assert {path for path in found if "buckets" in path} == {f"objectives.buckets.{name}" for name in buckets}

    def test_the_growth_is_read_for_the_share_of_it(self) -> None:
        share = {"metric": "transfer_envelope_share", "limit": 0.75, "topologies": "disaggregated"}
        assert paths(["disaggregated"], share) == [*TWO_POOLS, *FLOORS, "objectives.ttft_growth"]
        assert paths(["aggregated"], share) == [*ONE_POOL, *FLOORS]

    def test_a_gate_without_a_limit_does_not_apply_and_reads_nothing(self) -> None:
        missing = {"metric": "e2e_worst", "objective": "e2e"}
        assert paths(["aggregated"], missing, NEVER) == [*ONE_POOL, *FLOORS]


def test_the_share_of_all_and_of_none() -> None:
    observed, supplied = ({"path": "x", "provenance": provenance} for provenance in ("observed", "supplied"))
    assert unobserved_share([observed]) == 0
    assert unobserved_share([supplied, supplied]) == 1
    assert unobserved_share([observed, supplied, supplied]) == 0.6666666667
