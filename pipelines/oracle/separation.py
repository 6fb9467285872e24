"""The separated path: a pool that prefills, one that decodes, and links between them (docs/arithmetic.md section 5)."""

from __future__ import annotations

from dataclasses import dataclass

from . import equations as eq
from . import transfers as tr
from .memory import resident_bytes, whole_tokens
from .parameters import Parameters
from .queues import Wait, pool_queue, residual_step_s, slot_wait_s
from .scenario import Gauge, PathFigures, Transit, timeline
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
        transit = self.transit(rate_rps, float(n_p), float(n_d), gauge)
        self._take_memory(rate_rps, float(n_p), transit, gauge)

        queue, link = pool_queue(of.round_robin, arrival_scv, self.scv, rho_p, float(n_p), self.mean_s), transit.link
        timed = zip(requests.buckets, self.buckets_s, strict=True)
        lines = (
            timeline(k, self._lanes(k, queue, transit, prefill, moved), self.lanes_to_first_token)
            for k, (prefill, moved) in timed
        )
        return PathFigures(
            requests=requests,
            timelines=tuple(lines),
            stratum_ttft_s=self._strata_ttft_s(queue, transit),
            queue=queue if queue.mean_s >= link.mean_s or not of.decode_emits_first_token else link,
            waits_s={"prefill": queue.mean_s, "transfer": link.mean_s, "decode": transit.decode_wait_s},
            decode_batch=transit.batch,
            stall_s=self.stall_s(transit),
            transit=transit,
        )

    def transit(self, rate_rps: float, n_p: float, n_d: float, gauge: Gauge) -> Transit:
        """Take the loads of decode workers, links and slots; then the waits after prefill."""
        of, work, steps, cap = self.of, self.decode.work, self.decode.steps, self.decode.cap
        x = rate_rps * work.steps / n_d
        gauge.take("decode", x * steps.per_sequence_s, of.decode_ceiling)
        queues = tr.link_queues(of, n_p, n_d)
        rho_l = tr.link_load(of, rate_rps, self.movement, queues)
        gauge.take("link", rho_l, of.link_ceiling)

        t = steps.pace(0.0, x)
        batch = x * t
        gauge.take_slots("decode", of, batch, cap)
        link, step = tr.link_wait(of, self.movement, rho_l), steps.seconds(max(1.0, batch))
        decode_wait = residual_step_s(batch, step) + slot_wait_s(cap, work.steps_scv, batch, work.steps * t)
        return Transit(rate_rps, queues, n_d, link, self.movement, decode_wait, t, step, batch, self.decode)

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

    def _lanes(self, k: Moments, queue: Wait, transit: Transit, prefill: float, moved: float) -> tuple[float, ...]:
        if self.of.decode_emits_first_token:
            first, rest = 1.0, k.o1 - 1
        else:
            first, rest = k.multi_token_share, max(0.0, k.o1 - 1 - k.multi_token_share)
        waits = queue.mean_s, prefill, transit.wait_s, moved, transit.decode_wait_s
        return (self.of.admission_s, *waits, first * transit.pace_s, rest * transit.pace_s)

    def _strata_ttft_s(self, queue: Wait, transit: Transit) -> tuple[float, ...]:
        """TTFT of the strata (s), with their own prefill and movement."""
        before = self.of.admission_s + queue.mean_s
        if not self.of.decode_emits_first_token:
            return tuple(before + seconds for seconds in self.prefill.strata_s)
        before += transit.wait_s + transit.decode_wait_s + transit.pace_s
        return tuple(before + a + b for a, b in zip(self.prefill.strata_s, self.visible_s, strict=True))

    def stall_s(self, transit: Transit) -> float | None:
        """Return the longest gap between two tokens (s): a step, or the hand-over if prefill emits the first token."""
        of, whole = self.of, self.requests.whole
        if of.decode_emits_first_token:
            return transit.step_s if whole.multi_token_share else None
        if not self.decode.work.steps:
            return None
        longest = tr.transfer_of(of, whole_tokens(of, whole.p_max))
        moving = tr.visible_s(of, longest, eq.longest_prefill_s(of, whole))
        return transit.wait_s + moving + transit.decode_wait_s + transit.step_s

    def floors_s(self) -> list[float]:
        """`TTFT°_k` (s) of each bucket: admission and prefill, and what follows if decode emits the first token."""
        a, later = self.of.admission_s, self.of.decode_emits_first_token
        return [a + s + (moved + self.pace_floor_s if later else 0.0) for s, moved in self.buckets_s]

    @property
    def pace_floor_s(self) -> float:
        """`TPOT° = t(1)` (s)."""
        return self.decode.steps.seconds(1.0)


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
