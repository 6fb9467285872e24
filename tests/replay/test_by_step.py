"""The mixed pool token by token, on cases worked by hand. Letters are the requests in order; times are milliseconds."""

from dataclasses import replace

import pytest

from tests.replay.by_step import replay
from tests.replay.by_step_times import Times
from tests.replay.cases import SCHEDULERS, Cache, Ceilings, Objectives, random_cases
from tests.replay.worked import MS, WORKER, counts, in_ms, lanes, tokens, tokens_of, worked

TWO_SLOW_WRITERS = ((0, 10, 4), (0, 10, 4))
TIGHT = replace(WORKER, memory=24_000)


def test_a_prompt_waits_for_a_slot() -> None:
    # A prefills 0-10 and is the only sequence that the worker may hold: steps 10-20, 20-30. Then B, 30-40.
    outcome = replay(worked("prefill_first", (0, 10, 3), (0, 10, 1), mixed=replace(WORKER, slots=1)))
    assert tokens_of(outcome) == [[10, 20, 30], [40]]
    assert lanes(outcome.requests[1]) == [0, 30, 10, 0, 0, 0, 0, 0]
    assert counts(outcome, "peak_queue", "requests", "output_tokens") == [1, 2, 4]
    assert in_ms(outcome, "mixed_prefill_ticks", "mixed_decode_ticks", "end_ticks") == [20, 20, 40]


def test_a_prompt_holds_decode() -> None:
    # A prefills 0-10, steps 10-20; B has come and runs whole, 20-70, before A's next step 70-80.
    outcome = replay(worked("prefill_first", (0, 10, 3), (15, 50, 1)))
    assert tokens_of(outcome) == [[10, 20, 80], [70]]
    assert lanes(outcome.requests[0]) == [0, 0, 10, 0, 0, 0, 10, 60]
    assert lanes(outcome.requests[1]) == [0, 5, 50, 0, 0, 0, 0, 0]
    assert in_ms(outcome, "stall_ticks", "ttft_ticks", "generation_ticks") == [60, 10 + 55, 70]
    assert outcome.counts["generation_steps"] == 2


def test_what_ends_at_an_instant_comes_before_what_arrives_and_that_before_choices() -> None:
    # A's prompt ends at 10, B arrives at 10: the worker sees both, and prompts go first. B 10-15, step of A 15-25.
    outcome = replay(worked("prefill_first", (0, 10, 2), (10, 5, 1)))
    assert tokens_of(outcome) == [[10, 25], [15]]
    assert lanes(outcome.requests[0]) == [0, 0, 10, 0, 0, 5, 10, 0]


def test_requests_of_one_instant_go_in_the_order_of_the_log() -> None:
    assert tokens(worked("prefill_first", (0, 3, 1), (0, 1, 1), (0, 2, 1))) == [[3], [4], [6]]
    # Both workers choose at 0 and at 1: worker 0 runs A, worker 1 runs B and then C.
    assert tokens(worked("prefill_first", (0, 3, 1), (0, 1, 1), (0, 2, 1), workers_mixed=2)) == [[3], [1], [3]]


def test_a_request_joins_a_line_when_it_is_admitted() -> None:
    outcome = replay(worked("prefill_first", (0, 10, 1), (2, 10, 1), admission=0.005))
    assert tokens_of(outcome) == [[15], [25]]
    assert lanes(outcome.requests[1]) == [5, 8, 10, 0, 0, 0, 0, 0]


def test_the_fewest_uncached_tokens_go_first() -> None:
    # While A runs 0-10, B (30 uncached), C (40, of which 35 are cached) and D (also 5 uncached) come: C, D, B.
    waiting = ((1, 30, 0, 1), (2, 40, 35, 1), (3, 5, 0, 1))
    case = worked("prefill_first", (0, 10, 0, 1), *waiting, discipline="shortest_first")
    assert tokens(case) == [[10], [50], [15], [20]]


def test_round_robin_deals_requests_out() -> None:
    # Worker 0: A 0-30, then C; worker 1, idle from 10 on, does not take it.
    three = ((0, 30, 1), (0, 10, 1), (1, 10, 1))
    assert tokens(worked("prefill_first", *three, workers_mixed=2, dispatch="round_robin")) == [[30], [10], [40]]
    assert tokens(worked("prefill_first", *three, workers_mixed=2)) == [[30], [10], [20]]


def test_the_shortest_queue_counts_what_runs_and_what_decodes() -> None:
    # A to worker 0, B to worker 1. C at 1: one request on each, so worker 0: 30-40.
    # D at 15: worker 0 has A and C, worker 1 has B, which decodes: worker 1, whose step 10-20 has begun: D 20-30.
    four = ((0, 30, 1), (0, 10, 3), (1, 10, 1), (15, 10, 1))
    case = worked("prefill_first", *four, workers_mixed=2, dispatch="shortest_queue")
    assert tokens(case) == [[30], [10, 20, 40], [40], [30]]


def test_the_request_taken_last_is_preempted_and_computed_again() -> None:
    # A 0-10, B 10-20 (11,000 + 10,000 bytes fit into 24,000), steps 20-30 and 30-40; then they hold 26,000.
    # B, with 13,000, goes; A steps 40-50 and is complete. B's 10 + 3 tokens are computed again, 50-63, and give its fourth.
    outcome = replay(worked("prefill_first", *TWO_SLOW_WRITERS, mixed=TIGHT))
    assert tokens_of(outcome) == [[10, 30, 40, 50], [20, 30, 40, 63]]
    assert [record.preemptions for record in outcome.requests] == [0, 1]
    assert counts(outcome, "preemptions", "recomputed_tokens", "swapped_bytes") == [1, 13, 0]
    assert outcome.counts["mixed_peak_kv_bytes"] == 26_000
    assert in_ms(outcome, "mixed_prefill_ticks", "mixed_decode_ticks", "stall_ticks") == [33, 30, 23]


def test_what_the_prefix_cache_has_is_not_computed_again() -> None:
    # As before, but 4 tokens of each prompt are cached: A 0-6, B 6-12, steps 12-22, 22-32, A 32-42, B's 13 - 4 tokens 42-51.
    outcome = replay(worked("prefill_first", (0, 10, 4, 4), (0, 10, 4, 4), mixed=TIGHT))
    assert tokens_of(outcome) == [[6, 22, 32, 42], [12, 22, 32, 51]]
    assert outcome.counts["recomputed_tokens"] == 9


def test_the_request_taken_last_is_moved_to_the_host_and_back() -> None:
    # As with recompute until 40. B's 13,000 bytes leave in 13 ms, 40-53; A steps 53-63; B comes back 63-76 and steps 76-86.
    outcome = replay(worked("prefill_first", *TWO_SLOW_WRITERS, mixed=TIGHT, policy="swap"))
    assert tokens_of(outcome) == [[10, 30, 40, 63], [20, 30, 40, 86]]
    assert counts(outcome, "preemptions", "recomputed_tokens", "swapped_bytes") == [1, 0, 26_000]
    assert in_ms(outcome, "mixed_prefill_ticks", "mixed_decode_ticks", "mixed_swap_ticks") == [20, 40, 26]


def test_where_nothing_is_preempted_a_request_waits_until_the_whole_of_it_fits() -> None:
    # 10 prompt and 4 output tokens hold 14,000 bytes each from the beginning: one after the other.
    outcome = replay(worked("prefill_first", *TWO_SLOW_WRITERS, mixed=TIGHT, policy="wait"))
    assert tokens_of(outcome) == [[10, 20, 30, 40], [50, 60, 70, 80]]
    assert counts(outcome, "preemptions", "mixed_peak_kv_bytes") == [0, 14_000]


def test_windows_states_and_blocks_take_room() -> None:
    # fixed = 500 + 100*min(10 + 4 + 3, 8) = 1,300; with all of its tokens, before they are given back, 1000*(10 + 4 + 3) more.
    cache = Cache(growth=1000, windows=((100, 8),), state=500, block=4)
    outcome = replay(worked("prefill_first", (0, 10, 4), cache=cache))
    assert outcome.counts["mixed_peak_kv_bytes"] == 18_300


def test_the_pieces_of_two_prompts_share_a_step() -> None:
    # 16 tokens: 10 of A and 6 of B, without anything to decode: 10 + 16 ms. Then A's token and the other 14 of B: 10 + 14.
    outcome = replay(worked("chunked", (0, 10, 2), (0, 20, 1), budget=16))
    assert tokens_of(outcome) == [[26, 50], [50]]
    assert lanes(outcome.requests[0]) == [0, 0, 26, 0, 0, 0, 24, 0]
    assert lanes(outcome.requests[1]) == [0, 0, 50, 0, 0, 0, 0, 0]
    assert in_ms(outcome, "mixed_prefill_ticks", "mixed_decode_ticks") == [30, 20]


def test_prompts_take_longer_beside_decode_only() -> None:
    # The first step has nothing to decode: 26 ms as before. In the second, 14 ms of prompt take half as long again.
    case = worked("chunked", (0, 10, 2), (0, 20, 1), budget=16, penalty=0.5)
    assert tokens(case) == [[26, 57], [57]]


def test_prompts_wait_where_decode_fills_the_budget() -> None:
    # Step 1: A and B, 10 + 2 ms. Two sequences fill the budget of 2, so C waits until they are complete at 22: then 22-33.
    outcome = replay(worked("chunked", (0, 1, 2), (0, 1, 2), (0, 1, 1), budget=2))
    assert tokens_of(outcome) == [[12, 22], [12, 22], [33]]
    assert lanes(outcome.requests[2]) == [0, 22, 11, 0, 0, 0, 0, 0]


def test_a_prompt_begins_only_where_a_slot_is_left_for_it() -> None:
    # Two slots: A and B begin in step 1, 10 + 4 ms; C would be the third. A is complete after it, and B decodes beside C.
    outcome = replay(worked("chunked", (0, 2, 1), (0, 2, 2), (0, 2, 1), budget=16, mixed=replace(WORKER, slots=2)))
    assert tokens_of(outcome) == [[14], [14, 26], [26]]


def test_a_piece_attends_to_what_lies_before_it() -> None:
    # q = 1e-5: a piece of 10 behind 0 takes 10 + 1 ms, one of 10 behind 10 takes 10 + 1e-5*(100 + 200) s = 10 + 3 ms.
    case = worked("chunked", (0, 20, 1), budget=10, mixed=replace(WORKER, q=1e-5))
    assert tokens(case) == [[10 + 11 + 10 + 13]]


def test_a_preempted_part_of_a_prompt_is_lost_and_moved_nowhere() -> None:
    # A, B, C have 1 prompt token and 4, 3, 2 output tokens, D has 2 and 1; 4 tokens a step, 5,000 bytes.
    # 0-14: A, B, C whole and half of D, 5,000 bytes. At 14 they hold 8,000: D goes, which is not enough, then C: out 14-16.
    # 16-26: A and B. They hold 6,000: B out 26-29. 29-39 and 39-49: A alone, complete.
    # B back 49-52, C back 52-54; D would be 7,000. 54-64: B and C, both complete. D from the beginning on: 64-76.
    case = worked("chunked", (0, 1, 4), (0, 1, 3), (0, 1, 2), (0, 2, 1), budget=4, policy="swap")
    outcome = replay(replace(case, mixed=replace(WORKER, memory=5_000)))
    assert tokens_of(outcome) == [[14, 26, 39, 49], [14, 26, 64], [14, 64], [76]]
    assert counts(outcome, "preemptions", "recomputed_tokens", "swapped_bytes") == [3, 2, 2 * (2_000 + 3_000)]
    assert lanes(outcome.requests[3]) == [0, 0, 76, 0, 0, 0, 0, 0]
    assert in_ms(outcome, "mixed_prefill_ticks", "mixed_decode_ticks", "mixed_swap_ticks") == [6, 60, 10]


def test_a_preempted_prompt_is_cut_into_pieces_again() -> None:
    # 10 tokens a step. 0-20: A. 20-39: A's second token beside 9 of B. 39-50: the last one of B. 50-60: both.
    # Then they hold 14,000 + 12,000 bytes: B goes, A 60-70 is complete. B's 10 + 2 tokens: 10 of them 70-90, 2 of them 90-102.
    outcome = replay(worked("chunked", (0, 10, 5), (0, 10, 5), budget=10, mixed=TIGHT))
    assert tokens_of(outcome) == [[20, 39, 50, 60, 70], [50, 60, 102, 112, 122]]
    assert counts(outcome, "preemptions", "recomputed_tokens") == [1, 12]


def test_a_step_reads_what_is_resident_and_grows_with_its_sequences() -> None:
    # 1 ms per resident token: A's steps take 10 + 11 and 10 + 12 ms. With 1,000 tokens/s one sequence adds 1 ms to a step.
    assert tokens(worked("prefill_first", (0, 10, 3), mixed=replace(WORKER, gamma=1e-3))) == [[10, 31, 53]]
    assert tokens(worked("prefill_first", (0, 10, 3), mixed=replace(WORKER, r_d=1e3))) == [[10, 21, 32]]


def test_a_curve_is_flat_before_its_first_point_and_goes_on_after_its_last() -> None:
    curve = ((10.0, 0.020), (20.0, 0.030), (40.0, 0.040))
    times = Times(replace(WORKER, prefill_curve=curve, decode_curve=curve), 10**9)
    assert [times.piece(0, y) / MS for y in (1, 10, 15, 20, 30, 60)] == [20, 20, 25, 30, 35, 50]
    assert [times.base(b) / MS for b in (0, 1, 12)] == [20, 20, 22]


def test_objectives_are_those_of_the_bucket_of_the_prompt() -> None:
    # A has its first token after 10 ms, B, of the other bucket, after 20; the others come 10 ms apart.
    limits = Objectives(
        edges=(15, 1000), ttft=(0.010, 0.019), tpot=(0.0101, 0.0101), e2e=(None, 0.050), stall=0.0099999
    )
    outcome = replay(worked("prefill_first", (0, 10, 3), (100, 20, 3), objectives=limits))
    assert [(r.met_ttft, r.met_tpot, r.met_e2e, r.met_stall) for r in outcome.requests] == [
        (True, True, True, False),
        (False, True, True, False),
    ]
    assert counts(outcome, "met_ttft", "met_tpot", "met_e2e", "met_stall", "met_modeled", "met") == [1, 2, 2, 0, 1, 0]


def test_windows_hold_what_begins_in_them_and_the_worst_one_misses_most() -> None:
    # Windows of 100 ms. B and C come together at 150: B is done at 160, C at 170, later than 15 ms allow.
    limits = Objectives(edges=(1000,), ttft=(0.015,), tpot=(1.0,), e2e=(None,), stall=None)
    four = ((0, 10, 2), (150, 10, 1), (150, 10, 1), (350, 10, 6))
    case = worked("prefill_first", *four, objectives=limits, ceilings=Ceilings(0.2, 0, 0, 0))
    outcome = replay(replace(case, mixed=replace(WORKER, r_d=1e3)), window_ns=100 * MS)
    assert [window["requests"] for window in outcome.windows] == [1, 2, 0, 1]
    assert [window["met"] for window in outcome.windows] == [1, 1, 0, 1]
    # Of a step of one sequence, 11 ms, the 1 ms beyond an empty one counts. D's steps begin at 360, 371, 382, 393; at 404 none.
    assert [window["mixed"] / MS for window in outcome.windows] == [11, 20, 0, 14]
    assert outcome.worst_minute == 1
    assert outcome.windows_above == 1  # 20 of 100 ms; the other pools are not used
    assert replay(worked("prefill_first", *four), window_ns=100 * MS).worst_minute is None


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_random_cases_are_contended(scheduler: str) -> None:
    cases = random_cases(scheduler, 60, seed=3)
    outcomes = [replay(case) for case in cases]
    assert all(outcome.counts["unfinished"] == 0 for outcome in outcomes)
    assert sum(outcome.counts["peak_queue"] > 0 for outcome in outcomes) > 45
    assert sum(outcome.counts["preemptions"] > 0 for outcome in outcomes) > 12
    assert sum(0 < outcome.counts["met"] < outcome.counts["requests"] for outcome in outcomes) > 20
    assert cases == random_cases(scheduler, 60, seed=3)
