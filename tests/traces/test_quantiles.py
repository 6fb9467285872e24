"""Quantiles of gaps against distributions whose values are known in closed form."""

import math

import numpy as np
import pytest

from pipelines.traces.quantiles import (
    alternating,
    equally_likely,
    log_gamma_quantiles,
    log_weibull_quantiles,
    radical_inverse,
)

P = equally_likely(2001)


def test_a_gamma_of_shape_1_is_exponential() -> None:
    assert np.exp(log_gamma_quantiles(P, 1.0)) == pytest.approx(-np.log1p(-P), rel=1e-9)


def test_a_gamma_of_shape_one_half_is_half_a_squared_normal() -> None:
    # P(1/2, x) = erf(sqrt x)
    back = [math.erf(math.exp(y / 2)) for y in log_gamma_quantiles(P, 0.5)]
    assert back == pytest.approx(P.tolist(), rel=1e-9)


@pytest.mark.parametrize("shape", [2, 3, 10, 60])
def test_a_gamma_of_a_whole_shape_is_a_sum_of_exponentials(shape: int) -> None:
    # 1 - P(n, x) = e^-x (1 + x + ... + x^(n-1)/(n-1)!)
    x = np.exp(log_gamma_quantiles(P, float(shape)))
    tail = sum(np.exp(-x + k * np.log(x) - math.lgamma(k + 1)) for k in range(shape))
    assert tail == pytest.approx(1 - P, rel=1e-8)


def test_a_small_shape_follows_the_power_law() -> None:
    # P(a, x) is x^a / Gamma(a + 1) to within x, and these x are below 1e-30
    p = np.array([1e-3, 0.1, 0.2])
    assert log_gamma_quantiles(p, 0.01) == pytest.approx((np.log(p) + math.lgamma(1.01)) / 0.01, rel=1e-12)


@pytest.mark.parametrize(
    ("shape", "p", "quantile"),
    [(0.5, 0.95, 3.841458820694124 / 2), (5.0, 0.95, 18.307038053275146 / 2), (1.5, 0.01, 0.11483180189911707 / 2)],
)
def test_tables_of_chi_squared_agree(shape: float, p: float, quantile: float) -> None:
    assert math.exp(log_gamma_quantiles(np.array([p]), shape)[0]) == pytest.approx(quantile, rel=1e-9)


@pytest.mark.parametrize("shape", [1e-6, 1e-3, 0.0223, 0.7, 1.0001, 33.3, 999.0, 1000.0, 1e6])
def test_quantiles_rise_and_their_mean_is_near_the_shape(shape: float) -> None:
    y = log_gamma_quantiles(P, shape)
    assert np.isfinite(y).all()
    assert (np.diff(y) > 0).all()
    if shape > 0.5:
        assert np.exp(y).mean() == pytest.approx(shape, rel=1e-3)


def test_the_approximation_for_large_shapes_joins_on() -> None:
    below, above = (log_gamma_quantiles(P, shape) - math.log(shape) for shape in (999.999, 1000.0))
    assert np.abs(below - above).max() < 2e-5


def test_weibull() -> None:
    assert math.exp(log_weibull_quantiles(np.array([1 - math.exp(-8)]), 3.0)[0]) == pytest.approx(2.0)


@pytest.mark.parametrize("base", [2, 3, 5])
def test_a_block_of_the_sequence_has_one_point_in_every_part(base: int) -> None:
    block = base**4
    for first in (0, block, 7 * block):
        parts = np.floor(radical_inverse(np.arange(first, first + block), base) * block + 1e-9)
        assert sorted(parts) == list(range(block))


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_alternating_is_a_permutation(count: int) -> None:
    assert sorted(alternating(count)) == list(range(count))
