"""What a worker that decodes does in any pool: memory, preemption, moves to the host and back, whole prefills, steps."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import floor

from tests.replay.by_step_outcome import Ledger, Work
from tests.replay.by_step_requests import Request
from tests.replay.by_step_times import Times, ticks, within_clock
from tests.replay.cases import Case, Worker, hold_bytes


@dataclass(frozen=True)
class Activity:
    """Something that runs, and what happens at its end."""

    ends: int
    at_end: Callable[[], None]


class DecodingWorker:
    """A worker of the mixed or of the decode pool."""

    def __init__(self, case: Case, pool: str, number: int, limits: Worker, prefill: Worker, ledger: Ledger) -> None:
        """`limits` are those of its pool; `prefill` has the times of the prompts that it may have to run."""
        self.case, self.pool, self.number, self.ledger = case, pool, number, ledger
        self.slots, self.memory = limits.slots, limits.memory
        self.decode_times = Times(limits, case.ticks_per_second)
        self.prefill_times = Times(prefill, case.ticks_per_second)
        self.batch: list[Request] = []
        self.returning: list[Request] = []
        self.held: list[Request] = []
        """Every request whose cache is in its memory."""
        self.activity: Activity | None = None

    def hold(self, request: Request) -> int:
        """Bytes of a request: by its tokens so far, or of the whole of it where nothing is ever preempted."""
        emitted = request.o if self.case.policy == "wait" else request.t
        return hold_bytes(self.case.cache, request.p, request.o, emitted)

    @property
    def used(self) -> int:
        """U, bytes."""
        return sum(self.hold(request) for request in self.held)

    def fits(self, request: Request) -> bool:
        return self.used + self.hold(request) <= self.memory

    def take(self, request: Request) -> None:
        """The request holds memory from now on; what a preemption has lost of it is to be prefilled again."""
        self.held.append(request)
        if request.lost:
            self.ledger.sums["recomputed_tokens"] += request.p + request.t - request.h
            request.lost = False

    def make_room(self, candidates: Iterable[Request]) -> list[Request]:
        """Preempts, of the candidates in the order in which they were taken, the last ones; says which must be swapped out."""
        candidates, to_swap = list(candidates), []
        while self.used > self.memory and len(candidates) > 1:
            victim = candidates.pop()
            assert self.case.policy != "wait"
            self.ledger.sums["preemptions"] += 1
            victim.preemptions += 1
            if victim in self.batch and self.case.policy == "swap":
                self.ledger.sums["swapped_bytes"] += self.hold(victim)
                victim.swapped_out = True
                to_swap.append(victim)
            else:  # recomputed, as a prompt that is not yet whole is under both policies
                victim.lost = True
            self.held.remove(victim)
            if victim in self.batch:
                self.batch.remove(victim)
            self.returning.append(victim)
        return to_swap

    def run(self, now: int, length: int, at_end: Callable[[], None]) -> None:
        """Begins an activity; at its end, what is complete is given back when the worker has been seen at its fullest."""
        assert self.activity is None
        assert length > 0

        def ends() -> None:
            self.activity = None
            at_end()
            self.ledger.saw(f"{self.pool}_peak_kv_bytes", self.used)
            self.held = [request for request in self.held if not request.complete]
            self.batch = [request for request in self.batch if not request.complete]

        self.activity = Activity(now + length, ends)

    def spend(self, what: str, now: int, length: int, after: int = 0) -> None:
        """Notes how long the worker does something in what it begins now, behind `after` ticks of it; that fills it up."""
        spent = within_clock(now + after, length)
        self.ledger.sums[f"{self.pool}_{what}_ticks"] += spent
        self.ledger.work.append(Work(self.pool, now, spent))

    def spend_step(self, now: int, length: int) -> None:
        """Notes the decode part of a step, of which what is beyond an empty step fills the worker up."""
        spent = within_clock(now, length)
        self.ledger.sums[f"{self.pool}_decode_ticks"] += spent
        self.ledger.work.append(Work(self.pool, now, max(0, spent - self.decode_times.base(0))))

    def emit(self, request: Request, began: int, now: int) -> None:
        """The request has its next token; if more are to come, it is in the batch from now on."""
        request.emit(began, now)
        if not request.complete and request not in self.batch:
            self.batch.append(request)

    def run_prefill(self, now: int, request: Request) -> None:
        """PREFILL of all tokens of a request but those that the prefix cache has."""
        if request.prefill_start is None:
            request.prefill_start = now
        length = self.prefill_times.piece(request.h, request.p + request.t - request.h)
        self.spend("prefill", now, length)
        self.run(now, length, lambda: self.emit(request, now, now + length))

    def run_swap_in(self, now: int, request: Request) -> None:
        """SWAP IN of a request that was taken."""
        request.swapped_out = False
        self.ledger.sums["swapped_bytes"] += self.hold(request)
        length = self.move(request)
        self.spend("swap", now, length)
        self.run(now, length, lambda: self.batch.append(request))

    def run_swap_out(self, now: int, victims: list[Request]) -> None:
        """SWAP OUT of requests that were preempted."""
        length = sum(self.move(victim) for victim in victims)
        self.spend("swap", now, length)
        self.run(now, length, lambda: None)

    def run_step(self, now: int) -> None:
        """STEP of the batch."""
        sequences = list(self.batch)
        length = self.decode_ticks(sequences)
        self.spend_step(now, length)

        def ends() -> None:
            for request in sequences:
                self.emit(request, now, now + length)

        self.run(now, length, ends)

    def decode_ticks(self, sequences: list[Request]) -> int:
        """Ticks of the decode part of a step: one token of each sequence, all of whose tokens are read."""
        return self.decode_times.decode(len(sequences), sum(request.p + request.t for request in sequences))

    def move(self, request: Request) -> int:
        """Ticks in which the cache of a request moves between GPU and host."""
        whole = max(1, floor(self.hold(request) / self.case.swap_bandwidth * 1e9 + 0.5))
        return ticks(whole, self.case.ticks_per_second)
