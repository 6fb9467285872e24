"""Waits of docs/arithmetic.md section 4: for a worker, for the rest of a step, for a slot; one function each; SI units."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Wait:
    """A queue's mean wait `W` (s) and the probability `Pw` that there is one."""

    mean_s: float
    probability: float

    def at_most(self, slack_s: float) -> float:
        """`1 - Pw·exp(-Pw·slack/W)`: probability that the wait is at most the slack (s); 0 if that is negative.

        >>> Wait(2.0, 0.5).at_most(-1.0), Wait(0.0, 0.5).at_most(0.0), Wait(2.0, 0.5).at_most(0.0)
        (0.0, 1.0, 0.5)
        """
        if slack_s < 0:
            return 0.0
        if self.mean_s == 0:
            return 1.0
        return 1 - self.probability * math.exp(-self.probability * slack_s / self.mean_s)


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
    round_robin: bool, arrival_scv: float, service_scv: float, utilization: float, servers: float, service_s: float
) -> Wait:
    """Return the wait for a worker under the declared dispatch."""
    queue = own_queues if round_robin else shared_queue
    return queue(arrival_scv, service_scv, utilization, servers, service_s)


def slot_wait_s(slots: float, holding_scv: float, batch: float, holding_s: float) -> float:
    """`W_slot = (1 + cH²)/2 · Pw(sigma) / (B·(1 - sigma)) · H` (s) with `sigma = b/B`; 0 where nothing is held.

    >>> slot_wait_s(1.0, 1.0, 0.5, 2.0), slot_wait_s(4.0, 0.0, 0.0, 0.0)
    (2.0, 0.0)
    """
    return shared_queue(1.0, holding_scv, batch / slots, slots, holding_s).mean_s if holding_s else 0.0


def residual_step_s(batch: float, step_s: float) -> float:
    """`W_res = (1 - e^(-b))·τ/2` (s): the rest of the step that a newcomer finds running.

    >>> round(residual_step_s(1.0, 0.02), 9)
    0.006321206
    """
    return -math.expm1(-batch) * step_s / 2
