"""Workers, and the slots that requests under way are in."""

import numpy as np

from pipelines.replay.compiled import part
from pipelines.replay.records import (
    IDLE,
    LAST_TICK,
    NEVER,
    ONE_LINE,
    ROUND_ROBIN,
    SLOT,
    SWAPPING_IN,
    SWAPPING_OUT,
    UNSET,
    WORKER,
    Batches,
    Log,
    Record,
    Records,
    Run,
    Slots,
    Times,
    Windows,
)
from pipelines.replay.steps import ticks_of
from pipelines.replay.work import add_work


def new_workers(count: int, row: int) -> Records:
    """Workers that have not begun, whose work goes to ``row`` of the windows."""
    workers = np.zeros(count, dtype=WORKER)
    workers["does"], workers["due"], workers["row"] = IDLE, NEVER, row
    workers["slot"] = workers["seen"] = UNSET
    return workers


def new_batches(workers: int, most: int) -> Batches:
    """Room for ``most`` sequences on each worker, and at first for twice as many that return."""
    return Batches(
        np.empty((workers, most + 1), dtype=np.int64),
        np.empty((workers, most + 1), dtype=np.int64),
        np.empty((workers, 2 * most + 2), dtype=np.int64),
        np.empty((workers, 2 * most + 4), dtype=np.int64),
        np.empty((workers, 2 * most + 4), dtype=np.int64),
    )


def more_returning(held: Batches) -> Batches:
    """A copy with twice the room for sequences that return."""
    return held._replace(returning=np.concatenate([held.returning, held.returning], axis=1))


def new_slots(room: int) -> Slots:
    """Slots that nothing is in."""
    return Slots(np.empty(room, dtype=SLOT), np.zeros(room + 2, dtype=np.int64))


def more_slots(slots: Slots) -> Slots:
    """A copy with twice the room."""
    more = new_slots(2 * slots.of.size)
    more.of[: slots.of.size] = slots.of
    more.free[: slots.free.size - 2] = slots.free[:-2]
    more.free[-2:] = slots.free[-2:]
    return more


@part
def free_slots(slots: Slots) -> int:
    """How many slots nothing is in."""
    return slots.of.size - slots.free[-1] + slots.free[-2]


@part
def new_slot(slots: Slots) -> int:
    """A slot that nothing is in: one given back, or the next."""
    height = slots.free[-2]
    if height > 0:
        slots.free[-2] = height - 1
        return slots.free[height - 1]
    slots.free[-1] += 1
    return slots.free[-1] - 1


@part
def give_back(slots: Slots, place: int) -> None:
    """Nothing is in the slot any more."""
    slots.free[slots.free[-2]] = place
    slots.free[-2] += 1


@part
def begin(slot: Record, log: Log, request: int, now: int) -> None:
    """``request`` begins to be prefilled at tick ``now``."""
    slot.request = request
    slot.prompt = log.prompt[request]
    slot.cached = log.cached[request]
    slot.output = log.output[request]
    slot.computed = slot.cached
    slot.tokens = slot.swapped = slot.preempted = slot.stall = 0
    slot.prefill_start = now
    slot.prefill_end = slot.transfer_start = slot.arrived = slot.decode_start = UNSET
    slot.first_step_end = slot.first_token = slot.last_token = slot.channel = UNSET


@part
def shortest(workers: Records) -> int:
    """The worker with the fewest requests, the lowest number if equal."""
    best = 0
    for number in range(1, workers.size):
        if workers[number].load < workers[best].load:
            best = number
    return best


@part
def line_for(run: Run, workers: Records, request: int) -> int:
    """The line that ``request`` joins, as requests are dispatched to ``workers``."""
    if run.dispatch == ONE_LINE:
        return 0
    return request % workers.size if run.dispatch == ROUND_ROBIN else shortest(workers)


@part
def occupy(worker: Record, windows: Windows, times: Times, now: int, ns: int) -> None:
    """What the worker does begins ``now`` and takes so many nanoseconds, all of it work as far as the clock goes."""
    ticks = ticks_of(ns, times.tpn, now)
    worker.begin = now
    worker.due = now + ticks
    if worker.due > LAST_TICK:
        ticks = LAST_TICK - now
    add_work(worker, windows, now, ticks)
    if worker.does in (SWAPPING_IN, SWAPPING_OUT):
        worker.swap += ticks
    else:
        worker.prefill += ticks


@part
def rest(worker: Record) -> None:
    """Nothing to do."""
    worker.does = IDLE
    worker.due = NEVER
