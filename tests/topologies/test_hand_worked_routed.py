"""Two paths worked out by hand: prompts of 500 on a mixed pool, of 3000 over separate pools. Requests and costs are those of worked.py.

Two requests a second whose gaps vary by ca² = 2. Of five, four are short: g = 0.8, 1.6 a second, ca² = 0.8·2 + 0.2 = 1.8;
one is long: g = 0.2, 0.4 a second, ca² = 0.2·2 + 0.8 = 1.2.
"""

import math

import polars as pl
import pytest

from tests.plans import evaluation_of, evaluations_of, in_pairs, inputs_frame_of, matrix_of, row_of
from tests.topologies.by_hand import chunks, meets, pairs, whole_prompts
from tests.topologies.worked import LONG, MIX, SHORT, VARIED, close, lanes_of, loads_of

BOTH = {
    "rate": 2.0, "ca2": 2.0, "compared": "aggregated chunked disaggregated routed", "thresholds": "1000", "routed_chunks": "700",
    "gpus": 3, "ttft": 0.5, "price": 3.6,
}  # fmt: skip
WHOLE, CHUNKED = "routed/t1000/n1/p1/d1", "routed/t1000/n1/c700/p1/d1"


@pytest.fixture(scope="module")
def evaluation() -> pl.DataFrame:
    return evaluation_of("routed", inputs_frame_of(**BOTH), VARIED, [1000])


def test_the_scenarios_of_three_gpus(evaluation: pl.DataFrame) -> None:
    assert evaluation["scenario"].unique(maintain_order=True).to_list() == [WHOLE, CHUNKED]
    assert evaluation["bucket"].unique(maintain_order=True).to_list() == [SHORT, LONG]
    assert set(evaluation["rate_rps"]) == {2.0}


class TestShortPath:
    """One worker. S = 0.06 s: ρ_p = 1.6·0.06 = 0.096. D1 = 30, x = 48: ρ_d = 0.024; D2 = 3·1600/4 = 1200, cH² = 1200/900 - 1 = 1/3.

    κ0 = 0.024/0.904, r0 = 21. Of M/D/1 with ca² = 1.8: W = 0.9·ρ/(1 - ρ)·S.
    """

    QUEUE = 0.9 * 0.096 / 0.904 * 0.06
    RESIDUAL = (1 - (1 - 0.024 / 0.904) ** 21) * 0.904 * 0.0105 / 0.88 / 2
    BEHIND = (1.6 * (QUEUE + RESIDUAL + 0.06) + 0.4) * 0.06 / 0.904
    T = (0.01 + 0.0005 * (1 + 0.75 * BEHIND / 0.06)) / 0.88
    B = 48 * T
    SLOT = (4 / 3) / 2 * (B / 7) ** 3 / (7 - B) * 30 * T

    def test_lanes(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, WHOLE, bucket=SHORT)
        wait = self.QUEUE + self.RESIDUAL + self.SLOT
        after = (0.75 * self.BEHIND, 0.75 * self.T * 0.904, 29.25 * self.T)
        assert lanes_of(row) == close((0.002, wait, 0.06, 0, 0, *after))
        assert row["ttft_s"] == close(0.062 + wait)
        assert row["tpot_s"] == close(sum(after) / 30)

    def test_it_is_whole_prompts_of_the_short_requests(self) -> None:
        found = whole_prompts(MIX[:4], 1, rate=1.6, ca2=1.8)
        assert (found.dw, found.t, found.slot) == close((self.BEHIND, self.T, self.SLOT))


class TestLongPath:
    """One worker each: S = 0.31 s, ρ_p = 0.4·0.31 = 0.124, ca² = 1.2: W = 0.6·ρ/(1 - ρ)·S. T = 0.035 s: ρ_l = 0.014.

    81 steps with the first token by decode: x = 32.4, ρ_d = 0.0162, t = 0.0105/0.9838, always the same.
    """

    QUEUE = 0.6 * 0.124 / 0.876 * 0.31
    LINK = 0.5 * 0.014 / 0.986 * 0.035
    T = 0.0105 / 0.9838
    B = 32.4 * T
    SLOT = 0.5 * (B / 7) ** 3 / (7 - B) * 81 * T
    WAIT = (1 - 0.9838**21) * T / 2 + SLOT

    def test_lanes(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, WHOLE, bucket=LONG)
        lanes = (0.002, self.QUEUE, 0.31, self.LINK, 0.035, self.WAIT, self.T, 80 * self.T)
        assert lanes_of(row) == close(lanes)
        assert row["ttft_s"] == close(sum(lanes[:7]))
        assert row["tpot_s"] == close(self.T)

    def test_with_chunks_beside_it_nothing_of_it_changes(self, evaluation: pl.DataFrame) -> None:
        one, other = (row_of(evaluation, scenario, bucket=LONG) for scenario in (WHOLE, CHUNKED))
        assert lanes_of(one) == lanes_of(other)


class TestBoth:
    def test_loads_are_those_of_the_short_path_then_those_of_the_long_one(self, evaluation: pl.DataFrame) -> None:
        short, long = TestShortPath, TestLongPath
        # E[p·S] = 500·0.06; PD + D2/2 = 500·30 + 600; of the long one 3000·0.31, and 3000·81 + 81²/2
        mixed = 30 + 375 * short.BEHIND + short.T * 15_600
        moving = 3000 * (long.LINK + 0.035)
        decode = moving + 3000 * long.WAIT + long.T * (243_000 + 3280.5)
        expected = {
            "mixed": 0.12,
            "slots_mixed": short.B / 7,
            "kv_mixed": 1e4 * 1.6 * mixed / 1e9,
            "prefill": 0.124,
            "decode": 0.0162,
            "link": 0.014,
            "slots_decode": long.B / 7,
            "kv_prefill": 1e4 * 0.4 * (930 + moving) / 1e9,
            "kv_decode": 1e4 * 0.4 * decode / 1e9,
            "staging": 0.4 * (long.LINK + 0.035) / (7 - long.B),
        }
        for bucket in (SHORT, LONG):
            assert loads_of(row_of(evaluation, WHOLE, bucket=bucket)) == close(expected)

    def test_figures_of_the_scenario(self, evaluation: pl.DataFrame) -> None:
        """The larger of two stalls and batches, and of each wait: 26 ms before prefill of the long ones, 34 ms behind
        that of the short ones.
        """
        row, short, long = row_of(evaluation, WHOLE, bucket=SHORT), TestShortPath, TestLongPath
        assert short.B > long.B
        assert row["decode_batch"] == close(short.B)
        stall = whole_prompts(MIX[:4], 1, rate=1.6, ca2=1.8).stall
        assert stall > 0.1  # against a step of a few sequences
        assert row["stall_s"] == close(stall)
        assert max(short.QUEUE + short.RESIDUAL + short.SLOT, long.QUEUE) < max(short.BEHIND, long.WAIT)
        assert row["dominant_queue"] == "decode"
        matrix = row_of(matrix_of(inputs_frame_of(**BOTH), VARIED, [1000]), WHOLE)
        assert matrix["transfer_worst_s"] == pytest.approx(long.LINK + 0.035, rel=1e-9)
        assert matrix["operating_parts"] == 3 + 5 + 1 + 7

    def test_goodput_counts_shares_of_the_whole_cohort(self, evaluation: pl.DataFrame) -> None:
        short, long = TestShortPath, TestLongPath
        mixed = whole_prompts(MIX[:4], 1, rate=1.6, ca2=1.8).generation
        met_short = meets(0.096, short.QUEUE, 0.5 - (0.062 + short.RESIDUAL + short.SLOT))
        met_short *= 0.8 * (0.25 + 0.75 * mixed.meets(41, 0.02))
        # 80 of 81 steps: the number of others turns over 1 - κ0 times
        mu, turned = 80 * (long.T - 0.0105), 80 / 81 * 0.9838
        variance = (80 * 0.0005) ** 2 * long.B / 0.9838 * 2 * (turned - 1 + math.exp(-turned)) / turned**2
        chi = math.sqrt(variance) / mu
        assert chi > 1
        some = 2 / (1 + chi**2)
        met_long = 0.2 * (1 - some * math.exp(-some * 80 * 0.0095 / mu))
        met_long *= meets(0.124, long.QUEUE, 0.5 - (0.312 + long.LINK + 0.035 + long.WAIT + long.T))
        row = row_of(evaluation, WHOLE, bucket=SHORT)
        assert row["goodput"] == close(met_short + met_long)
        # 3 GPUs of 3.6 an hour are 0.003 a second, for 2 requests a second of 31 or 81 tokens
        tokens = 2 * (met_short * 31 + met_long * 81)
        assert row["cost_per_million_tokens"] == close(0.003 / tokens * 1e6)

    def test_the_short_path_may_be_chunks(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, CHUNKED, bucket=SHORT)
        found = chunks(MIX[:4], 700, 1, rate=1.6, ca2=1.8)
        tail = (0, 0, 0.75 * found.e, 0.75 * found.t, 29.25 * found.t)
        assert lanes_of(row) == close((0.002, found.wait, found.execution[0], *tail))
        assert (row["load_mixed"], row["load_prefill_lane"]) == close((found.rho, found.lane.rho))


def test_the_first_full_load_of_either_path_refuses_and_the_other_is_shown_as_far_as_that() -> None:
    """0.124 of the prefill pool is more than its own ceiling; the mixed pool may be 0.8 full."""
    row = row_of(evaluation_of("routed", inputs_frame_of(**BOTH, u_pp=0.1), VARIED, [1000]), WHOLE)
    assert (row["refusal_kind"], row["refusal_resource"]) == ("utilization", "prefill")
    assert list(loads_of(row)) == ["mixed", "slots_mixed", "kv_mixed", "prefill"]
    assert lanes_of(row) == (None,) * 8


def test_a_threshold_that_leaves_a_path_empty_is_no_scenario() -> None:
    inputs = inputs_frame_of(**BOTH | {"thresholds": "1000 5000"})
    found = evaluation_of("routed", inputs, VARIED, [1000, 5000])
    assert set(found["threshold_tokens"]) == {1000}


def test_a_path_of_two_buckets_has_their_means_and_their_largest() -> None:
    """Cut at 600 and 1000, the short path below 1000 is one bucket; cut at 400, its bucket is the same: 500 is in [400,1000)."""
    one, other = (evaluation_of("routed", inputs_frame_of(**BOTH), VARIED, edges) for edges in ([1000], [400, 1000]))
    assert set(other["bucket"]) == {"[400,1000)", LONG}
    lanes = [lanes_of(row_of(frame, WHOLE, bucket=LONG)) for frame in (one, other)]
    assert lanes[0] == lanes[1]


def test_the_moments_of_a_path_are_the_means_over_its_buckets() -> None:
    """300 and 600 tokens, two each, in buckets of their own below the threshold: S̄ = (0.04 + 0.07)/2 of 1.6 a second."""
    requests = in_pairs((300, 11), (600, 41), (300, 11), (600, 41), (3000, 81))
    row = row_of(evaluation_of("routed", inputs_frame_of(**BOTH), requests, [400, 1000]), WHOLE, bucket="[400,1000)")
    own = pairs((300, 11), (600, 41), (300, 11), (600, 41))
    found = whole_prompts(own, 1, rate=1.6, ca2=1.8)
    assert lanes_of(row) == close((0.002, found.wait, 0.07, 0, 0, found.dw, found.first, 39 * found.t))
    assert (row["stall_s"], row["load_kv_mixed"]) == close((found.stall, 1e4 * 1.6 * found.token_s / 1e9))


def test_evaluations_of_all_four_topologies_stand_side_by_side() -> None:
    names = [frame["topology"][0] for frame in evaluations_of(inputs_frame_of(**BOTH), VARIED, [1000])]
    assert names == ["aggregated", "chunked", "disaggregated", "routed"]
