"""Replays a separated path: a prefill pool, links and a decode pool (docs/replay/separated.md)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from .replaying import Ground, Line, Lines, Request, Tally, Worker, Workers
from .ticking import LAST_TICK, Clock, footprint_of, nearest
from .transfers import channels

PREFILL, DECODE = "prefill", "decode"
_PROMPT_ENDS, _CACHE_ARRIVES, _DECODER_ENDS, _CHANNEL_ENDS = range(4)
"""What ends at one instant, in this order."""


class SeparatedPath:
    """Both pools and the links between them."""

    def __init__(self, ground: Ground, clock: Clock, prefill_workers: int, decode_workers: int) -> None:
        """Everything is empty."""
        of = clock.of
        self.clock, self.round_robin = clock, ground.dispatch == "round_robin"
        self.early = not of.decode_emits_first_token
        self.own = ground.pool(prefill_workers, 0)
        decode = ground.pool(decode_workers, clock.base(0))
        self.tally = Tally({PREFILL: self.own, DECODE: decode})
        self.decoders = Workers(clock, clock, self.tally, decode, decode_workers)
        self.footprint, self.prefill_memory = footprint_of(of), nearest(of.kv_memory_prefill_bytes)
        self.lines = Lines(ground.dispatch, prefill_workers, shortest_first=ground.shortest_first)
        self.prompts: list[Request | None] = [None] * prefill_workers
        self.used, self.there = [0] * prefill_workers, [0] * prefill_workers
        """`U_p` of each prefill worker, and the requests that wait at it or are being prefilled."""
        self.sharing = of.link_sharing
        lines = {"shared": 1, "per_prefill_worker": prefill_workers, "per_decode_worker": decode_workers}[self.sharing]
        self.links = [Line() for _ in range(lines)]
        self.free = [channels(of)] * lines
        self.tally.links = ground.pool(lines * channels(of), 0)
        self.decoder_of: dict[int, int] = {}
        self.charged = [0] * decode_workers
        """Requests that have each decode worker as theirs and are not complete."""
        self.assigned = self.started = 0
        self.ends: list[tuple[int, int, int, Any]] = []

    def replay(self, requests: Sequence[Request]) -> Tally:
        """Send requests through, in the order in which they come; return what was counted."""
        for request in requests:
            self.decoders.measure(request)
        place, ends = 0, self.ends
        while ends or place < len(requests):
            arrival = requests[place].comes if place < len(requests) else LAST_TICK + 1
            now = min(arrival, ends[0][0]) if ends else arrival
            if now > LAST_TICK:
                break
            while ends and ends[0][0] == now:
                _, kind, number, what = heapq.heappop(ends)
                self._end(kind, number, what, now)
            while place < len(requests) and requests[place].comes == now:
                worker = self.lines.join(requests[place], self.there)
                if worker is not None:
                    self.there[worker] += 1
                place += 1
            self._choose(now)
        return self.tally

    def _end(self, kind: int, number: int, what: Any, now: int) -> None:
        if kind == _PROMPT_ENDS:
            self._end_prompt(number, now)
        elif kind == _CACHE_ARRIVES:
            self.decoders.workers[self.decoder_of[what.place]].arrived.join(what)
            self._over(what)
        elif kind == _DECODER_ENDS:
            self.charged[number] -= len(self.decoders.end(self.decoders.workers[number], now))
        else:
            line, request = what
            self.free[line] += 1
            self._over(request)

    def _over(self, request: Request) -> None:
        """A cache has arrived, or its channel is free; when both are over, the prefill worker forgets it."""
        request.pending -= 1
        if not request.pending:
            self.used[request.home] -= self._prompt_bytes(request)

    def _prompt_bytes(self, request: Request) -> int:
        """`hold_p`: what a prompt holds at its prefill worker."""
        return self.footprint.prompt(request.prompt, request.outputs)

    def _end_prompt(self, number: int, now: int) -> None:
        """A prompt is done: its first token, if it is emitted here, a decode worker, and the line of its links."""
        request = self.prompts[number]
        if request is None:
            raise ValueError(f"prefill worker {number} ran nothing")
        self.prompts[number] = None
        self.own.peak = max(self.own.peak, self.used[number])
        self.there[number] -= 1
        if self.early:
            request.emit(now)
            if request.complete:
                self.used[number] -= self._prompt_bytes(request)
                return
        workers = range(len(self.charged))
        decoder = min(workers, key=lambda one: (self.charged[one], one))
        if self.round_robin:
            decoder = self.assigned % len(self.charged)
        self.assigned += 1
        self.charged[decoder] += 1
        self.decoder_of[request.place] = decoder
        line = {"shared": 0, "per_prefill_worker": number, "per_decode_worker": decoder}[self.sharing]
        self.links[line].join(request)

    def _choose(self, now: int) -> None:
        """Decode workers, then links, then prefill workers choose, each in order of number."""
        for worker in self.decoders.workers:
            ticks = 0 if worker.running else self._choose_decode(worker, now)
            if ticks:
                heapq.heappush(self.ends, (now + ticks, _DECODER_ENDS, worker.number, None))
        for line in range(len(self.links)):
            self._choose_transfers(line, now)
        taken = True
        while taken:  # the next head may fit where the one that another worker took did not
            resting = [number for number, one in enumerate(self.prompts) if one is None]
            taken = sum(self._choose_prompt(number, now) for number in resting) > 0
        tally = self.tally
        tally.peak_queue = max(tally.peak_queue, self.lines.waiting)
        tally.peak_transfers = max(tally.peak_transfers, sum(map(len, self.links)))
        tally.peak_arrived = max(tally.peak_arrived, sum(len(one.arrived) for one in self.decoders.workers))

    def _choose_decode(self, worker: Worker, now: int) -> int:
        pool, batch = self.decoders, worker.batch
        request = worker.returning[-1] if worker.returning else None
        if request is not None and len(batch) < pool.slots and pool.fits(worker, request):
            worker.returning.pop()
            return (pool.swap_in if request.swapped else pool.prefill)(worker, request, now)
        while len(worker.arrived) and len(batch) < pool.slots:
            batch.append(worker.arrived.take())
        moved = pool.make_room(worker)
        if moved:
            return pool.swap_out(worker, moved, now)
        return pool.step(worker, now) if batch else 0

    def _choose_transfers(self, line: int, now: int) -> None:
        """Start transfers of a line while a channel is free and there is room where they go."""
        waiting, pool = self.links[line], self.decoders
        while self.free[line] and (request := waiting.head()) is not None:
            worker = pool.workers[self.decoder_of[request.place]]
            if worker.returning or not pool.fits(worker, request):
                return
            waiting.take()
            worker.used += pool.hold(request)
            moved, kept = self.clock.transfer(request.prompt, request.cached)
            self.free[line] -= 1
            request.pending = 2
            heapq.heappush(self.ends, (now + moved, _CACHE_ARRIVES, self.started, request))
            heapq.heappush(self.ends, (now + kept, _CHANNEL_ENDS, self.started, (line, request)))
            self.started += 1
            if self.tally.links is not None:
                self.tally.links.add(now, prefill=kept)

    def _choose_prompt(self, number: int, now: int) -> bool:
        """A prefill worker takes the head of its line, if there is room for it; say whether it did."""
        line = self.lines.before(number)
        request = line.head()
        if request is None or self.used[number] + self._prompt_bytes(request) > self.prefill_memory:
            return False
        line.take()
        self.used[number] += self._prompt_bytes(request)
        self.prompts[number], request.home = request, number
        ticks = self.clock.prompt(request.cached, request.uncached)
        self.own.add(now, prefill=ticks)
        heapq.heappush(self.ends, (now + ticks, _PROMPT_ENDS, number, None))
        return True
