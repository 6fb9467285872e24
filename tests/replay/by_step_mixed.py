"""The mixed pool, instant by instant: docs/replay/prefill-first.md and docs/replay/chunked.md."""

from collections.abc import Callable
from math import floor

from tests.replay.by_step_lines import Lines
from tests.replay.by_step_outcome import Ledger
from tests.replay.by_step_requests import Request, record_of, requests_of
from tests.replay.by_step_times import LAST_TICK, ticks
from tests.replay.by_step_worker import DecodingWorker
from tests.replay.cases import Case


class MixedWorker(DecodingWorker):
    """A worker that runs prompts and decodes; a chunked one has a prompt of which a part is in the cache."""

    partial: Request | None = None
    computed: int = 0
    """Tokens of the partial prompt that are in the cache."""


def replay_mixed(case: Case, numbers: list[int], ledger: Ledger) -> None:
    """Sends the requests with these numbers through the mixed pool."""
    requests = requests_of(case, numbers)
    workers = [
        MixedWorker(case, "mixed", number, case.mixed, case.mixed, ledger) for number in range(case.workers_mixed)
    ]
    lines = Lines(case, len(workers), lambda number: len(workers[number].returning) + len(workers[number].held))
    choose = choose_chunk if case.budget else choose_whole
    coming = list(requests)
    while instant := _next_instant(coming, workers):
        now = instant[0]
        for worker in workers:
            if worker.activity and worker.activity.ends == now:
                worker.activity.at_end()
        while coming and coming[0].ready == now:
            lines.join(coming.pop(0))
        for worker in workers:
            if worker.activity is None:
                choose(now, worker, lines)
        ledger.saw("peak_queue", lines.waiting())
    ledger.servers["mixed"] = case.workers_mixed
    complete = [request for request in requests if request.complete]
    ledger.unfinished += len(requests) - len(complete)
    ledger.records += [record_of(request, case, prefill_emits=True) for request in complete]


def _next_instant(coming: list[Request], workers: list[MixedWorker]) -> list[int]:
    """The first tick at which an activity ends or a request comes; nothing if there is none, or none before the last tick."""
    ticks_ahead = [worker.activity.ends for worker in workers if worker.activity] + [r.ready for r in coming[:1]]
    return [tick for tick in sorted(ticks_ahead) if tick <= LAST_TICK][:1]


def choose_whole(now: int, worker: MixedWorker, lines: Lines) -> None:
    """Prefill first: a whole prompt before the next decode step."""
    request = worker.returning[-1] if worker.returning else lines.head(worker.number)
    if request and len(worker.batch) < worker.slots and worker.fits(request):
        leave(worker, lines, request)
        worker.take(request)
        run = worker.run_swap_in if request.swapped_out else worker.run_prefill
        run(now, request)
    elif worker.batch:
        to_swap = worker.make_room(worker.batch)
        if to_swap:
            worker.run_swap_out(now, to_swap)
        else:
            worker.run_step(now)


def leave(worker: MixedWorker, lines: Lines, request: Request) -> None:
    """The worker takes a request from where it waits."""
    if worker.returning:
        worker.returning.pop()
    else:
        lines.leave(worker.number, request)


def choose_chunk(now: int, worker: MixedWorker, lines: Lines) -> None:
    """Chunked: a step of one token of each sequence, and prompt tokens up to the budget."""
    to_swap = worker.make_room([*worker.batch, *([worker.partial] if worker.partial else [])])
    if worker.partial not in worker.held:
        worker.partial = None
    if to_swap:
        worker.run_swap_out(now, to_swap)
        return
    request = worker.returning[-1] if worker.returning else None
    may_return = request and request.swapped_out and not worker.partial and len(worker.batch) < worker.slots
    if request and may_return and worker.fits(request):
        leave(worker, lines, request)
        worker.take(request)
        worker.run_swap_in(now, request)
        return
    pieces = cut_pieces(now, worker, lines)
    if worker.batch or pieces:
        run_mixed_step(now, worker, pieces)


Piece = tuple[Request, int, int, bool]
"""A request, its tokens that are in the cache, the tokens of the piece, and whether it is the last one."""


def cut_pieces(now: int, worker: MixedWorker, lines: Lines) -> list[Piece]:
    """What of the budget the batch leaves, in pieces of the partial prompt and of those that wait."""
    room = worker.case.budget - len(worker.batch)
    begun = 1 if worker.partial else 0
    pieces: list[Piece] = []
    while room > 0:
        if worker.partial is None:
            request = worker.returning[-1] if worker.returning else lines.head(worker.number)
            if request is None or request.swapped_out:
                break
            if len(worker.batch) + begun >= worker.slots or not worker.fits(request):
                break
            leave(worker, lines, request)
            worker.take(request)
            begun += 1
            worker.partial, worker.computed = request, request.h
            if request.prefill_start is None:
                request.prefill_start = now
        request = worker.partial
        whole = request.p + request.t
        y = min(room, whole - worker.computed)
        last = worker.computed + y == whole
        pieces.append((request, worker.computed, y, last))
        worker.computed += y
        room -= y
        if last:
            worker.partial = None
    return pieces


def run_mixed_step(now: int, worker: MixedWorker, pieces: list[Piece]) -> None:
    """STEP of the batch and of pieces."""
    sequences = list(worker.batch)
    decode = worker.decode_ticks(sequences)
    nanoseconds = sum(worker.prefill_times.piece_ns(x, y) for _, x, y, _ in pieces)
    if sequences:
        nanoseconds = floor(nanoseconds * (1 + worker.case.penalty) + 0.5)
    prompts = ticks(nanoseconds, worker.case.ticks_per_second)
    ends = now + decode + prompts
    worker.spend_step(now, decode)
    worker.spend("prefill", now, prompts, after=decode)
    worker.run(now, decode + prompts, _step_ends(worker, now, ends, sequences, pieces))


def _step_ends(
    worker: MixedWorker, now: int, ends: int, sequences: list[Request], pieces: list[Piece]
) -> Callable[[], None]:
    """Sequences that decode have their tokens first, then the prompts that are whole now."""

    def at_end() -> None:
        for request in sequences:
            worker.emit(request, now, ends)
        for request, _, _, last in pieces:
            if last:
                worker.emit(request, now, ends)

    return at_end
