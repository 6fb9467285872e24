"""The separated path: a pool that prefills, one that decodes, and links between them (docs/arithmetic.md section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import equations as eq
from . import extremes as ex
from . import transfers as tr
from .goodput import FirstTokens, Generation
from .memory import resident_bytes, whole_tokens
from .mixed import prompt_orders, slots_wait_s
from .parameters import Parameters
from .queues import Pool, Wait
from .scenario import Gauge, PathFigures, Transit, timeline
from .screening import Regime
from .traffic import Moments, Requests


@dataclass(frozen=True)
class Separated:
    """What pool sizes and the rate leave as it is: prefill, transfers and decode of the requests."""

    of: Parameters
    requests: Requests
    prefill: eq.Prefill
    decode: eq.Decode
    movement: tr.Movement
    visible_s: tuple[float, ...]
    """`T_s - H_s` of the strata."""
    mean_s: float
    scv: float
    token_s: float
    buckets_s: tuple[tuple[float, float], ...]
    """Prefill and `kv_movement` of the buckets."""

    @property
    def lanes_to_first_token(self) -> int:
        """How many lanes lie before the first token."""
        return 7 if self.of.decode_emits_first_token else 3

    def evaluate(self, rate_rps: float, arrival_scv: float, n_p: int, n_d: int, gauge: Gauge) -> PathFigures:
        """Evaluate two pools at a rate."""
        of, requests = self.of, self.requests
        rho_p = rate_rps * self.mean_s / n_p
        gauge.take("prefill", rho_p, of.prefill_ceiling)
        transit = self.transit(rate_rps, n_p, n_d, gauge)
        self._take_memory(rate_rps, float(n_p), transit, gauge)

        pool = Pool(n_p, of.round_robin)
        queue = pool.wait(arrival_scv, self.scv, rho_p, self.mean_s)
        orders = prompt_orders(of, requests, self.prefill.strata_s, rate_rps / n_p)
        lines = (
            timeline(
                k,
                self._lanes(k, requests.mean(k.bucket, orders) * queue.mean_s, transit, prefill, moved),
                self.lanes_to_first_token,
            )
            for k, (prefill, moved) in zip(requests.buckets, self.buckets_s, strict=True)
        )
        return PathFigures(
            requests=requests,
            timelines=tuple(lines),
            waits_s={
                "prefill": requests.mean("all", orders) * queue.mean_s,
                "transfer": transit.wait_s,
                "decode": transit.decode_wait_s,
            },
            decode_batch=transit.batch,
            firsts=lambda: self._firsts(queue, orders, transit),
            generation=lambda: self._generation(transit),
            stall=lambda: self.stall_s(transit),
            regime=lambda: self._regime(arrival_scv, pool, transit),
            transit=transit,
        )

    def transit(self, rate_rps: float, n_p: int, n_d: int, gauge: Gauge) -> Transit:
        """Take the loads of decode workers, links and slots; then the waits after prefill."""
        of, work, steps, cap = self.of, self.decode.work, self.decode.steps, self.decode.cap
        x = rate_rps * work.steps / n_d
        gauge.take("decode", x * steps.per_sequence_s, of.decode_ceiling)
        queues = tr.link_queues(of, float(n_p), float(n_d))
        rho_l = tr.link_load(of, rate_rps, self.movement, queues)
        gauge.take("link", rho_l, of.link_ceiling)

        t, crowd = steps.pace(0.0, x), steps.crowd(0.0, x)
        batch = x * t
        gauge.take_slots("decode", of, batch, cap)
        link, slot = (
            tr.link_wait(of, self.movement, rho_l),
            slots_wait_s(Pool(n_d, of.round_robin), self.decode, batch, t),
        )
        rest = crowd.busy * t / 2
        return Transit(rate_rps, queues, n_d, link, self.movement, rest, slot, t, batch, crowd, self.decode)

    def _take_memory(self, rate_rps: float, n_p: float, transit: Transit, gauge: Gauge) -> None:
        """Take the KV resident per prefill and per decode worker as shares of its memory, and what is in flight to one."""
        of, moved, p1 = self.of, transit.movement, self.requests.whole.p1
        moving, moving_s = p1 * transit.wait_s + moved.prompt_token_s, transit.wait_s + moved.mean_s
        held = resident_bytes(of, self.token_s + moving, self.mean_s + moving_s)
        gauge.take("kv_prefill", rate_rps / n_p * held / of.kv_memory_prefill_bytes, 1.0)
        decoding, decoding_s = decoding_of(p1, transit)
        resident = rate_rps / transit.workers_decode * resident_bytes(of, moving + decoding, moving_s + decoding_s)
        gauge.take("kv_decode", resident / of.kv_memory_bytes, 1.0)
        gauge.take("staging", in_flight_sequences(transit) / (transit.decode.cap - transit.batch), 1.0)

    def _lanes(self, k: Moments, wait: float, transit: Transit, prefill: float, moved: float) -> tuple[float, ...]:
        if self.of.decode_emits_first_token:
            first, rest = 1.0, k.o1 - 1
        else:
            first, rest = k.multi_token_share, max(0.0, k.o1 - 1 - k.multi_token_share)
        waits = wait, prefill, transit.wait_s, moved, transit.decode_wait_s
        return (self.of.admission_s, *waits, first * transit.pace_s, rest * transit.pace_s)

    def _firsts(self, queue: Wait, orders: Sequence[float], transit: Transit) -> FirstTokens:
        """The larger of both queues keeps its distribution; where prefill emits the first token, the prefill queue."""
        a, executions, spreads = self.of.admission_s, self.prefill.strata_s, self.prefill.spreads_s()
        if not self.of.decode_emits_first_token:
            return FirstTokens(queue, orders, [a + seconds for seconds in executions], spreads)
        later = a + transit.decode_wait_s + transit.pace_s
        after = [later + seconds + moved for seconds, moved in zip(executions, self.visible_s, strict=True)]
        spreads = tuple(u + v for u, v in zip(spreads, self.movement.spreads_s, strict=True))
        if queue.mean_s >= transit.wait_s:
            return FirstTokens(queue, orders, [transit.wait_s + seconds for seconds in after], spreads)
        fixed = [order * queue.mean_s + seconds for order, seconds in zip(orders, after, strict=True)]
        return FirstTokens(transit.link, (1.0,) * len(fixed), fixed, spreads)

    def _generation(self, transit: Transit) -> Generation:
        """Return the pace of the decode pool; where prefill emits the first token, what lies before the second."""
        before = [0.0 for _ in self.buckets_s]
        if not self.of.decode_emits_first_token:
            before = [transit.wait_s + moved + transit.decode_wait_s for _, moved in self.buckets_s]
        sharing = Pool(int(transit.workers_decode), self.of.round_robin).sharing
        work = self.decode.work
        return Generation(transit.crowd, transit.pace_s, transit.batch, sharing, work.steps, before)

    def _regime(self, arrival_scv: float, pool: Pool, transit: Transit) -> Regime:
        leaves = eq.leaves_curves(self.of, self.requests.whole.u_max, transit.crowd.sequences)
        return Regime(arrival_scv, pool.sharing, self.scv, transit.batch / self.decode.cap, leaves)

    def stall_s(self, transit: Transit) -> float | None:
        """Return the longest gap between two tokens (s): a step, or the hand-over if prefill emits the first token."""
        of, whole = self.of, self.requests.whole
        log_n = ex.log_requests(whole)
        most = ex.most_sequences(transit.crowd, log_n, self.decode.cap)
        step = ex.longest_step_s(of, self.decode, whole, transit.batch, most)
        if of.decode_emits_first_token:
            return step if whole.multi_token_share else None
        if not self.decode.work.steps:
            return None
        longest = tr.transfer_of(of, whole_tokens(of, whole.p_max))
        moved, queue_rps = transit.movement, transit.rate_rps / transit.queues
        times = moved.link_s, moved.link_s**2 * (1 + moved.link_scv), longest.busy_s
        run = ex.longest_run_s(log_n, tr.channels(of), queue_rps, times, 0.0)
        moving = tr.visible_s(of, longest, eq.longest_prefill_s(of, whole))
        return None if run is None else run + moving + transit.slot_s + 2 * step

    def floors_s(self) -> list[float]:
        """`TTFT°_k` (s) of each bucket: admission and prefill, and what follows if decode emits the first token."""
        a, later = self.of.admission_s, self.of.decode_emits_first_token
        return [a + s + (moved + self.pace_floor_s if later else 0.0) for s, moved in self.buckets_s]

    @property
    def pace_floor_s(self) -> float:
        """`TPOT° = t(1)` (s)."""
        return self.decode.steps.first_s


def separated(of: Parameters, requests: Requests) -> Separated:
    """Collect the constants of the path."""
    prefill, whole, movement = eq.prefill_of(of, requests), requests.whole, tr.movement_of(of, requests)
    mean, visible = prefill.mean_s(whole), visible_movements(of, prefill, movement)
    return Separated(
        of,
        requests,
        prefill,
        eq.decode_of(of, whole, prefill_emits_first_token=not of.decode_emits_first_token),
        movement,
        visible,
        mean,
        eq.squared_variation(mean, prefill.m2_s2(whole)),
        prefill.token_s(),
        tuple((prefill.mean_s(k), requests.mean(k.bucket, visible)) for k in requests.buckets),
    )


def visible_movements(of: Parameters, prefill: eq.Prefill, movement: tr.Movement) -> tuple[float, ...]:
    """`T_s - H_s` of every stratum (s)."""
    pairs = zip(movement.transfers, prefill.strata_s, strict=True)
    return tuple(tr.visible_s(of, transfer, seconds) for transfer, seconds in pairs)


def decoding_of(p1: float, transit: Transit) -> tuple[float, float]:
    """`p1·decode_wait + t·(PD + D2/2)` (token·s) and `decode_wait + t·D1` (s): held from the transfer's end on."""
    work, t = transit.decode.work, transit.pace_s
    return p1 * transit.decode_wait_s + t * work.token_steps, transit.decode_wait_s + t * work.steps


def in_flight_sequences(transit: Transit) -> float:
    """`f = (Λ/n_d)·(W_l + T̄)`: sequences on their way to one decode worker."""
    return transit.rate_rps / transit.workers_decode * (transit.wait_s + transit.movement.mean_s)
