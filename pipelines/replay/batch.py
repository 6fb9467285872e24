"""What workers that decode do: sequences join, are decoded in runs of steps, and are complete."""

from pipelines.replay import heaps
from pipelines.replay.compiled import part, rare, wide
from pipelines.replay.gaps import add_gap, longest_since
from pipelines.replay.memory import growth, hold
from pipelines.replay.records import (
    CHUNK_RUN,
    CHUNK_STEP,
    COUNTABLE,
    LAST_TICK,
    MOST_TICKS,
    SLOT_BITS,
    SLOT_MASK,
    STEPPING,
    UNSET,
    Batches,
    Pool,
    Record,
    Records,
    Run,
    Slots,
    Times,
    Windows,
)
from pipelines.replay.results import account
from pipelines.replay.steps import run_ticks, steps_until
from pipelines.replay.work import add_step_work, add_work
from pipelines.replay.workers import give_back


@part
def joined(worker: Record, slots: Slots, held: Batches, number: int, place: int) -> None:
    """The sequence of slot ``place`` takes part from the next step on."""
    slot = slots.of[place]
    slot.complete = worker.done + slot.output - slot.tokens
    heaps.push(held.heap[number], worker.batch, slot.complete << SLOT_BITS | place)
    held.joiners[number, worker.joining] = place
    worker.joining += 1
    worker.batch += 1
    worker.resident += slot.prompt + slot.tokens


@part
def emitted_by_prefill(slot: Record, start: int, now: int) -> bool:
    """A prefill from ``start`` on ends at ``now`` with a token of ``slot``; whether it is the last."""
    if slot.tokens == 0:
        slot.first_token = now
    else:
        slot.stall = max(slot.stall, now - slot.last_token)
    if slot.prefill_end == UNSET:
        slot.prefill_end = now
    elif slot.decode_start == UNSET:
        slot.decode_start = start
        slot.first_step_end = now
    slot.last_token = now
    slot.tokens += 1
    return slot.tokens == slot.output


@part
def completed(run: Run, pool: Pool, worker: Record, slots: Slots, place: int, now: int) -> None:
    """The request of slot ``place`` has its last token: it is counted, and gives back memory and slot."""
    slot = slots.of[place]
    account(run, slot, pool.times.tpn, now)
    worker.held -= hold(pool.memory, slot.prompt, slot.output, slot.output)
    worker.load -= 1
    give_back(slots, place)


@part
def most_steps(pool: Pool, worker: Record, held: Batches, number: int) -> int:
    """Steps until the first sequence is complete, or memory is full; of a batch that is not empty."""
    memory = pool.memory
    steps = (held.heap[number, 0] >> SLOT_BITS) - worker.done
    grows, room = growth(memory) * worker.batch, memory.capacity - worker.held
    if room >= 0 and float(steps) * grows > room:  # rounding is far less than the one step that has room anyway
        steps = min(steps, room // grows + 1)
    return steps


@part
def plan_steps(pool: Pool, worker: Record, does: int, steps: int, pieces: int, now: int) -> None:
    """A run of ``steps`` from ``now``, in each of which prefill takes ``pieces`` ticks."""
    times = pool.times
    worker.does = does
    worker.begin = now
    worker.pieces = pieces
    worker.each = times.base[worker.batch] + pieces
    worker.boundary = UNSET
    if _longest(worker, times, steps) * steps < MOST_TICKS:
        worker.steps = steps
        worker.due = now + run_ticks(worker, times.gamma, steps)
    else:
        _plan_fewer(worker, times, steps, now)


@part
def _longest(worker: Record, times: Times, steps: int) -> float:
    """No step of a run of ``steps`` takes more ticks; of none, what the first one would take."""
    alone = float(times.base[worker.batch]) + float(worker.pieces)  # ``each`` may be more than 64 bits have room for
    return alone + float(times.gamma) * (float(worker.resident) + worker.batch * float(steps))


@rare
def _plan_fewer(worker: Record, times: Times, steps: int, now: int) -> None:
    """As many steps of a very long run as can be counted; or one, which may take longer than can be counted."""
    while steps > 1 and _longest(worker, times, steps) * steps >= MOST_TICKS:
        steps >>= 1
    worker.steps = steps
    if steps > 1:
        worker.due = now + run_ticks(worker, times.gamma, steps)
        return
    left = LAST_TICK + 1 - now
    countable = _longest(worker, times, wide(0)) < COUNTABLE
    worker.due = now + (min(run_ticks(worker, times.gamma, wide(1)), left) if countable else left)
    worker.boundary, worker.until = worker.due, 1


@part
def boundary(worker: Record, times: Times, now: int) -> int:
    """The tick at which the step that runs at ``now`` ends; or that one, if it ends there."""
    if now > worker.boundary:
        worker.until = steps_until(worker, times.gamma, now - worker.begin)
        worker.boundary = worker.begin + run_ticks(worker, times.gamma, worker.until)
    return worker.boundary


@part
def cut_steps(worker: Record, times: Times, now: int) -> None:
    """A run of steps ends with the step that ends at ``now`` or first after it."""
    end = boundary(worker, times, now)
    if worker.until < worker.steps:
        worker.steps = worker.until
        worker.due = end


@part
def held_now(pool: Pool, worker: Record, now: int) -> int:
    """What a worker holds at ``now``, with the tokens of the steps that have ended within its run."""
    grows = growth(pool.memory) * worker.batch
    if worker.does != STEPPING or grows == 0:
        return worker.held
    begun = steps_until(worker, pool.times.gamma, now + 1 - worker.begin)
    return worker.held + grows * (begun - 1)


@part
def limit_steps(pool: Pool, worker: Record, now: int) -> None:
    """The worker holds more since ``now``: a run of steps ends before the one that would begin with more than memory."""
    grows = growth(pool.memory) * worker.batch
    if worker.does != STEPPING or grows == 0:
        return
    begun = steps_until(worker, pool.times.gamma, now + 1 - worker.begin)
    steps = max(begun, (pool.memory.capacity - worker.held) // grows + 1)
    if steps < worker.steps:
        worker.steps = steps
        worker.due = worker.begin + run_ticks(worker, pool.times.gamma, steps)


@part
def end_steps(pool: Pool, worker: Record, slots: Slots, held: Batches, number: int, now: int) -> None:
    """Every sequence of the batch has the tokens of the run that ends now; nothing is taken out yet."""
    gamma, batch, resident, steps = pool.times.gamma, worker.batch, worker.resident, worker.steps
    if batch == 0:
        return
    first = now if steps == 1 else worker.begin + worker.each + gamma * resident
    if batch > worker.joining:
        add_gap(worker, slots, held, number, first - worker.last_step)
    for joiner in range(worker.joining):
        slot = slots.of[held.joiners[number, joiner]]
        if slot.tokens == 0:
            slot.first_token = first
        else:
            slot.stall = max(slot.stall, first - slot.last_token)
        if slot.decode_start == UNSET:
            slot.decode_start = worker.begin
            slot.first_step_end = first
        slot.since = worker.gap_number
    worker.joining = 0
    if steps > 1:
        last = worker.each + gamma * (resident + (steps - 1) * batch)
        add_gap(worker, slots, held, number, last)
    worker.done += steps
    worker.resident += batch * steps
    worker.held += growth(pool.memory) * batch * steps
    worker.last_step = now


@part
def charge_steps(worker: Record, windows: Windows, times: Times) -> None:
    """The time of the run that ends now, before its batch changes."""
    prefill = worker.steps * worker.pieces
    worker.prefill += prefill
    worker.decode += worker.due - worker.begin - prefill
    add_step_work(worker, windows, times)


@part
def next_complete(worker: Record, slots: Slots, held: Batches, number: int) -> int:
    """The slot of a sequence that the last step completed, taken out of the batch; UNSET if there is none."""
    if worker.batch == 0 or held.heap[number, 0] >> SLOT_BITS != worker.done:
        return UNSET
    place = heaps.pop(held.heap[number], worker.batch) & SLOT_MASK
    slot = slots.of[place]
    worker.batch -= 1
    worker.resident -= slot.prompt + slot.output
    slot.stall = max(slot.stall, longest_since(worker, held, number, slot.since))
    if worker.batch == 0:
        worker.gaps = 0
    return place


@rare
def charge_unfinished(pool: Pool, workers: Records, slots: Slots, windows: Windows) -> None:
    """The clock ends: of runs that go on, the steps that have ended count, and of the one that has begun the time until then."""
    gamma = pool.times.gamma
    for number in range(workers.size):
        worker = workers[number]
        if worker.does not in (STEPPING, CHUNK_STEP, CHUNK_RUN):
            continue
        ended = min(worker.steps, steps_until(worker, gamma, LAST_TICK + 1 - worker.begin)) - 1
        worker.steps = ended
        worker.due = worker.begin + run_ticks(worker, gamma, ended)
        if ended > 0:
            charge_steps(worker, windows, pool.times)
            worker.held += growth(pool.memory) * worker.batch * ended
            worker.peak = max(worker.peak, worker.held - _moved_since(pool, slots, number, worker.due))
        _charge_part(worker, windows, pool.times, worker.resident + worker.batch * ended)


@part
def _charge_part(worker: Record, windows: Windows, times: Times, resident: int) -> None:
    """Of a step that begins when the worker's run ends and is not over when the clock ends: decode first, prefill in what is left."""
    base, left = times.base[worker.batch], LAST_TICK - worker.due
    whole = float(base) + float(times.gamma) * float(resident)
    decode = min(base + times.gamma * resident, left) if whole < COUNTABLE else left
    worker.decode += decode
    worker.prefill += left - decode
    add_work(worker, windows, worker.due, left - decode + max(0, decode - times.base[0]))


@part
def _moved_since(pool: Pool, slots: Slots, number: int, tick: int) -> int:
    """Bytes that decode worker ``number`` holds of transfers that began at ``tick`` or later: nothing of them has ended."""
    held = 0
    for place in range(slots.free[-1]):
        slot = slots.of[place]
        if slot.transfer_start >= tick and slot.target == number:
            held += hold(pool.memory, slot.prompt, slot.tokens, slot.output)
    return held
