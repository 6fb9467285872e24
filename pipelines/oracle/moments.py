"""Laws that the moments of any requests obey: what `1 ≤ u ≤ p` and `z = p² - (p - u)²` leave possible."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .findings import WORKLOAD_DIGITS, Ledger
from .traffic import Moments, moments_of

CHECK = "workload"
WHY = "laws of moments"

MEANS = {
    "prompt_tokens_mean": "p1",
    "prompt_tokens_m2": "p2",
    "uncached_tokens_mean": "u1",
    "uncached_tokens_m2": "u2",
    "attention_mean": "z1",
    "attention_m2": "z2",
    "uncached_attention_mean": "uz",
    "prompt_uncached_mean": "pu",
    "prompt_attention_mean": "pz",
    "output_tokens_mean": "o1",
    "output_tokens_m2": "o2",
    "prompt_output_mean": "po",
    "multi_token_share": "multi_token_share",
}
"""Members of a bucket that are means over its requests, and their symbols."""
MAXIMA = ("prompt_tokens_max", "uncached_tokens_max", "attention_max", "output_tokens_max")

SLACK = 5 * 10.0 ** (1 - WORKLOAD_DIGITS)
"""What rounding to 12 digits may do to both sides of a law, as a share of its largest term."""


@dataclass(frozen=True)
class Law:
    """A member of a bucket and what it may be; `scale` is the largest term that the limits were computed from."""

    name: str
    value: float
    least: Sequence[float] = ()
    most: Sequence[float] = ()
    scale: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the value lies within its limits, up to rounding."""
        slack = SLACK * max(self.scale, abs(self.value))
        return max(self.least, default=-math.inf) - slack <= self.value <= min(self.most, default=math.inf) + slack

    @property
    def limits(self) -> str:
        """The limits in words."""
        ends = [f"at least {max(self.least):.12g}"] if self.least else []
        return " and ".join(ends + ([f"at most {min(self.most):.12g}"] if self.most else []))


def check_moments(ledger: Ledger, where: str, row: Mapping[str, Any], least_prompt: int) -> None:
    """Check one bucket, whose prompts have so many tokens at least, against every law."""
    of, o_max = moments_of(row), float(row["output_tokens_max"])
    laws = [*_first_moments(of, o_max, least_prompt), *_second_moments(of, o_max, least_prompt)]
    laws += [*_cross_moments(of, o_max, least_prompt), *_cached(of), *_maxima(of, o_max, least_prompt)]
    for law in laws:
        ledger.holds(CHECK, f"{where}.{law.name}", law.holds, law.value, law.limits, WHY)
    whole = float(row["attention_max"]).is_integer()
    ledger.holds(CHECK, f"{where}.attention_max", whole, row["attention_max"], "a whole number", "tokens are whole")


def _first_moments(of: Moments, o_max: float, least: int) -> Iterator[Law]:
    multi = of.multi_token_share
    yield Law("prompt_tokens_mean", of.p1, [least], [of.p_max])
    yield Law("uncached_tokens_mean", of.u1, [1], [of.p1, of.u_max])
    # each computed token attends to what comes before it: z = u·(2p - u)
    pairs = 2 * of.pu - of.u2
    yield Law("attention_mean", of.z1, [pairs, of.pu, of.u2], [pairs, of.p2, of.z_max], 2 * of.pu)
    yield Law("multi_token_share", multi, [0], [1])
    yield Law("output_tokens_mean", of.o1, [1 + multi], [1 + multi * (o_max - 1)])


def _second_moments(of: Moments, o_max: float, least: int) -> Iterator[Law]:
    yield _second_moment("prompt_tokens_m2", of.p1, of.p2, least, of.p_max)
    yield _second_moment("uncached_tokens_m2", of.u1, of.u2, 1, of.u_max)
    yield _second_moment("output_tokens_m2", of.o1, of.o2, 1, o_max)
    yield _second_moment("attention_m2", of.z1, of.z2, 1, of.z_max)
    # u² ≤ z ≤ p², and z = u·(2p - u)
    longest = 2 * of.p_max - 1
    yield Law("attention_m2", of.z2, [of.u2**2, of.pu**2], [longest * of.uz, of.p_max * of.pz])


def _second_moment(name: str, mean: float, second: float, least: float, most: float) -> Law:
    """`E[x]² ≤ E[x²] ≤ (a + b)·E[x] - a·b` of values between a and b."""
    return Law(name, second, [mean**2], [(least + most) * mean - least * most], (least + most) * mean)


def _cross_moments(of: Moments, o_max: float, least: int) -> Iterator[Law]:
    """Cauchy-Schwarz, and each factor within its range."""
    longest = 2 * of.p_max - 1
    yield Law(
        "uncached_attention_mean",
        of.uz,
        [of.u1, of.z1, of.u2**2 / of.u1, of.z1**2 / (2 * of.p1 - min(of.p1, of.u1)), of.z2 / longest],
        [math.sqrt(of.u2 * of.z2), of.u_max * of.z1, of.z_max * of.u1, longest * of.u2],
    )
    yield Law(
        "prompt_uncached_mean",
        of.pu,
        [of.p1, least * of.u1, of.u2],
        [of.p2, math.sqrt(of.p2 * of.u2), of.p_max * of.u1, of.u_max * of.p1],
    )
    yield Law(
        "prompt_attention_mean",
        of.pz,
        [of.p1, least * of.z1, of.uz, of.pu**2 / of.u1],
        [math.sqrt(of.p2 * of.z2), of.p_max * of.z1, of.z_max * of.p1],
    )
    yield Law(
        "prompt_output_mean",
        of.po,
        [of.p1, least * of.o1],
        [math.sqrt(of.p2 * of.o2), of.p_max * of.o1, o_max * of.p1],
    )


def _cached(of: Moments) -> Iterator[Law]:
    """What the cached tokens `h = p - u` leave possible: without any, u is p and z is p²."""
    cached = max(0.0, of.p1 - of.u1)
    most_cached = min(of.p_max - 1, of.requests * cached)
    scale = of.p_max * of.p1
    yield Law("attention_mean", of.z1, [of.p2 - most_cached * cached], [of.p2 - cached**2], scale)
    yield Law(
        "prompt_uncached_mean", of.pu, [of.p2 - of.p_max * cached], [of.p2 - cached, of.u2 + of.u_max * cached], scale
    )
    yield Law("prompt_attention_mean", of.pz, [of.uz + cached], [of.uz + of.z_max * cached], of.z_max * of.p1)
    yield Law("uncached_tokens_max", of.u_max, [of.p_max - most_cached], [of.p_max], of.requests * of.p1)
    of_longest = of.p_max**2 - most_cached**2
    yield Law("attention_max", of.z_max, [of_longest], [of.p_max**2], of.requests * of.p1 * of.p_max)


def _maxima(of: Moments, o_max: float, least: int) -> Iterator[Law]:
    """Some request has the largest value, and all others have the least at least."""
    yield Law(
        "attention_max",
        of.z_max,
        [of.u_max * (2 * max(least, of.u_max) - of.u_max), 2 * of.p_max - 1],
        [of.u_max * (2 * of.p_max - of.u_max)],
    )
    others, triples = of.requests - 1, (
        ("prompt_tokens_max", of.p_max, of.p1, of.p2, least),
        ("uncached_tokens_max", of.u_max, of.u1, of.u2, 1),
        ("attention_max", of.z_max, of.z1, of.z2, 1),
        ("output_tokens_max", o_max, of.o1, of.o2, 1),
    )  # fmt: skip
    for name, largest, mean, second, smallest in triples:
        total, squares = of.requests * mean, of.requests * second
        yield Law(name, largest, [mean], [total - others * smallest, math.sqrt(squares)], total)
        left = squares - others * smallest**2
        yield Law(name, largest, [], [math.sqrt(max(0.0, left) + SLACK * squares)])
