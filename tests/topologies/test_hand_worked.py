"""Every figure of one scenario on one pool, of each kind, worked out by hand: requests and costs are those of worked.py."""

import math
from typing import Any

import polars as pl
import pytest

from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, row_of
from tests.topologies.worked import LONG, SHORT, STEADY, VARIED, VARIED_CS2, close, lanes_of, loads_of, met


class TestAggregatedSteady:
    """One worker. ρ_p = 2·0.11 = 0.22; 200 decode tokens/s at 0.5 ms: ρ_d = 0.1; together 0.32.

    t = 0.01/0.68 = 1/68 s, more than 0.0105/0.78. b = 200/68 = 50/17. A step holds b sequences: τ = 0.01 + 0.025/17 = 0.195/17 s.
    """

    T, B, TAU = 1 / 68, 50 / 17, 0.195 / 17
    # M/D/1: half of rho/(1 - rho) service times
    QUEUE = 0.5 * 0.22 / 0.78 * 0.11
    RESIDUAL = (1 - math.exp(-50 / 17)) * (0.195 / 17) / 2
    # 7 slots, exponent √16 - 1 = 3; each held for 100/68 s, always the same
    SLOT = 0.5 * (50 / 119) ** 3 / (7 * 69 / 119) * 100 / 68

    @pytest.fixture(scope="class")
    @classmethod
    def row(cls) -> dict[str, Any]:
        return row_of(evaluation_of("aggregated", inputs_frame_of(), STEADY), "aggregated/n1")

    def test_lanes(self, row: dict[str, Any]) -> None:
        wait = self.QUEUE + self.RESIDUAL + self.SLOT
        assert lanes_of(row) == close((0.002, wait, 0.11, 0, 0, 0, 1 / 68, 99 / 68))
        assert row["ttft_s"] == close(0.002 + wait + 0.11)
        assert row["tpot_s"] == close(1 / 68)
        assert row["e2e_s"] == close(0.112 + wait + 100 / 68)

    def test_batch_stall_and_queue(self, row: dict[str, Any]) -> None:
        assert row["decode_batch"] == close(50 / 17)
        assert row["stall_s"] == close(0.11 + self.TAU)
        assert row["dominant_queue"] == "prefill"

    def test_loads(self, row: dict[str, Any]) -> None:
        # token-seconds of a request: 1000·0.11 while prefilled, then t·(1000·100 + 100²/2)
        resident = 10_000 * 2 * (110 + 105_000 / 68)
        assert loads_of(row) == close({"mixed": 0.32, "slots": 50 / 119, "kv_mixed": resident / 1e9})
        # shares of the ceilings: 0.32/0.8 = 0.4, (50/119)/0.9 = 0.467, 0.033
        assert (row["pressure"], row["headroom"], row["tightest"]) == (close(500 / 1071), close(571 / 1071), "slots")

    def test_goodput(self, row: dict[str, Any]) -> None:
        slack = 0.2 - (0.002 + self.RESIDUAL + self.SLOT + 0.11)
        assert row["goodput"] == close(met(0.22, self.QUEUE, slack))

    def test_no_request_is_good_whose_pace_is_too_slow(self) -> None:
        slow, enough = (inputs_frame_of(tpot=tpot) for tpot in (0.0147, 0.0148))  # t = 14.706 ms
        assert row_of(evaluation_of("aggregated", slow, STEADY), "aggregated/n1")["goodput"] == 0
        assert row_of(evaluation_of("aggregated", enough, STEADY), "aggregated/n1")["goodput"] > 0.9


class TestAggregatedRoundRobin:
    """Two workers, each with every second arrival. ρ_p = 0.11; 40 decode tokens/s each: ρ_d = 0.02.

    A batch of less than one: t = 0.0105/0.89 s, more than 0.01/0.87, and τ = 0.0105 s. b = 0.42/0.89.
    """

    T, B = 0.0105 / 0.89, 0.42 / 0.89
    # G/G/1 with half the variation of arrivals
    QUEUE = (1 / 2 + VARIED_CS2) / 2 * 0.11 / 0.89 * 0.11
    RESIDUAL = (1 - math.exp(-B)) * 0.0105 / 2
    SLOT = 1.4 / 2 * (B / 7) ** 3 / (7 - B) * 40 * T

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("aggregated", inputs_frame_of(dispatch="round_robin"), VARIED, [1000])

    def test_lanes_of_the_short_prompts(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "aggregated/n2", bucket=SHORT)
        wait = self.QUEUE + self.RESIDUAL + self.SLOT
        # 30 tokens follow the first on average, and three of four requests take a first decode step
        assert lanes_of(row) == close((0.002, wait, 0.06, 0, 0, 0, 0.75 * self.T, 29.25 * self.T))
        assert (row["ttft_s"], row["tpot_s"]) == close((0.062 + wait, self.T))

    def test_lanes_of_the_long_prompt(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "aggregated/n2", bucket=LONG)
        wait = self.QUEUE + self.RESIDUAL + self.SLOT
        assert lanes_of(row) == close((0.002, wait, 0.31, 0, 0, 0, self.T, 79 * self.T))
        assert (row["ttft_s"], row["tpot_s"]) == close((0.312 + wait, self.T))

    def test_loads_and_stall(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "aggregated/n2", bucket=LONG)
        # E[p·S] = (4·500·0.06 + 3000·0.31)/5 = 210; one request a second and worker
        resident = 10_000 * (210 + self.T * 61_120)
        assert loads_of(row) == close({"mixed": 0.13, "slots": self.B / 7, "kv_mixed": resident / 1e9})
        assert row["decode_batch"] == close(self.B)
        assert row["stall_s"] == close(0.31 + 0.0105)

    def test_goodput_is_the_share_of_each_prompt_length_that_is_in_time(self, evaluation: pl.DataFrame) -> None:
        # 0.2 s is too little for the long prompt, whose prefill takes 0.31 s
        slack = 0.2 - (0.062 + self.RESIDUAL + self.SLOT)
        short = met(0.11, self.QUEUE, slack)
        assert row_of(evaluation, "aggregated/n2", bucket=SHORT)["goodput"] == close(0.8 * short)

    def test_goodput_with_time_for_all(self) -> None:
        inputs = inputs_frame_of(dispatch="round_robin", ttft=0.4)
        row = row_of(evaluation_of("aggregated", inputs, VARIED), "aggregated/n2")
        waits = self.RESIDUAL + self.SLOT
        short, long = (met(0.11, self.QUEUE, 0.4 - (0.002 + waits + prefill)) for prefill in (0.06, 0.31))
        assert row["goodput"] == close(0.8 * short + 0.2 * long)


def test_one_queue_that_feeds_two_workers() -> None:
    """ρ_p = 0.11 each: Pw = 0.11^(√6 - 1), W = 1/2 · Pw/(2·0.89) · 0.11 s for constant prompts."""
    row = row_of(evaluation_of("aggregated", inputs_frame_of(slots=1e9), STEADY), "aggregated/n2")
    queue = 0.5 * 0.11 ** (math.sqrt(6) - 1) / (2 * 0.89) * 0.11
    # 100 decode tokens/s: rho_d = 0.05, t = 0.01/0.84, b = 1/0.84; a billion slots: no wait for one
    residual = (1 - math.exp(-1 / 0.84)) * (0.01 + 0.0005 / 0.84) / 2
    assert row["prefill_wait_s"] == close(queue + residual)
    assert row["tpot_s"] == close(0.01 / 0.84)


class TestAggregatedQuadratic:
    """Attention: 10 ns per squared token. S(500) = 0.0625 s, S(3000) = 0.40 s; S̄ = (4·0.0625 + 0.4)/5 = 0.13 s.

    Context: 0.5 us per resident token and step. A sequence holds R = 61120/40 = 1528 tokens: c = 0.0005 + 0.000764 = 0.001264 s.
    One worker: ρ_p = 0.26, 80 tokens/s: ρ_d = 0.10112. t = 0.01/0.63888 s, more than 0.011264/0.74. b = 0.8/0.63888, above one.
    """

    T, B = 0.01 / 0.63888, 0.8 / 0.63888

    @pytest.fixture(scope="class")
    @classmethod
    def row(cls) -> dict[str, Any]:
        inputs = inputs_frame_of(q=1e-8, gamma=5e-7)
        return row_of(evaluation_of("aggregated", inputs, VARIED, [1000]), "aggregated/n1", bucket=LONG)

    def test_lanes(self, row: dict[str, Any]) -> None:
        # E[S²] = (4·0.0625² + 0.4²)/5 = 0.035125 s²
        queue = (1 + 0.035125 / 0.0169 - 1) / 2 * 0.26 / 0.74 * 0.13
        residual = (1 - math.exp(-self.B)) * (0.01 + 0.001264 * self.B) / 2
        slot = 1.4 / 2 * (self.B / 7) ** 3 / (7 - self.B) * 40 * self.T
        assert lanes_of(row) == close((0.002, queue + residual + slot, 0.4, 0, 0, 0, self.T, 79 * self.T))

    def test_loads_and_stall(self, row: dict[str, Any]) -> None:
        # E[p·S] = (4·500·0.0625 + 3000·0.4)/5 = 265
        resident = 10_000 * 2 * (265 + self.T * 61_120)
        assert loads_of(row) == close({"mixed": 0.36112, "slots": self.B / 7, "kv_mixed": resident / 1e9})
        assert row["stall_s"] == close(0.4 + 0.01 + 0.001264 * self.B)


class TestChunkedSteady:
    """One worker, budget 502. First pass: 502 tokens of room, 2 steps a prompt, ρ_pc = 2·(0.02 + 0.1) = 0.24, t = 0.01/0.66, b = 3.03.

    That leaves less than 500 tokens: 3 steps, ρ_pc = 0.26, ρ = 0.36, t = 0.01/0.64 = 1/64 s, b = 200/64 = 3.125, and so it stays.
    A full step takes 0.01 + 3.125·0.0005 + 0.01 = 0.0215625 s; a prompt 3 of them and 0.1 s: S = 0.1646875 s.
    """

    QUEUE = 0.5 * 0.329375 / 0.670625 * 0.1646875
    RESIDUAL = (1 - math.exp(-3.125)) * 0.0115625 / 2
    SLOT = 0.5 * (3.125 / 7) ** 3 / (7 - 3.125) * 100 / 64

    @pytest.fixture(scope="class")
    @classmethod
    def row(cls) -> dict[str, Any]:
        return row_of(evaluation_of("chunked", inputs_frame_of(chunk_tokens="502"), STEADY), "chunked/n1/c502")

    def test_lanes(self, row: dict[str, Any]) -> None:
        wait = self.QUEUE + self.RESIDUAL + self.SLOT
        assert lanes_of(row) == close((0.002, wait, 0.1646875, 0, 0, 0, 1 / 64, 99 / 64))
        assert row["ttft_s"] == close(0.002 + wait + 0.1646875)
        assert row["tpot_s"] == close(1 / 64)
        assert row["e2e_s"] == close(0.002 + wait + 0.1646875 + 100 / 64)

    def test_batch_stall_and_queue(self, row: dict[str, Any]) -> None:
        assert row["decode_batch"] == close(3.125)
        # one full step with 498.875 prompt tokens
        assert row["stall_s"] == close(0.0215625 + 0.0498875)
        assert row["dominant_queue"] == "prefill"

    def test_loads(self, row: dict[str, Any]) -> None:
        resident = 10_000 * 2 * (1000 * 0.1646875 + 105_000 / 64)
        expected = {"mixed": 0.36, "prefill_lane": 0.329375, "slots": 3.125 / 7, "kv_mixed": resident / 1e9}
        assert loads_of(row) == close(expected)
        # shares of the ceilings: 0.45, 0.412, 0.496, 0.036
        assert (row["pressure"], row["tightest"]) == (close(3.125 / 6.3), "slots")

    def test_goodput(self, row: dict[str, Any]) -> None:
        slack = 0.2 - (0.002 + self.RESIDUAL + self.SLOT + 0.1646875)
        assert row["goodput"] == close(met(0.329375, self.QUEUE, slack))


def test_a_budget_beyond_the_longest_prompt_is_one_step_and_stalls_for_the_whole_prompt() -> None:
    """rho = 2·0.11 + 0.1 as aggregated, b = 50/17; the full step of a prompt: 0.01 + b·0.0005 + 0.01 + 0.1 s."""
    row = row_of(evaluation_of("chunked", inputs_frame_of(chunk_tokens="5000"), STEADY), "chunked/n1/c5000")
    full_step = 0.01 + 50 / 17 * 0.0005 + 0.01 + 0.1
    assert (row["load_mixed"], row["tpot_s"]) == close((0.32, 1 / 68))
    assert (row["prefill_execution_s"], row["stall_s"]) == close((full_step, full_step))


class TestChunkedVaried:
    """Two workers, budget 500, 10 ns per squared token. One request a second each; 40 decode tokens/s: ρ_d = 0.02.

    First pass, 500 tokens of room: 1 and 6 steps, mean (4·1 + 6)/5 = 2: ρ_pc = 0.02 + 0.1 + 0.02 = 0.14; t = 0.0105/0.86, b = 0.49.
    Then less: 2 and 7 steps, mean 3: ρ_pc = 0.15, t = 0.0105/0.85 s (more than 0.01/0.83), b = 0.42/0.85, and so it stays.
    """

    T, B = 0.0105 / 0.85, 0.42 / 0.85
    FULL = 0.01 + 0.0005 * B + 0.01
    SHORT_S, LONG_S = 2 * FULL + 0.05 + 0.0025, 7 * FULL + 0.3 + 0.09
    MEAN = (4 * SHORT_S + LONG_S) / 5
    SCV = (4 * SHORT_S**2 + LONG_S**2) / 5 / MEAN**2 - 1
    PROBABILITY = MEAN ** (math.sqrt(6) - 1)
    QUEUE = (1 + SCV) / 2 * PROBABILITY / (2 * (1 - MEAN)) * MEAN
    RESIDUAL = (1 - math.exp(-B)) * 0.0105 / 2
    SLOT = 1.4 / 2 * (B / 7) ** 3 / (7 - B) * 40 * T

    INPUTS = inputs_frame_of(chunk_tokens="500", q=1e-8, ttft=0.6)

    def test_both_lengths_in_one_bucket(self) -> None:
        row = row_of(evaluation_of("chunked", self.INPUTS, VARIED), "chunked/n2/c500")
        wait = self.QUEUE + self.RESIDUAL + self.SLOT
        # 40 tokens follow the first; four of five requests take a first decode step
        assert lanes_of(row) == close((0.002, wait, self.MEAN, 0, 0, 0, 0.8 * self.T, 39.2 * self.T))
        assert row["tpot_s"] == close(self.T)

    def test_a_bucket_for_each_length(self) -> None:
        evaluation = evaluation_of("chunked", self.INPUTS, VARIED, [1000])
        short, long = (row_of(evaluation, "chunked/n2/c500", bucket=bucket) for bucket in (SHORT, LONG))
        assert (short["prefill_execution_s"], long["prefill_execution_s"]) == close((self.SHORT_S, self.LONG_S))
        assert (short["prefill_wait_s"], long["prefill_wait_s"]) == close((self.QUEUE + self.RESIDUAL + self.SLOT,) * 2)

    def test_loads_and_stall(self) -> None:
        row = row_of(evaluation_of("chunked", self.INPUTS, VARIED), "chunked/n2/c500")
        resident = 10_000 * ((4 * 500 * self.SHORT_S + 3000 * self.LONG_S) / 5 + self.T * 61_120)
        assert loads_of(row) == close(
            {"mixed": 0.17, "prefill_lane": self.MEAN, "slots": self.B / 7, "kv_mixed": resident / 1e9}
        )
        # the last chunk of 3000 tokens is the dearest
        y = 500 - self.B
        assert row["stall_s"] == close(self.FULL + y / 10_000 + 1e-8 * (9e6 - (3000 - y) ** 2))

    def test_goodput(self) -> None:
        row = row_of(evaluation_of("chunked", self.INPUTS, VARIED), "chunked/n2/c500")
        waits = self.RESIDUAL + self.SLOT
        short, long = (met(self.PROBABILITY, self.QUEUE, 0.598 - waits - s) for s in (self.SHORT_S, self.LONG_S))
        assert row["goodput"] == close(0.8 * short + 0.2 * long)


class TestOneTokenAnswers:
    """Nothing follows the first token: no TPOT, no gap, and prefill's first token needs no decode step."""

    REQUESTS = in_pairs(*[(1000, 1)] * 5)

    @pytest.mark.parametrize(
        ("scenario", "execution"),
        [("aggregated/n1", 0.01 + 0.1), ("chunked/n1/c1000", 0.01 + 0.01 + 0.1)],  # chunked: within one step
    )
    def test_on_one_pool(self, scenario: str, execution: float) -> None:
        inputs = inputs_frame_of(chunk_tokens="1000")
        row = row_of(evaluation_of(scenario.partition("/")[0], inputs, self.REQUESTS), scenario)
        load = 2 * execution
        wait = 0.5 * load / (1 - load) * execution
        assert lanes_of(row) == close((0.002, wait, execution, 0, 0, 0, 0, 0))
        assert (row["tpot_s"], row["stall_s"], row["decode_batch"]) == (None, None, 0)
        assert row["ttft_s"] == row["e2e_s"]
        assert (row["load_mixed"], row["load_slots"]) == close((0.22, 0))
        assert row["goodput"] == close(met(load, wait, 0.198 - execution))

    def test_prefill_answers_and_the_cache_moves_all_the_same(self) -> None:
        inputs = inputs_frame_of(first_token="prefill")
        row = row_of(evaluation_of("disaggregated", inputs, self.REQUESTS), "disaggregated/p1/d1")
        link = 0.5 * 0.03 / 0.97 * 0.015
        assert lanes_of(row)[3:] == close((link, 0.015, 0, 0, 0))
        assert (row["tpot_s"], row["stall_s"], row["load_decode"]) == (None, None, 0)

    def test_decode_answers_in_one_step(self) -> None:
        row = row_of(evaluation_of("disaggregated", inputs_frame_of(), self.REQUESTS), "disaggregated/p1/d1")
        # two steps a second: rho_d = 0.001, t = 0.0105 s, b = 0.021
        assert (row["first_decode_step_s"], row["remaining_generation_s"]) == (close(0.0105), 0)
        assert (row["tpot_s"], row["stall_s"], row["decode_batch"]) == (None, None, close(0.021))


@pytest.mark.parametrize("topology", ["aggregated", "chunked", "disaggregated"])
def test_answers_of_one_and_two_tokens_leave_nothing_after_the_first_step(topology: str) -> None:
    """Of three answers one has two tokens: E[o] = 4/3 and m = 1/3, each rounded, and their difference is not quite 1."""
    answers = in_pairs((1000, 1), (1000, 1), (1000, 2))
    evaluation = evaluation_of(topology, inputs_frame_of(first_token="prefill"), answers)
    assert evaluation["status"].unique().to_list() == ["evaluated"]
    assert evaluation["remaining_generation_s"].unique().to_list() == [0.0]


def test_the_conservative_bound_takes_the_end_of_each_range_that_hurts() -> None:
    """Everything 10 % worse at one end and better at the other; the worse end is d = 0.02, 1/r_p = 0.2 ms, t0 = 0.02, c = 1 ms.

    S = 0.02 + 0.2 = 0.22 s, rho_p = 0.44, rho_d = 0.2, t = 0.02/0.36 s, b = 200·t.
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
    )
    evaluation = evaluation_of("aggregated", inputs, STEADY)
    row = row_of(evaluation, "aggregated/n1", "conservative")
    t, b = 0.02 / 0.36, 4 / 0.36
    # 17 slots: exponent √36 - 1 = 5
    slot = 0.5 * (b / 17) ** 5 / (17 - b) * 100 * t
    residual = (1 - math.exp(-b)) * (0.02 + 0.001 * b) / 2
    assert lanes_of(row) == close((0.003, 0.5 * 0.44 / 0.56 * 0.22 + residual + slot, 0.22, 0, 0, 0, t, 99 * t))
    resident = 1.5 * 10_000 * 2 * (220 + t * 105_000) / 5e8
    assert loads_of(row) == close({"mixed": 0.64, "slots": b / 17, "kv_mixed": resident})
    # 0.64 of 0.7; the nominal row keeps the declared values
    assert (row["pressure"], row["tightest"]) == (close(0.64 / 0.7), "mixed")
    assert row_of(evaluation, "aggregated/n1")["tpot_s"] == close(1 / 68)
