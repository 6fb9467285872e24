"""What the replays of all schedulers share: requests, lines, workers that hold memory, and what is counted (docs/replay.md)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .ticking import Clock, Footprint, before_the_end, footprint_of, nearest

WINDOW_S = 60


class Request:
    """One request on its way: tokens emitted so far, when they were, and what became of its cache."""

    __slots__ = (
        "arrival", "cached", "comes", "computed", "first", "home", "last", "number", "outputs", "pending", "place",
        "preempted", "prompt", "stall", "start", "swapped", "tokens",
    )  # fmt: skip

    def __init__(self, place: int, arrival: int, prompt: int, cached: int, outputs: int) -> None:
        """It has not come yet; `place` is its number in the log, `arrival` in ticks."""
        self.place, self.arrival, self.prompt, self.cached, self.outputs = place, arrival, prompt, cached, outputs
        self.number = place
        """Its number on its path."""
        self.comes = arrival
        self.start = 0
        """Bytes that it holds before its first token; under `wait`, the whole of it."""
        self.tokens, self.first, self.last, self.stall = 0, 0, 0, 0
        self.preempted, self.swapped, self.computed = 0, False, 0
        self.home, self.pending = 0, 0
        """Its worker of the prefill pool, then what of its transfer is not over yet."""

    @property
    def uncached(self) -> int:
        """`p - h`."""
        return self.prompt - self.cached

    @property
    def complete(self) -> bool:
        """Whether it has all of its tokens."""
        return self.tokens == self.outputs

    def emit(self, now: int) -> None:
        """Have its next token now."""
        self.tokens += 1
        if self.tokens == 1:
            self.first = now
        elif now - self.last > self.stall:
            self.stall = now - self.last
        self.last = now


class Line:
    """Requests that wait: in the order in which they join, or the one with the fewest uncached tokens first."""

    def __init__(self, *, shortest_first: bool = False) -> None:
        """Nobody waits yet."""
        self._queue: deque[Request] = deque()
        self._ordered: list[tuple[int, int, Request]] = []
        self._shortest_first = shortest_first

    def __len__(self) -> int:
        """How many wait."""
        return len(self._ordered) if self._shortest_first else len(self._queue)

    def join(self, request: Request) -> None:
        """Wait."""
        if self._shortest_first:
            heapq.heappush(self._ordered, (request.uncached, request.number, request))
        else:
            self._queue.append(request)

    def head(self) -> Request | None:
        """Who is next."""
        if self._shortest_first:
            return self._ordered[0][2] if self._ordered else None
        return self._queue[0] if self._queue else None

    def take(self) -> Request:
        """Take the head."""
        return heapq.heappop(self._ordered)[2] if self._shortest_first else self._queue.popleft()


class Lines:
    """The lines before the workers of a pool, as `service.dispatch` says."""

    def __init__(self, dispatch: str, workers: int, *, shortest_first: bool) -> None:
        """One line before all, or one for each."""
        self._dispatch, self._workers = dispatch, workers
        own = 1 if dispatch == "least_loaded" else workers
        self._lines = [Line(shortest_first=shortest_first) for _ in range(own)]

    def before(self, worker: int) -> Line:
        """The line that a worker takes from."""
        return self._lines[0 if self._dispatch == "least_loaded" else worker]

    def join(self, request: Request, there: Sequence[int]) -> int | None:
        """Join a line, `there` being how many requests each worker has; return the worker if it is one worker's."""
        if self._dispatch == "least_loaded":
            self._lines[0].join(request)
            return None
        worker = request.number % self._workers
        if self._dispatch == "shortest_queue":
            worker = min(range(self._workers), key=lambda one: (there[one], one))
        self._lines[worker].join(request)
        return worker

    @property
    def waiting(self) -> int:
        """How many wait in all lines."""
        return sum(map(len, self._lines))


@dataclass
class PoolTally:
    """How long the workers of a pool did what, in ticks; the most that one held; and the work of each window."""

    workers: int
    idle_step: int
    """`base[0]`, which is no work that fills a worker up."""
    window: int
    windows: int
    """Ticks of a window, and how many there are."""
    work: dict[int, int] = field(default_factory=dict)
    prefill: int = 0
    decode: int = 0
    swap: int = 0
    peak: int = 0

    def add(self, now: int, *, prefill: int = 0, decode: int = 0, swap: int = 0) -> None:
        """Count an activity that begins now, its decode part before its prefill, as far as the clock goes."""
        decode, swap = before_the_end(now, decode), before_the_end(now, swap)
        prefill = before_the_end(now + decode, prefill)
        self.prefill, self.decode, self.swap = self.prefill + prefill, self.decode + decode, self.swap + swap
        at = now // self.window
        if at < self.windows:
            filling = prefill + swap + max(0, decode - self.idle_step)
            self.work[at] = self.work.get(at, 0) + filling


@dataclass
class Tally:
    """What is counted of one path."""

    pools: dict[str, PoolTally] = field(default_factory=dict)
    links: PoolTally | None = None
    preemptions: int = 0
    recomputed: int = 0
    swapped: int = 0
    peak_queue: int = 0
    peak_transfers: int = 0
    peak_arrived: int = 0


@dataclass(frozen=True)
class Ground:
    """What a path is replayed on: ticks of a second, windows of the log, and how requests reach workers."""

    ticks_per_s: int
    windows: int
    dispatch: str
    shortest_first: bool

    @property
    def window(self) -> int:
        """Ticks of a window."""
        return WINDOW_S * self.ticks_per_s

    def pool(self, workers: int, idle_step: int) -> PoolTally:
        """Nothing counted yet of so many workers."""
        return PoolTally(workers, idle_step, self.window, self.windows)


class Worker:
    """A worker that decodes: its batch, whom it preempted, the bytes that it holds (`U`), and what it runs."""

    __slots__ = ("arrived", "batch", "finishing", "number", "partial", "returning", "running", "used")

    def __init__(self, number: int) -> None:
        """It rests, and holds nothing."""
        self.number, self.used, self.running = number, 0, ""
        self.batch: list[Request] = []
        self.returning: list[Request] = []
        self.arrived = Line()
        """Sequences whose caches have arrived (decode pools only)."""
        self.partial: Request | None = None
        self.finishing: list[Request] = []
        """Whose prompts are done at the end of what it runs, or who are moved in."""

    @property
    def resident(self) -> int:
        """Tokens that a step reads."""
        return sum(one.prompt + one.tokens for one in self.batch)


class Workers:
    """A pool that decodes, at work: memory, preemption, and the activities that all such pools have."""

    def __init__(self, clock: Clock, prefill: Clock, tally: Tally, own: PoolTally, count: int) -> None:
        """`clock` has the times of decode steps, `prefill` those of prompts."""
        self.clock, self.prefill_clock, self.tally, self.own = clock, prefill, tally, own
        self.footprint: Footprint = footprint_of(clock.of)
        self.memory = nearest(clock.of.kv_memory_bytes)
        self.slots = int(clock.of.max_sequences)
        self.swaps = clock.of.when_memory_is_full == "swap"
        self.token_bytes = 0 if self.footprint.whole else self.footprint.growth
        self.workers = [Worker(number) for number in range(count)]

    def measure(self, request: Request) -> None:
        """Note what a request holds here before its first token, or from the beginning on."""
        whole = self.footprint.complete if self.footprint.whole else self.footprint.prompt
        request.start = whole(request.prompt, request.outputs)

    def hold(self, request: Request) -> int:
        """Bytes that a request holds with the tokens that it has."""
        return request.start + self.token_bytes * request.tokens

    def fits(self, worker: Worker, request: Request) -> bool:
        """`U + hold ≤ M`."""
        return worker.used + self.hold(request) <= self.memory

    def make_room(self, worker: Worker) -> list[Request]:
        """Preempt who was taken last until the rest fits, or one is left; return the victims whose cache is moved out."""
        moved: list[Request] = []
        while worker.used > self.memory and len(worker.batch) + (worker.partial is not None) > 1:
            partial = worker.partial
            victim = partial if partial is not None else worker.batch.pop()
            worker.partial = None
            worker.used -= self.hold(victim)
            worker.returning.append(victim)
            victim.preempted += 1
            self.tally.preemptions += 1
            victim.swapped = self.swaps and partial is None
            if victim.swapped:
                self.tally.swapped += self.hold(victim)
                moved.append(victim)
        return moved

    def swap_out(self, worker: Worker, victims: Sequence[Request], now: int) -> int:
        """Move caches to the host; return how long it takes."""
        ticks = sum(self.clock.moved_to_host(self.hold(victim)) for victim in victims)
        worker.running = "swap out"
        self.own.add(now, swap=ticks)
        return ticks

    def swap_in(self, worker: Worker, request: Request, now: int) -> int:
        """Move a cache back; return how long it takes."""
        worker.used += self.hold(request)
        self.tally.swapped += self.hold(request)
        ticks = self.clock.moved_to_host(self.hold(request))
        worker.running, worker.finishing, request.swapped = "swap in", [request], False
        self.own.add(now, swap=ticks)
        return ticks

    def prefill(self, worker: Worker, request: Request, now: int) -> int:
        """Run a whole prompt, and again what was emitted of a request that was preempted; return how long it takes."""
        worker.used += self.hold(request)
        left = request.prompt + request.tokens - request.cached
        if request.preempted:
            self.tally.recomputed += left
        ticks = self.prefill_clock.prompt(request.cached, left)
        worker.running, worker.finishing = "prefill", [request]
        self.own.add(now, prefill=ticks)
        return ticks

    def step(self, worker: Worker, now: int) -> int:
        """Decode a token of every sequence of the batch; return how long it takes."""
        ticks = self.step_ticks(worker)
        worker.running = "step"
        self.own.add(now, decode=ticks)
        return ticks

    def step_ticks(self, worker: Worker) -> int:
        """`base[b] + γ·resident`, without prompts."""
        per_token = self.clock.per_resident_token
        return self.clock.base(len(worker.batch)) + (per_token * worker.resident if per_token else 0)

    def end(self, worker: Worker, now: int) -> list[Request]:
        """What a worker ran ends: tokens are emitted, who is complete leaves; return who that is."""
        running, finishing, batch = worker.running, worker.finishing, worker.batch
        worker.running, worker.finishing = "", []
        left: list[Request] = []
        emitted = 0
        if running == "step":
            emitted = len(batch)
            for request in batch:
                tokens = request.tokens = request.tokens + 1
                if tokens == 1:
                    request.first = now
                elif now - request.last > request.stall:
                    request.stall = now - request.last
                request.last = now
            left = [request for request in batch if request.tokens == request.outputs]
            if left:
                worker.batch = [request for request in batch if request.tokens < request.outputs]
        if running != "swap in":
            for request in finishing:
                request.emit(now)
            emitted += len(finishing)
        worker.used += self.token_bytes * emitted
        self.own.peak = max(self.own.peak, worker.used)
        worker.batch += [request for request in finishing if not request.complete]
        left += [request for request in finishing if request.complete]
        worker.used -= sum(self.hold(request) for request in left)
        return left
