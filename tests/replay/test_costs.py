"""One definition, two uses: what the kernels are given is what the closed forms compute with."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numba import njit

from pipelines.arithmetic.steps import DecodeSteps
from pipelines.declarations import load_cohort
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.replay.costs import Costs, Knobs, log_of
from pipelines.replay.records import LAST_TICK, Times
from pipelines.replay.run import SeparatedPath, replay
from pipelines.replay.steps import piece_ns
from pipelines.topologies.constants import constants
from pipelines.topologies.question import Workload
from pipelines.topologies.transfers import transfer_model
from pipelines.traces import bucket_frame, output_stratum_frame, read_cohort_requests, stratum_frame
from pipelines.traces.edges import bucket_edges
from pipelines.traces.freeze import inputs_frame

PROJECT = Path(__file__).parent.parent.parent
NANOSECOND = 1e-9


@njit  # type: ignore[untyped-decorator]
def compiled_piece_ns(times: Times, before: int, tokens: int) -> int:
    """What kernels call; on its own, a part of a kernel cannot be called from Python."""
    return piece_ns(times, before, tokens)


def costs(name: str, bound: Bound) -> tuple[Costs, pl.DataFrame]:
    cohort = load_cohort(PROJECT / "cohorts" / name)
    found = read_cohort_requests(cohort)
    edges = bucket_edges(found.requests, cohort.bucket_edges_tokens, cohort.forced_edges_tokens)
    frames = (make(found.requests, edges) for make in (bucket_frame, stratum_frame, output_stratum_frame))
    return Costs.of(InputTable.of(inputs_frame(cohort)), bound, Workload(*frames), found.requests), found.requests


@pytest.fixture(scope="module", params=BOUNDS)
def documents(request: pytest.FixtureRequest) -> tuple[Costs, pl.DataFrame]:
    return costs("bursty-documents", request.param)


def test_a_step_is_that_of_the_closed_forms(documents: tuple[Costs, pl.DataFrame]) -> None:
    own, _ = documents
    declared = constants(own.inputs, own.bound).decode["mixed"]
    steps = DecodeSteps(declared.t0, 1 / declared.r_d, declared.gamma * 1500.0)
    times = own.pools["mixed"].times
    for batch in (1, 7, 256):
        ticks = times.base[batch] + times.gamma * 1500 * batch
        assert ticks / own.ticks_per_s == pytest.approx(steps.seconds(float(batch)), abs=2e-12)


def test_a_prompt_is_prefilled_as_in_the_closed_forms(documents: tuple[Costs, pl.DataFrame]) -> None:
    own, _ = documents
    declared = constants(own.inputs, own.bound).prefill["mixed"]
    for prompt, cached in ((1, 0), (2048, 0), (16384, 4096)):
        uncached = float(prompt - cached)
        seconds = declared.prompt_s(uncached, float(prompt**2 - cached**2), uncached**2)
        ns = compiled_piece_ns(own.pools["mixed"].times, cached, prompt - cached)
        assert ns * NANOSECOND == pytest.approx(seconds, abs=NANOSECOND)


def test_a_transfer_is_that_of_the_closed_forms(documents: tuple[Costs, pl.DataFrame]) -> None:
    own, requests = documents
    model = transfer_model(own.inputs, own.bound)
    for number in (0, 17, 500):
        moved = model.of_prompt(requests["prompt_tokens"][number])
        assert own.transfers.keep_ns[number] * NANOSECOND == pytest.approx(float(moved.busy_s), abs=NANOSECOND)


def test_objectives_of_a_bucket_are_those_of_the_cohort(documents: tuple[Costs, pl.DataFrame]) -> None:
    own, _ = documents
    limits = own.setting.limits
    assert limits.edges.tolist() == [1024, 8192, 16384]
    assert [ticks / own.ticks_per_s for ticks in limits.ttft] == [2.5] * 4
    assert limits.stall / own.ticks_per_s == 0.045
    assert limits.e2e.tolist() == [-1] * 4


def test_lanes_of_every_request_add_up(documents: tuple[Costs, pl.DataFrame]) -> None:
    own, requests = documents
    paths = own.paths(Knobs("disaggregated", None, None, 2, 1, None))
    outcome = replay(paths, own.setting, details=True)
    assert isinstance(paths[0], SeparatedPath)
    rows = outcome.details[0]
    ready = requests["arrival_ns"].to_numpy() * own.tpn + own.setting.admission_ticks
    stamps = np.column_stack([ready, rows[:, :6], rows[:, 7]])
    assert (np.diff(stamps, axis=1) >= 0).all()
    assert int((rows[:, 6] - requests["arrival_ns"].to_numpy() * own.tpn).sum()) == outcome.counts["ttft_ticks"]


def test_of_a_declared_hit_ratio_whole_tokens_hit_and_one_is_computed() -> None:
    prompts = pl.DataFrame(
        {"arrival_ns": [0, 1, 2], "prompt_tokens": [1, 7, 100], "cached_prompt_tokens": 0, "output_tokens": 1}
    )
    assert log_of(prompts, 0.5).cached.tolist() == [0, 3, 50]
    assert log_of(prompts, 0.999).cached.tolist() == [0, 6, 99]


def test_no_limit_on_sequences_takes_no_memory(documents: tuple[Costs, pl.DataFrame]) -> None:
    own, _ = documents
    name = "service.decode.max_sequences"
    rows = own.inputs.rows | {name: own.inputs.rows[name] | {"value": 1e12, "conservative": 1e12}}
    assert replace(own, inputs=InputTable(rows)).pools["mixed"].most == len(own.log.prompt)


def test_an_objective_beyond_the_clock_is_always_met(documents: tuple[Costs, pl.DataFrame]) -> None:
    own, _ = documents
    name = "objectives.ttft"
    rows = own.inputs.rows | {name: own.inputs.rows[name] | {"value": 1e6, "conservative": 1e6}}
    assert replace(own, inputs=InputTable(rows)).setting.limits.ttft.tolist() == [LAST_TICK] * 4
