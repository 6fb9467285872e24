"""Waits (docs/arithmetic.md, section 4). Meaningless at or above a ceiling: the caller refuses those rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.arithmetic.numbers import Floats, Number, where

ROUND_ROBIN = "round_robin"
LEAST_LOADED = "least_loaded"
SHORTEST_QUEUE = "shortest_queue"


@dataclass(frozen=True)
class Wait:
    """Probability of waiting at all, and the mean wait in seconds over all arrivals."""

    probability: Number
    mean_s: Number


@dataclass(frozen=True)
class Dispatch:
    """How requests reach ``workers``: n' of them share one queue, whose arrivals vary with ``ca2``."""

    workers: Number
    sharing: Number
    ca2: Number

    @property
    def alone(self) -> Any:
        """Whether each worker has a queue of its own."""
        return np.equal(self.sharing, 1)


def dispatched(dispatch: str, workers: Number, ca2: Number) -> Dispatch:
    """One queue for all workers (least_loaded), or one for each, which gets every n-th arrival (round_robin).

    The sum of n independent inter-arrival times has 1/n of their squared coefficient of variation. Lines of which each arrival joins
    the shortest (shortest_queue) are taken as one queue: in heavy traffic they stay about equally long. Source: Foschini, Salz 1978.

    >>> dispatched("round_robin", 4, 1.0)
    Dispatch(workers=4, sharing=1.0, ca2=0.25)
    """
    if dispatch == ROUND_ROBIN:
        return Dispatch(workers, np.ones_like(workers, dtype=np.float64) if np.ndim(workers) else 1.0, ca2 / workers)
    if dispatch in (LEAST_LOADED, SHORTEST_QUEUE):
        return Dispatch(workers, workers, ca2)
    raise ValueError(f"no such dispatch: {dispatch}")


class _InOrder:
    """Rows of servers and offered loads in ascending order of servers: step k concerns those from ``begins[k - 1]`` on.

    Where the offered load is one number, there is one row for each number of servers, which all rows look up.
    """

    def __init__(self, servers: Number, offered: Number) -> None:
        """``servers`` are whole numbers."""
        counts = np.asarray(servers, dtype=np.int64)
        if np.ndim(offered) == 0:
            each = np.arange(int(counts.max(initial=0)) + 1)
            self._back, counts, loads = counts, each, np.full(len(each), float(offered))
        else:
            shape = np.broadcast_shapes(np.shape(offered), counts.shape)
            counts, loads = np.broadcast_to(counts, shape), np.broadcast_to(np.asarray(offered), shape)
            order = np.argsort(counts, kind="stable")
            self._back = np.empty_like(order)
            self._back[order] = np.arange(len(order))
            counts, loads = counts[order], loads[order]
        self.loads = loads
        most = int(counts[-1]) if len(counts) else 0
        self.begins = np.searchsorted(counts, np.arange(1, most + 1)).tolist()

    def rows(self, values: Floats) -> Floats:
        """``values`` in the order of the caller's rows."""
        return values[self._back]


def erlang_loss(servers: Number, offered: Number) -> Number:
    """B(k, a): share of arrivals lost by so many servers without a queue, a·B/(k + a·B) step by step. Source: Erlang 1917.

    >>> [float(erlang_loss(k, 2.0)) for k in (0, 1, 2)]
    [1.0, 0.6666666666666666, 0.4]
    """
    of = _InOrder(servers, offered)
    with np.errstate(all="ignore"):  # of an idle pool nothing is lost: 1/B is infinite
        per_load, inverse = 1 / of.loads, np.ones_like(of.loads)
        for k, begin in enumerate(of.begins, start=1):
            going = inverse[begin:]
            going *= per_load[begin:]
            going *= k
            going += 1
        return where(True, of.rows(1 / inverse), 0.0)


def erlang_wait(servers: Number, offered: Number) -> Number:
    """C(n, a): share of arrivals that wait for one of n servers, M/M/n. Source: Erlang 1917.

    >>> round(float(erlang_wait(2, 1.0)), 12)  # 1/3
    0.333333333333
    """
    lost = erlang_loss(servers, offered)
    return lost / (1 - offered / servers * (1 - lost))


def pool_wait(of: Dispatch, cs2: Number, offered: Number, s_mean: Number) -> Wait:
    """The wait of a pool to which ``offered`` seconds of work come per second: exact for Poisson arrivals to one worker, and for M/M/n.

    One worker: (ca² + cs²)/2·ρ/(1 - ρ)·S·g, g after Krämer and Langenbach-Belz 1976. Several: (ca² + cs²)/2·C/(n·(1 - ρ))·S, Allen-Cunneen.

    >>> float(pool_wait(dispatched("least_loaded", 1, 1.0), 1.0, 0.5, 0.1).mean_s)  # M/M/1: ρ/(1 - ρ)·S
    0.1
    >>> float(pool_wait(dispatched("least_loaded", 2, 1.0), 1.0, 1.0, 0.3).mean_s)  # M/M/2: C/(n·(1 - ρ))·S
    0.1
    """
    rho, spread = np.asarray(offered, dtype=np.float64) / of.workers, (of.ca2 + cs2) / 2
    single = spread * rho / (1 - rho) * s_mean * _smoothing(of.ca2, cs2, rho)
    found = _found_busy(of.ca2, cs2, rho)
    if np.all(of.alone):
        return Wait(found, single)
    probability = erlang_wait(of.sharing, offered)
    shared = spread * probability / (of.workers * (1 - rho)) * s_mean
    return Wait(where(of.alone, found, probability), where(of.alone, single, shared))


def _found_busy(ca2: Number, cs2: Number, rho: Number) -> Number:
    """Probability that an arrival finds one worker busy: ρ for Poisson arrivals, less for more even ones. Source: as for g."""
    even = 1 + ca2 + rho * cs2
    less = (ca2 - 1) * rho * (1 - rho) * even / (1 + rho * (cs2 - 1) + rho * rho * (4 * ca2 + cs2))
    return where(np.less(ca2, 1), rho + less, rho)


def _smoothing(ca2: Number, cs2: Number, rho: Number) -> Number:
    """g: how much less than (ca² + cs²)/2 arrivals that come more evenly than Poisson make a queue of one worker."""
    used = np.asarray(rho * (ca2 + cs2))
    with np.errstate(over="ignore"):  # of a load next to nothing, nothing is left of it
        exponent = -2 * (1 - rho) * (1 - ca2) ** 2 / (3 * np.where(used > 0, used, 1.0))
    return where(np.less(ca2, 1), np.where(used > 0, np.exp(exponent), 0.0), 1.0)


def links_wait(scv: Number, offered: Number, channels: float, s_mean: Number) -> Wait:
    """The wait for a link: Poisson arrivals, one queue for ``channels`` links."""
    return pool_wait(Dispatch(channels, channels, 1.0), scv, offered, s_mean)


def run_length(servers: Number, offered: Number) -> Number:
    """H: mean prompts that a worker of a shared queue still serves once it began, exact for M/M/n: 1/(1 - ρ) for one worker.

    >>> round(float(run_length(1, 0.5)), 9), round(float(run_length(2, 1.0)), 9)  # (2 + ρ)/(2·(1 - ρ²)) for two
    (2.0, 1.666666667)
    """
    of = _InOrder(servers, offered)
    alpha, beta, rate = np.zeros_like(of.loads), np.zeros_like(of.loads), np.empty_like(of.loads)
    for number, begin in enumerate(of.begins, start=1):
        own_alpha, own_beta, own_rate, load = alpha[begin:], beta[begin:], rate[begin:], of.loads[begin:]
        np.multiply(own_beta, 1 - number, out=own_rate)
        own_rate += load
        own_rate += number
        own_alpha *= number - 1
        own_alpha += 1
        own_alpha /= own_rate
        np.divide(load, own_rate, out=own_beta)
    rows, rho = (of.rows(alpha), of.rows(beta)), offered / servers
    return where(True, (rows[0] + rows[1] / (servers * (1 - rho))) / (1 - rows[1]), 0.0)


@dataclass(frozen=True)
class FirstFree:
    """Of a pool that prefills and decodes: the wait for the first step to end, and φ, how much of prefill interrupts a decoding worker."""

    none_idle: Number
    not_idle: Number

    @property
    def interruption(self) -> Number:
        """φ = β/y; 1 where nothing comes."""
        busy = np.asarray(self.not_idle)
        return where(busy > 0, self.none_idle / where(busy > 0, busy, 1.0), 1.0)

    def wait_s(self, rho: Number, sharing: Number, step_s: Number) -> Number:
        """W_res: β·τ·((1 + γ + … + γ^n')/(n' + 1) - γ^n')/(1 - ρ^n'), γ = ρ/y."""
        gamma = np.minimum(rho / np.where(np.greater(self.not_idle, 0), self.not_idle, 1.0), 1.0)
        near = np.greater(gamma, 1 - 1e-9)
        apart = np.where(near, 1.0, 1 - gamma)
        mean = np.where(near, 1.0, (1 - gamma ** (sharing + 1)) / apart / (sharing + 1))
        earliest = np.maximum(mean - gamma**sharing, 0.0) / (1 - rho**sharing)
        return where(np.greater(self.not_idle, 0), self.none_idle * step_s * earliest, 0.0)


def first_free(sharing: Number, offered: Number, idle: Number) -> FirstFree:
    """The state of n' workers that prompts of ``offered`` erlangs come to, those that are idle first; ``idle`` is p_0 of one of them.

    >>> state = first_free(1.0, 0.3, 0.75)
    >>> round(float(state.none_idle), 12), float(state.interruption)
    (0.25, 1.0)
    """
    lost = erlang_loss(np.subtract(sharing, 1), offered)
    full = lost * (1 - idle)
    none_idle = where(np.greater(offered, 0), full / (idle + full), 0.0)
    not_idle = (offered * (1 - lost) * idle + sharing * full) / (sharing * (idle + full))
    return FirstFree(none_idle, where(np.greater(offered, 0), not_idle, 0.0))


def slot_wait_s(b: Number, slots: Number, sharing: Number, d1: float, d2: float, t: Number) -> Number:
    """Wait for one of the ``slots`` of n' workers, of which ``b`` each are held on average, for D1 steps of ``t`` seconds.

    M/G/m, m = n'·B, with holding time H = D1·t: (1 + cH²)/2 · σ^(√(2(m+1)) - 1)/(m·(1 - σ)) · H, σ = b/B. 0 where nothing is
    decoded. Source: Sakasegawa 1977.

    >>> round(float(slot_wait_s(0.5, 1.0, 1.0, 10.0, 100.0, 0.1)), 12)  # M/D/1 with H = 1 s
    0.5
    """
    if d1 <= 0:
        return 0.0
    ch2, share, servers = max(0.0, d2 / (d1 * d1) - 1), b / slots, slots * sharing
    probability = share ** ((2.0 * (servers + 1)) ** 0.5 - 1)
    return where(True, (1 + ch2) / 2 * probability / (servers * (1 - share)) * (d1 * t), 0.0)


def order_factors(cumulated: Floats) -> Floats:
    """ω_s of shortest first: the wait of each stratum against that of fifo, from the load of it and all shorter ones, rows x strata.

    Source: Cobham 1954, Phipps 1956.

    >>> order_factors(np.array([[0.25, 0.5]])).round(6).tolist()  # 0.5/(1·0.75) and 0.5/(0.75·0.5)
    [[0.666667, 1.333333]]
    """
    before = np.concatenate([np.zeros_like(cumulated[..., :1]), cumulated[..., :-1]], axis=-1)
    factors: Floats = (1 - cumulated[..., -1:]) / ((1 - before) * (1 - cumulated))
    return factors
