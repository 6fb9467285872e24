"""Cases in which a single thing takes a good part of the replay's clock, or longer than all of it."""

import random
from dataclasses import replace

from tests.replay.by_step_times import LAST_TICK
from tests.replay.cases import Case, Worker, hold_bytes, random_cases

SHARES = (0.003, 0.1, 0.3, 0.5, 0.9, 1.1, 2.0, 1e3, 1e12)
"""Of the clock, what one thing takes; most of them are over only where nothing long came before, or never."""
LONG = ("swap", "transfers", "prompts", "steps", "sequences", "context")


def outlasting_cases(scheduler: str, count: int, seed: int) -> list[Case]:
    """As many cases of one scheduler as asked for, always the same ones for a seed."""
    return [
        outlasting(case, random.Random(f"outlasting {scheduler} {seed} {number}"))
        for number, case in enumerate(random_cases(scheduler, count, seed))
    ]


def outlasting(case: Case, draw: random.Random) -> Case:
    """The case with some of what it does taking so long, on a clock of some resolution; a few requests come close to its end."""
    per_second = 10 ** draw.choice((9, 10, 11, 12, 13, 14))
    clock_s = LAST_TICK / per_second
    if per_second == 10**14 and draw.random() < 0.3:
        case = _late(case, draw)
    long = draw.sample(LONG, draw.choice((1, 1, 2, 3)))
    case = replace(case, ticks_per_second=per_second)
    if "swap" in long:
        p, o = (max(request[place] for request in case.requests) for place in (1, 3))
        size = hold_bytes(case.cache, p, o, o)
        bandwidth = size / (clock_s * draw.choice(SHARES))
        case = replace(case, policy="swap", swap_bandwidth=bandwidth)
    if "transfers" in long:
        often, share = draw.choice((0.1, 0.5, 1.0)), draw.choice(SHARES)
        each = [(draw.random() < often) * clock_s * share for _ in case.requests]
        hidden = draw.choice((0.0, 0.5, 1.0))
        move = tuple(own + (1 - hidden) * more for own, more in zip(case.move_s, each, strict=True))
        case = replace(case, move_s=move, keep_s=tuple(own + more for own, more in zip(case.keep_s, each, strict=True)))
    pools = {name: _slowed(getattr(case, name), long, clock_s, draw) for name in ("mixed", "prefill", "decode")}
    return replace(case, **pools)


def _late(case: Case, draw: random.Random) -> Case:
    """The case with its requests, but for the first, shortly before the clock ends."""
    (first, *_), *others = case.requests
    span = others[-1][0] - first
    last = LAST_TICK // 10**5
    late = [(at - first + last - span - draw.choice((0, span // 4, span)), *rest) for at, *rest in others]
    return replace(case, requests=((0, *case.requests[0][1:]), *sorted(late)))


def _slowed(worker: Worker, long: list[str], clock_s: float, draw: random.Random) -> Worker:
    """The worker with prompts, steps or what steps read taking a share of the clock."""
    seconds = clock_s * draw.choice(SHARES)
    if "prompts" in long:
        if draw.random() < 0.5:
            worker = replace(worker, d=seconds, prefill_curve=None)
        elif draw.random() < 0.5:
            worker = replace(worker, r_p=20.0 / seconds, prefill_curve=None)
        else:
            worker = replace(worker, prefill_curve=((1.0, 0.01), (30.0, seconds)))
    seconds = clock_s * draw.choice(SHARES)
    if "steps" in long:
        worker = replace(worker, t0=seconds, decode_curve=None)
    if "sequences" in long:
        worker = replace(worker, r_d=2.0 / seconds, decode_curve=None)
    if "context" in long:
        worker = replace(worker, gamma=seconds / draw.choice((10, 100, 3000)))
    return worker
