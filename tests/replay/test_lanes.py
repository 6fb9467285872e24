"""The lanes, means and windows that are made of a replay, against the token-by-token reference and the replay's own counts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pipelines.frames.digits import significant
from pipelines.frames.evaluation import LANES
from pipelines.replay import records as r
from pipelines.replay.costs import Costs, Knobs
from pipelines.replay.lanes import lane_means, lane_ticks, requests_frame
from pipelines.replay.run import Outcome, Path, Setting, replay
from pipelines.replay.windows import windows_frame
from tests.replay import by_step, compared
from tests.replay.cases import SCHEDULERS, Case, random_cases
from tests.replay.test_costs import costs

SECOND = 10**9
KNOBS = {
    "bursty-documents": (
        Knobs("aggregated", None, 6, None, None, None),
        Knobs("disaggregated", None, None, 2, 1, None),
    ),
    "short-and-long": (Knobs("chunked", None, 3, None, None, 512), Knobs("routed", 2048, 1, 1, 1, 512)),
}


@dataclass
class Kept:
    """What a replay of a case was given and what came out."""

    paths: tuple[Path, ...]
    setting: Setting
    outcome: Outcome


def kept(case: Case, monkeypatch: pytest.MonkeyPatch) -> Kept:
    found: list[Kept] = []

    def keeping(paths: tuple[Path, ...], setting: Setting, **how: Any) -> Outcome:
        found.append(Kept(paths, setting, replay(paths, setting, **how)))
        return found[0].outcome

    monkeypatch.setattr(compared, "replay", keeping)
    compared.through_kernels(case, SECOND)
    return found[0]


@pytest.fixture(scope="module", params=[(name, knobs) for name, own in KNOBS.items() for knobs in own])
def replayed(request: pytest.FixtureRequest) -> tuple[Costs, Knobs, tuple[Path, ...], Outcome]:
    name, knobs = request.param
    own, _ = costs(name, "nominal")
    paths = own.paths(knobs)
    return own, knobs, paths, replay(paths, own.setting, details=True)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_lanes_are_those_of_the_reference_to_the_last_tick(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in random_cases(scheduler, 40, 7):
        own = kept(case, monkeypatch)
        found: dict[str, list[int]] = {name: [] for name in LANES}
        for path, details in zip(own.paths, own.outcome.details, strict=True):
            ticks = lane_ticks(path, details, own.setting.admission_ticks, case.ticks_per_second // SECOND)
            for name, column in ticks.items():
                found[name] += column.tolist()
        records = by_step.replay(case, SECOND).requests
        every = [sorted(one.lanes.items()) for one in records]
        lanes = [
            sorted((name.removesuffix("_s"), found[name][place]) for name in LANES) for place in range(len(records))
        ]
        assert sorted(lanes) == sorted(every)


def test_lanes_that_do_not_add_up_are_no_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    own = kept(random_cases("chunked", 1, 7)[0], monkeypatch)
    (path,), (details,) = own.paths, own.outcome.details
    details[0, r.FIRST_TOKEN] += 1
    with pytest.raises(ArithmeticError, match="request 0 of its path: lanes do not add up"):
        lane_ticks(path, details, own.setting.admission_ticks, 1)


def test_the_requests_of_a_log_are_all_there_and_in_its_order(replayed: tuple[Any, ...]) -> None:
    own, _, paths, outcome = replayed
    frame = requests_frame(own, paths, outcome)
    assert frame["request"].to_list() == list(range(len(own.log.prompt)))
    assert frame["prompt_tokens"].to_list() == own.log.prompt.tolist()
    assert frame["output_tokens"].to_list() == own.log.output.tolist()
    sums = np.sum([frame[name].to_numpy() for name in LANES], axis=0)
    assert sums == pytest.approx(frame["e2e_s"].to_numpy(), rel=1e-12)
    assert (frame["tpot_s"].is_null() == (frame["output_tokens"] == 1)).all()


def test_what_requests_meet_adds_up_to_the_counts(replayed: tuple[Any, ...]) -> None:
    own, _, paths, outcome = replayed
    frame, counts = requests_frame(own, paths, outcome), outcome.counts
    for name in ("met_ttft", "met_tpot", "met_e2e", "met_stall"):
        assert frame[name].sum() == counts[name]
    every = frame["met_ttft"] & frame["met_tpot"] & frame["met_e2e"] & frame["met_stall"]
    assert every.sum() == counts["met"]
    assert frame["preemptions"].sum() == counts["preemptions"]
    assert significant(frame["stall_s"].max()) == significant(counts["stall_ticks"] / own.ticks_per_s)
    assert frame["ttft_s"].sum() == pytest.approx(counts["ttft_ticks"] / own.ticks_per_s, rel=1e-12)


def test_the_means_of_the_lanes_add_up_to_the_mean_of_e2e(replayed: tuple[Any, ...]) -> None:
    own, _, paths, outcome = replayed
    means = lane_means(own, paths, outcome)
    assert means is not None
    counts = outcome.counts
    e2e = (counts["ttft_ticks"] + counts["generation_ticks"]) / own.ticks_per_s / counts["requests"]
    assert sum(means.values()) == pytest.approx(e2e, rel=1e-9)


def test_windows_add_up_to_the_counts(replayed: tuple[Any, ...]) -> None:
    own, knobs, _, outcome = replayed
    frame = windows_frame(own, outcome)
    assert frame["requests"].sum() == outcome.counts["requests"]
    assert frame["met"].sum() == outcome.counts["met"]
    full = [(frame[f"{name}_utilization"] >= own.ceilings[name]).fill_null(False).to_numpy() for name in own.ceilings]
    assert (frame["above_ceiling"].to_numpy() == np.any(full, axis=0)).all()
    pools = {"mixed": knobs.workers_mixed, "prefill": knobs.workers_prefill, "decode": knobs.workers_decode}
    for pool, workers in pools.items():
        assert frame[f"{pool}_utilization"].is_null().all() == (workers is None)
    assert frame["link_utilization"].is_null().all() == (knobs.workers_prefill is None)


def test_what_the_clock_ends_before_has_no_times_and_meets_nothing(replayed: tuple[Any, ...]) -> None:
    own, _, paths, outcome = replayed
    details = tuple(one.copy() for one in outcome.details)
    details[-1][:] = r.UNSET
    frame = requests_frame(own, paths, Outcome(outcome.counts, outcome.met, outcome.work, outcome.servers, details))
    lost = frame.filter(frame["e2e_s"].is_null())
    assert lost.height == len(details[-1])
    assert not lost["met_ttft"].any()
    assert lost["preemptions"].is_null().all()
    assert lost["admission_s"].is_null().all()
