"""Sections 5 to 7 of docs/arithmetic.md on the example workload, worked by hand.

Two requests a second. Prefill takes 0.06 s or 0.16 s: 0.11 s on average, second moment 0.0146 s².
"""

import math
from dataclasses import replace

import pytest

from pipelines.oracle.chunking import chunks, full_step_s
from pipelines.oracle.pieces import chunks_of
from pipelines.oracle.parameters import Setting
from pipelines.oracle.queues import Wait
from pipelines.oracle.scenario import Evaluation, Figures, Knobs, PathFigures, Refusal, Timeline, goodput
from pipelines.oracle.topologies import evaluate
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
    """rho_p = 0.22; 40 decode tokens a second at 1 ms: rho_d = 0.04; t = (0.01 + 0.001)/(1 - 0.22 - 0.04)."""

    KNOBS = Knobs("aggregated", 1)
    STEP = 0.011 / 0.74
    BATCH = 40 * STEP

    def test_loads(self) -> None:
        evaluation, figures = evaluated(setting(), self.KNOBS)
        loads = {load.resource: load.utilization for load in evaluation.loads}
        # E[p S] = (1000 x 0.06 + 3000 x 0.16)/2 = 270; PD + D2/2 = 40250
        resident = 1e5 * 2 * (270 + self.STEP * 40250)
        assert loads == close_all({"mixed": 0.26, "slots_mixed": self.BATCH / 64, "kv_mixed": resident / MEMORY})
        assert figures.decode_batch == close(self.BATCH)
        assert (evaluation.tightest, evaluation.pressure) == ("mixed", close(0.26 / 0.8))

    def test_lanes_of_the_long_bucket(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        long = figures.timelines[1]
        # the step a newcomer finds holds one sequence at least: 0.011 s
        wait = PREFILL_QUEUE + (1 - math.exp(-self.BATCH)) * 0.011 / 2
        # 20 tokens follow the first; slots: (0.56/64)^10.4 is nothing
        assert long.lanes == close_all((0.002, wait, 0.16, 0, 0, 0, self.STEP, 19 * self.STEP))
        assert long.ttft_s == close(0.002 + wait + 0.16)
        assert long.e2e_s == close(0.002 + wait + 0.16 + 20 * self.STEP)
        assert long.tpot_s == close(self.STEP)
        assert figures.stall_s == close(0.16 + 0.011)
        assert (figures.dominant_queue, figures.transfer_worst_s) == ("prefill", None)

    def test_goodput_keeps_the_distribution_of_the_prefill_queue(self) -> None:
        # 1 ms is left for the queue of the long prompts, which is empty with probability 1 - 0.22
        residual = (1 - math.exp(-self.BATCH)) * 0.011 / 2
        of = setting(ttft=0.002 + residual + 0.16 + 0.001)
        _, figures = evaluated(of, self.KNOBS)
        late = [0.22 * math.exp(-0.22 * slack / PREFILL_QUEUE) for slack in (0.101, 0.001)]
        assert goodput(of.objectives, figures) == pytest.approx(1 - sum(late) / 2, rel=1e-9)

    def test_cached_tokens_are_not_computed_but_are_resident(self) -> None:
        # u = 400, 1200: S = 0.03, 0.07; E[p S] = (1000 x 0.03 + 3000 x 0.07)/2 = 120; rho_p = 2 x 0.05
        evaluation = evaluate(setting(), with_whole(CACHED), self.KNOBS)
        assert evaluation.figures is not None
        step = 0.011 / 0.86
        loads = {load.resource: load.utilization for load in evaluation.loads}
        resident = 1e5 * 2 * (120 + step * 40250)
        assert loads == close_all({"mixed": 0.14, "slots_mixed": 40 * step / 64, "kv_mixed": resident / MEMORY})
        assert evaluation.figures.stall_s == close(0.07 + 0.011)

    def test_the_first_load_at_its_ceiling_refuses_and_ends_the_list(self) -> None:
        evaluation, refusal = refused(setting(prefill_ceiling=0.26), self.KNOBS)
        assert (refusal.kind, refusal.resource, refusal.limit) == ("utilization", "mixed", 0.26)
        assert [load.resource for load in evaluation.loads] == ["mixed"]

    def test_memory_refuses_at_its_size(self) -> None:
        # S = 0.177, 0.51: t = 0.011/0.313; 2 sequences fit and 1.4 decode, but prompts being prefilled hold as much
        evaluation, refusal = refused(setting(kv_memory_bytes=4e8, prefill_tokens_per_s=6000.0), self.KNOBS)
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
        wait = PREFILL_QUEUE + (1 - math.exp(-batch)) * 0.011 / 2 + slots
        assert figures.timelines[0].lanes[1] == close(wait)

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
    """A budget of 500 tokens.

    First pass, h = 500: 2 and 6 chunks, mean 4: rho_pc = 2 (0.04 + 0.1) = 0.28, t = 0.011/0.68, b = 0.6.
    From the second pass on, h = 499.4: 3 and 7 chunks, mean 5: rho_pc = 2 (0.05 + 0.1) = 0.3, t = 0.011/0.66.
    """

    KNOBS = Knobs("chunked", 1, chunk_tokens=500)
    STEP = 0.011 / 0.66
    BATCH = 40 * STEP
    FULL = 0.01 + BATCH * 0.001 + 0.01
    SHORT_S, LONG_S = 3 * FULL + 0.05, 7 * FULL + 0.15

    def test_the_passes_settle(self) -> None:
        end = chunks(parameters(), EXAMPLE.requests, 500).settle(2.0, 1.0)
        assert (end.rho, end.pace_s, end.batch, end.room) == close_all((0.34, self.STEP, self.BATCH, 500 - self.BATCH))

    def test_loads(self) -> None:
        evaluation, _ = evaluated(setting(), self.KNOBS)
        loads = {load.resource: load.utilization for load in evaluation.loads}
        resident = 1e5 * 2 * ((1000 * self.SHORT_S + 3000 * self.LONG_S) / 2 + self.STEP * 40250)
        lane = 2 * (self.SHORT_S + self.LONG_S) / 2
        expected = {"mixed": 0.34, "prefill_lane": lane, "slots_mixed": self.BATCH / 64, "kv_mixed": resident / MEMORY}
        assert loads == close_all(expected)

    def test_lanes_of_the_short_bucket(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        # one worker, Poisson arrivals
        queue = (self.SHORT_S**2 + self.LONG_S**2) / (2 * (1 - (self.SHORT_S + self.LONG_S)))
        wait = queue + (1 - math.exp(-self.BATCH)) * 0.011 / 2
        assert figures.timelines[0].lanes == close_all((0.002, wait, self.SHORT_S, 0, 0, 0, self.STEP, 19 * self.STEP))
        assert figures.stall_s == close(self.FULL + (500 - self.BATCH) / 20000)

    def test_the_last_chunk_is_the_dearest(self) -> None:
        # tokens 2501 to 3000: 500/20000 + 1e-8 (9e6 - 6.25e6)
        assert last_chunk_s(parameters(prefill_s_per_token2=1e-8), 3000, 500) == close(0.01 + 0.025 + 0.0275)
        assert last_chunk_s(parameters(), 3000, 3000) == close(0.16)

    def test_a_chunk_is_not_longer_than_the_most_uncached_tokens(self) -> None:
        # 1200 of 3000 tokens are left to compute, in a budget of 8192: tokens 1801 to 3000
        traffic = with_whole(CACHED)
        figures = evaluate(setting(prefill_s_per_token2=1e-8), traffic, Knobs("chunked", 1, chunk_tokens=8192)).figures
        assert figures is not None
        full = 0.01 + figures.decode_batch * 0.001 + 0.01
        assert figures.stall_s == close(full + 0.06 + 1e-8 * (3000**2 - 1800**2))

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
    """42 decode tokens a second: rho_d = 0.042, t = 0.011/0.958; a transfer takes 0.103 s or 0.303 s: rho_l = 0.406."""

    KNOBS = Knobs("disaggregated", workers_prefill=1, workers_decode=1)
    STEP = 0.011 / 0.958
    BATCH = 42 * STEP
    LINK = (0.103**2 + 0.303**2) / (2 * (1 - 0.406))

    def decode_wait(self, batch: float) -> float:
        return (1 - math.exp(-batch)) * 0.011 / 2

    def test_loads(self) -> None:
        evaluation, _ = evaluated(setting(), self.KNOBS)
        loads = {load.resource: load.utilization for load in evaluation.loads}
        # p x W_l + E[p T]; E[p T] = (1000 x 0.103 + 3000 x 0.303)/2 = 506; PD + D2/2 = 42000 + 270.5
        moving = 2000 * self.LINK + 506
        prefill = 1e5 * 2 * (270 + moving) / MEMORY
        decode = 1e5 * 2 * (moving + 2000 * self.decode_wait(self.BATCH) + self.STEP * 42270.5) / MEMORY
        staging = 2 * (self.LINK + 0.203) / (64 - self.BATCH)
        assert loads == close_all(
            {"prefill": 0.22, "decode": 0.042, "link": 0.406, "slots_decode": self.BATCH / 64, "kv_prefill": prefill,
             "kv_decode": decode, "staging": staging}
        )  # fmt: skip

    def test_lanes_when_decode_emits_the_first_token(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        long = figures.timelines[1]
        wait = self.decode_wait(self.BATCH)
        assert long.lanes == close_all((0.002, PREFILL_QUEUE, 0.16, self.LINK, 0.303, wait, self.STEP, 20 * self.STEP))
        assert long.ttft_s == close(0.002 + PREFILL_QUEUE + 0.16 + self.LINK + 0.303 + wait + self.STEP)
        assert long.tpot_s == close(self.STEP)
        assert figures.transfer_worst_s == close(self.LINK + 0.303)
        assert (figures.stall_s, figures.dominant_queue) == (close(0.011), "transfer")
        assert figures.paths[0].queue.mean_s == close(self.LINK)

    def test_lanes_when_prefill_emits_the_first_token(self) -> None:
        of = setting(decode_emits_first_token=False)
        _, figures = evaluated(of, self.KNOBS)
        long = figures.timelines[1]
        step = 0.011 / 0.96
        wait = self.decode_wait(40 * step)
        assert long.lanes == close_all((0.002, PREFILL_QUEUE, 0.16, self.LINK, 0.303, wait, step, 19 * step))
        assert long.ttft_s == close(0.002 + PREFILL_QUEUE + 0.16)
        assert long.tpot_s == close((self.LINK + 0.303 + wait + 20 * step) / 20)
        assert figures.stall_s == close(self.LINK + 0.303 + wait + 0.011)
        assert figures.paths[0].queue.mean_s == close(PREFILL_QUEUE)

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
        # 3 and 7 chunks as without it: rho_pc = 1.25 x 0.3, t = 0.011/(1 - 0.375 - 0.04)
        evaluation, figures = evaluated(setting(mixed_step_penalty=0.25), TestChunked.KNOBS)
        batch = 40 * 0.011 / 0.585
        step = 0.01 + batch * 0.001
        assert evaluation.loads[0].utilization == close(0.415)
        assert [line.lanes[2] for line in figures.timelines] == close_all(
            [3 * step + 1.25 * (0.03 + 0.05), 7 * step + 1.25 * (0.07 + 0.15)]
        )
        assert figures.stall_s == close(step + 1.25 * (0.01 + (500 - batch) / 20000))

    def test_whole_prompts_have_none(self) -> None:
        assert evaluated(setting(mixed_step_penalty=0.25), TestAggregated.KNOBS)[0].loads[0].utilization == close(0.26)


class TestRouted:
    """Prompts of 1000 tokens on one mixed worker, of 3000 on pools of one each: one of either a second."""

    KNOBS = Knobs("routed", 1, 1, 1, None, 2048)

    def test_loads_of_both_paths(self) -> None:
        evaluation, figures = evaluated(setting(), self.KNOBS)
        loads = [(load.resource, load.utilization) for load in evaluation.loads]
        names = ("mixed", "slots_mixed", "kv_mixed", "prefill", "decode", "link", "slots_decode", "kv_prefill")
        assert [name for name, _ in loads] == [*names, "kv_decode", "staging"]
        # 20 decode tokens a second beside prefill of 0.06; 21 on the decode worker; a transfer takes 0.303 s
        assert loads[0][1] == close(0.08)
        assert [loads[place][1] for place in (3, 4, 5)] == close_all([0.16, 0.021, 0.303])
        assert figures.decode_batch == close(max(20 * 0.011 / 0.92, 21 * 0.011 / 0.979))
        assert [line.bucket for line in figures.timelines] == [SHORT, LONG]

    def test_waits_are_those_of_the_paths_own_requests(self) -> None:
        _, figures = evaluated(setting(), self.KNOBS)
        short, long = figures.timelines
        batch, step = 20 * 0.011 / 0.92, 0.011 / 0.979
        # prompts of one length, Poisson arrivals: rho S / (2 (1 - rho))
        short_wait = 0.06**2 / (2 * 0.94) + (1 - math.exp(-batch)) * 0.011 / 2
        assert short.lanes == close_all((0.002, short_wait, 0.06, 0, 0, 0, 0.011 / 0.92, 19 * 0.011 / 0.92))
        link = 0.303**2 / (2 * (1 - 0.303))
        decode_wait = (1 - math.exp(-21 * step)) * 0.011 / 2
        queue = 0.16**2 / (2 * 0.84)
        assert long.lanes == close_all((0.002, queue, 0.16, link, 0.303, decode_wait, step, 20 * step))
        assert figures.stall_s == close(0.06 + 0.011)
        assert figures.transfer_worst_s == close(link + 0.303)
        assert figures.dominant_queue == "transfer"

    def test_a_stream_of_bursts_is_split(self) -> None:
        # ca² = 9: half of the requests see 5
        bursts = replace(EXAMPLE, arrival_scv=9.0)
        figures = evaluate(setting(), bursts, self.KNOBS).figures
        assert figures is not None
        assert figures.paths[0].queue.mean_s == close(5 * 0.06**2 / (2 * 0.94))

    def test_goodput_is_of_the_whole_cohort(self) -> None:
        # 1 ms is left for the queue of the short prompts, which is empty with probability 0.94; the long ones are late
        of = setting(ttft=1e9)
        assert goodput(of.objectives, evaluated(of, self.KNOBS)[1]) == close(1.0)
        short = evaluated(of, self.KNOBS)[1].paths[0]
        of = setting(ttft=1e9, of_edges=((2048, {"ttft": short.stratum_ttft_s[0] - short.queue.mean_s + 0.001}),))
        late = 0.06 * math.exp(-0.06 * 0.001 / short.queue.mean_s)
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


class TestGoodput:
    """A queue with Pw = 0.5 and W = 2 s, before strata whose other lanes take 1 s and 7 s."""

    def figures(self, tpot_s: float | None) -> Figures:
        lines = tuple(Timeline(bucket, (0.0,) * 8, 1.0, 1.0, tpot_s, 0.5) for bucket in (SHORT, LONG))
        return Figures((PathFigures(EXAMPLE.requests, lines, (3.0, 9.0), Wait(2.0, 0.5), {}, 1.0, None),))

    def test_a_stratum_without_room_misses(self) -> None:
        # 4 s are left for the first: 1 - 0.5 exp(-0.5 x 4 / 2); none for the second
        met = goodput(setting(ttft=5.0).objectives, self.figures(0.01))
        assert met == close((1 - 0.5 * math.exp(-1)) / 2)

    def test_a_slow_bucket_misses(self) -> None:
        assert goodput(setting(ttft=5.0).objectives, self.figures(0.06)) == 0

    def test_a_bucket_of_single_tokens_has_no_pace_to_miss(self) -> None:
        assert goodput(setting(ttft=1e6).objectives, self.figures(None)) == close(1.0)


class TestGoodputOfAll:
    def test_what_is_left_for_all_of_an_answer(self) -> None:
        # 20 tokens after the first take 20 t: an e2e of 1 ms more than the rest leaves as much for the queue
        of = setting(ttft=1e9)
        path = evaluated(of, TestAggregated.KNOBS)[1].paths[0]
        rest = path.stratum_ttft_s[1] - path.queue.mean_s + 20 * TestAggregated.STEP
        figures = evaluated(of, TestAggregated.KNOBS)[1]
        late = [0.22 * math.exp(-0.22 * slack / PREFILL_QUEUE) for slack in (0.101, 0.001)]
        objectives = setting(ttft=1e9, e2e=rest + 0.001).objectives
        assert goodput(objectives, figures) == pytest.approx(1 - sum(late) / 2, rel=1e-9)


def test_the_longest_prompt_is_of_the_whole_cohort() -> None:
    assert WHOLE.p_max == 3000


def close_all(expected: object) -> object:
    return pytest.approx(expected, rel=1e-12, abs=1e-18)
