"""Events to come, by tick and then by number."""

import numpy as np

from pipelines.replay.compiled import part
from pipelines.replay.records import Agenda


def new_agenda(room: int) -> Agenda:
    """Nothing to come, and room for so many events."""
    return Agenda(np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64), np.zeros(1, dtype=np.int64))


def larger_agenda(agenda: Agenda) -> Agenda:
    """A copy with twice the room."""
    return Agenda(np.concatenate([agenda.tick, agenda.tick]), np.concatenate([agenda.tag, agenda.tag]), agenda.size)


@part
def later(agenda: Agenda, tick: int, tag: int) -> None:
    """``tag`` is to come at ``tick``."""
    place = agenda.size[0]
    agenda.size[0] += 1
    while place > 0:
        parent = (place - 1) >> 1
        if agenda.tick[parent] < tick or (agenda.tick[parent] == tick and agenda.tag[parent] < tag):
            break
        agenda.tick[place], agenda.tag[place] = agenda.tick[parent], agenda.tag[parent]
        place = parent
    agenda.tick[place], agenda.tag[place] = tick, tag


@part
def soonest(agenda: Agenda) -> int:
    """The tag of the next event, taken out."""
    found = agenda.tag[0]
    agenda.size[0] -= 1
    size = agenda.size[0]
    tick, tag = agenda.tick[size], agenda.tag[size]
    place, child = 0, 1
    while child < size:
        other = child + 1
        if other < size and (
            agenda.tick[other] < agenda.tick[child]
            or (agenda.tick[other] == agenda.tick[child] and agenda.tag[other] < agenda.tag[child])
        ):
            child = other
        if tick < agenda.tick[child] or (tick == agenda.tick[child] and tag <= agenda.tag[child]):
            break
        agenda.tick[place], agenda.tag[place] = agenda.tick[child], agenda.tag[child]
        place = child
        child = 2 * place + 1
    agenda.tick[place], agenda.tag[place] = tick, tag
    return found
