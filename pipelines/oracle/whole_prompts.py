"""A mixed pool that runs a whole prompt before the next decode step (docs/arithmetic.md section 5, Whole prompts)."""

from __future__ import annotations

from dataclasses import dataclass

from . import equations as eq
from .memory import resident_bytes
from .parameters import Parameters
from .queues import pool_queue, residual_step_s, slot_wait_s
from .scenario import Gauge, PathFigures, timeline
from .traffic import Moments, Requests


@dataclass(frozen=True)
class WholePrompts:
    """What the pool's size and the rate leave as it is: prefill and decode of the requests."""

    of: Parameters
    requests: Requests
    prefill: eq.Prefill
    decode: eq.Decode
    mean_s: float
    scv: float
    token_s: float
    buckets_s: tuple[float, ...]

    def evaluate(self, rate_rps: float, arrival_scv: float, workers: int, gauge: Gauge) -> PathFigures:
        """Evaluate n workers at a rate."""
        of, n, work, steps = self.of, float(workers), self.decode.work, self.decode.steps
        rho_p, x = rate_rps * self.mean_s / n, rate_rps * work.steps / n
        gauge.take("mixed", rho_p + x * steps.per_sequence_s, of.mixed_ceiling)

        t = steps.pace(rho_p, x)
        batch = x * t
        gauge.take_slots("mixed", of, batch, self.decode.cap)
        held, held_s = self.token_s + t * work.token_steps, self.mean_s + t * work.steps
        gauge.take("kv_mixed", rate_rps / n * resident_bytes(of, held, held_s) / of.kv_memory_bytes, 1.0)

        queue = pool_queue(of.round_robin, arrival_scv, self.scv, rho_p, n, self.mean_s)
        step = steps.seconds(max(1.0, batch))
        other_waits = residual_step_s(batch, step)
        other_waits += slot_wait_s(self.decode.cap, work.steps_scv, batch, work.steps * t)
        wait = queue.mean_s + other_waits
        timed = zip(self.requests.buckets, self.buckets_s, strict=True)
        return PathFigures(
            requests=self.requests,
            timelines=tuple(timeline(k, mixed_lanes(of, k, wait, seconds, t), 3) for k, seconds in timed),
            stratum_ttft_s=tuple(of.admission_s + wait + seconds for seconds in self.prefill.strata_s),
            queue=queue,
            waits_s={"prefill": wait, "transfer": 0.0, "decode": 0.0},
            decode_batch=batch,
            stall_s=eq.longest_prefill_s(of, self.requests.whole) + step if work.steps else None,
        )

    def floors_s(self) -> list[float]:
        """`TTFT°_k = a + S̄_k` (s) of each bucket."""
        return [self.of.admission_s + seconds for seconds in self.buckets_s]

    @property
    def pace_floor_s(self) -> float:
        """`TPOT° = t(1)` (s)."""
        return self.decode.steps.seconds(1.0)


def whole_prompts(of: Parameters, requests: Requests) -> WholePrompts:
    """Collect the constants of the path."""
    prefill, whole = eq.prefill_of(of, requests), requests.whole
    mean = prefill.mean_s(whole)
    return WholePrompts(
        of,
        requests,
        prefill,
        eq.decode_of(of, whole, prefill_emits_first_token=True),
        mean,
        eq.squared_variation(mean, prefill.m2_s2(whole)),
        prefill.token_s(),
        tuple(prefill.mean_s(k) for k in requests.buckets),
    )


def mixed_lanes(of: Parameters, k: Moments, wait_s: float, execution_s: float, pace_s: float) -> tuple[float, ...]:
    """The eight lanes of a bucket on a mixed pool (s): prefill emits the first token, and nothing moves."""
    first, rest = k.multi_token_share, max(0.0, k.o1 - 1 - k.multi_token_share)
    return of.admission_s, wait_s, execution_s, 0.0, 0.0, 0.0, first * pace_s, rest * pace_s
