"""Every figure of whole prompts on one pool, worked out by hand: requests and costs are those of worked.py."""

import math
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, row_of
from tests.topologies.by_hand import Costs, crossing, mean, meets, run_of, whole_prompts, within
from tests.topologies.worked import (
    FIVE,
    LONG,
    MIX,
    SHORT,
    STEADY,
    VARIED,
    VARIED_CS2,
    close,
    lanes_of,
    loads_of,
)


class TestSteady:
    """One worker. ρ_p = 2·0.11 = 0.22; 200 decode tokens/s at 0.5 ms: ρ_d = 0.1; together 0.32. t(1) = 0.0105 s.

    Alone, a token takes 0.0105/0.68 s. The worker that does not prefill has sequences with probability A: κ0 = 0.1/0.78,
    r0 = 0.0105/0.0005 = 21. The next step ends after half of 0.78·0.0105/0.68 s.
    """

    KAPPA = 0.1 / 0.78
    SOME = 1 - (1 - KAPPA) ** 21
    QUEUE = 0.5 * 0.22 / 0.78 * 0.11  # M/D/1: half of rho/(1 - rho) service times
    RESIDUAL = SOME * 0.78 * 0.0105 / 0.68 / 2
    # what comes at 2 a second while a request waits and is prefilled runs before its next step, and what comes meanwhile
    BEHIND = 2 * (QUEUE + RESIDUAL + 0.11) * 0.11 / 0.78
    # BEHIND/0.11 requests come out of a run with it
    T = (0.01 + 0.0005 * (1 + BEHIND / 0.11)) / 0.68
    B = 200 * T
    # 7 slots, exponent √16 - 1 = 3; each held for 100 steps, always the same
    SLOT = 0.5 * (B / 7) ** 3 / (7 - B) * 100 * T

    @pytest.fixture(scope="class")
    @classmethod
    def row(cls) -> dict[str, Any]:
        return row_of(evaluation_of("aggregated", inputs_frame_of(), STEADY), "aggregated/n1")

    def test_lanes(self, row: dict[str, Any]) -> None:
        wait = self.QUEUE + self.RESIDUAL + self.SLOT
        first = 0.78 * self.T  # without the prompts that interrupt it
        assert lanes_of(row) == close((0.002, wait, 0.11, 0, 0, self.BEHIND, first, 99 * self.T))
        assert row["ttft_s"] == close(0.112 + wait)
        assert row["tpot_s"] == close((self.BEHIND + first + 99 * self.T) / 100)
        assert row["e2e_s"] == close(0.112 + wait + self.BEHIND + first + 99 * self.T)

    def test_batch_and_queue(self, row: dict[str, Any]) -> None:
        assert row["decode_batch"] == close(self.B)
        # 38 ms behind its own prefill, 46 ms before it
        assert self.BEHIND < self.QUEUE + self.RESIDUAL + self.SLOT
        assert row["dominant_queue"] == "prefill"

    def test_loads(self, row: dict[str, Any]) -> None:
        # token-seconds of a request: 1000·0.11 while prefilled, 1000·BEHIND, then t·(1000·100 + 100²/2)
        resident = 10_000 * 2 * (110 + 1000 * self.BEHIND + self.T * 105_000)
        assert loads_of(row) == close({"mixed": 0.32, "slots_mixed": self.B / 7, "kv_mixed": resident / 1e9})
        assert (row["pressure"], row["tightest"]) == (close(self.B / 7 / 0.9), "slots_mixed")
        assert row["headroom"] == close(1 - self.B / 6.3)

    def test_the_stall_is_a_run_of_prompts_and_a_step_of_the_most_sequences(self, row: dict[str, Any]) -> None:
        """Exceeded once in five: k·ln(k/(κ0·(k + 21))) + 21·ln(21/((1 - κ0)·(k + 21))) = ln 5, more than the 7 slots.

        Of constant prompts M(s) = 1 + 0.11·s + e^(0.11·s) - 1 - 0.11·s = e^(0.11·s).
        """

        def rate(k: float) -> float:
            below = k * math.log(k / (self.KAPPA * (k + 21)))
            return below + 21 * math.log(21 / ((1 - self.KAPPA) * (k + 21)))

        k = crossing(rate, 21 * self.KAPPA / (1 - self.KAPPA), math.log(5))
        assert k > 7
        step = 0.01 + 0.0005 * 7
        bounds = []
        for i in range(-40, 25):
            s = 2 ** (i / 4) / 0.11
            more = math.exp(0.11 * s) - 1
            if s > 2 * more:
                bounds.append((math.log(5) + 0.11 * s + 2 * step * more) / (s - 2 * more))
        assert row["stall_s"] == close(min(bounds) + step)

    def test_goodput(self, row: dict[str, Any]) -> None:
        """Of 100 steps the excess over 1.05 s: mean and variance; allowed are 100·(0.02 - 0.0105) s."""
        slack = 0.2 - (0.112 + self.RESIDUAL + self.SLOT)
        mu = self.BEHIND + 100 * (self.T - 0.0105)
        probability = 0.22 + 2 * self.RESIDUAL
        variance = self.BEHIND**2 * (2 / probability - 1)
        variance += 100 * 0.78 * self.T * 2 * 0.0121 / 0.78**3  # what interrupts 100 steps: 2 a second of 0.11 s
        turned = 1 - self.KAPPA  # of 100 of 100 steps
        others = (100 * 0.0005 / 0.78) ** 2 * self.B / (1 - self.KAPPA)
        variance += others * 2 * (turned - 1 + math.exp(-turned)) / turned**2
        in_time = meets(0.22, self.QUEUE, slack)
        assert row["goodput"] == close(in_time * within(100 * 0.0095, mu, variance))

    def test_no_request_is_good_whose_pace_is_faster_than_a_step_of_one(self) -> None:
        """A step of one takes 10.5 ms: below that the scenario is refused, above some meet it."""
        below, above = (
            row_of(evaluation_of("aggregated", inputs_frame_of(tpot=tpot), STEADY), "aggregated/n1")
            for tpot in (0.0104, 0.0106)
        )
        assert (below["status"], below["refusal_kind"]) == ("refused", "tpot_floor")
        assert 0 <= above["goodput"] < 0.1


class TestRoundRobin:
    """Two workers, each with every second arrival: ca² = 1/2. ρ_p = 0.11; 40 decode tokens/s each: ρ_d = 0.02."""

    # G/G/1 with half the variation of arrivals, smoothed by Krämer and Langenbach-Belz
    SMOOTH = math.exp(-2 * 0.89 / (3 * 0.11) * 0.25 / (0.5 + VARIED_CS2))
    QUEUE = (0.5 + VARIED_CS2) / 2 * 0.11 / 0.89 * 0.11 * SMOOTH
    FOUND = 0.11 - 0.5 * 0.11 * 0.89 * (1.5 + 0.11 * VARIED_CS2) / (
        1 + 0.11 * (VARIED_CS2 - 1) + 0.0121 * (2 + VARIED_CS2)
    )
    SOME = 1 - (1 - 0.02 / 0.89) ** 21
    RESIDUAL = SOME * 0.89 * 0.0105 / 0.87 / 2
    BEHIND = ((QUEUE + RESIDUAL + 0.11) - 0.25) * 0.11 / 0.89  # negative: arrivals this even leave nobody behind
    T = 0.0105 / 0.87
    B = 40 * T
    SLOT = 1.4 / 2 * (B / 7) ** 3 / (7 - B) * 40 * T

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("aggregated", inputs_frame_of(dispatch="round_robin", ttft=0.4), VARIED, [1000])

    def test_nobody_is_behind(self) -> None:
        assert self.BEHIND < 0

    def test_lanes_of_the_short_prompts(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "aggregated/n2", bucket=SHORT)
        wait = self.QUEUE + self.RESIDUAL + self.SLOT
        # 30 tokens follow the first on average, and three of four requests take a first decode step
        first, rest = 0.75 * self.T * 0.89, 29.25 * self.T
        assert lanes_of(row) == close((0.002, wait, 0.06, 0, 0, 0, first, rest))
        assert (row["ttft_s"], row["tpot_s"]) == close((0.062 + wait, (first + rest) / 30))

    def test_lanes_of_the_long_prompt(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "aggregated/n2", bucket=LONG)
        wait = self.QUEUE + self.RESIDUAL + self.SLOT
        assert lanes_of(row) == close((0.002, wait, 0.31, 0, 0, 0, self.T * 0.89, 79 * self.T))
        assert (row["ttft_s"], row["tpot_s"]) == close((0.312 + wait, 79.89 * self.T / 80))

    def test_loads_and_stall(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "aggregated/n2", bucket=LONG)
        # E[p·S] = (4·500·0.06 + 3000·0.31)/5 = 210; one request a second and worker
        resident = 10_000 * (210 + self.T * 61_120)
        assert loads_of(row) == close({"mixed": 0.13, "slots_mixed": self.B / 7, "kv_mixed": resident / 1e9})
        assert row["decode_batch"] == close(self.B)
        k = whole_prompts(MIX, 2, round_robin=True).k
        assert row["stall_s"] == close(run_of([0.06] * 4 + [0.31], 0.31, 1.0, 1, 0.01 + 0.0005 * k, 5))

    def test_goodput_is_the_share_of_each_prompt_length_that_is_in_time(self, evaluation: pl.DataFrame) -> None:
        """By the chance that TTFT is in time and that TPOT is: for each bucket, of its own outputs."""
        waits = 0.002 + self.RESIDUAL + self.SLOT
        short, long = (meets(self.FOUND, self.QUEUE, 0.4 - waits - prefill) for prefill in (0.06, 0.31))
        paced = whole_prompts(MIX, 2, round_robin=True).generation
        short *= 0.25 + 0.75 * paced.meets(41, 0.02)  # one of four has a single token
        long *= paced.meets(81, 0.02)
        assert row_of(evaluation, "aggregated/n2", bucket=SHORT)["goodput"] == close(0.8 * short + 0.2 * long)

    def test_without_time_for_the_long_prompt_only_the_short_ones_count(self) -> None:
        """In one bucket 0.2 s is more than the mean prefill of 0.11 s, and less than the 0.31 s of the long prompt."""
        inputs = inputs_frame_of(dispatch="round_robin", ttft=0.2)
        row = row_of(evaluation_of("aggregated", inputs, VARIED), "aggregated/n2")
        paced = whole_prompts(MIX, 2, round_robin=True).generation
        short = meets(self.FOUND, self.QUEUE, 0.2 - (0.062 + self.RESIDUAL + self.SLOT))
        pace = (1 + 3 * paced.meets(41, 0.02) + paced.meets(81, 0.02)) / 5
        assert row["goodput"] == close(0.8 * short * pace)


class TestOneQueueThatFeedsTwoWorkers:
    """ρ_p = 0.11 each; of 0.22 erlangs B_1 = 0.22/1.22 and B_2 = 0.22·B_1/(2 + 0.22·B_1); C = B_2/(1 - 0.11·(1 - B_2)).

    M/D/2 after Allen and Cunneen: half of C/(2·0.89) service times. 100 decode tokens/s: ρ_d = 0.05.
    """

    B_1 = 0.22 / 1.22
    B_2 = 0.22 * B_1 / (2 + 0.22 * B_1)
    C = B_2 / (1 - 0.11 * (1 - B_2))
    QUEUE = 0.5 * C / 1.78 * 0.11
    SOME = 1 - (1 - 0.05 / 0.89) ** 21
    IDLE = 0.89 * (1 - SOME)
    # who comes: 2 a second for 0.11 + 100·0.0105 s, of whom one worker alone would lose E
    OFFERED = 2 * (0.11 + 1.05)
    E = OFFERED / (1 + OFFERED)
    NONE = E * (1 - IDLE) / (IDLE + E * (1 - IDLE))
    BUSY = (OFFERED * (1 - E) * IDLE + 2 * E * (1 - IDLE)) / (2 * (IDLE + E * (1 - IDLE)))
    PHI, GAMMA = NONE / BUSY, 0.11 / BUSY
    # (1 - φ·ρ_p)·t = 0.0105 + φ·100·0.0005·t
    STEP = 0.0105 / (1 - PHI * 0.16) * (1 - PHI * 0.11)
    RESIDUAL = NONE * STEP * ((1 + GAMMA + GAMMA**2) / 3 - GAMMA**2) / (1 - 0.0121)
    RUNS = (2 + 0.11) / (2 * (1 - 0.0121))  # of M/M/2
    BEHIND = 0.11 * C * (1 + (RUNS - 1) / 2) + (0.11 * QUEUE + 0.22 * RESIDUAL) / 0.89
    T = (0.01 + 0.0005 * (1 + BEHIND / 0.11)) / (1 - PHI * 0.16)

    def test_lanes(self) -> None:
        row = row_of(evaluation_of("aggregated", inputs_frame_of(slots=1e9), STEADY), "aggregated/n2")
        assert row["prefill_wait_s"] == close(self.QUEUE + self.RESIDUAL)  # a billion slots: no wait for one
        assert row["decode_wait_s"] == close(self.BEHIND)
        assert row["first_decode_step_s"] == close(self.T * (1 - self.PHI * 0.11))
        assert row["remaining_generation_s"] == close(99 * self.T)
        assert row["decode_batch"] == close(100 * self.T)

    def test_the_whole_row_of_varied_prompts_on_three_workers(self) -> None:
        """By the sums over requests of by_hand.py, where this form is written out for any number of workers."""
        row = row_of(evaluation_of("aggregated", inputs_frame_of(), VARIED), "aggregated/n3")
        found = whole_prompts(MIX, 3)
        lanes = (0.002, found.wait, 0.11, 0, 0, 0.8 * found.dw, 0.8 * found.first, 39.2 * found.t)
        assert lanes_of(row) == close(lanes)
        assert row["stall_s"] == close(found.stall)
        resident = 10_000 * 2 / 3 * found.token_s / 1e9
        assert loads_of(row) == close({"mixed": found.rho, "slots_mixed": found.sigma, "kv_mixed": resident})


class TestQuadratic:
    """Attention: 10 ns per squared token. S(500) = 0.0625 s, S(3000) = 0.40 s; S̄ = (4·0.0625 + 0.4)/5 = 0.13 s.

    Context: 0.5 us per resident token and step. A sequence holds R = 61120/40 = 1528 tokens: c = 0.0005 + 0.000764 = 0.001264 s.
    One worker: ρ_p = 0.26, 80 tokens/s: ρ_d = 0.10112; κ0 = 0.10112/0.74, r0 = 0.011264/0.001264.
    """

    KAPPA = 0.10112 / 0.74
    QUEUE = 0.035125 / 0.0169 / 2 * 0.26 / 0.74 * 0.13  # E[S²] = (4·0.0625² + 0.4²)/5 = 0.035125 s²
    RESIDUAL = (1 - (1 - KAPPA) ** (0.011264 / 0.001264)) * 0.74 * 0.011264 / 0.63888 / 2
    BEHIND = 2 * (QUEUE + RESIDUAL + 0.13) * 0.13 / 0.74
    T = (0.01 + 0.001264 * (1 + 0.8 * BEHIND / 0.13)) / 0.63888
    B = 80 * T

    @pytest.fixture(scope="class")
    @classmethod
    def row(cls) -> dict[str, Any]:
        inputs = inputs_frame_of(q=1e-8, gamma=5e-7, ttft=0.5)
        return row_of(evaluation_of("aggregated", inputs, VARIED, [1000]), "aggregated/n1", bucket=LONG)

    def test_lanes(self, row: dict[str, Any]) -> None:
        slot = 1.4 / 2 * (self.B / 7) ** 3 / (7 - self.B) * 40 * self.T
        wait = self.QUEUE + self.RESIDUAL + slot
        assert lanes_of(row) == close((0.002, wait, 0.4, 0, 0, self.BEHIND, 0.74 * self.T, 79 * self.T))

    def test_loads(self, row: dict[str, Any]) -> None:
        # E[p·S] = (4·500·0.0625 + 3000·0.4)/5 = 265
        resident = 10_000 * 2 * (265 + 800 * self.BEHIND + self.T * 61_120)
        assert loads_of(row) == close({"mixed": 0.36112, "slots_mixed": self.B / 7, "kv_mixed": resident / 1e9})


class TestOneTokenAnswers:
    """Nothing follows the first token: no TPOT, no gap, and prefill's first token needs no decode step."""

    REQUESTS = in_pairs(*[(1000, 1)] * 5)

    def test_whole_prompts(self) -> None:
        row = row_of(evaluation_of("aggregated", inputs_frame_of(), self.REQUESTS), "aggregated/n1")
        wait = 0.5 * 0.22 / 0.78 * 0.11
        assert lanes_of(row) == close((0.002, wait, 0.11, 0, 0, 0, 0, 0))
        assert (row["tpot_s"], row["stall_s"], row["decode_batch"]) == (None, None, 0)
        assert row["ttft_s"] == row["e2e_s"]
        assert (row["load_mixed"], row["load_slots_mixed"]) == close((0.22, 0))
        assert row["goodput"] == close(meets(0.22, wait, 0.198 - 0.11))

    def test_chunks(self) -> None:
        """In one step of 0.02 s and 0.1 s of tokens; the lane has it for 0.01 + 0.1 s, and 0.01 s for a second piece's overhead."""
        inputs = inputs_frame_of(chunk_tokens="1000")
        row = row_of(evaluation_of("chunked", inputs, self.REQUESTS), "chunked/n1/c1000")
        wait = 0.5 * 0.26 / 0.74 * 0.13
        # no step of the worker alone ends, but a prompt in its first step waits for what came during the one before
        assert row["load_prefill_lane"] == close(2 * 0.13)
        shared = 0.01 / 0.78 + 2 * 0.0121 / (1 - 0.22**2)
        first = max(0.0, shared * 2 * 0.22 / 2 - wait)
        assert lanes_of(row) == close((0.002, wait + first, 0.12, 0, 0, 0, 0, 0))

    def test_prefill_answers_and_the_cache_moves_all_the_same(self) -> None:
        inputs = inputs_frame_of(first_token="prefill")
        row = row_of(evaluation_of("disaggregated", inputs, self.REQUESTS), "disaggregated/p1/d1")
        link = 0.5 * 0.03 / 0.97 * 0.015
        assert lanes_of(row)[3:] == close((link, 0.015, 0, 0, 0))
        assert (row["tpot_s"], row["stall_s"], row["load_decode"]) == (None, None, 0)

    def test_decode_answers_in_one_step(self) -> None:
        row = row_of(evaluation_of("disaggregated", inputs_frame_of(), self.REQUESTS), "disaggregated/p1/d1")
        # two steps a second: rho_d = 0.001, t = 0.0105/0.999 s
        t = 0.0105 / 0.999
        assert (row["first_decode_step_s"], row["remaining_generation_s"]) == (close(t), 0)
        assert (row["tpot_s"], row["stall_s"], row["decode_batch"]) == (None, None, close(2 * t))


@pytest.mark.parametrize("topology", ["aggregated", "chunked", "disaggregated"])
def test_answers_of_one_and_two_tokens_leave_nothing_after_the_first_step(topology: str) -> None:
    """Of three answers one has two tokens: E[o] = 4/3 and m = 1/3, each rounded, and their difference is not quite 1."""
    answers = in_pairs((1000, 1), (1000, 1), (1000, 2))
    evaluation = evaluation_of(topology, inputs_frame_of(first_token="prefill"), answers)
    assert evaluation["status"].unique().to_list() == ["evaluated"]
    assert evaluation["remaining_generation_s"].unique().to_list() == [0.0]


def test_the_conservative_bound_takes_the_end_of_each_range_that_hurts() -> None:
    """Everything 10 % worse at one end and better at the other; the worse end is d = 0.02, 1/r_p = 0.2 ms, t0 = 0.02, c = 1 ms.

    S = 0.02 + 0.2 = 0.22 s, rho_p = 0.44, rho_d = 0.2; alone 0.021/0.36 s; κ0 = 0.2/0.56, r0 = 21.
    """
    inputs = inputs_frame_of(
        a=Ranged(0.002, 0.001, 0.003),
        d=Ranged(0.01, 0.001, 0.02),
        r_p=Ranged(10_000, 5000, 20_000),
        t0=Ranged(0.01, 0.005, 0.02),
        r_d=Ranged(2000, 1000, 4000),
        slots=Ranged(31, 17, 49),
        kv_memory=Ranged(1e9, 5e8, 2e9),
        u_p=Ranged(0.8, 0.7, 0.9),
        layout_factor=Ranged(1, 0.5, 1.5),
        ttft=0.3,
        tpot=0.1,
    )
    evaluation = evaluation_of("aggregated", inputs, STEADY)
    row = row_of(evaluation, "aggregated/n1", "conservative")
    queue, residual = 0.5 * 0.44 / 0.56 * 0.22, (1 - (1 - 0.2 / 0.56) ** 21) * 0.56 * 0.021 / 0.36 / 2
    behind = 2 * (queue + residual + 0.22) * 0.22 / 0.56
    t = (0.02 + 0.001 * (1 + behind / 0.22)) / 0.36
    b = 200 * t
    slot = 0.5 * (b / 17) ** 5 / (17 - b) * 100 * t  # 17 slots: exponent √36 - 1 = 5
    assert lanes_of(row) == close((0.003, queue + residual + slot, 0.22, 0, 0, behind, 0.56 * t, 99 * t))
    resident = 1.5 * 10_000 * 2 * (220 + 1000 * behind + t * 105_000) / 5e8
    assert loads_of(row) == close({"mixed": 0.64, "slots_mixed": b / 17, "kv_mixed": resident})
    # 0.64 of 0.7; the nominal row keeps the declared values
    assert (row["pressure"], row["tightest"]) == (close(0.64 / 0.7), "mixed")
    assert row_of(evaluation, "aggregated/n1")["load_mixed"] == close(0.32)


class TestShortestFirst:
    """Loads of the lengths: 2·0.8·0.06 = 0.096, and of both 0.22: ω = 0.78/0.904 and 0.78/(0.904·0.78).

    What the four short prompts wait less, and the long one more, before prefill, each waits the other way round behind it.
    """

    SHORT_FACTOR, LONG_FACTOR = 0.78 / 0.904, 1 / 0.904
    FIFO = whole_prompts(MIX)
    BEHIND = FIFO.dw + (FIFO.w + FIFO.w_res) * (1 - 0.8 * SHORT_FACTOR - 0.2 * LONG_FACTOR)
    T = (0.01 + 0.0005 * (1 + 0.8 * BEHIND / 0.11)) / (1 - 0.22 - 0.04)
    B = 80 * T
    SLOT = 1.4 / 2 * (B / 7) ** 3 / (7 - B) * 40 * T

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        inputs = inputs_frame_of(discipline_p="shortest_first", ttft=0.4)
        return evaluation_of("aggregated", inputs, VARIED, [1000])

    def test_lanes(self, evaluation: pl.DataFrame) -> None:
        for bucket, omega, share in ((SHORT, self.SHORT_FACTOR, 0.75), (LONG, self.LONG_FACTOR, 1.0)):
            row = row_of(evaluation, "aggregated/n1", bucket=bucket)
            assert row["prefill_wait_s"] == close(omega * (self.FIFO.w + self.FIFO.w_res) + self.SLOT)
            assert row["decode_wait_s"] == close(share * self.BEHIND)
            assert row["first_decode_step_s"] == close(share * 0.78 * self.T)

    def test_goodput(self, evaluation: pl.DataFrame) -> None:
        """The queue of each length keeps its distribution, ω times as long."""
        paced = replace(
            self.FIFO.generation,
            t=self.T,
            b=self.B,
            w=self.BEHIND,
            wait_scv=2 / (0.22 + 2 * self.FIFO.w_res) - 1,
            per_step=0.78 * self.T * 2 * 0.0221 / 0.78**3,
        )
        short, long = (
            meets(0.22, omega * self.FIFO.w, 0.4 - (0.002 + omega * self.FIFO.w_res + self.SLOT + s))
            for omega, s in ((self.SHORT_FACTOR, 0.06), (self.LONG_FACTOR, 0.31))
        )
        short *= 0.25 + 0.75 * paced.meets(41, 0.02)
        long *= paced.meets(81, 0.02)
        assert row_of(evaluation, "aggregated/n1", bucket=SHORT)["goodput"] == close(0.8 * short + 0.2 * long)


@pytest.mark.parametrize("ca2", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("dispatch", ["least_loaded", "round_robin"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_other_arrivals_on_more_workers(ca2: float, dispatch: str, workers: int) -> None:
    """Three requests a second of MIX, with a step that costs 3 ms per sequence."""
    inputs = inputs_frame_of(rate=3.0, ca2=ca2, dispatch=dispatch, r_d=500.0, t0=0.005, slots=99, u_p=0.95, ttft=0.5)
    costs = Costs(r_d=500.0, t0=0.005, slots=99)
    row = row_of(evaluation_of("aggregated", inputs, VARIED), f"aggregated/n{workers}")
    found = whole_prompts(MIX, workers, costs, 3.0, ca2, dispatch == "round_robin")
    assert row["prefill_wait_s"] == close(found.wait)
    assert row["decode_wait_s"] == close(0.8 * found.dw)
    assert (row["decode_batch"], row["stall_s"]) == close((found.b, found.stall))
    first = mean([meets(found.pw, found.w, 0.498 - (found.wait - found.w) - s) for s in found.times])
    assert row["goodput"] == close(first * mean([found.generation.meets(one.o, 0.02) for one in MIX]))


def test_by_hand_agrees_with_the_first_case() -> None:
    """The sums over requests give what is worked out above."""
    found = whole_prompts(FIVE)
    assert (found.dw, found.t) == close((TestSteady.BEHIND, TestSteady.T))
