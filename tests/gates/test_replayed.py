"""Gates on figures of the replay: judged on the figures beside the matrix, and left out where nothing is replayed."""

from typing import Any

import polars as pl
import pytest
from polars.exceptions import ColumnNotFoundError

from pipelines.frames.metrics import METRICS, REPLAYED
from pipelines.frames.replays import SAMPLE, WHOLE, Replays
from pipelines.gates.replayed import beside_replays, by_closed_forms, on_replays
from tests.gates.boards import INPUTS, board, gates, judged, refused_by

SCENARIO = "aggregated/n1"
FIGURES = {
    "replayed_goodput": 0.1,
    "replayed_goodput_tokens": 0.2,
    "replayed_stall_s": 3.0,
    "replayed_time_above_ceiling_s": 60.0,
    "replayed_peak_queue": 5.0,
    "replayed_peak_kv": 0.6,
    "replayed_preemptions": 7.0,
}


def replays(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows of the replays that say so little: of the whole trace through one scenario, nominal, unless they say otherwise."""
    usual = {"scenario": SCENARIO, "bound": "nominal", "part": WHOLE, "ticks_per_second": 10**12}
    schema = {name: column.dtype.type for name, column in Replays.to_schema().columns.items()}
    return Replays.validate(pl.DataFrame([usual | row for row in rows], schema=schema, orient="row"))


def verdicts(found: pl.DataFrame, *scenarios: dict[str, Any], **gate: Any) -> list[tuple[Any, ...]]:
    rows = scenarios or ({"scenario": SCENARIO},)
    rules = gates({"metric": "replayed_goodput", "op": "gte", "limit": 0.1} | gate)
    return judged(beside_replays(board(*rows), found), rules).select("scenario", "verdict", "figure").rows()


def test_every_replayed_metric_is_tried_here() -> None:
    assert [METRICS[name].column for name in REPLAYED] == list(FIGURES)


@pytest.mark.parametrize("metric", REPLAYED)
def test_each_metric_reads_its_own_figure(metric: str) -> None:
    column = METRICS[metric].column
    found = verdicts(replays(FIGURES), metric=metric, op="lte", limit=FIGURES[column])
    assert found == [(SCENARIO, "pass", FIGURES[column])]


def test_a_gate_reads_the_replay_under_its_bound() -> None:
    both = replays({"replayed_goodput": 0.9}, {"bound": "conservative", "replayed_goodput": 0.05})
    assert verdicts(both) == [(SCENARIO, "pass", 0.9)]
    assert verdicts(both, bound="conservative") == [(SCENARIO, "fail", 0.05)]


def test_the_sample_of_the_verifier_is_not_judged() -> None:
    assert verdicts(replays({"part": SAMPLE, "replayed_goodput": 1.0})) == [(SCENARIO, "refused", None)]


@pytest.mark.parametrize("rows", [[], [{"reason": "kv_memory"}], [{"replayed_peak_queue": 3.0}]])
def test_where_there_is_no_figure_the_verdict_is_refused(rows: list[dict[str, Any]]) -> None:
    assert verdicts(replays(*rows)) == [(SCENARIO, "refused", None)]


def test_a_refused_scenario_has_no_replayed_figure() -> None:
    refused = {"scenario": SCENARIO, **refused_by("mixed", 1.2)}
    assert verdicts(replays({"replayed_goodput": 1.0}), refused) == [(SCENARIO, "refused", None)]


def test_figures_stand_beside_their_own_scenarios_in_matrix_order() -> None:
    names = ["aggregated/n1", "chunked/n1/c512", "disaggregated/p1/d1"]
    backwards = [{"scenario": name, "replayed_goodput": place / 10} for place, name in enumerate(names)][::-1]
    found = verdicts(replays(*backwards), *({"scenario": name} for name in names))
    assert found == [(names[0], "fail", 0.0), (names[1], "pass", 0.1), (names[2], "pass", 0.2)]


def test_a_limit_may_be_an_objective_or_a_multiple_of_a_figure_of_the_closed_forms() -> None:
    row = {"scenario": SCENARIO, "goodput": 0.8}
    found = replays({"replayed_goodput": 0.5})
    assert verdicts(found, row, limit=None, objective="attainment") == [(SCENARIO, "fail", 0.5)]  # 0.9
    assert verdicts(found, row, limit=None, limit_metric="goodput", limit_times=0.6) == [(SCENARIO, "pass", 0.5)]


def test_nothing_is_judged_silently_where_no_replay_is_beside_the_matrix() -> None:
    with pytest.raises(ColumnNotFoundError):
        judged(board({"scenario": SCENARIO}), gates({"metric": "replayed_stall"}))


def test_the_gates_that_ask_for_a_replay_are_those_that_apply() -> None:
    rules = gates(
        {"metric": "stall"},
        {"metric": "replayed_stall", "blocking": False, "severity": "warn"},
        {"metric": "replayed_goodput", "here": False, "cohorts": "another"},
        {"metric": "replayed_stall", "objective": "e2e"},
        {"metric": "replayed_preemptions", "limit": 0.0},
    )
    assert on_replays(rules, INPUTS) == ["g1", "g4"]
    assert by_closed_forms(rules)["gate"].to_list() == ["g0"]


def test_without_any_gate_there_are_no_verdicts() -> None:
    rules = by_closed_forms(gates({"metric": "replayed_stall"}))
    assert judged(board({"scenario": SCENARIO}), rules).is_empty()
