"""Lines that requests wait in: rings of their numbers, or heaps where the shortest goes first."""

import numpy as np

from pipelines.replay import heaps
from pipelines.replay.compiled import part
from pipelines.replay.records import Lines

REQUEST_BITS = 32
REQUEST_MASK = (1 << REQUEST_BITS) - 1


def new_lines(count: int, room: int, ordered: bool) -> Lines:
    """Empty lines with room for so many, a power of two."""
    places = (np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))
    return Lines(np.empty((count, room), dtype=np.int64), *places, ordered)


def larger(lines: Lines) -> Lines:
    """A copy with twice the room."""
    room = lines.ring.shape[1]
    copied = np.empty((lines.start.size, 2 * room), dtype=np.int64)
    for number, count in enumerate(lines.waiting):
        first = 0 if lines.ordered else lines.start[number]
        copied[number, :count] = lines.ring[number, (first + np.arange(count)) & (room - 1)]
        lines.start[number] = 0
    return Lines(copied, lines.start, lines.waiting, lines.ordered)


@part
def join(lines: Lines, number: int, one: int, rank: int) -> bool:
    """``one`` joins the line ``number``, in the order of ``rank`` if lines are ordered; whether it is its head now. There must be room."""
    count = lines.waiting[number]
    lines.waiting[number] = count + 1
    if lines.ordered:
        key = rank << REQUEST_BITS | one
        heaps.push(lines.ring[number], count, key)
        return lines.ring[number, 0] == key
    lines.ring[number, (lines.start[number] + count) & (lines.ring.shape[1] - 1)] = one
    return count == 0


@part
def head(lines: Lines, number: int) -> int:
    """Whose turn it is in a line that is not empty."""
    return lines.ring[number, 0] & REQUEST_MASK if lines.ordered else lines.ring[number, lines.start[number]]


@part
def leave(lines: Lines, number: int) -> None:
    """The head of the line ``number`` is taken."""
    if lines.ordered:
        heaps.pop(lines.ring[number], lines.waiting[number])
    else:
        lines.start[number] = (lines.start[number] + 1) & (lines.ring.shape[1] - 1)
    lines.waiting[number] -= 1
