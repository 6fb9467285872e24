"""A case of the reference through the kernels, with the results under the names of the reference."""

from typing import Any

import numpy as np

from pipelines.replay import records as r
from pipelines.replay.clock import nanoseconds, step_ticks
from pipelines.replay.run import MixedPath, Outcome, Path, SeparatedPath, Setting, replay
from pipelines.replay.separated import Stages
from tests.replay.cases import Case, Worker

_DISPATCH = {"least_loaded": r.ONE_LINE, "round_robin": r.ROUND_ROBIN, "shortest_queue": r.SHORTEST_QUEUE}
_POLICY = {"recompute": r.RECOMPUTE, "swap": r.SWAP, "wait": r.WAIT}
_SHARING = {
    "shared": r.SHARED,
    "per_prefill_worker": r.PER_PREFILL_WORKER,
    "per_decode_worker": r.PER_DECODE_WORKER,
}


def _times(worker: Worker, prompts: Worker, case: Case) -> r.Times:
    """The decode times of ``worker``, and the prefill times of ``prompts``."""
    curve = np.array(prompts.prefill_curve or [], dtype=np.float64).reshape(-1, 2)
    return r.Times(
        base=step_ticks(worker.slots, worker.t0, worker.r_d, worker.decode_curve, case.ticks_per_second),
        gamma=int(min(worker.gamma * case.ticks_per_second + 0.5, r.LAST_TICK)),
        tpn=case.ticks_per_second // 10**9,
        d=prompts.d,
        rate=prompts.r_p,
        q=prompts.q,
        tokens=curve[:, 0].copy(),
        seconds=curve[:, 1].copy(),
        penalty=case.penalty,
    )


def _pool(worker: Worker, case: Case) -> r.Pool:
    cache = case.cache
    memory = r.Memory(
        capacity=worker.memory,
        growth=cache.growth,
        state=cache.state,
        window_bytes=np.array([omega for omega, _ in cache.windows], dtype=np.int64),
        window_tokens=np.array([window for _, window in cache.windows], dtype=np.int64),
        block=cache.block,
        policy=_POLICY[case.policy],
        swap=case.swap_bandwidth,
    )
    return r.Pool(_times(worker, worker, case), memory, worker.slots)


def _limits(case: Case) -> r.Limits:
    def ticks(seconds: float | None) -> int:
        return r.UNSET if seconds is None else nanoseconds(seconds) * (case.ticks_per_second // 10**9)

    own = case.objectives
    columns = [np.array([ticks(one) for one in column], dtype=np.int64) for column in (own.ttft, own.tpot, own.e2e)]
    return r.Limits(np.array(own.edges[:-1], dtype=np.int64), *columns, ticks(own.stall))


def _log(case: Case, numbers: list[int]) -> r.Log:
    rows = [case.requests[number] for number in numbers]
    arrivals = np.array([at - case.requests[0][0] for at, *_ in rows], dtype=np.int64)
    return r.Log(arrivals, *(np.array([row[place] for row in rows], dtype=np.int32) for place in (1, 2, 3)))


def _separated(case: Case, numbers: list[int]) -> SeparatedPath:
    def ns(seconds: tuple[float, ...]) -> np.ndarray:
        return np.array([max(1, nanoseconds(seconds[number])) for number in numbers], dtype=np.int64)

    lines = {
        "shared": 1,
        "per_prefill_worker": case.workers_prefill,
        "per_decode_worker": case.workers_decode,
    }[case.link_sharing]
    transfers = r.Transfers(ns(case.move_s), ns(case.keep_s), _SHARING[case.link_sharing], case.channels)
    stages = Stages(
        _pool(case.prefill, case), _pool(case.decode, case), transfers, case.first_token_source == "prefill"
    )
    return SeparatedPath(_log(case, numbers), stages, case.workers_prefill, case.workers_decode, lines * case.channels)


def through_kernels(case: Case, window_ns: int) -> tuple[Outcome, dict[int, np.ndarray]]:
    """The outcome, and of every request that is complete the row of its details, by its number."""
    every = list(range(len(case.requests)))
    short = [number for number in every if case.requests[number][1] < case.threshold]
    long = [number for number in every if number not in set(short)]
    mixed, separated = {
        "prefill_first": (every, None),
        "chunked": (every, None),
        "separated": (None, every),
        "routed": (short, long),
    }[case.scheduler]
    paths: list[Path] = []
    if mixed is not None:
        paths.append(MixedPath(_log(case, mixed), _pool(case.mixed, case), case.workers_mixed, case.budget))
    if separated is not None:
        paths.append(_separated(case, separated))
    tpn = case.ticks_per_second // 10**9
    setting = Setting(
        dispatch=_DISPATCH[case.dispatch],
        ordered=case.discipline == "shortest_first",
        admission_ticks=nanoseconds(case.admission) * tpn,
        limits=_limits(case),
        window_ticks=window_ns * tpn,
        windows=(case.requests[-1][0] - case.requests[0][0]) // window_ns + 1,
    )
    outcome = replay(tuple(paths), setting, details=True)
    rows = {}
    for numbers, details in zip([own for own in (mixed, separated) if own is not None], outcome.details, strict=True):
        rows |= {number: row for number, row in zip(numbers, details, strict=True) if row[r.LAST_TOKEN] != r.UNSET}
    return outcome, rows


STAMPS = {
    "prefill_start": r.PREFILL_START,
    "prefill_end": r.PREFILL_END,
    "transfer_start": r.TRANSFER_START,
    "arrived": r.ARRIVED,
    "decode_start": r.DECODE_START,
    "first_step_end": r.FIRST_STEP_END,
    "first_token": r.FIRST_TOKEN,
    "last_token": r.LAST_TOKEN,
    "stall": r.LONGEST_GAP,
    "preemptions": r.TIMES_PREEMPTED,
}


def differences(case: Case, reference: Any, window_ns: int) -> list[str]:
    """Everything in which the kernels and the outcome of the reference differ."""
    outcome, rows = through_kernels(case, window_ns)
    found = [
        f"{name}: {outcome.counts.get(name)}, not {count}"
        for name, count in reference.counts.items()
        if outcome.counts.get(name) != count
    ]
    found += [f"requests complete: {sorted(rows)}"] * (sorted(rows) != [one.number for one in reference.requests])
    for one in reference.requests:
        row = rows.get(one.number, np.full(r.DETAILS, -9))
        for name, column in STAMPS.items():
            expected = getattr(one, name)
            if row[column] != (r.UNSET if expected is None else expected):
                found.append(f"request {one.number} {name}: {row[column]}, not {expected}")
        met = one.met_ttft + 2 * one.met_tpot + 4 * one.met_e2e + 8 * one.met_stall
        if row[r.OBJECTIVES] != met:
            found.append(f"request {one.number} objectives: {row[r.OBJECTIVES]}, not {met}")
    for number, window in enumerate(reference.windows):
        own = {"met": outcome.met[number]} | {pool: work[number] for pool, work in outcome.work.items()}
        found += [
            f"window {number} {name}: {one}, not {window[name]}" for name, one in own.items() if one != window[name]
        ]
    above = int(
        outcome.above(
            {name: getattr(case.ceilings, name) for name in outcome.work}, window_ns * case.ticks_per_second // 10**9
        ).sum()
    )
    if above != reference.windows_above:
        found.append(f"windows above: {above}, not {reference.windows_above}")
    return found
