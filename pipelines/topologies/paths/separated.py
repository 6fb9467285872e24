"""Separated: a prefill pool, links, a decode pool (docs/arithmetic.md, section 5)."""

from dataclasses import dataclass

import numpy as np

from pipelines.arithmetic import queues
from pipelines.arithmetic.numbers import Floats, Number, where
from pipelines.arithmetic.queues import Wait
from pipelines.topologies.constants import DECODE, PREFILL
from pipelines.topologies.paths.path import (
    Decoding,
    Load,
    PathResult,
    PathWork,
    Sizes,
    WholePrompts,
    decoding,
    rows_of,
    whole_prompts,
)
from pipelines.topologies.transfers import Transfers


def link_queues(sharing: str, sizes: Sizes) -> Number:
    """Queues for links (n_q) by ``network.link_sharing``."""
    assert sizes.prefill is not None and sizes.decode is not None
    return {"shared": 1.0, "per_prefill_worker": sizes.prefill, "per_decode_worker": sizes.decode}[sharing]


@dataclass(frozen=True)
class Handover:
    """What is on its way between the pools of each row: Λ, link load and wait, the transfers, and the decode that follows.

    Per decode worker: sequences and bytes in flight, bytes of those that wait for it or decode.
    """

    work: PathWork
    moved: Transfers
    decode_workers: Floats
    own: Decoding
    link_load: Floats
    link: Wait
    t: Floats
    batch: Floats
    decode_wait: Floats

    @property
    def token_seconds(self) -> Number:
        """Token-seconds of KV of one request while it waits for a link and moves."""
        return self.work.requests.moments["p1"] * self.link.mean_s + self.moved.token_seconds

    @property
    def seconds(self) -> Number:
        """W_l + T̄."""
        return self.link.mean_s + self.moved.mean_s

    @property
    def in_flight(self) -> Number:
        """f: sequences on their way to one decode worker."""
        return self.work.rate / self.decode_workers * self.seconds

    @property
    def in_flight_bytes(self) -> Number:
        """Their bytes."""
        resident = self.work.constants.memory.resident
        return self.work.rate / self.decode_workers * resident(self.token_seconds, self.seconds)

    @property
    def decoding_bytes(self) -> Number:
        """Bytes that a decode worker holds of sequences that wait for it or decode."""
        p1, resident = self.work.requests.moments["p1"], self.work.constants.memory.resident
        tokens = p1 * self.decode_wait + self.own.token_seconds(self.t)
        return self.work.rate / self.decode_workers * resident(tokens, self.decode_wait + self.own.seconds(self.t))

    @property
    def held_bytes(self) -> Number:
        """Bytes of everything that a decode worker has promised room to."""
        p1, resident = self.work.requests.moments["p1"], self.work.constants.memory.resident
        tokens = self.token_seconds + p1 * self.decode_wait + self.own.token_seconds(self.t)
        seconds = self.seconds + self.decode_wait + self.own.seconds(self.t)
        return self.work.rate / self.decode_workers * resident(tokens, seconds)


def handover(work: PathWork, sizes: Sizes) -> Handover:
    """Links and decode pool of every row."""
    known, moved, n_d = work.constants, work.moved, sizes.decode
    assert moved is not None and n_d is not None
    rows = len(n_d)
    own = decoding(work, DECODE, prefill_emits=known.first_token == "prefill")
    x = work.rate * own.d1 / n_d
    t = rows_of(own.steps.pace_s(0.0, x), rows)
    batch = x * t
    busy, channels = moved.link_s, float(moved.channels)
    load = rows_of(work.rate * busy / (link_queues(known.link_sharing, sizes) * channels), rows)
    link = queues.shared_queue_wait(1.0, moved.link_scv, load, channels, busy)
    return Handover(work, moved, n_d, own, load, link, t, batch, rows_of(own.waits(batch, t), rows))


def _stall(over: Handover, prompts: WholePrompts, first_token: str) -> Floats:
    rows, step = len(over.t), over.own.steps.seconds(np.maximum(1.0, over.batch))
    if first_token == "decode":
        return rows_of(step, rows) if over.work.requests.moments["m"] > 0 else np.full(rows, np.nan)
    if over.own.d1 <= 0:
        return np.full(rows, np.nan)
    longest = over.moved.longest
    hidden = np.minimum(over.moved.overlap * longest.payload_s, prompts.longest)
    return rows_of(over.link.mean_s + longest.seconds - hidden + over.decode_wait + step, rows)


def _kept(queue: Wait, over: Handover, first_token: str) -> Wait:
    """The queue that keeps its distribution in goodput."""
    if first_token == "prefill":
        return queue
    link = over.link
    longer = np.less(queue.mean_s, link.mean_s)
    return Wait(where(longer, link.probability, queue.probability), where(longer, link.mean_s, queue.mean_s))


def evaluate(work: PathWork, sizes: Sizes) -> PathResult:
    """Waits, pace, stall and loads of every row; ``first_token_source`` says which pool emits the first token."""
    known, moved, n_p, first_token = work.constants, work.moved, sizes.prefill, work.constants.first_token
    assert moved is not None and n_p is not None
    rows, prompts, over = len(n_p), whole_prompts(work, known.prefill[PREFILL]), handover(work, sizes)
    load_prefill = rows_of(work.rate * prompts.mean / n_p, rows)
    queue = queues.pool_wait(known.dispatch, work.ca2, prompts.cs2, load_prefill, n_p, prompts.mean)
    prefilling = known.memory.resident(prompts.token_seconds + over.token_seconds, prompts.mean + over.seconds)
    movements = moved.movements_s
    of_buckets = work.requests.strata.per_bucket(movements)
    ceiling, alone = known.decode[DECODE].ceiling, over.own.steps.seconds(1.0)
    floor = np.asarray(known.a)[..., None] + prompts.of_buckets
    if first_token == "decode":
        floor = floor + of_buckets + np.asarray(alone)[..., None]
    return PathResult(
        requests=work.requests,
        first_token=first_token,
        admission=known.a,
        prefill_wait=rows_of(queue.mean_s, rows),
        transfer_wait=rows_of(over.link.mean_s, rows),
        decode_wait=over.decode_wait,
        queue=_kept(queue, over, first_token),
        t=over.t,
        batch=over.batch,
        stall=_stall(over, prompts, first_token),
        execution_strata=prompts.of_strata,
        execution_buckets=prompts.of_buckets,
        movement_strata=movements,
        movement_buckets=of_buckets,
        floor_ttft=np.atleast_1d(floor),
        floor_tpot=alone,
        loads=(
            Load("prefill", load_prefill, known.prefill_ceiling[PREFILL], "utilization"),
            Load("decode", work.rate * over.own.d1 / over.decode_workers * over.own.steps.c, ceiling, "utilization"),
            Load("link", over.link_load, known.link_ceiling, "link_saturated"),
            over.own.slots_load("slots_decode", over.batch, ceiling),
            Load("kv_prefill", work.rate / n_p * prefilling / known.kv_memory[PREFILL], 1.0, "kv_memory"),
            Load("kv_decode", over.held_bytes / known.kv_memory[DECODE], 1.0, "kv_memory"),
            Load("staging", over.in_flight / (over.own.cap - over.batch), 1.0, "staging"),
        ),
    )
