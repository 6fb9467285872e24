"""Equations of docs/arithmetic.md, sections 3 and 4: prefill, decode, waits; one function each; SI units, symbols in the docstrings."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .parameters import Parameters
from .traffic import Moments


@dataclass(frozen=True)
class Wait:
    """A queue's mean wait `W` (s) and the probability `Pw` that there is one."""

    mean_s: float
    probability: float


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


def prefill_s(of: Parameters, u1: float, z1: float) -> float:
    """`S̄ = d + u1/r_p + q·z1` (s): mean prefill of prompts with E[u] = u1 uncached tokens and attention E[z] = z1."""
    return of.prefill_overhead_s + u1 / of.prefill_tokens_per_s + of.prefill_s_per_token2 * z1


def longest_prefill_s(of: Parameters, moments: Moments) -> float:
    """`S_max = d + u_max/r_p + q·z_max` (s): at least the longest prefill."""
    return prefill_s(of, moments.u_max, moments.z_max)


def prefill_m2_s2(of: Parameters, moments: Moments) -> float:
    """`S2 = d² + 2·d·u1/r_p + u2/r_p² + 2·d·q·z1 + (2·q/r_p)·uz + q²·z2` (s²): second moment of prefill."""
    d, r_p, q = of.prefill_overhead_s, of.prefill_tokens_per_s, of.prefill_s_per_token2
    return math.fsum(
        (
            d**2,
            2 * d * moments.u1 / r_p,
            moments.u2 / r_p**2,
            2 * d * q * moments.z1,
            (2 * q / r_p) * moments.uz,
            q**2 * moments.z2,
        )
    )


def prefill_token_s(of: Parameters, moments: Moments) -> float:
    """`E[p·S] = d·p1 + pu/r_p + q·pz` (token·s): prompt tokens held while their prefill runs."""
    rate, quadratic = of.prefill_tokens_per_s, of.prefill_s_per_token2
    return of.prefill_overhead_s * moments.p1 + moments.pu / rate + quadratic * moments.pz


def squared_variation(mean: float, second_moment: float) -> float:
    """`cs² = max(0, S2/S̄² - 1)`: squared coefficient of variation; 0 of what is always 0.

    >>> squared_variation(2.0, 8.0), squared_variation(2.0, 4.0)
    (1.0, 0.0)
    """
    return max(0.0, second_moment / mean**2 - 1) if mean else 0.0


def decode_work(moments: Moments, prefill_emits_first_token: bool) -> DecodeWork:
    """`D = o - g`: `D1 = o1 - g`, `D2 = o2 - 2·g·o1 + g`, `PD = po - g·p1`, g = 1 if prefill emits the first token."""
    g = 1 if prefill_emits_first_token else 0
    return DecodeWork(moments.o1 - g, moments.o2 - 2 * g * moments.o1 + g, moments.po - g * moments.p1)


def seconds_per_sequence(of: Parameters, work: DecodeWork) -> float:
    """`c = 1/r_d + gamma·R` (s): what one more sequence adds to a decode step."""
    return 1 / of.decode_tokens_per_s + of.decode_s_per_context_token * work.resident_tokens


def sakasegawa(utilization: float, servers: float) -> float:
    """`Pw = rho^(√(2(n+1)) - 1)`: probability that all n servers are busy.

    >>> sakasegawa(0.5, 1.0), round(sakasegawa(0.5, 7.0), 6)
    (0.5, 0.125)
    """
    return math.pow(utilization, math.sqrt(2 * (servers + 1)) - 1)


def shared_queue(arrival_scv: float, service_scv: float, utilization: float, servers: float, service_s: float) -> Wait:
    """`W = (ca² + cs²)/2 · Pw / (n·(1 - rho)) · S` (s): one queue feeds all servers.

    >>> shared_queue(1.0, 1.0, 0.5, 1.0, 2.0)  # M/M/1: rho/(1 - rho)·S
    Wait(mean_s=2.0, probability=0.5)
    """
    probability = sakasegawa(utilization, servers)
    mean = (arrival_scv + service_scv) / 2 * probability / (servers * (1 - utilization)) * service_s
    return Wait(mean, probability)


def own_queues(arrival_scv: float, service_scv: float, utilization: float, servers: float, service_s: float) -> Wait:
    """`W = (ca²/n + cs²)/2 · rho / (1 - rho) · S` (s): each server has its own queue and every n-th arrival.

    >>> own_queues(1.0, 0.0, 0.5, 2.0, 2.0)
    Wait(mean_s=0.5, probability=0.5)
    """
    mean = (arrival_scv / servers + service_scv) / 2 * utilization / (1 - utilization) * service_s
    return Wait(mean, utilization)


def pool_queue(
    of: Parameters, arrival_scv: float, service_scv: float, utilization: float, servers: float, service_s: float
) -> Wait:
    """Return the wait for a worker under the declared dispatch."""
    queue = own_queues if of.round_robin else shared_queue
    return queue(arrival_scv, service_scv, utilization, servers, service_s)


def slot_wait_s(slots: float, work: DecodeWork, batch: float, step_s: float) -> float:
    """`W_slot = (1 + cH²)/2 · Pw(sigma) / (B·(1 - sigma)) · H` (s) with `sigma = b/B`, `H = D1·t`; 0 without decode."""
    if not work.steps:
        return 0.0
    return shared_queue(1.0, work.steps_scv, batch / slots, slots, work.steps * step_s).mean_s


def residual_step_s(batch: float, step_s: float) -> float:
    """`W_res = (1 - e^(-b))·τ/2` (s): the rest of the step that a newcomer finds running.

    >>> round(residual_step_s(1.0, 0.02), 9)
    0.006321206
    """
    return -math.expm1(-batch) * step_s / 2
