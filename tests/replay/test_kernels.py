"""The kernels against the token-by-token reference: every request, every count, every window, to the last tick."""

from dataclasses import replace

import numpy as np
import pytest

from pipelines.replay import records as r
from tests.replay.by_step import replay
from tests.replay.cases import SCHEDULERS, Case, random_cases
from tests.replay.compared import differences, through_kernels

SECOND = 10**9
COUNT, SEED = 250, 2026


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_random_cases_are_equal_to_the_last_tick(scheduler: str) -> None:
    found = {}
    for number, case in enumerate(random_cases(scheduler, COUNT, SEED)):
        unlike = differences(case, replay(case, SECOND), SECOND)
        if unlike:
            found[number] = unlike[:5]
    assert found == {}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_cases_have_what_is_hard(scheduler: str) -> None:
    outcomes = [replay(case, SECOND).counts for case in random_cases(scheduler, COUNT, SEED)]
    assert sum(counts["preemptions"] > 0 for counts in outcomes) > COUNT / 5
    assert sum(counts["peak_queue"] > 1 for counts in outcomes) > COUNT / 2
    assert sum(counts["swapped_bytes"] > 0 for counts in outcomes) > COUNT / 20


def together(scheduler: str, count: int) -> Case:
    """Many requests at one instant, more than anything has room for at first."""
    case = random_cases(scheduler, 1, SEED)[0]
    lengths = [(1 + number % 40, 0, 1 + number % 7) for number in range(count)]
    ample = {name: replace(getattr(case, name), memory=10**12, slots=500) for name in ("mixed", "prefill", "decode")}
    return replace(
        case,
        requests=tuple((number // 150 * 10**7, *own) for number, own in enumerate(lengths)),
        move_s=(0.004,) * count,
        keep_s=(0.003,) * count,
        policy="recompute",
        threshold=20,
        **ample,
    )


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("dispatch", ["least_loaded", "round_robin", "shortest_queue"])
@pytest.mark.parametrize("discipline", ["fifo", "shortest_first"])
def test_lines_and_slots_grow_as_they_must(scheduler: str, dispatch: str, discipline: str) -> None:
    case = replace(together(scheduler, 400), dispatch=dispatch, discipline=discipline)
    assert differences(case, replay(case, SECOND), SECOND) == []


def alone(output: int) -> Case:
    """One request of so many output tokens on one idle worker."""
    case = random_cases("prefill_first", 1, SEED)[0]
    worker = replace(case.mixed, t0=0.01, r_d=1000.0, gamma=2e-8, decode_curve=None, memory=10**18, slots=4)
    return replace(case, requests=((0, 100, 0, output),), ticks_per_second=10**12, mixed=worker, policy="recompute")


def test_a_million_steps_cost_one_event_and_are_summed_exactly() -> None:
    outcome, rows = through_kernels(alone(1_000_001), SECOND)
    base, gamma, steps = 11_000_000_000, 20_000, 1_000_000
    expected = steps * base + gamma * (steps * 101 + steps * (steps - 1) // 2)
    assert rows[0][r.LAST_TOKEN] - rows[0][r.FIRST_TOKEN] == expected
    assert outcome.counts["generation_steps"] == steps


def test_what_the_clock_ends_before_is_unfinished_and_meets_nothing() -> None:
    outcome, rows = through_kernels(alone(2**31 - 1), SECOND)
    assert rows == {}
    assert (outcome.counts["unfinished"], outcome.counts["met"], outcome.counts["ttft_ticks"]) == (1, 0, 0)


def test_a_replay_does_not_depend_on_what_was_replayed_before() -> None:
    case = random_cases("routed", 5, SEED)[4]
    first, again = (through_kernels(case, SECOND) for _ in range(2))
    assert first[0].counts == again[0].counts
    assert all(np.array_equal(row, again[1][number]) for number, row in first[1].items())
