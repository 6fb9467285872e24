"""The memory of a worker: what requests hold, who is preempted, and who comes back (docs/replay.md, Memory)."""

from pipelines.replay import heaps
from pipelines.replay.compiled import part, rare, wide
from pipelines.replay.gaps import longest_since
from pipelines.replay.records import (
    PREEMPTIONS,
    RECOMPUTED,
    SLOT_MASK,
    SWAP,
    SWAPPED,
    UNSET,
    WAIT,
    Batches,
    Int64s,
    Log,
    Memory,
    Record,
    Slots,
)
from pipelines.replay.steps import added_ns, nanoseconds


@part
def fixed_bytes(memory: Memory, prompt: int, output: int) -> int:
    """What a request holds whatever its length by now: its state, and its windows as far as they will ever be filled."""
    held = memory.state
    for place in range(memory.window_bytes.size):
        longest = prompt + output + memory.block - 1
        held += memory.window_bytes[place] * min(longest, memory.window_tokens[place])
    return held


@part
def growth(memory: Memory) -> int:
    """Bytes by which a sequence grows with a token."""
    return 0 if memory.policy == WAIT else memory.growth


@part
def prompt_bytes(memory: Memory, prompt: int, output: int) -> int:
    """Bytes that a request holds with no token emitted."""
    return fixed_bytes(memory, prompt, output) + memory.growth * (prompt + memory.block - 1)


@part
def hold(memory: Memory, prompt: int, tokens: int, output: int) -> int:
    """Bytes that a request holds with ``tokens`` emitted; under WAIT, what it will hold in the end."""
    emitted = output if memory.policy == WAIT else tokens
    return prompt_bytes(memory, prompt, output) + memory.growth * emitted


@part
def held_by(memory: Memory, slot: Record) -> int:
    """Bytes that the request of a slot holds."""
    return hold(memory, slot.prompt, slot.tokens, slot.output)


@part
def has_room(worker: Record, memory: Memory, size: int) -> bool:
    """Whether a worker has memory for ``size`` bytes more."""
    return worker.held + size <= memory.capacity


@part
def fits(worker: Record, slot: Record, memory: Memory) -> bool:
    """Whether there is memory for a request that returns."""
    return has_room(worker, memory, held_by(memory, slot))


@part
def first_hold(log: Log, request: int, memory: Memory) -> int:
    """Bytes that a request which waits in a line will hold when it is taken."""
    prompt, output = wide(log.prompt[request]), wide(log.output[request])
    return hold(memory, prompt, wide(0), output)


@part
def overfull(worker: Record, memory: Memory) -> bool:
    """Whether a worker holds more than its memory has, so that somebody is to be preempted."""
    return worker.held > memory.capacity


@part
def swap_ns(memory: Memory, held: int) -> int:
    """Nanoseconds to move ``held`` bytes between GPU and host."""
    return max(1, nanoseconds(held / memory.swap))


@part
def next_order(worker: Record) -> int:
    """The number of the request that the worker takes now, of all that it has taken."""
    worker.taken += 1
    return worker.taken - 1


@rare
def taken_again(worker: Record, slots: Slots, held: Batches, number: int, memory: Memory, counts: Int64s) -> int:
    """The request that was preempted last is taken from the worker's returning ones; its slot."""
    worker.returns -= 1
    place = held.returning[number, worker.returns]
    slot = slots.of[place]
    size = held_by(memory, slot)
    worker.held += size
    slot.order = next_order(worker)
    if slot.swapped:
        counts[SWAPPED] += size
    else:
        slot.computed = slot.cached
        counts[RECOMPUTED] += slot.prompt + slot.tokens - slot.cached
    return place


@rare
def make_room(
    worker: Record, slots: Slots, held: Batches, number: int, partial: int, memory: Memory, counts: Int64s
) -> int:
    """Preempt whoever was taken last until memory suffices; nanoseconds of swapping out. ``partial`` is a slot, or UNSET.

    The worker's ``slot`` is UNSET afterwards if the partial prompt was preempted.
    """
    ns = 0
    while overfull(worker, memory) and worker.batch + (partial != UNSET) > 1:
        member = _taken_last(worker, slots, held, number)
        of_partial = partial != UNSET and (
            member == UNSET or slots.of[partial].order > slots.of[held.heap[number, member] & SLOT_MASK].order
        )
        if of_partial:
            place, partial, worker.slot = partial, UNSET, UNSET
        else:
            place = _out_of_batch(worker, slots, held, number, member)
        ns = added_ns(ns, _preempted(worker, slots.of[place], memory, of_partial, counts))
        held.returning[number, worker.returns] = place
        worker.returns += 1
    return ns


@part
def _preempted(worker: Record, slot: Record, memory: Memory, of_partial: bool, counts: Int64s) -> int:
    """The request of ``slot`` gives its memory back; nanoseconds of swapping it out."""
    size = held_by(memory, slot)
    worker.held -= size
    slot.preempted += 1
    counts[PREEMPTIONS] += 1
    if memory.policy != SWAP or of_partial:
        return 0
    slot.swapped = 1
    counts[SWAPPED] += size
    return swap_ns(memory, size)


@part
def _taken_last(worker: Record, slots: Slots, held: Batches, number: int) -> int:
    """Place in the heap of the sequence of the batch that was taken last; UNSET if there is none."""
    last, order = UNSET, UNSET
    for place in range(worker.batch):
        taken = slots.of[held.heap[number, place] & SLOT_MASK].order
        if taken > order:
            last, order = place, taken
    return last


@part
def _out_of_batch(worker: Record, slots: Slots, held: Batches, number: int, member: int) -> int:
    """The slot at place ``member`` of the heap, taken out of the batch with the tokens and stalls that it has by now."""
    place = held.heap[number, member] & SLOT_MASK
    slot = slots.of[place]
    heaps.remove(held.heap[number], worker.batch, member)
    worker.batch -= 1
    joiner = UNSET
    for other in range(worker.joining):
        if held.joiners[number, other] == place:
            joiner = other
    if joiner != UNSET:
        worker.joining -= 1
        held.joiners[number, joiner] = held.joiners[number, worker.joining]
    else:
        slot.stall = max(slot.stall, longest_since(worker, held, number, slot.since))
        slot.last_token = worker.last_step
        slot.tokens = slot.output - (slot.complete - worker.done)
    worker.resident -= slot.prompt + slot.tokens
    if worker.batch == 0:
        worker.gaps = 0
    return place
