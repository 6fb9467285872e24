"""Sections 5 to 7 of docs/arithmetic.md on the example workload, worked by hand.

Two requests a second. Prefill takes 0.06 s or 0.16 s: 0.11 s on average, second moment 0.0146 s².
"""

import math
from dataclasses import replace

import pytest

from pipelines.oracle.chunking import Arriving, chunks, full_step_s
from pipelines.oracle.parameters import Setting
from pipelines.oracle.pieces import chunks_of
from pipelines.oracle.queues import Pool
from pipelines.oracle.scenario import Evaluation, Figures, Knobs, Refusal, goodput
from pipelines.oracle.topologies import evaluate
from tests.oracle import by_hand
from tests.oracle.example import CACHED, EXAMPLE, LONG, MEMORY, SHORT, WHOLE, parameters, setting, with_whole

PREFILL_QUEUE = 2 * 0.0146 / (2 * (1 - 0.22))
"""One worker, Poisson arrivals: rate x E[S²] / (2 (1 - rho)), with rho = 2 x 0.11."""


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-12, abs=1e-18)


def evaluated(of: Setting, knobs: Knobs) -> tuple[Evaluation, Figures]:
    evaluation = evaluate(of, EXAMPLE, knobs)
    assert evaluation.refusal is None
    assert evaluation.figures is not None
    return evaluation, evaluation.figures


def refused(of: Setting, knobs: Knobs) -> tuple[Evaluation, Refusal]:
    evaluation = evaluate(of, EXAMPLE, knobs)
    assert evaluation.figures is None
    assert evaluation.refusal is not None
    return evaluation, evaluation.refusal


class TestAggregated:
    """rho_p = 0.22; 40 decode tokens a second at 1 ms: rho_d = 0.04, kappa_0 = 0.04/0.78, r_0 = 0.011/0.001."""

    KNOBS = Knobs("aggregated", 1)
    KAPPA = 0.04 / 0.78
    REST = (1 - (1 - KAPPA) ** 11) * 0.78 * (0.011 / 0.74) / 2
    BEHIND = 2 * (PREFILL_QUEUE + REST + 0.11) / 0.78
    """Prompts that run between a request's own prefill and its first decode step."""
    WAIT = 0.11 * BEHIND
    STEP = (0.01 + 0.001 * (1 + BEHIND)) / 0.74
    BATCH = 40 * STEP

    def test_loads(self) -> None:
        evaluation, figures = evaluated(setting(), self.KNOBS)
        loads = {load.resource: load.utilization for load in evaluation.loads}
        # E[p S] = (1000 x 0.06 + 3000 x 0.16)/2 = 270; PD + D2/2 = 40250
        resident = 1e5 * 2 * (270 + 2000 * self.WAIT + self.STEP * 40250)
        assert loads == close_all({"mixed": 0.26, "slots_mixed": self.BATCH / 64, "kv_mixed": resident / MEMORY})
        assert figures.decode_batch == close(self.BATCH)
        assert (evaluation.tightest, evaluation.pressure) == ("mixed", close(0.26 / 0.8))

    def test_lanes_of_the_long_bucket(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        long = figures.timelines[1]
        wait, step = PREFILL_QUEUE + self.REST, self.STEP
        # 20 tokens follow the first; slots: (0.6/64)^10.4 is nothing
        assert long.lanes == close_all((0.002, wait, 0.16, 0, 0, self.WAIT, 0.78 * step, 19 * step))
        assert long.ttft_s == close(0.002 + wait + 0.16)
        assert long.tpot_s == close((self.WAIT + 19.78 * step) / 20)
        assert (figures.dominant_queue, figures.transfer_worst_s) == ("decode", None)

    def test_a_run_of_prompts_stalls(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        step = 0.01 + 0.001 * by_hand.most_sequences(self.KAPPA, 11, by_hand.LN_4)
        assert figures.stall_s == close(by_hand.run_s(by_hand.LN_4, 2, 0.11, 0.0146, 0.16, step))

    def test_the_shortest_prompt_goes_first(self) -> None:
        # sigma = 0.06, 0.22: 0.78/0.94 and 1/0.94 of the wait, 0.8872 on average; what is saved is waited afterwards
        _, figures = evaluated(setting(shortest_first=True), self.KNOBS)
        short, long = (0.78 / 0.94, 1 / 0.94)
        saved = (PREFILL_QUEUE + self.REST) * (1 - (short + long) / 2)
        waits = [(PREFILL_QUEUE + self.REST) * order for order in (short, long)]
        assert [line.lanes[1] for line in figures.timelines] == close_all(waits)
        assert [line.lanes[5] for line in figures.timelines] == close_all([self.WAIT + saved] * 2)

    def test_goodput_keeps_the_distribution_of_the_prefill_queue(self) -> None:
        # 1 ms is left for the queue of the long prompts, which is empty with probability 1 - 0.22
        of = setting(ttft=0.002 + self.REST + 0.16 + 0.001, tpot=1e6)
        _, figures = evaluated(of, self.KNOBS)
        late = [0.22 * math.exp(-0.22 * slack / PREFILL_QUEUE) for slack in (0.101, 0.001)]
        assert goodput(of.objectives, figures) == pytest.approx(1 - sum(late) / 2, rel=1e-9)

    def test_goodput_of_the_pace(self) -> None:
        # 10 or 30 steps: a wait, and what steps take beyond a single sequence's
        of = setting(ttft=1e6, tpot=0.02)
        _, figures = evaluated(of, self.KNOBS)
        waiting = 0.22 + 2 * self.REST
        met = []
        for steps in (10, 30):
            mean = self.WAIT + steps * (self.STEP - 0.011)
            x = steps / 20 * (1 - self.KAPPA)
            around = (steps * 0.001 / 0.78) ** 2 * self.BATCH / (1 - self.KAPPA) * 2 * (x - 1 + math.exp(-x)) / x**2
            interrupted = steps * 0.78 * self.STEP * 2 * 0.0146 / 0.78**3
            spread = (self.WAIT**2 * (2 / waiting - 1) + interrupted + around) / mean**2
            assert spread > 1
            some = 2 / (1 + spread)
            met.append(1 - some * math.exp(-some * steps * 0.009 / mean))
        assert goodput(of.objectives, figures) == pytest.approx(sum(met) / 2, rel=1e-9)

    def test_cached_tokens_are_not_computed_but_are_resident(self) -> None:
        # u = 400, 1200: S = 0.03, 0.07, second moment 0.0029; E[p S] = (1000 x 0.03 + 3000 x 0.07)/2 = 120; rho_p = 0.1
        evaluation = evaluate(setting(), with_whole(CACHED), self.KNOBS)
        assert evaluation.figures is not None
        rest = (1 - (1 - 0.04 / 0.9) ** 11) * 0.9 * (0.011 / 0.86) / 2
        behind = 2 * (0.0029 / 0.9 + rest + 0.05) / 0.9
        step = (0.011 + 0.001 * behind) / 0.86
        loads = {load.resource: load.utilization for load in evaluation.loads}
        resident = 1e5 * 2 * (120 + 2000 * 0.05 * behind + step * 40250)
        assert loads == close_all({"mixed": 0.14, "slots_mixed": 40 * step / 64, "kv_mixed": resident / MEMORY})

    def test_the_first_load_at_its_ceiling_refuses_and_ends_the_list(self) -> None:
        evaluation, refusal = refused(setting(prefill_ceiling=0.26), self.KNOBS)
        assert (refusal.kind, refusal.resource, refusal.limit) == ("utilization", "mixed", 0.26)
        assert [load.resource for load in evaluation.loads] == ["mixed"]

    def test_memory_refuses_at_its_size(self) -> None:
        # 2 sequences fit and 0.9 decode, but prompts that are prefilled and wait hold more
        evaluation, refusal = refused(setting(kv_memory_bytes=4e8, prefill_tokens_per_s=8000.0), self.KNOBS)
        assert (refusal.kind, refusal.resource, refusal.limit) == ("kv_memory", "kv_mixed", 1.0)
        assert [load.resource for load in evaluation.loads] == ["mixed", "slots_mixed", "kv_mixed"]


class TestBatchCap:
    """A decoding sequence holds 2012.5 tokens of 100 kB, 201.25 MB."""

    def test_memory_caps_the_batch(self) -> None:
        # 805 MB hold 4 sequences: the slots of a worker, with their own queue
        step, batch = TestAggregated.STEP, TestAggregated.BATCH
        evaluation, figures = evaluated(setting(kv_memory_bytes=4 * 201.25e6), TestAggregated.KNOBS)
        assert evaluation.loads[1].utilization == close(batch / 4)
        busy = (batch / 4) ** (math.sqrt(10) - 1)
        # H = 20 t, cH² = 500/400 - 1
        slots = 1.25 / 2 * busy / (4 * (1 - batch / 4)) * 20 * step
        assert figures.timelines[0].lanes[1] == close(PREFILL_QUEUE + TestAggregated.REST + slots)

    def test_a_batch_that_memory_caps_is_refused_for_memory(self) -> None:
        # room for 1.1 sequences, and 0.56 decode on average: half of them, with a ceiling of 0.5
        of = setting(kv_memory_bytes=1.1 * 201.25e6, decode_ceiling=0.5)
        _, refusal = refused(of, TestAggregated.KNOBS)
        assert (refusal.kind, refusal.resource, refusal.limit) == ("kv_memory", "slots_mixed", 0.5)
        assert refusal.figure == close(TestAggregated.BATCH / 1.1)

    @pytest.mark.parametrize("knobs", [TestAggregated.KNOBS, Knobs("chunked", 1, chunk_tokens=500),
                                       Knobs("disaggregated", workers_prefill=1, workers_decode=1)])  # fmt: skip
    def test_a_sequence_that_does_not_fit_refuses_whatever_the_load(self, knobs: Knobs) -> None:
        held, slots = (2012.5, "slots_mixed") if knobs.workers_mixed else (42270.5 / 21, "slots_decode")
        _, refusal = refused(setting(kv_memory_bytes=0.8 * held * 1e5), knobs)
        assert (refusal.kind, refusal.resource, refusal.figure) == ("kv_memory", slots, close(1 / 0.8))


class TestChunked:
    """A budget of 500 tokens, of which decode takes about one: 3 and 7 pieces; rho_pc = 2 (0.05 + 0.1) = 0.3."""

    KNOBS = Knobs("chunked", 1, chunk_tokens=500)
    END = by_hand.chunked(2.0, 500.0)

    def test_the_passes_settle(self) -> None:
        end = chunks(parameters(), EXAMPLE.requests, 500).settle(Arriving(Pool(1), 2.0, 1.0))
        own = self.END
        assert own.counts == (3, 7)
        assert (end.rho, end.pace_s, end.batch, end.room, end.decode_wait_s) == close_all(
            (0.34, own.pace, own.batch, 500 - own.batch, own.wait)
        )

    def test_loads(self) -> None:
        evaluation, _ = evaluated(setting(), self.KNOBS)
        loads = {load.resource: load.utilization for load in evaluation.loads}
        own, (short, long) = self.END, self.END.executions
        resident = 1e5 * 2 * ((1000 * short + 3000 * long) / 2 + 2000 * own.wait + own.pace * 40250) / MEMORY
        expected = {"mixed": 0.34, "prefill_lane": own.lane, "slots_mixed": own.batch / 64, "kv_mixed": resident}
        assert loads == close_all(expected)

    def test_lanes_of_the_short_bucket(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        own = self.END
        # f(C') - f(1) is the time of the tokens but one
        wait = own.prefill_wait(2.0, (499 - own.batch) / 20000)
        expected = (0.002, wait, own.executions[0], 0, 0, own.wait, own.pace, 19 * own.pace)
        assert figures.timelines[0].lanes == close_all(expected)

    def test_a_full_step_of_several_prompts_stalls(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        own, log_n = self.END, by_hand.LN_4
        most = by_hand.most_sequences(0.04 / 0.7, 11, log_n)
        longest = max(0.001 * (most - own.batch), by_hand.longer_step_s(own.batch, 0.001, log_n))
        came = 2 * (0.01 + 0.001 * most + 0.035)
        others = by_hand.halved(lambda k: k * math.log(k / came) - k + came - log_n, came, 1e3)
        pieces = (others + 1) * (0.01 + 1 / 20000) + 0.035
        assert figures.stall_s == close(own.step + longest + pieces)

    def test_the_last_piece_is_the_dearest(self) -> None:
        # tokens 2501 to 3000: 500/20000 + 1e-8 (9e6 - 6.25e6); with another prompt's token, 10 ms and 50 us more
        of = parameters(prefill_s_per_token2=1e-8)
        assert full_step_s(of, 3000, (500, 1, 500)) == close(0.01 + 0.025 + 0.0275)
        assert full_step_s(parameters(), 3000, (3000, 2, 3000)) == close(0.16 + 0.01005)

    def test_a_prompt_takes_a_step_even_if_nothing_is_left_to_compute(self) -> None:
        assert chunks_of(0.0, 499.0) == 1
        assert [chunks_of(u, 500.0) for u in (1, 500, 501)] == [1, 1, 2]

    def test_a_budget_that_decode_fills_starves_prefill(self) -> None:
        # 40 tokens/s x 0.5/0.78 s: about 26 sequences decode, and 16 tokens of budget have no room
        slow = setting(step_overhead_s=0.5, prefill_overhead_s=0.0)
        evaluation, refusal = refused(slow, Knobs("chunked", 1, chunk_tokens=16))
        assert (refusal.kind, refusal.resource, refusal.limit) == ("prefill_starved", "prefill_lane", 1.0)
        assert refusal.figure < 1
        assert [load.resource for load in evaluation.loads] == ["mixed"]

    def test_passes_that_reach_full_load_are_refused_by_the_pool(self) -> None:
        # 63 and 188 chunks of 10 ms each, 2 a second: rho_pc = 2 (1.255 + 0.1)
        _, refusal = refused(setting(), Knobs("chunked", 1, chunk_tokens=16))
        assert (refusal.kind, refusal.resource) == ("utilization", "mixed")
        assert refusal.figure == close(2 * (0.01 * (63 + 188) / 2 + 0.1) + 0.04)

    def test_a_slow_lane_starves(self) -> None:
        # each of 11 and 31 chunks waits for a step of 40 ms: the lane is full although the pool is not
        _, refusal = refused(setting(step_overhead_s=0.03), Knobs("chunked", 1, chunk_tokens=100))
        assert (refusal.kind, refusal.resource, refusal.limit) == ("prefill_starved", "prefill_lane", 0.8)


class TestDisaggregated:
    """42 decode tokens a second: rho_d = 0.042; t = 0.011/(1 - 0.042). Transfers take 0.103 s and 0.303 s: rho_l = 0.406."""

    KNOBS = Knobs("disaggregated", workers_prefill=1, workers_decode=1)
    STEP = 0.011 / 0.958
    BATCH = 42 * STEP
    LINK = (0.103**2 + 0.303**2) / (2 * (1 - 0.406))

    def rest(self, kappa: float, step: float) -> float:
        return (1 - (1 - kappa) ** 11) * step / 2

    def longest_step(self, kappa: float, step: float) -> float:
        batch, log_n = 1000 * kappa * step, by_hand.LN_4
        more = 0.001 * (by_hand.most_sequences(kappa, 11, log_n) - batch)
        return 0.01 + 0.001 * batch + max(more, by_hand.longer_step_s(batch, 0.001, log_n))

    def test_loads(self) -> None:
        evaluation, _ = evaluated(setting(), self.KNOBS)
        loads = {load.resource: load.utilization for load in evaluation.loads}
        # p x W_l + E[p T]; E[p T] = (1000 x 0.103 + 3000 x 0.303)/2 = 506; PD + D2/2 = 42000 + 270.5
        moving = 2000 * self.LINK + 506
        prefill = 1e5 * 2 * (270 + moving) / MEMORY
        decode = 1e5 * 2 * (moving + 2000 * self.rest(0.042, self.STEP) + self.STEP * 42270.5) / MEMORY
        staging = 2 * (self.LINK + 0.203) / (64 - self.BATCH)
        assert loads == close_all(
            {"prefill": 0.22, "decode": 0.042, "link": 0.406, "slots_decode": self.BATCH / 64, "kv_prefill": prefill,
             "kv_decode": decode, "staging": staging}
        )  # fmt: skip

    def test_lanes_when_decode_emits_the_first_token(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        long = figures.timelines[1]
        wait = self.rest(0.042, self.STEP)
        assert long.lanes == close_all((0.002, PREFILL_QUEUE, 0.16, self.LINK, 0.303, wait, self.STEP, 20 * self.STEP))
        assert long.ttft_s == close(0.002 + PREFILL_QUEUE + 0.16 + self.LINK + 0.303 + wait + self.STEP)
        assert long.tpot_s == close(self.STEP)
        assert figures.transfer_worst_s == close(self.LINK + 0.303)
        assert (figures.stall_s, figures.dominant_queue) == (close(self.longest_step(0.042, self.STEP)), "transfer")
        assert figures.paths[0].firsts().queue.mean_s == close(self.LINK)

    def test_lanes_when_prefill_emits_the_first_token(self) -> None:
        of = setting(decode_emits_first_token=False)
        _, figures = evaluated(of, self.KNOBS)
        long = figures.timelines[1]
        step = 0.011 / 0.96
        wait = self.rest(0.04, step)
        assert long.lanes == close_all((0.002, PREFILL_QUEUE, 0.16, self.LINK, 0.303, wait, step, 19 * step))
        assert long.ttft_s == close(0.002 + PREFILL_QUEUE + 0.16)
        assert long.tpot_s == close((self.LINK + 0.303 + wait + 20 * step) / 20)
        run = by_hand.run_s(by_hand.LN_4, 2, 0.203, (0.103**2 + 0.303**2) / 2, 0.303, 0.0)
        assert figures.stall_s == close(run + 0.303 + 2 * self.longest_step(0.04, step))
        assert figures.paths[0].firsts().queue.mean_s == close(PREFILL_QUEUE)

    def test_overlap_hides_payload_but_not_more_than_prefill(self) -> None:
        # half of the payload is 0.05 s and 0.15 s, less than prefill; all of it, 0.1 s and 0.3 s, is more
        half = evaluated(setting(overlap=0.5), self.KNOBS)[1]
        assert [line.lanes[4] for line in half.timelines] == close_all([0.103 - 0.05, 0.303 - 0.15])
        all_of_it = evaluated(setting(overlap=1.0), self.KNOBS)[1]
        assert [line.lanes[4] for line in all_of_it.timelines] == close_all([0.103 - 0.06, 0.303 - 0.16])

    @pytest.mark.parametrize(
        ("changes", "kind", "resource", "loads"),
        [
            ({"prefill_ceiling": 0.2}, "utilization", "prefill", 1),
            ({"decode_ceiling": 0.04}, "utilization", "decode", 2),
            ({"link_ceiling": 0.4}, "link_saturated", "link", 3),
            ({"max_sequences": 0.5}, "slots", "slots_decode", 4),
            ({"kv_memory_bytes": 1.0}, "kv_memory", "slots_decode", 4),
            # a prompt is prefilled in 0.343 s: 853 + 2000 W_l + 506 token-seconds, twice a second
            ({"kv_memory_bytes": 2.1e8, "prefill_tokens_per_s": 6000.0}, "kv_memory", "kv_prefill", 5),
            ({"kv_memory_bytes": 2.1e8}, "kv_memory", "kv_decode", 6),
            ({"max_sequences": 1}, "staging", "staging", 7),
        ],
    )
    def test_refusals(self, changes: dict[str, float], kind: str, resource: str, loads: int) -> None:
        evaluation, refusal = refused(setting(**changes), self.KNOBS)
        assert (refusal.kind, refusal.resource, len(evaluation.loads)) == (kind, resource, loads)


class TestPenalty:
    """The prompt's part of a step takes a quarter longer beside decode tokens."""

    def test_it_lengthens_the_prompts_part_alone(self) -> None:
        # 3 and 7 pieces as without it: rho_pc = 1.25 x 0.3
        evaluation, figures = evaluated(setting(mixed_step_penalty=0.25), TestChunked.KNOBS)
        own = by_hand.chunked(2.0, 500.0, 0.25)
        assert evaluation.loads[0].utilization == close(0.415)
        assert own.own == close_all((1.25 * (0.03 + 0.05), 1.25 * (0.07 + 0.15)))
        assert [line.lanes[2] for line in figures.timelines] == close_all(list(own.executions))
        assert figures.timelines[0].lanes[5] == close(own.wait)

    def test_whole_prompts_have_none(self) -> None:
        assert evaluated(setting(mixed_step_penalty=0.25), TestAggregated.KNOBS)[0].loads[0].utilization == close(0.26)


class TestRouted:
    """Prompts of 1000 tokens on one mixed worker, of 3000 on pools of one each: one of either a second."""

    KNOBS = Knobs("routed", 1, 1, 1, None, 2048)
    QUEUE = 0.06**2 / (2 * 0.94)
    """Prompts of one length, Poisson arrivals: rho S / (2 (1 - rho))."""
    REST = (1 - (1 - 0.02 / 0.94) ** 11) * 0.94 * (0.011 / 0.92) / 2
    BEHIND = (QUEUE + REST + 0.06) / 0.94
    STEP = (0.011 + 0.001 * BEHIND) / 0.92

    def test_loads_of_both_paths(self) -> None:
        evaluation, figures = evaluated(setting(), self.KNOBS)
        loads = [(load.resource, load.utilization) for load in evaluation.loads]
        names = ("mixed", "slots_mixed", "kv_mixed", "prefill", "decode", "link", "slots_decode", "kv_prefill")
        assert [name for name, _ in loads] == [*names, "kv_decode", "staging"]
        # 20 decode tokens a second beside prefill of 0.06; 21 on the decode worker; a transfer takes 0.303 s
        assert loads[0][1] == close(0.08)
        assert [loads[place][1] for place in (3, 4, 5)] == close_all([0.16, 0.021, 0.303])
        assert figures.decode_batch == close(max(20 * self.STEP, 21 * 0.011 / 0.979))
        assert [line.bucket for line in figures.timelines] == [SHORT, LONG]

    def test_waits_are_those_of_the_paths_own_requests(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        short, long = figures.timelines
        pace, step = self.STEP, 0.011 / 0.979
        lanes = (0.002, self.QUEUE + self.REST, 0.06, 0, 0, 0.06 * self.BEHIND, 0.94 * pace, 19 * pace)
        assert short.lanes == close_all(lanes)
        link = 0.303**2 / (2 * (1 - 0.303))
        decode_wait = (1 - (1 - 0.021) ** 11) * step / 2
        queue = 0.16**2 / (2 * 0.84)
        assert long.lanes == close_all((0.002, queue, 0.16, link, 0.303, decode_wait, step, 20 * step))
        most = by_hand.most_sequences(0.02 / 0.94, 11, by_hand.LN_2)
        assert figures.stall_s == close(by_hand.run_s(by_hand.LN_2, 1, 0.06, 0.06**2, 0.06, 0.01 + 0.001 * most))
        assert figures.transfer_worst_s == close(link + 0.303)
        assert figures.dominant_queue == "transfer"

    def test_a_stream_of_bursts_is_split(self) -> None:
        # ca² = 9: half of the requests see 5
        bursts = replace(EXAMPLE, arrival_scv=9.0)
        figures = evaluate(setting(), bursts, self.KNOBS).figures
        assert figures is not None
        assert figures.paths[0].firsts().queue.mean_s == close(5 * 0.06**2 / (2 * 0.94))

    def test_goodput_is_of_the_whole_cohort(self) -> None:
        # 1 ms is left for the queue of the short prompts, which is empty with probability 0.94; the long ones are late
        of = setting(ttft=1e9, tpot=1e6)
        assert goodput(of.objectives, evaluated(of, self.KNOBS)[1]) == close(1.0)
        edge = 0.002 + self.REST + 0.06 + 0.001
        of = setting(ttft=1e9, tpot=1e6, of_edges=((2048, {"ttft": edge}),))
        late = 0.06 * math.exp(-0.06 * 0.001 / self.QUEUE)
        assert goodput(of.objectives, evaluated(of, self.KNOBS)[1]) == pytest.approx((1 - late) / 2 + 0.5, rel=1e-9)

    def test_the_short_path_may_have_chunks(self) -> None:
        evaluation, _ = evaluated(setting(), replace(self.KNOBS, chunk_tokens=500))
        assert [load.resource for load in evaluation.loads][:3] == ["mixed", "prefill_lane", "slots_mixed"]
        assert replace(self.KNOBS, chunk_tokens=500).name == "routed/t2048/n1/c500/p1/d1"

    def test_a_path_that_is_refused_hides_the_next(self) -> None:
        evaluation, refusal = refused(setting(prefill_ceiling=0.05), self.KNOBS)
        assert (refusal.resource, len(evaluation.loads)) == ("mixed", 1)
        evaluation, refusal = refused(setting(link_ceiling=0.3), self.KNOBS)
        assert (refusal.resource, len(evaluation.loads)) == ("link", 6)


class TestFloors:
    """What no number of workers mends: the longest bucket takes 0.162 s, 0.476 s where it moves."""

    @pytest.mark.parametrize(
        ("knobs", "floor"),
        [
            (TestAggregated.KNOBS, 0.162),
            # 6 chunks of 500: as many steps of 10 ms, and 10 ms each of their own
            (TestChunked.KNOBS, 0.002 + 6 * 0.02 + 0.15),
            (TestDisaggregated.KNOBS, 0.002 + 0.16 + 0.303 + 0.011),
        ],
    )
    def test_of_the_first_token(self, knobs: Knobs, floor: float) -> None:
        loads = evaluated(setting(ttft=floor * 1.001), knobs)[0].loads
        evaluation, refusal = refused(setting(ttft=floor * 0.999), knobs)
        assert (refusal.kind, refusal.resource) == ("ttft_floor", LONG)
        assert (refusal.figure, refusal.limit) == (close(floor), floor * 0.999)
        assert evaluation.loads == loads

    def test_the_largest_ratio_is_named(self) -> None:
        # 0.062/0.04 is more than 0.162/0.11
        _, refusal = refused(setting(ttft=0.11, of_edges=((2048, {"ttft": 0.04}),)), TestAggregated.KNOBS)
        assert (refusal.resource, refusal.figure, refusal.limit) == (SHORT, close(0.062), 0.04)

    def test_of_the_pace(self) -> None:
        _, refusal = refused(setting(tpot=0.0109), TestDisaggregated.KNOBS)
        assert (refusal.kind, refusal.resource, refusal.figure) == ("tpot_floor", SHORT, close(0.011))

    def test_prefill_emits_the_first_token_before_anything_moves(self) -> None:
        evaluated(setting(ttft=0.17, decode_emits_first_token=False), TestDisaggregated.KNOBS)


class TestGoodputOfAll:
    def test_what_is_left_for_all_of_an_answer(self) -> None:
        # what follows the first token takes a wait and 19.78 t: an e2e of 1 ms more leaves as much for the queue
        one = TestAggregated
        rest = 0.002 + one.REST + 0.16 + one.WAIT + 19.78 * one.STEP
        of = setting(ttft=1e9, tpot=1e6)
        figures = evaluated(of, one.KNOBS)[1]
        late = [0.22 * math.exp(-0.22 * slack / PREFILL_QUEUE) for slack in (0.101, 0.001)]
        objectives = setting(ttft=1e9, tpot=1e6, e2e=rest + 0.001).objectives
        assert goodput(objectives, figures) == pytest.approx(1 - sum(late) / 2, rel=1e-9)


def test_the_longest_prompt_is_of_the_whole_cohort() -> None:
    assert WHOLE.p_max == 3000


def close_all(expected: object) -> object:
    return pytest.approx(expected, rel=1e-12, abs=1e-18)
