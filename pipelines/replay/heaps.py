"""Binary heaps of int64 keys in the first ``size`` places of an array, smallest first."""

from pipelines.replay.compiled import part, wide
from pipelines.replay.records import Int64s


@part
def push(heap: Int64s, size: int, key: int) -> None:
    """Add ``key`` to a heap of ``size`` keys."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent] <= key:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = key


@part
def pop(heap: Int64s, size: int) -> int:
    """Take the smallest key out of a heap of ``size`` keys."""
    smallest = heap[0]
    _settle(heap, size - 1, wide(0), heap[size - 1])
    return smallest


@part
def remove(heap: Int64s, size: int, place: int) -> None:
    """Take out the key at ``place``."""
    key = heap[size - 1]
    if place == size - 1:
        return
    if place > 0 and heap[(place - 1) >> 1] > key:
        while place > 0 and heap[(place - 1) >> 1] > key:
            heap[place] = heap[(place - 1) >> 1]
            place = (place - 1) >> 1
        heap[place] = key
    else:
        _settle(heap, size - 1, place, key)


@part
def _settle(heap: Int64s, size: int, place: int, key: int) -> None:
    """Put ``key`` where it belongs at or below ``place`` of a heap of ``size`` keys."""
    child = 2 * place + 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if key <= heap[child]:
            break
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = key
