"""A prefill pool, links and a decode pool (docs/replay/separated.md)."""

from typing import NamedTuple

import numpy as np

from pipelines.replay.agenda import larger_agenda, later, new_agenda, soonest
from pipelines.replay.batch import (
    charge_steps,
    charge_unfinished,
    completed,
    cut_steps,
    emitted_by_prefill,
    end_steps,
    held_now,
    joined,
    limit_steps,
    most_steps,
    next_complete,
    plan_steps,
)
from pipelines.replay.compiled import loop, part, wide
from pipelines.replay.lines import head, join, larger, leave, new_lines
from pipelines.replay.memory import (
    fits,
    growth,
    has_room,
    held_by,
    make_room,
    next_order,
    overfull,
    prompt_bytes,
    swap_ns,
    taken_again,
)
from pipelines.replay.records import (
    ARRIVED_FULL,
    DONE,
    IDLE,
    LAST_TICK,
    LINE_FULL,
    LINK_LOW,
    LINKS_FULL,
    NEVER,
    NOTHING_FULL,
    ONE_LINE,
    PEAK_DECODE,
    PEAK_QUEUE,
    PEAK_TRANSFERS,
    PER_PREFILL_WORKER,
    PREFILLING,
    RETURNING_FULL,
    ROUND_ROBIN,
    SHARED,
    SLOT_BITS,
    SLOT_MASK,
    SLOTS_FULL,
    STEPPING,
    SWAPPING_IN,
    SWAPPING_OUT,
    UNSET,
    Agenda,
    Batches,
    Int64s,
    Lines,
    Memory,
    Pool,
    Record,
    Records,
    Run,
    Slots,
    Transfers,
)
from pipelines.replay.results import account, add_ticks
from pipelines.replay.steps import piece_ns, ticks_of
from pipelines.replay.work import add_work
from pipelines.replay.workers import (
    begin,
    free_slots,
    give_back,
    line_for,
    more_returning,
    more_slots,
    new_batches,
    new_slot,
    new_slots,
    new_workers,
    occupy,
    rest,
    shortest,
)

_ROOM_AT_FIRST = 64
PREFILL_ROW, DECODE_ROW, LINK_ROW = 0, 1, 2
"""Rows of the work that windows keep."""
# what ``at`` counts: requests that came, wait for prefill, wait for a link, got a decode worker, are moved, wait for a decode slot
_ARRIVED, _QUEUE, _TRANSFERS, _ASSIGNED, _STARTED, _WAITING = range(6)


class Stages(NamedTuple):
    """The two pools, and what lies between."""

    prefill: Pool
    decode: Pool
    transfers: Transfers
    first_here: bool
    """Prefill emits the first token."""


class State(NamedTuple):
    """Where the pools are between two instants.

    ``due`` repeats when each prefill worker, then each decode worker, ends what it does; ``links`` and ``arrived`` are lines of slots;
    ``channels`` says how many are free for each line; ``caches`` are to arrive, ``releases`` of channels to come.
    """

    prefillers: Records
    decoders: Records
    link: Records
    due: Int64s
    held: Batches
    slots: Slots
    lines: Lines
    links: Lines
    arrived: Lines
    channels: Int64s
    caches: Agenda
    releases: Agenda
    at: Int64s


def replay_separated(
    run: Run, stages: Stages, prefill_workers: int, decode_workers: int, ordered: bool
) -> tuple[Records, Records]:
    """The log of ``run`` through a prefill pool, links and a decode pool.

    Returns the workers of both pools, with the time that they spent; the counts, windows and details of ``run`` are added to.
    """
    sharing, channels = stages.transfers.sharing, stages.transfers.channels
    of_links = 1 if sharing == SHARED else prefill_workers if sharing == PER_PREFILL_WORKER else decode_workers
    room = _ROOM_AT_FIRST
    while room < 2 * prefill_workers:
        room *= 2
    prefillers, decoders, link = (
        new_workers(prefill_workers, PREFILL_ROW),
        new_workers(decode_workers, DECODE_ROW),
        new_workers(1, LINK_ROW),
    )
    due = np.full(prefill_workers + decode_workers, NEVER, dtype=np.int64)
    held = new_batches(decode_workers, min(stages.decode.most, run.log.arrival_ns.size))
    slots = new_slots(room)
    lines = new_lines(1 if run.dispatch == ONE_LINE else prefill_workers, room, ordered)
    links, arrived = new_lines(of_links, room, False), new_lines(decode_workers, room, False)
    free = np.full(of_links, channels, dtype=np.int64)
    caches, releases = new_agenda(room + 2 * of_links * channels), new_agenda(of_links * channels)
    at = np.zeros(6, dtype=np.int64)
    while True:
        state = State(prefillers, decoders, link, due, held, slots, lines, links, arrived, free, caches, releases, at)
        full = _instants(run, stages, state)
        if full == NOTHING_FULL:
            return prefillers, decoders
        if full == LINE_FULL:
            lines = larger(lines)
        elif full == LINKS_FULL:
            links = larger(links)
        elif full == ARRIVED_FULL:
            arrived, caches = larger(arrived), larger_agenda(caches)
        elif full == RETURNING_FULL:
            held = more_returning(held)
        else:
            slots = more_slots(slots)


@loop
def _instants(run: Run, stages: Stages, state: State) -> int:
    """Instant after instant, to the end or until something is full."""
    prefillers = state.prefillers.size
    while True:
        now = _next_instant(run, stages, state)
        if now > LAST_TICK:
            charge_unfinished(stages.decode, state.decoders, state.slots, run.windows)
            return NOTHING_FULL
        full = _what_is_full(stages, state)
        if full != NOTHING_FULL:
            return full
        for number in range(prefillers):
            _end_prefill(run, stages, state, number, now)
        while state.caches.size[0] > 0 and state.caches.tick[0] == now:
            _cache_arrives(stages, state, soonest(state.caches) & SLOT_MASK, now)
        for number in range(state.decoders.size):
            _end_decode(run, stages.decode, state, number, now)
        while state.releases.size[0] > 0 and state.releases.tick[0] == now:
            _release(state, soonest(state.releases) & SLOT_MASK, stages.prefill.memory)
        while _coming(run, stages, state) == now:
            if not _arrive(run, state):
                return LINE_FULL
        _choices(run, stages, state, now)
        run.counts[PEAK_QUEUE] = max(run.counts[PEAK_QUEUE], state.at[_QUEUE])
        run.counts[PEAK_TRANSFERS] = max(run.counts[PEAK_TRANSFERS], state.at[_TRANSFERS])
        run.counts[PEAK_DECODE] = max(run.counts[PEAK_DECODE], state.at[_WAITING])


@part
def _next_instant(run: Run, stages: Stages, state: State) -> int:
    """The next tick at which something ends or comes."""
    now = _coming(run, stages, state)
    for number in range(state.due.size):
        if state.due[number] < now:
            now = state.due[number]
    if state.caches.size[0] > 0 and state.caches.tick[0] < now:
        now = state.caches.tick[0]
    if state.releases.size[0] > 0 and state.releases.tick[0] < now:
        now = state.releases.tick[0]
    return now


@part
def _coming(run: Run, stages: Stages, state: State) -> int:
    """The tick at which the next request comes."""
    arrived = state.at[_ARRIVED]
    if arrived == run.log.prompt.size:
        return NEVER
    return run.log.arrival_ns[arrived] * stages.prefill.times.tpn + run.admission


@part
def _what_is_full(stages: Stages, state: State) -> int:
    """What has to grow before the next instant, which may need a slot and a place on a link for each prefill worker."""
    if free_slots(state.slots) < state.prefillers.size:
        return SLOTS_FULL
    for number in range(state.links.waiting.size):
        if state.links.waiting[number] + state.prefillers.size > state.links.ring.shape[1]:
            return LINKS_FULL
    under_way = state.caches.size[0]
    if under_way + state.channels.size * stages.transfers.channels > state.caches.tick.size:
        return ARRIVED_FULL
    for number in range(state.arrived.waiting.size):
        if state.arrived.waiting[number] + under_way > state.arrived.ring.shape[1]:
            return ARRIVED_FULL
        if state.decoders[number].returns + state.held.joiners.shape[1] > state.held.returning.shape[1]:
            return RETURNING_FULL  # sequences that were under way when others were preempted may be preempted in their turn
    return NOTHING_FULL


@part
def _arrive(run: Run, state: State) -> bool:
    """The next request joins a line; whether there was room for it."""
    request = state.at[_ARRIVED]
    number = line_for(run, state.prefillers, request)
    if state.lines.waiting[number] == state.lines.ring.shape[1]:
        return False
    rank = wide(run.log.prompt[request]) - wide(run.log.cached[request])
    join(state.lines, number, request, rank)
    state.prefillers[number].load += 1
    state.at[_ARRIVED] += 1
    state.at[_QUEUE] += 1
    return True


@part
def _choices(run: Run, stages: Stages, state: State, now: int) -> None:
    """Decode workers, then links, then prefill workers on which nothing runs choose what they run next."""
    prefillers = state.prefillers.size
    for number in range(state.decoders.size):
        due = state.due[prefillers + number]
        if due == DONE or (due == NEVER and state.arrived.waiting[number] > 0):
            _choose_decode(run, stages, state, number, now)
            state.due[prefillers + number] = state.decoders[number].due
    for number in range(state.channels.size):
        while state.channels[number] > 0 and state.links.waiting[number] > 0:
            if not _transferred(run, stages, state, number, now):
                break
    taken = True
    while taken:
        taken = False
        for number in range(prefillers):
            own = 0 if run.dispatch == ONE_LINE else number
            due = state.due[number]
            if due == DONE or (due == NEVER and state.lines.waiting[own] > 0):
                _choose_prefill(run, stages.prefill, state, number, own, now)
                state.due[number] = state.prefillers[number].due
                taken = taken or state.due[number] != NEVER


@part
def _end_prefill(run: Run, stages: Stages, state: State, number: int, now: int) -> None:
    """A prompt is computed: it waits for a link to the decode worker that it gets, or is complete; if that is due now."""
    if state.due[number] != now:
        return
    state.due[number] = DONE
    worker = state.prefillers[number]
    place = worker.slot
    slot = state.slots.of[place]
    worker.does = IDLE
    worker.slot = UNSET
    worker.load -= 1
    worker.peak = max(worker.peak, worker.held)
    slot.prefill_end = now
    if stages.first_here:
        slot.tokens = 1
        slot.first_token = slot.last_token = now
        if slot.output == 1:
            account(run, slot, stages.prefill.times.tpn, now)
            worker.held -= prompt_bytes(stages.prefill.memory, slot.prompt, slot.output)
            give_back(state.slots, place)
            return
    target = shortest(state.decoders)
    if run.dispatch == ROUND_ROBIN:
        target = state.at[_ASSIGNED] % state.decoders.size
    state.at[_ASSIGNED] += 1
    state.decoders[target].load += 1
    slot.target = target
    slot.keeper = number
    sharing = stages.transfers.sharing
    slot.channel = 0 if sharing == SHARED else number if sharing == PER_PREFILL_WORKER else target
    slot.complete_early = 0
    join(state.links, slot.channel, place, wide(0))
    state.at[_TRANSFERS] += 1


@part
def _transferred(run: Run, stages: Stages, state: State, number: int, now: int) -> bool:
    """The head of a line of the links is moved, if its decode worker has room for it; whether it is."""
    transfers, tpn = stages.transfers, stages.prefill.times.tpn
    place = head(state.links, number)
    slot = state.slots.of[place]
    worker = state.decoders[slot.target]
    size = held_by(stages.decode.memory, slot)
    if worker.returns > 0 or held_now(stages.decode, worker, now) + size > stages.decode.memory.capacity:
        return False
    leave(state.links, number)
    state.at[_TRANSFERS] -= 1
    worker.held += size
    limit_steps(stages.decode, worker, now)
    state.due[state.prefillers.size + slot.target] = worker.due
    slot.transfer_start = now
    state.channels[number] -= 1
    tag = state.at[_STARTED] << SLOT_BITS | place
    state.at[_STARTED] += 1
    kept = ticks_of(transfers.keep_ns[slot.request], tpn, now)
    later(state.caches, now + ticks_of(transfers.move_ns[slot.request], tpn, now), tag)
    later(state.releases, now + kept, tag)
    kept = min(kept, LAST_TICK - now)
    add_ticks(run.counts, wide(LINK_LOW), kept)
    add_work(state.link[0], run.windows, now, kept)
    return True


@part
def _cache_arrives(stages: Stages, state: State, place: int, now: int) -> None:
    """A cache is at its decode worker."""
    slot = state.slots.of[place]
    slot.arrived = now
    if slot.channel == UNSET:
        _keeper_gives_back(state, slot, stages.prefill.memory)
    join(state.arrived, slot.target, place, wide(0))
    state.at[_WAITING] += 1
    worker = state.decoders[slot.target]
    if worker.does == STEPPING and worker.batch < stages.decode.most:
        cut_steps(worker, stages.decode.times, now)
        state.due[state.prefillers.size + slot.target] = worker.due


@part
def _release(state: State, place: int, memory: Memory) -> None:
    """A channel is free again."""
    slot = state.slots.of[place]
    state.channels[slot.channel] += 1
    slot.channel = UNSET
    if slot.arrived != UNSET:
        _keeper_gives_back(state, slot, memory)
    if slot.complete_early:
        give_back(state.slots, place)


@part
def _keeper_gives_back(state: State, slot: Record, memory: Memory) -> None:
    """The prefill worker no longer holds the cache."""
    state.prefillers[slot.keeper].held -= prompt_bytes(memory, slot.prompt, slot.output)


@part
def _end_decode(run: Run, pool: Pool, state: State, number: int, now: int) -> None:
    """What a decode worker does ends, if it is due now."""
    place_of_due = state.prefillers.size + number
    if state.due[place_of_due] != now:
        return
    state.due[place_of_due] = DONE
    worker, slots, held = state.decoders[number], state.slots, state.held
    does = worker.does
    worker.does = IDLE
    if does == STEPPING:
        charge_steps(worker, run.windows, pool.times)
        end_steps(pool, worker, slots, held, number, now)
    elif does == PREFILLING:
        worker.held += growth(pool.memory)
    worker.peak = max(worker.peak, worker.held)
    if does == STEPPING:
        while True:
            place = next_complete(worker, slots, held, number)
            if place == UNSET:
                break
            _completed(run, pool, worker, slots, place, now)
    elif does != SWAPPING_OUT:
        place = worker.slot
        worker.slot = UNSET
        slots.of[place].swapped = 0
        if does == PREFILLING and emitted_by_prefill(slots.of[place], worker.begin, now):
            _completed(run, pool, worker, slots, place, now)
        else:
            joined(worker, slots, held, number, place)


@part
def _completed(run: Run, pool: Pool, worker: Record, slots: Slots, place: int, now: int) -> None:
    """A request has its last token; its slot is free when its channel is too."""
    completed(run, pool, worker, slots, place, now)
    if slots.of[place].channel != UNSET:
        slots.of[place].complete_early = 1
        slots.free[-2] -= 1


@part
def _choose_decode(run: Run, stages: Stages, state: State, number: int, now: int) -> None:
    """What a decode worker runs next."""
    pool, worker, slots, held = stages.decode, state.decoders[number], state.slots, state.held
    memory = pool.memory
    if worker.returns > 0 and worker.batch < pool.most:
        slot = slots.of[held.returning[number, worker.returns - 1]]
        if fits(worker, slot, memory):
            worker.slot = taken_again(worker, slots, held, number, memory, run.counts)
            if slot.swapped:
                ns = swap_ns(memory, held_by(memory, slot))
                worker.does = SWAPPING_IN
                occupy(worker, run.windows, pool.times, now, ns)
            else:
                ns = piece_ns(stages.prefill.times, slot.cached, slot.prompt + slot.tokens - slot.cached)
                worker.does = PREFILLING
                occupy(worker, run.windows, pool.times, now, ns)
            return
    while state.arrived.waiting[number] > 0 and worker.batch < pool.most:
        place = head(state.arrived, number)
        leave(state.arrived, number)
        state.at[_WAITING] -= 1
        slots.of[place].order = next_order(worker)
        joined(worker, slots, held, number, place)
    if worker.batch == 0:
        rest(worker)
        return
    ns = 0
    if overfull(worker, memory):
        ns = make_room(worker, slots, held, number, wide(UNSET), memory, run.counts)
    if ns > 0:
        worker.does = SWAPPING_OUT
        occupy(worker, run.windows, pool.times, now, ns)
    else:
        plan_steps(pool, worker, wide(STEPPING), most_steps(pool, worker, held, number), wide(0), now)
        if state.arrived.waiting[number] > 0 and worker.batch < pool.most:
            cut_steps(worker, pool.times, now + 1)


@part
def _choose_prefill(run: Run, pool: Pool, state: State, number: int, own: int, now: int) -> None:
    """What a prefill worker runs next."""
    worker, log = state.prefillers[number], run.log
    rest(worker)
    if state.lines.waiting[own] == 0:
        return
    request = head(state.lines, own)
    size = prompt_bytes(pool.memory, wide(log.prompt[request]), wide(log.output[request]))
    if not has_room(worker, pool.memory, size):
        return
    leave(state.lines, own)
    state.at[_QUEUE] -= 1
    worker.slot = new_slot(state.slots)
    slot = state.slots.of[worker.slot]
    begin(slot, log, request, now)
    worker.held += size
    ns = piece_ns(pool.times, slot.cached, slot.prompt - slot.cached)
    worker.does = PREFILLING
    occupy(worker, run.windows, pool.times, now, ns)
