"""The scenarios of a topology as pairs of paths: the replay of one path does not depend on the other (docs/replay/routed.md).

So hundreds of millions of routed scenarios take as many replays as they have paths, and what a scenario comes to is a sum.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Bools
from pipelines.frames.inputs import Bound, InputTable
from pipelines.replay.costs import Costs, Knobs
from pipelines.replay.run import replay
from pipelines.topologies.declared import TOPOLOGIES, Topology
from pipelines.topologies.evaluator import figures_of
from pipelines.topologies.question import Layout, Question, Workload, sizes_of
from pipelines.topologies.scenarios import CHUNKS_INPUT, KNOBS, ROUTED_CHUNKS_INPUT, scenario_frame

Int64s = NDArray[np.int64]

UNKNOWN = -1
_ROWS = 4096
_ANY = 1
"""Workers of a path that is not looked at."""


@dataclass(frozen=True)
class Trace:
    """A cohort and its log under one bound."""

    inputs: InputTable
    workload: Workload
    costs: Costs
    bound: Bound

    @cached_property
    def question(self) -> Question:
        """The closed forms, which say what is refused."""
        return Question(self.inputs, self.workload, self.bound)

    @cached_property
    def gpus(self) -> int:
        """The inventory."""
        return int(self.inputs.number("inventory.gpus"))

    def spaces(self, topology: str) -> Iterator["Space"]:
        """The scenarios of a topology, those of each threshold apart, in matrix order."""
        of = TOPOLOGIES[topology]
        for threshold in self.workload.thresholds(self.inputs) if of.routes else [None]:
            yield Space(self, of, threshold)


@dataclass(frozen=True, eq=False)
class Side:
    """All paths of one kind in matrix order. ``met`` are the requests that meet all objectives on each, UNKNOWN before it is replayed.

    ``evaluate`` are the closed forms, which say of each path whether it is refused.
    """

    knobs: pl.DataFrame
    gpus: Int64s
    met: Int64s
    evaluate: Callable[[], Bools]

    @cached_property
    def refused(self) -> Bools:
        """Whether the closed forms refuse a path: not looked at before it is asked for."""
        return self.evaluate()

    @cached_property
    def of_gpus(self) -> dict[int, Int64s]:
        """The paths of each number of GPUs."""
        return {int(level): np.flatnonzero(self.gpus == level) for level in np.unique(self.gpus)}


_NOTHING = Side(
    pl.DataFrame({"workers_mixed": [None]}, schema={"workers_mixed": pl.Int64}),
    np.zeros(1, dtype=np.int64),
    np.zeros(1, dtype=np.int64),
    lambda: np.zeros(1, dtype=bool),
)
"""What a topology of one path has beside it."""


@dataclass(frozen=True, eq=False)
class Block:
    """The pairs of two lists of paths, by their places; all have as many GPUs."""

    short: Int64s
    long: Int64s


@dataclass(frozen=True, eq=False)
class Space:
    """The scenarios of one topology at one threshold: each a path of the mixed pool, of the separate pools, or one of either."""

    trace: Trace
    topology: Topology
    threshold: int | None

    @cached_property
    def short(self) -> Side:
        """The paths over the mixed pool."""
        if "mixed" not in self.topology.pools:
            return _NOTHING
        budgets = self.trace.inputs.words(ROUTED_CHUNKS_INPUT if self.topology.routes else CHUNKS_INPUT)
        lanes = [int(budget) for budget in budgets] if self.topology.name != "aggregated" else []
        every = [*lanes] if self.topology.name == "chunked" else [None, *lanes]
        lane = pl.DataFrame({"chunk_tokens": every}, schema={"chunk_tokens": pl.Int64})
        workers = scenario_frame(self.trace.inputs, (), ["aggregated"]).select("workers_mixed", "gpus")
        return self._side(0, workers.join(lane, how="cross", maintain_order="left_right"))

    @cached_property
    def long(self) -> Side:
        """The paths over the separate pools."""
        if "prefill" not in self.topology.pools:
            return _NOTHING
        pools = scenario_frame(self.trace.inputs, (), ["disaggregated"])
        return self._side(-1, pools.select("workers_prefill", "workers_decode", "gpus"))

    @cached_property
    def fits(self) -> bool:
        """Whether every request fits into an empty worker of the pool that it goes to: the same for any number of workers."""
        return self.trace.costs.fits(Knobs(self.topology.name, self.threshold, _ANY, _ANY, _ANY, None))

    @property
    def levels(self) -> list[int]:
        """The numbers of GPUs that its scenarios have, ascending."""
        sums = {short + long for short in self.short.of_gpus for long in self.long.of_gpus}
        return sorted(level for level in sums if level <= self.trace.gpus)

    def blocks(self, gpus: int) -> Iterator[Block]:
        """All scenarios of so many GPUs."""
        for level, short in self.short.of_gpus.items():
            long = self.long.of_gpus.get(gpus - level)
            if long is not None:
                yield Block(short, long)

    def replayable(self, block: Block) -> Block:
        """The pairs of which neither path is refused; none where requests do not fit."""
        if not self.fits:
            return Block(block.short[:0], block.long[:0])
        return Block(block.short[~self.short.refused[block.short]], block.long[~self.long.refused[block.long]])

    def knobs(self, short: int, long: int) -> dict[str, Any]:
        """The knobs of the scenario that two paths make, and its GPUs."""
        row = self.long.knobs.row(long, named=True) | {
            name: value for name, value in self.short.knobs.row(short, named=True).items() if value is not None
        }
        gpus = int(self.short.gpus[short] + self.long.gpus[long])
        known = {"topology": self.topology.name, "threshold_tokens": self.threshold, "gpus": gpus}
        return dict.fromkeys(KNOBS) | row | known

    def replay(self, is_long: bool, place: int) -> None:
        """Replay one path, and keep how many of its requests meet all objectives."""
        side = self.long if is_long else self.short
        beside = {"workers_mixed": _ANY, "workers_prefill": _ANY, "workers_decode": _ANY, "chunk_tokens": None}
        own = beside | side.knobs.row(place, named=True)
        knobs = Knobs(self.topology.name, self.threshold, **own)
        path = self.trace.costs.paths(knobs)[-1 if is_long else 0]
        side.met[place] = replay((path,), self.trace.costs.setting).counts["met"]

    def _side(self, which: int, rows: pl.DataFrame) -> Side:
        gpus = rows["gpus"].cast(pl.Int64).to_numpy()
        unknown = np.full(rows.height, UNKNOWN, dtype=np.int64)
        return Side(rows.drop("gpus"), gpus, unknown, lambda: self._refused(which, rows.drop("gpus")))

    def _refused(self, which: int, rows: pl.DataFrame) -> Bools:
        """Whether the closed forms refuse each path of ``rows``: scenarios of a topology that has no other path."""
        alone = Topology(**vars(self.topology) | {"paths": (self.topology.paths[which],)})
        sizes = pl.concat([pl.DataFrame(schema=dict.fromkeys(KNOBS, pl.Int64)), rows], how="diagonal_relaxed")
        refused = np.zeros(rows.height, dtype=bool)
        for chunked in (False, True):
            places = np.flatnonzero(sizes["chunk_tokens"].is_not_null().to_numpy() == chunked)
            layout = Layout(alone, self.threshold, chunked)
            for begin in range(0, len(places), _ROWS):
                own = places[begin : begin + _ROWS]
                figures = figures_of(self.trace.question, layout, sizes_of(sizes[own]), len(own))
                refused[own] = figures.judged.refused
        return refused
