"""Laws of the solved rate, on random inputs: it is that of an open system that holds K requests, and no larger one would do."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandera.config import config_context

from pipelines.arithmetic.numbers import Floats
from pipelines.frames.inputs import InputTable
from pipelines.topologies.closed_loop import SLACK, solved_rates
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.scenarios import scenario_frame
from tests.plans import FINGERPRINT, Ranged, evaluation_of, inputs_frame_of, workload_of
from tests.topologies.test_laws import AT_EASE, EDGES, Overrides, some_inputs, some_requests

some_loops = st.fixed_dictionaries(
    {"concurrency": st.integers(1, 64).map(float), "ca2": st.sampled_from([0.0, 1.0, 4.0])}
)


@pytest.fixture(autouse=True)
def _unvalidated() -> Iterator[None]:
    with config_context(validation_enabled=False):
        yield


def at_rate(rate: float, scenario: str, numbers: Overrides, requests: pl.DataFrame) -> pl.DataFrame:
    """The nominal rows of one scenario at a declared rate."""
    inputs = InputTable.of(inputs_frame_of(**numbers | {"concurrency": None, "rate": rate}))
    scenarios = scenario_frame(inputs).filter(pl.col("scenario") == scenario)
    topology = scenario.partition("/")[0]
    frame = evaluate(topology, FINGERPRINT, scenarios, inputs, workload_of(requests, EDGES, inputs))
    return frame.filter(pl.col("bound") == "nominal")


def present(rows: pl.DataFrame, requests: pl.DataFrame) -> float | None:
    """Requests in the system: Λ times the mean E2E; none where refused."""
    if rows["status"][0] == "refused":
        return None
    buckets = workload_of(requests, EDGES).buckets
    shares = dict(buckets.select("bucket", pl.col("requests") / requests.height).iter_rows())
    return rows["rate_rps"][0] * sum(shares[row["bucket"]] * row["e2e_s"] for row in rows.to_dicts())


@given(some_inputs, some_requests(), some_loops)
@settings(max_examples=5)
def test_the_solved_rate_sustains_k_and_a_millionth_more_does_not(
    numbers: Overrides, requests: pl.DataFrame, loop: dict[str, Any]
) -> None:
    numbers, k = numbers | AT_EASE | loop | {"gpus": 2}, loop["concurrency"]
    for topology in TOPOLOGIES:
        closed = evaluation_of(topology, inputs_frame_of(**numbers), requests, EDGES)
        for scenario in closed["scenario"].unique(maintain_order=True):
            rows = closed.filter((pl.col("scenario") == scenario) & (pl.col("bound") == "nominal"))
            rate = rows["rate_rps"][0]
            assert rate == float(f"{rate:.11e}")
            assert rows.equals(at_rate(rate, scenario, numbers, requests)), "an open system at that rate"
            if rows["status"][0] == "refused":
                before = present(at_rate(rate * (1 - 2e-9), scenario, numbers, requests), requests)
                assert before is not None
                assert before < k * (1 - SLACK) * (1 + 1e-8)
            else:
                assert present(rows, requests) <= k * (1 + 1e-13)
                more = present(at_rate(rate * (1 + 1e-6), scenario, numbers, requests), requests)
                assert more is None or more > k


@given(some_inputs, some_requests(), some_loops)
@settings(max_examples=3)
def test_a_rate_does_not_depend_on_the_scenarios_beside_it(
    numbers: Overrides, requests: pl.DataFrame, loop: dict[str, Any]
) -> None:
    inputs = InputTable.of(inputs_frame_of(**numbers | loop))
    workload = workload_of(requests, EDGES, inputs)
    scenarios = scenario_frame(inputs, workload.thresholds(inputs))
    for topology in TOPOLOGIES:
        together = evaluate(topology, FINGERPRINT, scenarios, inputs, workload)
        last = scenarios.filter(pl.col("topology") == topology).tail(1)
        if last.is_empty():  # no threshold leaves both paths requests
            continue
        alone = evaluate(topology, FINGERPRINT, last, inputs, workload)
        own = together.filter(pl.col("scenario") == last["scenario"].item())
        assert alone["rate_rps"].to_list() == pytest.approx(own["rate_rps"].to_list(), rel=2e-11)


@given(some_inputs, some_requests(), st.integers(1, 32), st.integers(1, 32))
@settings(max_examples=4)
def test_more_requests_in_the_system_never_slow_the_loop(
    numbers: Overrides, requests: pl.DataFrame, few: int, more: int
) -> None:
    """K at its higher end is the conservative bound. Of chunks, whose waits may shrink under load, see test_laws.py."""
    loop = {"concurrency": Ranged(few, high=few + more), "ca2": 1.0}
    for topology in ("aggregated", "disaggregated"):
        frame = evaluation_of(topology, inputs_frame_of(**numbers | AT_EASE | loop), requests)
        rates = {bound: frame.filter(pl.col("bound") == bound)["rate_rps"] for bound in ("nominal", "conservative")}
        assert (rates["nominal"] <= rates["conservative"] * (1 + 1e-8)).all()


def responding(e2e_s: Callable[[Floats], Floats], ceiling: float) -> Floats:
    """Solved rates of a system that is refused from ``ceiling`` requests/s on, for K of 1 to 9000."""
    return solved_rates(np.arange(1.0, 9001.0), lambda places, rates: (rates >= ceiling, e2e_s(rates), rates / ceiling))


def constant(seconds: float) -> Callable[[Floats], Floats]:
    return lambda rates: np.full_like(rates, seconds)


def test_more_rows_than_one_batch_holds() -> None:
    """A second each: Λ = K."""
    assert responding(constant(1.0), 1e6).tolist() == np.arange(1.0, 9001.0).tolist()


def test_a_leap_of_the_latency_is_not_a_refusal() -> None:
    """One second below 5.5 requests/s and two from there on: K = 6 to 10 stay just below, with room to spare."""
    solved = responding(lambda rates: np.where(rates < 5.5, 1.0, 2.0), 1e6)
    assert solved[:5].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert solved[5:10].tolist() == [5.49999999999] * 5
    assert solved[11] == 6.0


def test_the_exported_rate_is_rounded_down_where_the_nearest_is_too_much() -> None:
    """1.5 s each, Λ = K/1.5: 4/3 is rounded down by itself, 2/3 would be rounded up to a rate at which K is exceeded."""
    solved = responding(constant(1.5), 1e6)
    assert solved[0] == 0.666666666666
    assert solved[1] == 1.33333333333


def test_rows_keep_their_order() -> None:
    assert responding(constant(0.5), 1e6).tolist() == (2 * np.arange(1.0, 9001.0)).tolist()


def test_each_row_is_asked_about_by_its_place() -> None:
    """K = 3 everywhere, and row i takes 1 + i seconds: Λ = 3/(1 + i)."""
    solved = solved_rates(np.full(5000, 3.0), lambda places, rates: (rates >= 1e6, 1.0 + places, rates / 1e6))
    assert solved[[0, 1, 2, 4999]].tolist() == [3.0, 1.5, 1.0, 0.0006]
