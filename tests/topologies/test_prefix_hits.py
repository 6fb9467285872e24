"""Cached prefixes, in the log or as a declared hit ratio, worked out by hand: costs are those of worked.py, attention 10 ns per pair.

Prefill computes u = p - h tokens over z = p² - h² pairs; p tokens are held and moved.
"""

from typing import Any

import polars as pl
import pytest

from pipelines.frames.evaluation import LANES, LOADS
from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, row_of
from tests.topologies.by_hand import Costs, One, chunks, meets, pairs, run_of, whole_prompts
from tests.topologies.worked import LONG, SHORT, STEADY, VARIED, VARIED_LENGTHS, close, lanes_of, loads_of

HALF = in_pairs(*[(1000, 101)] * 5, cached={1000: 500})
"""u = 500, z = 1e6 - 0.25e6 = 750,000: S = 0.01 + 0.05 + 0.0075 = 0.0675 s."""

LONG_CACHED = in_pairs((500, 1), (500, 41), (500, 41), (500, 41), (3000, 81), cached={3000: 2000})
"""VARIED, and of the long prompt 2000 tokens are cached: u = 1000, z = 9e6 - 4e6 = 5e6; of the short ones nothing: z = 0.25e6.

S(500) = 0.01 + 0.05 + 0.0025 = 0.0625, S(3000) = 0.01 + 0.1 + 0.05 = 0.16, S̄ = (4·0.0625 + 0.16)/5 = 0.082 s,
E[S²] = (4·0.00390625 + 0.0256)/5 = 0.008245 s², E[p·S] = (4·500·0.0625 + 3000·0.16)/5 = 121.
"""
CACHED = pairs(*VARIED_LENGTHS, cached={3000: 2000})
SQUARED = Costs(q=1e-8)
CS2 = 0.008245 / 0.006724 - 1
QUEUE = (1 + CS2) / 2 * 0.164 / 0.836 * 0.082
"""Of one prefill worker, two requests a second: ρ_p = 0.164."""


class TestAggregated:
    """One worker. ρ_p = 0.164, 80 decode tokens/s: ρ_d = 0.04; κ0 = 0.04/0.836."""

    RESIDUAL = (1 - (1 - 0.04 / 0.836) ** 21) * 0.836 * 0.0105 / 0.796 / 2
    BEHIND = 2 * (QUEUE + RESIDUAL + 0.082) * 0.082 / 0.836
    T = (0.01 + 0.0005 * (1 + 0.8 * BEHIND / 0.082)) / 0.796
    B = 80 * T
    SLOT = 1.4 / 2 * (B / 7) ** 3 / (7 - B) * 40 * T

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("aggregated", inputs_frame_of(q=1e-8), LONG_CACHED, [1000])

    @pytest.mark.parametrize(("bucket", "execution", "steps"), [(SHORT, 0.0625, (0.75, 29.25)), (LONG, 0.16, (1, 79))])
    def test_lanes(self, evaluation: pl.DataFrame, bucket: str, execution: float, steps: tuple[float, float]) -> None:
        row = row_of(evaluation, "aggregated/n1", bucket=bucket)
        wait = QUEUE + self.RESIDUAL + self.SLOT
        after = (steps[0] * self.BEHIND, steps[0] * 0.836 * self.T, steps[1] * self.T)
        assert lanes_of(row) == close((0.002, wait, execution, 0, 0, *after))

    def test_loads_and_stall(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "aggregated/n1", bucket=LONG)
        resident = 10_000 * 2 * (121 + 800 * self.BEHIND + self.T * 61_120)
        assert loads_of(row) == close({"mixed": 0.204, "slots_mixed": self.B / 7, "kv_mixed": resident / 1e9})
        assert row["stall_s"] == close(whole_prompts(CACHED, costs=SQUARED).stall)

    def test_goodput(self) -> None:
        row = row_of(evaluation_of("aggregated", inputs_frame_of(q=1e-8, ttft=0.3), LONG_CACHED), "aggregated/n1")
        waits = self.RESIDUAL + self.SLOT
        short, long = (meets(0.164, QUEUE, 0.298 - waits - prefill) for prefill in (0.0625, 0.16))
        paced = whole_prompts(CACHED, costs=SQUARED).generation
        pace = (1 + 3 * paced.meets(41, 0.02) + paced.meets(81, 0.02)) / 5
        assert row["goodput"] == close((0.8 * short + 0.2 * long) * pace)


def test_the_longest_prefill_takes_the_largest_of_both_maxima_though_they_belong_to_different_prompts() -> None:
    """1000 tokens uncached: u = 1000, z = 1e6; 3000 of which 2500 are cached: u = 500, z = 9e6 - 6.25e6 = 2.75e6: S_max = 0.1375 s."""
    requests = in_pairs((1000, 41), (1000, 41), (3000, 41), cached={3000: 2500})
    row = row_of(evaluation_of("aggregated", inputs_frame_of(q=1e-8, slots=64), requests), "aggregated/n1")
    found = whole_prompts([One(1000, 41), One(1000, 41), One(3000, 41, 2500)], costs=Costs(q=1e-8, slots=64))
    assert found.longest == close(0.1375)
    assert row["stall_s"] == close(found.stall)


class TestChunked:
    """Two workers, budget 250: one request a second each, 40 decode tokens/s: ρ_d = 0.02. E[u] = 600, E[z] = 1.2e6.

    Less than 250 tokens of room: 3 and 5 steps, mean 3.4: ρ_pc = 0.034 + 0.06 + 0.012 = 0.106.
    """

    FOUND = chunks(CACHED, 250, 2, SQUARED)
    THETA = 0.01 + 0.0005 * FOUND.b
    SHORT_S, LONG_S = 3 * THETA + 0.0825, 5 * THETA + 0.2

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("chunked", inputs_frame_of(chunk_tokens="250", q=1e-8, ttft=0.5), LONG_CACHED, [1000])

    def test_lanes(self, evaluation: pl.DataFrame) -> None:
        short, long = (row_of(evaluation, "chunked/n2/c250", bucket=bucket) for bucket in (SHORT, LONG))
        e, t, wait = self.FOUND.e, self.FOUND.t, self.FOUND.wait
        assert lanes_of(short) == close((0.002, wait, self.SHORT_S, 0, 0, 0.75 * e, 0.75 * t, 29.25 * t))
        assert lanes_of(long) == close((0.002, wait, self.LONG_S, 0, 0, e, t, 79 * t))

    def test_loads_and_stall(self, evaluation: pl.DataFrame) -> None:
        row, found = row_of(evaluation, "chunked/n2/c250", bucket=LONG), self.FOUND
        held = (4 * 500 * self.SHORT_S + 3000 * self.LONG_S) / 5 + 800 * found.e + found.t * 61_120
        lane = found.lane.v1
        expected = {"mixed": 0.126, "prefill_lane": lane, "slots_mixed": found.b / 7, "kv_mixed": 1e4 * held / 1e9}
        assert loads_of(row) == close(expected)
        # the last chunk of the long prompt attends to all that is before it, cached or not
        assert row["stall_s"] == close(found.stall)

    def test_a_chunk_holds_no_more_than_the_longest_prompt_computes(self) -> None:
        """1000 of 3000 tokens: y = 1000, and 1e-8·(3000² - 2000² - 1000²) for what is before them."""
        inputs = inputs_frame_of(chunk_tokens="2000", q=1e-8, ttft=0.5)
        row = row_of(evaluation_of("chunked", inputs, LONG_CACHED), "chunked/n1/c2000")
        assert row["stall_s"] == close(chunks(CACHED, 2000, costs=SQUARED).stall)

    def test_a_prompt_is_one_step_at_least(self) -> None:
        """999 of 1000 hit: hardly anything is computed, yet each prompt passes through a step: S = θ + d + 0.1 ms."""
        row = row_of(evaluation_of("chunked", inputs_frame_of(eta=0.999), STEADY), "chunked/n1/c512")
        found = chunks(pairs(*[(1000, 101)] * 5, cached={1000: 999}), 512)
        assert row["load_mixed"] == close(2 * 0.0101 + 0.1)
        assert row["prefill_execution_s"] == close(0.01 + 0.0005 * found.b + 0.0101)


def test_prompts_of_one_uncached_length_are_one_stratum_whatever_is_cached_of_them() -> None:
    """Of the long prompt 2500 tokens are cached: u = 500 for all, E[z] = (4·0.25 + 2.75)/5 M = 0.75e6. One S: 0.01 + 0.05 + 0.0075.

    Their own S are 0.0625 and 0.0875 s: E[S²] = (4·0.00390625 + 0.00765625)/5 = 0.00465625 s². ρ_p = 0.135, ρ_d = 0.04.
    """
    requests = in_pairs((500, 1), (500, 41), (500, 41), (500, 41), (3000, 81), cached={3000: 2500})
    evaluation = evaluation_of("aggregated", inputs_frame_of(q=1e-8), requests)
    queue = 0.00465625 / 0.0675**2 / 2 * 0.135 / 0.865 * 0.0675
    found = whole_prompts(pairs(*VARIED_LENGTHS, cached={3000: 2500}), costs=SQUARED)
    row = row_of(evaluation, "aggregated/n1")
    waits = found.w_res + found.slot
    assert (row["prefill_wait_s"], row["prefill_execution_s"]) == close((queue + waits, 0.0675))
    paced = (1 + 3 * found.generation.meets(41, 0.02) + found.generation.meets(81, 0.02)) / 5
    assert row["goodput"] == close(meets(0.135, queue, 0.198 - waits - 0.0675) * paced)


class TestDisaggregated:
    """One worker each, a link of 100 MB/s, overlap 0.6. ρ_p = 0.164; 82 decode steps/s: ρ_d = 0.041, t = 0.0105/0.959 s.

    All of a prompt moves: T(500) = 0.005 + 0.05 = 0.055, T(3000) = 0.305, T̄ = (4·0.055 + 0.305)/5 = 0.105 s; ρ_l = 0.21;
    E[T²] = (4·0.003025 + 0.093025)/5 = 0.021025 s², cT² = 0.01/0.011025. Of 0.05 s payload 0.03 s is hidden; of 0.3 s it would be
    0.18 s, but prefill of what is not cached lasts 0.16 s.
    With the first token by decode D1 = 41, D2 = (1 + 3·1681 + 6561)/5 = 2321, cH² = 640/1681, E[p·D] = (500·124 + 3000·81)/5 = 61000.
    """

    LINK = (1 + 0.01 / 0.011025) / 2 * 0.21 / 0.79 * 0.105
    T, B = 0.0105 / 0.959, 0.861 / 0.959
    DECODE_WAIT = (1 - 0.959**21) * T / 2 + (1 + 640 / 1681) / 2 * (B / 7) ** 3 / (7 - B) * 41 * T

    @pytest.fixture(scope="class")
    @classmethod
    def evaluation(cls) -> pl.DataFrame:
        return evaluation_of("disaggregated", inputs_frame_of(q=1e-8, w=1e8, phi=0.6, ttft=9.0), LONG_CACHED, [1000])

    def test_lanes(self, evaluation: pl.DataFrame) -> None:
        short, long = (row_of(evaluation, "disaggregated/p1/d1", bucket=bucket) for bucket in (SHORT, LONG))
        before, after = (0.002, QUEUE), (self.DECODE_WAIT, self.T)
        assert lanes_of(short) == close((*before, 0.0625, self.LINK, 0.025, *after, 30 * self.T))
        assert lanes_of(long) == close((*before, 0.16, self.LINK, 0.305 - 0.16, *after, 80 * self.T))

    def test_loads(self, evaluation: pl.DataFrame) -> None:
        row = row_of(evaluation, "disaggregated/p1/d1", bucket=LONG)
        # E[p·T] = 1000·0.005 + 0.0001·2e6 = 205
        moving = 1000 * self.LINK + 205
        expected = {"prefill": 0.164, "decode": 0.041, "link": 0.21, "slots_decode": self.B / 7}
        expected["kv_prefill"] = 10_000 * 2 * (121 + moving) / 1e9
        expected["kv_decode"] = 10_000 * 2 * (moving + 1000 * self.DECODE_WAIT + self.T * (61_000 + 1160.5)) / 1e9
        expected["staging"] = 2 * (self.LINK + 0.105) / (7 - self.B)
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
        """ρ_p = 2·0.0675 = 0.135, ρ = 0.235; S_max = 0.01 + 0.1 + 0.01 = 0.12 s of a whole miss."""
        row = row_of(evaluation_of("aggregated", inputs_frame_of(q=1e-8, eta=0.5), STEADY), "aggregated/n1")
        found = whole_prompts(pairs(*[(1000, 101)] * 5, cached={1000: 500}), costs=SQUARED)
        after = (found.dw + found.first + 99 * found.t) / 100
        assert (row["load_mixed"], row["prefill_execution_s"], row["tpot_s"]) == close((0.235, 0.0675, after))
        # all 1000 tokens are held: 1000·0.0675 while prefilled
        held = 67.5 + 1000 * found.dw + found.t * 105_000
        assert row["load_kv_mixed"] == close(10_000 * 2 * held / 1e9)
        assert row["stall_s"] == close(run_of([0.0675] * 5, 0.12, 2.0, 1, 0.01 + 0.0005 * found.k, 5))

    def test_moments_of_varied_prompts(self) -> None:
        """S(500) = 0.01 + 0.025 + 0.001875 = 0.036875, S(3000) = 0.01 + 0.15 + 0.0675 = 0.2275, S̄ = 0.075 s.

        E[S²] = (4·0.001359765625 + 0.05175625)/5 = 0.0114390625 s², ρ_p = 0.15.
        """
        evaluation = evaluation_of("disaggregated", inputs_frame_of(q=1e-8, eta=0.5, ttft=9.0), VARIED, [1000])
        short, long = (row_of(evaluation, "disaggregated/p1/d1", bucket=bucket) for bucket in (SHORT, LONG))
        assert (short["prefill_execution_s"], long["prefill_execution_s"]) == close((0.036875, 0.2275))
        assert short["prefill_wait_s"] == close(0.0114390625 / 0.005625 / 2 * 0.15 / 0.85 * 0.075)
        # E[p·S] = (4·500·0.036875 + 3000·0.2275)/5 = 151.25
        moving = 1000 * short["transfer_wait_s"] + 1000 * 0.005 + 1e-5 * 2e6
        assert short["load_kv_prefill"] == close(10_000 * 2 * (151.25 + moving) / 1e9)

    def test_chunks_are_those_of_what_misses(self) -> None:
        """Budget 502, 500 tokens computed: with more than 2 decode tokens beside them two steps, ρ_pc = 2·0.07 = 0.14."""
        row = row_of(evaluation_of("chunked", inputs_frame_of(eta=0.5, chunk_tokens="502"), STEADY), "chunked/n1/c502")
        found = chunks(pairs(*[(1000, 101)] * 5, cached={1000: 500}), 502)
        assert found.b > 2
        assert (row["load_mixed"], row["decode_batch"]) == close((0.24, found.b))
        assert row["prefill_execution_s"] == close(2 * (0.02 + 0.0005 * found.b) + 0.05)

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
    row = row_of(evaluation_of("disaggregated", inputs_frame_of(q=1e-8, ttft=9.0), VARIED), "disaggregated/p1/d1")
    rho = 2 * mean
    assert (row["prefill_execution_s"], row["load_prefill"]) == close((mean, rho))
    assert row["prefill_wait_s"] == close(second / mean**2 / 2 * rho / (1 - rho) * mean)
    # E[p·S] = d·E[p] + E[p²]/r_p + q·E[p³] = 10 + 200 + 55
    moving = 1000 * row["transfer_wait_s"] + 5 + 20
    assert row["load_kv_prefill"] == close(10_000 * 2 * (265 + moving) / 1e9)
