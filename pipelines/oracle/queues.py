"""Waits of docs/arithmetic.md section 4: for a worker, for the rest of a step, for a slot; one function each; SI units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Wait:
    """A queue's mean wait `W` (s) and the probability `Pw` that there is one."""

    mean_s: float
    probability: float

    def at_most(self, slack_s: float, order: float = 1.0) -> float:
        """`1 - Pw·exp(-Pw·slack/(ω·W))`: probability that the wait is at most the slack (s); 0 if that is negative.

        >>> Wait(2.0, 0.5).at_most(-1.0), Wait(0.0, 0.5).at_most(0.0), Wait(2.0, 0.5).at_most(0.0)
        (0.0, 1.0, 0.5)
        """
        if slack_s < 0:
            return 0.0
        mean = order * self.mean_s
        return 1 - self.probability * math.exp(-self.probability * slack_s / mean) if mean else 1.0


@dataclass(frozen=True)
class Pool:
    """`n` workers: one queue feeds all of them, or with round robin each has its own, and every n-th arrival."""

    workers: int
    round_robin: bool = False

    @property
    def sharing(self) -> int:
        """`n'`: workers that one queue feeds."""
        return 1 if self.round_robin else self.workers

    def scv(self, arrival_scv: float) -> float:
        """`ca_q²`: variation of the arrivals at one queue."""
        return arrival_scv / self.workers if self.round_robin else arrival_scv

    def wait(self, arrival_scv: float, service_scv: float, utilization: float, service_s: float) -> Wait:
        """`W(ca², cs², ρ, n, S)` and `Pw`."""
        return shared_queue(self.scv(arrival_scv), service_scv, utilization, self.sharing, service_s)


MOST_SERVERS = 1_000_000
"""Twice the workers that any cohort may have; there may be more links, but not so many in use."""


@lru_cache(maxsize=4096)
def loss(servers: int, offered: float) -> float:
    """`B(k, a)`: Erlang's formula for loss, `B_0 = 1`, `B_k = a·B_(k-1)/(k + a·B_(k-1))`.

    >>> loss(0, 0.5), loss(1, 1.0), loss(2, 1.0)
    (1.0, 0.5, 0.2)
    """
    lost = 1.0
    for k in range(1, min(servers, MOST_SERVERS) + 1):
        lost = offered * lost / (k + offered * lost)
        if not lost:  # too small for a double, and smaller still with every server more
            return lost
    if servers > MOST_SERVERS:
        raise OverflowError(f"{servers} servers, of which more than {MOST_SERVERS} are busy at times")
    return lost


def all_busy(servers: int, utilization: float) -> float:
    """`C(n, n·ρ) = B_n/(1 - ρ·(1 - B_n))`: Erlang's formula for waiting.

    >>> all_busy(1, 0.5), round(all_busy(2, 0.5), 6)
    (0.5, 0.333333)
    """
    lost = loss(servers, servers * utilization)
    return lost / (1 - utilization * (1 - lost))


def single_queue(arrival_scv: float, service_scv: float, utilization: float, service_s: float) -> Wait:
    """Wait for one server (Krämer and Langenbach-Belz).

    >>> single_queue(1.0, 1.0, 0.5, 2.0)  # M/M/1: rho/(1 - rho)·S
    Wait(mean_s=2.0, probability=0.5)
    >>> single_queue(0.0, 0.0, 0.5, 2.0)
    Wait(mean_s=0.0, probability=0.0)
    """
    ca2, cs2, rho = arrival_scv, service_scv, utilization
    probability, smooth = rho, 1.0
    if ca2 < 1:
        bursts = 1 + rho * (cs2 - 1) + rho**2 * (4 * ca2 + cs2)
        probability += (ca2 - 1) * rho * (1 - rho) * (1 + ca2 + rho * cs2) / bursts
        probability = max(0.0, probability)
    if rho == 0 or ca2 + cs2 == 0:
        return Wait(0.0, probability)
    if ca2 < 1:
        smooth = math.exp(-2 * (1 - rho) / (3 * rho) * (1 - ca2) ** 2 / (ca2 + cs2))
    return Wait((ca2 + cs2) / 2 * rho / (1 - rho) * service_s * smooth, probability)


def shared_queue(arrival_scv: float, service_scv: float, utilization: float, servers: int, service_s: float) -> Wait:
    """`(ca² + cs²)/2 · Pw/(n·(1 - ρ)) · S` (s): one queue feeds all servers (Allen and Cunneen); of one, as above.

    >>> shared_queue(1.0, 1.0, 0.5, 1, 2.0)
    Wait(mean_s=2.0, probability=0.5)
    """
    if servers == 1:
        return single_queue(arrival_scv, service_scv, utilization, service_s)
    probability = all_busy(servers, utilization)
    mean = (arrival_scv + service_scv) / 2 * probability / (servers * (1 - utilization)) * service_s
    return Wait(mean, probability)


def orders(work: Sequence[tuple[float, float]], rate_rps: float) -> tuple[float, ...]:
    """`ω_s = (1 - σ_last)/((1 - σ_(s-1))·(1 - σ_s))`: the shortest prompt first; of strata with `u_s` and `v_s·V_s`.

    >>> orders([(200.0, 0.25), (100.0, 0.25)], 1.0)
    (1.3333333333333333, 0.6666666666666666)
    """
    found, before = [0.0] * len(work), 0.0
    after = 1 - rate_rps * math.fsum(seconds for _, seconds in work)
    for place in sorted(range(len(work)), key=lambda place: work[place][0]):
        upto = before + rate_rps * work[place][1]
        found[place] = after / ((1 - before) * (1 - upto))
        before = upto
    return tuple(found)


def slot_wait_s(pool: Pool, slots: float, holding_scv: float, batch: float, holding_s: float) -> float:
    """`W_slot = (1 + cH²)/2 · σ^(√(2(m+1)) - 1)/(m·(1 - σ)) · H` (s), `σ = b/B`, `m = n'·B`; 0 where nothing is held.

    >>> slot_wait_s(Pool(1), 1.0, 1.0, 0.5, 2.0), slot_wait_s(Pool(1), 4.0, 0.0, 0.0, 0.0)
    (2.0, 0.0)
    """
    if not holding_s:
        return 0.0
    share, all_slots = batch / slots, pool.sharing * slots
    full = math.pow(share, math.sqrt(2 * (all_slots + 1)) - 1)
    return (1 + holding_scv) / 2 * full / (all_slots * (1 - share)) * holding_s


@dataclass(frozen=True)
class FreeMoment:
    """The first free moment of a pool of which all workers may be busy: `β`, `y`, and what they make of `W_res` and `φ`."""

    sharing: int
    all_busy: float
    """`β`: probability that none of `n'` is idle."""
    not_idle: float
    """`y`: share of time that a worker is not idle."""
    busy: float
    """`A`: probability that a worker that is not prefilling decodes."""

    @property
    def met(self) -> float:
        """`φ = β/y`: how much of prefill meets a worker that decodes."""
        return self.all_busy / self.not_idle if self.sharing > 1 and self.not_idle else 1.0

    def rest_s(self, prefill_share: float, step_s: float) -> float:
        """`W_res = β·τ_r·((1 + γ + … + γ^n')/(n' + 1) - γ^n')/(1 - ρ_q^n')` (s); of one worker `A·τ_r/2`."""
        n = self.sharing
        if n == 1:
            return self.busy * step_s / 2
        if not self.not_idle:
            return 0.0
        gamma = min(1.0, prefill_share / self.not_idle)
        powers = [gamma**k for k in range(n + 1)]
        first = math.fsum(powers) / (n + 1) - powers[n]
        return self.all_busy * step_s * first / (1 - prefill_share**n)


def free_moment(pool: Pool, offered: float, prefill_share: float, busy: float) -> FreeMoment:
    """`β` and `y` of a pool that is offered `a`, prefills for the share `ρ_q`, and decodes with probability `A` otherwise.

    >>> free_moment(Pool(1), 0.7, 0.5, 0.5).rest_s(0.5, 0.02)
    0.005
    """
    n, idle = pool.sharing, (1 - prefill_share) * (1 - busy)
    taken = loss(n - 1, offered) if offered else 0.0
    there = idle + taken * (1 - idle)
    if not there:
        return FreeMoment(n, 1.0, 1.0, busy)
    not_idle = (offered * (1 - taken) * idle + n * taken * (1 - idle)) / (n * there)
    return FreeMoment(n, taken * (1 - idle) / there, not_idle, busy if offered else 0.0)


def run_prompts(servers: int, utilization: float) -> float:
    """`H(n, ρ)`: mean prompts that a worker of a shared queue still serves in a run, exact for M/M/n.

    >>> round(run_prompts(1, 0.5), 6)  # 1/(1 - rho)
    2.0
    """
    alpha, beta, n = 0.0, 0.0, servers
    for workers in range(1, n + 1):
        k = n * utilization + workers - (workers - 1) * beta
        alpha, beta = (1 + (workers - 1) * alpha) / k, n * utilization / k
    return (alpha + beta / (n * (1 - utilization))) / (1 - beta)
