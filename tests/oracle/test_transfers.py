"""Transfers and links (docs/arithmetic.md sections 3 and 4) on the example workload, worked by hand.

100 kB per token over 1 GB/s: prompts of 1000 and 3000 tokens take 0.1 s and 0.3 s, and 3 ms each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipelines.oracle import transfers as tr
from pipelines.oracle.cache import Cache, Window
from pipelines.oracle.curves import Curve, parse_curve
from pipelines.oracle.parameters import Parameters
from pipelines.oracle.scenario import Knobs
from pipelines.oracle.traffic import Requests, Stratum, traffic_of
from tests.oracle import by_hand
from tests.oracle import forging as forge
from tests.oracle.example import EXAMPLE, SHORT, evaluator, parameters
from tests.oracle.handmade import receipt_of

HALF_WINDOWS = Cache(36864, (Window(128, 36864, 18),), 0.0, 18)
CURVE = Curve(((1e7, 0.01), (1e8, 0.05), (4e8, 0.2)))


def close(value: object) -> object:
    return pytest.approx(value, rel=1e-12, abs=1e-18)


def one_stratum(u: tuple[float, float] = (1000, 3000)) -> Requests:
    """The prompts of 1000 and 3000 tokens in one stratum, with so many tokens of each to compute."""
    p1, u1 = 2000.0, sum(u) / 2
    pu, u2 = (1000 * u[0] + 3000 * u[1]) / 2, (u[0] ** 2 + u[1] ** 2) / 2
    return replace(EXAMPLE.requests, strata=(Stratum(SHORT, 4, 1.0, p1, u1, 2 * pu - u2, 5e6, pu, u2),))


def test_bytes_of_a_model_with_windows() -> None:
    of = parameters(cache=HALF_WINDOWS, block_tokens=16, relayout_factor=1.25)
    assert tr.moved_bytes(of, 1007.5) == 1.25 * 36864 * (1007.5 + 128)
    assert tr.moved_bytes(of, 100) == 1.25 * 73728 * 100


def test_time_of_a_prompt() -> None:
    of = parameters(handover_s=0.02, competing_traffic=0.5, links_per_transfer=4, links=8)
    # four links, half of each
    transfer = tr.transfer_of(of, 1000)
    assert (transfer.seconds, transfer.payload_s) == close((0.02 + 0.003 + 0.05, 0.05))
    assert (tr.transfer_bandwidth(of), tr.channels(of)) == (2e9, 2)
    assert tr.channels(replace(of, links=11)) == 2


def test_descriptors() -> None:
    # 18 layers of 1007.5 tokens, 18 of 128, in blocks of 16: two regions each; and 36 states
    of = parameters(cache=replace(HALF_WINDOWS, state_layers=36), block_tokens=16, descriptor_s=1e-5)
    count = 2 * 18 * (1007.5 + 128) / 16 + 36
    assert count == 2590.875
    assert tr.descriptors(of, 1007.5) == close(count)
    assert tr.transfer_of(of, 1007.5).seconds == close(0.003 + 1e-5 * count + 36864 * 1135.5 / 1e9)


def test_slope_of_an_affine_transfer() -> None:
    of = parameters(cache=HALF_WINDOWS, block_tokens=16, descriptor_s=1e-5, relayout_factor=1.25)
    # behind the window, half of the layers still grow
    assert tr.slope(of, 128) == close(1e-5 * 2 * 18 / 16 + 1.25 * 36864 / 1e9)
    assert tr.slope(of, 127) == close(1e-5 * 2 * 36 / 16 + 1.25 * 73728 / 1e9)


class TestCurve:
    """10 MB take 10 ms, 100 MB take 50 ms, 400 MB take 200 ms."""

    def of(self, **changes: Any) -> Parameters:
        return parameters(**({"curve": CURVE, "bandwidth_bytes_per_s": None, "handover_s": 0.02} | changes))

    def test_within_its_range(self) -> None:
        of = self.of(competing_traffic=0.5)
        assert tr.transfer_of(of, 1000) == tr.Transfer(
            close(0.02 + 0.05 / 0.5), close((0.05 - 0.01) / 0.5), close(0.05 / 0.5)
        )  # type: ignore[arg-type]
        assert tr.transfer_of(of, 3000) == tr.Transfer(
            close(0.02 + 0.15 / 0.5), close((0.15 - 0.01) / 0.5), close(0.15 / 0.5)
        )  # type: ignore[arg-type]
        assert tr.slope(of, 3000) == close(0.15 / 3e8 * 1e5 / 0.5)

    def test_slopes_at_the_points(self) -> None:
        assert [tr.slope(self.of(), held) for held in (99, 100, 999, 1000, 4000, 5000)] == close(
            [0.0, 0.04 / 900, 0.04 / 900, 0.15 / 3000, 0.15 / 3000, 0.15 / 3000]
        )

    def test_outside_of_a_curve_alone(self) -> None:
        small, large = tr.transfer_of(self.of(), 10), tr.transfer_of(self.of(), 7000)
        assert (small.seconds, small.payload_s) == close((0.02 + 0.01, 0.0))
        assert (large.seconds, large.payload_s) == close((0.02 + 0.2 + 0.15, 0.2 + 0.15 - 0.01))

    def test_outside_of_a_curve_beside_a_bandwidth(self) -> None:
        of = self.of(bandwidth_bytes_per_s=1e9)
        assert tr.transfer_of(of, 4000).seconds == close(0.02 + 0.2)
        for held in (10, 5000):
            transfer = tr.transfer_of(of, held)
            assert (transfer.seconds, transfer.payload_s) == close((0.02 + 0.003 + held * 1e-4, held * 1e-4))
            assert tr.slope(of, held) == close(1e-4)

    def test_descriptors_are_within_what_was_timed(self) -> None:
        of = self.of(bandwidth_bytes_per_s=1e9, cache=Cache(1e5, growing_layers=32), descriptor_s=1.0)
        assert tr.transfer_of(of, 1000).seconds == close(0.02 + 0.05)
        assert tr.transfer_of(of, 5000).seconds == close(0.02 + 0.003 + 0.5 + 2 * 32 * 5000)

    def test_upper_times_are_conservative(self) -> None:
        both = parse_curve("10000000:0.01:0.03 100000000:0.05")
        assert both is not None
        assert [curve.points[0][1] for curve in both] == [0.01, 0.03]

    @pytest.mark.parametrize("text", ["", "1:1", "1:1 1:2", "2:1 1:2", "1:1:0.5 2:2", "1.5:1 2:2", "0:1 2:2", "1:0 2:2",
                                      "1:1  2:2", "1:1 2:nan", "1:1 2:1e999", "1:-1 2:2", "1:1:2:3 2:2"])  # fmt: skip
    def test_what_is_no_curve(self, text: str) -> None:
        assert parse_curve(text) is None

    def test_its_speed_and_direction(self) -> None:
        assert CURVE.fastest_bytes_per_s == close(2e9)
        assert not CURVE.falls
        assert Curve(((1.0, 2.0), (2.0, 1.0))).falls
        assert not Curve(((1.0, 2.0), (2.0, 2.0))).falls


class TestMoments:
    def test_of_strata_with_prompts_of_one_length(self) -> None:
        movement = tr.movement_of(parameters(), EXAMPLE.requests)
        assert movement.mean_s == close((0.103 + 0.303) / 2)
        assert movement.link_m2_s2 == close((0.103**2 + 0.303**2) / 2)
        assert movement.prompt_token_s == close((103 + 909) / 2)

    def test_of_one_stratum_with_prompts_of_two_lengths(self) -> None:
        """What varies within a stratum is not lost."""
        movement, apart = (tr.movement_of(parameters(), traffic) for traffic in (one_stratum(), EXAMPLE.requests))
        assert (movement.mean_s, movement.link_m2_s2) == close((apart.mean_s, apart.link_m2_s2))
        assert movement.prompt_token_s == close(apart.prompt_token_s)

    def test_where_the_decode_worker_holds_half_of_the_prefix(self) -> None:
        # 400 of 1000 and 1200 of 3000 tokens are computed: 700 and 2100 are moved
        movement = tr.movement_of(parameters(prefix_at_destination=0.5), one_stratum((400, 1200)))
        assert movement.mean_s == close((0.073 + 0.213) / 2)
        assert movement.link_m2_s2 == close((0.073**2 + 0.213**2) / 2)
        assert movement.prompt_token_s == close((73 + 639) / 2)

    def test_where_it_holds_all_of_the_prefix(self) -> None:
        movement = tr.movement_of(parameters(prefix_at_destination=1.0), one_stratum((400, 1200)))
        assert movement.link_m2_s2 == close((0.043**2 + 0.123**2) / 2)
        assert movement.prompt_token_s == close((43 + 369) / 2)

    def test_on_a_curve(self) -> None:
        # 2000 tokens on average: 0.1 s, and 50 us for each of 1000 tokens more or less
        of = parameters(curve=CURVE, bandwidth_bytes_per_s=None)
        movement = tr.movement_of(of, one_stratum())
        assert (movement.mean_s, movement.link_m2_s2) == close((0.1, 0.1**2 + 0.05**2))
        assert movement.prompt_token_s == close(2000 * 0.1 + 5e-5 * 1e6)

    def test_no_more_than_the_mean_varies(self) -> None:
        rounded = replace(one_stratum().strata[0], p2=2000.0**2 * (1 - 1e-12))
        movement = tr.movement_of(parameters(), replace(EXAMPLE.requests, strata=(rounded,)))
        assert movement.link_scv == 0

    def test_a_declared_hit_ratio_leaves_so_much_to_compute(self) -> None:
        receipt = receipt_of("rate", hit_ratio=(0.6, 0.5))
        plain, hits = (
            receipt["workload"]["strata"][3],
            traffic_of(receipt["workload"], forge.usable_inputs(receipt), "nominal"),
        )
        own = hits.strata[3]
        assert (own.u1, own.pu, own.u2) == close(
            (
                0.4 * plain["uncached_tokens_mean"],
                0.4 * plain["prompt_uncached_mean"],
                0.16 * plain["uncached_tokens_m2"],
            )
        )
        assert (own.p1, own.p2) == (plain["prompt_tokens_mean"], plain["prompt_tokens_m2"])


class TestLinks:
    KNOBS = Knobs("disaggregated", workers_prefill=2, workers_decode=3)

    @pytest.mark.parametrize(
        ("sharing", "queues"), [("shared", 1), ("per_prefill_worker", 2), ("per_decode_worker", 3)]
    )
    def test_queues(self, sharing: str, queues: int) -> None:
        # two transfers a second, of 0.203 s on average, over one link of each queue
        evaluation = evaluator(link_sharing=sharing).evaluate(self.KNOBS)
        rho = 2 * 0.203 / queues
        assert {load.resource: load.utilization for load in evaluation.loads}["link"] == close(rho)
        assert evaluation.figures is not None
        wait = 2 / queues * (0.103**2 + 0.303**2) / 2 / (2 * (1 - rho))
        assert evaluation.figures.timelines[0].lanes[3] == close(wait)

    def test_links_of_one_transfer_are_one_channel(self) -> None:
        # 4 of 12 links each: three channels of 4 GB/s
        evaluation = evaluator(links=12, links_per_transfer=4).evaluate(self.KNOBS)
        mean, second = (0.028 + 0.078) / 2, (0.028**2 + 0.078**2) / 2
        rho = 2 * mean / 3
        assert evaluation.loads[2].utilization == close(rho)
        assert evaluation.figures is not None
        # Erlang, of 3 rho erlangs
        a = 3 * rho
        lost = a**3 / 6 / (1 + a + a**2 / 2 + a**3 / 6)
        wait = second / mean**2 / 2 * lost / (1 - rho * (1 - lost)) / (3 * (1 - rho)) * mean
        assert evaluation.figures.timelines[0].lanes[3] == close(wait)


def test_the_longest_prompt_moves_whole_and_in_whole_blocks() -> None:
    # the decode worker holds all of what is cached, but the longest prompt may miss: 188 blocks of 16 tokens
    of = evaluator(decode_emits_first_token=False, block_tokens=16, prefix_at_destination=1.0)
    figures = of.evaluate(Knobs("disaggregated", workers_prefill=1, workers_decode=1)).figures
    assert figures is not None
    assert figures.transit is not None
    transit, longest = figures.transit, 0.003 + 3008 * 1e-4
    link = transit.movement
    run = by_hand.run_s(by_hand.LN_4, 2, link.link_s, link.link_m2_s2, longest, 0.0)
    kappa, step = 0.04, 0.011 / 0.96
    more = 0.001 * (by_hand.most_sequences(kappa, 11, by_hand.LN_4) - 40 * step)
    steps = 0.01 + 0.04 * step + max(more, by_hand.longer_step_s(40 * step, 0.001, by_hand.LN_4))
    assert figures.stall_s == close(run + longest + transit.slot_s + 2 * steps)


def test_a_bucket_moves_as_its_strata_do() -> None:
    # two strata of one bucket, of 1 and 3 requests
    strata = tuple(replace(s, bucket=SHORT, requests=n) for s, n in zip(EXAMPLE.strata, (1, 3), strict=True))
    assert replace(EXAMPLE.requests, strata=strata).mean(SHORT, (0.1, 0.5)) == close(0.4)
