"""Replays of a few requests, worked by hand tick by tick.

A prompt of 1000 tokens takes 10 + 50 ms, a step 10 ms and 1 ms for each sequence, a token 100 kB, its transfer 0.1 ms; a
transfer takes 3 ms more. Times are in ms unless they are called otherwise.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from pipelines.oracle.cache import Cache, Window
from pipelines.oracle.curves import Curve
from pipelines.oracle.objectives import Objectives
from pipelines.oracle.parameters import Parameters
from pipelines.oracle.replayed_members import worst_minute_of
from pipelines.oracle.replaying_scenarios import Outcome, Service, replay
from pipelines.oracle.requests_file import Row
from pipelines.oracle.scenario import Knobs
from pipelines.oracle.ticking import LAST_TICK, Clock, footprint_of, ticks_per_second, transfer_s
from tests.oracle.example import parameters

MS = 10**6
TICKS_PER_MS = 10**11
TOKEN = 10**5
ONE = Knobs("aggregated", 1)
TWO = Knobs("aggregated", 2)
APART = Knobs("disaggregated", workers_prefill=1, workers_decode=1)


def pieces_of(tokens: int) -> Knobs:
    return Knobs("chunked", 1, chunk_tokens=tokens)


def workers(**changes: Any) -> Parameters:
    return parameters(**{"admission_s": 0.0, **changes})


def run(
    rows: list[Row], knobs: Knobs, objectives: Objectives | None = None, stall_s: float | None = None, **changes: Any
) -> Outcome:
    of = workers(**changes)
    service = Service(of, of, objectives or Objectives({"ttft": 1.0, "tpot": 1.0}), (), stall_s)
    return replay(rows, service, knobs)


def firsts(outcome: Outcome) -> list[float]:
    """When each request has its first token."""
    return [request.first / TICKS_PER_MS for request in outcome.requests]


def lasts(outcome: Outcome) -> list[float]:
    return [request.last / TICKS_PER_MS for request in outcome.requests]


def stalls(outcome: Outcome) -> list[float]:
    return [request.stall / TICKS_PER_MS for request in outcome.requests]


def busy(outcome: Outcome, pool: str = "mixed") -> tuple[float, float, float]:
    """Prefill, decode and swap of a pool."""
    own = outcome.pools()[pool]
    return own.prefill / TICKS_PER_MS, own.decode / TICKS_PER_MS, own.swap / TICKS_PER_MS


def at(*rows: tuple[float, int, int]) -> list[Row]:
    """Requests without hits: arrival, prompt, output tokens."""
    return [(round(arrival * MS), prompt, 0, outputs) for arrival, prompt, outputs in rows]


def test_a_prompt_runs_before_the_next_step() -> None:
    # A is admitted at 2 and has its first token at 62; B came at 32: 62-122. Then both 12, then A alone 11.
    outcome = run(at((0, 1000, 3), (30, 1000, 2)), ONE, admission_s=0.002)
    assert firsts(outcome) == [62, 122]
    assert lasts(outcome) == [145, 134]
    assert stalls(outcome) == [72, 12]
    assert busy(outcome) == (120, 23, 0)
    counts, sums = outcome.counts(), outcome.sums()
    assert (counts["peak_queue"], counts["generation_steps"], counts["output_tokens"]) == (1, 3, 5)
    assert sums["ttft"] == (62 + 92) * TICKS_PER_MS
    assert sums["generation"] == (83 + 12) * TICKS_PER_MS
    assert sums["end"] == 145 * TICKS_PER_MS
    # most is held when the step of both ends: 1002 tokens each
    assert outcome.pools()["mixed"].peak == 2004 * TOKEN


def test_hits_are_not_computed_but_attended_to() -> None:
    # 600 of 1000 cached: 10 + 20 ms, and 1e-8 s for each of 400² + 2·600·400 pairs: 6.4 ms
    outcome = run([(0, 1000, 600, 1)], ONE, prefill_s_per_token2=1e-8)
    assert firsts(outcome) == [36.4]


def test_a_declared_hit_ratio_leaves_a_token_to_compute() -> None:
    of = workers()
    service = Service(of, of, Objectives({}), hit_ratio=1.0)
    assert firsts(replay(at((0, 1000, 1)), service, ONE)) == [10.05]
    assert firsts(replay(at((0, 1001, 1)), replace(service, hit_ratio=0.5), ONE)) == [10 + 501 / 20]


def test_a_request_of_one_token_does_not_decode() -> None:
    outcome = run(at((0, 1000, 1)), ONE)
    assert (busy(outcome), stalls(outcome), outcome.counts()["generation_steps"]) == ((60, 0, 0), [0], 0)


def test_a_step_reads_what_its_sequences_have() -> None:
    # 1 µs a token: prompt and one token, then prompt and two
    outcome = run(at((0, 1000, 3)), ONE, decode_s_per_context_token=1e-6)
    assert lasts(outcome) == [60 + 11 + 1.001 + 11 + 1.002]


def test_slots_are_counted() -> None:
    # B waits until A is complete: 60 and two steps
    assert firsts(run(at((0, 1000, 3), (0, 1000, 1)), ONE, max_sequences=1)) == [60, 142]


def test_what_was_taken_last_is_preempted_and_computed_again() -> None:
    # 120: both have one token, 2002 held of 2003. 132: two each, 2004. B leaves; A alone: 143, 154, 165.
    # Then 1002 tokens of B anew: 10 + 50.1, its third token at 225.1, and two steps.
    outcome = run(at((0, 1000, 5), (0, 1000, 5)), ONE, kv_memory_bytes=2003e5)
    assert firsts(outcome) == [60, 120]
    assert lasts(outcome) == pytest.approx([165, 247.1])
    assert stalls(outcome) == pytest.approx([72, 93.1])
    counts = outcome.counts()
    assert (counts["preemptions"], counts["recomputed_tokens"], outcome.sums()["swapped_bytes"]) == (1, 1002, 0)
    assert outcome.pools()["mixed"].peak == 2004 * TOKEN


def test_what_was_taken_last_is_moved_out_and_back() -> None:
    # 100.2 MB at 1 GB/s: out 132-232.2; A 243.2, 254.2, 265.2; in until 365.4; three steps of 11
    outcome = run(
        at((0, 1000, 5), (0, 1000, 5)),
        ONE,
        kv_memory_bytes=2003e5,
        when_memory_is_full="swap",
        swap_bandwidth_bytes_per_s=1e9,
    )
    assert lasts(outcome) == pytest.approx([265.2, 398.4])
    assert stalls(outcome) == pytest.approx([111.2, 244.4])
    assert busy(outcome) == pytest.approx((120, 12 + 3 * 11 + 3 * 11, 200.4))
    assert (outcome.counts()["recomputed_tokens"], outcome.sums()["swapped_bytes"]) == (0, 2 * 1002 * TOKEN)


def test_what_outlasts_the_clock_counts_until_its_end() -> None:
    # as before, but 100.2 MB at 0.1 B/s: 32 years from 132 ms on, on a clock of 13 hours
    outcome = run(
        at((0, 1000, 5), (0, 1000, 5)),
        ONE,
        kv_memory_bytes=2003e5,
        when_memory_is_full="swap",
        swap_bandwidth_bytes_per_s=0.1,
    )
    own = outcome.pools()["mixed"]
    assert own.swap == LAST_TICK - 132 * TICKS_PER_MS
    assert own.work == {0: LAST_TICK - (132 - 120 - 2) * TICKS_PER_MS}
    assert (outcome.counts()["unfinished"], outcome.sums()["swapped_bytes"]) == (2, 1002 * TOKEN)


def test_of_a_step_that_outlasts_the_clock_decode_counts_first() -> None:
    # A's prompt takes 10 ms and 10.05; beside its second token, 11 ms, a piece of B takes a billion times as long as alone
    outcome = run(at((0, 1, 3), (1, 600, 1)), pieces_of(512), mixed_step_penalty=1e9)
    own = outcome.pools()["mixed"]
    assert (own.decode, own.prefill) == (21 * TICKS_PER_MS, LAST_TICK - 21 * TICKS_PER_MS)
    # decode that is never over leaves nothing for the piece, nor is any of it beyond a step without sequences
    outcome = run(at((0, 1000, 1)), pieces_of(512), step_overhead_s=1e300)
    own = outcome.pools()["mixed"]
    assert (own.decode, own.prefill, own.work) == (LAST_TICK, 0, {0: 0})


def test_a_transfer_that_outlasts_the_clock_keeps_its_channel_until_its_end() -> None:
    outcome = run(at((0, 1000, 2), (0, 1000, 2)), APART, bandwidth_bytes_per_s=1e-300)
    moving = outcome.moving
    assert moving is not None
    assert moving.links is not None
    assert moving.links.prefill == LAST_TICK - 60 * TICKS_PER_MS
    assert (outcome.counts()["unfinished"], moving.peak_transfers) == (2, 1)


def test_what_waits_for_all_of_its_memory_is_never_preempted() -> None:
    # 1005 tokens each: B after A's 60 and four steps
    outcome = run(at((0, 1000, 5), (0, 1000, 5)), ONE, kv_memory_bytes=2003e5, when_memory_is_full="wait")
    assert (firsts(outcome), lasts(outcome)) == ([60, 164], [104, 208])
    assert (outcome.counts()["preemptions"], outcome.pools()["mixed"].peak) == (0, 1005 * TOKEN)


def test_the_head_of_the_line_is_waited_for() -> None:
    # the long prompt does not fit beside the first, and the short one behind it is not looked at
    outcome = run(at((0, 1000, 3), (1, 1500, 1), (2, 100, 1)), ONE, kv_memory_bytes=2200e5)
    assert firsts(outcome) == [60, 82 + 85, 82 + 85 + 15]


def test_dispatch() -> None:
    rows = at((0, 3000, 1), (1, 1000, 1), (2, 1000, 1), (3, 1000, 1))
    assert firsts(run(rows, TWO)) == [160, 61, 121, 181]
    # by turns: A and C on the first, B and D on the second
    assert firsts(run(rows, TWO, round_robin=True)) == [160, 61, 220, 121]
    # of C both have one, so the first; of D the second has fewer
    assert firsts(run(rows, TWO, shortest_queue=True)) == [160, 61, 220, 121]
    # of E at 100, D runs on the second and A and C are at the first
    later = [*rows, *at((100, 1000, 1), (101, 1000, 1))]
    assert firsts(run(later, TWO, shortest_queue=True))[4:] == [181, 280]


def test_shortest_first_goes_by_uncached_tokens() -> None:
    rows: list[Row] = [(0, 1000, 0, 1), (1, 1000, 0, 1), (2, 2000, 1500, 1), (3, 600, 100, 1)]
    assert firsts(run(rows, ONE)) == [60, 120, 155, 190]
    assert firsts(run(rows, ONE, shortest_first=True)) == [60, 190, 95, 130]


def test_a_prompt_in_pieces_beside_decode_tokens() -> None:
    # A: 10 + 35.6, then 10 + 34.4; B came at 50, its 511 tokens beside A's second: 11 + 1.5·35.55; then 10 + 14.45
    outcome = run(at((0, 1000, 2), (50, 600, 1)), pieces_of(512), mixed_step_penalty=0.5)
    assert firsts(outcome) == pytest.approx([90, 178.775])
    assert lasts(outcome) == pytest.approx([154.325, 178.775])
    assert busy(outcome) == pytest.approx((35.6 + 34.4 + 53.325 + 14.45, 41, 0))


def test_prompts_share_a_step() -> None:
    # 10 + 2·15; of the third the 312 tokens that are left: 10 + 15.6 more
    outcome = run(at((0, 100, 1), (0, 100, 1), (0, 1000, 1)), pieces_of(512))
    assert firsts(outcome) == pytest.approx([65.6, 65.6, 65.6 + 10 + 10 + 25.6 + 10 + 10 + 8.8])


def test_decode_tokens_come_first() -> None:
    # with a budget of one token B's prompt waits until A has decoded: 10 + 10.05 for A's, 11 each, then B's
    outcome = run(at((0, 1, 3), (1, 1, 1)), pieces_of(1))
    assert firsts(outcome) == pytest.approx([20.05, 20.05 + 22 + 20.05])


def test_a_partial_prompt_that_is_preempted_begins_anew() -> None:
    # A holds 100 tokens, B 300 from its first piece on, 401 with A's first token; at 402 of 401 B leaves
    outcome = run(at((0, 100, 4), (1, 300, 1)), pieces_of(101), kv_memory_bytes=401e5)
    # A: 10 + 15 = 25. Beside its second token 100 of B: 11 + 15 = 51; 402 are held: B leaves. A: 62, 73. B: 4 pieces
    assert lasts(outcome)[0] == pytest.approx(73)
    counts = outcome.counts()
    assert (counts["preemptions"], counts["recomputed_tokens"]) == (1, 300)
    assert firsts(outcome)[1] == pytest.approx(73 + 3 * 10 + 3 * 10 + 15)


def test_a_cache_moves_to_the_decode_pool() -> None:
    # A: prefill until 60, transfer until 163, steps until 174 and 185. B: until 120, the link at 163, 266, 277, 288
    outcome = run(at((0, 1000, 2), (0, 1000, 2)), APART)
    assert (firsts(outcome), lasts(outcome)) == ([174, 277], [185, 288])
    moving = outcome.moving
    assert moving is not None
    assert moving.links is not None
    assert moving.links.prefill == 206 * TICKS_PER_MS
    assert (moving.peak_queue, moving.peak_transfers, moving.peak_arrived) == (1, 1, 0)
    assert (busy(outcome, "prefill"), busy(outcome, "decode")) == ((120, 0, 0), (0, 44, 0))
    # the prefill worker still holds A when B's prompt ends; the decode worker never both beyond a step's end
    assert outcome.pools()["prefill"].peak == 2000 * TOKEN
    assert outcome.pools()["decode"].peak == (1002 + 1000) * TOKEN


def test_prefill_may_emit_the_first_token() -> None:
    outcome = run(at((0, 1000, 2), (0, 1000, 1)), APART, decode_emits_first_token=False)
    assert (firsts(outcome), lasts(outcome), stalls(outcome)) == ([60, 120], [174, 120], [114, 0])


def test_streaming_hides_the_payload_but_keeps_the_channel() -> None:
    # h_x of 5 ms: T = 108, of which 50 are hidden: 118 and a step; the channel is kept until 163
    outcome = run(at((0, 1000, 1), (0, 1000, 1)), APART, overlap=0.5, handover_s=0.005)
    assert firsts(outcome) == [129, 163 + 58 + 11]


def test_prefill_memory_is_kept_until_the_transfer_is_over() -> None:
    outcome = run(at((0, 1000, 1), (0, 1000, 1)), APART, kv_memory_prefill_bytes=1500e5)
    assert firsts(outcome) == [174, 163 + 60 + 103 + 11]


def test_a_prefill_worker_is_asked_again_when_another_took_the_head() -> None:
    # 2000 tokens fit. A (1900) runs on the first until 105 and moves until 298, B (900) on the second until 55 and 148.
    # Then the second takes C (1200), which fits neither beside A nor beside B; D (100) fits beside A at once.
    pools = Knobs("disaggregated", workers_prefill=2, workers_decode=1)
    rows = at((0, 1900, 2), (0, 900, 2), (1, 1200, 2), (2, 100, 2))
    memory = {"kv_memory_prefill_bytes": 2000e5, "kv_memory_bytes": 1e12, "links": 4, "decode_emits_first_token": False}
    assert firsts(run(rows, pools, **memory)) == [105, 55, 148 + 70, 148 + 15]


def test_a_transfer_waits_for_room() -> None:
    # room for 1500 tokens: B's cache leaves when A is complete, at 163 + 22
    outcome = run(at((0, 1000, 2), (0, 1000, 1)), APART, kv_memory_bytes=1500e5, kv_memory_prefill_bytes=1e10)
    assert firsts(outcome) == [174, 185 + 103 + 11]


def test_links_of_each_worker() -> None:
    pools = Knobs("disaggregated", workers_prefill=1, workers_decode=2)
    rows = at((0, 1000, 1), (0, 1000, 1))
    # B goes to the other decode worker: it has fewer
    assert firsts(run(rows, pools)) == [174, 277]
    assert firsts(run(rows, pools, link_sharing="per_decode_worker")) == [174, 120 + 103 + 11]
    assert firsts(run(rows, pools, link_sharing="per_prefill_worker")) == [174, 277]


def test_a_decode_worker_computes_again_what_it_preempted() -> None:
    # two channels; 163: A's, 223: B's cache. A has a token at 174, 185, … 229; B joins then. 2008 fit.
    outcome = run(at((0, 1000, 12), (0, 1000, 3)), APART, links=2, kv_memory_bytes=2008e5, kv_memory_prefill_bytes=1e10)
    # 229: A has 6 tokens, 2006 are held; 241: 7 and 1, 2008; 253: 8 and 2, 2010 are too many: B leaves.
    # A: 264, 275, 286, 297. Then 1002 tokens of B: 60.1 ms, and it is complete.
    assert lasts(outcome) == pytest.approx([297, 357.1])
    assert (outcome.counts()["preemptions"], outcome.counts()["recomputed_tokens"]) == (1, 1002)
    assert busy(outcome, "decode")[0] == pytest.approx(60.1)


def test_prompts_are_routed_by_length() -> None:
    outcome = run(at((0, 1000, 2), (0, 3000, 1), (1, 999, 1)), Knobs("routed", 1, 1, 1, threshold_tokens=2000))
    # A 60; C behind it 59.95 more; A's step. B: 160, 303 more, a step
    assert firsts(outcome) == [60, 474, 119.95]
    assert list(outcome.pools()) == ["mixed", "prefill", "decode"]
    assert outcome.counts()["requests"] == 3


def test_what_meets_what() -> None:
    # A: TTFT 160. B: 219, then two steps of 11, a stall of 11
    rows = at((0, 3000, 1), (1, 1000, 3))
    promised = Objectives({"ttft": 0.2, "tpot": 0.011, "e2e": 0.241}, ((2000, {"ttft": 0.219}),))
    of = workers()
    outcome = replay(rows, Service(of, of, promised, (2000,), 0.01), ONE)
    assert [outcome.met_by(request) for request in outcome.requests] == [(True,) * 4, (True, True, True, False)]
    counts = outcome.counts()
    assert (counts["met"], counts["met_modeled"], counts["met_tokens"], counts["met_stall"]) == (1, 2, 1, 1)
    assert outcome.windows() == {0: (2, 1)}
    assert worst_minute_of(outcome) == {"minute": 0, "requests": 2, "met": 1}
    tighter = Objectives(promised.of_all, ((2000, {"ttft": 0.2189}),))
    assert replay(rows, Service(of, of, tighter, (2000,)), ONE).counts()["met_ttft"] == 1


def test_windows_are_those_of_arrivals() -> None:
    # in the first minute 50 s of prefill of the first and 3 s of the next, which begins there
    rows = at((0, 1_000_000, 1), (59_000, 60_000, 1), (61_000, 100, 1), (180_000, 100, 2))
    outcome = run(rows, ONE, Objectives({"ttft": 4.0}), kv_memory_bytes=1e12, prefill_ceiling=0.884)
    assert outcome.windows() == {0: (2, 1), 1: (1, 1), 3: (1, 1)}
    assert worst_minute_of(outcome) == {"minute": 0, "requests": 2, "met": 1}
    # 50.01 + 3.01 s of 60; of the last window a step of 11 ms counts 1
    own = outcome.pools()["mixed"]
    assert own.work == {0: 53_020 * TICKS_PER_MS, 1: 15 * TICKS_PER_MS, 3: 16 * TICKS_PER_MS}
    assert outcome.windows_above() == 0
    assert run(rows, ONE, kv_memory_bytes=1e12, prefill_ceiling=0.8836).windows_above() == 1


def test_ticks_of_a_second() -> None:
    assert ticks_per_second(9028 * 10**9) == 10**14
    assert ticks_per_second(9030 * 10**9) == 10**13
    assert ticks_per_second(10**8 * 10**9) == 10**10


def test_memory_of_windows_is_bounded_by_kind_alone() -> None:
    cache = Cache(100.4, (Window(64, 10.6, 1),), 7.0)
    uniform = footprint_of(workers(cache=cache, block_tokens=16))
    assert uniform.prompt(1000, 10) == 7 + 111 * 1015
    bounded = footprint_of(workers(cache=cache, block_tokens=16, by_kind=True))
    assert bounded.prompt(1000, 10) == 7 + 11 * 64 + 100 * 1015
    assert bounded.complete(10, 5) == 7 + 11 * 30 + 100 * 30


def test_curves_are_followed_as_they_are_written() -> None:
    curve = Curve(((100.0, 0.02), (1000.0, 0.06)))
    clock = Clock(workers(prefill_curve=curve, decode_curve=Curve(((1.0, 0.01), (3.0, 0.02)))), 10**14)
    assert clock.prompt(0, 50) == 20 * TICKS_PER_MS
    assert clock.prompt(0, 550) == 40 * TICKS_PER_MS
    assert [clock.base(b) / TICKS_PER_MS for b in range(4)] == [10, 10, 15, 20]


def test_transfers_are_of_whole_blocks() -> None:
    assert transfer_s(workers(block_tokens=64), 1000.0) == (0.003 + 0.1024, 0.1024)
    assert transfer_s(workers(block_tokens=64, prefix_at_destination=0.5), 900.0)[1] == 0.096


LAYOUTS = [
    ONE,
    Knobs("aggregated", 3),
    Knobs("chunked", 2, chunk_tokens=300),
    Knobs("disaggregated", workers_prefill=2, workers_decode=2),
    Knobs("routed", 1, 1, 2, threshold_tokens=700),
    Knobs("routed", 1, 2, 1, chunk_tokens=200, threshold_tokens=900),
]


@pytest.mark.parametrize("policy", ["recompute", "swap", "wait"])
@pytest.mark.parametrize("knobs", LAYOUTS, ids=lambda knobs: knobs.name)
def test_everybody_is_served_whatever_is_full(knobs: Knobs, policy: str) -> None:
    """Little memory, all dispatches and disciplines: every token comes, and no lane is negative."""
    dice = random.Random(f"{knobs.name} {policy}")
    for dispatch in ({}, {"round_robin": True}, {"shortest_queue": True}):
        rows = sorted(
            (dice.randrange(4000) * MS, p := dice.randrange(1, 1500), dice.randrange(p), dice.randrange(1, 60))
            for _ in range(60)
        )
        rows = [(arrival - rows[0][0], *rest) for arrival, *rest in rows]  # type: ignore[misc]
        outcome = run(
            rows,
            knobs,
            **dispatch,
            kv_memory_bytes=1700e5,
            kv_memory_prefill_bytes=1700e5,
            when_memory_is_full=policy,
            swap_bandwidth_bytes_per_s=2e10,
            shortest_first=dice.random() < 0.5,
            decode_emits_first_token=dice.random() < 0.5,
            max_sequences=dice.choice([2, 64]),
        )
        counts = outcome.counts()
        assert (counts["requests"], counts["unfinished"]) == (60, 0)
        assert counts["output_tokens"] == sum(o for *_, o in rows)
        assert all(request.arrival < request.first <= request.last for request in outcome.requests)
        if policy == "wait":
            assert counts["preemptions"] == 0
