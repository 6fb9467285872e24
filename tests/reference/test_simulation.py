"""The simulation against timestamps worked by hand.

A prefill takes 1 s and 1 s per 100 tokens; a decode step 0.1 s and 0.1 s per sequence; a transfer 0.5 s and 1 s per 100 tokens.
"""

from dataclasses import replace

import pytest

from tests.reference.engine import Clock, Costs, Line, Request
from tests.reference.simulation import Layout, Seen, poisson, run

COSTS = Costs(d=1.0, r_p=100.0, t0=0.1, r_d=10.0, transfer=0.5, transfer_token=0.01)


def through(layout: Layout, *requests: tuple[float, int, int], costs: Costs = COSTS) -> Seen:
    """Requests (arrival in s, prompt, output) through a layout."""
    return run(layout, costs, [Request(number, *request) for number, request in enumerate(requests)])


def times(seen: Seen, field: str) -> object:
    """One timestamp (s) of every request, to compare with one worked by hand."""
    return pytest.approx([getattr(request, field) for request in seen.requests], abs=1e-9)


def test_a_prompt_waits_for_the_step_and_then_holds_decoding() -> None:
    seen = through(Layout("aggregated"), (0.0, 100, 3), (2.1, 100, 2), (2.15, 100, 1))
    # 0-2 prefill of 0; 2-2.2 a step of 0; 2.2-4.2 prefill of 1; 4.2-6.2 prefill of 2; 6.2-6.5 a step of 0 and 1
    assert times(seen, "prefill_start") == [0.0, 2.2, 4.2]
    assert times(seen, "first_token") == [2.0, 4.2, 6.2]
    assert times(seen, "decode_start") == [2.0, 6.2, 0.0]
    assert times(seen, "last_token") == [6.5, 6.5, 6.2]
    assert times(seen, "longest_gap") == [4.3, 2.3, 0.0]
    assert seen.ttft == pytest.approx((2.0 + 2.1 + 4.05) / 3)
    assert seen.tpot == pytest.approx((4.5 + 2.3) / 3)
    assert seen.stall == pytest.approx(4.3)
    assert seen.utilization == pytest.approx({"mixed_prefill": 6.0 / 6.5, "mixed_decode": 0.5 / 6.5})


def test_goodput_is_the_share_that_meets_both_objectives() -> None:
    seen = through(Layout("aggregated"), (0.0, 100, 3), (2.1, 100, 2), (2.15, 100, 1))
    # TTFT 2, 2.1, 4.05; TPOT 2.25, 2.3, none
    assert seen.goodput(ttft=2.05, tpot=2.26) == pytest.approx(1 / 3)
    assert seen.goodput(ttft=5.0, tpot=2.26) == pytest.approx(2 / 3)
    assert seen.goodput(ttft=5.0, tpot=2.31) == 1.0


def test_a_prompt_waits_for_a_slot() -> None:
    seen = through(Layout("aggregated"), (0.0, 100, 3), (0.5, 100, 1), costs=replace(COSTS, slots=1))
    # 0-2 prefill of 0; steps to 2.2 and 2.4; only then is a slot free
    assert times(seen, "prefill_start") == [0.0, 2.4]


def test_one_line_feeds_the_worker_that_is_free_first() -> None:
    requests = (0.0, 300, 1), (0.5, 100, 1), (0.6, 100, 1)
    # worker 0 is busy 0-4, worker 1 0.5-2.5
    assert times(through(Layout("aggregated", workers=2), *requests), "prefill_start") == [0.0, 0.5, 2.5]


def test_round_robin_waits_for_its_turn_s_worker() -> None:
    requests = (0.0, 300, 1), (0.5, 100, 1), (0.6, 100, 1)
    seen = through(Layout("aggregated", workers=2, round_robin=True), *requests)
    assert times(seen, "prefill_start") == [0.0, 0.5, 4.0]


@pytest.mark.parametrize(("shortest", "starts"), [(False, [0.0, 2.0, 6.0]), (True, [0.0, 4.0, 2.0])])
def test_discipline(shortest: bool, starts: list[float]) -> None:
    layout = Layout("aggregated", shortest_first=shortest)
    assert starts == times(through(layout, (0.0, 100, 1), (0.5, 300, 1), (0.6, 100, 1)), "prefill_start")


def test_a_step_costs_its_resident_tokens() -> None:
    seen = through(Layout("aggregated"), (0.0, 100, 3), costs=replace(COSTS, gamma=0.001))
    # prefill ends at 2; the first step writes token 101: 0.2 + 0.101; the second token 102: 0.2 + 0.102
    assert times(seen, "last_token") == [2.603]


def test_prefill_computes_what_the_cache_does_not_hold() -> None:
    # 1 + 50/100 + 0.0001 * (100^2 - 50^2)
    assert replace(COSTS, q=0.0001).prefill(Request(0, 0.0, 100, 1, hit=50)) == pytest.approx(2.25)


def test_chunks_of_two_prompts_share_a_step() -> None:
    seen = through(Layout("chunked", budget=100), (0.0, 150, 2), (1.0, 80, 2))
    # 0-2.1: 100 tokens of 0; 2.1-5.2: its last 50 and 50 of 1, 0.1 + 1.5 + 1.5;
    # 5.2-6.7: a token of 0 and the last 30 of 1, 0.2 + 1.3; 6.7-6.9: a token of 1
    assert times(seen, "prefill_start") == [0.0, 2.1]
    assert times(seen, "first_token") == [5.2, 6.7]
    assert times(seen, "last_token") == [6.7, 6.9]
    assert seen.stall == pytest.approx(1.5)


def test_decode_tokens_come_before_prompt_tokens() -> None:
    seen = through(Layout("chunked", budget=2), (0.0, 2, 3), (0.5, 2, 1))
    # 0-1.12: 0 whole; then its token leaves room for one of 1: 1.12-2.33 and 2.33-3.54, 0.2 + 1.01 each
    assert times(seen, "first_token") == [1.12, 3.54]
    assert times(seen, "last_token") == [3.54, 3.54]


def test_prompts_that_have_begun_take_slots() -> None:
    seen = through(Layout("chunked", budget=200), (0.0, 100, 2), (0.5, 100, 1), costs=replace(COSTS, slots=1))
    # 0-2.1: 0; 2.1-2.3: its second token; 2.3: a slot
    assert times(seen, "prefill_start") == [0.0, 2.3]


def test_a_transfer_waits_for_the_channel_and_a_sequence_for_the_step() -> None:
    seen = through(Layout("disaggregated", prefill_workers=2), (0.0, 100, 9), (0.0, 100, 1))
    # both prefilled at 2; transfers 2-3.5 and 3.5-5; steps of 0 end at 3.7, 3.9, .. 4.9, 5.1; then one of both, 0.3
    assert times(seen, "transfer_start") == [2.0, 3.5]
    assert times(seen, "transfer_end") == [3.5, 5.0]
    assert times(seen, "decode_start") == [3.5, 5.1]
    assert times(seen, "first_token") == [3.7, 5.4]
    assert times(seen, "last_token") == [5.4, 5.4]
    assert seen.utilization == pytest.approx({"prefill": 4 / 10.8, "link": 3 / 5.4, "decode": 1.9 / 5.4})


def test_prefill_emits_the_first_token_and_the_transfer_is_the_first_gap() -> None:
    seen = through(Layout("disaggregated", first_token_source="prefill"), (0.0, 100, 2), (0.0, 100, 1))
    # token at 2; transfer 2-3.5; step 3.5-3.7; a request of one token is not moved
    assert times(seen, "first_token") == [2.0, 4.0]
    assert times(seen, "last_token") == [3.7, 4.0]
    assert seen.stall == pytest.approx(1.7)


@pytest.mark.parametrize(("workers", "start"), [(1, 5.1), (2, 5.0)])
def test_a_sequence_joins_the_worker_with_the_fewest(workers: int, start: float) -> None:
    layout = Layout("disaggregated", prefill_workers=2, decode_workers=workers)
    assert through(layout, (0.0, 100, 9), (0.0, 100, 1)).requests[1].decode_start == pytest.approx(start)


def test_a_sequence_waits_for_a_slot_of_the_decode_pool() -> None:
    layout = Layout("disaggregated", prefill_workers=2, channels=2)
    seen = through(layout, (0.0, 100, 3), (0.0, 100, 1), costs=replace(COSTS, slots=1))
    # both there at 3.5; 0 decodes alone until 4.1
    assert times(seen, "decode_start") == [3.5, 4.1]


def test_the_threshold_routes() -> None:
    seen = through(Layout("routed", threshold=100), (0.0, 50, 1), (0.0, 100, 1))
    # 50 tokens: prefill 0-1.5 and done; 100 tokens: prefill 0-2, transfer 2-3.5, step 3.5-3.7
    assert times(seen, "first_token") == [1.5, 3.7]


def test_a_short_path_may_be_chunked() -> None:
    seen = through(Layout("routed", threshold=100, budget=25), (0.0, 50, 1), (0.0, 100, 1))
    # two chunks of 0.1 + 1 + 0.25
    assert times(seen, "first_token") == [2.7, 3.7]


def test_the_clock_keeps_the_order_of_asking() -> None:
    clock, order = Clock(), list[str]()
    for name, time in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        clock.at(time, lambda name=name: order.append(name))  # type: ignore[misc]
    clock.run()
    assert order == ["first", "second", "late"]


def test_equally_short_prompts_keep_their_order() -> None:
    line = Line(shortest_first=True)
    for number, prompt in enumerate((5, 3, 3)):
        line.join(Request(number, 0.0, prompt, 1))
    assert [line.next().number for _ in range(3)] == [1, 2, 0]


def test_poisson_draws_are_those_of_the_seed() -> None:
    one, two = (poisson([(1, 2), (3, 4)], 2.0, 1000, seed) for seed in (5, 5))
    assert one == two
    assert 1000 / one[-1].arrival == pytest.approx(2.0, rel=0.1)
    assert {(request.prompt, request.output) for request in one} == {(1, 2), (3, 4)}
