"""Every figure of chunks on one pool, worked out by hand: requests and costs are those of worked.py.

Batch, room and pace depend on each other; by_hand.py goes through the 24 passes. Each case below says where they
settle, and computes from there.
"""

import math
from typing import Any

import polars as pl
import pytest

from tests.plans import evaluation_of, inputs_frame_of, row_of
from tests.topologies.by_hand import Costs, Line, beyond, chunks, mean, meets
from tests.topologies.worked import (
    FIVE,
    LONG,
    MIX,
    SHORT,
    STEADY,
    VARIED,
    close,
    lanes_of,
    loads_of,
)


class TestOneStepEach:
    """One worker, budget 5000: every prompt in one step of θ + 0.11 s. ρ_pc = 0.22, ρ_d = 0.1, as whole prompts: t = t(1 + f + x·t)/0.78.

    The lane has a prompt for a share of the steps: V = θ·1000/C' + 0.11 + 0.01·(1 + 1000/C' - 1), with C' = 5000 - b and
    θ = 0.01 + 0.0005·b.
    """

    PASSED = chunks(FIVE, 5000)
    B = PASSED.b
    THETA, ROOM = 0.01 + 0.0005 * B, 5000 - B
    V = THETA * 1000 / ROOM + 0.11 + 0.01 * 1000 / ROOM
    QUEUE = 0.5 * 2 * V / (1 - 2 * V) * V
    SOME = 1 - (1 - 0.1 / 0.78) ** 21
    RESIDUAL = SOME * THETA / 2
    # others that came during the step before, in whose number a prompt is: a step lasts θ/0.78 + 2·0.11²/(1 - 0.22²) s
    STEP = THETA / 0.78 + 2 * 0.0121 / (1 - 0.22**2)
    FIRST = max(0.0, STEP * (SOME + 2 * 0.22) / 2 - QUEUE - RESIDUAL)

    @pytest.fixture(scope="class")
    @classmethod
    def row(cls) -> dict[str, Any]:
        return row_of(evaluation_of("chunked", inputs_frame_of(chunk_tokens="5000"), STEADY), "chunked/n1/c5000")

    def test_it_has_settled(self) -> None:
        """b = x·t + l·e, and (1 - ρ_pc)·t = t(1 + f + x·t) with the f that the last pass leaves."""
        behind = 2 * (self.QUEUE + self.V) / (1 - 2 * self.V)
        kappa = (1 - 0.22 / (2 * self.V)) / 0.78
        tau_p = self.THETA * 2 * self.V / (2 * self.V - 0.22)
        many = (behind * (1 - 2 * self.V) * 0.11 - kappa * 0.11 * self.QUEUE / self.V) / 0.78
        one = 100 * (2 * self.V * tau_p + (1 - 2 * self.V) * self.THETA - self.THETA / 0.78)
        e = many * one / (many + one)
        f = behind * (1 - 2 * self.V * kappa) * 100 / (100 + behind * self.V / tau_p)
        t = (0.01 + 0.0005 * (1 + f)) / 0.68
        assert (self.PASSED.e, self.PASSED.t) == pytest.approx((e, t), rel=1e-5)
        assert self.PASSED.b == pytest.approx(200 * t + 2 * e, rel=1e-5)

    def test_lanes(self, row: dict[str, Any]) -> None:
        t = self.PASSED.t
        slot = 0.5 * (self.B / 7) ** 3 / (7 - self.B) * 100 * t
        wait = self.QUEUE + self.RESIDUAL + self.FIRST + slot
        assert lanes_of(row) == close((0.002, wait, self.THETA + 0.11, 0, 0, self.PASSED.e, t, 99 * t))
        assert row["tpot_s"] == close(t + self.PASSED.e / 100)

    def test_loads_and_stall(self, row: dict[str, Any]) -> None:
        """In the longest step are 7 sequences (of k_N, more than there are slots) and j + 2 prompts, whose number is Poisson."""
        t, e = self.PASSED.t, self.PASSED.e
        resident = 10_000 * 2 * (1000 * (self.THETA + 0.11) + 1000 * e + t * 105_000)
        expected = {"mixed": 0.32, "prefill_lane": 2 * self.V, "slots_mixed": self.B / 7, "kv_mixed": resident / 1e9}
        assert loads_of(row) == close(expected)
        prompts = beyond(2 * (0.0135 + 0.11), 5) + 2
        assert prompts * 1000 < 5000
        together = (prompts - 1) * 0.0101 + 0.01 + prompts * 0.1
        longest = self.PASSED.own.longest(self.B, 7)  # a step of more sequences than usual, or of longer ones
        assert row["stall_s"] == close(longest + together)

    def test_goodput(self, row: dict[str, Any]) -> None:
        slack = 0.2 - (0.002 + self.PASSED.wait - self.QUEUE + self.THETA + 0.11)
        assert row["goodput"] == close(meets(2 * self.V, self.QUEUE, slack) * self.PASSED.generation.meets(101, 0.02))

    def test_all_are_paced_well_where_the_longest_step_is_short_enough(self) -> None:
        """θ + f(C'): 512 - b tokens take 61 ms."""
        longest = chunks(FIVE, 512).surely
        row = row_of(evaluation_of("chunked", inputs_frame_of(tpot=longest), STEADY), "chunked/n1/c512")
        found = chunks(FIVE, 512)
        slack = 0.2 - (0.002 + found.wait - found.lane.w + found.execution[0])
        assert row["goodput"] == close(meets(found.lane.pw, found.lane.w, slack))


class TestVaried:
    """Two workers, budget 500, 10 ns per squared token. One request a second each; 40 decode tokens/s: ρ_d = 0.02.

    b is less than one token: 2 and 7 steps, mean 3. G(500) = 0.02 + 0.05 + 0.0025, G(3000) = 0.07 + 0.3 + 0.09:
    s1 = (4·0.0725 + 0.46)/5 = 0.15.
    """

    PASSED = chunks(MIX, 500, 2, Costs(q=1e-8))
    B, ROOM = PASSED.b, 500 - PASSED.b
    THETA = 0.01 + 0.0005 * B
    # begun anywhere in a step: 0.01 s for each of 1 + u/C' pieces
    SHORT_V = THETA * 500 / ROOM + 0.0725 + 0.01 * (1 + 500 / ROOM - 2)
    LONG_V = THETA * 3000 / ROOM + 0.46 + 0.01 * (1 + 3000 / ROOM - 7)
    MEAN = (4 * SHORT_V + LONG_V) / 5
    SCV = (4 * SHORT_V**2 + LONG_V**2) / 5 / MEAN**2 - 1
    # of MEAN·2 erlangs
    B_1 = 2 * MEAN / (1 + 2 * MEAN)
    B_2 = 2 * MEAN * B_1 / (2 + 2 * MEAN * B_1)
    FOUND = B_2 / (1 - MEAN * (1 - B_2))
    QUEUE = (1 + SCV) / 2 * FOUND / (2 * (1 - MEAN)) * MEAN
    INPUTS = inputs_frame_of(chunk_tokens="500", q=1e-8, ttft=0.7)

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("chunked", cls.INPUTS, VARIED, [1000])

    def test_the_queue_of_the_lane(self) -> None:
        assert (self.PASSED.lane.w, self.PASSED.lane.pw) == close((self.QUEUE, self.FOUND))

    def test_a_bucket_for_each_length(self, evaluation: pl.DataFrame) -> None:
        """A step of two prompts takes room of the second: at the end, half of a full one where somebody waits."""
        found = self.PASSED
        slot = 1.4 / 2 * found.sigma ** (math.sqrt(30) - 1) / (14 * (1 - found.sigma)) * 40 * found.t
        wait = self.QUEUE + found.lane.w_res + found.f + slot
        short, long = (row_of(evaluation, "chunked/n2/c500", bucket=bucket) for bucket in (SHORT, LONG))
        tail = (0, 0, 0.75 * found.e, 0.75 * found.t, 29.25 * found.t)
        assert lanes_of(short) == close((0.002, wait, 2 * self.THETA + 0.0725, *tail))
        assert lanes_of(long) == close((0.002, wait, 7 * self.THETA + 0.46, 0, 0, found.e, found.t, 79 * found.t))

    def test_the_shared_steps(self) -> None:
        """θ/(1 - 0.15) + s2/(1 - 0.15²)/2, s2 = (4·0.0725² + 0.46²)/5, weighed by 1/3 steps; the last by Pw·(f(C') - f(1))/2 in 2/3."""
        found, s2 = self.PASSED, (4 * 0.0725**2 + 0.46**2) / 5
        step = self.THETA / 0.85 + s2 / (1 - 0.15**2) / 2
        first = max(0.0, step * (found.lane.some + 4 * 0.15) / 3 - self.QUEUE - found.lane.w_res) / 3
        room = self.ROOM
        last = 2 / 3 * self.FOUND * ((room - 1) / 10_000 + 1e-8 * (room**2 - 1)) / 2
        assert found.f == close(first + last)

    def test_loads(self, evaluation: pl.DataFrame) -> None:
        row, found = row_of(evaluation, "chunked/n2/c500", bucket=LONG), self.PASSED
        short, long = 2 * self.THETA + 0.0725, 7 * self.THETA + 0.46
        resident = 10_000 * ((4 * 500 * short + 3000 * long) / 5 + 800 * found.e + found.t * 61_120)
        assert loads_of(row) == close(
            {"mixed": 0.17, "prefill_lane": self.MEAN, "slots_mixed": self.B / 7, "kv_mixed": resident / 1e9}
        )

    def test_the_stall_holds_the_last_piece_of_the_longest_prompt(self, evaluation: pl.DataFrame) -> None:
        """500 tokens of it that attend to 2500 before them, and a piece of every prompt that came; the budget holds no more than 500."""
        found = self.PASSED
        full = 0.01 + 0.05 + 0.0025
        k = found.own.most(0.15, 40.0, 7)
        prompts = beyond(0.01 + 0.0005 * k + full, 5) + 2
        together = (prompts - 1) * (0.0101 + 1e-8) + full + 1e-8 * (9e6 - 2500**2 - 500**2)
        stall = row_of(evaluation, "chunked/n2/c500", bucket=LONG)["stall_s"]
        assert stall == close(found.own.longest(self.B, k) + together)

    def test_goodput(self, evaluation: pl.DataFrame) -> None:
        found = self.PASSED
        fixed = 0.002 + found.wait - self.QUEUE
        execution = (2 * self.THETA + 0.0725, 7 * self.THETA + 0.46)
        short, long = (meets(self.FOUND, self.QUEUE, 0.7 - fixed - s) for s in execution)
        short *= 0.25 + 0.75 * found.generation.meets(41, 0.02)
        long *= found.generation.meets(81, 0.02)
        goodput = row_of(evaluation, "chunked/n2/c500", bucket=LONG)["goodput"]
        assert goodput == close(0.8 * short + 0.2 * long)


class TestMixedStepPenalty:
    """Beside decode tokens a prompt's part of a step takes a quarter longer: G = 1.25·(0.03 + 0.1) of three pieces, ρ_pc = 0.325."""

    INPUTS = inputs_frame_of(chunk_tokens="502", psi=0.25, ttft=0.5)

    def test_in_every_place_where_a_prompt_takes_time(self) -> None:
        row = row_of(evaluation_of("chunked", self.INPUTS, STEADY), "chunked/n1/c502")
        found = chunks(FIVE, 502, costs=Costs(psi=0.25))
        b, theta, room = found.b, 0.01 + 0.0005 * found.b, 502 - found.b
        assert 2 < 1000 / room < 3
        assert row["prefill_execution_s"] == close(3 * theta + 0.1625)
        v = theta * 1000 / room + 0.1625 + 0.0125 * (1 + 1000 / room - 3)
        assert (row["load_mixed"], row["load_prefill_lane"]) == close((0.425, 2 * v))
        # four more pieces for what Poisson prompts bring, each a quarter longer, and the full piece of 502 tokens
        prompts = beyond(2 * (0.01 + 0.0005 * 7 + 0.0602), 5) + 2
        full = 1.25 * ((prompts - 1) * 0.0101 + 0.0602)
        assert row["stall_s"] == close(found.own.longest(b, 7) + full)
        assert (row["prefill_wait_s"], row["decode_wait_s"]) == close((found.wait, found.e))

    def test_whole_prompts_run_beside_nothing(self) -> None:
        with_it, without = (evaluation_of("aggregated", inputs_frame_of(psi=psi), STEADY) for psi in (0.25, 0.0))
        assert with_it.equals(without)


class TestPrefillCurve:
    """0.02 s up to 100 tokens, 0.05 s for 500, 0.14 s for 1500: pieces of 333.3 of 1000 tokens take 0.0375 s each."""

    LINE = Line(((100, 0.02), (500, 0.05), (1500, 0.14)))
    TEXT = "100:0.02 500:0.05 1500:0.14"

    def test_three_pieces_of_a_prompt(self) -> None:
        inputs = inputs_frame_of(
            chunk_tokens="400", prefill_curve=self.TEXT, d=None, r_p=None, u_p=0.95, u_d=0.95, slots=32, ttft=0.5
        )
        row = row_of(evaluation_of("chunked", inputs, STEADY), "chunked/n1/c400")
        found = chunks(FIVE, 400, costs=Costs(prefill=self.LINE, slots=32))
        theta, room = 0.01 + 0.0005 * found.b, 400 - found.b
        own = 3 * (0.02 + (1000 / 3 - 100) * 0.03 / 400)
        assert row["prefill_execution_s"] == close(3 * theta + own)
        assert row["load_mixed"] == close(2 * own + 0.1)
        # no overhead to take apart: a prompt that begins within a step is on the lane as long as its pieces take
        assert row["load_prefill_lane"] == close(2 * (theta * 1000 / room + own))
        assert (row["prefill_wait_s"], row["decode_wait_s"], row["stall_s"]) == close(
            (found.wait, found.e, found.stall)
        )

    def test_varied_prompts(self) -> None:
        inputs = inputs_frame_of(
            chunk_tokens="900", prefill_curve=self.TEXT, d=None, r_p=None, q=1e-8, slots=32, ttft=0.6, tpot=0.05
        )
        row = row_of(evaluation_of("chunked", inputs, VARIED), "chunked/n2/c900")
        found = chunks(MIX, 900, 2, Costs(prefill=self.LINE, q=1e-8, slots=32))
        lanes = (0.002, found.wait, mean(found.execution), 0, 0, 0.8 * found.e, 0.8 * found.t, 39.2 * found.t)
        assert lanes_of(row) == close(lanes)
        first = mean(
            [meets(found.lane.pw, found.lane.w, 0.598 - found.wait + found.lane.w - s) for s in found.execution]
        )
        assert row["goodput"] == close(first * mean([found.generation.meets(one.o, 0.05) for one in MIX]))


class TestDecodeCurve:
    """Steps of 10 ms up to 4 sequences, then 5 ms more for each."""

    LINE = Line(((1, 0.01), (4, 0.01), (8, 0.03)))

    @pytest.mark.parametrize("dispatch", ["least_loaded", "round_robin"])
    def test_all_of_a_row(self, dispatch: str) -> None:
        inputs = inputs_frame_of(
            chunk_tokens="502", decode_curve="1:0.01 4:0.01 8:0.03", t0=None, r_d=None, slots=64, u_p=0.99, u_d=0.99,
            ttft=0.5, dispatch=dispatch,
        )  # fmt: skip
        row = row_of(evaluation_of("chunked", inputs, STEADY), "chunked/n4/c502")
        found = chunks(FIVE, 502, 4, Costs(decode=self.LINE, slots=64), round_robin=dispatch == "round_robin")
        assert lanes_of(row) == close((0.002, found.wait, found.execution[0], 0, 0, found.e, found.t, 99 * found.t))
        assert (row["stall_s"], row["decode_batch"], row["load_mixed"]) == close((found.stall, found.b, found.rho))


@pytest.mark.parametrize("ca2", [0.3, 4.0])
@pytest.mark.parametrize("dispatch", ["least_loaded", "round_robin"])
@pytest.mark.parametrize("workers", [1, 3])
def test_other_arrivals_on_more_workers(ca2: float, dispatch: str, workers: int) -> None:
    inputs = inputs_frame_of(rate=2.5, ca2=ca2, dispatch=dispatch, chunk_tokens="700", psi=0.1, gamma=2e-7, ttft=0.9)
    row = row_of(evaluation_of("chunked", inputs, VARIED), f"chunked/n{workers}/c700")
    found = chunks(MIX, 700, workers, Costs(psi=0.1, gamma=2e-7), 2.5, ca2, dispatch == "round_robin")
    lanes = (0.002, found.wait, mean(found.execution), 0, 0, 0.8 * found.e, 0.8 * found.t, 39.2 * found.t)
    assert lanes_of(row) == close(lanes)
    assert (row["decode_batch"], row["stall_s"]) == close((found.b, found.stall))
    first = mean([meets(found.lane.pw, found.lane.w, 0.898 - found.wait + found.lane.w - s) for s in found.execution])
    assert row["goodput"] == close(first * mean([found.generation.meets(one.o, 0.02) for one in MIX]))


class TestShortestFirst:
    """V(500) and V(3000) on the lane of one worker: σ of the short ones 2·0.8·V; W, W_res and F are theirs times ω, the slot is not."""

    FOUND = chunks(MIX, 700)
    SHORT_LOAD, LOAD = 1.6 * FOUND.lane.v[0], FOUND.lane.rho
    FACTORS = ((SHORT, (1 - LOAD) / (1 - SHORT_LOAD)), (LONG, 1 / (1 - SHORT_LOAD)))

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        inputs = inputs_frame_of(discipline_p="shortest_first", chunk_tokens="700", ttft=0.9)
        return evaluation_of("chunked", inputs, VARIED, [1000])

    def test_waits(self, evaluation: pl.DataFrame) -> None:
        found = self.FOUND
        for bucket, omega in self.FACTORS:
            row = row_of(evaluation, "chunked/n1/c700", bucket=bucket)
            ordered = found.lane.w + found.lane.w_res + found.f
            assert row["prefill_wait_s"] == close(omega * ordered + found.slot)
            assert row["decode_wait_s"] == close((0.75 if bucket == SHORT else 1.0) * found.e)

    def test_goodput(self, evaluation: pl.DataFrame) -> None:
        found, lane = self.FOUND, self.FOUND.lane
        short, long = (
            meets(lane.pw, omega * lane.w, 0.9 - (0.002 + omega * (lane.w_res + found.f) + found.slot + s))
            for (_, omega), s in zip(self.FACTORS, (found.execution[0], found.execution[-1]), strict=True)
        )
        short *= 0.25 + 0.75 * found.generation.meets(41, 0.02)
        long *= found.generation.meets(81, 0.02)
        goodput = row_of(evaluation, "chunked/n1/c700", bucket=LONG)["goodput"]
        assert goodput == close(0.8 * short + 0.2 * long)
