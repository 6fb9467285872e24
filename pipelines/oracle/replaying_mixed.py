"""Replays a pool that does both phases: prefill first, or chunked (docs/replay/prefill-first.md, docs/replay/chunked.md)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from .replaying import Ground, Lines, Request, Tally, Worker, Workers
from .ticking import LAST_TICK, Clock

POOL = "mixed"


class MixedPool:
    """The workers of a mixed pool, and the lines before them; with a chunk budget prompts come in pieces."""

    def __init__(self, ground: Ground, clock: Clock, workers: int, budget: int | None) -> None:
        """Everything is empty."""
        self.clock, self.budget = clock, budget
        self.own = ground.pool(workers, clock.base(0))
        self.tally = Tally({POOL: self.own})
        self.pool = Workers(clock, clock, self.tally, self.own, workers)
        self.lines = Lines(ground.dispatch, workers, shortest_first=ground.shortest_first)
        self.there = [0] * workers
        """Requests of each worker that has a line of its own: waiting, being prefilled, decoding, returning."""

    def replay(self, requests: Sequence[Request]) -> Tally:
        """Send requests through, in the order in which they come; return what was counted."""
        for request in requests:
            self.pool.measure(request)
        ends: list[tuple[int, int]] = []
        place, workers = 0, self.pool.workers
        while ends or place < len(requests):
            arrival = requests[place].comes if place < len(requests) else LAST_TICK + 1
            now = min(arrival, ends[0][0]) if ends else arrival
            if now > LAST_TICK:
                break
            while ends and ends[0][0] == now:
                self._end(workers[heapq.heappop(ends)[1]], now)
            while place < len(requests) and requests[place].comes == now:
                self._arrive(requests[place])
                place += 1
            for worker in workers:
                ticks = 0 if worker.running else self.choose(worker, now)
                if ticks:
                    heapq.heappush(ends, (now + ticks, worker.number))
            self.tally.peak_queue = max(self.tally.peak_queue, self.lines.waiting)
        return self.tally

    def _arrive(self, request: Request) -> None:
        worker = self.lines.join(request, self.there)
        if worker is not None:
            self.there[worker] += 1
            request.home = worker

    def _end(self, worker: Worker, now: int) -> None:
        for _ in self.pool.end(worker, now):
            self.there[worker.number] -= 1

    def choose(self, worker: Worker, now: int) -> int:
        """Choose what a worker runs next; return how long it takes, 0 where it rests."""
        return self._choose_prompt_first(worker, now) if self.budget is None else self._choose_step(worker, now)

    def _next(self, worker: Worker) -> Request | None:
        """The top of those that return, or else the head of the line."""
        return worker.returning[-1] if worker.returning else self.lines.before(worker.number).head()

    def _take(self, worker: Worker) -> Request:
        return worker.returning.pop() if worker.returning else self.lines.before(worker.number).take()

    def _choose_prompt_first(self, worker: Worker, now: int) -> int:
        request = self._next(worker)
        if request is not None and len(worker.batch) < self.pool.slots and self.pool.fits(worker, request):
            self._take(worker)
            run = self.pool.swap_in if request.swapped else self.pool.prefill
            return run(worker, request, now)
        if not worker.batch:
            return 0
        moved = self.pool.make_room(worker)
        return self.pool.swap_out(worker, moved, now) if moved else self.pool.step(worker, now)

    def _choose_step(self, worker: Worker, now: int) -> int:
        moved = self.pool.make_room(worker)
        if moved:
            return self.pool.swap_out(worker, moved, now)
        request = worker.returning[-1] if worker.returning else None
        if request is not None and request.swapped and worker.partial is None and self._has_room(worker, request, 0):
            return self.pool.swap_in(worker, self._take(worker), now)
        pieces = self._pieces(worker)
        if not worker.batch and not pieces:
            return 0
        decode = self.pool.step_ticks(worker)
        prefill = self.clock.pieces(pieces, beside=bool(worker.batch)) if pieces else 0
        worker.running = "step"
        self.own.add(now, decode=decode, prefill=prefill)
        return decode + prefill

    def _has_room(self, worker: Worker, request: Request, begun: int) -> bool:
        """Whether a slot is left beside the batch and the prompts that have begun, and the request fits."""
        return len(worker.batch) + begun < self.pool.slots and self.pool.fits(worker, request)

    def _pieces(self, worker: Worker) -> list[tuple[int, int]]:
        """Fill the room of a step with pieces `(x, y)` of prompts, each after what is in the cache of it."""
        room, pieces = (self.budget or 0) - len(worker.batch), []
        begun = 0 if worker.partial is None else 1
        while room > 0:
            request = worker.partial
            if request is None:
                request = self._next(worker)
                if request is None or request.swapped or not self._has_room(worker, request, begun):
                    break
                self._begin(worker, self._take(worker))
                begun += 1
            left = request.prompt + request.tokens - request.computed
            tokens = min(room, left)
            pieces.append((request.computed, tokens))
            request.computed += tokens
            room -= tokens
            worker.partial = request if tokens < left else None
            if tokens == left:
                worker.finishing.append(request)
        return pieces

    def _begin(self, worker: Worker, request: Request) -> None:
        """Begin a prompt: behind what the prefix cache holds of it."""
        worker.used += self.pool.hold(request)
        request.computed = request.cached
        if request.preempted:
            self.tally.recomputed += request.prompt + request.tokens - request.cached
