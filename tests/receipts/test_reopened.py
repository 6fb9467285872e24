"""A receipt's JSON gives back the frames that it was written from."""

from datetime import date
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines.declarations import load_declarations
from pipelines.frames.inputs import InputTable, inputs_json
from pipelines.gates.rules import exceptions_frame, gates_frame, preference_frame, resolved, rule_set_frame
from pipelines.receipts.reopened import inputs_of, reopened, rules_of
from pipelines.receipts.rules import RuleFrames, rules_section
from pipelines.traces.freeze import inputs_frame
from tests.cli.gates_calls import make_project
from tests.receipts.conftest import Built


def test_inputs_requests_and_rules_are_those_of_the_plan(good: Built) -> None:
    found, plan = reopened(good.receipt), good.plan
    assert_frame_equal(found.inputs, plan.inputs)
    for name in ("buckets", "strata", "outputs"):
        assert_frame_equal(getattr(found.workload, name), getattr(plan, name))
    for name in ("gates", "exceptions", "rule_set", "preference"):
        assert_frame_equal(getattr(found.rules, name), getattr(plan.rules, name))
    assert found.cohort == "moderate-chat"
    assert found.frozen == {"provenance": "supplied", "source": None, "bucket_edges_tokens": [512, 2048]}


@pytest.mark.parametrize("name", ["bursty-documents", "overloaded"])
def test_rules_of_every_kind(name: str, tmp_path: Path) -> None:
    """Limits that are metrics, shares within an objective, gates for another cohort, on the decision, waived, expired, overridden."""
    project = make_project(tmp_path)
    cohort, rules = load_declarations(project / "cohorts" / name, project / "rules")
    day = date(2026, 11, 30)
    frames = RuleFrames(
        gates_frame(rules, name, day),
        exceptions_frame(rules, name, day),
        rule_set_frame(rules, day),
        preference_frame(rules),
    )
    table = InputTable.of(inputs_frame(cohort))
    receipt = {"cohort": {"name": name}, "as_of": day.isoformat(), "rules": rules_section(frames, table)}
    found = rules_of(receipt)
    assert_frame_equal(found.gates, frames.gates.with_columns(instead_of=pl.lit(None, pl.String)))
    for frame in ("exceptions", "rule_set", "preference"):
        assert_frame_equal(getattr(found, frame), getattr(frames, frame))
    assert rules_section(found, table) == receipt["rules"]


def test_a_limit_that_is_an_objective_follows_the_objective(good: Built) -> None:
    """The receipt states 400 ms; of a cohort that promises 500 ms, the gate asks for 500."""
    rows = [
        row | {"value": 0.5, "conservative": 0.5} if row["path"] == "objectives.stall" else row
        for row in good.receipt["inputs"]
    ]
    gates = resolved(rules_of(good.receipt).gates, InputTable.of(inputs_of(rows)))
    stated = next(row for row in good.receipt["rules"]["gates"] if row["id"] == "stall")
    assert (stated["limit"], gates.filter(gate="stall")["limit"].item()) == (0.4, 0.5)


def test_the_inputs_are_written_as_they_were_read(good: Built) -> None:
    assert inputs_json(inputs_of(good.receipt["inputs"])) == good.receipt["inputs"]
