"""The separated path token by token, on cases worked by hand. Letters are the requests in order; times are milliseconds."""

from dataclasses import replace

import pytest

from tests.replay.by_step import replay
from tests.replay.worked import MS, WORKER, counts, in_ms, lanes, tokens, tokens_of, worked


def test_a_cache_waits_for_a_link_that_overlap_does_not_free() -> None:
    # A prefills 0-10, arrives at 15, keeps the channel until 30. B prefills 10-20, waits until 30, arrives at 35.
    # A steps 15-25, 25-35; B 35-45.
    outcome = replay(worked("separated", (0, 10, 2), (0, 10, 1), moves=(0.005, 0.020)))
    assert tokens_of(outcome) == [[25, 35], [45]]
    assert lanes(outcome.requests[0]) == [0, 0, 10, 0, 5, 0, 10, 10]
    assert lanes(outcome.requests[1]) == [0, 10, 10, 10, 5, 0, 10, 0]
    assert in_ms(outcome, "link_ticks", "prefill_prefill_ticks", "decode_decode_ticks") == [40, 20, 30]
    assert counts(outcome, "peak_queue", "peak_transfer_queue", "peak_decode_queue") == [1, 1, 0]


@pytest.mark.parametrize(
    ("changes", "last"),
    [
        ({"link_sharing": "shared"}, 55),  # A 10-30, then B 30-50: arrives at 45
        ({"link_sharing": "shared", "channels": 2}, 35),
        ({"link_sharing": "per_prefill_worker"}, 35),
        ({"link_sharing": "per_decode_worker"}, 55),
    ],
)
def test_links_are_shared_by_all_or_by_the_workers_of_a_pool(changes: dict[str, object], last: int) -> None:
    # Two prefill workers end A and B at 10; each transfer takes 15 ms until its cache arrives and 20 on its channel.
    case = worked("separated", (0, 10, 1), (0, 10, 1), moves=(0.015, 0.020), workers_prefill=2, **changes)
    assert tokens(case) == [[35], [last]]


def test_the_first_gap_reaches_from_prefill_to_the_first_decode_step() -> None:
    # A's first token at 10; its cache arrives at 15; steps 15-25, 25-35. B needs one token only, and no transfer.
    case = worked("separated", (0, 10, 3), (0, 10, 1), moves=(0.005, 0.005), first_token_source="prefill")
    outcome = replay(case)
    assert tokens_of(outcome) == [[10, 25, 35], [20]]
    assert lanes(outcome.requests[0]) == [0, 0, 10, 0, 5, 0, 10, 10]
    assert in_ms(outcome, "stall_ticks", "ttft_ticks", "link_ticks") == [15, 10 + 20, 5]
    assert outcome.requests[1].transfer_start is None


@pytest.mark.parametrize(
    ("p", "dispatch", "last"),
    [
        (12, "least_loaded", 43),  # C is prefilled at 32; B is complete, so worker 1, idle: arrives at 33, 33-43
        (
            11,
            "least_loaded",
            51,
        ),  # at 31 prefills end before B does: one request on each, worker 0, whose step lasts until 41
        (12, "round_robin", 51),  # the third request gets worker 0
        (12, "shortest_queue", 43),
    ],
)
def test_a_request_gets_the_decode_worker_with_the_fewest(p: int, dispatch: str, last: int) -> None:
    # One prefill worker: A to decode worker 0 at 10, steps from 11 on until 61; B to worker 1 at 20, step 21-31.
    case = worked("separated", (0, 10, 5), (0, 10, 1), (0, p, 1), workers_decode=2, dispatch=dispatch)
    assert tokens(case) == [[21, 31, 41, 51, 61], [31], [last]]


def test_the_memory_of_a_decode_worker_holds_a_transfer_back() -> None:
    # A holds 10,000 bytes from 10 on, B would hold 15,000 more from 25 on; A is complete at 31.
    outcome = replay(worked("separated", (0, 10, 2), (0, 15, 1), decode=replace(WORKER, memory=24_000)))
    assert tokens_of(outcome) == [[21, 31], [42]]
    assert lanes(outcome.requests[1]) == [0, 10, 15, 6, 1, 0, 10, 0]
    assert counts(outcome, "peak_transfer_queue", "decode_peak_kv_bytes") == [1, 16_000]


def test_a_transfer_waits_for_the_whole_of_a_request_where_nothing_is_preempted() -> None:
    # Whole, A takes 12,000 and B 11,000 bytes of 22,000; what they hold when they come, 20,000, would fit.
    pair = worked("separated", (0, 10, 2), (0, 10, 1), decode=replace(WORKER, memory=22_000))
    assert tokens(pair) == [[21, 31], [31]]  # B arrives at 21
    assert tokens(replace(pair, policy="wait")) == [[21, 31], [42]]


def test_the_memory_of_a_prefill_worker_holds_prefill_back() -> None:
    # A's cache arrives at 15, but its channel is kept until 30, and its 10,000 bytes with it: B's 15,000 do not fit before.
    case = worked("separated", (0, 10, 1), (0, 15, 1), moves=(0.005, 0.020), prefill=replace(WORKER, memory=24_000))
    outcome = replay(case)
    assert lanes(outcome.requests[1]) == [0, 30, 15, 0, 5, 0, 10, 0]
    assert outcome.counts["prefill_peak_kv_bytes"] == 15_000


def test_sequences_wait_for_a_slot_and_hold_memory() -> None:
    # One slot: A steps 11-21, 21-31. B has arrived at 21 and begins at 31; at 31 the worker holds 12,000 + 10,000.
    outcome = replay(worked("separated", (0, 10, 2), (0, 10, 1), decode=replace(WORKER, slots=1)))
    assert tokens_of(outcome) == [[21, 31], [41]]
    assert lanes(outcome.requests[1]) == [0, 10, 10, 0, 1, 10, 10, 0]
    assert counts(outcome, "peak_decode_queue", "decode_peak_kv_bytes") == [1, 22_000]


def test_a_decode_worker_computes_a_preempted_request_again() -> None:
    # Tokens by prefill at 10 and 20. A arrives at 11 and steps 11-21; B arrives at 21, both step 21-31: 13,000 + 12,000 bytes.
    # B goes, A steps 31-41 and is complete. B's 10 + 2 tokens are computed on the decode worker, 41-53; step 53-63.
    pair = worked("separated", (0, 10, 4), (0, 10, 4), first_token_source="prefill")
    outcome = replay(replace(pair, decode=replace(WORKER, memory=24_000)))
    assert tokens_of(outcome) == [[10, 21, 31, 41], [20, 31, 53, 63]]
    assert counts(outcome, "preemptions", "recomputed_tokens") == [1, 12]
    assert in_ms(outcome, "decode_prefill_ticks", "prefill_prefill_ticks", "stall_ticks") == [12, 20, 22]


def test_a_decode_worker_moves_a_preempted_request_out_and_back() -> None:
    # As before until 31: 12,000 bytes leave 31-43, A steps 43-53, they come back 53-65, B steps 65-75 and 75-85.
    pair = worked("separated", (0, 10, 4), (0, 10, 4), first_token_source="prefill", policy="swap")
    outcome = replay(replace(pair, decode=replace(WORKER, memory=24_000)))
    assert tokens_of(outcome) == [[10, 21, 31, 53], [20, 31, 75, 85]]
    assert counts(outcome, "preemptions", "swapped_bytes") == [1, 24_000]
    assert in_ms(outcome, "decode_swap_ticks") == [24]


def test_no_cache_is_sent_to_a_worker_where_a_request_waits_to_return() -> None:
    # As with recompute. C is prefilled 32-33 and its 2,000 bytes would fit beside A's 13,000, but B waits at the worker
    # until 41. Then C is sent while B is computed again, and has its second token in the step that follows, 53-63.
    three = worked("separated", (0, 10, 4), (0, 10, 4), (32, 1, 2), first_token_source="prefill")
    outcome = replay(replace(three, decode=replace(WORKER, memory=24_000)))
    assert tokens_of(outcome)[2] == [33, 63]
    assert lanes(outcome.requests[2]) == [0, 0, 1, 8, 1, 11, 10, 0]


def test_a_long_prompt_is_separated_and_a_short_one_is_not() -> None:
    # A: prefill 0-30, arrives 31, step 31-41. B and C, from 5 on: the first and the second request of the two mixed workers.
    case = worked("routed", (0, 30, 1), (5, 10, 1), (5, 10, 1), threshold=20, workers_mixed=2, dispatch="round_robin")
    outcome = replay(case)
    assert tokens_of(outcome) == [[41], [15], [15]]
    assert [record.number for record in outcome.requests] == [0, 1, 2]
    assert in_ms(outcome, "mixed_prefill_ticks", "prefill_prefill_ticks", "decode_decode_ticks") == [20, 30, 10]
    assert in_ms(outcome, "end_ticks", "ttft_ticks", "link_ticks") == [41, 41 + 10 + 10, 1]
    assert tokens(replace(case, budget=16)) == [[41], [25], [25]]  # chunked: 10 ms more in a step without decode


def test_windows_of_a_separated_path_count_each_pool_and_the_links() -> None:
    # Windows of 20 ms. A: prefill at 0, transfer at 10 (15 ms on its channel), step 25-35 in the second one.
    # B, at 20: prefill 20-30, transfer 30-45, step at 45, after the last window.
    case = worked("separated", (0, 10, 1), (20, 10, 1), moves=(0.015, 0.015))
    outcome = replay(replace(case, decode=replace(WORKER, r_d=1e3)), window_ns=20 * MS)
    assert [(w["prefill"] / MS, w["link"] / MS, w["decode"] / MS) for w in outcome.windows] == [
        (10, 15, 0),
        (10, 15, 1),
    ]
    assert outcome.windows_above == 0
    full = replay(replace(case, ceilings=replace(case.ceilings, link=0.75)), window_ns=20 * MS)
    assert full.windows_above == 2
