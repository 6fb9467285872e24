"""A mixed pool that serves decode tokens first, and up to a budget of prompt tokens in every step (section 5, Chunks)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from . import equations as eq
from .memory import resident_bytes
from .parameters import Parameters
from .queues import pool_queue, residual_step_s, slot_wait_s
from .scenario import Gauge, PathFigures, Refusal, Refused, timeline
from .traffic import Requests, Stratum
from .whole_prompts import mixed_lanes

PASSES = 12


@dataclass(frozen=True)
class Settled:
    """Where the passes over the batch ended: load `rho`, pace `t` (s), batch `b`, room `C'` for prompts (tokens)."""

    rho: float
    pace_s: float
    batch: float
    room: float


@dataclass(frozen=True)
class Pieces:
    """`K_s` and `G_s` (s) of every stratum: the steps that a prompt takes, and its own part of them."""

    counts: tuple[int, ...]
    own_s: tuple[float, ...]


def chunks_of(u: float, room: float) -> int:
    """`K_s = max(1, ceil(u_s/C'))`: steps that a prompt takes.

    >>> chunks_of(0.0, 500.0), chunks_of(500, 500.0), chunks_of(501, 500.0)
    (1, 1, 2)
    """
    return max(1, math.ceil(u / room))


def own_part_s(of: Parameters, s: Stratum, count: int) -> float:
    """`G_s = (1 + ψ)·(K_s·f(u_s/K_s) + q·(z_s - u_s²/K_s))` (s): the prompt's own part of its steps."""
    return (1 + of.mixed_step_penalty) * eq.pieces_s(of, count, s.u1, s.z1)


@dataclass(frozen=True)
class Chunks:
    """What the pool's size and the rate leave as it is."""

    of: Parameters
    requests: Requests
    budget: int
    decode: eq.Decode
    _own_s: dict[tuple[int, int], float] = field(default_factory=dict, compare=False, repr=False)

    def pieces(self, room: float) -> Pieces:
        """`K_s` and `G_s` of every stratum, in chunks of the room that is left; each is timed once."""
        counts, known = tuple(chunks_of(s.u1, room) for s in self.requests.strata), self._own_s
        for place, count in enumerate(counts):
            if (place, count) not in known:
                known[place, count] = own_part_s(self.of, self.requests.strata[place], count)
        return Pieces(counts, tuple(known[key] for key in enumerate(counts)))

    def settle(self, rate_rps: float, n: float) -> Settled:
        """`C' = C - b` and `b = x·t` in turn, 12 times from b = 0; ends early at `rho ≥ 1` or `C' < 1`."""
        x = rate_rps * self.decode.work.steps / n
        rho, t, batch, work_s = 0.0, 0.0, 0.0, 0.0
        counts: tuple[int, ...] = ()
        for _ in range(PASSES):
            room = self.budget - batch
            if room < 1:
                break
            pieces = self.pieces(room)
            if pieces.counts == counts:  # the same work as in the pass before: nothing changes any more
                break
            counts = pieces.counts
            work_s = math.fsum(s.share * own for s, own in zip(self.requests.strata, pieces.own_s, strict=True))
            rho_pc = rate_rps / n * work_s
            rho = rho_pc + x * self.decode.steps.per_sequence_s
            if rho >= 1:
                break
            t = self.decode.steps.pace(rho_pc, x)
            batch = x * t
        return Settled(rho, t, batch, self.budget - batch)

    def executions(self, batch: float, room: float) -> tuple[float, ...]:
        """`S_s = K_s·t(b) + G_s` (s) of every stratum."""
        pieces, step = self.pieces(room), self.decode.steps.seconds(batch)
        return tuple(count * step + own for count, own in zip(pieces.counts, pieces.own_s, strict=True))

    def evaluate(self, rate_rps: float, arrival_scv: float, workers: int, gauge: Gauge) -> PathFigures:
        """Evaluate n workers at a rate."""
        of, requests, n, work, steps = self.of, self.requests, float(workers), self.decode.work, self.decode.steps
        end = self.settle(rate_rps, n)
        gauge.take("mixed", end.rho, of.mixed_ceiling)
        if end.room < 1:
            raise Refused(Refusal("prefill_starved", "prefill_lane", end.room, 1.0))
        t, batch = end.pace_s, end.batch
        executions = self.executions(batch, end.room)
        each = list(zip(requests.strata, executions, strict=True))
        service = math.fsum(s.share * seconds for s, seconds in each)
        rho_lane = rate_rps / n * service
        gauge.take("prefill_lane", rho_lane, of.prefill_ceiling)
        gauge.take_slots("mixed", of, batch, self.decode.cap)
        held = math.fsum(s.share * s.p1 * seconds for s, seconds in each) + t * work.token_steps
        resident = rate_rps / n * resident_bytes(of, held, service + t * work.steps)
        gauge.take("kv_mixed", resident / of.kv_memory_bytes, 1.0)

        scv = eq.squared_variation(service, math.fsum(s.share * seconds**2 for s, seconds in each))
        queue = pool_queue(of.round_robin, arrival_scv, scv, rho_lane, n, service)
        wait = queue.mean_s + residual_step_s(batch, steps.seconds(max(1.0, batch)))
        wait += slot_wait_s(self.decode.cap, work.steps_scv, batch, work.steps * t)
        timed = [(k, requests.mean(k.bucket, executions)) for k in requests.buckets]
        return PathFigures(
            requests=requests,
            timelines=tuple(timeline(k, mixed_lanes(of, k, wait, seconds, t), 3) for k, seconds in timed),
            stratum_ttft_s=tuple(of.admission_s + wait + seconds for seconds in executions),
            queue=queue,
            waits_s={"prefill": wait, "transfer": 0.0, "decode": 0.0},
            decode_batch=batch,
            stall_s=self._stall_s(batch, end.room) if work.steps else None,
        )

    def _stall_s(self, batch: float, room: float) -> float:
        """`t(b)` and the last, most expensive chunk (s)."""
        whole = self.requests.whole
        return self.decode.steps.seconds(batch) + last_chunk_s(self.of, whole.p_max, min(room, whole.u_max))

    def floors_s(self) -> list[float]:
        """`TTFT°_k` (s) of each bucket: admission and execution with `b = 0`, in chunks of the whole budget."""
        executions = self.executions(0.0, float(self.budget))
        return [self.of.admission_s + self.requests.mean(k.bucket, executions) for k in self.requests.buckets]

    @property
    def pace_floor_s(self) -> float:
        """`TPOT° = t(1)` (s)."""
        return self.decode.steps.seconds(1.0)


def chunks(of: Parameters, requests: Requests, budget: int) -> Chunks:
    """Collect the constants of the path."""
    return Chunks(of, requests, budget, eq.decode_of(of, requests.whole, prefill_emits_first_token=True))


def last_chunk_s(of: Parameters, p_max: float, y: float) -> float:
    """`(1 + ψ)·(f(y) + q·((p_max² - (p_max - y)²) - y²))` (s) with `y = min(C', u_max)`."""
    before = of.prefill_s_per_token2 * ((p_max**2 - (p_max - y) ** 2) - y**2)
    return (1 + of.mixed_step_penalty) * (eq.piece_s(of, y) + before)
