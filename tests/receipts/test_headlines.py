"""The headline values: what is shown of the scenario that speaks for each topology."""

import polars as pl

from pipelines.receipts.headlines import chosen_or_nearest, headlines, outcome
from tests.receipts.conftest import Built


def test_one_object_per_topology_with_its_nominal_figures(good: Built) -> None:
    shown = headlines(good.plan.matrix, good.plan.decision)
    assert [row["topology"] for row in shown] == ["aggregated", "chunked", "disaggregated"]
    for row in shown:
        own = good.plan.matrix.filter((pl.col("scenario") == row["scenario"]) & (pl.col("bound") == "nominal"))
        for name in ("ttft_worst_s", "tpot_worst_s", "stall_s", "goodput", "headroom", "gpus", "status"):
            assert row[name] == own[name].item()


def test_the_worst_utilization_is_that_of_the_fullest_pool(good: Built) -> None:
    pools = {row["topology"]: row for row in headlines(good.plan.matrix, good.plan.decision)}
    assert set(pools["aggregated"]["utilization"]) == set(pools["chunked"]["utilization"]) == {"mixed"}
    separate = pools["disaggregated"]
    assert set(separate["utilization"]) == {"prefill", "decode"}
    assert separate["utilization_worst"] == max(separate["utilization"].values())


def test_a_choice_speaks_alone_and_no_choice_with_all_nearest_misses(good: Built, hopeless: Built) -> None:
    chosen = good.receipt["decision"]["scenario"]
    topology = chosen.partition("/")[0]
    assert outcome(good.plan.decision) == {"outcome": "topology_chosen", "topology": topology, "scenario": chosen}
    assert chosen_or_nearest(good.plan.decision) == [chosen]
    none = {"outcome": "no_topology_qualifies", "topology": None, "scenario": None}
    assert outcome(hopeless.plan.decision) == none
    assert chosen_or_nearest(hopeless.plan.decision) == [row["scenario"] for row in hopeless.receipt["rejected"]]
