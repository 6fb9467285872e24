"""Separated: a prefill pool, links, a decode pool (docs/arithmetic.md, section 5)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic import queues
from pipelines.arithmetic.batches import Batch
from pipelines.arithmetic.numbers import Floats, Number, column
from pipelines.arithmetic.queues import Dispatch, Wait
from pipelines.arithmetic.stalls import run_of_prompts_s
from pipelines.topologies.constants import DECODE, PREFILL
from pipelines.topologies.paths.path import (
    Decoding,
    Generation,
    Load,
    PathResult,
    PathWork,
    PrefillWait,
    Sizes,
    WholePrompts,
    beyond_curves,
    decoding,
    order_of,
    rows_of,
    screened,
    whole_prompts,
)
from pipelines.topologies.transfers import Transfers


def link_queues(sharing: str, sizes: Sizes) -> Number:
    """Queues for links (n_q) by ``network.link_sharing``."""
    assert sizes.prefill is not None
    assert sizes.decode is not None
    queues: dict[str, Number] = {"shared": 1.0, "per_prefill_worker": sizes.prefill, "per_decode_worker": sizes.decode}
    return queues[sharing]


@dataclass(frozen=True)
class Handover:
    """What is on its way between the pools of each row: Λ, link load and wait, the transfers, and the decode that follows.

    Per decode worker: sequences and bytes in flight, bytes of those that wait for it or decode.
    """

    work: PathWork
    moved: Transfers
    decode_workers: Floats
    own: Decoding
    link_rate: Number
    link_load: Floats
    link: Wait
    t: Floats
    batch: Floats
    batching: Batch
    sharing: Number
    slot_wait: Floats
    decode_wait: Floats

    def at(self, places: NDArray[np.int64]) -> "Handover":
        """The rows at ``places``."""
        rows = len(self.t)

        def own(value: Any) -> Any:
            return value[places] if isinstance(value, np.ndarray) and value.shape[:1] == (rows,) else value

        arrays = ("decode_workers", "link_load", "t", "batch", "sharing", "slot_wait", "decode_wait")
        batching = Batch(*(own(value) for value in vars(self.batching).values()))
        return replace(self, batching=batching, **{name: own(getattr(self, name)) for name in arrays})

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
    assert moved is not None
    assert n_d is not None
    rows = len(n_d)
    own = decoding(work, DECODE, prefill_emits=known.first_token == "prefill")
    x = work.rate * own.d1 / n_d
    t, batching = rows_of(own.steps.pace_s(0.0, x), rows), own.batch(0.0, x)
    batch, sharing = x * t, work.dispatched(n_d).sharing
    busy, channels = moved.link_s, float(moved.channels)
    offered = work.rate * busy / link_queues(known.link_sharing, sizes)
    link = queues.links_wait(moved.link_scv, offered, channels, busy)
    slot_wait = rows_of(own.slot_wait(batch, sharing, t), rows)
    return Handover(
        work=work,
        moved=moved,
        decode_workers=n_d,
        own=own,
        link_rate=work.rate / link_queues(known.link_sharing, sizes),
        link_load=rows_of(offered / channels, rows),
        link=link,
        t=t,
        batch=batch,
        batching=batching,
        sharing=sharing,
        slot_wait=slot_wait,
        decode_wait=rows_of(batching.some * t / 2 + slot_wait, rows),
    )


def _stall(over: Handover, prompts: WholePrompts, first_token: str) -> Floats:
    rows, log_n = len(over.t), over.work.log_n
    step = over.own.long_step(over.batch, over.own.most(over.batching, log_n), log_n)
    if first_token == "decode":
        return rows_of(step, rows) if over.work.requests.moments["m"] > 0 else np.full(rows, np.nan)
    if over.own.d1 <= 0:
        return np.full(rows, np.nan)
    moved, longest = over.moved, over.moved.longest
    hidden = np.minimum(moved.overlap * longest.payload_s, prompts.longest)
    busy, channels = moved.link_s, float(moved.channels)
    run = run_of_prompts_s(busy, busy**2 * (1 + moved.link_scv), longest.busy_s, over.link_rate, channels, 0.0, log_n)
    run = np.where(np.greater(longest.busy_s, 0), run, 0.0) + (longest.busy_s if channels > 1 else 0.0)
    return rows_of(run + longest.seconds - hidden + over.slot_wait + 2 * step, rows)


def _kept(wait: PrefillWait, over: Handover, first_token: str) -> Wait:
    """The queue that keeps its distribution in goodput, rows x strata or rows x 1."""
    queue = wait.kept()
    if first_token == "prefill":
        return queue
    link = over.link
    longer = np.asarray(column(np.asarray(np.less(wait.queue.mean_s, link.mean_s))))
    mean, probability = (np.asarray(column(np.asarray(one))) for one in (link.mean_s, link.probability))
    return Wait(np.where(longer, probability, queue.probability), np.where(longer, mean, queue.mean_s))


@dataclass(frozen=True)
class _DecodePool:
    """The hand-over of every row with the stall that follows, and how generation varies."""

    over: Handover
    stall: Floats
    generation: Generation


def _decode_pool(work: PathWork, sizes: Sizes, prompts: WholePrompts, movements: Floats) -> _DecodePool:
    """Where rows differ in sizes only, and links are shared by all, each number of decode workers is worked out once."""
    first_token = work.constants.first_token
    assert sizes.decode is not None
    if not work.alike or work.constants.link_sharing != "shared":
        over = handover(work, sizes)
        return _DecodePool(over, _stall(over, prompts, first_token), _generation(over, movements, first_token))
    each, places = np.unique(sizes.decode, return_inverse=True)
    once = handover(work, Sizes(prefill=each, decode=each))
    generation = replace(_generation(once, movements, first_token), places=places)
    return _DecodePool(once.at(places), _stall(once, prompts, first_token)[places], generation)


def _prefill_wait(work: PathWork, n_p: Floats, prompts: WholePrompts) -> tuple[Dispatch, PrefillWait]:
    """How prompts reach the prefill workers, and the wait for one."""
    nothing, of = np.zeros(len(n_p)), work.dispatched(n_p)
    queue = queues.pool_wait(of, prompts.cs2, work.rate * prompts.mean, prompts.mean)
    order = order_of(work, rows_of(work.rate / n_p, len(n_p)), prompts.of_strata)
    return of, PrefillWait(queue, nothing, nothing, order)


def evaluate(work: PathWork, sizes: Sizes) -> PathResult:
    """Waits, pace, stall and loads of every row; ``first_token_source`` says which pool emits the first token."""
    known, moved, n_p, first_token = work.constants, work.moved, sizes.prefill, work.constants.first_token
    assert moved is not None
    assert n_p is not None
    rows, prompts = len(n_p), whole_prompts(work, known.prefill[PREFILL])
    of, wait = _prefill_wait(work, n_p, prompts)
    movements = moved.movements_s
    of_buckets = work.requests.strata.per_bucket(movements)
    pool = _decode_pool(work, sizes, prompts, of_buckets)
    over = pool.over
    prefilling = known.memory.resident(prompts.token_seconds + over.token_seconds, prompts.mean + over.seconds)
    ceiling, alone = known.decode[DECODE].ceiling, over.own.steps.seconds(1.0)
    slots = over.own.slots_load("slots_decode", over.batch, ceiling)
    floor, spread = np.asarray(known.a)[..., None] + prompts.of_buckets, np.sqrt(work.computed.variance) * prompts.slope
    if first_token == "decode":
        floor = floor + of_buckets + np.asarray(alone)[..., None]
        spread = spread + np.sqrt(moved.variance) * moved.moved.slope
    return PathResult(
        requests=work.requests,
        first_token=first_token,
        admission=known.a,
        prefill_wait=wait,
        transfer_wait=rows_of(over.link.mean_s, rows),
        after_wait=over.decode_wait,
        first_step=over.t,
        t=over.t,
        batch=over.batch,
        stall=pool.stall,
        execution_strata=prompts.of_strata,
        execution_buckets=prompts.of_buckets,
        movement_strata=movements,
        movement_buckets=of_buckets,
        spread=np.atleast_1d(spread),
        kept=_kept(wait, over, first_token),
        generation=pool.generation,
        floor_ttft=np.atleast_1d(floor),
        floor_tpot=alone,
        loads=(
            Load(
                "prefill", rows_of(work.rate * prompts.mean / n_p, rows), known.prefill_ceiling[PREFILL], "utilization"
            ),
            Load("decode", work.rate * over.own.d1 / over.decode_workers * over.own.steps.c, ceiling, "utilization"),
            Load("link", over.link_load, known.link_ceiling, "link_saturated"),
            slots,
            Load("kv_prefill", work.rate / n_p * prefilling / known.kv_memory[PREFILL], 1.0, "kv_memory"),
            Load("kv_decode", rows_of(over.held_bytes / known.kv_memory[DECODE], rows), 1.0, "kv_memory"),
            Load("staging", over.in_flight / (over.own.cap - over.batch), 1.0, "staging"),
        ),
        screening=screened(work, of, prompts.cs2, slots, rows)
        | beyond_curves(
            known.prefill[PREFILL],
            work.computed.moments["u_max"],
            over.own.steps,
            0.0,
            rows_of(work.rate * over.own.d1 / over.decode_workers, rows),
        ),
    )


def _generation(over: Handover, movements: Floats, first_token: str) -> Generation:
    """How generation varies: with the number of sequences on the worker; after prefill's token, the hand-over comes before the second."""
    own = over.own
    wait = np.zeros((1, 1))
    if first_token == "prefill":
        wait = column(over.link.mean_s + over.decode_wait) + np.atleast_2d(movements)
    x = over.work.rate * own.d1 / over.decode_workers
    return Generation(
        t=over.t,
        alone=own.steps.seconds(1.0),
        wait=wait,
        wait_scv=0.0,
        per_step=0.0,
        others=own.steps.chord(0.0, x) ** 2 * over.batch / ((1 - over.batching.success) * over.sharing),
        turnover=(1 - over.batching.success) / own.d1 if own.d1 > 0 else 1.0,
    )
