"""Quantiles of the distributions that gaps between arrivals are fitted with, and points that spread evenly: no random numbers."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHAPES = (1e-6, 1e6)
"""Least and greatest shape that the quantiles are computed for: coefficients of variation from a thousandth up to a thousand."""

_LARGE_SHAPE = 1000.0
"""From this shape on, a gamma quantile is that of Wilson and Hilferty, which is within 2e-5 of it."""

_ITERATIONS, _TERMS = 60, 2000
_TINY, _SETTLED, _SMALLEST = 1e-16, 1e-14, 1e-300
_LONGEST_STEP = 2.0


def log_gamma_quantiles(p: Floats, shape: float) -> Floats:
    """Natural logarithms of the quantiles of a gamma distribution with ``shape`` and scale 1, at ``p`` (0 < p < 1, ascending).

    Where F(x) = P(shape, x) is the regularised incomplete gamma function, Newton's method on ln F for p up to 1/2 and on ln (1 - F)
    above, in ln x: both are concave in it, so that the method converges from wherever it starts.
    The logarithm, since the quantiles of a small shape are too small for a float.

    >>> [round(math.exp(one), 9) for one in log_gamma_quantiles(np.array([0.1, 0.5, 0.9]), 2.0)]
    [0.531811608, 1.67834699, 3.88972017]
    """
    if shape >= _LARGE_SHAPE:
        return _wilson_hilferty(p, shape)
    split = int(np.searchsorted(p, 0.5, side="right"))
    y = _first_guess(p, shape)
    low, high = (
        _newton(y[:split], np.log(p[:split]), shape, _below),
        _newton(y[split:], np.log1p(-p[split:]), shape, _above),
    )
    return np.concatenate([low, high])


def log_weibull_quantiles(p: Floats, shape: float) -> Floats:
    """Natural logarithms of the quantiles of a Weibull distribution with ``shape`` and scale 1: ln(-ln(1 - p)) / shape.

    >>> [round(math.exp(one), 6) for one in log_weibull_quantiles(np.array([0.5, 0.9]), 2.0)]
    [0.832555, 1.517427]
    """
    return np.asarray(np.log(-np.log1p(-p)) / shape)


def log_exponential_quantiles(p: Floats, shape: float = 1.0) -> Floats:  # noqa: ARG001 - as the others are called
    """Natural logarithms of the quantiles of an exponential distribution with mean 1: ln(-ln(1 - p)).

    >>> [round(math.exp(one), 6) for one in log_exponential_quantiles(np.array([0.5, 0.9]))]
    [0.693147, 2.302585]
    """
    return log_weibull_quantiles(p, 1.0)


def equally_likely(count: int) -> Floats:
    """The middles of ``count`` parts of equal probability.

    >>> equally_likely(4).tolist()
    [0.125, 0.375, 0.625, 0.875]
    """
    return np.asarray((np.arange(count) + 0.5) / count)


def radical_inverse(index: Ints, base: int) -> Floats:
    """The van der Corput sequence: the digits of ``index`` in ``base``, mirrored at the point; between 0 and 1, 1 excluded.

    >>> radical_inverse(np.arange(5), 2).tolist(), radical_inverse(np.arange(4), 3).round(6).tolist()
    ([0.0, 0.5, 0.25, 0.75, 0.125], [0.0, 0.333333, 0.666667, 0.111111])
    """
    rest, mirrored, scale = index.astype(np.int64), np.zeros(index.shape, np.int64), 1
    while rest.any():
        mirrored = mirrored * base + rest % base
        rest //= base
        scale *= base
    return np.asarray(mirrored / scale)


def alternating(count: int) -> Ints:
    """The numbers from 0 to ``count`` - 1 in van der Corput order of base 2: small and large ones take turns.

    >>> alternating(8).tolist(), alternating(3).tolist()
    ([0, 4, 2, 6, 1, 5, 3, 7], [0, 2, 1])
    """
    order = np.argsort(radical_inverse(np.arange(count), 2), kind="stable")
    ranks = np.empty(count, np.int64)
    ranks[order] = np.arange(count)
    return ranks


def _first_guess(p: Floats, shape: float) -> Floats:
    if shape > 1:
        # Wilson and Hilferty's may be negative where the shape is small and p is smaller still; there the power law holds
        y, power = _wilson_hilferty(p, shape), (np.log(p) + math.lgamma(shape + 1)) / shape
        return np.where(np.isfinite(y), y, power)
    # F(x) = x^a / Gamma(a + 1) near 0, and an exponential tail: the two meet where their probabilities do
    meet = 1 - shape * (0.253 + 0.12 * shape)
    power = (np.log(p) + math.lgamma(shape + 1)) / shape
    tail = np.log(1 - np.log1p(-np.maximum(p - meet, 0) / (1 - meet)))
    return np.where(p < meet, power, tail)


def _wilson_hilferty(p: Floats, shape: float) -> Floats:
    """The cube root of a gamma variate is nearly normal: ln of shape (1 - 1/(9 shape) + z/(3 sqrt shape))^3."""
    root = 1 - 1 / (9 * shape) + _normal_quantiles(p) / (3 * math.sqrt(shape))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(math.log(shape) + 3 * np.log(root))


def _normal_quantiles(p: Floats) -> Floats:
    """Quantiles of the standard normal distribution, within 5e-4 (Abramowitz and Stegun 26.2.23), then one step of Halley's method."""
    tail = np.minimum(p, 1 - p)
    t = np.sqrt(-2 * np.log(tail))
    z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(2):
        error = (0.5 * _erfc(z / math.sqrt(2)) - tail) * math.sqrt(2 * math.pi) * np.exp(z * z / 2)
        z = z + error / (1 - z * error / 2)
    return np.asarray(np.where(p < 0.5, -z, z))


_erfc: Callable[[Floats], Floats] = np.vectorize(math.erfc, otypes=[np.float64])


def _newton(
    y: Floats, goal: Floats, shape: float, log_and_slope: Callable[[Floats, float], tuple[Floats, Floats]]
) -> Floats:
    """Where the logarithm that ``log_and_slope`` gives is ``goal``, from ``y`` on."""
    y, waiting = y.copy(), np.arange(y.size)
    for _ in range(_ITERATIONS):
        if not waiting.size:
            break
        value, slope = log_and_slope(y[waiting], shape)
        step = np.clip((goal[waiting] - value) / slope, -_LONGEST_STEP, _LONGEST_STEP)
        y[waiting] += step
        waiting = waiting[np.abs(step) > 1e-9]
    return y


def _below(y: Floats, shape: float) -> tuple[Floats, Floats]:
    """The logarithm of P(shape, e^y), and its derivative by y."""
    x = np.exp(y)
    value = shape * y - x - math.lgamma(shape + 1) + np.log(_series(x, shape))
    return value, np.exp(shape * y - x - math.lgamma(shape) - value)


def _above(y: Floats, shape: float) -> tuple[Floats, Floats]:
    """The logarithm of 1 - P(shape, e^y), and its derivative by y."""
    x = np.exp(y)
    value, density = np.empty_like(y), shape * y - x - math.lgamma(shape)
    near = x < shape + 1
    value[near] = np.log(-np.expm1(np.minimum(_below(y[near], shape)[0], -_TINY)))
    value[~near] = density[~near] + np.log(_fraction(x[~near], shape))
    return value, -np.exp(density - value)


def _series(x: Floats, shape: float) -> Floats:
    """The sum of x^k / ((shape + 1) ... (shape + k)) over k from 0: P(shape, x) x^-shape e^x Gamma(shape + 1)."""
    term, total = np.ones_like(x), np.ones_like(x)
    for k in range(1, _TERMS):
        term *= x / (shape + k)
        total += term
        if k % 8 == 0 and not (term > total * _SETTLED).any():
            break
    return total


def _fraction(x: Floats, shape: float) -> Floats:
    """Q(shape, x) x^-shape e^x Gamma(shape) as a continued fraction, by Lentz's method; for x above shape + 1."""
    b = x + 1 - shape
    c, d = np.full_like(x, 1 / _SMALLEST), 1 / b
    total = d.copy()
    for k in range(1, _TERMS):
        a = -k * (k - shape)
        b = b + 2
        d = 1 / _away_from_zero(a * d + b)
        c = _away_from_zero(b + a / c)
        total *= d * c
        if k % 8 == 0 and not (np.abs(d * c - 1) > _SETTLED).any():
            break
    return total


def _away_from_zero(value: Floats) -> Floats:
    return np.where(np.abs(value) < _SMALLEST, _SMALLEST, value)
