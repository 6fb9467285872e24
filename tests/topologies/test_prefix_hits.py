"""Cached prefixes, in the log or as a declared hit ratio, worked out by hand: costs are those of worked.py, attention 10 ns per pair.

Prefill computes u = p - h tokens over z = p² - h² pairs; p tokens are held and moved.
"""

import math
from typing import Any

import polars as pl
import pytest

from pipelines.frames.evaluation import LANES, LOADS
from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, row_of
from tests.topologies.worked import LONG, SHORT, STEADY, VARIED, close, lanes_of, loads_of, met

HALF = in_pairs(*[(1000, 101)] * 5, cached={1000: 500})
"""u = 500, z = 1e6 - 0.25e6 = 750,000: S = 0.01 + 0.05 + 0.0075 = 0.0675 s."""

LONG_CACHED = in_pairs((500, 1), (500, 41), (500, 41), (500, 41), (3000, 81), cached={3000: 2000})
"""VARIED, and of the long prompt 2000 tokens are cached: u = 1000, z = 9e6 - 4e6 = 5e6; of the short ones nothing: z = 0.25e6.

S(500) = 0.01 + 0.05 + 0.0025 = 0.0625, S(3000) = 0.01 + 0.1 + 0.05 = 0.16, S̄ = (4·0.0625 + 0.16)/5 = 0.082 s,
E[S²] = (4·0.00390625 + 0.0256)/5 = 0.008245 s², E[p·S] = (4·500·0.0625 + 3000·0.16)/5 = 121.
"""
CS2 = 0.008245 / 0.006724 - 1
QUEUE = (1 + CS2) / 2 * 0.164 / 0.836 * 0.082
"""Of one prefill worker, two requests a second: ρ_p = 0.164."""


class TestAggregated:
    """One worker. ρ_p = 0.164, 80 decode tokens/s: ρ_d = 0.04. t = 0.01/0.796 s, just more than 0.0105/0.836. b = 0.8/0.796."""

    T, B = 0.01 / 0.796, 0.8 / 0.796
    TAU = 0.01 + 0.0005 * B
    RESIDUAL = (1 - math.exp(-B)) * TAU / 2
    SLOT = 1.4 / 2 * (B / 7) ** 3 / (7 - B) * 40 * T

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("aggregated", inputs_frame_of(q=1e-8), LONG_CACHED, [1000])

    @pytest.mark.parametrize(("bucket", "execution", "steps"), [(SHORT, 0.0625, (0.75, 29.25)), (LONG, 0.16, (1, 79))])
    def test_lanes(self, evaluation: pl.DataFrame, bucket: str, execution: float, steps: tuple[float, float]) -> None:
        row = row_of(evaluation, "aggregated/n1", bucket=bucket)
        wait = QUEUE + self.RESIDUAL + self.SLOT
        assert lanes_of(row) == close((0.002, wait, execution, 0, 0, 0, steps[0] * self.T, steps[1] * self.T))

    def test_loads_and_stall(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "aggregated/n1", bucket=LONG)
        resident = 10_000 * 2 * (121 + self.T * 61_120)
        assert loads_of(row) == close({"mixed": 0.204, "slots": self.B / 7, "kv_mixed": resident / 1e9})
        assert row["stall_s"] == close(0.16 + self.TAU)

    def test_goodput(self) -> None:
        row = row_of(evaluation_of("aggregated", inputs_frame_of(q=1e-8, ttft=0.3), LONG_CACHED), "aggregated/n1")
        waits = self.RESIDUAL + self.SLOT
        short, long = (met(0.164, QUEUE, 0.298 - waits - prefill) for prefill in (0.0625, 0.16))
        assert row["goodput"] == close(0.8 * short + 0.2 * long)


def test_the_longest_prefill_takes_the_largest_of_both_maxima_though_they_belong_to_different_prompts() -> None:
    """1000 tokens uncached: u = 1000, z = 1e6; 3000 of which 2500 are cached: u = 500, z = 9e6 - 6.25e6 = 2.75e6."""
    requests = in_pairs((1000, 41), (1000, 41), (3000, 41), cached={3000: 2500})
    row = row_of(evaluation_of("aggregated", inputs_frame_of(q=1e-8, slots=64), requests), "aggregated/n1")
    step = 0.01 + 0.0005 * max(1, row["decode_batch"])
    assert row["stall_s"] == close(0.01 + 0.1 + 0.0275 + step)


class TestChunked:
    """Two workers, budget 250: one request a second each, 40 decode tokens/s: ρ_d = 0.02. E[u] = 600, E[z] = 1.2e6.

    First pass, 250 tokens of room: 2 and 4 steps, mean 2.4: ρ_pc = 0.024 + 0.06 + 0.012 = 0.096; t = 0.0105/0.904, b = 0.46.
    Then less: 3 and 5 steps, mean 3.4: ρ_pc = 0.106, t = 0.0105/0.894 s (more than 0.01/0.874), b = 0.42/0.894, and so it stays.
    """

    T, B = 0.0105 / 0.894, 0.42 / 0.894
    FULL = 0.01 + 0.0005 * B + 0.01
    SHORT_S, LONG_S = 3 * FULL + 0.05 + 0.0025, 5 * FULL + 0.1 + 0.05
    MEAN = (4 * SHORT_S + LONG_S) / 5
    SCV = (4 * SHORT_S**2 + LONG_S**2) / 5 / MEAN**2 - 1
    WAIT = (
        (1 + SCV) / 2 * MEAN ** (math.sqrt(6) - 1) / (2 * (1 - MEAN)) * MEAN
        + (1 - math.exp(-B)) * 0.0105 / 2
        + 1.4 / 2 * (B / 7) ** 3 / (7 - B) * 40 * T
    )

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("chunked", inputs_frame_of(chunk_tokens="250", q=1e-8), LONG_CACHED, [1000])

    def test_lanes(self, evaluation: pl.DataFrame) -> None:
        short, long = (row_of(evaluation, "chunked/n2/c250", bucket=bucket) for bucket in (SHORT, LONG))
        assert lanes_of(short) == close((0.002, self.WAIT, self.SHORT_S, 0, 0, 0, 0.75 * self.T, 29.25 * self.T))
        assert lanes_of(long) == close((0.002, self.WAIT, self.LONG_S, 0, 0, 0, self.T, 79 * self.T))

    def test_loads_and_stall(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "chunked/n2/c250", bucket=LONG)
        resident = 10_000 * ((4 * 500 * self.SHORT_S + 3000 * self.LONG_S) / 5 + self.T * 61_120)
        assert loads_of(row) == close(
            {"mixed": 0.126, "prefill_lane": self.MEAN, "slots": self.B / 7, "kv_mixed": resident / 1e9}
        )
        # the last chunk of the long prompt attends to all that is before it, cached or not
        y = 250 - self.B
        assert row["stall_s"] == close(self.FULL + y / 10_000 + 1e-8 * (9e6 - (3000 - y) ** 2))

    def test_a_chunk_holds_no_more_than_the_longest_prompt_computes(self) -> None:
        inputs = inputs_frame_of(chunk_tokens="2000", q=1e-8)
        row = row_of(evaluation_of("chunked", inputs, LONG_CACHED), "chunked/n1/c2000")
        # one step each: rho_pc = 2·0.082, t and b as aggregated; the longest computes 1000 of its 3000 tokens
        full = 0.01 + 0.0005 * TestAggregated.B + 0.01
        assert row["stall_s"] == close(full + 0.1 + 1e-8 * (9e6 - 4e6))

    def test_a_prompt_is_one_step_at_least(self) -> None:
        """Everything hits: nothing is computed, yet each prompt passes through a step: S = t0 + b·c + d."""
        row = row_of(evaluation_of("chunked", inputs_frame_of(eta=1.0), STEADY), "chunked/n1/c512")
        # rho_pc = 2·0.01, rho = 0.12, t = 0.01/0.88, b = 2/0.88
        assert row["load_mixed"] == close(0.12)
        assert row["prefill_execution_s"] == close(0.01 + 0.0005 * 2 / 0.88 + 0.01)


def test_prompts_of_one_uncached_length_are_one_stratum_whatever_is_cached_of_them() -> None:
    """Of the long prompt 2500 tokens are cached: u = 500 for all, E[z] = (4·0.25 + 2.75)/5 M = 0.75e6. One S: 0.01 + 0.05 + 0.0075.

    Their own S are 0.0625 and 0.0875 s: E[S²] = (4·0.00390625 + 0.00765625)/5 = 0.00465625 s². ρ_p = 0.135, ρ_d = 0.04,
    t = 0.0105/0.865, more than 0.01/0.825; b = 80·t, less than one.
    """
    requests = in_pairs((500, 1), (500, 41), (500, 41), (500, 41), (3000, 81), cached={3000: 2500})
    evaluation = evaluation_of("aggregated", inputs_frame_of(q=1e-8), requests)
    t, b = 0.0105 / 0.865, 0.84 / 0.865
    queue = 0.00465625 / 0.0675**2 / 2 * 0.135 / 0.865 * 0.0675
    waits = (1 - math.exp(-b)) * 0.0105 / 2 + 1.4 / 2 * (b / 7) ** 3 / (7 - b) * 40 * t
    row = row_of(evaluation, "aggregated/n1")
    assert (row["prefill_wait_s"], row["prefill_execution_s"]) == close((queue + waits, 0.0675))
    assert row["goodput"] == close(met(0.135, queue, 0.198 - waits - 0.0675))


class TestDisaggregated:
    """One worker each, a link of 100 MB/s, overlap 0.6. ρ_p = 0.164; 82 decode steps/s: ρ_d = 0.041, t = 0.0105 s, b = 0.861.

    All of a prompt moves: T(500) = 0.005 + 0.05 = 0.055, T(3000) = 0.305, T̄ = (4·0.055 + 0.305)/5 = 0.105 s; ρ_l = 0.21;
    E[T²] = (4·0.003025 + 0.093025)/5 = 0.021025 s², cT² = 0.01/0.011025. Of 0.05 s payload 0.03 s is hidden; of 0.3 s it would be
    0.18 s, but prefill of what is not cached lasts 0.16 s.
    With the first token by decode D1 = 41, D2 = (1 + 3·1681 + 6561)/5 = 2321, cH² = 640/1681, E[p·D] = (500·124 + 3000·81)/5 = 61000.
    """

    LINK = (1 + 0.01 / 0.011025) / 2 * 0.21 / 0.79 * 0.105
    T, B = 0.0105, 0.861
    DECODE_WAIT = (1 - math.exp(-B)) * T / 2 + (1 + 640 / 1681) / 2 * (B / 7) ** 3 / (7 - B) * 41 * T

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("disaggregated", inputs_frame_of(q=1e-8, w=1e8, phi=0.6), LONG_CACHED, [1000])

    def test_lanes(self, evaluation: pl.DataFrame) -> None:
        short, long = (row_of(evaluation, "disaggregated/p1/d1", bucket=bucket) for bucket in (SHORT, LONG))
        before, after = (0.002, QUEUE), (self.DECODE_WAIT, self.T)
        assert lanes_of(short) == close((*before, 0.0625, self.LINK, 0.025, *after, 30 * self.T))
        assert lanes_of(long) == close((*before, 0.16, self.LINK, 0.305 - 0.16, *after, 80 * self.T))

    def test_loads(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "disaggregated/p1/d1", bucket=LONG)
        # E[p·T] = 1000·0.005 + 0.0001·2e6 = 205
        moving = 1000 * self.LINK + 205
        expected = {"prefill": 0.164, "decode": 0.041, "link": 0.21, "slots": 0.123}
        expected["kv_prefill"] = 10_000 * 2 * (121 + moving) / 1e9
        expected["kv_decode"] = 10_000 * 2 * (moving + 1000 * self.DECODE_WAIT + self.T * (61_000 + 1160.5)) / 1e9
        expected["staging"] = 2 * (self.LINK + 0.105) / (7 - 0.861)
        assert loads_of(row) == close(expected)


class TestDeclaredHitRatio:
    """η = 0.5 leaves half of the tokens, α = 0.5, and three quarters of the attention, β = 0.75."""

    @pytest.mark.parametrize("topology", ["aggregated", "chunked", "disaggregated"])
    def test_half_of_every_prompt_is_as_if_the_log_had_it_cached(self, topology: str) -> None:
        """1000 tokens each: 500 computed over 750,000 pairs either way. The longest gap alone reckons with a prompt that misses."""
        declared = evaluation_of(topology, inputs_frame_of(q=1e-8, eta=0.5), STEADY)
        logged = evaluation_of(topology, inputs_frame_of(q=1e-8), HALF)
        columns = [*LANES, *(f"load_{load}" for load in LOADS), "goodput", "decode_batch", "pressure"]
        assert declared["status"].equals(logged["status"])
        for one, other in zip(declared.to_dicts(), logged.to_dicts(), strict=True):
            known = {name: other[name] for name in columns if other[name] is not None}
            assert {name: one[name] for name in columns if one[name] is not None} == close(known)

    def test_figures_by_hand(self) -> None:
        """ρ_p = 2·0.0675 = 0.135, ρ = 0.235, t = 0.01/0.765, b = 2/0.765; S_max = 0.01 + 0.1 + 0.01 = 0.12 s of a whole miss."""
        row = row_of(evaluation_of("aggregated", inputs_frame_of(q=1e-8, eta=0.5), STEADY), "aggregated/n1")
        t, b = 0.01 / 0.765, 2 / 0.765
        assert (row["load_mixed"], row["prefill_execution_s"], row["tpot_s"]) == close((0.235, 0.0675, t))
        # all 1000 tokens are held: 1000·0.0675 while prefilled
        assert row["load_kv_mixed"] == close(10_000 * 2 * (67.5 + t * 105_000) / 1e9)
        assert row["stall_s"] == close(0.12 + 0.01 + 0.0005 * b)

    def test_moments_of_varied_prompts(self) -> None:
        """S(500) = 0.01 + 0.025 + 0.001875 = 0.036875, S(3000) = 0.01 + 0.15 + 0.0675 = 0.2275, S̄ = 0.075 s.

        E[S²] = (4·0.001359765625 + 0.05175625)/5 = 0.0114390625 s², ρ_p = 0.15.
        """
        evaluation = evaluation_of("disaggregated", inputs_frame_of(q=1e-8, eta=0.5), VARIED, [1000])
        short, long = (row_of(evaluation, "disaggregated/p1/d1", bucket=bucket) for bucket in (SHORT, LONG))
        assert (short["prefill_execution_s"], long["prefill_execution_s"]) == close((0.036875, 0.2275))
        assert short["prefill_wait_s"] == close(0.0114390625 / 0.005625 / 2 * 0.15 / 0.85 * 0.075)
        # E[p·S] = (4·500·0.036875 + 3000·0.2275)/5 = 151.25
        moving = 1000 * short["transfer_wait_s"] + 1000 * 0.005 + 1e-5 * 2e6
        assert short["load_kv_prefill"] == close(10_000 * 2 * (151.25 + moving) / 1e9)

    def test_chunks_are_those_of_what_misses(self) -> None:
        """Budget 502, 500 tokens computed: one step at first, and with b = 2.6 decode tokens beside them two.

        First pass: ρ_pc = 2·(0.01 + 0.05) = 0.12, t = 0.01/0.78, b = 2.56. Then ρ_pc = 2·0.07 = 0.14, t = 0.01/0.76, b = 2/0.76.
        """
        row = row_of(evaluation_of("chunked", inputs_frame_of(eta=0.5, chunk_tokens="502"), STEADY), "chunked/n1/c502")
        b = 2 / 0.76
        assert (row["load_mixed"], row["decode_batch"]) == close((0.24, b))
        assert row["prefill_execution_s"] == close(2 * (0.02 + 0.0005 * b) + 0.05)

    def test_the_conservative_bound_hits_less(self) -> None:
        """η = 0.2: α = 0.8, β = 0.96, S = 0.01 + 0.08 + 0.0096 s."""
        evaluation = evaluation_of("disaggregated", inputs_frame_of(q=1e-8, eta=Ranged(0.5, low=0.2)), STEADY)
        rows = {bound: row_of(evaluation, "disaggregated/p1/d1", bound) for bound in ("nominal", "conservative")}
        assert rows["nominal"]["prefill_execution_s"] == close(0.0675)
        assert rows["conservative"]["prefill_execution_s"] == close(0.0996)
        assert rows["conservative"]["load_prefill"] == close(0.1992)

    def test_a_cohort_that_declares_none_has_none(self) -> None:
        silent, zero = (evaluation_of("aggregated", inputs_frame_of(eta=eta), VARIED, [1000]) for eta in (None, 0.0))
        assert silent.equals(zero)


def as_in_version_1(row: dict[str, Any]) -> tuple[float, float]:
    """E[S], E[S²] by version 1 of the arithmetic: the moments of p alone, d + p/r_p + q·p² squared."""
    d, per_token, q = 0.01, 1e-4, 1e-8
    p1, p2, p3, p4 = (row[f"p{power}"] for power in (1, 2, 3, 4))
    mean = d + per_token * p1 + q * p2
    second = d**2 + 2 * d * per_token * p1 + (per_token**2 + 2 * d * q) * p2 + 2 * per_token * q * p3 + q**2 * p4
    return mean, second


def test_without_hits_the_arithmetic_is_that_of_version_1() -> None:
    """u = p and z = p², so that E[u·z] = E[p³], E[z²] = E[p⁴], E[p·u] = E[p²] and E[p·z] = E[p³].

    VARIED: E[p] = 1000, E[p²] = 2e6, E[p³] = (4·0.125 + 27)/5 G = 5.5e9, E[p⁴] = (4·0.0625 + 81)/5 T = 1.625e13.
    """
    mean, second = as_in_version_1({"p1": 1000, "p2": 2e6, "p3": 5.5e9, "p4": 1.625e13})
    row = row_of(evaluation_of("disaggregated", inputs_frame_of(q=1e-8), VARIED), "disaggregated/p1/d1")
    rho = 2 * mean
    assert (row["prefill_execution_s"], row["load_prefill"]) == close((mean, rho))
    assert row["prefill_wait_s"] == close(second / mean**2 / 2 * rho / (1 - rho) * mean)
    # E[p·S] = d·E[p] + E[p²]/r_p + q·E[p³] = 10 + 200 + 55
    moving = 1000 * row["transfer_wait_s"] + 5 + 20
    assert row["load_kv_prefill"] == close(10_000 * 2 * (265 + moving) / 1e9)
