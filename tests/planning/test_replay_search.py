"""The smallest scenario that meets a target on the trace: found in order, and the same that a look at all of them finds."""

import random
from itertools import permutations
from typing import Any

import polars as pl
import pytest

from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.planning.replay_named import knobs_of, nearest_names, replayed_by_name, why_unknown
from pipelines.planning.replay_search import Found, ReplaySearch
from pipelines.planning.replay_spaces import Trace
from pipelines.replay.costs import Costs
from pipelines.replay.plan import replayed
from pipelines.topologies.scenarios import KNOBS, named
from tests.gates.boards import preference
from tests.plans import Ranged, inputs_frame_of, matrix_of, requests_of, workload_of

KEYS = ("operating_parts", "gpus", "margin")
EDGES = (1000, 2000)


def bursts(seed: int, count: int = 240) -> pl.DataFrame:
    """Requests in bursts, short and long."""
    draw = random.Random(seed)
    rows = [
        (draw.choice((0, 0, 0, 20)) + place / 6, draw.choice((80, 300, 1200, 2500)), draw.choice((1, 6, 30)))
        for place in range(count)
    ]
    first = min(at for at, *_ in rows)
    return requests_of(*((at - first, prompt, output) for at, prompt, output in rows))


class Look:
    """A cohort, and its scenarios replayed one by one."""

    def __init__(self, seed: int, bound: Bound = "nominal", **fixed: Any) -> None:
        usual = {"compared": "aggregated chunked disaggregated routed", "gpus": 5, "thresholds": "1000 2000"}
        usual |= {"chunk_tokens": "256 512", "routed_chunks": "512", "ttft": 0.5, "tpot": 0.03, "stall": 0.3}
        usual |= {"r_p": Ranged(10_000.0, 7_000.0, 11_000.0)}
        inputs, requests = inputs_frame_of(**usual | fixed), bursts(seed)
        table = InputTable.of(inputs)
        workload = workload_of(requests, EDGES, table)
        self.trace = Trace(table, workload, Costs.of(table, bound, workload, requests), bound)
        matrix = matrix_of(inputs, requests, EDGES).filter(bound=bound)
        found = replayed(table, workload, requests, matrix).filter(part="whole")
        self.rows = found.join(
            matrix.select("scenario", "topology", "gpus", "operating_parts", "place"), on="scenario", how="left"
        )

    def search(self, target: float, *keys: str, **how: Any) -> Found:
        return ReplaySearch(self.trace, preference(*(keys or KEYS)), target).run(**how)

    def name(self, candidate: Any) -> str:
        return str(named(self.trace.inputs, [candidate.knobs])["scenario"].item())

    def ordered(self, target: float, keys: tuple[str, ...] = KEYS) -> pl.DataFrame:
        """All replayed scenarios in the order of a list."""
        columns = {"margin": -pl.col("replayed_goodput")}
        own = [columns.get(key, pl.col(key)) for key in keys]
        meets = self.rows.filter(pl.col("replayed_goodput") >= target).sort(*own, "place")
        short = self.rows.filter(pl.col("replayed_goodput") < target).sort(-pl.col("met"), *own, "place")
        return pl.concat([meets, short])


@pytest.fixture(scope="module")
def looks() -> list[Look]:
    return [Look(seed, bound) for seed in (1, 2) for bound in BOUNDS] + [Look(3, gpus_p=2, kv_memory_p=1e9)]


def targets(look: Look) -> list[float]:
    known = sorted(set(look.rows["replayed_goodput"].drop_nulls()))
    assert len(known) > 5
    return [known[0], known[len(known) // 2], known[-2], known[-1]]


@pytest.mark.parametrize("keys", list(permutations(KEYS)))
def test_the_answer_is_that_of_a_look_at_all_scenarios(looks: list[Look], keys: tuple[str, ...]) -> None:
    for look in looks:
        for target in targets(look):
            expected = look.ordered(target, keys)["scenario"][0]
            found = look.search(target, *keys)
            assert found.smallest is not None
            assert look.name(found.smallest) == expected


def test_the_list_is_the_beginning_of_all_scenarios_in_order(looks: list[Look]) -> None:
    for look in looks:
        for target in targets(look):
            found = look.search(target, all_of_them=True, top=30)
            rows = look.ordered(target)
            assert [look.name(one) for one in found.listed] == rows["scenario"].to_list()[:30]
            assert [one.goodput for one in found.listed] == rows["replayed_goodput"].to_list()[:30]


def test_the_best_of_each_topology_is_known_where_none_meets_the_target(looks: list[Look]) -> None:
    look = looks[0]
    rows = look.rows.with_columns(replayed_goodput=pl.col("replayed_goodput") * 0.99)
    found = look.search(1.0 + 1e-9)
    assert found.smallest is None
    for topology, best in found.best.items():
        own = rows.filter(pl.col("topology") == topology, pl.col("reason").is_null())
        assert best.met == own["met"].max()
    assert set(found.best) == set(rows.filter(pl.col("reason").is_null())["topology"])


def test_what_is_counted_is_what_there_is(looks: list[Look]) -> None:
    for look in looks:
        counts = look.search(0.5, all_of_them=True).counts
        reasons = look.rows["reason"].fill_null("replayed").value_counts().rows()
        assert dict(reasons) == {
            name: number for name in ("replayed", "refused", "kv_memory") if (number := getattr(counts, name))
        }
        assert counts.scenarios == counts.looked_at == look.rows.height
        assert counts.paths <= counts.replayed


def test_a_path_is_replayed_once_and_no_further_than_the_answer(looks: list[Look]) -> None:
    look = looks[0]
    calls: list[tuple[int, int]] = []
    target = targets(look)[0]
    found = look.search(target, progress=lambda done, total: calls.append((done, total)))
    assert found.counts.looked_at < found.counts.scenarios
    assert [done for done, _ in calls] == list(range(1, found.counts.paths + 1))
    assert all(done <= total for done, total in calls)


def test_requests_that_do_not_fit_are_counted_apart() -> None:
    look = Look(1, kv_memory=25e6)
    counts = look.search(0.5, all_of_them=True).counts
    assert (counts.replayed, counts.paths) == (0, 0)
    assert counts.kv_memory > 0
    assert counts.refused + counts.kv_memory == counts.scenarios
    assert dict(look.rows["reason"].value_counts().rows()).get("kv_memory", 0) == counts.kv_memory


def test_a_named_scenario_comes_to_what_a_plan_says_of_it(looks: list[Look]) -> None:
    look = looks[0]
    names = look.rows["scenario"].to_list()[::7]
    for name, one in zip(names, replayed_by_name(look.trace, preference(*KEYS), names), strict=True):
        row = look.rows.filter(scenario=name).row(0, named=True)
        assert (one.scenario, one.reason) == (name, row["reason"])
        assert one.parts == row["operating_parts"]
        assert one.row is None or all(one.row[key] == row[key] for key in one.row)
        assert (one.refusal is None) == (row["reason"] != "refused")


def test_every_name_can_be_read_back(looks: list[Look]) -> None:
    for name in looks[0].rows["scenario"]:
        knobs = knobs_of(name)
        assert knobs is not None
        assert set(knobs) <= {"topology", *KNOBS}
        assert named(looks[0].trace.inputs, [knobs])["scenario"].item() == name
        assert why_unknown(looks[0].trace, name) is None


@pytest.mark.parametrize(
    ("name", "said", "near"),
    [
        ("aggregatd/n2", "not the name of a scenario", "aggregated/n2"),
        ("aggregated/n0", "not the name of a scenario", "aggregated/n5"),
        ("aggregated/n9", "needs 9 GPUs; expected at most the 5 of the inventory", "aggregated/n5"),
        ("chunked/n1/c300", "no chunk budget of 300 tokens for chunked; expected 256, 512", "chunked/n1/c512"),
        ("routed/t999/n1/p1/d1", "no threshold of 999 tokens for routed; expected 1000, 2000", "routed/t2000/n1/p1/d1"),
    ],
)
def test_a_name_of_no_scenario_is_explained(looks: list[Look], name: str, said: str, near: str) -> None:
    assert said in str(why_unknown(looks[0].trace, name))
    assert near in nearest_names(looks[0].trace, name)
