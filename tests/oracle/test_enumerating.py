"""Scenarios are enumerated in matrix order, and counted without being listed (docs/formats.md, Scenarios)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.oracle.enumerating import Inventory, count_pairs, matrix_order
from pipelines.oracle.names import TOPOLOGIES
from pipelines.oracle.scenario import Knobs

_SIZES = st.integers(1, 4)
INVENTORIES = st.builds(
    Inventory,
    st.integers(1, 18),
    _SIZES,
    _SIZES,
    _SIZES,
    st.just(TOPOLOGIES),
    st.sampled_from([(256,), (256, 512)]),
    st.sampled_from([(), (1024,), (1024, 4096)]),
    st.sampled_from([(None,), (None, 512)]),
)
SMALL = Inventory(4, 1, 1, 2, TOPOLOGIES, (512,), (2048,), (None, 256))


@given(INVENTORIES)
def test_the_count_is_that_of_the_list(inventory: Inventory) -> None:
    listed = list(inventory.scenarios())
    assert inventory.count() == len(listed) == len({knobs.name for knobs in listed})
    assert listed == sorted(listed, key=matrix_order)
    for knobs in listed:
        assert inventory.parse(knobs.name) == knobs
        assert inventory.gpus_of(knobs) <= inventory.gpus


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 40))
def test_pairs_of_pools(gpus: int, first: int, second: int) -> None:
    most = range(1, gpus + 1)
    assert count_pairs(gpus, first, second) == sum(max(0, (gpus - p * first) // second) for p in most)


def test_the_order_by_hand() -> None:
    # decode workers have two GPUs
    assert [knobs.name for knobs in SMALL.scenarios()] == [
        "aggregated/n1", "aggregated/n2", "aggregated/n3", "aggregated/n4",
        "chunked/n1/c512", "chunked/n2/c512", "chunked/n3/c512", "chunked/n4/c512",
        "disaggregated/p1/d1", "disaggregated/p2/d1",
        "routed/t2048/n1/p1/d1", "routed/t2048/n1/c256/p1/d1",
    ]  # fmt: skip


def test_names_of_nothing() -> None:
    for name in (
        "aggregated/n5", "aggregated/n0", "aggregated/n1/c512", "chunked/n1", "chunked/n1/c256", "disaggregated/p1/d2",
        "disaggregated/p1", "routed/t2048/n1/c512/p1/d1", "routed/t512/n1/p1/d1", "routed/n1/p1/d1", "aggregated", "",
    ):  # fmt: skip
        assert SMALL.parse(name) is None, name


def test_sizes_far_beyond_a_list() -> None:
    many = Inventory(256, 1, 1, 1, TOPOLOGIES, (256,), (1024, 4096), (None, 512))
    # three pools of 256 GPUs: 256 over 3, twice for the thresholds and twice for the budgets
    assert many.count() == 256 + 256 + 256 * 255 // 2 + 4 * (256 * 255 * 254 // 6)
    assert many.paths() == 256 * (2 + 2 * 2) + 3 * (256 * 255 // 2)


def test_neighbours_and_baselines() -> None:
    separated = Knobs("disaggregated", workers_prefill=1, workers_decode=1)
    assert [knobs.name for knobs in SMALL.neighbours(separated)] == ["disaggregated/p2/d1"]
    assert [knobs.name for knobs in SMALL.baselines(separated)] == ["aggregated/n3", "chunked/n3/c512"]
    large = Inventory(8, 4, 1, 2, TOPOLOGIES, (512,), (), (None,))
    assert large.baselines(separated) == []
    # the most below 6 GPUs are one worker of 4
    two = Knobs("disaggregated", workers_prefill=2, workers_decode=2)
    assert [knobs.name for knobs in large.baselines(two)] == ["aggregated/n1", "chunked/n1/c512"]
    assert [k.name for k in SMALL.single_workers()] == [
        "aggregated/n1", "chunked/n1/c512", "disaggregated/p1/d1", "routed/t2048/n1/p1/d1",
        "routed/t2048/n1/c256/p1/d1",
    ]  # fmt: skip
