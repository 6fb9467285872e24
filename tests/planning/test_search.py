"""The search finds what looking at every scenario finds, and keeps what a reader needs to check the decision."""

import random
from typing import Any

import polars as pl
import pytest

from pipelines.planning.enumerated import speaking_by_enumeration
from pipelines.planning.search import Asked, _found, kept_scenarios
from pipelines.topologies.constants import gpus_per_worker
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.scenarios import scenario_frame
from tests.planning.drawn import asked_of, decided, other_rules_of, said

HARD: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"metric": "ttft_worst", "op": "gte", "limit": 0.3},),
    ({"metric": "stall", "op": "gt", "limit": 0.3}, {"metric": "gpus", "op": "gte", "limit": 4.0}),
    ({"metric": "tpot_worst", "op": "gte", "limit": 0.0115}, {"metric": "goodput", "op": "gte", "limit": 0.5}),
    ({"metric": "e2e_worst", "op": "gt", "limit": 5.0, "bound": "conservative"},),
    ({"metric": "goodput", "op": "lte", "limit": 0.9},),
    ({"metric": "gpus", "op": "gte", "limit": 3.0}, {"metric": "ttft_worst", "objective": "ttft"}),
    ({"metric": "headroom", "op": "gt", "limit": 0.0},),
    ({"metric": "headroom", "op": "lte", "limit": 0.3}, {"metric": "pressure", "op": "gte", "limit": 0.3}),
)
"""Gates that two paths cannot be searched apart under, and limits of 0."""


def found(asked: Asked) -> pl.DataFrame:
    return _found(asked, [TOPOLOGIES[name] for name in asked.inputs.words("topologies.compared")])


def enumerated(asked: Asked) -> pl.DataFrame:
    return speaking_by_enumeration(asked.inputs, asked.workload, asked.gates, asked.preference)


def agree(asked: Asked) -> None:
    one, other = found(asked), enumerated(asked)
    for speaks in (True, False):
        ours, theirs = (frame.filter(pl.col("speaks") == speaks)["scenario"].to_list() for frame in (one, other))
        assert sorted(set(ours)) == sorted(set(theirs)), said(asked)
        assert len(ours) == len(set(ours)) or not speaks


@pytest.mark.parametrize("seed", range(22))
def test_it_finds_what_looking_at_everything_finds(seed: int) -> None:
    agree(asked_of(seed))


@pytest.mark.parametrize(
    "rules", HARD, ids=lambda rules: " ".join(f"{one['metric']}-{one.get('op', 'lte')}" for one in rules)
)
@pytest.mark.parametrize("seed", [5])
def test_also_where_paths_cannot_be_searched_apart(seed: int, rules: tuple[dict[str, Any], ...]) -> None:
    agree(asked_of(seed, *rules))


WAIVED: tuple[dict[str, Any], ...] = (
    {"metric": "ttft_worst", "limit": 0.2, "waived": "aggregated routed"},
    {"metric": "stall", "limit": 0.1, "waived": "aggregated"},
    {"metric": "pressure", "op": "lt", "limit": 1.0, "bound": "conservative", "waived": "aggregated chunked"},
)


@pytest.mark.parametrize("seed", [3, 8])
def test_what_is_waived_does_not_decide(seed: int) -> None:
    agree(asked_of(seed, *WAIVED))


@pytest.mark.parametrize("seed", range(6))
def test_gates_that_weigh_paths_together_are_judged_on_each_scenario(seed: int) -> None:
    asked = asked_of(seed, *other_rules_of(random.Random(seed)))
    kept = set(kept_scenarios(asked, keep_all=0)["scenario"])
    assert set(enumerated(asked)["scenario"]) <= kept, said(asked)
    assert set(decided(asked).decision["scenario"]) <= kept, said(asked)


def expected_to_be_kept(asked: Asked) -> set[str]:
    """What section 10 names, found by looking at everything and filtering by name."""
    everything = scenario_frame(asked.inputs, asked.thresholds)
    each, pools = gpus_per_worker(asked.inputs), ("workers_mixed", "workers_prefill", "workers_decode")
    knobs = ("topology", "threshold_tokens", "chunk_tokens", *pools)
    other = enumerated(asked)
    near: list[dict[str, Any]] = []
    for row in other.filter("speaks").select(knobs).iter_rows(named=True):
        near += [row, *(row | {pool: row[pool] + step} for pool in pools if row[pool] for step in (-1, 1))]
    by_knobs = {tuple(row[name] for name in knobs): row for row in everything.iter_rows(named=True)}
    there = [
        by_knobs[tuple(row[name] for name in knobs)] for row in near if tuple(row[name] for name in knobs) in by_knobs
    ]
    kept = {row["scenario"] for row in there} | set(other["scenario"])
    one_pool = everything.filter(pl.col("topology").is_in(["aggregated", "chunked"]))
    for row in there:
        if TOPOLOGIES[row["topology"]].separates:
            fitting = one_pool.filter(pl.col("gpus") <= row["gpus"])
            kept |= set(fitting.filter(pl.col("gpus") == pl.col("gpus").max())["scenario"])
    assert set(each) == {"mixed", "prefill", "decode"}
    alone = pl.all_horizontal([pl.col(pool).fill_null(1) == 1 for pool in pools])
    return kept | set(everything.filter(alone)["scenario"])


@pytest.mark.parametrize("seed", [0, 5, 11, 17])
def test_what_is_kept_of_very_many(seed: int) -> None:
    asked = asked_of(seed)
    everything, kept = scenario_frame(asked.inputs, asked.thresholds), kept_scenarios(asked, keep_all=0)
    names = kept["scenario"].to_list()
    assert set(names) == expected_to_be_kept(asked), said(asked)
    assert names == [name for name in everything["scenario"].to_list() if name in set(names)]
    assert kept["place"].to_list() == list(range(kept.height))
    assert set(kept["searched"]) == {everything.height}
    assert kept.drop("place", "searched", "rules").equals(
        everything.filter(pl.col("scenario").is_in(names)).drop("place")
    )


def test_all_are_kept_of_few() -> None:
    asked = asked_of(3)
    kept = kept_scenarios(asked)
    assert kept.drop("searched", "rules").equals(scenario_frame(asked.inputs, asked.thresholds))
    assert set(kept["searched"]) == {kept.height}


def test_one_more_than_are_kept_is_too_many() -> None:
    asked = asked_of(3)
    count = kept_scenarios(asked).height
    assert kept_scenarios(asked, keep_all=count).height == count
    assert kept_scenarios(asked, keep_all=count - 1).height < count


def test_a_closed_loop_is_looked_at_one_by_one() -> None:
    fixed = {"rate": None, "concurrency": 6.0, "ca2": 1.0, "gpus": 3, "compared": "aggregated chunked disaggregated"}
    asked = asked_of(1, {"objective": "ttft"}, thresholds=None, routed_chunks=None, **fixed)
    kept = kept_scenarios(asked, keep_all=0)
    assert set(kept["scenario"]) == expected_to_be_kept(asked)


def test_one_topology_alone() -> None:
    asked = asked_of(2, {"objective": "ttft"}, compared="aggregated", thresholds=None, routed_chunks=None, gpus=8)
    agree(asked)
    assert set(kept_scenarios(asked, keep_all=0)["scenario"]) == expected_to_be_kept(asked)
