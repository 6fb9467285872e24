"""Verdicts: which figure is held against which limit, and on which side of it a scenario passes."""

import math
from typing import Any, ClassVar

import polars as pl
import pytest

from pipelines.frames.inputs import InputTable
from pipelines.frames.metrics import BY_CLOSED_FORMS, METRICS
from tests.gates.boards import board, gates, judged, refused_by, verdicts_on
from tests.plans import in_pairs, inputs_frame_of, matrix_of

LIMIT = 0.2
SIDES = {
    "below": math.nextafter(LIMIT, 0),
    "just below": 0.1999999999,
    "at": LIMIT,
    "just above": 0.2000000001,
    "above": 1.0,
}
PASSING = {
    "lte": {"below", "just below", "at"},
    "lt": {"below", "just below"},
    "gte": {"at", "just above", "above"},
    "gt": {"just above", "above"},
}


def verdict(op: str, figure: float, **gate: Any) -> str:
    matrix = board({"scenario": "aggregated/n1", "ttft_worst_s": figure})
    return verdicts_on(matrix, {"op": op} | gate)[0][2]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("op", PASSING)
def test_each_operator_on_each_side_of_the_limit(op: str, side: str) -> None:
    assert verdict(op, SIDES[side], limit=LIMIT) == ("pass" if side in PASSING[op] else "fail")


def test_the_exported_digits_are_judged_and_not_those_behind_them() -> None:
    """A pool at 0.32 of exactly 0.8 is at a pressure of 0.4 to ten digits, whatever the double says."""
    inputs = inputs_frame_of(compared="aggregated", slots=1e6)
    matrix = matrix_of(inputs, in_pairs(*[(1000, 101)] * 5))
    rules = gates({"metric": "pressure", "op": "gte", "limit": 0.4}, {"metric": "pressure", "op": "lte", "limit": 0.4})
    one = judged(matrix, rules, InputTable.of(inputs)).filter(scenario="aggregated/n1")
    assert one["figure"].to_list() == [0.4, 0.4]
    assert one["verdict"].to_list() == ["pass", "pass"]


@pytest.mark.parametrize("metric", BY_CLOSED_FORMS)
def test_each_metric_reads_its_own_column(metric: str) -> None:
    figures = {
        "ttft_worst_s": 1.0,
        "tpot_worst_s": 2.0,
        "e2e_worst_s": 3.0,
        "stall_s": 4.0,
        "transfer_worst_s": 5.0,
        "transfer_envelope_share": 0.6,
        "goodput": 0.7,
        "pressure": 0.8,
        "gpus": 9,
        "operating_parts": 10.0,
    }
    expected = {"headroom": 0.2} | {name.removesuffix("_s"): float(value) for name, value in figures.items()}
    matrix = board({"scenario": "disaggregated/p1/d1", **figures})
    row = judged(matrix, gates({"metric": metric, "limit": 1.0})).row(0, named=True)
    assert (row["figure"], row["metric"]) == (pytest.approx(expected[metric], abs=1e-10), metric)
    assert row["unit"] == METRICS[metric].unit


@pytest.mark.parametrize("metric", BY_CLOSED_FORMS)
def test_a_refused_scenario_has_no_latency_to_judge_but_a_size_and_a_pressure(metric: str) -> None:
    matrix = board({"scenario": "aggregated/n1", **refused_by("mixed", 1.2)})
    row = judged(matrix, gates({"metric": metric, "limit": 5.0})).row(0, named=True)
    if metric in ("pressure", "headroom", "gpus", "operating_parts"):
        assert row["verdict"] == "pass"
        assert row["figure"] is not None
    else:
        assert (row["verdict"], row["figure"], row["margin"]) == ("refused", None, None)


def test_a_latency_that_a_refused_row_should_not_have_is_not_judged() -> None:
    matrix = board({"scenario": "aggregated/n1", **refused_by("mixed", 1.2), "ttft_worst_s": 0.1})
    assert verdicts_on(matrix, {}) == [("aggregated/n1", "g0", "refused")]


def test_an_absent_figure_of_an_evaluated_scenario_is_refused() -> None:
    """Where no request has two tokens there is no TPOT, and no gate on it passes by silence."""
    matrix = board({"scenario": "aggregated/n1", "tpot_worst_s": None, "pressure": 0.5})
    assert verdicts_on(matrix, {"metric": "tpot_worst"}) == [("aggregated/n1", "g0", "refused")]


def test_a_gate_is_judged_on_the_row_of_its_bound() -> None:
    matrix = board({"scenario": "aggregated/n1", "ttft_worst_s": 0.1, "worse": {"ttft_worst_s": 0.3}})
    nominal, conservative = {"bound": "nominal"}, {"bound": "conservative"}
    assert [row[2] for row in verdicts_on(matrix, nominal, conservative)] == ["pass", "fail"]


def test_a_scenario_may_be_refused_under_one_bound_only() -> None:
    matrix = board(
        {"scenario": "aggregated/n1", "ttft_worst_s": 0.1, "worse": {"ttft_worst_s": None} | refused_by("mixed", 1)}
    )
    assert [row[2] for row in verdicts_on(matrix, {}, {"bound": "conservative"})] == ["pass", "refused"]


def test_a_gate_concerns_the_topologies_that_it_names() -> None:
    names = ["aggregated/n1", "chunked/n1/c512", "disaggregated/p1/d1"]
    matrix = board(*({"scenario": name, "ttft_worst_s": 0.1} for name in names))
    judged = verdicts_on(matrix, {"topologies": "chunked disaggregated"}, {"topologies": "aggregated"})
    assert [row[:2] for row in judged] == [(names[0], "g1"), (names[1], "g0"), (names[2], "g0")]


def test_verdicts_are_in_the_order_of_scenarios_and_then_of_gates() -> None:
    matrix = board(*({"scenario": f"aggregated/n{n}", "ttft_worst_s": 0.1} for n in (1, 2)))
    judged = verdicts_on(matrix, {"gate": "z"}, {"gate": "a", "bound": "conservative"})
    assert [row[:2] for row in judged] == [
        ("aggregated/n1", "z"),
        ("aggregated/n1", "a"),
        ("aggregated/n2", "z"),
        ("aggregated/n2", "a"),
    ]


@pytest.mark.parametrize(
    ("objective", "metric", "limit"),
    [
        ("ttft", "ttft_worst", 0.2),
        ("tpot", "tpot_worst", 0.02),
        ("stall", "stall", 0.5),
        ("attainment", "goodput", 0.9),
    ],
)
def test_an_objective_of_the_cohort_is_the_limit(objective: str, metric: str, limit: float) -> None:
    matrix = board({"scenario": "aggregated/n1"})
    assert judged(matrix, gates({"metric": metric, "objective": objective}))["limit"].to_list() == [limit]


def test_a_gate_whose_objective_is_not_declared_does_not_apply() -> None:
    inputs = InputTable.of(inputs_frame_of(stall=None))
    matrix = board({"scenario": "aggregated/n1", "ttft_worst_s": 0.1, "stall_s": 9.0})
    frame = judged(matrix, gates({}, {"metric": "stall", "objective": "stall"}), inputs)
    assert frame["gate"].to_list() == ["g0"]


@pytest.mark.parametrize(
    ("op", "figure", "margin"),
    [
        ("lte", 0.15, 0.25),
        ("lt", 0.25, -0.25),
        ("gte", 0.15, -0.25),
        ("gt", 0.25, 0.25),
        ("lte", 0.2, 0.0),
    ],
)
def test_the_margin_is_the_distance_to_the_limit_as_a_share_of_it(op: str, figure: float, margin: float) -> None:
    matrix = board({"scenario": "aggregated/n1", "ttft_worst_s": figure})
    frame = judged(matrix, gates({"op": op}))
    assert frame["margin"].to_list() == [pytest.approx(margin, abs=1e-10)]


def test_no_distance_is_a_share_of_a_limit_of_zero() -> None:
    matrix = board({"scenario": "aggregated/n1", "pressure": 1.0})
    frame = judged(matrix, gates({"metric": "headroom", "op": "gt", "limit": 0.0}))
    assert (frame["margin"].to_list(), frame["verdict"].to_list()) == ([None], ["fail"])


def test_margins_are_rounded_and_limits_are_not() -> None:
    matrix = board({"scenario": "aggregated/n1", "ttft_worst_s": 0.2})
    row = judged(matrix, gates({"limit": 0.3333333333333333})).row(0, named=True)
    assert row["limit"] == 0.3333333333333333
    assert row["margin"] == 0.4


def test_severity_and_blocking_do_not_change_a_verdict() -> None:
    matrix = board({"scenario": "aggregated/n1", "ttft_worst_s": 0.3})
    kinds = [("error", True), ("error", False), ("warn", False)]
    frame = judged(matrix, gates(*({"severity": one, "blocking": two} for one, two in kinds)))
    assert frame["verdict"].to_list() == ["fail"] * 3
    assert frame.select("severity", "blocking").rows() == kinds


class TestObjectivesOfBuckets:
    """A gate whose limit is the objective of its own figure holds the judged bucket against that bucket's objective."""

    ROW: ClassVar[dict[str, Any]] = {
        "scenario": "aggregated/n1",
        "ttft_worst_s": 0.19,
        "ttft_judged_s": 0.1,
        "ttft_objective_s": 0.08,
    }
    TTFT: ClassVar[dict[str, Any]] = {"objective": "ttft"}

    def judged(self, *rules: dict[str, Any], **changes: Any) -> list[tuple[float, float, float, str]]:
        frame = judged(board(self.ROW | changes), gates(*rules))
        return frame.select("figure", "limit", "margin", "verdict").rows()

    def test_the_judged_bucket_decides_and_not_the_worst(self) -> None:
        """The longest bucket keeps the 200 ms of all, a shorter one misses the 80 ms of its own."""
        assert self.judged(self.TTFT) == [(0.1, 0.08, -0.25, "fail")]
        assert self.judged(self.TTFT, ttft_objective_s=0.125) == [(0.1, 0.125, 0.2, "pass")]

    @pytest.mark.parametrize(
        "rule",
        [
            {"limit": 0.2},
            {"objective": "ttft_growth"},
            {"objective": "tpot"},
        ],
    )
    def test_any_other_limit_is_held_against_the_worst(self, rule: dict[str, Any]) -> None:
        ((figure, limit, _, _),) = self.judged(rule)
        expected = {"ttft_growth": 0.1, "tpot": 0.02}.get(str(rule.get("objective")), 0.2)
        assert (figure, limit) == (0.19, expected)

    def test_the_objective_of_another_figure_judges_its_own_figure_only(self) -> None:
        """The stall has no buckets, although its limit may be the objective of one that has."""
        ((figure, limit, _, _),) = self.judged({"metric": "stall", "objective": "ttft"}, stall_s=0.19)
        assert (figure, limit) == (0.19, 0.2)

    @pytest.mark.parametrize("name", ["ttft", "tpot", "e2e"])
    def test_each_latency_by_its_own_objective(self, name: str) -> None:
        inputs = InputTable.of(inputs_frame_of(e2e=9.0))
        row = {"scenario": "aggregated/n1", f"{name}_worst_s": 5.0, f"{name}_judged_s": 1.0, f"{name}_objective_s": 4.0}
        frame = judged(board(row), gates({"metric": f"{name}_worst", "objective": name}), inputs)
        assert frame.select("figure", "limit", "margin").rows() == [(1.0, 4.0, 0.75)]

    def test_each_bound_has_its_own_judged_bucket(self) -> None:
        """The other bucket is nearer its objective under the other bound."""
        worse = {"ttft_judged_s": 0.3, "ttft_objective_s": 0.4}
        rules = (self.TTFT, self.TTFT | {"bound": "conservative"})
        found = self.judged(*rules, ttft_objective_s=0.2, worse=worse)
        assert found == [(0.1, 0.2, 0.5, "pass"), (0.3, 0.4, 0.25, "pass")]

    def test_a_refused_scenario_shows_the_common_objective(self) -> None:
        full = {"scenario": "aggregated/n1", **refused_by("mixed", 1.2)}
        frame = judged(board(full), gates(self.TTFT))
        assert frame.select("figure", "limit", "margin", "verdict").rows() == [(None, 0.2, None, "refused")]


def test_the_bucket_nearest_its_objective_is_judged() -> None:
    """Longer prompts wait longer, and have four times the time of the shorter ones."""
    inputs = inputs_frame_of(compared="aggregated", ttft=0.9, ttft_1000=0.1, ttft_4000=0.4)
    matrix = matrix_of(inputs, in_pairs(*[(500, 2), (1500, 2)] * 4, (500, 2)), edges=(1000, 4000))
    own = matrix.filter((pl.col("scenario") == "aggregated/n4") & (pl.col("bound") == "nominal")).row(0, named=True)
    assert (own["ttft_worst_bucket"], own["ttft_judged_bucket"]) == ("[1000,4000)", "[1,1000)")
    assert own["ttft_judged_s"] / 0.1 > own["ttft_worst_s"] / 0.4
    verdicts = judged(matrix, gates({"objective": "ttft"}), InputTable.of(inputs))
    row = verdicts.filter(scenario="aggregated/n4").row(0, named=True)
    assert (row["figure"], row["limit"]) == (own["ttft_judged_s"], 0.1)


class TestEndToEnd:
    """A gate on E2E applies where the cohort promises one."""

    RULE: ClassVar[dict[str, Any]] = {"metric": "e2e_worst", "objective": "e2e"}

    def test_it_does_not_apply_where_none_is_declared(self) -> None:
        matrix = board({"scenario": "aggregated/n1", "ttft_worst_s": 0.1, "e2e_worst_s": 9.0})
        assert verdicts_on(matrix, {}, self.RULE) == [("aggregated/n1", "g0", "pass")]

    def test_it_judges_where_one_is(self) -> None:
        inputs = InputTable.of(inputs_frame_of(e2e=4.0))
        rows = [{"scenario": f"aggregated/n{n}", "e2e_worst_s": float(n)} for n in (3, 4, 5)]
        frame = judged(board(*rows), gates(self.RULE), inputs)
        assert frame.select("verdict", "margin").rows() == [("pass", 0.25), ("pass", 0.0), ("fail", -0.25)]


def test_a_gate_on_what_moves_has_no_figure_where_nothing_does() -> None:
    names = ["aggregated/n1", "routed/t512/n1/p1/d1"]
    matrix = board(
        *({"scenario": name} for name in names), {"scenario": "disaggregated/p1/d1", "transfer_worst_s": 0.1}
    )
    found = verdicts_on(matrix, {"metric": "transfer_worst", "topologies": "aggregated disaggregated"})
    assert [row[2] for row in found] == ["refused", "pass"]
