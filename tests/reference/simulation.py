"""One case through one scheduler: `simulate(case)` gives what was seen, per request and on average."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.reference.engine import Clock, Costs, Pool, Request
from tests.reference.schedulers import Chunked, Decode, Links, Prefill, PrefillFirst, Routed, Separated

Scheduler = PrefillFirst | Chunked | Separated | Routed


@dataclass(frozen=True, slots=True)
class Layout:
    """A topology with its sizes and knobs."""

    topology: str
    """aggregated, chunked, disaggregated or routed."""
    workers: int = 1
    """Workers of the mixed pool (aggregated, chunked, the short path of routed)."""
    prefill_workers: int = 1
    decode_workers: int = 1
    channels: int = 1
    """Transfers at once."""
    budget: int = 0
    """Tokens per step (chunked, routed); 0: the short path of routed is prefill first."""
    threshold: int = 0
    """Prompts of this many tokens or more take the separated path (routed)."""
    round_robin: bool = False
    shortest_first: bool = False
    first_token_source: str = "decode"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run showed. Times in seconds; a mean over no request is 0."""

    requests: tuple[Request, ...]
    """Those between warm-up and tail, in order of arrival."""
    ttft: float
    """Mean time to the first token (s)."""
    tpot: float
    """Sum of (E2E - TTFT) over sum of (output - 1) (s/token)."""
    e2e: float
    """Mean time to the last token (s)."""
    stall: float
    """The longest time between two tokens of a request (s)."""
    utilization: dict[str, float]
    """Share of time busy: prefill, decode (of their pools), link."""

    def goodput(self, ttft: float, tpot: float) -> float:
        """Share of requests with both at most as given (s); one token has no TPOT to miss."""
        met = sum(request.ttft <= ttft and time_per_token(request) <= tpot for request in self.requests)
        return met / len(self.requests)


def time_per_token(request: Request) -> float:
    """Time per output token after the first (s); 0 where there is none."""
    return (request.e2e - request.ttft) / max(1, request.output - 1)


def poisson(lengths: Sequence[tuple[int, ...]], rate: float, count: int, seed: int) -> list[Request]:
    """`count` requests at `rate` (1/s), each with the (prompt, output) or (prompt, output, cached) of one drawn."""
    rng = random.Random(seed)
    now = 0.0
    requests = []
    for number in range(count):
        now += rng.expovariate(rate)
        requests.append(Request(number, now, *lengths[rng.randrange(len(lengths))]))
    return requests


def mixed(layout: Layout, clock: Clock, costs: Costs) -> PrefillFirst | Chunked:
    """The pool that does both phases."""
    if layout.topology == "chunked" or (layout.topology == "routed" and layout.budget):
        return Chunked(clock, costs, layout.workers, layout.round_robin, layout.shortest_first, layout.budget)
    return PrefillFirst(clock, costs, layout.workers, layout.round_robin, layout.shortest_first)


def separated(layout: Layout, clock: Clock, costs: Costs) -> Separated:
    """The two pools and the links between them."""
    decode = Decode(clock, costs, layout.decode_workers, layout.round_robin, shortest_first=False)
    links = Links(clock, costs, layout.channels, decode.arrive)
    prefill = Prefill(clock, costs, layout.prefill_workers, layout.round_robin, layout.shortest_first)
    return Separated(prefill, links, decode, layout.first_token_source)


def scheduler(layout: Layout, clock: Clock, costs: Costs) -> Scheduler:
    """The scheduler of a layout."""
    if layout.topology in ("aggregated", "chunked"):
        return mixed(layout, clock, costs)
    if layout.topology == "disaggregated":
        return separated(layout, clock, costs)
    return Routed(layout.threshold, mixed(layout, clock, costs), separated(layout, clock, costs))


def shares(prefix: str, pool: Pool, elapsed: float) -> dict[str, float]:
    """Share of the time `elapsed` (s) that a worker of the pool spends on each phase."""
    time = elapsed * len(pool.workers)
    prefill = sum(worker.prefill_busy for worker in pool.workers) / time
    decode = sum(worker.decode_busy for worker in pool.workers) / time
    return {f"{prefix}_prefill": prefill, f"{prefix}_decode": decode}


def utilization(path: Scheduler, elapsed: float) -> dict[str, float]:
    """Share of the time `elapsed` (s) that pools and links are busy."""
    if isinstance(path, Routed):
        return {**utilization(path.short, elapsed), **utilization(path.long, elapsed)}
    if isinstance(path, Separated):
        return {
            "prefill": shares("", path.prefill, elapsed)["_prefill"],
            "decode": shares("", path.decode, elapsed)["_decode"],
            "link": path.links.busy / (elapsed * path.links.channels),
        }
    return shares("mixed", path, elapsed)


def run(layout: Layout, costs: Costs, requests: list[Request], warm_up: float = 0.0, tail: float = 0.0) -> Seen:
    """All requests through the layout; the shares `warm_up` and `tail` of them are left out of what was seen."""
    clock = Clock()
    path = scheduler(layout, clock, costs)

    def come(index: int) -> None:
        """The arrival of one request asks for the next."""
        if index + 1 < len(requests):
            clock.at(requests[index + 1].arrival, lambda: come(index + 1))
        path.arrive(requests[index])

    clock.at(requests[0].arrival, lambda: come(0))
    clock.run()
    kept = tuple(requests[int(warm_up * len(requests)) : len(requests) - int(tail * len(requests))])
    steps = sum(request.output - 1 for request in kept)
    return Seen(
        requests=kept,
        ttft=sum(request.ttft for request in kept) / len(kept),
        tpot=sum(request.e2e - request.ttft for request in kept) / steps if steps else 0.0,
        e2e=sum(request.e2e for request in kept) / len(kept),
        stall=max(request.longest_gap for request in kept),
        utilization=utilization(path, clock.now),
    )
