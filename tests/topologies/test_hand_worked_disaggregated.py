"""Every figure of separate pools, worked out by hand: requests and costs are those of worked.py."""

import math
from typing import Any

import polars as pl
import pytest

from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, row_of
from tests.topologies.worked import LONG, SHORT, STEADY, VARIED, VARIED_CS2, close, lanes_of, loads_of, met


class TestDisaggregatedFirstTokenByDecode:
    """One worker each. ρ_p = 0.22; all 101 tokens are decode steps: 202 a second, ρ_d = 0.101, t = 0.01/0.899 s, b = 2.02/0.899.

    Moving 10 MB at 1 GB/s takes 10 ms, with 5 ms of overhead: T = 0.015 s, ρ_l = 0.03.
    """

    T, B = 0.01 / 0.899, 2.02 / 0.899
    QUEUE = 0.5 * 0.22 / 0.78 * 0.11
    LINK = 0.5 * 0.03 / 0.97 * 0.015
    # 7 slots, held for 101 steps, always the same
    DECODE_WAIT = (1 - math.exp(-B)) * T / 2 + 0.5 * (B / 7) ** 3 / (7 - B) * 101 * T

    @pytest.fixture(scope="class")
    @classmethod
    def row(cls) -> dict[str, Any]:
        return row_of(evaluation_of("disaggregated", inputs_frame_of(), STEADY), "disaggregated/p1/d1")

    def test_lanes(self, row: dict[str, Any]) -> None:
        lanes = (0.002, self.QUEUE, 0.11, self.LINK, 0.015, self.DECODE_WAIT, self.T, 100 * self.T)
        assert lanes_of(row) == close(lanes)
        assert row["ttft_s"] == close(sum(lanes[:7]))
        assert row["tpot_s"] == close(self.T)
        assert row["e2e_s"] == close(sum(lanes))

    def test_batch_stall_and_queue(self, row: dict[str, Any]) -> None:
        assert row["decode_batch"] == close(self.B)
        assert row["stall_s"] == close(self.T)
        assert row["dominant_queue"] == "prefill"

    def test_loads(self, row: dict[str, Any]) -> None:
        moving = 1000 * (self.LINK + 0.015)
        # E[p·S] = 110; decoding: t·(1000·101 + 101²/2)
        prefill = 10_000 * 2 * (110 + moving) / 1e9
        decode = 10_000 * 2 * (moving + 1000 * self.DECODE_WAIT + self.T * 106_100.5) / 1e9
        expected = {"prefill": 0.22, "decode": 0.101, "link": 0.03, "slots": self.B / 7}
        staging = 2 * (self.LINK + 0.015) / (7 - self.B)
        assert loads_of(row) == close(expected | {"kv_prefill": prefill, "kv_decode": decode, "staging": staging})

    def test_goodput_keeps_the_longer_queue(self, row: dict[str, Any]) -> None:
        slack = 0.2 - (0.002 + 0.11 + self.LINK + 0.015 + self.DECODE_WAIT + self.T)
        assert row["goodput"] == close(met(0.22, self.QUEUE, slack))


@pytest.mark.parametrize(("w", "first", "second"), [(1e9, "transfer", "prefill"), (1e12, "prefill", "transfer")])
def test_the_decode_wait_may_be_the_longest(w: float, first: str, second: str) -> None:
    """Prompts of 1 ms hardly wait, nor do caches; 202 tokens/s on 7 slots wait for a slot and for the step."""
    free = {"registration": 0.0, "synchronization": 0.0, "receiver_visibility": 0.0}
    inputs = inputs_frame_of(d=0.0, r_p=1e6, w=w, **free)
    row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
    assert row["decode_wait_s"] > row[f"{first}_wait_s"] > row[f"{second}_wait_s"] > 0
    assert row["dominant_queue"] == "decode"


def test_of_equal_pressures_the_first_in_the_table_is_the_tightest() -> None:
    """Prefill and transfer both take 0.005 + 0.1 s, and both may be 0.7 full: 0.21/0.7 = 0.3."""
    overheads = {"registration": 0.005, "synchronization": 0.0, "receiver_visibility": 0.0}
    inputs = inputs_frame_of(d=0.005, w=1e8, u_p=0.7, slots=1000, kv_memory=1e9, **overheads)
    row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
    assert row["load_prefill"] == row["load_link"]
    assert (row["tightest"], row["pressure"]) == ("prefill", close(0.3))


class TestDisaggregatedBehindASlowLink:
    """40 MB/s: the payload takes 0.25 s, T = 0.255 s, ρ_l = 0.51, so that the link's queue is the longer one."""

    T, B = 0.01 / 0.899, 2.02 / 0.899
    QUEUE = 0.5 * 0.22 / 0.78 * 0.11
    LINK = 0.5 * 0.51 / 0.49 * 0.255
    FIX = 0.002 + QUEUE + 0.11 + 0.255 + (1 - math.exp(-B)) * T / 2 + 0.5 * (B / 7) ** 3 / (7 - B) * 101 * T + T

    def row(self, **overrides: float | str) -> dict[str, Any]:
        inputs = inputs_frame_of(w=4e7, **overrides)
        return row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")

    def test_the_link_dominates(self) -> None:
        row = self.row()
        assert (row["dominant_queue"], row["transfer_wait_s"]) == ("transfer", close(self.LINK))
        assert row["ttft_s"] == close(self.FIX + self.LINK)

    def test_goodput_keeps_the_queue_of_the_link(self) -> None:
        assert self.row(ttft=1.0)["goodput"] == close(met(0.51, self.LINK, 1.0 - self.FIX))

    def test_goodput_keeps_the_queue_of_prefill_where_it_ends_the_first_lanes(self) -> None:
        row = self.row(ttft=0.2, first_token="prefill")
        assert row["dominant_queue"] == "transfer"
        assert row["goodput"] == close(met(0.22, self.QUEUE, 0.2 - 0.112))


class TestDisaggregatedFirstTokenByPrefill:
    """Two round-robin prefill workers (ρ_p = 0.11), one decode worker: 80 tokens/s, ρ_d = 0.04, t = τ = 0.0105 s, b = 0.84.

    Two links of 50 MB/s: 0.2 ms per token, 5 ms of overhead: T(500) = 0.105, T(3000) = 0.605, T̄ = (4·0.105 + 0.605)/5 = 0.205 s;
    ρ_l = 0.205; E[T²] = (4·0.011025 + 0.366025)/5 = 0.082025 s², cT² = 0.04/0.042025.
    Overlap 0.55: of 0.1 s payload 0.055 s is hidden; of 0.6 s it would be 0.33 s, but prefill lasts 0.31 s.
    """

    INPUTS = inputs_frame_of(dispatch="round_robin", first_token="prefill", links=2, w=5e7, phi=0.55, ttft=0.4)
    QUEUE = (1 / 2 + VARIED_CS2) / 2 * 0.11 / 0.89 * 0.11
    LINK = (1 + 0.04 / 0.042025) / 2 * 0.205 ** (math.sqrt(6) - 1) / (2 * 0.795) * 0.205
    # sigma = 0.84/7 = 0.12; held for 40 steps of 0.0105 s on average
    DECODE_WAIT = (1 - math.exp(-0.84)) * 0.0105 / 2 + 1.4 / 2 * 0.12**3 / (7 * 0.88) * 0.42

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("disaggregated", cls.INPUTS, VARIED, [1000])

    def test_lanes_of_the_short_prompts(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "disaggregated/p2/d1", bucket=SHORT)
        after = (self.LINK, 0.105 - 0.055, self.DECODE_WAIT, 0.75 * 0.0105, 29.25 * 0.0105)
        assert lanes_of(row) == close((0.002, self.QUEUE, 0.06, *after))
        assert row["ttft_s"] == close(0.062 + self.QUEUE)
        # the way to the decode pool falls between the first token and the 30 that follow
        assert row["tpot_s"] == close((self.LINK + 0.05 + self.DECODE_WAIT) / 30 + 0.0105)

    def test_lanes_of_the_long_prompt(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "disaggregated/p2/d1", bucket=LONG)
        after = (self.LINK, 0.605 - 0.31, self.DECODE_WAIT, 0.0105, 79 * 0.0105)
        assert lanes_of(row) == close((0.002, self.QUEUE, 0.31, *after))
        assert row["ttft_s"] == close(0.312 + self.QUEUE)
        assert row["tpot_s"] == close((self.LINK + 0.295 + self.DECODE_WAIT) / 80 + 0.0105)

    def test_the_stall_is_the_way_of_the_longest_prompt_to_its_second_token(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "disaggregated/p2/d1", bucket=SHORT)
        assert row["stall_s"] == close(self.LINK + 0.605 - 0.31 + self.DECODE_WAIT + 0.0105)

    def test_loads(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "disaggregated/p2/d1", bucket=SHORT)
        # E[p·T] = 1000·0.005 + 0.0002·2e6 = 405; E[p·S] = 210 as in aggregated
        moving = 1000 * self.LINK + 405
        expected = {"prefill": 0.11, "decode": 0.04, "link": 0.205, "slots": 0.12}
        expected["kv_prefill"] = 10_000 * 1 * (210 + moving) / 1e9
        expected["kv_decode"] = 10_000 * 2 * (moving + 1000 * self.DECODE_WAIT + 0.0105 * 61_120) / 1e9
        expected["staging"] = 2 * (self.LINK + 0.205) / (7 - 0.84)
        assert loads_of(row) == close(expected)

    def test_goodput_counts_the_first_three_lanes(self, evaluation: pl.DataFrame) -> None:
        short, long = (met(0.11, self.QUEUE, 0.398 - prefill) for prefill in (0.06, 0.31))
        assert row_of(evaluation, "disaggregated/p2/d1", bucket=SHORT)["goodput"] == close(0.8 * short + 0.2 * long)

    def test_a_bucket_whose_pace_is_too_slow_counts_nothing(self) -> None:
        # TPOT of the short prompts 12.7 ms, of the long one 14.4 ms
        inputs = inputs_frame_of(
            dispatch="round_robin", first_token="prefill", links=2, w=5e7, phi=0.55, ttft=0.4, tpot=0.0135
        )
        row = row_of(evaluation_of("disaggregated", inputs, VARIED, [1000]), "disaggregated/p2/d1", bucket=LONG)
        assert row["goodput"] == close(0.8 * met(0.11, self.QUEUE, 0.338))


def test_a_transfer_that_prefill_hides_wholly_takes_no_time() -> None:
    """5 ms at 2 GB/s for 10 MB, without overhead, all of it streamed behind 0.11 s of prefill."""
    free = {"registration": 0.0, "synchronization": 0.0, "receiver_visibility": 0.0}
    evaluation = evaluation_of("disaggregated", inputs_frame_of(phi=1.0, w=2e9, **free), STEADY)
    assert evaluation["kv_movement_s"].unique().to_list() == [0.0]
    assert row_of(evaluation, "disaggregated/p1/d1")["load_link"] == close(0.01)


def test_the_conservative_bound_of_the_network() -> None:
    """One link of 20 MB/s (two of 40 MB/s), overheads 2 + 3 + 4 ms (1 + 2 + 2), overlap 0.1 (0.5): T = 0.009 + 0.5·s(20/20).

    5 requests of 1000 tokens, 10 MB each: payload 0.25 s at 40 MB/s and 0.5 s at 20 MB/s. One request a second, so rho_l = 0.509.
    """
    slower = in_pairs(*[(1000, 101)] * 5).with_columns(pl.col("arrival_ns") * 2)
    inputs = inputs_frame_of(
        links=Ranged(2, 1, 3),
        w=Ranged(4e7, 2e7, 8e7),
        registration=Ranged(0.001, 0.0005, 0.002),
        synchronization=Ranged(0.002, 0.001, 0.003),
        receiver_visibility=Ranged(0.002, 0.001, 0.004),
        phi=Ranged(0.5, 0.1, 0.9),
        u_l=Ranged(0.7, 0.6, 0.8),
    )
    evaluation = evaluation_of("disaggregated", inputs, slower)
    row = row_of(evaluation, "disaggregated/p1/d1", "conservative")
    assert row["load_link"] == close(0.509)
    assert row["transfer_wait_s"] == close(0.5 * 0.509 / 0.491 * 0.509)
    assert row["kv_movement_s"] == close(0.009 + 0.5 - 0.05)
    nominal = row_of(evaluation, "disaggregated/p1/d1")
    # two links: rho_l = 0.1275; half of 0.25 s would be hidden, but prefill lasts 0.11 s
    assert nominal["load_link"] == close(0.1275)
    assert nominal["transfer_wait_s"] == close(0.5 * 0.1275 ** (math.sqrt(6) - 1) / (2 * 0.8725) * 0.255)
    assert nominal["kv_movement_s"] == close(0.255 - 0.11)
