"""Every figure of separate pools, worked out by hand: requests and costs are those of worked.py."""

import math
from dataclasses import replace
from typing import Any, ClassVar

import polars as pl
import pytest

from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, row_of
from tests.topologies.by_hand import Costs, crossing, decode_pool, meets, queue, run_of
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


class TestFirstTokenByDecode:
    """One worker each. ρ_p = 0.22; all 101 tokens are decode steps: 202 a second, ρ_d = 0.101, t = 0.0105/0.899 s, b = 202·t.

    Moving 10 MB at 1 GB/s takes 10 ms, with 5 ms of overhead: T = 0.015 s, ρ_l = 0.03.
    """

    T, B = 0.0105 / 0.899, 2.121 / 0.899
    QUEUE = 0.5 * 0.22 / 0.78 * 0.11
    LINK = 0.5 * 0.03 / 0.97 * 0.015
    SOME = 1 - (1 - 0.101) ** 21  # κ0 = 202·0.0005, r0 = 0.0105/0.0005
    # half of a step, if one is running; and one of 7 slots, held for 101 steps, always the same
    SLOT = 0.5 * (B / 7) ** 3 / (7 - B) * 101 * T
    DECODE_WAIT = SOME * T / 2 + SLOT

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

    def test_batch_and_queue(self, row: dict[str, Any]) -> None:
        assert row["decode_batch"] == close(self.B)
        assert self.QUEUE > self.DECODE_WAIT > self.LINK
        assert row["dominant_queue"] == "prefill"

    def test_the_stall_is_the_longest_step(self, row: dict[str, Any]) -> None:
        """More than usual sequences, less than the 7 slots: k·ln(k/(κ0·(k + 21))) + 21·ln(21/((1 - κ0)·(k + 21))) = ln 5.

        They vary more than the contexts of so many would, w of (1 + w)·ln(1 + w) - w = ln 5/b.
        """
        k = crossing(
            lambda k: k * math.log(k / (0.101 * (k + 21))) + 21 * math.log(21 / (0.899 * (k + 21))),
            21 * 0.101 / 0.899,
            math.log(5),
        )
        w = crossing(lambda y: self.B * (y * math.log(y) - (y - 1)), 1.0, math.log(5)) - 1
        assert k < 7
        assert row["stall_s"] == close(0.01 + 0.0005 * max(k, self.B + self.B * w))

    def test_loads(self, row: dict[str, Any]) -> None:
        moving = 1000 * (self.LINK + 0.015)
        # E[p·S] = 110; decoding: t·(1000·101 + 101²/2)
        prefill = 10_000 * 2 * (110 + moving) / 1e9
        decode = 10_000 * 2 * (moving + 1000 * self.DECODE_WAIT + self.T * 106_100.5) / 1e9
        expected = {"prefill": 0.22, "decode": 0.101, "link": 0.03, "slots_decode": self.B / 7}
        staging = 2 * (self.LINK + 0.015) / (7 - self.B)
        assert loads_of(row) == close(expected | {"kv_prefill": prefill, "kv_decode": decode, "staging": staging})

    def test_goodput_keeps_the_longer_queue(self, row: dict[str, Any]) -> None:
        """Of TPOT: what the 101 steps of others add to t - t(1), on average and in variance, turned over 1 - κ0 times."""
        slack = 0.2 - (0.112 + self.LINK + 0.015 + self.DECODE_WAIT + self.T)
        mu, turned = 100 * (self.T - 0.0105), 100 / 101 * 0.899
        variance = (100 * 0.0005) ** 2 * self.B / 0.899 * 2 * (turned - 1 + math.exp(-turned)) / turned**2
        chi = math.sqrt(variance) / mu
        assert chi < 1
        paced = 1 - math.exp(-(0.95 - mu * (1 - chi)) / (mu * chi))
        assert row["goodput"] == close(meets(0.22, self.QUEUE, slack) * paced)


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
    inputs = inputs_frame_of(d=0.005, w=1e8, u_p=0.7, slots=1000, kv_memory=1e9, ttft=0.3, **overheads)
    row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
    assert row["load_prefill"] == row["load_link"]
    assert (row["tightest"], row["pressure"]) == ("prefill", close(0.3))


class TestBehindASlowLink:
    """40 MB/s: the payload takes 0.25 s, T = 0.255 s, ρ_l = 0.51, so that the link's queue is the longer one."""

    DECODE = decode_pool(FIVE)
    QUEUE = 0.5 * 0.22 / 0.78 * 0.11
    LINK = 0.5 * 0.51 / 0.49 * 0.255
    FIX = 0.002 + QUEUE + 0.11 + 0.255 + DECODE.wait + DECODE.t

    def row(self, **overrides: float | str) -> dict[str, Any]:
        inputs = inputs_frame_of(w=4e7, **{"ttft": 1.0, **overrides})
        return row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")

    def test_the_link_dominates(self) -> None:
        row = self.row()
        assert (row["dominant_queue"], row["transfer_wait_s"]) == ("transfer", close(self.LINK))
        assert row["ttft_s"] == close(self.FIX + self.LINK)

    def test_goodput_keeps_the_queue_of_the_link(self) -> None:
        paced = self.DECODE.generation.meets(101, 0.02)
        assert self.row()["goodput"] == close(meets(0.51, self.LINK, 1.0 - self.FIX) * paced)

    def test_goodput_keeps_the_queue_of_prefill_where_it_ends_the_first_lanes(self) -> None:
        """And of TPOT the way to the decode pool is a part, over 100 tokens: W_l, 0.255 s, and the wait there."""
        row = self.row(ttft=0.2, first_token="prefill")
        assert row["dominant_queue"] == "transfer"
        pool = decode_pool(FIVE, g=1)
        paced = replace(pool.generation, w=self.LINK + 0.255 + pool.wait)
        assert row["goodput"] == close(meets(0.22, self.QUEUE, 0.2 - 0.112) * paced.meets(101, 0.02))


class TestFirstTokenByPrefill:
    """Two round-robin prefill workers (ρ_p = 0.11), one decode worker: 80 tokens/s, ρ_d = 0.04, t = 0.0105/0.96 s.

    Two links of 50 MB/s: 0.2 ms per token, 5 ms of overhead: T(500) = 0.105, T(3000) = 0.605, T̄ = (4·0.105 + 0.605)/5 = 0.205 s;
    ρ_l = 0.205; E[T²] = (4·0.011025 + 0.366025)/5 = 0.082025 s², cT² = 0.04/0.042025. Of 0.41 erlangs on two links
    B_1 = 0.41/1.41, B_2 = 0.41·B_1/(2 + 0.41·B_1), C = B_2/(1 - 0.205·(1 - B_2)).
    Overlap 0.55: of 0.1 s payload 0.055 s is hidden; of 0.6 s it would be 0.33 s, but prefill lasts 0.31 s.
    """

    OVERRIDES: ClassVar[dict[str, Any]] = {
        "dispatch": "round_robin",
        "first_token": "prefill",
        "links": 2,
        "w": 5e7,
        "phi": 0.55,
        "ttft": 0.4,
    }
    SMOOTH = math.exp(-2 * 0.89 / (3 * 0.11) * 0.25 / (0.5 + VARIED_CS2))
    QUEUE = (1 / 2 + VARIED_CS2) / 2 * 0.11 / 0.89 * 0.11 * SMOOTH
    B_1 = 0.41 / 1.41
    B_2 = 0.41 * B_1 / (2 + 0.41 * B_1)
    FOUND = B_2 / (1 - 0.205 * (1 - B_2))
    LINK = (1 + 0.04 / 0.042025) / 2 * FOUND / (2 * 0.795) * 0.205
    T, B = 0.0105 / 0.96, 0.84 / 0.96
    # held for 40 steps on average
    SLOT = 1.4 / 2 * (B / 7) ** 3 / (7 - B) * 40 * T
    DECODE_WAIT = (1 - 0.96**21) * T / 2 + SLOT

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("disaggregated", inputs_frame_of(**cls.OVERRIDES), VARIED, [1000])

    def test_lanes_of_the_short_prompts(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "disaggregated/p2/d1", bucket=SHORT)
        after = (self.LINK, 0.105 - 0.055, self.DECODE_WAIT, 0.75 * self.T, 29.25 * self.T)
        assert lanes_of(row) == close((0.002, self.QUEUE, 0.06, *after))
        assert row["ttft_s"] == close(0.062 + self.QUEUE)
        # the way to the decode pool falls between the first token and the 30 that follow
        assert row["tpot_s"] == close((self.LINK + 0.05 + self.DECODE_WAIT) / 30 + self.T)

    def test_lanes_of_the_long_prompt(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "disaggregated/p2/d1", bucket=LONG)
        after = (self.LINK, 0.605 - 0.31, self.DECODE_WAIT, self.T, 79 * self.T)
        assert lanes_of(row) == close((0.002, self.QUEUE, 0.31, *after))
        assert row["ttft_s"] == close(0.312 + self.QUEUE)
        assert row["tpot_s"] == close((self.LINK + 0.295 + self.DECODE_WAIT) / 80 + self.T)

    def test_the_stall_is_the_way_of_the_longest_prompt_to_its_second_token(self, evaluation: pl.DataFrame) -> None:
        """A run of transfers for one of two links and the longest before it, its own, a slot, and two long steps."""
        row = row_of(evaluation, "disaggregated/p2/d1", bucket=SHORT)
        run = run_of([0.105] * 4 + [0.605], 0.605, 2.0, 2, 0.0, 5) + 0.605
        step = decode_pool(MIX, g=1).longest
        assert row["stall_s"] == close(run + 0.605 - 0.31 + self.SLOT + 2 * step)

    def test_loads(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "disaggregated/p2/d1", bucket=SHORT)
        # E[p·T] = 1000·0.005 + 0.0002·2e6 = 405; E[p·S] = 210 as in aggregated
        moving = 1000 * self.LINK + 405
        expected = {"prefill": 0.11, "decode": 0.04, "link": 0.205, "slots_decode": self.B / 7}
        expected["kv_prefill"] = 10_000 * 1 * (210 + moving) / 1e9
        expected["kv_decode"] = 10_000 * 2 * (moving + 1000 * self.DECODE_WAIT + self.T * 61_120) / 1e9
        expected["staging"] = 2 * (self.LINK + 0.205) / (7 - self.B)
        assert loads_of(row) == close(expected)

    def test_goodput_counts_the_first_three_lanes(self, evaluation: pl.DataFrame) -> None:
        """TPOT of the short answers starts from W_l + 0.05 s and the wait there, of the long one from W_l + 0.295 s."""
        found = queue(1.0, VARIED_CS2, 0.11, 2, 0.11, round_robin=True)[0]
        short, long = (meets(found, self.QUEUE, 0.398 - prefill) for prefill in (0.06, 0.31))
        pool = decode_pool(MIX, g=1, round_robin=True).generation
        paced = [replace(pool, w=self.LINK + movement + self.DECODE_WAIT) for movement in (0.05, 0.295)]
        short *= 0.25 + 0.75 * paced[0].meets(41, 0.02)
        long *= paced[1].meets(81, 0.02)
        assert row_of(evaluation, "disaggregated/p2/d1", bucket=SHORT)["goodput"] == close(0.8 * short + 0.2 * long)

    def test_a_bucket_whose_pace_is_too_slow_counts_nothing(self) -> None:
        """A step of one takes 10.5 ms: 80 steps in 10.5 ms each leave nothing for the way to the decode pool."""
        inputs = inputs_frame_of(**self.OVERRIDES | {"tpot": 0.0105})
        row = row_of(evaluation_of("disaggregated", inputs, VARIED, [1000]), "disaggregated/p2/d1", bucket=LONG)
        found = queue(1.0, VARIED_CS2, 0.11, 2, 0.11, round_robin=True)[0]
        # but for the one of four short answers that has a single token
        assert row["goodput"] == close(0.8 * meets(found, self.QUEUE, 0.338) * 0.25)


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
        ttft=1.0,
    )
    evaluation = evaluation_of("disaggregated", inputs, slower)
    row = row_of(evaluation, "disaggregated/p1/d1", "conservative")
    assert row["load_link"] == close(0.509)
    assert row["transfer_wait_s"] == close(0.5 * 0.509 / 0.491 * 0.509)
    assert row["kv_movement_s"] == close(0.009 + 0.5 - 0.05)
    nominal = row_of(evaluation, "disaggregated/p1/d1")
    # two links: rho_l = 0.1275, C = B_2/(1 - ρ_l·(1 - B_2)); half of 0.25 s would be hidden, but prefill lasts 0.11 s
    lost = 0.255 * (0.255 / 1.255) / (2 + 0.255 * (0.255 / 1.255))
    found = lost / (1 - 0.1275 * (1 - lost))
    assert nominal["load_link"] == close(0.1275)
    assert nominal["transfer_wait_s"] == close(0.5 * found / (2 * 0.8725) * 0.255)
    assert nominal["kv_movement_s"] == close(0.255 - 0.11)


class TestShortestFirst:
    """One prefill worker: 2·0.8·0.06 = 0.096 of 0.22: ω = 0.78/0.904 and 1/0.904. Nothing waits for what was overtaken afterwards."""

    def test_waits_and_goodput(self) -> None:
        inputs = inputs_frame_of(discipline_p="shortest_first", ttft=0.5)
        evaluation = evaluation_of("disaggregated", inputs, VARIED, [1000])
        wait = 0.0221 / 0.0121 / 2 * 0.22 / 0.78 * 0.11
        pool = decode_pool(MIX)
        # T(500) = 0.01, T(3000) = 0.035, T̄ = 0.015, E[T²] = (4·0.0001 + 0.001225)/5 = 0.000325
        link = 0.000325 / 0.000225 / 2 * 0.03 / 0.97 * 0.015
        goodput = 0.0
        for bucket, omega, s, moved, share, outputs in (
            (SHORT, 0.78 / 0.904, 0.06, 0.01, 0.8, (1, 41, 41, 41)),
            (LONG, 1 / 0.904, 0.31, 0.035, 0.2, (81,)),
        ):
            row = row_of(evaluation, "disaggregated/p1/d1", bucket=bucket)
            assert row["prefill_wait_s"] == close(omega * wait)
            fixed = 0.002 + s + link + moved + pool.wait + pool.t
            paced = sum(pool.generation.meets(o, 0.02) for o in outputs) / len(outputs)
            goodput += share * meets(0.22, omega * wait, 0.5 - fixed) * paced
        assert row_of(evaluation, "disaggregated/p1/d1", bucket=SHORT)["goodput"] == close(goodput)


class TestPoolsOfTheirOwn:
    """Prefill workers of two GPUs at twice the speed, of 5 ms overhead; decode workers of one GPU with a step of 5 ms and 20 slots."""

    OVERRIDES: ClassVar[dict[str, Any]] = {
        "gpus_p": 2, "r_pp": 20_000.0, "d_p": 0.005, "u_pp": 0.5, "kv_memory_p": 2e8,
        "gpus_d": 1, "t0_d": 0.005, "r_dd": 4000.0, "gamma_d": 1e-7, "slots_d": 20.0, "u_dd": 0.6, "kv_memory_d": 4e8,
    }  # fmt: skip

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("disaggregated", inputs_frame_of(**cls.OVERRIDES), STEADY)

    def test_scenarios_take_the_gpus_of_each_pool(self, evaluation: pl.DataFrame) -> None:
        gpus = dict(evaluation.select("scenario", "gpus").unique(maintain_order=True).iter_rows())
        assert gpus == {"disaggregated/p1/d1": 3, "disaggregated/p1/d2": 4}

    def test_figures(self, evaluation: pl.DataFrame) -> None:
        """S = 0.005 + 0.05 s, ρ_p = 0.11. R = 1000 + 101/2: c = 0.00025 + 1e-7·1050.5."""
        row = row_of(evaluation, "disaggregated/p1/d1")
        pool = decode_pool(FIVE, costs=Costs(t0=0.005, r_d=4000.0, gamma=1e-7, slots=20))
        assert (row["load_prefill"], row["load_decode"]) == close((0.11, 202 * 0.00035505))
        assert (row["prefill_execution_s"], row["prefill_wait_s"]) == close((0.055, 0.5 * 0.11 / 0.89 * 0.055))
        t = 0.00535505 / (1 - 202 * 0.00035505)
        assert (row["first_decode_step_s"], row["decode_batch"]) == close((t, 202 * t))
        assert (row["decode_wait_s"], row["load_slots_decode"]) == close((pool.wait, 202 * t / 20))
        # the longest sequence holds 50.5 tokens more than the mean: its steps cost more
        assert row["stall_s"] == close(pool.longest)
        held = 1000 * (row["transfer_wait_s"] + 0.015 + pool.wait) + t * 106_100.5
        moving = 55 + 1000 * (row["transfer_wait_s"] + 0.015)
        assert row["load_kv_prefill"] == close(2e4 * moving / 2e8)
        assert row["load_kv_decode"] == close(2e4 * held / 4e8)

    def test_ceilings_are_their_own(self) -> None:
        for name, resource, load in (("u_pp", "prefill", 0.11), ("u_dd", "decode", 202 * 0.00035505)):
            inputs = inputs_frame_of(**self.OVERRIDES | {name: load * 0.9})
            row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
            assert (row["refusal_kind"], row["refusal_resource"]) == ("utilization", resource)
            assert (row["refusal_figure"], row["refusal_limit"]) == close((load, load * 0.9))

    def test_the_mixed_pool_has_nothing_of_it(self) -> None:
        with_it, without = (evaluation_of("aggregated", inputs_frame_of(**o), STEADY) for o in (self.OVERRIDES, {}))
        assert with_it.equals(without)

    def test_a_curve_of_a_pool_replaces_overhead_and_rate_that_it_would_inherit(self) -> None:
        """1000 tokens between 500 (0.03 s) and 1500 (0.09 s): 0.06 s. Two sequences and more: 8 ms and 1 ms each."""
        inputs = inputs_frame_of(curve_p="500:0.03 1500:0.09", curve_d="1:0.009 3:0.011")
        row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
        assert (row["prefill_execution_s"], row["load_prefill"]) == close((0.06, 0.12))
        t = 0.009 / (1 - 0.202)
        assert (row["tpot_s"], row["load_decode"]) == close((t, 0.202))

    def test_a_rate_of_a_pool_replaces_the_curve_that_it_would_inherit(self) -> None:
        inputs = inputs_frame_of(
            prefill_curve="500:0.03 1500:0.09", d=None, r_p=None, d_p=0.02, r_pp=10_000.0,
            decode_curve="1:0.009 3:0.011", t0=None, r_d=None, t0_d=0.01, r_dd=2000.0,
        )  # fmt: skip
        row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
        assert (row["prefill_execution_s"], row["tpot_s"]) == close((0.12, 0.0105 / 0.899))
        mixed = row_of(evaluation_of("aggregated", inputs, STEADY), "aggregated/n1")
        assert mixed["prefill_execution_s"] == close(0.06)
