"""A request on its way, and what is known of it at its end."""

from dataclasses import dataclass, field
from itertools import pairwise

from tests.replay.by_step_times import nanoseconds, ticks
from tests.replay.cases import Case

LANES = (
    "admission",
    "prefill_wait",
    "prefill_execution",
    "transfer_wait",
    "kv_movement",
    "decode_wait",
    "first_decode_step",
    "remaining_generation",
)


@dataclass(eq=False)
class Request:
    """One request, and the ticks at which something happened to it."""

    number: int
    """In the log, from 0."""
    position: int
    """In its path, from 0."""
    p: int
    h: int
    o: int
    arrival: int
    ready: int
    """When it has been admitted and joins a line."""
    move: int
    """Ticks until its cache arrives."""
    keep: int
    """Ticks that its transfer keeps a channel."""
    token_ticks: list[int] = field(default_factory=list)
    prefill_start: int | None = None
    prefill_end: int | None = None
    transfer_start: int | None = None
    arrived: int | None = None
    decode_start: int | None = None
    first_step_end: int | None = None
    preemptions: int = 0
    swapped_out: bool = False
    """Its cache is on the host."""
    lost: bool = False
    """It was preempted, and its cache is gone."""

    @property
    def t(self) -> int:
        """Tokens emitted so far."""
        return len(self.token_ticks)

    @property
    def complete(self) -> bool:
        return self.t == self.o

    def emit(self, began: int, now: int) -> None:
        """Emits a token at the end of an activity that began then."""
        self.token_ticks.append(now)
        if self.prefill_end is None:
            self.prefill_end = now
        elif self.decode_start is None:
            self.decode_start, self.first_step_end = began, now


@dataclass(frozen=True)
class Record:
    """A complete request: its stamps and lanes in ticks, and which objectives it met."""

    number: int
    arrival: int
    ready: int
    prefill_start: int
    prefill_end: int
    transfer_start: int | None
    arrived: int | None
    decode_start: int | None
    first_step_end: int | None
    first_token: int
    last_token: int
    tokens: tuple[int, ...]
    """When each token was emitted."""
    lanes: dict[str, int]
    output_tokens: int
    stall: int
    preemptions: int
    met_ttft: bool
    met_tpot: bool
    met_e2e: bool
    met_stall: bool

    @property
    def ttft(self) -> int:
        return self.first_token - self.arrival

    @property
    def e2e(self) -> int:
        return self.last_token - self.arrival

    @property
    def generation(self) -> int:
        return self.last_token - self.first_token

    @property
    def met_modeled(self) -> bool:
        return self.met_ttft and self.met_tpot and self.met_e2e

    @property
    def met(self) -> bool:
        return self.met_modeled and self.met_stall


def requests_of(case: Case, numbers: list[int]) -> list[Request]:
    """The requests of one path, by their numbers in the log; tick 0 is the first arrival of the whole log."""
    per_second = case.ticks_per_second
    admission = ticks(nanoseconds(case.admission), per_second)
    requests = []
    for position, number in enumerate(numbers):
        at, p, h, o = case.requests[number]
        arrival = ticks(at - case.requests[0][0], per_second)
        move, keep = (ticks(max(1, nanoseconds(seconds[number])), per_second) for seconds in (case.move_s, case.keep_s))
        requests.append(Request(number, position, p, h, o, arrival, arrival + admission, move, keep))
    return requests


def record_of(request: Request, case: Case, prefill_emits: bool) -> Record:
    """What a complete request has met."""
    emitted = request.token_ticks
    assert len(emitted) == request.o
    assert all(earlier < later for earlier, later in pairwise(emitted))
    assert request.prefill_start is not None
    assert request.prefill_end is not None
    lanes = _lanes(request)
    e2e, ttft = emitted[-1] - request.arrival, emitted[0] - request.arrival
    before_the_first_token = LANES[:3] if prefill_emits else LANES[:7]
    assert all(lane >= 0 for lane in lanes.values())
    assert sum(lanes.values()) == e2e
    assert sum(lanes[name] for name in before_the_first_token) == ttft
    stall = max((later - earlier for earlier, later in pairwise(emitted)), default=0)
    met = _met(request, case, ttft, e2e, stall)
    return Record(
        number=request.number,
        arrival=request.arrival,
        ready=request.ready,
        prefill_start=request.prefill_start,
        prefill_end=request.prefill_end,
        transfer_start=request.transfer_start,
        arrived=request.arrived,
        decode_start=request.decode_start,
        first_step_end=request.first_step_end,
        first_token=emitted[0],
        last_token=emitted[-1],
        tokens=tuple(emitted),
        lanes=lanes,
        output_tokens=request.o,
        stall=stall,
        preemptions=request.preemptions,
        **met,
    )


def _lanes(request: Request) -> dict[str, int]:
    """The time from each stamp to the next one; a stamp that the request does not have falls on the one before it."""
    stamps = (
        request.ready,
        request.prefill_start,
        request.prefill_end,
        request.transfer_start,
        request.arrived,
        request.decode_start,
        request.first_step_end,
        request.token_ticks[-1],
    )
    lanes, before = {}, request.arrival
    for name, stamp in zip(LANES, stamps, strict=True):
        here = before if stamp is None else stamp
        lanes[name], before = here - before, here
    return lanes


def _met(request: Request, case: Case, ttft: int, e2e: int, stall: int) -> dict[str, bool]:
    """Which objectives of its bucket a request meets."""
    limits = case.objectives
    bucket = sum(edge <= request.p for edge in limits.edges)

    def within(figure: int, seconds: float | None, times: int = 1) -> bool:
        return seconds is None or figure <= ticks(nanoseconds(seconds), case.ticks_per_second) * times

    return {
        "met_ttft": within(ttft, limits.ttft[bucket]),
        "met_tpot": within(e2e - ttft, limits.tpot[bucket], request.o - 1),
        "met_e2e": within(e2e, limits.e2e[bucket]),
        "met_stall": within(stall, limits.stall),
    }
