"""The longest time between two steps of a worker since any of them: a stack whose times fall from bottom to top.

A sequence in the batch sees every time between steps from the one on that it joined with. Of two times the later one hides the earlier
if it is as long, so that only those are kept that nothing later is as long as.
"""

from pipelines.replay.compiled import part, rare
from pipelines.replay.records import SLOT_MASK, Batches, Record, Slots


@part
def add_gap(worker: Record, slots: Slots, held: Batches, number: int, ticks: int) -> None:
    """The next time between steps of worker ``number``."""
    count = worker.gaps
    while count > 0 and held.gap[number, count - 1] <= ticks:
        count -= 1
    if count == held.gap.shape[1]:
        count = _kept(worker, slots, held, number, count)
    held.gap[number, count] = ticks
    held.since[number, count] = worker.gap_number
    worker.gaps = count + 1
    worker.gap_number += 1


@part
def longest_since(worker: Record, held: Batches, number: int, since: int) -> int:
    """The longest time between steps from the one of number ``since`` on; 0 if there is none."""
    low, high = 0, worker.gaps
    while low < high:
        middle = (low + high) >> 1
        if held.since[number, middle] >= since:
            high = middle
        else:
            low = middle + 1
    return held.gap[number, low] if low < worker.gaps else 0


@rare
def _kept(worker: Record, slots: Slots, held: Batches, number: int, count: int) -> int:
    """How many entries are left when those go that no sequence of the batch asks for."""
    asked = held.since[number]
    marked = 0
    for place in range(count):
        earlier = asked[place - 1] if place > 0 else -1
        wanted = False
        for member in range(worker.batch):
            since = slots.of[held.heap[number, member] & SLOT_MASK].since
            if earlier < since <= asked[place]:
                wanted = True
                break
        if wanted:
            held.gap[number, marked] = held.gap[number, place]
            held.since[number, marked] = asked[place]
            marked += 1
    return marked
