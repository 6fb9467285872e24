"""Measured curves of service, worked out by hand: straight lines between points, the slope of a piece, a pace solved on one."""

import math
from typing import Any

import polars as pl
import pytest

from tests.plans import evaluation_of, inputs_frame_of, requests_of, row_of
from tests.topologies.by_hand import Costs, Line, crossing, decode_pool, meets, whole_prompts
from tests.topologies.worked import FIVE, STEADY, close, lanes_of, loads_of

CURVE = "400:0.03 1000:0.06 2600:0.24"
"""0.05 ms a token up to 1000, then 0.1125 ms; 0.03 s below 400."""
INSTEAD = {"prefill_curve": CURVE, "d": None, "r_p": None}

LADDER = requests_of(*((place // 2, 100 * (place + 1), 1) for place in range(33)))
"""Prompts of 100, 200, … 3300 tokens, one token each, two a second."""


class TestPrefillCurve:
    """Prompts of a stratum that vary: two or three lengths, 100 tokens apart.

    Of 33 requests the r-th is in stratum floor(16·r/33): three lengths in the first, two in all others. Two lengths vary by 50² tokens²,
    three by 2/3·100². At the mean of a stratum the curve has a value and a slope.
    """

    def strata(self, q: float = 0.0) -> list[tuple[float, float, float, float, float]]:
        """Share, E[u], Var(u), S, slope."""
        line, found = Line(((400, 0.03), (1000, 0.06), (2600, 0.24))), []
        for number in range(16):
            own = [100 * (r + 1) for r in range(33) if 16 * r // 33 == number]
            u, uu = sum(own) / len(own), sum(one * one for one in own) / len(own)
            s = line(u) + q * (uu - uu)  # nothing cached: z = u²
            found.append((len(own) / 33, u, uu - u * u, s, line.slope(u)))
        return found

    def test_moments_queue_and_goodput(self) -> None:
        """ρ = 2·E[S]; E[S²] = Σ v·(S² + P'²·Var); a stratum counts half a deviation above and half below."""
        strata = self.strata()
        assert [round(share * 33) for share, *_ in strata] == [3] + [2] * 15
        mean = sum(share * s for share, _, _, s, _ in strata)
        second = sum(share * (s * s + slope * slope * var) for share, _, var, s, slope in strata)
        load = 2 * mean
        wait = second / mean**2 / 2 * load / (1 - load) * mean
        row = row_of(evaluation_of("aggregated", inputs_frame_of(ttft=0.35, **INSTEAD), LADDER), "aggregated/n1")
        assert (row["load_mixed"], row["prefill_execution_s"], row["prefill_wait_s"]) == close((load, mean, wait))
        met = 0.0
        for share, _, var, s, slope in strata:
            slack, delta = 0.348 - s, math.sqrt(var) * slope
            met += share * (meets(load, wait, slack - delta) + meets(load, wait, slack + delta)) / 2
        assert row["goodput"] == close(met)

    def test_what_is_held_while_it_lasts(self) -> None:
        """E[p·S] = Σ v·(p·S + P'·Var): prompt and uncached tokens are the same here."""
        strata = self.strata()
        held = sum(share * (u * s + slope * var) for share, u, var, s, slope in strata)
        row = row_of(evaluation_of("aggregated", inputs_frame_of(ttft=0.5, **INSTEAD), LADDER), "aggregated/n1")
        assert row["load_kv_mixed"] == close(1e4 * 2 * held / 1e9)

    def test_beyond_its_end_the_last_piece_goes_on_and_before_its_first_point_it_is_flat(self) -> None:
        for tokens, seconds in ((100, 0.03), (400, 0.03), (700, 0.045), (1000, 0.06), (2000, 0.1725), (3300, 0.31875)):
            requests = requests_of(*((place, tokens, 1) for place in range(4)))
            row = row_of(evaluation_of("aggregated", inputs_frame_of(ttft=9.0, **INSTEAD), requests), "aggregated/n1")
            assert row["prefill_execution_s"] == close(seconds)

    def test_attention_to_what_is_cached_comes_on_top(self) -> None:
        """1000 tokens of which 400 are cached: P(600) + 1 ns·(1000² - 400² - 600²)."""
        requests = requests_of(*((place, 1000, 1) for place in range(4)), cached={1000: 400})
        row = row_of(evaluation_of("aggregated", inputs_frame_of(q=1e-9, **INSTEAD), requests), "aggregated/n1")
        assert row["prefill_execution_s"] == close(0.04 + 1e-9 * 480_000)

    def test_a_declared_hit_ratio_is_a_place_on_it(self) -> None:
        """η = 0.4: P(600) + 1 ns·(0.84·1000² - 0.6²·1000²)."""
        requests = requests_of(*((place, 1000, 1) for place in range(4)))
        inputs = inputs_frame_of(q=1e-9, eta=0.4, **INSTEAD)
        row = row_of(evaluation_of("aggregated", inputs, requests), "aggregated/n1")
        assert row["prefill_execution_s"] == close(0.04 + 1e-9 * 480_000)

    def test_the_stall_reckons_with_a_longest_prompt_that_misses(self) -> None:
        """S_max = P(1000) + q·1000² though 400 tokens hit."""
        requests = requests_of(*((place // 2, 1000, 101) for place in range(5)))
        inputs = inputs_frame_of(q=1e-8, eta=0.4, **INSTEAD)
        row = row_of(evaluation_of("aggregated", inputs, requests), "aggregated/n1")
        mean, longest = 0.04 + 1e-8 * 480_000, 0.06 + 1e-8 * 1e6
        k = whole_prompts(FIVE, costs=Costs(prefill=Line(((1000, mean), (2000, 1.0))))).k
        step, bounds = 0.01 + 0.0005 * k, []
        for i in range(-40, 25):
            tilt = 2 ** (i / 4)
            more = tilt / longest * mean + mean**2 / longest**2 * (math.exp(tilt) - 1 - tilt)
            if tilt / longest > 2 * more:
                top = math.log(5) + math.log1p(more) + 2 * step * more
                bounds.append(top / (tilt / longest - 2 * more))
        assert row["stall_s"] == close(min(bounds) + step)

    def test_upper_times_hold_under_the_conservative_bound(self) -> None:
        inputs = inputs_frame_of(**INSTEAD | {"prefill_curve": "400:0.03:0.05 1000:0.06:0.06 2600:0.24:0.3"})
        evaluation = evaluation_of("aggregated", inputs, requests_of(*((place, 700, 1) for place in range(4))))
        nominal, worse = (row_of(evaluation, "aggregated/n1", bound) for bound in ("nominal", "conservative"))
        assert (nominal["prefill_execution_s"], worse["prefill_execution_s"]) == close((0.045, 0.055))


STEPS = "1:0.01 3:0.01 5:0.014 9:0.03"
"""10 ms up to 3 sequences, then 2 ms more for each, from 5 on 4 ms."""


class TestDecodeCurve:
    """202 steps a second on one worker: beside 2.02 others a step of 10 ms is too short. On the piece from 3 on
    t = 0.01 + 0.002·(1 + 202·t - 3): (1 - 0.404)·t = 0.006, 3.03 sequences."""

    INPUTS = inputs_frame_of(decode_curve=STEPS, t0=None, r_d=None, slots=24, u_d=0.95)
    T = 0.006 / 0.596
    B = 202 * T

    @pytest.fixture(scope="class")
    @classmethod
    def row(cls) -> dict[str, Any]:
        return row_of(evaluation_of("disaggregated", cls.INPUTS, STEADY), "disaggregated/p1/d1")

    def test_pace(self, row: dict[str, Any]) -> None:
        assert 3 < 1 + self.B < 5
        assert (row["tpot_s"], row["decode_batch"]) == close((self.T, self.B))

    def test_the_load_is_that_of_the_last_piece(self, row: dict[str, Any]) -> None:
        assert row["load_decode"] == close(202 * 0.004)

    def test_how_often_a_step_runs_and_how_many_sequences_there_are_goes_along_a_chord(
        self, row: dict[str, Any]
    ) -> None:
        """From a step of one to one of 1 + b: c' = (t - 0.01)/b, κ0 = 202·c', r0 = 0.01/c'."""
        chord = (self.T - 0.01) / self.B
        kappa, r = 202 * chord, 0.01 / chord
        some = 1 - (1 - kappa) ** r
        slot = 0.5 * (self.B / 24) ** (math.sqrt(50) - 1) / (24 - self.B) * 101 * self.T
        assert row["decode_wait_s"] == close(some * self.T / 2 + slot)
        k = crossing(
            lambda k: k * math.log(k / (kappa * (k + r))) + r * math.log(r / ((1 - kappa) * (k + r))),
            self.B * 0.999,
            math.log(5),
        )
        assert 5 < k < 9  # in steps that the last piece measures
        # the mean of b sequences is on the flat piece: its step takes 10 ms; with contexts of their own w
        usual = 0.01
        w = crossing(lambda y: self.B * (y * math.log(y) - (y - 1)), 1.0, math.log(5)) - 1
        assert row["stall_s"] == close(usual + max(0.014 + 0.004 * (k - 5) - usual, self.B * 0.004 * w))

    def test_with_contexts(self) -> None:
        """R = 1000 + 101/2; 0.2 us a token: 0.2101 ms more for each sequence."""
        inputs = inputs_frame_of(decode_curve=STEPS, t0=None, r_d=None, gamma=2e-7, slots=24, u_d=0.95)
        row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
        # t = 0.006 - ... + 0.0022101·(1 + 202·t): the constant of the piece is 0.01 - 3·0.002
        t = (0.004 + 0.0022101) / (1 - 202 * 0.0022101)
        assert 3 < 1 + 202 * t < 5
        assert row["tpot_s"] == close(t)
        assert row["load_decode"] == close(202 * 0.0042101)

    def test_beyond_the_last_point_its_piece_goes_on(self) -> None:
        """400 steps a second of 50 GB/s worth: t = 0.014 + 0.002·(1 + 330·t - 5), 0.34·t = 0.006."""
        inputs = inputs_frame_of(decode_curve="1:0.01 3:0.01 5:0.014", t0=None, r_d=None, slots=64, rate=330 / 101)
        row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
        t = 0.006 / 0.34
        assert 1 + 330 * t > 5
        assert row["tpot_s"] == close(t)

    def test_where_it_is_flat_the_number_of_sequences_is_poisson(self) -> None:
        """A step takes 8 ms however many: t = 0.008, b = 1.616; A = 1 - e^(-1.616)."""
        inputs = inputs_frame_of(decode_curve="1:0.008 100:0.008", t0=None, r_d=None, slots=24)
        row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
        slot = 0.5 * (1.616 / 24) ** (math.sqrt(50) - 1) / (24 - 1.616) * 0.808
        assert row["tpot_s"] == close(0.008)
        assert row["decode_wait_s"] == close((1 - math.exp(-1.616)) * 0.004 + slot)
        assert row["stall_s"] == close(0.008)  # longer contexts cost nothing, nor do more sequences

    @pytest.mark.parametrize("workers", [1, 2])
    def test_beside_prefill(self, workers: int) -> None:
        """(1 - φ·ρ_p)·t = t(1 + f + φ·x·t), reached from below by by_hand.py."""
        inputs = inputs_frame_of(decode_curve=STEPS, t0=None, r_d=None, slots=24, u_p=0.99, u_d=0.99, rate=1.0, ca2=1.0)
        evaluation = evaluation_of("aggregated", inputs, STEADY)
        costs = Costs(decode=Line(((1, 0.01), (3, 0.01), (5, 0.014), (9, 0.03))), slots=24)
        found = whole_prompts(FIVE, workers, costs, rate=1.0)
        row = row_of(evaluation, f"aggregated/n{workers}")
        assert lanes_of(row) == close((0.002, found.wait, 0.11, 0, 0, found.dw, found.first, 99 * found.t))
        assert row["load_mixed"] == close(found.rho)
        assert row["stall_s"] == close(found.stall)

    def test_by_hand_is_this(self) -> None:
        costs = Costs(decode=Line(((1, 0.01), (3, 0.01), (5, 0.014), (9, 0.03))), slots=24)
        assert decode_pool(FIVE, costs=costs).t == close(self.T)


def test_curves_of_both_phases_and_the_frames_that_hold_them() -> None:
    inputs = inputs_frame_of(**INSTEAD, decode_curve=STEPS, t0=None, r_d=None, slots=24, u_p=0.99, u_d=0.99)
    evaluation = evaluation_of("disaggregated", inputs, STEADY)
    assert isinstance(evaluation, pl.DataFrame)
    row = row_of(evaluation, "disaggregated/p1/d1")
    assert loads_of(row)["prefill"] == close(2 * 0.06)
    assert row["prefill_execution_s"] == close(0.06)
