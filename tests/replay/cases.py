"""Cases for the replay, as data: requests, service times, limits; and cases that nobody wrote, `random_cases`.

A case says everything that docs/replay.md needs. Whatever follows from other equations (transfer times, objectives by bucket)
is given, so that a replay can be compared with another one without them.
"""

import random
from dataclasses import dataclass, replace

SCHEDULERS = ("prefill_first", "chunked", "separated", "routed")


@dataclass(frozen=True, slots=True)
class Worker:
    """Service times and limits of a worker of one pool."""

    d: float
    """Seconds of a prefill beside its tokens."""
    r_p: float
    """Prompt tokens per second."""
    q: float
    """Seconds per pair of tokens that attention covers."""
    prefill_curve: tuple[tuple[float, float], ...] | None
    """P(y) instead of d and r_p: points of tokens and seconds."""
    t0: float
    """Seconds of a decode step beside its sequences."""
    r_d: float
    """Tokens per second of a full decode step."""
    gamma: float
    """Seconds per token that a step reads."""
    decode_curve: tuple[tuple[float, float], ...] | None
    """τ(b) instead of t0 and r_d: points of sequences and seconds."""
    slots: int
    """B_0, sequences at once."""
    memory: int
    """M, bytes."""


@dataclass(frozen=True, slots=True)
class Cache:
    """Bytes that a request holds: `fixed + growth·(tokens + block − 1)`."""

    growth: int
    """G, bytes per token."""
    windows: tuple[tuple[int, int], ...]
    """Bytes per token and tokens of each length of window: (ω_j, W_j)."""
    state: int
    """s, bytes per sequence."""
    block: int
    """β, tokens."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """Limits in seconds by bucket of prompt tokens; None where one is not declared."""

    edges: tuple[int, ...]
    """Upper edges, ascending: bucket k is [edges[k − 1], edges[k]), bucket 0 begins at 0, the last edge lies above every prompt."""
    ttft: tuple[float, ...]
    tpot: tuple[float, ...]
    e2e: tuple[float | None, ...]
    stall: float | None


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The utilization from which on a pool is above its ceiling."""

    mixed: float
    prefill: float
    decode: float
    link: float


@dataclass(frozen=True, slots=True)
class Case:
    """One log of requests on one scenario. Of what the scheduler does not use, the values do not matter."""

    scheduler: str
    """prefill_first, chunked, separated, routed."""
    ticks_per_second: int
    """T, a power of ten from 10⁹ to 10¹⁴."""
    requests: tuple[tuple[int, int, int, int], ...]
    """Nanosecond of arrival, prompt, cached prompt and output tokens, in order of arrival; the first one need not come at 0."""
    mixed: Worker
    prefill: Worker
    decode: Worker
    cache: Cache
    policy: str
    """recompute, swap, wait."""
    swap_bandwidth: float
    """Bytes per second between GPU and host."""
    admission: float
    """Seconds."""
    penalty: float
    """ψ: share by which the prompt part of a chunked step takes longer beside decode tokens."""
    dispatch: str
    """least_loaded, round_robin, shortest_queue."""
    discipline: str
    """fifo, shortest_first."""
    first_token_source: str
    """prefill, decode: of the separated path."""
    workers_mixed: int
    workers_prefill: int
    workers_decode: int
    budget: int
    """C, tokens of a chunked step; 0 where whole prompts run."""
    threshold: int
    """Prompt tokens from which on a routed request takes the separated path."""
    move_s: tuple[float, ...]
    """Of each request, seconds until its cache arrives: T(v) − H."""
    keep_s: tuple[float, ...]
    """Of each request, seconds that its transfer keeps a channel: T(v) − h_x."""
    link_sharing: str
    """shared, per_prefill_worker, per_decode_worker."""
    channels: int
    """n_c, of each line of links."""
    objectives: Objectives
    ceilings: Ceilings


def random_cases(scheduler: str, count: int, seed: int) -> list[Case]:
    """As many cases of one scheduler as asked for, always the same ones for a seed."""
    return [_case(scheduler, random.Random(f"{scheduler} {seed} {number}")) for number in range(count)]


def fixed_bytes(cache: Cache, p: int, o: int) -> int:
    """Bytes that a request holds whatever it has emitted."""
    return cache.state + sum(omega * min(p + o + cache.block - 1, window) for omega, window in cache.windows)


def hold_bytes(cache: Cache, p: int, o: int, t: int) -> int:
    """Bytes that a request of p prompt and o output tokens holds with t of them emitted."""
    return fixed_bytes(cache, p, o) + cache.growth * (p + t + cache.block - 1)


def _case(scheduler: str, draw: random.Random) -> Case:
    even = draw.random() < 0.5  # whole milliseconds: ends and arrivals coincide
    tight = draw.random() < 0.6
    mixed, prefill, decode = (_service(draw, even, tight) for _ in range(3))
    workers = [draw.randint(1, 4) if draw.random() < 0.6 else draw.randint(1, 2) for _ in range(3)]
    lengths = _lengths(draw, draw.randint(5, 60), tight)
    cache = _cache(draw, even)
    source = prefill if scheduler == "separated" else mixed
    arrivals = _arrivals(draw, even, lengths, source, workers[1] if scheduler == "separated" else workers[0])
    requests = tuple((at, *of_it) for at, of_it in zip(arrivals, lengths, strict=True))
    move, keep = _transfers(draw, even, requests)
    budget = draw.choice((1, 2, 3, 5, 8, 12, 16, 33, 64, 256))
    return Case(
        scheduler=scheduler,
        ticks_per_second=10 ** draw.choice((9, 10, 11, 12, 13, 14, 14, 14)),
        requests=requests,
        mixed=_limited(draw, mixed, cache, requests, tight, whole=True),
        prefill=_limited(draw, prefill, cache, requests, tight and draw.random() < 0.5, whole=False),
        decode=_limited(draw, decode, cache, requests, tight, whole=True),
        cache=cache,
        policy=draw.choice(("recompute", "recompute", "recompute", "swap", "swap", "wait")),
        swap_bandwidth=cache.growth * (1000.0 if even else draw.choice((300.0, 3000.0, 1e5)) * draw.uniform(1, 3)),
        admission=draw.choice((0.0, 0.0, 0.01, 0.0123456789)),
        penalty=draw.choice((0.0, 0.0, 0.5, 0.137)),
        dispatch=draw.choice(("least_loaded", "least_loaded", "round_robin", "shortest_queue")),
        discipline=draw.choice(("fifo", "fifo", "shortest_first")),
        first_token_source=draw.choice(("prefill", "decode")),
        workers_mixed=workers[0],
        workers_prefill=workers[1],
        workers_decode=workers[2],
        budget=_budget(draw, scheduler, budget),
        threshold=_threshold(draw, requests),
        move_s=move,
        keep_s=keep,
        link_sharing=draw.choice(("shared", "per_prefill_worker", "per_decode_worker")),
        channels=draw.randint(1, 3),
        objectives=_objectives(draw, source),
        ceilings=Ceilings(*(draw.choice((0.2, 0.5, 0.7, 0.9)) for _ in range(4))),
    )


def _budget(draw: random.Random, scheduler: str, budget: int) -> int:
    if scheduler == "chunked":
        return budget
    return budget if scheduler == "routed" and draw.random() < 0.5 else 0


def _service(draw: random.Random, even: bool, tight: bool) -> Worker:
    """A worker without its memory."""
    slots = draw.choice((2, 3, 4, 6, 1000, 1000)) if tight else draw.choice((1, 2, 3, 4, 5, 6, 1000, 1000))
    if even:
        d, r_p, t0, r_d = draw.choice((0.0, 0.01)), 1000.0, 0.01, draw.choice((1000.0, 500.0, 1e30))
        q, gamma = draw.choice((0.0, 0.0, 1e-6)), draw.choice((0.0, 0.0, 1e-6, 1e-3))
    else:
        d, r_p = draw.uniform(0.0, 0.02), draw.uniform(500.0, 20000.0)
        t0, r_d = draw.uniform(0.003, 0.02), draw.uniform(100.0, 5000.0)
        q, gamma = draw.choice((0.0, draw.uniform(0.0, 1e-6))), draw.choice((0.0, draw.uniform(0.0, 1e-5)))
    prefill_curve = decode_curve = None
    if draw.random() < 0.25:
        prefill_curve = _curve(draw, even, (draw.choice((1, 8, 20)), 40, 90, 150)[: draw.randint(2, 4)], 0.01, 0.05)
    if draw.random() < 0.25:
        decode_curve = _curve(draw, even, (draw.choice((1, 2)), 3, 5, 8)[: draw.randint(2, 4)], 0.008, 0.006)
    return Worker(d, r_p, q, prefill_curve, t0, r_d, gamma, decode_curve, slots, 0)


def _curve(
    draw: random.Random, even: bool, at: tuple[int, ...], first: float, more: float
) -> tuple[tuple[float, float], ...]:
    """Points of a curve that rises, in whole milliseconds where times are even."""
    points, seconds = [], first
    for place in at:
        points.append((float(place), round(seconds, 3) if even else seconds))
        seconds += draw.uniform(0.0, more)
    return tuple(points)


def _lengths(draw: random.Random, count: int, tight: bool) -> list[tuple[int, int, int]]:
    """Prompt, cached and output tokens of each request; where memory is tight, caches grow well beyond their prompts."""
    growing, others = ((3, 30), (10, 30), (20, 30), (60, 30)), ((30, 30), (60, 30), (200, 12), (200, 30), (10, 3))
    longest, most = draw.choice(growing if tight and draw.random() < 0.7 else others)
    cached, single = draw.choice((0.0, 0.0, 0.4, 0.9)), draw.choice((0.0, 0.1, 0.5))
    few = draw.random() < 0.3  # a handful of lengths only, so that requests are equal
    kinds = [draw.randint(1, longest) for _ in range(3 if few else count)]
    lengths = []
    for _ in range(count):
        p = draw.choice(kinds)
        h = draw.randint(0, p - 1) if draw.random() < cached else 0
        lengths.append((p, h, 1 if draw.random() < single else draw.randint(1, most)))
    return lengths


def _cache(draw: random.Random, even: bool) -> Cache:
    if even and draw.random() < 0.5:
        return Cache(1000, (), 0, 1)
    block = draw.choice((1, 1, 4, 16))
    growth = draw.randint(100, 2000)
    windows = draw.choice(((), (), ((growth // 3, 2),), ((growth // 2, 1), (growth // 7, 4))))
    state = draw.choice((0, 0, 5 * growth + 1))
    return Cache(growth, tuple((omega, blocks * block) for omega, blocks in windows), state, block)


def _arrivals(
    draw: random.Random, even: bool, lengths: list[tuple[int, int, int]], service: Worker, workers: int
) -> list[int]:
    """Nanoseconds, ascending: steady or in bursts, with silences, up to far more than the workers can do."""
    prefill = service.d + sum(p - h for p, h, _ in lengths) / len(lengths) / service.r_p
    decode = sum(o for _, _, o in lengths) / len(lengths) * 0.01
    gap = (prefill + decode / 3) / workers * draw.choice((0.05, 0.1, 0.3, 0.5, 0.8, 1.5, 4.0))
    burst = draw.choice((1, 1, 1, 3, 8))
    silence = draw.choice((0.0, 0.0, 0.1))
    now, arrivals = draw.choice((0, 0, 5_000_000_000)), []
    for number in range(len(lengths)):
        arrivals.append(now - now % 5_000_000 if even else now)
        if (number + 1) % burst == 0:
            now += round(draw.expovariate(1.0 / (gap * burst)) * 1e9)
        if draw.random() < silence:
            now += round(gap * 30e9)
    if arrivals[0] == arrivals[-1]:  # a log of one instant is not replayed
        arrivals[-1] += 5_000_000
    return arrivals


def _transfers(
    draw: random.Random, even: bool, requests: tuple[tuple[int, int, int, int], ...]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Seconds until each cache arrives, and seconds that it keeps a channel; the latter are the longer ones with overlap."""
    if even:
        per_token, handover, overhead = draw.choice((0.0, 0.001, 0.002)), draw.choice((0.0, 0.005)), 0.005
        hidden = draw.choice((0.0, 1.0))
    else:
        per_token, handover = draw.uniform(0.0, 0.002), draw.choice((0.0, draw.uniform(0.0, 0.01)))
        overhead, hidden = draw.uniform(0.0, 0.01), draw.choice((0.0, draw.random()))
    move = tuple(handover + overhead + (1.0 - hidden) * per_token * p for _, p, _, _ in requests)
    keep = tuple(overhead + per_token * p for _, p, _, _ in requests)
    return move, keep


def _limited(
    draw: random.Random,
    worker: Worker,
    cache: Cache,
    requests: tuple[tuple[int, int, int, int], ...],
    tight: bool,
    whole: bool,
) -> Worker:
    """The worker with its memory: room for the largest request at least; where it is not tight, for all of them."""
    holds = [hold_bytes(cache, p, o, o if whole else 0) for _, p, _, o in requests]
    memory = int(max(holds) * draw.choice((1.0, 1.2, 1.6, 2.5))) if tight else sum(holds)
    return replace(worker, memory=memory)


def _threshold(draw: random.Random, requests: tuple[tuple[int, int, int, int], ...]) -> int:
    """Prompt tokens that leave requests on both paths where prompts differ; now and then one path gets none, as in a sample."""
    prompts = sorted({p for _, p, _, _ in requests})
    if len(prompts) == 1 or draw.random() < 0.05:
        return draw.choice((1, prompts[-1] + 1))
    return draw.choice(prompts[1:])


def _objectives(draw: random.Random, service: Worker) -> Objectives:
    """Limits that some requests meet and others do not."""
    edges = draw.choice(((1000,), (20, 1000), (10, 60, 1000)))
    step = service.t0 + 3 / service.r_d
    return Objectives(
        edges=edges,
        ttft=tuple(draw.choice((0.02, 0.1, 0.5)) * draw.uniform(1, 3) for _ in edges),
        tpot=tuple(step * draw.uniform(0.8, 4.0) for _ in edges),
        e2e=tuple(draw.choice((None, draw.uniform(0.2, 2.0))) for _ in edges),
        stall=draw.choice((None, step * draw.uniform(1.0, 20.0))),
    )
