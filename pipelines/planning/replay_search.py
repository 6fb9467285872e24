"""The smallest scenario whose goodput on the trace meets a target: in order of preference, and no further than needed (docs/replay.md)."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl

from pipelines.frames.digits import significant
from pipelines.gates.rules import part_weights, preferred_keys
from pipelines.planning.replay_spaces import UNKNOWN, Block, Space, Trace
from pipelines.planning.room import scenario_count
from pipelines.topologies.declared import TOPOLOGIES

GOODPUT_FOR = "margin"
"""The key of the preference in whose place more replayed goodput stands."""

Progress = Callable[[int, int], None]
"""Called with how many paths have been replayed, and how many of them are known to be needed."""


@dataclass(frozen=True)
class Candidate:
    """A replayed scenario: its knobs (topology and GPUs among them), requests that meet all objectives, and its place in matrix order."""

    knobs: Mapping[str, Any]
    parts: float
    met: int
    requests: int
    order: tuple[int, int, int, int]

    @property
    def goodput(self) -> float:
        """``replayed_goodput``, to the exported digits."""
        return significant(self.met / self.requests)

    @property
    def topology(self) -> str:
        """Its topology."""
        return str(self.knobs["topology"])


@dataclass
class Counts:
    """Scenarios: all of them, those looked at, and of these the replayed, refused and too large ones; paths that were replayed for them."""

    scenarios: int = 0
    looked_at: int = 0
    replayed: int = 0
    refused: int = 0
    kv_memory: int = 0
    paths: int = 0


@dataclass
class Found:
    """``smallest`` is the answer, or None; ``best`` of each topology the first in order of those looked at, ``listed`` the first of all.

    The order: those that meet the target as they are preferred, then the others by what they lack.
    """

    smallest: Candidate | None = None
    best: dict[str, Candidate] = field(default_factory=dict)
    listed: list[Candidate] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True)
class _Group:
    """The scenarios of one topology and one number of GPUs: what is best of them does not depend on the preference."""

    topology: str
    order: int
    parts: float
    gpus: int
    spaces: Sequence[Space]

    def blocks(self) -> Iterator[tuple[int, Space, Block]]:
        """Its scenarios."""
        for place, space in enumerate(self.spaces):
            for block in space.blocks(self.gpus):
                yield place, space, block


@dataclass(frozen=True)
class ReplaySearch:
    """What is looked for: the least share of requests that meets all objectives is ``target``; ``preference`` is a frame of the rules."""

    trace: Trace
    preference: pl.DataFrame
    target: float

    def meets(self, candidate: Candidate) -> bool:
        """Whether a scenario meets the target."""
        return candidate.goodput >= self.target

    def run(self, *, all_of_them: bool = False, top: int = 1, progress: Progress | None = None) -> Found:
        """Replay scenarios in order of preference up to the first that meets the target, or all; list ``top`` of them."""
        inputs = self.trace.inputs
        names = inputs.words("topologies.compared")
        thresholds = len(self.trace.workload.thresholds(inputs))
        found = Found(counts=Counts(scenarios=sum(scenario_count(inputs, name, thresholds) for name in names)))
        for _, groups in groupby(sorted(self._groups(names), key=self._class), key=self._class):
            alike = list(groups)
            self._replay(alike, found.counts, progress)
            for group in alike:
                self._look(group, found, top)
            if found.smallest is not None and not all_of_them:
                break
        return found

    def _groups(self, names: Sequence[str]) -> Iterator[_Group]:
        weights = part_weights(self.preference)
        for order, name in enumerate(names):
            spaces = list(self.trace.spaces(name))
            levels = sorted({level for space in spaces for level in space.levels})
            for gpus in levels:
                yield _Group(name, order, TOPOLOGIES[name].operating_parts(weights), gpus, spaces)

    def _class(self, group: _Group) -> tuple[float, ...]:
        """The keys that come before goodput: groups that are alike in them have to be replayed together."""
        keys = preferred_keys(self.preference)
        known = {"operating_parts": group.parts, "gpus": float(group.gpus)}
        return tuple(known[name] for name in keys[: keys.index(GOODPUT_FOR)])

    def preferred(self, candidate: Candidate) -> tuple[Any, ...]:
        """The sort key of what meets the target: the rules' preference, with goodput in the place of the margin."""
        known = {"operating_parts": candidate.parts, "gpus": candidate.knobs["gpus"], GOODPUT_FOR: -candidate.goodput}
        return (*(known[name] for name in preferred_keys(self.preference)), candidate.order)

    def rank(self, candidate: Candidate) -> tuple[Any, ...]:
        """The sort key of a list: what meets the target as it is preferred, then what does not, the nearest first."""
        own = self.preferred(candidate)
        return (0, 0, *own) if self.meets(candidate) else (1, -candidate.met, *own)

    def _replay(self, groups: Sequence[_Group], counts: Counts, progress: Progress | None) -> None:
        """Replay every path that these scenarios are made of, once."""
        needed = list(dict.fromkeys(one for group in groups for one in _unknown(group)))

        def work(one: tuple[Space, bool, int]) -> None:
            one[0].replay(one[1], one[2])

        before = counts.paths
        threads = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        try:
            for _ in threads.map(work, needed):
                counts.paths += 1
                if progress is not None:
                    progress(counts.paths, before + len(needed))
        finally:
            threads.shutdown(cancel_futures=True)

    def _look(self, group: _Group, found: Found, top: int) -> None:
        candidates: list[Candidate] = []
        for place, space, block in group.blocks():
            own = space.replayable(block)
            _count(found.counts, space, block)
            candidates += self._best(group, place, space, own, max(1, top))
        if not candidates:
            return
        candidates.sort(key=self.rank)
        best = candidates[0]
        known = found.best.get(group.topology)
        if known is None or self.rank(best) < self.rank(known):
            found.best[group.topology] = best
        if self.meets(best) and (found.smallest is None or self.preferred(best) < self.preferred(found.smallest)):
            found.smallest = best
        found.listed = sorted(found.listed + candidates[:top], key=self.rank)[:top]

    def _best(self, group: _Group, place: int, space: Space, block: Block, top: int) -> list[Candidate]:
        """The first ``top`` pairs of a block, those that meet more before others, and equal ones in matrix order."""
        if not len(block.short) or not len(block.long):
            return []
        sums = (space.short.met[block.short][:, None] + space.long.met[block.long][None, :]).ravel()
        found = []
        for at in np.argsort(-sums, kind="stable")[:top]:
            short, long = (int(one) for one in divmod(int(at), len(block.long)))
            pair = int(block.short[short]), int(block.long[long])
            order = (group.order, place, *pair)
            requests = len(self.trace.costs.log.prompt)
            found.append(Candidate(space.knobs(*pair), group.parts, int(sums[at]), requests, order))
        return found


def _unknown(group: _Group) -> Iterator[tuple[Space, bool, int]]:
    """The paths of a group that are not replayed yet, and are part of a scenario that can be."""
    for _, space, block in group.blocks():
        own = space.replayable(block)
        if len(own.short) and len(own.long):
            for is_long, side, places in ((False, space.short, own.short), (True, space.long, own.long)):
                yield from ((space, is_long, int(one)) for one in places[side.met[places] == UNKNOWN])


def _count(counts: Counts, space: Space, block: Block) -> None:
    """Count the scenarios of a block: what is refused is refused, whether it fits or not."""
    every = len(block.short) * len(block.long)
    allowed = int((~space.short.refused[block.short]).sum()) * int((~space.long.refused[block.long]).sum())
    counts.looked_at += every
    counts.refused += every - allowed
    if space.fits:
        counts.replayed += allowed
    else:
        counts.kv_memory += allowed
