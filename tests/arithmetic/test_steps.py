"""Steps, paces, batches, stalls and shares against what they stand for."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.arithmetic.batches import batch_of, bennett_excess, poisson_most
from pipelines.arithmetic.curves import Curve
from pipelines.arithmetic.prefill import PrefillTimes
from pipelines.arithmetic.shares import within
from pipelines.arithmetic.stalls import long_step_s, run_of_prompts_s
from pipelines.arithmetic.steps import DecodeSteps

some_increments = st.lists(st.tuples(st.integers(1, 20), st.floats(0.0, 0.01)), min_size=1, max_size=6)
some_load = st.tuples(st.floats(0.0, 0.6), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 5.0))


def curve_of(increments: list[tuple[int, float]]) -> Curve:
    points = [(1.0, 0.01)]
    for size, more in increments:
        points.append((points[-1][0] + size, points[-1][1] + more))
    return Curve(tuple(points))


def settled(steps: DecodeSteps, rho: float, x: float, phi: float, f: float) -> bool:
    """Whether the pace reproduces itself: (1 - φ·ρ)·t = t(1 + f + φ·x·t)."""
    t = float(steps.pace_s(rho, x, phi, f))
    return t == pytest.approx(float(steps.seconds(1 + f + phi * x * t)) / (1 - phi * rho), rel=1e-9)


class TestPace:
    @given(st.floats(1e-3, 0.1), st.floats(1e-5, 1e-2), some_load)
    def test_along_a_line_it_reproduces_itself(self, t0: float, c: float, load: tuple[float, ...]) -> None:
        rho, used, phi, f = load
        assert settled(DecodeSteps(t0, c), rho, used * 0.99 * (1 - rho) / c, phi, f)

    @given(some_increments, some_load)
    @settings(max_examples=80)
    def test_along_a_curve_it_reproduces_itself_and_none_smaller_does(
        self, increments: list[tuple[int, float]], load: tuple[float, ...]
    ) -> None:
        """From below, t ← t(1 + f + φ·x·t)/(1 - φ·ρ) climbs to the smallest solution."""
        rho, used, phi, f = load
        curve = curve_of(increments)
        steps = DecodeSteps(0.0, 0.0, 1e-5, curve)
        x = used * 0.9 * (1 - rho) / steps.c
        assert settled(steps, rho, x, phi, f)
        t = 0.0
        for _ in range(2000):
            t = float(steps.seconds(1 + f + phi * x * t)) / (1 - phi * rho)
        assert float(steps.pace_s(rho, x, phi, f)) == pytest.approx(t, rel=1e-6)

    def test_a_curve_that_is_a_line_is_the_line(self) -> None:
        curve = DecodeSteps(0.0, 0.0, 0.0, Curve(((1.0, 0.0105), (101.0, 0.0605))))
        line = DecodeSteps(0.01, 0.0005)
        for x in (0.0, 3.0, 500.0):
            assert curve.pace_s(0.2, x) == pytest.approx(line.pace_s(0.2, x), rel=1e-12)
            assert curve.chord(0.2, x) == pytest.approx(0.0005, rel=1e-9)

    def test_rows_are_each_their_own(self) -> None:
        steps = DecodeSteps(0.0, 0.0, 0.0, curve_of([(3, 0.0), (5, 0.02)]))
        rho, x = np.array([0.0, 0.3, 0.1]), np.array([0.0, 50.0, 150.0])
        together = steps.pace_s(rho, x, np.array([1.0, 0.5, 1.0]), np.array([0.0, 1.0, 0.5]))
        alone = [steps.pace_s(*row) for row in zip(rho, x, (1.0, 0.5, 1.0), (0.0, 1.0, 0.5), strict=True)]
        assert np.asarray(together).tolist() == pytest.approx([float(one) for one in alone], rel=1e-12)


class TestCurve:
    CURVE = Curve(((10.0, 1.0), (20.0, 3.0), (40.0, 4.0)))

    def test_values(self) -> None:
        assert [self.CURVE.seconds(at) for at in (1, 10, 15, 20, 30, 40, 60)] == [1.0, 1.0, 2.0, 3.0, 3.5, 4.0, 5.0]

    def test_of_slopes_that_of_the_piece_that_begins_there(self) -> None:
        assert [self.CURVE.slope(at) for at in (9.9, 10, 19.9, 20, 40, 99)] == [0.0, 0.2, 0.2, 0.05, 0.05, 0.05]

    def test_prefill_of_equal_pieces_attends_to_what_lies_before_them(self) -> None:
        """30 tokens in 2 pieces of 15, 2 s each; 900 pairs less 450 that the pieces have among themselves, of 0.001 s."""
        times = PrefillTimes(0.0, 1.0, 0.001, self.CURVE)
        assert times.prompt_s(30.0, 900.0, 900.0, 2.0) == pytest.approx(2 * 2.0 + 0.45)
        assert times.prompt_s(30.0, 900.0, 900.0) == pytest.approx(3.5)
        # a rate has no such care: q counts pairs wherever they are
        assert PrefillTimes(1.0, 10.0, 0.001).prompt_s(30.0, 900.0, 900.0, 2.0) == pytest.approx(2 + 3 + 0.9)


class TestBatch:
    @pytest.mark.parametrize(("rho", "x"), [(0.0, 100.0), (0.3, 400.0), (0.5, 50.0)])
    def test_it_is_the_negative_binomial_of_a_chain_of_states(self, rho: float, x: float) -> None:
        """Answers of one step come at x a second while a step of b sequences takes (t0 + b·c)/(1 - ρ): departures at b/step.

        Its balance p(b+1)·(b+1)·(1 - ρ)/t(b+1) = p(b)·x, up to the time that a step shares.
        """
        steps = DecodeSteps(0.01, 0.0005)
        batch = batch_of(steps, rho, x)
        kappa, r = x * 0.0005 / (1 - rho), 21.0
        p = [(1 - kappa) ** r]
        for b in range(400):
            p.append(p[-1] * kappa * (b + r) / (b + 1))
        assert math.fsum(p) == pytest.approx(1.0, rel=1e-9)
        assert float(batch.some) == pytest.approx(1 - p[0], rel=1e-9)
        mean = math.fsum(b * share for b, share in enumerate(p))
        # the mean: x·(t(1) of one)/(1 - ρ - x·c), as the pace says
        assert mean == pytest.approx(x * float(steps.pace_s(rho, x)), rel=1e-6)

    @given(st.floats(0.0, 0.5), st.floats(0.01, 0.9), st.floats(2.0, 1e5))
    @settings(max_examples=40)
    def test_what_is_exceeded_once_in_n_bounds_the_tail(self, rho: float, used: float, count: float) -> None:
        """Chernoff: the probability of more is at most 1/N."""
        c = 0.0005
        x = used * (1 - rho) / c
        k = float(batch_of(DecodeSteps(0.01, c), rho, x).most(math.log(count)))
        kappa, r, p, below = used, 21.0, (1 - used) ** 21.0, 0.0
        for b in range(math.ceil(k)):
            below += p
            p *= kappa * (b + r) / (b + 1)
        assert 1 - below <= 1 / count + 1e-9

    @given(st.floats(0.001, 50), st.floats(2.0, 1e5))
    @settings(max_examples=40)
    def test_so_does_the_poisson_one(self, mean: float, count: float) -> None:
        k = float(poisson_most(mean, math.log(count)))
        assert k >= mean
        below = math.fsum(math.exp(-mean + b * math.log(mean) - math.lgamma(b + 1)) for b in range(math.ceil(k)))
        assert 1 - below <= 1 / count + 1e-9

    def test_steps_that_do_not_grow_have_a_poisson_batch_and_those_that_hardly_do_too(self) -> None:
        flat, nearly = (batch_of(DecodeSteps(0.01, c), 0.2, 240.0) for c in (0.0, 1e-12))
        assert float(flat.some) == pytest.approx(1 - math.exp(-3.0))
        assert float(nearly.some) == pytest.approx(float(flat.some), rel=1e-9)
        assert float(nearly.most(5.0)) == pytest.approx(float(flat.most(5.0)), rel=1e-6)

    def test_nothing_is_exceeded_by_nothing(self) -> None:
        with np.errstate(all="ignore"):  # as in an evaluation
            assert float(batch_of(DecodeSteps(0.01, 0.001), 0.2, 0.0).most(3.0)) == 0
        assert (float(poisson_most(0.0, 3.0)), float(bennett_excess(0.0, 3.0))) == (0, 0)

    @given(st.floats(0.01, 100), st.floats(0.7, 12))
    @settings(max_examples=40)
    def test_an_excess_of_bennett_solves_its_equation(self, size: float, log_n: float) -> None:
        w = float(bennett_excess(size, log_n))
        assert size * ((1 + w) * math.log(1 + w) - w) == pytest.approx(log_n, rel=1e-9)


class TestStall:
    def test_a_run_of_constant_prompts_is_exceeded_more_rarely_than_once_in_n(self) -> None:
        """M/D/1 busy periods of prompts of 1 s, at 0.3 a second: Borel tail P(n prompts) = e^(-0.3n)·(0.3n)^(n-1)/n!."""
        for count in (10, 1000):
            bound = float(run_of_prompts_s(1.0, 1.0, 1.0, 0.3, 1.0, 0.0, math.log(count)))
            tail = 1 - math.fsum(
                math.exp(-0.3 * n + (n - 1) * math.log(0.3 * n) - math.lgamma(n + 1)) for n in range(1, int(bound) + 1)
            )
            assert tail <= 1 / count

    @given(st.floats(0.05, 1.0), st.floats(1.0, 5.0), st.floats(0.0, 0.7), st.integers(1, 4), st.floats(2.0, 1e6))
    @settings(max_examples=40)
    def test_it_grows_with_the_step_the_rate_and_the_rarity(
        self, mean: float, peak: float, load: float, servers: int, count: float
    ) -> None:
        rate, second, longest = load * servers / mean, mean**2 * peak, mean * peak

        def run(rate: float = rate, step: float = 0.01, log_n: float = math.log(count)) -> float:
            return float(run_of_prompts_s(mean, second, longest, rate, float(servers), step, log_n))

        here = run()
        assert here > 0.01
        assert here <= run(rate=rate * 1.01)
        assert here <= run(step=0.02)
        assert here <= run(log_n=math.log(count) + 1)

    def test_a_long_step_is_never_below_the_usual_one(self) -> None:
        steps = DecodeSteps(0.01, 0.001)
        for most in (1.0, 4.0, 50.0):
            assert float(long_step_s(steps, 4.0, most, 0.004, 6.0)) >= steps.seconds(max(4.0, most)) * (1 - 1e-12)


class TestShares:
    @given(st.floats(0.01, 10), st.floats(0.0, 30))
    @settings(max_examples=60)
    def test_both_forms_have_the_mean_and_the_variance(self, mean: float, variance: float) -> None:
        """By the area above the distribution: E[X] = ∫(1 - F), E[X²] = ∫2x·(1 - F)."""
        top = 60 * (mean + math.sqrt(variance)) * (1 + variance / mean**2)
        x = np.linspace(0, top, 400_001)
        beyond = 1 - within(x, mean, variance)
        assert float(np.trapezoid(beyond, x)) == pytest.approx(mean, rel=1e-2)
        assert float(np.trapezoid(2 * x * beyond, x)) == pytest.approx(mean**2 + variance, rel=2e-2)

    @given(st.floats(0.0, 20), st.just(0.0) | st.floats(1e-6, 20), st.just(0.0) | st.floats(1e-6, 50), st.floats(0, 5))
    def test_it_is_a_share_that_grows_with_what_is_allowed(
        self, allowed: float, mean: float, variance: float, more: float
    ) -> None:
        here, there = (float(within(one, mean, variance)) for one in (allowed, allowed + more))
        assert 0 <= here <= there <= 1

    def test_edges(self) -> None:
        assert float(within(0.0, 0.0, 0.0)) == 1
        assert float(within(-1e-9, 0.0, 0.0)) == 0
        assert float(within(-1.0, 1.0, 4.0)) == 0
