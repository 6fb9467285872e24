"""Workers that do both phases: whole prompts first, or chunks beside decode (docs/replay/prefill-first.md, docs/replay/chunked.md)."""

from typing import NamedTuple

import numpy as np

from pipelines.replay.batch import (
    boundary,
    charge_steps,
    charge_unfinished,
    completed,
    cut_steps,
    emitted_by_prefill,
    end_steps,
    joined,
    most_steps,
    next_complete,
    plan_steps,
)
from pipelines.replay.compiled import loop, part, rare, wide
from pipelines.replay.lines import head, join, larger, leave, new_lines
from pipelines.replay.memory import (
    first_hold,
    fits,
    growth,
    has_room,
    held_by,
    make_room,
    next_order,
    overfull,
    swap_ns,
    taken_again,
)
from pipelines.replay.records import (
    CHUNK_RUN,
    CHUNK_STEP,
    DONE,
    IDLE,
    LAST_TICK,
    LINE_FULL,
    NEVER,
    NOTHING_FULL,
    ONE_LINE,
    PEAK_QUEUE,
    PREFILLING,
    SLOTS_FULL,
    STEPPING,
    SWAPPING_IN,
    SWAPPING_OUT,
    UNSET,
    Batches,
    Int64s,
    Lines,
    Pool,
    Record,
    Records,
    Run,
    Slots,
)
from pipelines.replay.steps import added_ns, beside_decode_ns, piece_ns, ticks_of
from pipelines.replay.workers import (
    begin,
    free_slots,
    line_for,
    more_slots,
    new_batches,
    new_slot,
    new_slots,
    new_workers,
    occupy,
    rest,
)

_ROOM_AT_FIRST = 64
_FEWEST_OF_A_RUN = 2
_ROW = 0
"""The row of the windows' work."""
_ARRIVED, _QUEUE, _COMING = range(3)


class State(NamedTuple):
    """Where a mixed pool is between two instants.

    ``due`` repeats when each worker ends what it does; ``completing`` are the slots of prompts whose last piece is in a step; ``heads``
    counts the heads that each line has had, ``armed`` for which of them a worker was stopped, ``at``: how many have arrived, how many wait,
    and when the next one comes.
    """

    workers: Records
    due: Int64s
    held: Batches
    completing: Int64s
    slots: Slots
    lines: Lines
    heads: Int64s
    armed: Int64s
    at: Int64s


def replay_mixed(run: Run, pool: Pool, count: int, budget: int, ordered: bool) -> Records:
    """The log of ``run`` through ``count`` workers; ``budget`` tokens per step, or 0 for whole prompts.

    Returns the workers, with the time that they spent; the counts, windows and details of ``run`` are added to.
    """
    most = min(pool.most, run.log.arrival_ns.size)
    rows = 1 if run.dispatch == ONE_LINE else count
    workers = new_workers(count, _ROW)
    due = np.full(count, NEVER, dtype=np.int64)
    held = new_batches(count, most)
    completing = np.empty((count, min(most, max(budget, 1)) + 1), dtype=np.int64)
    slots = new_slots(_ROOM_AT_FIRST)
    lines = new_lines(rows, _ROOM_AT_FIRST, ordered)
    heads, armed, at = (
        np.zeros(rows, dtype=np.int64),
        np.full(rows, UNSET, dtype=np.int64),
        np.array([0, 0, run.log.arrival_ns[0] * pool.times.tpn + run.admission]),
    )
    while True:
        full = _instants(run, pool, budget, State(workers, due, held, completing, slots, lines, heads, armed, at))
        if full == NOTHING_FULL:
            return workers
        if full == LINE_FULL:
            lines = larger(lines)
        else:
            slots = more_slots(slots)


@loop
def _instants(run: Run, pool: Pool, budget: int, state: State) -> int:
    """Instant after instant, to the end or until something is full."""
    needed = state.workers.size * (state.completing.shape[1] + 1)
    while True:
        now, first, behind, others = _next_instant(state)
        if now > LAST_TICK:
            charge_unfinished(pool, state.workers, state.slots, run.windows)
            return NOTHING_FULL
        if free_slots(state.slots) < needed:
            return SLOTS_FULL
        for number in range(first, behind):
            _end(run, pool, state, number, now)
        if not _all_arrive(run, pool, state, now):
            return LINE_FULL
        if state.at[_QUEUE] > 0:
            if others:
                first, behind = 0, state.due.size
            if _stopped_at_boundaries(run, pool, state, first, now):
                continue  # what those do ends now as well, before anybody chooses
        for number in range(first, behind):
            _choose(run, pool, budget, state, number, now)
        _offer_heads(run, pool, budget, state, now)


@part
def _next_instant(state: State) -> tuple[int, int, int, bool]:
    """The next tick at which something ends or comes; which workers may end then, as a range; whether others run nothing."""
    now, first, behind, others = state.at[_COMING], state.due.size, 0, False
    for number in range(state.due.size):
        due = state.due[number]
        if due >= DONE:
            others = True
        elif due <= now:
            if due < now or behind == 0:
                first = number
            now, behind = due, number + 1
    return now, first, behind, others


@part
def _tick_of(run: Run, pool: Pool, request: int) -> int:
    """The tick at which a request comes, or NEVER behind the last one."""
    return run.log.arrival_ns[request] * pool.times.tpn + run.admission if request < run.log.prompt.size else NEVER


@part
def _line_of(run: Run, number: int) -> int:
    """The line of a worker."""
    return 0 if run.dispatch == ONE_LINE else number


@part
def _all_arrive(run: Run, pool: Pool, state: State, now: int) -> bool:
    """Every request that comes now joins a line; whether there was room for all of them."""
    while state.at[_COMING] == now:
        if not _arrive(run, pool, state):
            return False
    return True


@part
def _arrive(run: Run, pool: Pool, state: State) -> bool:
    """The next request joins a line; whether there was room for it."""
    request = state.at[_ARRIVED]
    number = line_for(run, state.workers, request)
    if state.lines.waiting[number] == state.lines.ring.shape[1]:
        return False
    rank = wide(run.log.prompt[request]) - wide(run.log.cached[request])
    state.heads[number] += join(state.lines, number, request, rank)
    if run.dispatch != ONE_LINE:
        state.workers[number].load += 1
    state.at[_ARRIVED] = request + 1
    state.at[_COMING] = _tick_of(run, pool, request + 1)
    state.at[_QUEUE] += 1
    return True


@part
def _stopped_at_boundaries(run: Run, pool: Pool, state: State, first: int, now: int) -> bool:
    """A run of steps one of which ends just now ends where somebody waits, so that its worker chooses in its turn; whether any does.

    One that has seen the head of its line meets another one only if somebody from ``first`` on, who chooses before it, takes that one.
    """
    stopped = False
    for number in range(state.due.size):
        worker, own = state.workers[number], _line_of(run, number)
        waits = state.lines.waiting[own] > 0 and (number > first or worker.seen != state.heads[own])
        if waits and worker.does == STEPPING and boundary(worker, pool.times, now) == now:
            cut_steps(worker, pool.times, now)
            state.due[number] = now
            stopped = True
    return stopped


@part
def _choose(run: Run, pool: Pool, budget: int, state: State, number: int, now: int) -> None:
    """A worker on which nothing runs, and whose line somebody waits in or what it did has ended, chooses what it runs next."""
    own = _line_of(run, number)
    due = state.due[number]
    if due != DONE and (due != NEVER or state.lines.waiting[own] == 0):
        return
    worker = state.workers[number]
    taken = (
        _choose_whole(run, pool, state, number, own, now)
        if budget == 0
        else _choose_chunks(run, pool, budget, state, number, own, now)
    )
    state.due[number] = worker.due
    state.heads[own] += taken
    state.at[_QUEUE] -= taken
    worker.seen = state.heads[own]
    state.armed[own] = UNSET


@part
def _offer_heads(run: Run, pool: Pool, budget: int, state: State, now: int) -> None:
    """Whoever has the next boundary between steps stops there to look at the head of its line, if it has not seen it yet."""
    if state.at[_QUEUE] == 0:
        return
    run.counts[PEAK_QUEUE] = max(run.counts[PEAK_QUEUE], state.at[_QUEUE])
    for own in range(state.heads.size):
        if state.lines.waiting[own] == 0 or state.armed[own] == state.heads[own]:
            continue
        state.armed[own] = state.heads[own]
        first = 0 if run.dispatch == ONE_LINE else own
        last = state.due.size if run.dispatch == ONE_LINE else own + 1
        request = head(state.lines, own)
        size = first_hold(run.log, request, pool.memory)
        soonest = wide(NEVER)
        for number in range(first, last):
            worker = state.workers[number]
            if _may_take(pool, budget, worker, state.heads[own], size):
                # one that is now it has passed in its turn, when another one was the head
                soonest = min(soonest, boundary(worker, pool.times, now + 1))
        if soonest == NEVER:
            continue
        for number in range(first, last):
            worker = state.workers[number]
            if worker.boundary == soonest and _may_take(pool, budget, worker, state.heads[own], size):
                cut_steps(worker, pool.times, soonest)
                state.due[number] = worker.due


@part
def _may_take(pool: Pool, budget: int, worker: Record, heads: int, size: int) -> bool:
    """Whether a worker that decodes could take the head of its line, of ``size`` bytes, between two steps, and has not seen it yet."""
    return (
        worker.does == STEPPING
        and worker.seen != heads
        and worker.batch < pool.most
        and worker.returns == 0
        and (budget == 0 or budget > worker.batch)
        and has_room(worker, pool.memory, size)
    )


@part
def _end(run: Run, pool: Pool, state: State, number: int, now: int) -> None:
    """What a worker does ends, if it is due now."""
    if state.due[number] != now:
        return
    state.due[number] = DONE
    worker, slots, held = state.workers[number], state.slots, state.held
    does = worker.does
    worker.does = IDLE
    prompts = 0
    if does in (STEPPING, CHUNK_STEP, CHUNK_RUN):
        charge_steps(worker, run.windows, pool.times)
        end_steps(pool, worker, slots, held, number, now)
        prompts = worker.completing if does == CHUNK_STEP else 0
    elif does == PREFILLING:
        state.completing[number, 0] = worker.slot
        worker.slot = UNSET
        prompts = 1
    elif does == SWAPPING_IN:
        slots.of[worker.slot].swapped = 0
        joined(worker, slots, held, number, worker.slot)
        worker.slot = UNSET
    worker.held += growth(pool.memory) * prompts
    worker.peak = max(worker.peak, worker.held)
    if does in (STEPPING, CHUNK_STEP, CHUNK_RUN):
        while True:
            place = next_complete(worker, slots, held, number)
            if place == UNSET:
                break
            completed(run, pool, worker, slots, place, now)
    for prompt in range(prompts):
        place = state.completing[number, prompt]
        if emitted_by_prefill(slots.of[place], worker.begin, now):
            completed(run, pool, worker, slots, place, now)
        else:
            joined(worker, slots, held, number, place)


@part
def _newly_taken(run: Run, pool: Pool, state: State, number: int, own: int, request: int, now: int) -> int:
    """The head of the worker's line is taken; its slot."""
    worker = state.workers[number]
    leave(state.lines, own)
    place = new_slot(state.slots)
    slot = state.slots.of[place]
    begin(slot, run.log, request, now)
    slot.order = next_order(worker)
    worker.held += held_by(pool.memory, slot)
    return place


@part
def _choose_whole(run: Run, pool: Pool, state: State, number: int, own: int, now: int) -> int:
    """Prefill first: what the worker runs next; how many requests it takes from its line."""
    worker, slots, held, memory = state.workers[number], state.slots, state.held, pool.memory
    taken = 0
    if worker.batch < pool.most:
        if worker.returns > 0:
            if fits(worker, slots.of[held.returning[number, worker.returns - 1]], memory):
                worker.slot = taken_again(worker, slots, held, number, memory, run.counts)
        elif state.lines.waiting[own] > 0:
            request = head(state.lines, own)
            if has_room(worker, memory, first_hold(run.log, request, memory)):
                worker.slot = _newly_taken(run, pool, state, number, own, request, now)
                taken = 1
    if worker.slot == UNSET:
        _decode(run, pool, state, number, now)
        return taken
    slot = slots.of[worker.slot]
    if slot.swapped:
        worker.does = SWAPPING_IN
        occupy(worker, run.windows, pool.times, now, swap_ns(memory, held_by(memory, slot)))
    else:
        ns = piece_ns(pool.times, slot.cached, slot.prompt + slot.tokens - slot.cached)
        worker.does = PREFILLING
        occupy(worker, run.windows, pool.times, now, ns)
    return taken


@part
def _decode(run: Run, pool: Pool, state: State, number: int, now: int) -> None:
    """No prompt can be taken: decode, or rest."""
    worker = state.workers[number]
    if worker.batch == 0:
        rest(worker)
        return
    ns = 0
    if overfull(worker, pool.memory):
        ns = make_room(worker, state.slots, state.held, number, wide(UNSET), pool.memory, run.counts)
    if ns > 0:
        worker.does = SWAPPING_OUT
        occupy(worker, run.windows, pool.times, now, ns)
    else:
        steps = most_steps(pool, worker, state.held, number)
        plan_steps(pool, worker, wide(STEPPING), steps, wide(0), now)


@part
def _choose_chunks(run: Run, pool: Pool, budget: int, state: State, number: int, own: int, now: int) -> int:
    """Chunks: what the worker runs next; how many requests it takes from its line."""
    worker, held = state.workers[number], state.held
    if (worker.returns > 0 or overfull(worker, pool.memory)) and _swapped(run, pool, state, number, now):
        return 0
    ns = 0
    if worker.slot != UNSET and _goes_on(pool, budget, state, number, now):
        return 0
    room = budget - worker.batch
    begun = 0 if worker.slot == UNSET else 1
    taken = 0
    worker.completing = 0
    while room > 0:
        if worker.slot == UNSET:
            if worker.batch + begun >= pool.most:
                break
            taken += _begin_prompt(run, pool, state, number, own, now)
            if worker.slot == UNSET:
                break
            begun += 1
        slot = state.slots.of[worker.slot]
        piece = min(room, slot.prompt + slot.tokens - slot.computed)
        ns = added_ns(ns, piece_ns(pool.times, slot.computed, piece))
        slot.computed += piece
        room -= piece
        if slot.computed == slot.prompt + slot.tokens:
            state.completing[number, worker.completing] = worker.slot
            worker.completing += 1
            worker.slot = UNSET
    if ns > 0:
        ns = beside_decode_ns(pool.times, ns) if worker.batch > 0 else ns
        pieces = ticks_of(ns, pool.times.tpn, now)
        plan_steps(pool, worker, wide(CHUNK_STEP), wide(1), pieces, now)
    elif worker.batch > 0:
        plan_steps(pool, worker, wide(STEPPING), most_steps(pool, worker, held, number), wide(0), now)
    else:
        rest(worker)
    return taken


@rare
def _swapped(run: Run, pool: Pool, state: State, number: int, now: int) -> bool:
    """Whether the worker has to move caches out, or can bring one back, before anything else; then it does."""
    worker, held, memory = state.workers[number], state.held, pool.memory
    ns = make_room(worker, state.slots, held, number, worker.slot, memory, run.counts)
    if ns > 0:
        worker.does = SWAPPING_OUT
        occupy(worker, run.windows, pool.times, now, ns)
        return True
    if worker.returns == 0 or worker.slot != UNSET or worker.batch >= pool.most:
        return False
    slot = state.slots.of[held.returning[number, worker.returns - 1]]
    if not slot.swapped or not fits(worker, slot, memory):
        return False
    worker.slot = taken_again(worker, state.slots, held, number, memory, run.counts)
    worker.does = SWAPPING_IN
    occupy(worker, run.windows, pool.times, now, swap_ns(memory, held_by(memory, slot)))
    return True


@part
def _begin_prompt(run: Run, pool: Pool, state: State, number: int, own: int, now: int) -> int:
    """The worker's ``slot`` is that of the next prompt, if it can be taken; how many are taken from its line."""
    worker, memory = state.workers[number], pool.memory
    if worker.returns > 0:
        slot = state.slots.of[state.held.returning[number, worker.returns - 1]]
        if not slot.swapped and fits(worker, slot, memory):
            worker.slot = taken_again(worker, state.slots, state.held, number, memory, run.counts)
        return 0
    if state.lines.waiting[own] == 0:
        return 0
    request = head(state.lines, own)
    if not has_room(worker, memory, first_hold(run.log, request, memory)):
        return 0
    worker.slot = _newly_taken(run, pool, state, number, own, request, now)
    return 1


@part
def _goes_on(pool: Pool, budget: int, state: State, number: int, now: int) -> bool:
    """Whether the partial prompt fills two steps and more to come, all of one batch and alike; then the worker runs them at once."""
    worker, times = state.workers[number], pool.times
    room = budget - worker.batch
    if room <= 0 or times.q != 0.0 or times.tokens.size > 0:
        return False
    slot = state.slots.of[worker.slot]
    before_last = slot.prompt + slot.tokens - slot.computed - 1
    if before_last < _FEWEST_OF_A_RUN * room:
        return False
    steps = before_last // room
    if worker.batch > 0:
        steps = min(steps, most_steps(pool, worker, state.held, number))
        if steps < _FEWEST_OF_A_RUN:
            return False
    ns = piece_ns(times, slot.computed, room)
    ns = beside_decode_ns(times, ns) if worker.batch > 0 else ns
    pieces = ticks_of(ns, times.tpn, now)
    plan_steps(pool, worker, wide(CHUNK_RUN), steps, pieces, now)
    slot.computed += worker.steps * room
    return True
