"""Transfers of a prompt's KV cache: bytes, times, their moments, and the wait for a link (sections 3 and 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .equations import squared_variation
from .memory import mean_tokens
from .parameters import Parameters
from .queues import Wait, shared_queue
from .traffic import Requests, Stratum


@dataclass(frozen=True)
class Transfer:
    """Seconds `T` of one transfer, `Y` of them payload; `T - h_x` of them on a link."""

    seconds: float
    payload_s: float
    busy_s: float


@dataclass(frozen=True)
class Movement:
    """The transfers of all strata, in their order; `T̄`, `T_l` (s), the second moment of the latter (s²), `E[p·T]` (token·s)."""

    transfers: tuple[Transfer, ...]
    mean_s: float
    link_s: float
    link_m2_s2: float
    prompt_token_s: float
    spreads_s: tuple[float, ...] = ()
    """`√Var_s(v)·T'` (s): how far the transfer varies within each stratum."""

    @property
    def link_scv(self) -> float:
        """`c_l²` of the time that transfers keep a link busy."""
        return squared_variation(self.link_s, self.link_m2_s2)


def moved_bytes(of: Parameters, held: float) -> float:
    """`K(v) = r_x·(g·v' + Σ_j ω_j·min(v', W_j) + s)`: bytes moved of a prompt that takes `v'` tokens of cache."""
    return of.relayout_factor * of.cache.held_bytes(held)


def descriptors(of: Parameters, held: float) -> float:
    """`X(v) = n_r·(L_g·v' + Σ_j L_j·min(v', W_j))/β + L_s`: descriptors of one rank."""
    layers = of.cache.growing_layers * held + math.fsum(w.layers * min(held, w.tokens) for w in of.cache.windows)
    return of.regions_per_block * layers / of.block_tokens + of.cache.state_layers


def transfer_bandwidth(of: Parameters) -> float | None:
    """`w' = n_s·w·(1 - χ)` (B/s) of one transfer; None where no bandwidth is declared."""
    if of.bandwidth_bytes_per_s is None:
        return None
    return of.links_per_transfer * of.bandwidth_bytes_per_s * (1 - of.competing_traffic)


def channels(of: Parameters) -> int:
    """`n_c = floor(n_l/n_s)`: transfers that the links carry at once."""
    return int(of.links // of.links_per_transfer)


def transfer_of_bytes(of: Parameters, size: float, descriptor_count: float) -> Transfer:
    """`T` and `Y` of a transfer of so many bytes: along the curve within its range, affine elsewhere."""
    curve, bandwidth = of.curve, transfer_bandwidth(of)
    if curve is not None and (bandwidth is None or curve.covers(size)):
        free, tau = 1 - of.competing_traffic, curve.seconds(size)
        return Transfer(of.handover_s + tau / free, (tau - curve.first[1]) / free, tau / free)
    if bandwidth is None:
        raise ValueError("neither a bandwidth nor a curve is declared")
    payload = size / bandwidth
    busy = of.transfer_overhead_s + of.descriptor_s * descriptor_count + payload
    return Transfer(of.handover_s + busy, payload, busy)


def transfer_of(of: Parameters, held: float) -> Transfer:
    """`T(v)` and `Y(v)` of a prompt that takes `v'` tokens of cache."""
    return transfer_of_bytes(of, moved_bytes(of, held), descriptors(of, held))


def slope(of: Parameters, held: float) -> float:
    """`T'(v)` (s per token): how much longer the transfer of one more token takes."""
    cache, size = of.cache, moved_bytes(of, held)
    growing = [w for w in cache.windows if held < w.tokens]
    bytes_per_token = of.relayout_factor * (cache.growth_bytes + sum(w.bytes_per_token for w in growing))
    curve, bandwidth = of.curve, transfer_bandwidth(of)
    if curve is not None and (bandwidth is None or curve.covers(size)):
        return curve.slope(size) * bytes_per_token / (1 - of.competing_traffic)
    if bandwidth is None:
        raise ValueError("neither a bandwidth nor a curve is declared")
    layers = cache.growing_layers + sum(w.layers for w in growing)
    per_token = of.regions_per_block * layers / of.block_tokens
    return of.descriptor_s * per_token + bytes_per_token / bandwidth


def tokens_of(of: Parameters, s: Stratum) -> float:
    """`v_s = (1 - δ)·p_s + δ·α·u_s`: tokens that the decode worker does not hold."""
    return (1 - of.prefix_at_destination) * s.p1 + of.prefix_at_destination * s.u1


def _variance(of: Parameters, s: Stratum) -> float:
    """`Var_s(v) = max(0, (1 - δ)²·(pp - p²) + 2·δ·(1 - δ)·α·(pu - p·u) + δ²·α²·(uu - u²))`."""
    there, moved = of.prefix_at_destination, 1 - of.prefix_at_destination
    terms = (
        moved**2 * (s.p2 - s.p1**2),
        2 * there * moved * (s.pu - s.p1 * s.u1),
        there**2 * (s.u2 - s.u1**2),
    )
    return max(0.0, math.fsum(terms))


def _covariance(of: Parameters, s: Stratum) -> float:
    """`Cov_s(p, v) = (1 - δ)·(pp - p²) + δ·α·(pu - p·u)`."""
    there = of.prefix_at_destination
    return (1 - there) * (s.p2 - s.p1**2) + there * (s.pu - s.p1 * s.u1)


def movement_of(of: Parameters, requests: Requests) -> Movement:
    """`T_s = T(v_s)`, and their moments with what varies within a stratum, along its slope."""
    held = [mean_tokens(of, tokens_of(of, s)) for s in requests.strata]
    each = [(s, transfer_of(of, v), slope(of, v)) for s, v in zip(requests.strata, held, strict=True)]
    return Movement(
        transfers=tuple(transfer for _, transfer, _ in each),
        mean_s=math.fsum(s.share * transfer.seconds for s, transfer, _ in each),
        link_s=math.fsum(s.share * transfer.busy_s for s, transfer, _ in each),
        link_m2_s2=math.fsum(s.share * (x.busy_s**2 + per_token**2 * _variance(of, s)) for s, x, per_token in each),
        prompt_token_s=math.fsum(
            s.share * (s.p1 * x.seconds + per_token * _covariance(of, s)) for s, x, per_token in each
        ),
        spreads_s=tuple(math.sqrt(_variance(of, s)) * per_token for s, _, per_token in each),
    )


def link_queues(of: Parameters, n_p: float, n_d: float) -> float:
    """`n_q`: queues before the links: one, or one of every worker of a pool."""
    return {"shared": 1.0, "per_prefill_worker": n_p, "per_decode_worker": n_d}[of.link_sharing]


def link_load(of: Parameters, rate_rps: float, movement: Movement, queues: float) -> float:
    """`ρ_l = Λ·T_l/(n_q·n_c)`."""
    return rate_rps * movement.link_s / (queues * channels(of))


def link_wait(of: Parameters, movement: Movement, load: float) -> Wait:
    """`W_l`: the wait for a channel of one queue's links, with Poisson arrivals."""
    return shared_queue(1.0, movement.link_scv, load, channels(of), movement.link_s)


def visible_s(of: Parameters, transfer: Transfer, prefill_s: float) -> float:
    """`T - min(φ·Y, S)` (s): overlap hides at most the prefill that it overlaps."""
    return transfer.seconds - min(of.overlap * transfer.payload_s, prefill_s)
