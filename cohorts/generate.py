"""Writes the request logs of the bundled cohorts: `python cohorts/generate.py [NAME ...]`.

The logs are synthetic. All their parameters are in COHORTS below; the same parameters give the same bytes, since the
generator draws from the uniform stream of `random.Random(seed)` only and rounds to whole microseconds and tokens.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import cos, exp, log, pi, sqrt
from pathlib import Path
from random import Random

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
START = datetime(2026, 3, 2, 9, 0, 0)


@dataclass(frozen=True)
class Tokens:
    """A lognormal token count between two limits; ``sigma`` is the deviation of its logarithm."""

    median: int
    sigma: float
    low: int
    high: int


@dataclass(frozen=True)
class Steady:
    """Requests that arrive independently of each other, ``rate_rps`` a second on average."""

    rate_rps: float
    prompt: Tokens
    output: Tokens


@dataclass(frozen=True)
class Bursts:
    """``size`` requests within ``within_s`` seconds, every ``every_s`` seconds; each a range (low, high)."""

    every_s: tuple[float, float]
    size: tuple[int, int]
    within_s: float
    prompt: tuple[int, int]
    output: tuple[int, int]


@dataclass(frozen=True)
class Recipe:
    """What one cohort's log is made of."""

    seed: int
    minutes: int
    steady: Steady
    bursts: Bursts | None = None


COHORTS = {
    "moderate-chat": Recipe(
        seed=11,
        minutes=20,
        steady=Steady(
            rate_rps=7.0,
            prompt=Tokens(median=450, sigma=0.8, low=8, high=3_000),
            output=Tokens(median=220, sigma=0.7, low=1, high=1_000),
        ),
    ),
    "bursty-documents": Recipe(
        seed=23,
        minutes=20,
        steady=Steady(
            rate_rps=5.0,
            prompt=Tokens(median=300, sigma=0.7, low=8, high=2_000),
            output=Tokens(median=150, sigma=0.6, low=1, high=800),
        ),
        bursts=Bursts(every_s=(18, 26), size=(6, 14), within_s=3.0, prompt=(6_000, 24_000), output=(150, 400)),
    ),
    "short-and-long": Recipe(
        seed=53,
        minutes=15,
        steady=Steady(
            rate_rps=6.0,
            prompt=Tokens(median=260, sigma=0.6, low=8, high=1_200),
            output=Tokens(median=160, sigma=0.6, low=1, high=700),
        ),
        bursts=Bursts(every_s=(10, 16), size=(2, 5), within_s=4.0, prompt=(6_000, 16_000), output=(150, 400)),
    ),
    "slow-link": Recipe(
        seed=37,
        minutes=20,
        steady=Steady(
            rate_rps=6.0,
            prompt=Tokens(median=350, sigma=0.7, low=8, high=2_000),
            output=Tokens(median=160, sigma=0.6, low=1, high=800),
        ),
        bursts=Bursts(every_s=(16, 24), size=(6, 12), within_s=3.0, prompt=(5_000, 14_000), output=(150, 350)),
    ),
    "overloaded": Recipe(
        seed=41,
        minutes=10,
        steady=Steady(
            rate_rps=12.0,
            prompt=Tokens(median=2_500, sigma=0.6, low=32, high=12_000),
            output=Tokens(median=500, sigma=0.5, low=1, high=2_000),
        ),
    ),
}

Row = tuple[int, int, int]
"""Arrival in microseconds from the start, prompt tokens, output tokens."""


def rows(recipe: Recipe) -> list[Row]:
    """The requests of a recipe in order of arrival."""
    draw = Random(recipe.seed)
    end_us = recipe.minutes * 60_000_000
    made = list(_steady(draw, recipe.steady, end_us))
    if recipe.bursts:
        made += _bursts(draw, recipe.bursts, end_us)
    return sorted(made)


def log_text(recipe: Recipe) -> str:
    """The log of a recipe in the format of the Azure traces."""
    lines = [f"{START + timedelta(microseconds=at):%Y-%m-%d %H:%M:%S.%f},{p},{o}" for at, p, o in rows(recipe)]
    return "\n".join([HEADER, *lines]) + "\n"


def _steady(draw: Random, steady: Steady, end_us: int) -> Iterator[Row]:
    at_us = 0
    while (at_us := at_us + _gap_us(draw, steady.rate_rps)) < end_us:
        yield at_us, _lognormal(draw, steady.prompt), _lognormal(draw, steady.output)


def _bursts(draw: Random, bursts: Bursts, end_us: int) -> Iterator[Row]:
    at_s = 0.0
    while (at_s := at_s + _between(draw, *bursts.every_s)) + bursts.within_s < end_us / 1e6:
        for _ in range(_whole_between(draw, *bursts.size)):
            arrival_us = round((at_s + bursts.within_s * draw.random()) * 1e6)
            yield arrival_us, _whole_between(draw, *bursts.prompt), _whole_between(draw, *bursts.output)


def _gap_us(draw: Random, rate_rps: float) -> int:
    return round(-log(1 - draw.random()) / rate_rps * 1e6)


def _lognormal(draw: Random, tokens: Tokens) -> int:
    while True:
        normal = sqrt(-2 * log(1 - draw.random())) * cos(2 * pi * draw.random())
        count = round(tokens.median * exp(tokens.sigma * normal))
        if tokens.low <= count <= tokens.high:
            return count


def _between(draw: Random, low: float, high: float) -> float:
    return low + (high - low) * draw.random()


def _whole_between(draw: Random, low: int, high: int) -> int:
    return low + int((high - low + 1) * draw.random())


def main(names: list[str]) -> None:
    """Write the logs of the named cohorts, all of them if none is named."""
    unknown = sorted(set(names) - set(COHORTS))
    if unknown:
        sys.exit(f"unknown cohort {', '.join(unknown)}; known: {', '.join(COHORTS)}")
    for name in names or COHORTS:
        path = Path(__file__).resolve().parent / name / "requests.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(log_text(COHORTS[name]).encode())
        print(f"{path.parent.name}/{path.name}: {len(rows(COHORTS[name]))} requests, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
