"""The kernels against the token-by-token reference: every request, every count, every window, to the last tick."""

from dataclasses import replace

import numpy as np
import pytest

from pipelines.replay import records as r
from tests.replay.by_step import MINUTE_NS, replay
from tests.replay.cases import SCHEDULERS, Case, random_cases
from tests.replay.compared import differences, through_kernels
from tests.replay.outlasting import outlasting_cases
from tests.replay.worked import MS, WORKER, tokens_of, worked

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


def test_a_path_without_requests_has_pools_that_did_nothing() -> None:
    case = replace(random_cases("routed", 1, SEED)[0], threshold=1)
    outcome, _ = through_kernels(case, SECOND)
    assert outcome.servers["mixed"] == case.workers_mixed
    assert (outcome.counts["mixed_prefill_ticks"], outcome.work["mixed"].sum()) == (0, 0)


def test_a_pace_over_very_many_tokens_is_judged_without_overflow() -> None:
    case = alone(1_000_001)
    slow, fast = (replace(case.objectives, tpot=(seconds,) * len(case.objectives.tpot)) for seconds in (10.0, 0.011))
    assert through_kernels(replace(case, objectives=slow), SECOND)[0].counts["met_tpot"] == 1
    assert through_kernels(replace(case, objectives=fast), SECOND)[0].counts["met_tpot"] == 0


def test_what_is_begun_when_the_clock_ends_is_counted_up_to_its_last_tick() -> None:
    case = replace(alone(1_000_000), ticks_per_second=10**14)
    worker = replace(case.mixed, t0=0.2, r_d=1e9, gamma=0.0, d=0.01, r_p=1e9, q=0.0, prefill_curve=None)
    case = replace(case, mixed=worker, admission=0.0)
    counts = through_kernels(case, SECOND)[0].counts
    assert (counts["unfinished"], counts["mixed_decode_ticks"]) == (1, 2**62 - counts["mixed_prefill_ticks"])


def test_a_prompt_that_takes_longer_than_the_clock_ends_nothing() -> None:
    case = alone(5)
    counts = through_kernels(replace(case, mixed=replace(case.mixed, d=1e12, prefill_curve=None)), SECOND)[0].counts
    assert (counts["unfinished"], counts["met_ttft"]) == (1, 0)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_outlasts_the_clock_is_equal_to_the_last_tick(scheduler: str) -> None:
    found, unfinished = {}, 0
    for number, case in enumerate(outlasting_cases(scheduler, 150, SEED)):
        expected = replay(case)
        unfinished += expected.counts["unfinished"] > 0
        unlike = differences(case, expected, MINUTE_NS)
        if unlike:
            found[number] = unlike[:5]
    assert found == {}
    assert 75 < unfinished < 150


def test_a_duration_that_the_clock_has_time_for_is_never_cut_short() -> None:
    # 4,000 days and 13 ms of prefill, on a clock of 146 years
    case = worked("prefill_first", (0, 13, 1), mixed=replace(WORKER, d=4000 * 86400.0))
    assert through_kernels(case, SECOND)[0].counts["ttft_ticks"] == 4000 * 86400 * SECOND + 13 * MS


def test_work_of_a_window_may_be_more_than_64_bits_have_room_for() -> None:
    case = worked("prefill_first", *[(0, 10, 1)] * 5, workers_mixed=5, mixed=replace(WORKER, d=1e12))
    outcome, _ = through_kernels(case, SECOND)
    assert outcome.work["mixed"].tolist() == [5 * 2**62]
    assert outcome.above({"mixed": 0.9}, SECOND).tolist() == [True]


def test_the_first_steps_of_a_run_are_over_however_long_its_last_would_take() -> None:
    # A second per token in the cache: steps of 10 ms and 2, 3, 4, … s. Of the 46,116 s of the clock, 302 of them take 46,058.
    case = worked("prefill_first", (0, 1, 2**31 - 1), mixed=replace(WORKER, gamma=1.0, memory=10**15))
    counts = through_kernels(replace(case, ticks_per_second=10**14), SECOND)[0].counts
    assert (counts["unfinished"], counts["mixed_decode_ticks"]) == (1, 2**62 - 10**11)
    assert counts["mixed_peak_kv_bytes"] == 1000 * (2 + 302)


def test_a_transfer_that_begins_within_the_last_step_is_in_no_peak() -> None:
    # 0.3 s per token in the cache, on a clock of 46,116 s: A's 546th step begins at 46,107, B's cache moves at 46,110.
    worker = replace(WORKER, gamma=0.3, t0=0.0)
    case = worked("separated", (0, 10, 1000), (46_110_000, 15, 1000), decode=worker)
    case = replace(case, ticks_per_second=10**14)
    expected = replay(case)
    assert expected.counts["decode_peak_kv_bytes"] == 1000 * (10 + 545)
    assert differences(case, expected, MINUTE_NS) == []


def test_who_chooses_first_at_an_instant_looks_at_the_head_that_is_there_then() -> None:
    # 24,000 bytes; A has 11,000 and decodes, B runs until 20; of C and D, which wait, C has 15,000 and D 2,000.
    # At 20 A's worker has a step behind it and B's is free. In the first case A's has the lower number: C does not fit, and
    # D is not the head before the other worker takes C; it is taken at 30. In the second case B's goes first, and D is taken at 20.
    long, short, waiting = (0, 10, 20), (0, 20, 1), ((1, 15, 1), (2, 2, 1))
    for first, second, at in ((long, short, 30), (short, long, 20)):
        case = worked("prefill_first", first, second, *waiting, workers_mixed=2, mixed=replace(WORKER, memory=24_000))
        expected = replay(case)
        assert tokens_of(expected)[3] == [at + 2]
        assert differences(case, expected, SECOND) == []
