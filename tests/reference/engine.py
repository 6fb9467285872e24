"""What every scheduler of the reference simulation shares: a clock, requests, costs, and the lines that prompts wait in.

All times are in seconds, all lengths in tokens. Nothing here is fast; everything is meant to be checked by eye.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

Action = Callable[[], None]


@dataclass(slots=True)
class Request:
    """One request, and when (s) what happened to it."""

    number: int
    arrival: float
    """When it comes in (s)."""
    prompt: int
    """Tokens of its prompt."""
    output: int
    """Tokens it generates (at least 1)."""
    hit: int = 0
    """Tokens of its prompt that the prefix cache holds."""
    prefill_start: float = 0.0
    prefill_end: float = 0.0
    transfer_start: float = 0.0
    transfer_end: float = 0.0
    decode_start: float = 0.0
    """Start (s) of the first decode step that it takes part in."""
    first_token: float = 0.0
    second_token: float = 0.0
    last_token: float = 0.0
    longest_gap: float = 0.0
    """Longest time (s) between two of its tokens."""
    tokens: int = 0
    """Tokens it has by now."""
    computed: int = 0
    """Prompt tokens in the cache by now, hits included (chunked)."""

    @property
    def uncached(self) -> int:
        """Prompt tokens that prefill has to compute."""
        return self.prompt - self.hit

    @property
    def ttft(self) -> float:
        """Time to the first token (s)."""
        return self.first_token - self.arrival

    @property
    def e2e(self) -> float:
        """Time to the last token (s)."""
        return self.last_token - self.arrival

    def token(self, now: float) -> bool:
        """One more token at `now` (s); whether it was the last."""
        self.tokens += 1
        if self.tokens == 1:
            self.first_token = now
        else:
            self.longest_gap = max(self.longest_gap, now - self.last_token)
        if self.tokens == 2:
            self.second_token = now
        self.last_token = now
        return self.tokens == self.output


@dataclass(frozen=True, slots=True)
class Costs:
    """Service times of one worker and of one transfer, with the symbols of docs/arithmetic.md."""

    d: float
    """Overhead of a prefill, or of a chunk (s)."""
    r_p: float
    """Prefill rate (tokens/s)."""
    t0: float
    """Overhead of a decode step (s)."""
    r_d: float
    """Saturated decode rate (tokens/s)."""
    q: float = 0.0
    """Attention of prefill (s/token^2)."""
    gamma: float = 0.0
    """Attention of decode (s per resident token and step)."""
    slots: int = 1_000_000
    """Sequences a worker holds at most."""
    transfer: float = 0.0
    """Fixed time of a transfer (s)."""
    transfer_token: float = 0.0
    """Time of a transfer per prompt token (s/token)."""

    def piece(self, first: int, last: int) -> float:
        """Time (s) to prefill the prompt tokens `first` (inclusive) to `last` (exclusive), in one go."""
        return self.d + (last - first) / self.r_p + self.q * (last * last - first * first)

    def prefill(self, request: Request) -> float:
        """Time (s) to prefill a whole prompt: S = d + u/r_p + q·z."""
        return self.piece(request.hit, request.prompt)

    def decode(self, sequences: int, resident: int) -> float:
        """Time (s) of one decode step over `sequences` that hold `resident` tokens together."""
        return self.t0 + sequences / self.r_d + self.gamma * resident

    def move(self, request: Request) -> float:
        """Time (s) that a transfer keeps a channel busy."""
        return self.transfer + self.transfer_token * request.prompt


class Clock:
    """Runs actions in order of time (s); those of one time in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self._agenda: list[tuple[float, int, Action]] = []
        self._asked = 0

    def at(self, time: float, action: Action) -> None:
        """Run `action` at `time` (s)."""
        self._asked += 1
        heapq.heappush(self._agenda, (time, self._asked, action))

    def after(self, duration: float, action: Action) -> None:
        """Run `action` when `duration` (s) has passed."""
        self.at(self.now + duration, action)

    def run(self) -> None:
        """Run until nothing is left to do."""
        while self._agenda:
            self.now, _, action = heapq.heappop(self._agenda)
            action()


class Line:
    """Requests that wait: first in, first out, or the one with the fewest uncached tokens first."""

    def __init__(self, shortest_first: bool = False) -> None:
        self._heap: list[tuple[int, int, Request]] = []
        self._shortest_first = shortest_first
        self._joined = 0

    def __len__(self) -> int:
        return len(self._heap)

    def join(self, request: Request) -> None:
        """Wait at the end of the line, or before all that are longer."""
        self._joined += 1
        rank = request.uncached if self._shortest_first else 0
        heapq.heappush(self._heap, (rank, self._joined, request))

    def next(self) -> Request:
        """The request whose turn it is."""
        return heapq.heappop(self._heap)[2]


@dataclass(slots=True, eq=False)
class Worker:
    """One worker: what it decodes, and how long it was busy (s)."""

    index: int
    line: Line
    batch: list[Request] = field(default_factory=list)
    """Sequences that take part in every decode step."""
    joining: list[Request] = field(default_factory=list)
    """Sequences that join the batch at the next step."""
    prefilling: list[Request] = field(default_factory=list)
    """Prompts that are partly computed, oldest first."""
    idle: bool = True
    idle_since: float = 0.0
    prefill_busy: float = 0.0
    decode_busy: float = 0.0

    def resident(self) -> int:
        """Tokens in the cache during the next step of the batch: prompts, earlier tokens, and the one that is made."""
        return sum(request.prompt + request.tokens for request in self.batch)


class Pool:
    """Workers and their lines: one line for all (least_loaded) or one each, filled in turn (round_robin)."""

    def __init__(self, clock: Clock, costs: Costs, size: int, round_robin: bool, shortest_first: bool) -> None:
        self.clock = clock
        self.costs = costs
        self.round_robin = round_robin
        shared = Line(shortest_first)
        self.workers = [Worker(i, Line(shortest_first) if round_robin else shared) for i in range(size)]
        self._turn = 0

    def choose(self) -> Worker:
        """Whose line the next request joins; with one line for all, also the worker that is told: one that is idle."""
        if self.round_robin:
            worker = self.workers[self._turn % len(self.workers)]
            self._turn += 1
            return worker
        return min(self.workers, key=lambda worker: (not worker.idle, worker.idle_since))

    def arrive(self, request: Request) -> None:
        """Join a line; an idle worker starts at once."""
        worker = self.choose()
        worker.line.join(request)
        self.wake(worker)

    def wake(self, worker: Worker) -> None:
        """Let a worker that does nothing look for work."""
        if worker.idle:
            worker.idle = False
            self.boundary(worker)

    def rest(self, worker: Worker) -> None:
        """Nothing to do until something arrives."""
        worker.idle, worker.idle_since = True, self.clock.now

    def boundary(self, worker: Worker) -> None:
        """Nothing runs on the worker now: what does it run next?"""
        raise NotImplementedError

    def start_step(self, worker: Worker) -> None:
        """Decode one step of the batch."""
        for request in worker.batch:
            if request.decode_start == 0.0:
                request.decode_start = self.clock.now
        duration = self.costs.decode(len(worker.batch), worker.resident())
        worker.decode_busy += duration
        self.clock.after(duration, partial(self.end_step, worker))

    def end_step(self, worker: Worker) -> None:
        """Every sequence of the batch has one more token; those that are complete leave."""
        self.emit(worker)
        self.boundary(worker)

    def emit(self, worker: Worker) -> None:
        """One token for every sequence of the batch."""
        now = self.clock.now
        worker.batch = [request for request in worker.batch if not request.token(now)]
