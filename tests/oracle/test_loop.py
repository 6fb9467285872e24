"""A closed loop's rate is the largest that its requests sustain, and nothing near it."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle.cache import Cache
from pipelines.oracle.findings import Ledger, round_significant
from pipelines.oracle.loop import check_solved_rate, in_system, solved_rps
from pipelines.oracle.names import BOUNDS
from pipelines.oracle.scenario import Knobs
from pipelines.oracle.topologies import Evaluator
from pipelines.oracle.traffic import traffic_of
from tests.oracle import forging as forge
from tests.oracle.example import EXAMPLE, evaluator
from tests.oracle.forging import Receipt
from tests.oracle.handmade import receipt_of
from tests.oracle.rejection import rejected_at

KNOBS = Knobs("disaggregated", workers_prefill=1, workers_decode=1)


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-12)


def faults(rate: float, concurrency: float, **changes: Any) -> list[str]:
    ledger = Ledger()
    loop = replace(EXAMPLE, rate_rps=0.0, concurrency=concurrency)
    check_solved_rate(ledger, "rate", rate, evaluator(loop, **changes), KNOBS)
    return [f"{item.found} {item.expected} {item.why}" for item in ledger.disagreements]


def test_requests_in_the_system_follow_littles_law() -> None:
    # both buckets hold half of the requests: the rate times the mean of their E2E
    figures = evaluator().evaluate(KNOBS).figures
    assert figures is not None
    short, long = figures.timelines
    assert in_system(evaluator(), KNOBS, 2.0) == close(2 * (short.e2e_s + long.e2e_s) / 2)
    assert in_system(evaluator(), KNOBS, 8.0) is None


def test_one_request_in_the_system() -> None:
    """At a rate of r, little waits: the requests in the system determine r, and r nothing else."""
    held = in_system(evaluator(), KNOBS, 2.0)
    assert held is not None
    assert faults(2.0, held) == []
    for share in (1e-5, -1e-5, 2e-6, -2e-6, 1e-9):
        assert faults(round_significant(2 * (1 + share), 12), held), share


def test_more_digits_than_twelve() -> None:
    held = in_system(evaluator(), KNOBS, 2.0)
    assert faults(2.0000000000002, held or 0.0)


def test_a_loop_that_offers_more_than_the_scenario_can_take() -> None:
    # the link refuses at 0.7 = rate x 0.203 s
    most = 0.7 / 0.203
    refused = round_significant(most * (1 + 1e-9), 12)
    assert faults(refused, 1000.0) == []
    for share in (1e-5, -1e-5, 1e-8, -1e-8, -5e-7):
        assert faults(round_significant(refused * (1 + share), 12), 1000.0), share


def test_a_refusal_of_a_loop_that_the_scenario_could_take() -> None:
    assert faults(round_significant(0.7 / 0.203 * (1 + 1e-9), 12), 3.0)


@pytest.mark.parametrize("rate", [0.0, 1e-10, 1.1e9, 1e300])
def test_rates_that_are_not_looked_for(rate: float) -> None:
    assert faults(rate, 10.0)


def test_what_is_refused_at_any_rate_is_reported_at_the_slowest() -> None:
    assert faults(1e-9, 10.0, max_sequences=1e-12) == []
    assert faults(1e-8, 10.0, max_sequences=1e-12)
    assert faults(1e-9, 10.0)


def test_a_scenario_that_takes_any_rate_is_reported_at_the_fastest() -> None:
    nothing: dict[str, Any] = {
        "admission_s": 0.0, "prefill_overhead_s": 0.0, "prefill_tokens_per_s": 1e24, "step_overhead_s": 0.0,
        "decode_tokens_per_s": 1e24, "cache": Cache(1e-24), "transfer_overhead_s": 0.0,
    }  # fmt: skip
    assert faults(1e9, 10.0, **nothing) == []
    assert faults(1e8, 10.0, **nothing)


@pytest.fixture(scope="module")
def closed() -> Receipt:
    return receipt_of("closed")


@pytest.mark.parametrize("share", [1e-5, -1e-5])
def test_a_rate_that_is_off_is_rejected_in_every_row(share: float, closed: Receipt, tmp_path: Path) -> None:
    """Every scenario evaluated consistently at a rate that is off by one in a hundred thousand."""
    receipt = copy.deepcopy(closed)
    rows = [(row, bound) for row in receipt["scenarios"] for bound in BOUNDS]
    for row, bound in rows:
        rate = round_significant(row["bounds"][bound]["rate_rps"] * (1 + share), 12)
        forge.at_rate(receipt, row, bound, rate)
    places = {item.where for item in forge.verified(tmp_path, receipt).disagreements}
    places = {place for place in places if not place.startswith("changes.")}
    assert places == {f"scenarios[{row['scenario']}].bounds.{bound}.rate_rps" for row, bound in rows}


def test_a_refused_scenario_evaluated_just_below_what_it_can_take(closed: Receipt, tmp_path: Path) -> None:
    for share in (2e-9, 5e-7):
        receipt = copy.deepcopy(closed)
        row = next(row for row in receipt["scenarios"] if row["bounds"]["nominal"]["status"] == "refused")
        rate = round_significant(row["bounds"]["nominal"]["rate_rps"] * (1 - share), 12)
        forge.at_rate(receipt, row, "nominal", rate)
        assert row["bounds"]["nominal"]["status"] == "evaluated"
        rejected_at(forge.verified(tmp_path, receipt), rf"^scenarios\[{row['scenario']}\]\.bounds\.nominal\.rate_rps$")


def test_figures_of_another_rate_than_the_exported_one(closed: Receipt, tmp_path: Path) -> None:
    receipt = copy.deepcopy(closed)
    row = next(row for row in receipt["scenarios"] if row["bounds"]["nominal"]["status"] == "evaluated")
    rate = row["bounds"]["nominal"]["rate_rps"]
    forge.at_rate(receipt, row, "nominal", round_significant(rate * 0.99, 12))
    row["bounds"]["nominal"]["rate_rps"] = rate
    forge.rejudge(receipt)
    rejected_at(forge.verified(tmp_path, receipt), r"\.nominal\.loads\[.*\]\.utilization$")


def test_the_concurrency_of_a_bound(closed: Receipt, tmp_path: Path) -> None:
    """The conservative bound evaluated with the nominal number of requests."""
    receipt = copy.deepcopy(closed)
    inputs = forge.usable_inputs(receipt)
    for row in receipt["scenarios"]:
        traffic = replace(traffic_of(receipt["workload"], inputs, "conservative"), concurrency=24)
        rate = solved_rps(Evaluator(inputs.setting("conservative"), traffic), forge.knobs_of(row))
        forge.at_rate(receipt, row, "conservative", rate)
    rejected_at(forge.verified(tmp_path, receipt), r"\.conservative\.rate_rps$")
