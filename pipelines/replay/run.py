"""One scenario's replay: its paths one after the other, and their counts together (docs/replay.md, What comes out)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.frames.replays import DECODE, MIXED, POOLS, PREFILL
from pipelines.replay import records as r
from pipelines.replay.compiled import forgiving
from pipelines.replay.mixed import replay_mixed
from pipelines.replay.separated import DECODE_ROW, LINK_ROW, PREFILL_ROW, Stages, replay_separated
from pipelines.replay.workers import new_workers

LINK = "link"
_ROWS = (PREFILL, DECODE, LINK)
assert (PREFILL_ROW, DECODE_ROW, LINK_ROW) == (0, 1, 2)
_SUMMED = {
    "met_ttft": r.MET_TTFT,
    "met_tpot": r.MET_TPOT,
    "met_e2e": r.MET_E2E,
    "met_stall": r.MET_STALL,
    "met_modeled": r.MET_MODELED,
    "met": r.MET,
    "met_tokens": r.MET_TOKENS,
    "generation_steps": r.STEPS,
    "preemptions": r.PREEMPTIONS,
    "recomputed_tokens": r.RECOMPUTED,
    "swapped_bytes": r.SWAPPED,
}
_SUMS_OF_TICKS = {"ttft_ticks": r.TTFT_LOW, "generation_ticks": r.GENERATION_LOW, "link_ticks": r.LINK_LOW}
_LARGEST = {
    "stall_ticks": r.STALL,
    "end_ticks": r.END,
    "peak_queue": r.PEAK_QUEUE,
    "peak_transfer_queue": r.PEAK_TRANSFERS,
    "peak_decode_queue": r.PEAK_DECODE,
}
_SPENT = {"prefill_ticks": "prefill", "decode_ticks": "decode", "swap_ticks": "swap"}


@dataclass(frozen=True)
class MixedPath:
    """Prompts for a mixed pool of ``workers``; ``budget`` tokens per step, 0 for whole prompts."""

    log: r.Log
    pool: r.Pool
    workers: int
    budget: int


@dataclass(frozen=True)
class SeparatedPath:
    """Prompts for a prefill pool, links and a decode pool."""

    log: r.Log
    stages: Stages
    prefill_workers: int
    decode_workers: int
    links: int
    """Channels of all lines together."""


Path = MixedPath | SeparatedPath


@dataclass(frozen=True)
class Setting:
    """What the paths of a scenario share. ``window_ticks`` is the length of a window, ``windows`` how many there are."""

    dispatch: int
    ordered: bool
    admission_ticks: int
    limits: r.Limits
    window_ticks: int
    windows: int


@dataclass(frozen=True)
class Outcome:
    """What came out: ``counts`` by the names of docs/replay.md (those of a pool begin with it), ``met`` and ``work`` of each window.

    ``work`` is ticks by pool and links, ``servers`` their workers and channels; ``details`` are those of each path, empty unless asked for.
    """

    counts: Mapping[str, int]
    met: r.Int64s
    work: Mapping[str, r.Int64s]
    servers: Mapping[str, int]
    details: tuple[NDArray[np.int64], ...] = ()

    def above(self, ceilings: Mapping[str, float], window_ticks: int) -> NDArray[np.bool_]:
        """Of each window, whether any pool, or the links, works as much in it as its ceiling allows, or more."""
        above = np.zeros(len(self.met), dtype=bool)
        for name, work in self.work.items():
            least = math.ceil(ceilings[name] * (self.servers[name] * window_ticks))  # whole, as work is: no rounding
            above |= np.asarray(work >= least, dtype=bool)
        return above


@dataclass
class _Totals:
    counts: dict[str, int]
    met: r.Int64s
    work: dict[str, r.Int64s] = field(default_factory=dict)
    servers: dict[str, int] = field(default_factory=dict)
    details: list[NDArray[np.int64]] = field(default_factory=list)


def replay(paths: tuple[Path, ...], setting: Setting, *, details: bool = False) -> Outcome:
    """Send the requests of every path through its pools; ``details`` keeps the ticks of each request as well."""
    totals = _Totals(_nothing(), np.zeros(setting.windows, dtype=np.int64))
    for path in paths:
        _replay_path(path, setting, totals, details)
    return Outcome(totals.counts, totals.met, totals.work, totals.servers, tuple(totals.details))


def _nothing() -> dict[str, int]:
    of_pools = [f"{pool}_{name}" for pool in POOLS for name in (*_SPENT, "peak_kv_bytes")]
    names = ("requests", "output_tokens", "unfinished", *_SUMMED, *_SUMS_OF_TICKS, *_LARGEST, *of_pools)
    return dict.fromkeys(names, 0)


def _replay_path(path: Path, setting: Setting, totals: _Totals, details: bool) -> None:
    rows = 1 if isinstance(path, MixedPath) else 3
    work, clocks = np.zeros((2, rows, setting.windows), dtype=np.int64)
    count = len(path.log.prompt)
    run = r.Run(
        log=r.Log(*(_read_only(column) for column in path.log)),
        dispatch=setting.dispatch,
        admission=setting.admission_ticks,
        limits=setting.limits,
        windows=r.Windows(setting.window_ticks, totals.met, work, clocks),
        counts=np.zeros(r.COUNTS, dtype=np.int64),
        details=np.full((count if details else 0, r.DETAILS), r.UNSET, dtype=np.int64),
    )
    workers = _workers(path, run, setting.ordered)
    if clocks.any():  # more than 64 bits have room for: whole numbers of Python
        work = work + clocks.astype(object) * r.LAST_TICK
    totals.work |= dict(zip((MIXED,) if isinstance(path, MixedPath) else _ROWS, work, strict=True))
    if isinstance(path, SeparatedPath):
        totals.servers[LINK] = path.links
    totals.servers |= {pool: len(own) for pool, own in workers.items()}
    _add(totals.counts, run, workers)
    if details:
        totals.details.append(run.details)


def _workers(path: Path, run: r.Run, ordered: bool) -> dict[str, r.Records]:
    """The workers of each pool of a path after its replay; a path may have no request."""
    if isinstance(path, MixedPath):
        if not len(path.log.prompt):
            return {MIXED: new_workers(path.workers, 0)}
        return {MIXED: forgiving(replay_mixed, run, path.pool, path.workers, path.budget, ordered)}
    if not len(path.log.prompt):
        return {PREFILL: new_workers(path.prefill_workers, 0), DECODE: new_workers(path.decode_workers, 0)}
    moved = path.stages.transfers
    moved = moved._replace(move_ns=_read_only(moved.move_ns), keep_ns=_read_only(moved.keep_ns))
    stages = path.stages._replace(transfers=moved)
    pools = forgiving(replay_separated, run, stages, path.prefill_workers, path.decode_workers, ordered)
    return dict(zip((PREFILL, DECODE), pools, strict=True))


def _read_only(column: Any) -> Any:
    """The same values, not to be written: of one kind, wherever they are from, since kernels are compiled for each kind."""
    own = column.view()
    own.flags.writeable = False
    return own


def _add(counts: dict[str, int], run: r.Run, workers: Mapping[str, r.Records]) -> None:
    found = [int(value) for value in run.counts]
    counts["requests"] += len(run.log.prompt)
    counts["output_tokens"] += int(run.log.output.sum(dtype=np.int64))
    counts["unfinished"] += len(run.log.prompt) - found[r.FINISHED]
    for name, place in _SUMMED.items():
        counts[name] += found[place]
    for name, low in _SUMS_OF_TICKS.items():
        counts[name] += found[low] + (found[low + 1] << r.LOW_BITS)
    for name, place in _LARGEST.items():
        counts[name] = max(counts[name], found[place])
    for pool, own in workers.items():
        for name, spent in _SPENT.items():
            counts[f"{pool}_{name}"] += sum(int(ticks) for ticks in own[spent])
        counts[f"{pool}_peak_kv_bytes"] = max(counts[f"{pool}_peak_kv_bytes"], int(own["peak"].max()))
