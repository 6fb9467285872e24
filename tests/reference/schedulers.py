"""The schedulers of the reference simulation, step by step: prefill first, chunked, and the two pools of a separated one."""

from collections.abc import Callable
from functools import partial

from tests.reference.engine import Clock, Costs, Line, Pool, Request, Worker


class PrefillFirst(Pool):
    """Aggregated: a worker runs the prompts that wait, one whole prompt at a time, before its next decode step.

    The end of a prefill emits the first token. A prompt is started only where a slot is free.
    """

    def boundary(self, worker: Worker) -> None:
        """A prompt, else a decode step, else nothing."""
        if len(worker.line) and len(worker.batch) < self.costs.slots:
            request = worker.line.next()
            request.prefill_start = self.clock.now
            duration = self.costs.prefill(request)
            worker.prefill_busy += duration
            self.clock.after(duration, partial(self.end_prefill, worker, request))
        elif worker.batch:
            self.start_step(worker)
        else:
            self.rest(worker)

    def end_prefill(self, worker: Worker, request: Request) -> None:
        """The first token; the sequence joins the batch, unless that was all."""
        request.prefill_end = self.clock.now
        if not request.token(self.clock.now):
            worker.batch.append(request)
        self.boundary(worker)


class Chunked(Pool):
    """A step carries one token of every sequence that decodes, and prompt tokens up to the budget.

    The prompt tokens of a step come from one prompt after the other: where one ends within the budget, the next begins
    in the same step (as in vLLM and Sarathi-Serve). Each piece of a prompt costs `d`. A prompt whose last piece is in a
    step has its first token when the step ends. Slots count prompts that have begun.
    """

    def __init__(
        self, clock: Clock, costs: Costs, size: int, round_robin: bool, shortest_first: bool, budget: int
    ) -> None:
        super().__init__(clock, costs, size, round_robin, shortest_first)
        self.budget = budget

    def boundary(self, worker: Worker) -> None:
        """One step of decode tokens and pieces of prompts, or nothing."""
        decode = len(worker.batch)
        pieces = self.pieces(worker, self.budget - decode)
        if not decode and not pieces:
            self.rest(worker)
            return
        prefill = sum(self.costs.piece(first, last) for _, first, last in pieces)
        for request in worker.batch:
            if request.decode_start == 0.0:
                request.decode_start = self.clock.now
        step = self.costs.decode(decode, worker.resident())
        worker.prefill_busy += prefill
        worker.decode_busy += step
        self.clock.after(step + prefill, partial(self.end_chunked_step, worker, pieces))

    def pieces(self, worker: Worker, room: int) -> list[tuple[Request, int, int]]:
        """Pieces (request, first token, one past the last) that fill `room` tokens: first prompts that have begun."""
        pieces: list[tuple[Request, int, int]] = []
        begun = list(worker.prefilling)
        while room > 0:
            if begun:
                request = begun.pop(0)
            elif len(worker.line) and len(worker.batch) + len(worker.prefilling) < self.costs.slots:
                request = worker.line.next()
                request.prefill_start = self.clock.now
                request.computed = request.hit
                worker.prefilling.append(request)
            else:
                break
            length = min(room, request.prompt - request.computed)
            pieces.append((request, request.computed, request.computed + length))
            room -= length
        return pieces

    def end_chunked_step(self, worker: Worker, pieces: list[tuple[Request, int, int]]) -> None:
        """Tokens of the batch, then first tokens of the prompts that are complete; those join the batch."""
        self.emit(worker)
        now = self.clock.now
        for request, _, last in pieces:
            request.computed = last
            if last == request.prompt:
                request.prefill_end = now
                worker.prefilling.remove(request)
                if not request.token(now):
                    worker.batch.append(request)
        self.boundary(worker)


class Prefill(Pool):
    """The prefill pool of a separated topology: whole prompts, one at a time per worker."""

    done: Callable[[Request], None]
    first_token_here: bool

    def boundary(self, worker: Worker) -> None:
        """The next prompt, or nothing."""
        if not len(worker.line):
            self.rest(worker)
            return
        request = worker.line.next()
        request.prefill_start = self.clock.now
        duration = self.costs.prefill(request)
        worker.prefill_busy += duration
        self.clock.after(duration, partial(self.end_prefill, worker, request))

    def end_prefill(self, worker: Worker, request: Request) -> None:
        """Hand the prompt over to the links."""
        request.prefill_end = self.clock.now
        complete = self.first_token_here and request.token(self.clock.now)
        if not complete:
            self.done(request)
        self.boundary(worker)


class Links:
    """One line before `channels`; a transfer keeps one of them busy."""

    def __init__(self, clock: Clock, costs: Costs, channels: int, done: Callable[[Request], None]) -> None:
        self.clock = clock
        self.costs = costs
        self.channels = channels
        self.done = done
        self.free = channels
        self.line = Line()
        self.busy = 0.0

    def arrive(self, request: Request) -> None:
        """Wait for a channel."""
        self.line.join(request)
        self.begin()

    def begin(self) -> None:
        """Start the next transfer where a channel is free."""
        if self.free and len(self.line):
            request = self.line.next()
            self.free -= 1
            request.transfer_start = self.clock.now
            duration = self.costs.move(request)
            self.busy += duration
            self.clock.after(duration, partial(self.end, request))

    def end(self, request: Request) -> None:
        """The cache is at the decode pool; the channel takes the next."""
        request.transfer_end = self.clock.now
        self.free += 1
        self.begin()
        self.done(request)


class Decode(Pool):
    """The decode pool of a separated topology: a sequence joins the batch of its worker at the next step.

    least_loaded: the worker with the fewest sequences; while all slots are taken, one line before all workers.
    """

    def choose(self) -> Worker:
        """The worker in turn, or the one with the fewest sequences."""
        if self.round_robin:
            return super().choose()
        return min(self.workers, key=lambda worker: (len(worker.batch) + len(worker.joining), worker.index))

    def arrive(self, request: Request) -> None:
        """Join a worker that has a free slot, or wait for one."""
        worker = self.choose()
        if self.full(worker):
            worker.line.join(request)
        else:
            worker.joining.append(request)
            self.wake(worker)

    def full(self, worker: Worker) -> bool:
        """Whether all slots of the worker are taken."""
        return len(worker.batch) + len(worker.joining) >= self.costs.slots

    def boundary(self, worker: Worker) -> None:
        """A step of those that are there, or nothing."""
        while len(worker.line) and not self.full(worker):
            worker.joining.append(worker.line.next())
        worker.batch += worker.joining
        worker.joining = []
        if worker.batch:
            self.start_step(worker)
        else:
            self.rest(worker)


class Separated:
    """Disaggregated: a prefill pool, links, a decode pool."""

    def __init__(self, prefill: Prefill, links: Links, decode: Decode, first_token_source: str) -> None:
        self.prefill, self.links, self.decode = prefill, links, decode
        prefill.first_token_here = first_token_source == "prefill"
        prefill.done = links.arrive

    def arrive(self, request: Request) -> None:
        """Into the prefill pool."""
        self.prefill.arrive(request)


class Routed:
    """Prompts shorter than the threshold (tokens) to one pool, the others to the separated path."""

    def __init__(self, threshold: int, short: PrefillFirst | Chunked, long: Separated) -> None:
        self.threshold, self.short, self.long = threshold, short, long

    def arrive(self, request: Request) -> None:
        """By the length of the prompt."""
        (self.short if request.prompt < self.threshold else self.long).arrive(request)
