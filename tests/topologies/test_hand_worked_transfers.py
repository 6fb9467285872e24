"""Transfers of every form, worked out by hand: requests and costs are those of worked.py.

STEADY moves 1000 tokens of 10 kB each: 10 MB, over one link of 1 GB/s with 5 ms of overhead unless a case says otherwise.
"""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from pipelines.frames.inputs import InputTable
from pipelines.topologies.constants import constants
from pipelines.topologies.requests import Computed
from pipelines.topologies.transfers import Transfers, transfers
from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, row_of, workload_of
from tests.topologies.by_hand import decode_pool, queue, run_of
from tests.topologies.worked import FIVE, LONG, MIX, SHORT, STEADY, VARIED, close

HALF = in_pairs(*[(1000, 101)] * 5, cached={1000: 500})
HALF_WINDOWS = "full:5x5x50+50 window:5x5x50+50@512"
CURVE_ALONE = dict.fromkeys(
    ("line_rate", "w", "registration", "synchronization", "receiver_visibility", "per_descriptor", "regions")
)
"""What is not declared where nothing but a curve is."""

CURVE = "5000000:0.01:0.01 20000000:0.04:0.05"
"""2 ns a byte from 5 to 20 MB: 10 MB take 0.02 s. With upper times 0.04 s over 15 MB: 0.01 + 0.04/3 s."""


def moved(bound: str = "nominal", scenario: str = "disaggregated/p1/d1", **overrides: Any) -> dict[str, Any]:
    """Transfers of STEADY, with time for all of them."""
    return row_of(
        evaluation_of("disaggregated", inputs_frame_of(**{"ttft": 9.0, **overrides}), STEADY), scenario, bound
    )


def wait(seconds: float, load: float, channels: int = 1) -> float:
    """For a link, of transfers that take ``seconds`` each."""
    return queue(1.0, 0.0, load, channels, seconds)[1]


def second_moment(found: Transfers) -> float:
    """E[(T - h_x)²]."""
    return (1 + found.link_scv) * found.link_s**2


class TestAffine:
    def test_every_part_of_it(self) -> None:
        """Two of four links, four fifths of each: 1.6 GB/s. Blocks of 5: 1002 tokens on average, 10.02 MB, relaid out 16.032 MB.

        10 layers x 1002/5 blocks x 2 regions = 4008 descriptors of 1 us; handover 4 ms: T = 0.004 + 0.005 + 0.004008 + 0.01002 s.
        Each of two channels is busy for 2·(T - 0.004)/2: not while the router works.
        """
        row = moved(
            links=4, links_per_transfer=2, competing=0.2, handover=0.004,
            block_tokens=5, per_descriptor=1e-6, relayout=1.6,
        )  # fmt: skip
        busy = 0.019028
        assert (row["kv_movement_s"], row["load_link"]) == close((0.004 + busy, busy))
        assert row["transfer_wait_s"] == close(wait(busy, busy, channels=2))

    def test_the_conservative_bound(self) -> None:
        """As above, with 0.4 of 1 GB/s on each of two links: 0.8 GB/s, 20.04 MB, 3 regions: 6012 descriptors of 2 us, handover 8 ms."""
        row = moved(
            "conservative",
            links=Ranged(4, low=2),
            links_per_transfer=2,
            competing=Ranged(0.2, high=0.6),
            handover=Ranged(0.004, high=0.008),
            block_tokens=5,
            per_descriptor=Ranged(1e-6, high=2e-6),
            regions=Ranged(2, high=3),
            relayout=Ranged(1.6, high=2.0),
        )
        busy = 0.005 + 0.012024 + 0.02505
        assert (row["kv_movement_s"], row["load_link"]) == close((0.008 + busy, 2 * busy))
        assert row["transfer_wait_s"] == close(wait(busy, 2 * busy))

    def test_descriptors_of_windows_and_states(self) -> None:
        """2 regions x (5 x 1000 + 3 x 512) layer blocks, and one for each of 2 states: 13074 of 1 us.

        5 MB + 3 kB x 512 + 2 states of 4000 bytes = 6.544 MB.
        """
        row = moved(cache="full:5x5x50+50 window:3x5x50+50@512 state:2x1x1000+0", per_descriptor=1e-6)
        assert row["kv_movement_s"] == close(0.005 + 0.013074 + 0.006544)

    def test_an_odd_link_is_left_over(self) -> None:
        row = moved(links=5, links_per_transfer=2, handover=0.005)  # T = 0.005 + 0.005 + 10 MB/2 GB/s
        assert (row["kv_movement_s"], row["load_link"]) == close((0.015, 2 * 0.01 / 2))

    def test_streaming_hides_payload_and_no_overhead(self) -> None:
        """T = 0.005 + 0.003 + 0.02 (20000 descriptors) + 0.01; of the last a half."""
        row = moved(phi=0.5, handover=0.003, per_descriptor=1e-6)
        assert (row["kv_movement_s"], row["load_link"]) == close((0.038 - 0.005, 2 * 0.035))


class TestCurve:
    def test_within_its_range(self) -> None:
        row = moved(curve=CURVE, **CURVE_ALONE)
        assert (row["kv_movement_s"], row["load_link"]) == close((0.02, 0.04))
        assert row["transfer_wait_s"] == close(wait(0.02, 0.04))

    def test_other_traffic_stretches_it_and_the_handover_is_apart(self) -> None:
        """0.003 + 0.02/0.8; streamed is what exceeds the smallest transfer, (0.02 - 0.01)/0.8 s, and 0.4 of it hidden."""
        row = moved(curve=CURVE, competing=0.2, handover=0.003, phi=0.4, **CURVE_ALONE)
        assert row["kv_movement_s"] == close(0.003 + 0.025 - 0.4 * 0.0125)
        assert row["load_link"] == close(2 * 0.025)

    def test_the_conservative_bound_takes_upper_times_where_there_are_some(self) -> None:
        row = moved("conservative", curve=CURVE, competing=Ranged(0, high=0.5), **CURVE_ALONE)
        assert row["kv_movement_s"] == close((0.01 + 0.04 / 3) / 0.5)

    def test_points_without_an_upper_time_keep_their_own(self) -> None:
        row = moved("conservative", curve="5000000:0.01 20000000:0.04:0.05", **CURVE_ALONE)
        assert row["kv_movement_s"] == close(0.01 + 0.04 / 3)

    def test_relayout_moves_along_it(self) -> None:
        assert moved(curve=CURVE, relayout=1.5, **CURVE_ALONE)["kv_movement_s"] == close(0.03)

    @pytest.mark.parametrize(
        ("curve", "seconds"),
        [
            ("20000000:0.04 30000000:0.05", 0.04),  # as the smallest that was measured
            ("1000000:0.002 5000000:0.01", 0.01 + 5e6 * 0.008 / 4e6),  # on at 2 ns a byte
            ("1000000:0.002 2000000:0.004 5000000:0.005", 0.005 + 5e6 * 0.001 / 3e6),  # of the last piece
            ("10000000:0.04 30000000:0.05", 0.04),
            ("1000000:0.002 10000000:0.03", 0.03),
        ],
    )
    def test_alone_it_holds_beyond_its_ends(self, curve: str, seconds: float) -> None:
        assert moved(curve=curve, **CURVE_ALONE)["kv_movement_s"] == close(seconds)

    @pytest.mark.parametrize(
        ("curve", "seconds"),
        [
            ("20000000:0.04 30000000:0.05", 0.015),
            ("1000000:0.002 5000000:0.01", 0.015),
            ("10000000:0.04 30000000:0.05", 0.04),
            ("1000000:0.002 10000000:0.03", 0.03),
            (CURVE, 0.02),
        ],
    )
    def test_a_bandwidth_holds_outside_of_its_range(self, curve: str, seconds: float) -> None:
        assert moved(curve=curve)["kv_movement_s"] == close(seconds)

    def test_outside_the_payload_is_that_of_the_bandwidth(self) -> None:
        assert moved(curve="20000000:0.04 30000000:0.05", phi=1.0)["kv_movement_s"] == close(0.005)


class TestPrefixAtTheDestination:
    def rows(self, requests: Any, **overrides: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        evaluation = evaluation_of("disaggregated", inputs_frame_of(**overrides), requests)
        nominal, conservative = (
            row_of(evaluation, "disaggregated/p1/d1", bound) for bound in ("nominal", "conservative")
        )
        return nominal, conservative

    def test_of_tokens_that_the_log_has_cached(self) -> None:
        """500 of 1000, of which 0.6 or 0.2 are there already: 700 or 900 tokens move."""
        nominal, conservative = self.rows(HALF, at_destination=Ranged(0.6, low=0.2))
        assert (nominal["kv_movement_s"], conservative["kv_movement_s"]) == close((0.012, 0.014))

    def test_of_tokens_that_a_declared_ratio_has_cached(self) -> None:
        """Half of 1000, or a fifth: 0.4·1000 + 0.6·0.5·1000 = 700 tokens, and 0.4·1000 + 0.6·0.8·1000 = 880."""
        nominal, conservative = self.rows(STEADY, at_destination=0.6, eta=Ranged(0.5, low=0.2))
        assert (nominal["kv_movement_s"], conservative["kv_movement_s"]) == close((0.012, 0.0138))

    def test_the_longest_prompt_moves_whole_all_the_same(self) -> None:
        nominal, _ = self.rows(HALF, at_destination=0.6, first_token="prefill")
        assert nominal["kv_movement_s"] == close(0.012)
        pool = decode_pool(FIVE, g=1)
        run = run_of([0.012] * 5, 0.015, 2.0, 1, 0.0, 5)
        assert nominal["stall_s"] == close(run + 0.015 + pool.slot + 2 * pool.longest)

    def test_held_are_all_tokens_wherever_they_came_from(self) -> None:
        """S = 0.01 + 0.05; E[p·T] = 1000·0.012."""
        nominal, _ = self.rows(HALF, at_destination=0.6)
        seconds = 0.06 + wait(0.012, 0.024) + 0.012
        assert nominal["load_kv_prefill"] == close(2e4 * 1000 * seconds / 1e9)


@pytest.mark.parametrize(
    ("sharing", "scenario", "queues"),
    [
        ("shared", "disaggregated/p2/d1", 1),
        ("per_prefill_worker", "disaggregated/p2/d1", 2),
        ("per_prefill_worker", "disaggregated/p1/d3", 1),
        ("per_decode_worker", "disaggregated/p2/d1", 1),
        ("per_decode_worker", "disaggregated/p1/d3", 3),
    ],
)
def test_links_of_a_worker_are_a_queue_of_their_own(sharing: str, scenario: str, queues: int) -> None:
    """T = 0.005 + 0.25 s at 40 MB/s on one of two links: of two a second, each queue gets its part."""
    row = moved(scenario=scenario, sharing=sharing, w=4e7, links=2)
    load = 2 * 0.255 / (2 * queues)
    assert row["load_link"] == close(load)
    assert row["transfer_wait_s"] == close(wait(0.255, load, channels=2))


class TestOverlap:
    """50 MB/s: Y(500) = 0.1 s, S = 0.06 s; Y(3000) = 0.6 s, S = 0.31 s. 0.55 of it: 0.055 s, and 0.33 s, more than prefill lasts."""

    def test_each_length_hides_its_own(self) -> None:
        evaluation = evaluation_of("disaggregated", inputs_frame_of(w=5e7, phi=0.55, links=2, ttft=9.0), VARIED)
        mean = (4 * (0.105 - 0.055) + (0.605 - 0.31)) / 5
        assert row_of(evaluation, "disaggregated/p1/d1")["kv_movement_s"] == close(mean)

    def test_of_a_declared_hit_ratio_it_hides_what_is_computed(self) -> None:
        """η = 0.5: S(500) = 0.01 + 0.025, S(3000) = 0.01 + 0.15 s."""
        inputs = inputs_frame_of(w=5e7, phi=0.55, links=2, eta=0.5, ttft=9.0)
        evaluation = evaluation_of("disaggregated", inputs, VARIED, [1000])
        short, long = (row_of(evaluation, "disaggregated/p1/d1", bucket=bucket) for bucket in (SHORT, LONG))
        assert (short["kv_movement_s"], long["kv_movement_s"]) == close((0.105 - 0.035, 0.605 - 0.16))

    def test_the_stall_hides_behind_the_longest_prefill(self) -> None:
        """T_max = 0.605 s and S_max = 0.31 s; a run of transfers on two links comes before it, and the longest of them."""
        inputs = inputs_frame_of(w=5e7, phi=0.55, links=2, first_token="prefill", ttft=9.0)
        row = row_of(evaluation_of("disaggregated", inputs, VARIED), "disaggregated/p1/d1")
        pool = decode_pool(MIX, g=1)
        run = run_of([0.105] * 4 + [0.605], 0.605, 2.0, 2, 0.0, 5) + 0.605
        assert row["stall_s"] == close(run + 0.605 - 0.31 + pool.slot + 2 * pool.longest)


def moments(requests: Any, **overrides: Any) -> Transfers:
    table = InputTable.of(inputs_frame_of(**overrides))
    known, own = constants(table, "nominal"), workload_of(requests).of("all", None)
    assert own is not None
    return transfers(table, "nominal", known, own, Computed.of(own, known.alpha, known.beta))


class TestMomentsAgainstSingleRequests:
    """40 requests of 100 to 4000 tokens, a third of some of them cached; and five lengths, each a stratum."""

    LENGTHS = tuple(100 + (997 * place) % 3901 for place in range(40))
    CACHED: Mapping[int, int] = {p: p // 3 for p in LENGTHS[::2]}
    FEW = (100, 511, 513, 1500, 4000)

    @pytest.mark.parametrize("delta", [0.0, 0.6, 1.0])
    @pytest.mark.parametrize("eta", [0.0, 0.3])
    @pytest.mark.parametrize("block", [1, 16])
    def test_a_straight_form_is_exact_whatever_the_strata(self, delta: float, eta: float, block: int) -> None:
        """v = p - δ·(p - α·u); T = 0.007 + 1e-7·20·v'/β + 10 kB·v'/0.5 GB/s with v' = v + (β - 1)/2."""
        requests = in_pairs(*((p, 2) for p in self.LENGTHS), cached=self.CACHED)
        found = moments(
            requests, w=5e8, handover=0.002, per_descriptor=1e-7, block_tokens=block, at_destination=delta, eta=eta
        )
        tokens = [(1 - delta) * p + delta * (1 - eta) * (p - self.CACHED.get(p, 0)) for p in self.LENGTHS]
        held = [v + (block - 1) / 2 for v in tokens]
        times = [0.007 + 1e-7 * 20 * v / block + 1e4 * v / 5e8 for v in held]
        weighed = [p * seconds for p, seconds in zip(self.LENGTHS, times, strict=True)]
        assert found.mean_s == pytest.approx(math.fsum(times) / 40, rel=1e-10)
        busy = [seconds - 0.002 for seconds in times]
        assert second_moment(found) == pytest.approx(math.fsum(t * t for t in busy) / 40, rel=1e-10)
        assert found.token_seconds == pytest.approx(math.fsum(weighed) / 40, rel=1e-10)

    def exactly(self, found: Transfers, times: list[float]) -> None:
        weighed = [p * seconds for p, seconds in zip(self.FEW, times, strict=True)]
        assert found.mean_s == pytest.approx(math.fsum(times) / 5, rel=1e-10)
        assert second_moment(found) == pytest.approx(math.fsum(t * t for t in times) / 5, rel=1e-10)
        assert found.token_seconds == pytest.approx(math.fsum(weighed) / 5, rel=1e-10)

    def test_windows_are_exact_where_each_length_is_a_stratum(self) -> None:
        found = moments(in_pairs(*((p, 2) for p in self.FEW)), cache=HALF_WINDOWS)
        self.exactly(found, [0.005 + (5e3 * p + 5e3 * min(p, 512)) / 1e9 for p in self.FEW])

    def test_so_is_a_curve(self) -> None:
        """10 kB a token: 1 MB is below the range, 5.11 and 5.13 MB lie within it, 15 and 40 MB go on from it."""
        found = moments(
            in_pairs(*((p, 2) for p in self.FEW)), curve="2000000:0.004 5120000:0.008 6120000:0.01", **CURVE_ALONE
        )
        after = [0.008 + (size - 5.12e6) * 2e-9 for size in (5.13e6, 15e6, 40e6)]
        self.exactly(found, [0.004, 0.004 + (5.11e6 - 2e6) * 0.004 / 3.12e6, *after])

    def test_within_a_stratum_a_bend_counts_by_its_slope_at_the_mean(self) -> None:
        """1000 and 3000 tokens of one uncached length, 500: one stratum, v = E[p] = 2000, Var = 1e6; beyond the window 5 us a token.

        T = 0.005 + (10 MB + 2.56 MB)/1 GB/s; E[T²] = T² + (5e-6)²·1e6; E[p·T] = 2000·T + 5e-6·1e6.
        """
        requests = in_pairs((1000, 2), (3000, 2), (1000, 2), (3000, 2), cached={1000: 500, 3000: 2500})
        found = moments(requests, cache=HALF_WINDOWS)
        seconds = 0.005 + 0.01256
        assert (found.mean_s, second_moment(found)) == close((seconds, seconds**2 + 25e-6))
        assert found.token_seconds == close(2000 * seconds + 5)
        # half of 500 and of 2500 cached tokens are at the destination: v = 750 and 1750, Var = 0.25e6, Cov = 0.5e6
        held = moments(requests, cache=HALF_WINDOWS, at_destination=0.5)
        seconds = 0.005 + (5e3 * 1250 + 2.56e6) / 1e9
        assert (second_moment(held), held.token_seconds) == close((seconds**2 + 25e-12 * 0.25e6, 2000 * seconds + 2.5))


def test_a_slow_router_fills_no_link() -> None:
    """Half a second of it, and two transfers of 15 ms a second: the link waits for nobody longer, only the movement takes longer."""
    slow, fast = moved(handover=0.5), moved()
    assert slow["load_link"] == close(fast["load_link"])
    assert slow["transfer_wait_s"] == close(fast["transfer_wait_s"])
    assert slow["kv_movement_s"] == close(0.5 + fast["kv_movement_s"])


def test_transfers_vary_by_what_the_link_carries() -> None:
    """Of VARIED 5 MB or 30 MB at 1 GB/s: busy for 0.01 or 0.035 s, 0.015 on average, whatever the router takes."""
    rows = [
        row_of(
            evaluation_of("disaggregated", inputs_frame_of(handover=handover, ttft=9.0), VARIED), "disaggregated/p1/d1"
        )
        for handover in (0.0, 0.2)
    ]
    for row in rows:
        c2 = (4 * 0.01**2 + 0.035**2) / 5 / 0.015**2 - 1
        assert row["transfer_wait_s"] == close((1 + c2) / 2 * 0.03 / 0.97 * 0.015)
