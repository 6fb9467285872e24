"""How many scenarios an inventory has, and the smallest inventory that suffices."""

import itertools
from typing import Any

import polars as pl
import pytest

from pipelines.frames.inputs import InputTable
from pipelines.planning.room import fewest_gpus, scenario_count, with_gpus
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.scenarios import scenario_frame
from tests.planning.drawn import asked_of, judged
from tests.plans import inputs_frame_of

NAMES = "aggregated chunked disaggregated routed"


@pytest.mark.parametrize(
    ("mixed", "prefill", "decode"), [(1, 1, 1), (2, 1, 1), (1, 2, 3), (3, 1, 2), (2, 3, 1), (4, 4, 4)]
)
def test_scenarios_are_counted_without_listing_them(mixed: int, prefill: int, decode: int) -> None:
    for gpus, budgets, thresholds in itertools.product((1, 4, 7, 10), (None, "512", "6 1024"), ([], [1000], [10, 20])):
        inputs = inputs_frame_of(
            compared=NAMES,
            gpus=gpus,
            gpus_per_worker=mixed,
            gpus_p=prefill,
            gpus_d=decode,
            chunk_tokens="256 512 1024",
            routed_chunks=budgets,
        )
        table = InputTable.of(inputs)
        listed = scenario_frame(table, thresholds)["topology"].to_list()
        for name in TOPOLOGIES:
            assert scenario_count(table, name, len(thresholds)) == listed.count(name), (name, gpus, budgets, thresholds)


def test_another_inventory_can_be_asked_about() -> None:
    table = InputTable.of(inputs_frame_of(compared=NAMES, gpus=3))
    for gpus in range(1, 9):
        larger = with_gpus(table, gpus)
        for name in TOPOLOGIES:
            assert scenario_count(table, name, 2, gpus) == scenario_count(larger, name, 2)
    assert table.number("inventory.gpus") == 3


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
@pytest.mark.parametrize("seed", range(4))
def test_the_fewest_gpus_are_those_of_trying_all(seed: int, topology: str) -> None:
    rules: list[dict[str, Any]] = [{"metric": "pressure", "op": "lt", "limit": 0.35}, {"objective": "ttft"}]
    if topology in ("disaggregated", "routed"):
        rules.append({"metric": "pressure", "op": "lt", "limit": 0.5, "bound": "conservative", "topologies": topology})
    asked = asked_of(seed, *rules, gpus=3, gpus_per_worker=1, gpus_p=None, gpus_d=None, tpot=0.05, e2e=None)
    larger = asked.__class__(with_gpus(asked.inputs, 12), asked.workload, asked.gates, asked.preference)
    own = judged(larger, topology=topology).standing.filter(
        pl.col("passes") & (pl.col("topology") == topology) & (pl.col("gpus") > 3)
    )
    first = own.sort("gpus", "place").select("gpus", "scenario").row(0) if own.height else None
    assert fewest_gpus(asked.inputs, asked.workload, asked.gates, TOPOLOGIES[topology], 9.0) == first


def test_the_parts_of_the_topology_are_judged() -> None:
    """Of parts there are as many on more GPUs."""
    asked = asked_of(3, {"metric": "operating_parts", "limit": 11.0}, gpus=2, gpus_p=None, gpus_d=None, rate=0.1)
    own = TOPOLOGIES["disaggregated"]
    assert fewest_gpus(asked.inputs, asked.workload, asked.gates, own, 11.0) is not None
    assert fewest_gpus(asked.inputs, asked.workload, asked.gates, own, 12.0) is None


def test_the_largest_inventory_that_is_not_too_large_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of disaggregated, six GPUs have 15 scenarios and seven 21."""
    rule = {"metric": "gpus", "op": "gte", "limit": 6.0}
    asked = asked_of(3, rule, gpus=2, gpus_p=None, gpus_d=None, tpot=0.05, ttft=3.0, e2e=None, rate=0.1)
    own = TOPOLOGIES["disaggregated"]
    monkeypatch.setattr("pipelines.planning.room.MOST_SCENARIOS", 15)
    found = fewest_gpus(asked.inputs, asked.workload, asked.gates, own, 11.0)
    assert found is not None
    assert found[0] == 6
    monkeypatch.setattr("pipelines.planning.room.MOST_SCENARIOS", 14)
    assert fewest_gpus(asked.inputs, asked.workload, asked.gates, own, 11.0) is None
