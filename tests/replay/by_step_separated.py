"""The separated path, instant by instant: docs/replay/separated.md."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.replay.by_step_lines import Lines
from tests.replay.by_step_outcome import Ledger, Work
from tests.replay.by_step_requests import Request, record_of, requests_of
from tests.replay.by_step_times import LAST_TICK, Times, within_clock
from tests.replay.by_step_worker import DecodingWorker
from tests.replay.cases import Case, hold_bytes


@dataclass(eq=False)
class PrefillWorker:
    """A worker that runs prompts, and holds them until their caches have left."""

    number: int
    held: list[Request] = field(default_factory=list)
    running: Request | None = None
    ends: int = 0


class DecodeWorker(DecodingWorker):
    """A worker that decodes what has arrived."""

    def __init__(self, case: Case, number: int, ledger: Ledger) -> None:
        super().__init__(case, "decode", number, case.decode, case.prefill, ledger)
        self.line: list[Request] = []
        """Sequences whose caches have arrived, and that wait for a slot."""
        self.own: list[Request] = []
        """Every request that has this worker as its own."""


@dataclass(eq=False)
class Transfer:
    """A cache on its way."""

    request: Request
    arrives: int
    frees: int
    """When its channel is free again."""


@dataclass(eq=False)
class LinkLine:
    """Caches that wait before channels, and those that keep one."""

    waiting: list[Request] = field(default_factory=list)
    keeping: list[Transfer] = field(default_factory=list)


class Separated:
    """Two pools and the links between them."""

    def __init__(self, case: Case, numbers: list[int], ledger: Ledger) -> None:
        self.case, self.ledger, self.now = case, ledger, 0
        self.requests = requests_of(case, numbers)
        self.coming = list(self.requests)
        self.times = Times(case.prefill, case.ticks_per_second)
        self.prefill_workers = [PrefillWorker(number) for number in range(case.workers_prefill)]
        self.decode_workers = [DecodeWorker(case, number, ledger) for number in range(case.workers_decode)]
        self.lines = Lines(case, case.workers_prefill, lambda number: int(bool(self.prefill_workers[number].running)))
        lines_of_links = {
            "shared": 1,
            "per_prefill_worker": case.workers_prefill,
            "per_decode_worker": case.workers_decode,
        }
        self.links = [LinkLine() for _ in range(lines_of_links[case.link_sharing])]
        self.transfers: list[Transfer] = []
        """Those of which the cache has not arrived or the channel is not free, in the order of their starts."""
        self.prefilled_by: dict[Request, PrefillWorker] = {}
        self.decoded_by: dict[Request, DecodeWorker] = {}

    def run(self) -> None:
        """Goes from instant to instant until nothing is left to happen."""
        while (instant := min(self._ticks_ahead(), default=LAST_TICK + 1)) <= LAST_TICK:
            self.now = instant
            self._end_prefills()
            self._let_caches_arrive()
            self._end_decode_activities()
            self._free_channels()
            while self.coming and self.coming[0].ready == self.now:
                self.lines.join(self.coming.pop(0))
            self._choose()
            self._look_at_queues()

    def _ticks_ahead(self) -> Iterator[int]:
        """When something ends or comes."""
        yield from (worker.ends for worker in self.prefill_workers if worker.running)
        yield from (worker.activity.ends for worker in self.decode_workers if worker.activity)
        for transfer in self.transfers:
            yield from (tick for tick in (transfer.arrives, transfer.frees) if tick > self.now)
        yield from (request.ready for request in self.coming[:1])

    def _end_prefills(self) -> None:
        for worker in self.prefill_workers:
            if worker.running and worker.ends == self.now:
                request, worker.running = worker.running, None
                self.ledger.saw("prefill_peak_kv_bytes", self._used(worker))
                self._end_prefill(worker, request)

    def _end_prefill(self, worker: PrefillWorker, request: Request) -> None:
        """The request has its first token where prefill emits it, and if more are to come, a decode worker and a place in line."""
        if self.case.first_token_source == "prefill":
            assert request.prefill_start is not None
            request.emit(request.prefill_start, self.now)
            if request.complete:
                worker.held.remove(request)
                return
        request.prefill_end = self.now
        decoding = self._decode_worker_for_next()
        decoding.own.append(request)
        self.decoded_by[request] = decoding
        line = {"shared": 0, "per_prefill_worker": worker.number, "per_decode_worker": decoding.number}
        self.links[line[self.case.link_sharing]].waiting.append(request)

    def _decode_worker_for_next(self) -> DecodeWorker:
        if self.case.dispatch == "round_robin":
            return self.decode_workers[len(self.decoded_by) % len(self.decode_workers)]
        return min(self.decode_workers, key=lambda worker: (sum(not r.complete for r in worker.own), worker.number))

    def _let_caches_arrive(self) -> None:
        for transfer in self.transfers:
            if transfer.arrives == self.now:
                transfer.request.arrived = self.now
                self.decoded_by[transfer.request].line.append(transfer.request)

    def _end_decode_activities(self) -> None:
        for worker in self.decode_workers:
            if worker.activity and worker.activity.ends == self.now:
                worker.activity.at_end()

    def _free_channels(self) -> None:
        """A channel is free when it was kept long enough; the prefill worker's memory when the cache has arrived as well."""
        for line in self.links:
            line.keeping = [transfer for transfer in line.keeping if transfer.frees > self.now]
        for transfer in self.transfers:
            if max(transfer.arrives, transfer.frees) == self.now:
                self.prefilled_by[transfer.request].held.remove(transfer.request)
        self.transfers = [t for t in self.transfers if max(t.arrives, t.frees) > self.now]

    def _choose(self) -> None:
        for decoding in self.decode_workers:
            if decoding.activity is None:
                choose_decode(self.now, decoding)
        for line in self.links:
            self._choose_transfers(line)
        taken = True
        while taken:  # whoever rests is asked again when another one has taken the head of the line
            resting = [worker for worker in self.prefill_workers if worker.running is None]
            for worker in resting:
                self._choose_prefill(worker)
            taken = any(worker.running for worker in resting)

    def _choose_transfers(self, line: LinkLine) -> None:
        """The head of the line, while a channel is free and its decode worker has room for it."""
        while len(line.keeping) < self.case.channels and line.waiting:
            request = line.waiting[0]
            decoding = self.decoded_by[request]
            if decoding.returning or not decoding.fits(request):
                break
            line.waiting.pop(0)
            decoding.take(request)
            request.transfer_start = self.now
            transfer = Transfer(request, self.now + request.move, self.now + request.keep)
            line.keeping.append(transfer)
            self.transfers.append(transfer)
            kept = within_clock(self.now, request.keep)
            self.ledger.sums["link_ticks"] += kept
            self.ledger.work.append(Work("link", self.now, kept))

    def _choose_prefill(self, worker: PrefillWorker) -> None:
        """The head of its line, where the memory has room for the prompt."""
        request = self.lines.head(worker.number)
        if request is None:
            return
        if self._used(worker) + self._hold_of_prompt(request) > self.case.prefill.memory:
            return
        self.lines.leave(worker.number, request)
        worker.held.append(request)
        self.prefilled_by[request] = worker
        length = self.times.piece(request.h, request.p - request.h)
        request.prefill_start = self.now
        worker.running, worker.ends = request, self.now + length
        spent = within_clock(self.now, length)
        self.ledger.sums["prefill_prefill_ticks"] += spent
        self.ledger.work.append(Work("prefill", self.now, spent))

    def _hold_of_prompt(self, request: Request) -> int:
        """Bytes of a request on its prefill worker."""
        return hold_bytes(self.case.cache, request.p, request.o, 0)

    def _used(self, worker: PrefillWorker) -> int:
        """U_p, bytes."""
        return sum(self._hold_of_prompt(request) for request in worker.held)

    def _look_at_queues(self) -> None:
        self.ledger.saw("peak_queue", self.lines.waiting())
        self.ledger.saw("peak_transfer_queue", sum(len(line.waiting) for line in self.links))
        self.ledger.saw("peak_decode_queue", sum(len(worker.line) for worker in self.decode_workers))


def choose_decode(now: int, worker: DecodeWorker) -> None:
    """First those that were preempted, then those that have arrived, then a step."""
    request = worker.returning[-1] if worker.returning else None
    if request and len(worker.batch) < worker.slots and worker.fits(request):
        worker.returning.pop()
        worker.take(request)
        run = worker.run_swap_in if request.swapped_out else worker.run_prefill
        run(now, request)
        return
    while worker.line and len(worker.batch) < worker.slots:
        worker.batch.append(worker.line.pop(0))
    to_swap = worker.make_room(worker.batch)
    if to_swap:
        worker.run_swap_out(now, to_swap)
    elif worker.batch:
        worker.run_step(now)


def replay_separated(case: Case, numbers: list[int], ledger: Ledger) -> None:
    """Sends the requests with these numbers through prefill workers, links and decode workers."""
    path = Separated(case, numbers, ledger)
    path.run()
    ledger.servers |= {
        "prefill": case.workers_prefill,
        "decode": case.workers_decode,
        "link": len(path.links) * case.channels,
    }
    complete = [request for request in path.requests if request.complete]
    ledger.unfinished += len(path.requests) - len(complete)
    emits = case.first_token_source == "prefill"
    ledger.records += [record_of(request, case, prefill_emits=emits) for request in complete]
