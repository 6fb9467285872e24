"""What would change a decision, against plans of cohorts that were really changed."""

import math
import random
from functools import lru_cache
from typing import Any

import polars as pl
import pytest

from pipelines.planning.changes import BreakEven, Sensitivity, break_evens, most_sensitive, sensitivities, workers_less
from pipelines.planning.search import Asked
from pipelines.planning.speaking import Changes, Decided, changes, measure_next
from tests.planning.drawn import asked_of, decided, edited, judged
from tests.plans import Ranged

RULES: tuple[dict[str, Any], ...] = (
    {"metric": "ttft_worst", "objective": "ttft"},
    {"metric": "tpot_worst", "objective": "tpot"},
    {"metric": "goodput", "op": "gte", "objective": "attainment"},
    {"metric": "pressure", "op": "lt", "limit": 1.0, "bound": "conservative"},
    {"metric": "transfer_envelope_share", "limit": 0.75, "topologies": "disaggregated routed"},
)
ONE_POOL = {
    "thresholds": None,
    "routed_chunks": None,
    "compared": "aggregated chunked",
    "gpus": 2,
    "gpus_per_worker": 1,
}
COHORTS: dict[str, dict[str, Any]] = {
    "declared": {"seed": 3},
    "generous": {"seed": 7, "ttft": 5.0, "tpot": 0.05, "rate": 0.4, "gpus": 4, "ttft_growth": 1.0},
    "open": {"seed": 5, "rate": None, "ca2": None, "gpus": 4},
    "memory": {
        "seed": 9,
        "kv_memory": None,
        "gpu_memory": Ranged(2e9, low=1.9e9),
        "utilization": 0.9,
        "weights": Ranged(1.5e9, high=1.6e9),
        "activations": 0.0,
        "gpus": 3,
        "gpus_per_worker": 1,
        "gpus_p": None,
        "gpus_d": None,
        "layout_factor": Ranged(1.0, high=1.1),
        "u_p": 0.95,
        "at_destination": 0.5,
        "eta": 0.3,
    },
    "looped": {
        "seed": 4,
        "ttft": 5.0,
        "tpot": 0.05,
        "ttft_1000": None,
        "tpot_1000": None,
        "ttft_4000": None,
        "attainment": 0.5,
        "rate": None,
        "concurrency": Ranged(5.0, high=6.0),
        "ca2": 1.0,
    }
    | ONE_POOL,
    "weighed": {
        "seed": 2,
        "gpus": 4,
        "ttft": 2.0,
        "ttft_1000": None,
        "tpot_1000": None,
        "ttft_4000": None,
        "e2e_1000": None,
    },
}
WEIGHED: tuple[dict[str, Any], ...] = (
    {"metric": "ttft_worst", "objective": "ttft", "waived": "aggregated"},
    {"metric": "ttft", "aggregate": "request_weighted", "limit": 0.6},
    {"metric": "tpot", "aggregate": "worst", "buckets": "longest", "limit": 0.02, "bound": "conservative"},
    {"metric": "stall", "limit_metric": "tpot_worst", "limit_times": 60.0},
    {"metric": "tpot_worst", "limit_baseline": "chunked", "limit_times": 1.02, "topologies": "disaggregated routed"},
    {"metric": "ttft", "aggregate": "share", "within_objective": "ttft", "op": "gte", "limit": 0.5},
)
"""Gates by bucket, relative to a metric, and waived."""


@lru_cache
def planned(name: str) -> tuple[Asked, Decided, Changes]:
    """A cohort with everything that would change its decision."""
    given = COHORTS[name]
    asked = asked_of(
        given["seed"],
        *(WEIGHED if name == "weighed" else RULES),
        **{key: value for key, value in given.items() if key != "seed"},
    )
    made = decided(asked)
    return asked, made, changes(made)


def rows(frame: pl.DataFrame, share: float, seed: int = 1) -> list[dict[str, Any]]:
    """A part of the rows, always the same ones: each is looked at by a plan of its own."""
    found = frame.to_dicts()
    return random.Random(seed).sample(found, math.ceil(share * len(found)))


OPEN = [name for name in COHORTS if name != "looped"]
SHARE = {"looped": 0.15}
"""How many of the rows are looked at, of which each is a plan of its own."""


@pytest.mark.parametrize("name", COHORTS)
def test_a_sensitivity_is_the_margin_of_the_changed_cohort(name: str) -> None:
    asked, _, found = planned(name)
    speaking = dict(found.speaking.select("topology", "scenario").iter_rows())
    looked_at = 0
    for row in rows(found.sensitivity, SHARE.get(name, 0.08)):
        for side, factor in (("down", 0.9), ("up", 1.1)):
            if row[f"passes_{side}"] is None:
                continue
            really = judged(edited(asked, row["path"], factor), speaking[row["topology"]])
            margin = really.margin(speaking[row["topology"]])
            assert row[f"margin_{side}"] == (margin if margin is None else pytest.approx(margin, abs=2e-9, rel=1e-9)), (
                row
            )
            assert row[f"passes_{side}"] == really.passes(speaking[row["topology"]]), row
            looked_at += 1
    assert looked_at > 5


@pytest.mark.parametrize("name", COHORTS)
def test_passing_changes_at_a_break_even_and_not_before(name: str) -> None:
    asked, _, found = planned(name)
    speaking = dict(found.speaking.select("topology", "scenario").iter_rows())
    for row in rows(found.break_even, SHARE.get(name, 0.15)):
        scenario, outwards = speaking[row["topology"]], 1e-6 if row["factor"] > 1 else -1e-6
        passes = [
            judged(edited(asked, row["path"], row["factor"] * (1 + way * outwards)), scenario).passes(scenario)
            for way in (-1, 1)
        ]
        assert passes == ([True, False] if row["event"] == "fails" else [False, True]), row


def test_there_are_break_evens_of_both_events() -> None:
    assert {event for name in OPEN for event in planned(name)[2].break_even["event"]} == {"fails", "passes"}


@pytest.mark.parametrize("name", OPEN)
def test_a_break_even_is_the_nearest(name: str) -> None:
    """Between 1 and the factor, nothing changes on the way."""
    asked, _, found = planned(name)
    speaking = dict(found.speaking.select("topology", "scenario").iter_rows())
    for row in rows(found.break_even, 0.05, seed=2):
        scenario = speaking[row["topology"]]
        for share in (0.3, 0.8):
            between = edited(asked, row["path"], row["factor"] ** share)
            assert judged(between, scenario).passes(scenario) == (row["event"] == "fails"), row


@pytest.mark.parametrize("name", COHORTS)
def test_values_are_the_factor_of_the_declared_ones_and_rows_in_order(name: str) -> None:
    asked, made, found = planned(name)
    rate = {"requests.rate": asked.workload.whole["rate_rps"]}
    order = {path: place for place, path in enumerate(["requests.rate", *asked.inputs.rows])}
    for topology in made.decision["topology"]:
        own = found.break_even.filter(pl.col("topology") == topology)
        keys = [(order[row["path"]], row["factor"]) for row in own.iter_rows(named=True)]
        assert keys == sorted(keys)
        for row in own.iter_rows(named=True):
            known = asked.inputs.rows.get(row["path"])
            value = rate[row["path"]] if known is None else known["value"]
            assert row["value"] == pytest.approx(value * row["factor"], rel=1e-9)
            assert 1 / 16 <= row["factor"] <= 16
            assert row["factor"] == float(f"{row['factor']:.7e}")


@pytest.mark.parametrize("name", COHORTS)
def test_the_headroom_of_the_rate_with_what_fails_beyond_it(name: str) -> None:
    asked, _, found = planned(name)
    path = "requests.concurrency" if name == "looped" else "requests.rate"
    known = 0
    for row in found.speaking.iter_rows(named=True):
        passes = judged(asked, row["scenario"]).passes(row["scenario"])
        own = found.break_even.filter((pl.col("topology") == row["topology"]) & (pl.col("path") == path))
        factors = [factor for factor in own["factor"] if (factor > 1) == passes]
        assert row["rate_factor"] == (factors[0] if factors else None)
        if row["rate_factor"] is None:
            continue
        known += 1
        assert row["rate_event"] == ("fails" if passes else "passes")
        assert passes == (row["rate_factor"] > 1)
        failing = judged(edited(asked, path, row["rate_factor"] * (1 + 1e-6)), row["scenario"])
        assert (row["rate_gate"], row["rate_verdict"]) == failing.unmet(row["scenario"])
    assert known or name in ("memory",)


def smaller(scenario: str, pool: str) -> str:
    """The name of the scenario with one worker less in ``pool``."""
    letter = {"mixed": "n", "prefill": "p", "decode": "d"}[pool]
    parts = scenario.split("/")
    return "/".join(
        f"{letter}{int(part[1:]) - 1}" if part[0] == letter and part[1:].isdigit() else part for part in parts
    )


@pytest.mark.parametrize("name", COHORTS)
def test_one_worker_less_is_the_smaller_scenario(name: str) -> None:
    asked, made, found = planned(name)
    everything = judged(asked)
    for speaking in made.decision.iter_rows(named=True):
        own = found.workers_less.filter(pl.col("topology") == speaking["topology"])
        knobs = made.matrix.filter(pl.col("scenario") == speaking["scenario"]).row(0, named=True)
        pools = [pool for pool in ("mixed", "prefill", "decode") if knobs[f"workers_{pool}"] is not None]
        assert own["pool"].to_list() == pools
        for row in own.iter_rows(named=True):
            assert row["workers"] == knobs[f"workers_{row['pool']}"]
            if row["workers"] == 1:
                assert (row["load_factor"], row["passes"], row["margin"]) == (None, False, None)
                continue
            less = smaller(speaking["scenario"], row["pool"])
            assert row["load_factor"] == pytest.approx(row["workers"] / (row["workers"] - 1), rel=1e-9)
            assert row["passes"] == everything.passes(less)
            margin = everything.margin(less)
            assert row["margin"] == (None if margin is None else pytest.approx(margin, abs=2e-9, rel=1e-9))


def test_one_worker_less_of_a_larger_scenario() -> None:
    """Not of what speaks alone: of every scenario that has a smaller one."""
    asked, made, _ = planned("generous")
    everything = judged(asked)
    for name in ("aggregated/n4", "disaggregated/p2/d2"):
        own = made.speaking({"scenario": name, "topology": name.partition("/")[0]})
        for row in workers_less(own):
            less = smaller(name, row.pool)
            assert (row.passes, row.workers > 1) == (everything.passes(less), True)
            margin = everything.margin(less)
            assert row.margin == (None if margin is None else pytest.approx(margin, abs=2e-9, rel=1e-9))


class TestMostSensitive:
    @staticmethod
    def row(path: str, down: float | None, up: float | None, *passes: bool | None) -> Sensitivity:
        return Sensitivity(path, down, up, *(passes or (True, True)))

    def test_the_one_that_moves_the_margin_most_on_either_side(self) -> None:
        found = [self.row("model.a", 0.5, 0.6), self.row("model.b", 0.1, 0.5), self.row("model.c", 0.5, 0.8)]
        assert most_sensitive(found, 0.5) == "model.b"

    def test_the_first_of_equals(self) -> None:
        assert most_sensitive([self.row("model.b", 0.25, 0.5), self.row("model.a", 0.75, 0.5)], 0.5) == "model.b"

    def test_a_side_that_is_refused_moves_it_most(self) -> None:
        assert most_sensitive([self.row("model.a", -9.0, 0.5), self.row("model.b", None, 0.5)], 0.5) == "model.b"

    def test_a_side_that_cannot_be_changed_so_far_moves_nothing(self) -> None:
        rows = [self.row("model.a", None, 0.6, None, True), self.row("model.b", 0.3, 0.5)]
        assert most_sensitive(rows, 0.5) == "model.b"

    def test_objectives_and_ceilings_are_not_named(self) -> None:
        chosen = ("objectives.ttft", "service.prefill.utilization_ceiling", "separated.decode.utilization_ceiling")
        assert most_sensitive([self.row(path, -9.0, 9.0) for path in chosen], 0.5) is None
        assert most_sensitive([*(self.row(path, -9.0, 9.0) for path in chosen), self.row("model.a", 0.5, 0.51)], 0.5)

    def test_nothing_moves_a_margin_that_stays(self) -> None:
        assert most_sensitive([self.row("model.a", 0.5, 0.5)], 0.5) is None

    def test_of_a_refused_scenario_what_makes_it_none(self) -> None:
        assert most_sensitive([self.row("model.a", None, None), self.row("model.b", None, 0.1)], None) == "model.b"
        assert most_sensitive([self.row("model.a", None, None)], None) is None


@pytest.mark.parametrize("name", COHORTS)
def test_the_most_sensitive_is_found_among_the_rows(name: str) -> None:
    _, _, found = planned(name)
    for speaking in found.speaking.iter_rows(named=True):
        own = found.sensitivity.filter(pl.col("topology") == speaking["topology"])
        moved = {}
        for row in own.iter_rows(named=True):
            if row["path"].startswith("objectives.") or row["path"].endswith("utilization_ceiling"):
                continue
            sides = [row[f"margin_{side}"] for side in ("down", "up") if row[f"passes_{side}"] is not None]
            if speaking["margin"] is None:
                distances = [0.0 if side is None else math.inf for side in sides]
            else:
                distances = [math.inf if side is None else abs(side - speaking["margin"]) for side in sides]
            moved[row["path"]] = max(distances, default=0.0)
        farthest = max(moved.values())
        expected = next(path for path, distance in moved.items() if distance == farthest) if farthest > 0 else None
        if farthest < math.inf and expected is not None:  # exported margins have ten digits, the comparison has all
            assert moved[speaking["most_sensitive"]] == pytest.approx(farthest, abs=1e-8)
        else:
            assert speaking["most_sensitive"] == expected


class TestWhatCannotBeChanged:
    def sides(self, path: str, topology: str = "aggregated") -> tuple[bool, bool]:
        """Whether an input of the cohort ``memory`` can be a tenth less, and a tenth more."""
        _, _, found = planned("memory")
        row = found.sensitivity.filter((pl.col("topology") == topology) & (pl.col("path") == path)).row(0, named=True)
        for side in ("down", "up"):
            assert row[f"passes_{side}"] is not None or row[f"margin_{side}"] is None
        return row["passes_down"] is not None, row["passes_up"] is not None

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("service.prefill.utilization_ceiling", (True, False)),  # 0.95
            ("service.decode.utilization_ceiling", (True, True)),  # 0.9 x 1.1 = 0.99
            ("service.prefill.prefix_hit_ratio", (True, True)),
            ("model.layout_factor", (False, True)),  # 1
            (
                "inventory.gpu_memory",
                (True, True),
            ),  # conservatively 1.9 x 0.9 x 0.9 = 1.54 < 1.6 GB of weights: see below
            ("inventory.weights_per_worker", (True, True)),
            ("objectives.attainment", (True, True)),
        ],
    )
    def test_by_its_domain(self, path: str, expected: tuple[bool, bool]) -> None:
        if path == "inventory.gpu_memory":
            expected = (False, True)  # no memory is left
        if path == "inventory.weights_per_worker":
            expected = (True, False)  # 1.76 of 1.71 GB
        assert self.sides(path) == expected

    def test_the_utilization_of_the_memory_from_both_sides(self) -> None:
        assert self.sides("inventory.memory_utilization") == (False, True)

    def test_counts_zeros_words_and_activations_of_none_are_not_changed(self) -> None:
        _, _, found = planned("memory")
        paths = set(found.sensitivity["path"])
        assert "inventory.activations_per_worker" not in paths
        assert "service.decode.max_sequences" in paths
        assert not paths & {
            "model.layers",
            "inventory.gpus",
            "network.links",
            "model.kv_dtype",
            "service.mixed_step_penalty",
        } - {"service.mixed_step_penalty"}

    def test_concurrency_is_changed_and_no_rate(self) -> None:
        paths = planned("looped")[2].sensitivity["path"].to_list()
        assert paths[0] == "requests.concurrency"
        assert "requests.rate" not in paths

    def test_the_rate_of_a_trace_comes_first(self) -> None:
        assert planned("open")[2].sensitivity["path"].to_list()[0] == "requests.rate"

    def test_a_break_even_stays_within_the_domain(self) -> None:
        _, _, found = planned("memory")
        for row in found.break_even.iter_rows(named=True):
            if row["path"].endswith("utilization_ceiling"):
                assert row["value"] < 1
            if row["path"] == "model.layout_factor":
                assert row["factor"] > 1


def test_a_fix_is_the_nearest_break_even_of_what_does_not_pass() -> None:
    seen = set()
    for name in COHORTS:
        _, made, found = planned(name)
        for row in found.speaking.iter_rows(named=True):
            standing = made.decision.filter(pl.col("topology") == row["topology"])["standing"].item()
            own = found.break_even.filter(pl.col("topology") == row["topology"]).to_dicts()
            if standing != "nearest_miss" or not own:
                assert row["fix_path"] is None
                continue
            nearest = min(own, key=lambda one: abs(math.log(one["factor"])))
            assert (row["fix_path"], row["fix_factor"]) == (nearest["path"], nearest["factor"])
            seen.add(name)
    assert seen


def measured_first(made: Decided, found: Changes, decisive: list[str], order: list[str]) -> list[str]:
    nearest: dict[str, float] = {}
    for row in found.break_even.filter(pl.col("topology").is_in(decisive)).iter_rows(named=True):
        path, chosen = row["path"], ("objectives.", ".utilization_ceiling")
        if not path.startswith(chosen[0]) and not path.endswith(chosen[1]):
            nearest[path] = min(abs(math.log(row["factor"])), nearest.get(path, math.inf))
    return sorted(nearest, key=lambda path: (nearest[path], order.index(path)))[:5]


@pytest.mark.parametrize("name", COHORTS)
def test_what_to_measure_next(name: str) -> None:
    """Of the chosen scenario, and of those that miss and would come before it if they passed."""
    asked, made, found = planned(name)
    prefer = asked.preference.filter(pl.col("rule") == "prefer").sort("value")["name"].to_list()
    keys = prefer[: prefer.index("margin")]
    own = {row["scenario"]: row for row in made.matrix.filter(pl.col("bound") == "nominal").iter_rows(named=True)}
    chosen = made.decision.filter(pl.col("standing") == "chosen")
    decisive = chosen["topology"].to_list()
    for row in made.decision.filter(pl.col("standing") == "nearest_miss").iter_rows(named=True):
        size = [own[row["scenario"]][key] for key in keys]
        if chosen.is_empty() or size < [own[chosen["scenario"].item()][key] for key in keys]:
            decisive.append(row["topology"])
    order = ["requests.rate", *asked.inputs.rows]
    assert measure_next(made, found) == measured_first(made, found, decisive, order)


def test_what_is_observed_need_not_be_measured() -> None:
    _, made, found = planned("open")
    first = measure_next(made, found)[0]
    inputs = made.inputs.rows | {path: row | {"provenance": "observed"} for path, row in made.inputs.rows.items()}
    observed = Decided(**vars(made) | {"inputs": type(made.inputs)(inputs)})
    assert measure_next(observed, found) in ([], ["requests.rate"])
    assert measure_next(Decided(**vars(observed) | {"trace_provenance": "observed"}), found) == []
    assert first


def test_the_margin_is_that_of_the_unrounded_figures() -> None:
    for name in COHORTS:
        asked, _, found = planned(name)
        everything = judged(asked)
        for row in found.speaking.iter_rows(named=True):
            margin = everything.margin(row["scenario"])
            assert row["margin"] == (None if margin is None else pytest.approx(margin, abs=2e-9, rel=1e-9))


def test_the_same_found_by_the_functions_that_the_frames_are_made_of() -> None:
    _, made, found = planned("declared")
    row = made.decision.row(0, named=True)
    own = made.speaking(row)
    frame = found.sensitivity.filter(pl.col("topology") == row["topology"])
    assert [one.path for one in sensitivities(own)] == frame["path"].to_list()
    evens = found.break_even.filter(pl.col("topology") == row["topology"]).drop("topology")
    assert [BreakEven(**one) for one in evens.to_dicts()] == break_evens(own)
