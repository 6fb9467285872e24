"""Which scenarios the requests are replayed through, and that what is planned by the closed forms does not ask for a replay."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from pipelines.cli import planning
from pipelines.frames import replay_scope
from pipelines.frames.inputs import InputTable
from pipelines.frames.replays import Replays, ReplaySample
from pipelines.planning.margins import blocking_on, examines
from pipelines.planning.replaying import ReplayAsked, StaleReplaysError, check_replays, replayed
from pipelines.planning.speaking import changes
from pipelines.replay import plan
from tests.gates.boards import gates, preference
from tests.planning.drawn import asked_of, decided
from tests.plans import in_pairs, inputs_frame_of, matrix_of, workload_of

REQUESTS = in_pairs(*[(1000, 41)] * 4, (3000, 81))
USUAL: dict[str, Any] = {"metric": "ttft_worst", "objective": "ttft"}
ON_REPLAY: dict[str, Any] = {"metric": "replayed_goodput", "op": "gte", "objective": "attainment"}


def asked(*rules: dict[str, Any], which: str = "finalists", **fixed: Any) -> ReplayAsked:
    """A cohort of two GPUs, with the scenarios that it has."""
    inputs = inputs_frame_of(**{"compared": "aggregated chunked disaggregated", "gpus": 2, "ttft": 5.0} | fixed)
    table = InputTable.of(inputs)
    workload = workload_of(REQUESTS, (), table)
    rules_frame, prefer = gates(*(rules or (USUAL,))), preference("operating_parts", "gpus", "margin")
    return ReplayAsked(table, workload, REQUESTS, matrix_of(inputs, REQUESTS), rules_frame, prefer, which)


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> list[pl.DataFrame]:
    """The rows that a replay was asked for; nothing is replayed here."""
    calls: list[pl.DataFrame] = []
    schema = {name: column.dtype.type for name, column in Replays.to_schema().columns.items()}

    def stand_in(*given: Any) -> pl.DataFrame:
        calls.append(given[-1])
        made = [
            {"scenario": row["scenario"], "bound": row["bound"], "part": "whole", "ticks_per_second": 10**12}
            for row in given[-1].iter_rows(named=True)
        ]
        return Replays.validate(pl.DataFrame(made, schema=schema, orient="row"))

    def sample(requests: pl.DataFrame) -> pl.DataFrame:
        own = requests.select(pl.all().cast(pl.Int64)).with_row_index("request")
        return ReplaySample.validate(own.with_columns(pl.col("request").cast(pl.Int64)))

    monkeypatch.setattr(plan, "replayed", stand_in)
    monkeypatch.setattr(plan, "sample_of", sample)
    return calls


def names(rows: list[pl.DataFrame]) -> list[str]:
    (frame,) = rows
    return frame.filter(bound="nominal")["scenario"].to_list()


def test_the_scenarios_that_speak_by_the_closed_forms_are_replayed(rows: list[pl.DataFrame]) -> None:
    of = asked()
    found = replayed(of)
    assert names(rows) == of.finalists()["scenario"].to_list()
    assert {name.partition("/")[0] for name in names(rows)} == {"aggregated", "chunked", "disaggregated"}
    assert found.scope.rows() == [("finalists", None)]
    assert found.sample.height == REQUESTS.height


def test_rows_are_those_of_the_matrix_nominal_before_conservative(rows: list[pl.DataFrame]) -> None:
    of = asked(which="all")
    replayed(of)
    assert rows[0].select("scenario", "bound").equals(of.matrix.select("scenario", "bound"))
    assert rows[0].columns == [
        "scenario",
        "topology",
        "threshold_tokens",
        "workers_mixed",
        "workers_prefill",
        "workers_decode",
        "chunk_tokens",
        "bound",
        "status",
    ]


@pytest.mark.parametrize(
    ("rule", "which"),
    [
        (ON_REPLAY, "all"),
        (ON_REPLAY | {"blocking": False, "severity": "warn"}, "all"),
        (ON_REPLAY | {"topologies": "chunked"}, "all"),
        (ON_REPLAY | {"here": False, "cohorts": "another"}, "finalists"),
        (ON_REPLAY | {"metric": "replayed_stall", "op": "lte", "objective": "e2e"}, "finalists"),
    ],
)
def test_a_gate_on_a_replayed_figure_that_applies_has_all_of_them_replayed(
    rule: dict[str, Any], which: str, rows: list[pl.DataFrame]
) -> None:
    of = asked(USUAL, rule)
    assert replayed(of).scope["which"].to_list() == [which]
    assert len(names(rows)) == (of.matrix.height // 2 if which == "all" else 3)


def test_finalists_are_not_chosen_by_gates_on_replayed_figures() -> None:
    with_it, without = asked(USUAL, ON_REPLAY), asked(USUAL)
    assert with_it.finalists().equals(without.finalists())


@pytest.mark.parametrize("which", ["finalists", "all"])
def test_a_closed_loop_has_nothing_to_replay(which: str, rows: list[pl.DataFrame]) -> None:
    found = replayed(asked(which=which, concurrency=4.0, ca2=1.0))
    assert found.scope.rows() == [(which, "closed_loop")]
    assert (found.replays.height, found.sample.height, rows) == (0, 0, [])


def test_the_command_offers_what_there_is() -> None:
    assert (planning.FINALISTS, planning.ALL) == replay_scope.SCOPES


class TestStoredReplays:
    def check(self, of: ReplayAsked, made_of: ReplayAsked) -> None:
        made = replayed(made_of)
        check_replays(of.matrix, of.gates, of.inputs, made.scope, made.replays)

    def test_those_of_all_scenarios_can_be_judged(self) -> None:
        self.check(asked(USUAL, ON_REPLAY), asked(which="all"))

    def test_those_of_finalists_can_be_judged_where_no_gate_reads_them(self) -> None:
        self.check(asked(), asked())

    def test_those_of_finalists_cannot_be_judged_where_one_does(self) -> None:
        with pytest.raises(StaleReplaysError, match="run the whole plan"):
            self.check(asked(USUAL, ON_REPLAY), asked())

    def test_those_of_fewer_scenarios_cannot_be_judged(self) -> None:
        of = asked(USUAL, ON_REPLAY, gpus=3)
        with pytest.raises(StaleReplaysError):
            self.check(of, asked(USUAL, ON_REPLAY))

    def test_a_closed_loop_is_judged_without_any(self) -> None:
        looped = asked(USUAL, ON_REPLAY, concurrency=4.0, ca2=1.0)
        self.check(looped, looped)


class TestLeftOut:
    """Planning by the closed forms alone: search, sensitivities, break-evens, one worker less."""

    def test_such_a_gate_neither_blocks_nor_examines(self) -> None:
        rules = [row | {"applies": True} for row in gates(ON_REPLAY, USUAL).iter_rows(named=True)]
        assert [gate["metric"] for gate in blocking_on(rules, "aggregated")] == ["ttft_worst"]
        assert not examines(rules[:1], "aggregated")
        assert examines(rules, "aggregated")

    def test_what_would_change_a_decision_is_the_same_with_it(self) -> None:
        made = decided(asked_of(3, USUAL, {"metric": "tpot_worst", "objective": "tpot"}))
        beside = pl.concat([made.gates, gates(ON_REPLAY).with_columns(gate=pl.lit("replayed"))])
        before, after = changes(made), changes(replace(made, gates=beside))
        for name in ("speaking", "sensitivity", "break_even", "workers_less"):
            assert getattr(after, name).equals(getattr(before, name)), name

    def test_who_misses_by_it_alone_has_no_fix(self) -> None:
        """It passes by the closed forms, so neither an input nor more GPUs are named that would mend it."""
        made = decided(asked_of(7, USUAL, ttft=5.0, rate=0.4, gpus=4))
        assert "chosen" in made.decision["standing"].to_list()
        missing = made.decision.with_columns(standing=pl.lit("nearest_miss"))
        found = changes(replace(made, decision=missing)).speaking
        chosen = found.filter(pl.col("topology").is_in(made.decision.filter(standing="chosen")["topology"].to_list()))
        assert chosen.select("fix_path", "more_gpus").row(0) == (None, None)
