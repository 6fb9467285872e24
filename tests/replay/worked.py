"""A case in whole milliseconds, to be worked by hand: a prompt token takes 1 ms, a decode step 10 ms, a token 1,000 bytes."""

from dataclasses import replace
from typing import Any

from tests.replay.by_step import replay
from tests.replay.by_step_outcome import Outcome
from tests.replay.by_step_requests import Record
from tests.replay.cases import Cache, Case, Ceilings, Objectives, Worker

MS = 1_000_000
"""Ticks of a millisecond: a tick is a nanosecond here."""
WORKER = Worker(
    d=0.0,
    r_p=1000.0,
    q=0.0,
    prefill_curve=None,
    t0=0.010,
    r_d=1e30,
    gamma=0.0,
    decode_curve=None,
    slots=1000,
    memory=10**9,
)
MOVES_AT_ONCE = 0.001
"""Seconds that a transfer takes where a case says nothing else."""


def worked(
    scheduler: str,
    *requests: tuple[int, int, int] | tuple[int, int, int, int],
    moves: tuple[float, float] = (MOVES_AT_ONCE, MOVES_AT_ONCE),
    **changes: Any,
) -> Case:
    """Requests as (ms of arrival, p, o) or (ms, p, h, o); `moves` are the seconds of each until its cache arrives, and on its channel."""
    whole = [(r[0], r[1], 0, r[2]) if len(r) == 3 else r for r in requests]
    ample = Case(
        scheduler=scheduler,
        ticks_per_second=10**9,
        requests=tuple((at * MS, p, h, o) for at, p, h, o in whole),
        mixed=WORKER,
        prefill=WORKER,
        decode=WORKER,
        cache=Cache(growth=1000, windows=(), state=0, block=1),
        policy="recompute",
        swap_bandwidth=1e6,
        admission=0.0,
        penalty=0.0,
        dispatch="least_loaded",
        discipline="fifo",
        first_token_source="decode",
        workers_mixed=1,
        workers_prefill=1,
        workers_decode=1,
        budget=0,
        threshold=0,
        move_s=tuple(moves[0] for _ in whole),
        keep_s=tuple(moves[1] for _ in whole),
        link_sharing="shared",
        channels=1,
        objectives=Objectives(edges=(10**6,), ttft=(1e3,), tpot=(1e3,), e2e=(None,), stall=None),
        ceilings=Ceilings(0.9, 0.9, 0.9, 0.9),
    )
    return replace(ample, **changes)


def tokens_of(outcome: Outcome) -> list[list[float]]:
    """Of each request, the milliseconds at which its tokens came."""
    return [[tick / MS for tick in record.tokens] for record in outcome.requests]


def tokens(case: Case) -> list[list[float]]:
    """The same, of a case that is replayed for nothing else."""
    return tokens_of(replay(case))


def lanes(record: Record) -> list[float]:
    """The eight lanes of a request in milliseconds."""
    return [lane / MS for lane in record.lanes.values()]


def in_ms(outcome: Outcome, *names: str) -> list[float]:
    """Counts in ticks, as milliseconds."""
    return [outcome.counts[name] / MS for name in names]


def counts(outcome: Outcome, *names: str) -> list[int]:
    return [outcome.counts[name] for name in names]
