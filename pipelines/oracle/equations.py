"""Service times of docs/arithmetic.md section 3: prefill of pieces and prompts, decode work; SI units, symbols in the docstrings."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .memory import batch_cap
from .pacing import Steps
from .parameters import Parameters
from .traffic import Moments, Requests, Stratum


def piece_s(of: Parameters, y: float) -> float:
    """`f(y) = d + y/r_p + q·y²`, or `P(y)` with a curve (s): prefill of a piece of y tokens, nothing before it."""
    if of.prefill_curve is not None:
        return of.prefill_curve.seconds(y)
    return of.prefill_overhead_s + y / of.prefill_tokens_per_s + of.prefill_s_per_token2 * y**2


def pieces_s(of: Parameters, pieces: int, u: float, z: float) -> float:
    """`K·f(u/K) + q·(z - u²/K)` (s): a prompt in K equal pieces, and their attention to what lies before them."""
    return pieces * piece_s(of, u / pieces) + of.prefill_s_per_token2 * (z - u**2 / pieces)


def prompt_s(of: Parameters, u: float, z: float, u2: float) -> float:
    """`S = d + u/r_p + q·z`, or `P(u) + q·(z - uu)` with a curve (s): a prompt in one piece."""
    if of.prefill_curve is not None:
        return of.prefill_curve.seconds(u) + of.prefill_s_per_token2 * (z - u2)
    return of.prefill_overhead_s + u / of.prefill_tokens_per_s + of.prefill_s_per_token2 * z


def longest_prefill_s(of: Parameters, moments: Moments) -> float:
    """`S_max = d + u_max/r_p + q·z_max`, or `P(u_max) + q·z_max` (s): at least the longest prefill."""
    return prompt_s(of, moments.u_max, moments.z_max, 0.0)


@dataclass(frozen=True)
class Prefill:
    """Prefill of whole prompts on one kind of worker: `S_s` of the strata, and means over sets of requests."""

    of: Parameters
    requests: Requests
    strata_s: tuple[float, ...]

    def mean_s(self, k: Moments) -> float:
        """`S̄` (s) of all requests, or of a bucket."""
        if self.of.prefill_curve is not None:
            return self.requests.mean(k.bucket, self.strata_s)
        return prompt_s(self.of, k.u1, k.z1, k.u2)

    def m2_s2(self, k: Moments) -> float:
        """`S2 = d² + 2·d·u1/r_p + u2/r_p² + 2·d·q·z1 + (2·q/r_p)·uz + q²·z2`, or by strata (s²)."""
        if self.of.prefill_curve is not None:
            each = zip(self.requests.strata, self.strata_s, strict=True)
            return self.requests.mean(k.bucket, [t**2 + self._slope(s) ** 2 * s.uncached_variance for s, t in each])
        d, r_p, q = self.of.prefill_overhead_s, self.of.prefill_tokens_per_s, self.of.prefill_s_per_token2
        return math.fsum((d**2, 2 * d * k.u1 / r_p, k.u2 / r_p**2, 2 * d * q * k.z1, (2 * q / r_p) * k.uz, q**2 * k.z2))

    def token_s(self) -> float:
        """`E[p·S] = d·p1 + pu/r_p + q·pz`, or by strata (token·s): prompt tokens held while their prefill runs."""
        of, whole = self.of, self.requests.whole
        if of.prefill_curve is not None:
            each = zip(self.requests.strata, self.strata_s, strict=True)
            held = [s.p1 * t + self._slope(s) * s.prompt_uncached_covariance for s, t in each]
            return self.requests.mean("all", held)
        return (
            of.prefill_overhead_s * whole.p1 + whole.pu / of.prefill_tokens_per_s + of.prefill_s_per_token2 * whole.pz
        )

    def token_spacing_s(self, s: Stratum) -> float:
        """`h_s` (s): seconds per uncached token of a stratum, `1/r_p` or `P'`."""
        return 1 / self.of.prefill_tokens_per_s if self.of.prefill_curve is None else self._slope(s)

    def spreads_s(self) -> tuple[float, ...]:
        """`√Var_s(u)·h_s` (s): how far execution varies within each stratum."""
        return tuple(math.sqrt(s.uncached_variance) * self.token_spacing_s(s) for s in self.requests.strata)

    def _slope(self, s: Stratum) -> float:
        """`P'`: seconds per token of the piece of the curve that begins at or holds `u_s`."""
        return self.of.prefill_curve.slope(s.u1) if self.of.prefill_curve is not None else 0.0


def prefill_of(of: Parameters, requests: Requests) -> Prefill:
    """Time the strata's prompts."""
    return Prefill(of, requests, tuple(prompt_s(of, s.u1, s.z1, s.u2) for s in requests.strata))


def leaves_curves(of: Parameters, tokens: float, sequences: float) -> bool:
    """Whether a prompt or piece of so many tokens, or a step of so many sequences, lies beyond what was measured."""
    pairs = ((of.prefill_curve, tokens), (of.decode_curve, sequences))
    return any(curve is not None and size > curve.points[-1][0] for curve, size in pairs)


def squared_variation(mean: float, second_moment: float) -> float:
    """`cs² = max(0, S2/S̄² - 1)`: squared coefficient of variation; 0 of what is always 0.

    >>> squared_variation(2.0, 8.0), squared_variation(2.0, 4.0)
    (1.0, 0.0)
    """
    return max(0.0, second_moment / mean**2 - 1) if mean else 0.0


@dataclass(frozen=True)
class DecodeWork:
    """Decode steps `D` of a request: `D1` = E[D], `D2` = E[D²], `PD` = E[p·D]."""

    steps: float
    steps_m2: float
    prompt_steps: float

    @property
    def token_steps(self) -> float:
        """`PD + D2/2`: KV tokens resident while decoding, summed over a request's steps."""
        return self.prompt_steps + self.steps_m2 / 2

    @property
    def resident_tokens(self) -> float:
        """`R = (PD + D2/2) / D1`: KV tokens resident per decoding sequence, 0 without decode steps."""
        return self.token_steps / self.steps if self.steps else 0.0

    @property
    def steps_scv(self) -> float:
        """`cH² = max(0, D2/D1² - 1)`, 0 without decode steps."""
        return squared_variation(self.steps, self.steps_m2) if self.steps else 0.0


def decode_work(moments: Moments, prefill_emits_first_token: bool) -> DecodeWork:
    """`D = o - g`: `D1 = o1 - g`, `D2 = o2 - 2·g·o1 + g`, `PD = po - g·p1`, g = 1 if prefill emits the first token."""
    g = 1 if prefill_emits_first_token else 0
    return DecodeWork(moments.o1 - g, moments.o2 - 2 * g * moments.o1 + g, moments.po - g * moments.p1)


@dataclass(frozen=True)
class Decode:
    """Decode on one kind of worker: the work of a request, the times of a step, and the sequences that fit, `B`."""

    work: DecodeWork
    steps: Steps
    cap: float


def decode_of(of: Parameters, moments: Moments, prefill_emits_first_token: bool) -> Decode:
    """Collect what decoding of these requests takes."""
    work = decode_work(moments, prefill_emits_first_token)
    per_sequence = 1 / of.decode_tokens_per_s if of.decode_curve is None else 0.0
    context = of.decode_s_per_context_token * work.resident_tokens
    steps = Steps(of.step_overhead_s, per_sequence, context, of.decode_curve)
    return Decode(work, steps, batch_cap(of, work.steps, work.resident_tokens))
