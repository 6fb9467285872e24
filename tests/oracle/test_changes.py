"""What would change the decision, and what was searched, are recomputed or tried (docs/arithmetic.md sections 9 and 10)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle import Verification
from pipelines.oracle.changing import Bench
from pipelines.oracle.enumerating import matrix_order
from pipelines.oracle.recomputing import plan_of
from pipelines.oracle.rendering import render_text
from pipelines.oracle.scenario import Knobs
from pipelines.oracle.searching import demanded
from tests.oracle import forging as forge
from tests.oracle.forging import Receipt
from tests.oracle.handmade import digits12, receipt_of
from tests.oracle.rejection import rejected_at


def receipt_with(kind: str, stack: str, changes: dict[str, Any]) -> Receipt:
    """A receipt whose inputs have other values."""
    receipt = receipt_of(kind, stack=stack)
    for path, value in changes.items():
        forge.input_row(receipt, path).update(value=value, conservative=value, low=None, high=None)
        for gate in receipt["rules"]["gates"]:
            gate["limit"] = value if gate["limit_source"] == path else gate["limit"]
        if path == "requests.rate":
            requests = receipt["workload"]["requests"]
            for bucket in receipt["workload"]["buckets"]:
                bucket["rate_rps"] = digits12(Fraction(value) * bucket["requests"] / requests)
    receipt["scenarios"] = forge.rows_of(receipt)
    forge.recompute(receipt)
    forge.name_anew(receipt)
    return receipt


@pytest.fixture(scope="module")
def chosen() -> Receipt:
    """Two chosen workers, near enough to several limits."""
    return receipt_with("rate", "routed", {"requests.rate": 4.0, "objectives.ttft": 1.5})


@pytest.fixture(scope="module")
def missed() -> Receipt:
    """Whole prompts stall decode, and transfers take too much: two nearest misses."""
    return receipt_with("rate", "plain", {"objectives.stall": 1.4, "objectives.ttft_growth": 0.02})


def verified(receipt: Receipt, directory: Path) -> Verification:
    return forge.verified(directory, receipt)


def test_they_are_as_they_should_be(chosen: Receipt, missed: Receipt, tmp_path: Path) -> None:
    for receipt in (chosen, missed):
        verification = verified(copy.deepcopy(receipt), tmp_path)
        assert verification.passed, render_text(verification)
    assert chosen["decision"]["scenario"] is not None
    assert missed["decision"]["topology"] == "chunked"
    assert [row["fix"] is not None for row in missed["changes"]["speaking"]].count(True) >= 1


def speaking(receipt: Receipt) -> Receipt:
    return next(row for row in receipt["changes"]["speaking"] if row["break_even"])


def shift(row: Receipt, name: str, by: float) -> None:
    row[name] = forge.digits(row[name] + by)


FORGED: dict[str, tuple[Callable[[Receipt], None], str]] = {
    "a margin": (lambda r: shift(speaking(r), "margin", 1e-7), r"\]\.margin$"),
    "a margin of a changed input": (
        lambda r: shift(speaking(r)["sensitivity"][3], "margin_up", 1e-7), r"sensitivity\[.*\]\.margin_up$"),
    "a verdict of a changed input": (
        lambda r: speaking(r)["sensitivity"][3].update(passes_down=not speaking(r)["sensitivity"][3]["passes_down"]),
        r"\.passes_down$"),
    "an input left out": (lambda r: speaking(r)["sensitivity"].pop(2), r"\.sensitivity$"),
    "another most sensitive input": (
        lambda r: speaking(r).update(most_sensitive="service.admission"), r"\.most_sensitive$"),
    "a factor": (
        lambda r: speaking(r)["break_even"][0].update(factor=forge.digits(speaking(r)["break_even"][0]["factor"] * 1.001)),
        r"break_even\[.*\]\.factor$"),
    "a value": (
        lambda r: speaking(r)["break_even"][0].update(value=forge.digits(speaking(r)["break_even"][0]["value"] * 1.001)),
        r"break_even\[.*\]\.value$"),
    "an event": (
        lambda r: speaking(r)["break_even"][0].update(
            event={"fails": "passes", "passes": "fails"}[speaking(r)["break_even"][0]["event"]]),
        r"break_even\[.*\]\.event$"),
    "a worker less that passes": (
        lambda r: speaking(r)["one_worker_less"][0].update(passes=not speaking(r)["one_worker_less"][0]["passes"]),
        r"one_worker_less\[.*\]\.passes$"),
    "a load of a worker less": (
        lambda r: r["changes"]["speaking"][-1]["one_worker_less"][-1].update(load_factor=1.25), r"\.load_factor$"),
    "more GPUs that do not help": (
        lambda r: speaking(r).update(more_gpus={"gpus": 5, "scenario": f"{speaking(r)['topology']}/n5"}),
        r"more_gpus"),
    "nothing to measure": (
        lambda r: r["changes"].update(measure_next=["model.layout_factor"]), r"^changes\.measure_next"),
    "a topology that does not speak": (lambda r: r["changes"]["speaking"].pop(), r"^changes\.speaking$"),
    "fewer scenarios": (lambda r: r["search"].update(scenarios=1), r"^search\.scenarios$"),
    "fewer kept": (lambda r: r["search"].update(kept=1), r"^search\.kept$"),
    "not complete": (lambda r: r["search"].update(complete=False), r"^search\.complete$"),
    "another baseline": (
        lambda r: r["search"]["baselines"][0].update(aggregated="aggregated/n1"), r"^search\.baselines\["),
    "a frontier without its first": (lambda r: r["search"]["frontier"].pop(0), r"^search\.frontier"),
    "a frontier's figure": (
        lambda r: shift(r["search"]["frontier"][0], "value_s", 1e-6), r"^search\.frontier\[.*\]\.value_s$"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORGED)
def test_what_is_forged_is_noticed(form: str, chosen: Receipt, tmp_path: Path) -> None:
    mutation, pattern = FORGED[form]
    receipt = copy.deepcopy(chosen)
    mutation(receipt)
    rejected_at(verified(receipt, tmp_path), pattern)


def test_a_fix_that_is_not_the_nearest(missed: Receipt, tmp_path: Path) -> None:
    receipt = copy.deepcopy(missed)
    row = next(row for row in receipt["changes"]["speaking"] if row["fix"])
    row["fix"] = None
    rejected_at(verified(receipt, tmp_path), r"\.fix$")


def test_a_break_even_left_out(missed: Receipt, tmp_path: Path) -> None:
    """A longer stall would do: the margin at 1.1 and at the first step of the search says so."""
    receipt = copy.deepcopy(missed)
    row = next(row for row in receipt["changes"]["speaking"] if row["fix"])
    row["break_even"], row["fix"] = [], None
    rejected_at(verified(receipt, tmp_path), r"break_even\[objectives\.stall\]$")


def test_one_input_multiplied(chosen: Receipt) -> None:
    """Scaling an input is evaluating another inputs table."""
    plan = plan_of(chosen, forge.usable_inputs(chosen))
    knobs = Knobs("aggregated", 2)
    standing = Bench(plan).standing(knobs, "service.prefill.tokens_per_second", 0.9)
    other = copy.deepcopy(chosen)
    row = forge.input_row(other, "service.prefill.tokens_per_second")
    row.update({name: row[name] * 0.9 for name in ("value", "low", "conservative")})
    again = Bench(plan_of(other, forge.usable_inputs(other))).standing(knobs)
    assert (standing.passes, standing.margin) == (again.passes, pytest.approx(again.margin, rel=1e-12))
    assert standing.margin != Bench(plan).standing(knobs).margin


def test_what_must_stay_below_one(chosen: Receipt) -> None:
    bench = Bench(plan_of(chosen, forge.usable_inputs(chosen)))
    assert bench.changeable("objectives.attainment", 1.1)
    assert not bench.changeable("objectives.attainment", 1.12)
    assert not bench.changeable("service.decode.utilization_ceiling", 1.2)
    assert bench.changeable("service.mixed_step_penalty", 16.0)
    assert not bench.changeable("model.layout_factor", 0.9)
    assert bench.changeable("objectives.attainment", 1 / 16)


def test_counts_and_words_are_not_changed(chosen: Receipt) -> None:
    bench = Bench(plan_of(chosen, forge.usable_inputs(chosen)))
    paths = bench.changed_inputs("routed")
    assert paths[0] == "requests.rate"
    assert "service.decode.max_sequences" in paths
    assert "service.mixed_step_penalty" in paths
    assert "service.mixed_step_penalty" not in bench.changed_inputs("aggregated")
    assert "objectives.buckets.512.ttft" in bench.changed_inputs("aggregated")
    assert not {
        "inventory.gpus",
        "network.links",
        "service.dispatch",
        "network.overlap",
        "inventory.gpu_hour_price",
    } & {*paths}


def test_the_rate_of_a_changed_loop_is_solved() -> None:
    receipt = receipt_of("closed")
    plan = plan_of(receipt, forge.usable_inputs(receipt))
    bench, knobs = Bench(plan), Knobs("aggregated", 2)
    same = bench.standing(knobs, "service.admission", 1.0)
    base = bench.standing(knobs)
    assert base.margin is not None
    assert same.margin is not None
    assert math.isclose(same.margin, base.margin, rel_tol=1e-8)


@pytest.fixture(scope="module")
def many() -> Receipt:
    """More than a thousand scenarios, of which those are kept that section 10 names."""
    receipt = receipt_with("rate", "plain", {"requests.rate": 12.0})
    forge.input_row(receipt, "inventory.gpus").update(value=48, conservative=48)
    all_rows = forge.rows_of(receipt)
    receipt["scenarios"] = all_rows
    forge.recompute(receipt)
    kept = {row["scenario"] for row in receipt["search"]["frontier"]}
    plan = plan_of(receipt, forge.usable_inputs(receipt))
    speaking_knobs = [plan.inventory.parse(row["scenario"]) for row in receipt["changes"]["speaking"]]
    kept |= {knobs.name for knobs in demanded(plan, [k for k in speaking_knobs if k])}
    receipt["scenarios"] = [row for row in all_rows if row["scenario"] in kept]
    forge.rejudge(receipt, changes_too=True)
    forge.name_anew(receipt)
    return receipt


def test_a_receipt_that_holds_some_of_many(many: Receipt, tmp_path: Path) -> None:
    assert many["search"]["scenarios"] == 48 + 48 + 48 * 47 // 2
    assert not many["search"]["complete"]
    verification = verified(copy.deepcopy(many), tmp_path)
    assert verification.passed, render_text(verification)


def test_a_row_that_was_not_kept(many: Receipt, tmp_path: Path) -> None:
    plan = plan_of(many, forge.usable_inputs(many))
    separated = next(row["scenario"] for row in many["changes"]["speaking"] if row["topology"] == "disaggregated")
    knobs = plan.inventory.parse(separated)
    assert knobs is not None
    for other in (*plan.inventory.neighbours(knobs), Knobs("disaggregated", None, 1, 1)):
        receipt = copy.deepcopy(many)
        receipt["scenarios"] = [row for row in receipt["scenarios"] if row["scenario"] != other.name]
        receipt["search"]["kept"] = len(receipt["scenarios"])
        rejected_at(verified(receipt, tmp_path), rf"^scenarios\[{other.name}\]$")


def test_kept_rows_stand_in_order(many: Receipt, tmp_path: Path) -> None:
    receipt = copy.deepcopy(many)
    rows = receipt["scenarios"]
    rows[0], rows[1] = rows[1], rows[0]
    rejected_at(verified(receipt, tmp_path), r"^scenarios\[0\]\.scenario$")
    assert matrix_order(Knobs("aggregated", 2)) < matrix_order(Knobs("chunked", 1, chunk_tokens=512))
