"""Replays one scenario: which request takes which path, and what comes out of it (docs/replay.md, What comes out)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from .objectives import Objectives
from .parameters import Parameters
from .replaying import WINDOW_S, Ground, PoolTally, Request, Tally
from .replaying_mixed import MixedPool
from .replaying_separated import DECODE, PREFILL, SeparatedPath
from .requests_file import Row
from .scenario import Knobs
from .ticking import NS_PER_S, clock_of, footprint_of, nearest, ticks_per_second

LINKS = "links"


@dataclass(frozen=True)
class Service:
    """What a replay reads at one bound, beside requests and layout: workers of both kinds, and what was promised."""

    mixed: Parameters
    separated: Parameters
    objectives: Objectives
    edges: Sequence[int] = ()
    """Tokens at which the buckets of objectives are cut."""
    stall_s: float | None = None
    hit_ratio: float = 0.0

    @property
    def dispatch(self) -> str:
        """How requests reach the workers of a pool."""
        of = self.mixed
        return "shortest_queue" if of.shortest_queue else "round_robin" if of.round_robin else "least_loaded"

    def of(self, path: Path) -> Parameters:
        """The workers of a path."""
        return self.separated if path.separated else self.mixed


@dataclass(frozen=True)
class Outcome:
    """What came out of a replay: every request, and what was counted on its paths; times in ticks."""

    requests: Sequence[Request]
    tallies: Sequence[Tally]
    service: Service
    ticks_per_s: int

    def _tick(self, seconds: float | None) -> float:
        return math.inf if seconds is None else nearest(seconds * NS_PER_S) * (self.ticks_per_s // NS_PER_S)

    def met_by(self, request: Request) -> tuple[bool, bool, bool, bool]:
        """Whether a request meets TTFT, TPOT, E2E and stall."""
        if not request.complete:
            return False, False, False, False
        objectives, edges = self.service.objectives, [1, *self.service.edges, "inf"]
        place = bisect_right(self.service.edges, request.prompt)
        bucket = f"[{edges[place]},{edges[place + 1]})"
        ttft, tpot, e2e = (self._tick(objectives.of(name, bucket)) for name in ("ttft", "tpot", "e2e"))
        steps = request.outputs - 1
        return (
            request.first - request.arrival <= ttft,
            steps == 0 or request.last - request.first <= tpot * steps,
            request.last - request.arrival <= e2e,
            request.stall <= self._tick(self.service.stall_s),
        )

    def counts(self) -> dict[str, int]:
        """Counts over all requests."""
        met = [(self.met_by(request), request.outputs) for request in self.requests]
        complete = [request for request in self.requests if request.complete]
        found = {
            "requests": len(self.requests),
            "output_tokens": sum(request.outputs for request in self.requests),
            "unfinished": len(self.requests) - len(complete),
            "met_modeled": sum(all(objectives[:3]) for objectives, _ in met),
            "met": sum(all(objectives) for objectives, _ in met),
            "met_tokens": sum(tokens for objectives, tokens in met if all(objectives)),
            "generation_steps": sum(request.outputs - 1 for request in complete),
            "preemptions": sum(tally.preemptions for tally in self.tallies),
            "recomputed_tokens": sum(tally.recomputed for tally in self.tallies),
            "peak_queue": max(tally.peak_queue for tally in self.tallies),
        }
        for place, name in enumerate(("ttft", "tpot", "e2e", "stall")):
            found[f"met_{name}"] = sum(objectives[place] for objectives, _ in met)
        return found

    def sums(self) -> dict[str, int]:
        """Sums and largest figures in ticks, and bytes that were moved to the host or back."""
        complete = [request for request in self.requests if request.complete]
        return {
            "ttft": sum(request.first - request.arrival for request in complete),
            "generation": sum(request.last - request.first for request in complete),
            "stall": max((request.stall for request in complete), default=0),
            "end": max((request.last for request in complete), default=0),
            "swapped_bytes": sum(tally.swapped for tally in self.tallies),
        }

    @property
    def moving(self) -> Tally | None:
        """What was counted on the path that has links."""
        return next((tally for tally in self.tallies if tally.links is not None), None)

    def pools(self) -> dict[str, PoolTally]:
        """The pools by name, in order."""
        return {name: pool for tally in self.tallies for name, pool in tally.pools.items()}

    def windows(self) -> dict[int, tuple[int, int]]:
        """Requests of every window in which some arrive, and how many of them meet everything."""
        found: dict[int, tuple[int, int]] = {}
        for request in self.requests:
            at = request.arrival // (WINDOW_S * self.ticks_per_s)
            requests, met = found.get(at, (0, 0))
            found[at] = requests + 1, met + all(self.met_by(request))
        return found

    def windows_above(self) -> int:
        """Windows in which a pool, or the links, had at least the work of their ceiling."""
        mixed, separated = self.service.mixed, self.service.separated
        ceilings = {
            "mixed": mixed.mixed_ceiling,
            PREFILL: separated.prefill_ceiling,
            DECODE: separated.decode_ceiling,
            LINKS: separated.link_ceiling,
        }
        pools = self.pools()
        if self.moving is not None and self.moving.links is not None:
            pools[LINKS] = self.moving.links
        limits = {name: ceilings[name] * (pool.workers * pool.window) for name, pool in pools.items()}
        return len({at for name, pool in pools.items() for at, work in pool.work.items() if work >= limits[name]})


@dataclass(frozen=True)
class Path:
    """Workers that some requests are sent through: those on one side of a threshold, or all."""

    separated: bool
    threshold: int | None
    budget: int | None
    sizes: tuple[int, ...]
    """Of the mixed pool, or of the prefill and the decode pool."""

    def takes(self, prompt: int) -> bool:
        """Whether prompts of this length take this path."""
        return self.threshold is None or (prompt >= self.threshold) == self.separated


def paths_of(knobs: Knobs) -> list[Path]:
    """The paths of a scenario, the short one first."""
    found = []
    if knobs.workers_mixed is not None:
        found.append(Path(False, knobs.threshold_tokens, knobs.chunk_tokens, (knobs.workers_mixed,)))
    if knobs.workers_prefill is not None and knobs.workers_decode is not None:
        found.append(Path(True, knobs.threshold_tokens, None, (knobs.workers_prefill, knobs.workers_decode)))
    return found


@dataclass
class Replayer:
    """Replays scenarios of one log at one bound; a path of the same sizes once."""

    rows: Sequence[Row]
    """In order of arrival, the first at 0."""
    service: Service
    ticks_per_s: int
    _known: dict[Path, tuple[list[Request], Tally]] = field(default_factory=dict)

    def outcome(self, knobs: Knobs) -> Outcome:
        """Replay all paths of a scenario."""
        found = [self._replayed(path) for path in paths_of(knobs)]
        requests = sorted((one for own, _ in found for one in own), key=lambda one: one.place)
        return Outcome(requests, [tally for _, tally in found], self.service, self.ticks_per_s)

    def steps(self, knobs: Knobs) -> int:
        """Output tokens and pieces of prompts that are still to be replayed of a scenario."""
        left = [path for path in paths_of(knobs) if path not in self._known]
        return sum(o + p // (path.budget or p) for path in left for _, p, _, o in self.rows if path.takes(p))

    def fits(self, knobs: Knobs) -> bool:
        """Whether every request fits into a worker of each of its pools, alone."""
        return all(
            fits_alone(self.service.of(path), p, o, separated=path.separated)
            for path in paths_of(knobs)
            for _, p, _, o in self.rows
            if path.takes(p)
        )

    def _replayed(self, path: Path) -> tuple[list[Request], Tally]:
        if path not in self._known:
            self._known[path] = self._replay(path)
        return self._known[path]

    def _replay(self, path: Path) -> tuple[list[Request], Tally]:
        clock = clock_of(self.service.of(path), self.ticks_per_s)
        own = self._requests(path, clock.ns, clock.ticks_of(clock.of.admission_s))
        windows = self.rows[-1][0] * clock.ns // (WINDOW_S * self.ticks_per_s) + 1
        ground = Ground(self.ticks_per_s, windows, self.service.dispatch, clock.of.shortest_first)
        if path.separated:
            return own, SeparatedPath(ground, clock, *path.sizes).replay(own)
        return own, MixedPool(ground, clock, path.sizes[0], path.budget).replay(own)

    def _requests(self, path: Path, ns: int, admission: int) -> list[Request]:
        """Requests of a path, numbered on it; their hits are the log's, or those of a declared ratio."""
        ratio = self.service.hit_ratio
        own: list[Request] = []
        for place, (arrival, p, cached, o) in enumerate(self.rows):
            if path.takes(p):
                h = min(p - 1, math.floor(ratio * p)) if ratio > 0 else cached
                request = Request(place, arrival * ns, p, h, o)
                request.number, request.comes = len(own), request.arrival + admission
                own.append(request)
        return own


def fits_alone(of: Parameters, p: int, o: int, *, separated: bool) -> bool:
    """Whether a worker has memory for the whole of a request; a prefill worker for its prompt."""
    footprint = footprint_of(of)
    fits = footprint.complete(p, o) <= nearest(of.kv_memory_bytes)
    return fits and (not separated or footprint.prompt(p, o) <= nearest(of.kv_memory_prefill_bytes))


def replay(rows: Sequence[Row], service: Service, knobs: Knobs, ticks_per_s: int | None = None) -> Outcome:
    """Replay requests `(arrival_ns, p, h, o)` in order of arrival, the first at 0, through one scenario."""
    own = ticks_per_s or ticks_per_second(rows[-1][0] - rows[0][0])
    return Replayer(rows, service, own).outcome(knobs)
