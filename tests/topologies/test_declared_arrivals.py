"""Arrivals that the cohort declares, worked out by hand: a rate, or a number of requests in the system. Costs as in worked.py."""

import math

import polars as pl
import pytest

from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, matrix_of, row_of
from tests.topologies.by_hand import Costs, chunks, pairs
from tests.topologies.worked import FIVE, LONG, SHORT, STEADY, close, lanes_of, loads_of

ONE_TOKEN = in_pairs(*[(1000, 1)] * 5)
"""Answered by prefill in S = 0.11 s: nothing decodes, so that nobody waits for a step or a slot."""

SLOWER = STEADY.with_columns(pl.col("arrival_ns") * 1000)


class TestDeclaredRate:
    """Two requests a second, or three of four times the variation, whatever the timestamps say."""

    INPUTS = inputs_frame_of(rate=Ranged(2, high=3), ca2=Ranged(1, high=4), slots=16)

    def test_nominal_it_is_as_if_the_trace_had_it(self) -> None:
        declared = evaluation_of("aggregated", self.INPUTS, SLOWER).filter(pl.col("bound") == "nominal")
        traced = evaluation_of("aggregated", inputs_frame_of(slots=16), STEADY).filter(pl.col("bound") == "nominal")
        assert declared.equals(traced)
        assert set(declared["rate_rps"]) == {2.0}

    def test_conservative(self) -> None:
        """One worker: ρ_p = 0.33, 300 decode tokens/s: ρ_d = 0.15; κ0 = 0.15/0.67. Of ca² = 4, (4 - 1)/2 more come behind each."""
        row = row_of(evaluation_of("aggregated", self.INPUTS, SLOWER), "aggregated/n1", "conservative")
        queue = 4 / 2 * 0.33 / 0.67 * 0.11  # D prompts at ca² = 4
        residual = (1 - (1 - 0.15 / 0.67) ** 21) * 0.67 * 0.0105 / 0.52 / 2
        behind = (3 * (queue + residual + 0.11) + 1.5) * 0.11 / 0.67
        t = (0.01 + 0.0005 * (1 + behind / 0.11)) / 0.52
        b = 300 * t
        slot = 0.5 * (b / 16) ** (math.sqrt(34) - 1) / (16 - b) * 100 * t
        assert row["rate_rps"] == 3.0
        assert lanes_of(row) == close((0.002, queue + residual + slot, 0.11, 0, 0, behind, 0.67 * t, 99 * t))
        resident = 10_000 * 3 * (110 + 1000 * behind + t * 105_000)
        assert loads_of(row) == close({"mixed": 0.48, "slots_mixed": b / 16, "kv_mixed": resident / 1e9})

    def test_of_separate_pools(self) -> None:
        """ρ_p = 0.33, 303 decode steps/s: ρ_d = 0.1515; T = 0.015 s: ρ_l = 0.045, of Poisson arrivals all the same."""
        row = row_of(evaluation_of("disaggregated", self.INPUTS, SLOWER), "disaggregated/p1/d1", "conservative")
        assert (row["load_prefill"], row["load_decode"], row["load_link"]) == close((0.33, 0.1515, 0.045))
        assert row["prefill_wait_s"] == close(4 / 2 * 0.33 / 0.67 * 0.11)
        assert row["transfer_wait_s"] == close(0.5 * 0.045 / 0.955 * 0.015)

    def test_of_chunks(self) -> None:
        """Budget 5000, one step each: ρ_pc = 3·0.11, ρ = 0.48; the lane as by_hand.py goes through it at three a second."""
        inputs = inputs_frame_of(rate=Ranged(2, high=3), chunk_tokens="5000", slots=16)
        row = row_of(evaluation_of("chunked", inputs, SLOWER), "chunked/n1/c5000", "conservative")
        found = chunks(FIVE, 5000, costs=Costs(slots=16), rate=3.0)
        assert row["load_mixed"] == close(0.48)
        assert (row["load_prefill_lane"], row["prefill_wait_s"]) == close((found.lane.rho, found.wait))

    def test_it_is_exported_with_twelve_digits(self) -> None:
        matrix = matrix_of(inputs_frame_of(rate=1 / 3), SLOWER)
        assert set(matrix["rate_rps"]) == {0.333333333333}


class TestClosedLoop:
    """Of regular arrivals (ca² = 0) of equal prompts nobody waits: E2E = 0.002 + 0.11 s at any rate, so that Λ = K/0.112."""

    def test_two_workers_take_one_request_at_a_time(self) -> None:
        row = row_of(evaluation_of("aggregated", inputs_frame_of(concurrency=1, ca2=0), ONE_TOKEN), "aggregated/n2")
        assert row["rate_rps"] == 8.92857142857  # 1/0.112
        assert lanes_of(row) == close((0.002, 0, 0.11, 0, 0, 0, 0, 0))
        assert row["load_mixed"] == pytest.approx(0.11 / 0.112 / 2, rel=1e-11)

    def test_the_trace_gives_the_tokens_alone(self) -> None:
        inputs = inputs_frame_of(concurrency=1, ca2=0)
        slower = ONE_TOKEN.with_columns(pl.col("arrival_ns") * 1000)
        assert evaluation_of("aggregated", inputs, ONE_TOKEN).equals(evaluation_of("aggregated", inputs, slower))

    def test_chunks(self) -> None:
        """Two steps of 0.02 s and 0.1 s of tokens, and what a prompt waits in its first step for others: Λ·E2E = 1 at that rate."""
        inputs = inputs_frame_of(concurrency=1, ca2=0, chunk_tokens="500")
        row = row_of(evaluation_of("chunked", inputs, ONE_TOKEN), "chunked/n2/c500")
        found = chunks(pairs(*[(1000, 1)] * 5), 500, 2, rate=row["rate_rps"], ca2=0.0)
        assert row["rate_rps"] < 1 / 0.142
        assert row["e2e_s"] == close(0.142 + found.wait)
        assert row["rate_rps"] * (0.142 + found.wait) == pytest.approx(1.0, rel=1e-11)

    def test_separate_pools(self) -> None:
        """With the first token by prefill, over a link that takes no time."""
        free = {"registration": 0.0, "synchronization": 0.0, "receiver_visibility": 0.0, "w": math.inf}
        inputs = inputs_frame_of(concurrency=1, ca2=0, first_token="prefill", **free)
        row = row_of(evaluation_of("disaggregated", inputs, ONE_TOKEN), "disaggregated/p2/d1")
        assert row["rate_rps"] == 8.92857142857

    def test_a_queue_slows_the_loop_at_either_bound(self) -> None:
        """One worker, no admission, Poisson arrivals: Λ·E2E = ρ·(1 + ρ/(2·(1 - ρ))) = K.

        K = 1: ρ² - 4ρ + 2 = 0, ρ = 2 - √2 = 0.586; K = 2: ρ² - 6ρ + 4 = 0, ρ = 3 - √5 = 0.764.
        """
        inputs = inputs_frame_of(a=0, concurrency=Ranged(1, high=2))
        evaluation = evaluation_of("aggregated", inputs, ONE_TOKEN)
        for bound, rho, k in (("nominal", 2 - math.sqrt(2), 1), ("conservative", 3 - math.sqrt(5), 2)):
            row = row_of(evaluation, "aggregated/n1", bound)
            assert row["rate_rps"] == pytest.approx(rho / 0.11, rel=1e-11)
            assert row["rate_rps"] == float(f"{row['rate_rps']:.11e}")
            assert row["load_mixed"] == pytest.approx(rho, rel=1e-11)
            assert row["e2e_s"] == pytest.approx(k * 0.11 / rho, rel=1e-11)

    def test_the_mean_is_over_all_requests_of_all_buckets(self) -> None:
        """Four of 0.06 s and one of 0.31 s: S̄ = 0.11, E[S²] = 0.0221, g = (1 + cs²)/2 = 0.0221/0.0242.

        ρ·(1 + g·ρ/(1 - ρ)) = 1: (1 - ρ)² = g·ρ², ρ = 1/(1 + √g).
        """
        requests = in_pairs((500, 1), (500, 1), (500, 1), (500, 1), (3000, 1))
        evaluation = evaluation_of("aggregated", inputs_frame_of(a=0, concurrency=1, ttft=0.4), requests, [1000])
        rho = 1 / (1 + math.sqrt(0.0221 / 0.0242))
        short, long = (row_of(evaluation, "aggregated/n1", bucket=bucket) for bucket in (SHORT, LONG))
        assert short["rate_rps"] == long["rate_rps"] == pytest.approx(rho / 0.11, rel=1e-11)
        assert (4 * short["e2e_s"] + long["e2e_s"]) / 5 == pytest.approx(0.11 / rho, rel=1e-11)

    def test_the_matrix_keeps_the_digits_of_the_rate(self) -> None:
        matrix = matrix_of(inputs_frame_of(concurrency=1, ca2=0, compared="aggregated"), ONE_TOKEN)
        assert row_of(matrix, "aggregated/n2")["rate_rps"] == 8.92857142857


class TestRefusedLoop:
    """One worker, ceiling 0.8: refused from Λ = 0.8/0.11 = 7.272… on, at which 0.814 requests are in the system."""

    def test_a_loop_that_offers_more_is_refused_just_beyond(self) -> None:
        row = row_of(evaluation_of("aggregated", inputs_frame_of(concurrency=1, ca2=0), ONE_TOKEN), "aggregated/n1")
        assert (row["status"], row["refusal_resource"]) == ("refused", "mixed")
        assert row["rate_rps"] == 7.27272728  # 7.272727… times 1 + 10⁻⁹
        assert row["refusal_figure"] == pytest.approx(0.8 * (1 + 1e-9), rel=1e-11)
        assert row["e2e_s"] is None

    @pytest.mark.parametrize(("short_of_k", "status"), [(1e-7, "evaluated"), (1e-5, "refused")])
    def test_a_millionth_short_of_k_is_close_enough(self, short_of_k: float, status: str) -> None:
        """A ceiling at which Λ·0.112 s is almost 1."""
        inputs = inputs_frame_of(concurrency=1, ca2=0, u_p=0.11 / 0.112 * (1 - short_of_k), u_d=1.0)
        row = row_of(evaluation_of("aggregated", inputs, ONE_TOKEN), "aggregated/n1")
        beyond = 0 if status == "evaluated" else 1e-9
        assert row["status"] == status
        assert row["rate_rps"] == pytest.approx((1 - short_of_k) * (1 + beyond) / 0.112, rel=2e-11)

    def test_each_bound_for_itself(self) -> None:
        """Two workers: K = 1 is 0.491 of them; K = 2 would be 0.982, and both are refused at Λ = 1.6/0.11."""
        inputs = inputs_frame_of(concurrency=Ranged(1, high=2), ca2=0)
        evaluation = evaluation_of("aggregated", inputs, ONE_TOKEN)
        assert row_of(evaluation, "aggregated/n2")["status"] == "evaluated"
        refused = row_of(evaluation, "aggregated/n2", "conservative")
        assert (refused["status"], refused["rate_rps"]) == ("refused", 14.54545456)

    def test_a_lane_that_starves(self) -> None:
        """Twice 0.01 s of overhead, 0.1 s of tokens, 2·0.01 s of steps; nothing more, since 1000 tokens are 2 pieces exactly, but a third
        for a prompt that begins within a step: 0.15·Λ.
        """
        inputs = inputs_frame_of(concurrency=2, ca2=0, chunk_tokens="500")
        row = row_of(evaluation_of("chunked", inputs, ONE_TOKEN), "chunked/n1/c500")
        assert (row["refusal_kind"], row["refusal_resource"]) == ("prefill_starved", "prefill_lane")
        assert row["rate_rps"] == 5.33333333867  # 0.8/0.15 times 1 + 10⁻⁹

    def test_a_scenario_that_is_refused_at_any_rate(self) -> None:
        """A prompt takes 10⁹ s: one in 10⁹ s is already the whole worker."""
        inputs = inputs_frame_of(concurrency=1, ca2=0, d=1e9)
        row = row_of(evaluation_of("aggregated", inputs, ONE_TOKEN), "aggregated/n1")
        assert (row["status"], row["rate_rps"]) == ("refused", 1e-9)
        assert row["load_mixed"] == close(1.0)


def test_requests_that_take_hardly_any_time_come_at_the_highest_rate_there_is() -> None:
    """A femtosecond each: 10⁹ a second are far from one in the system."""
    inputs = inputs_frame_of(concurrency=1, a=0, d=0, r_p=1e18)
    row = row_of(evaluation_of("aggregated", inputs, ONE_TOKEN), "aggregated/n1")
    assert (row["status"], row["rate_rps"], row["e2e_s"]) == ("evaluated", 1e9, pytest.approx(1e-15, rel=1e-5))


def test_a_system_slower_than_the_lowest_rate_has_its_own() -> None:
    """Admission of 10¹² s and K = 1: one request in 10¹² s."""
    inputs = inputs_frame_of(concurrency=1, ca2=0, a=1e12, d=0, r_p=1e18, ttft=1e13)
    row = row_of(evaluation_of("aggregated", inputs, ONE_TOKEN), "aggregated/n1")
    assert (row["status"], row["rate_rps"]) == ("evaluated", 1e-12)
