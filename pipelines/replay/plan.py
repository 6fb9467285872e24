"""The replay of a plan: scenarios of the matrix, on the whole trace and on the sample that the verifier replays (docs/replay.md)."""

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.frames.replays import SAMPLE, WHOLE, Replays, ReplaySample
from pipelines.replay.clock import COARSEST, WINDOW_S
from pipelines.replay.costs import Costs, Knobs
from pipelines.replay.figures import replay_row
from pipelines.replay.run import replay
from pipelines.topologies.constants import CONCURRENCY_INPUT, gpus_per_worker
from pipelines.topologies.question import Workload
from pipelines.topologies.scenarios import KNOBS

SAMPLE_REQUESTS = 256
SAMPLE_NS = 2**53
"""A receipt's numbers are exact up to here."""
REFUSED, KV_MEMORY = "refused", "kv_memory"
Row = dict[str, Any]


def cohort_reason(inputs: InputTable, requests: pl.DataFrame) -> str | None:
    """Why nothing of a cohort can be replayed; None where it can."""
    if inputs.has(CONCURRENCY_INPUT):
        return "closed_loop"
    return "no_arrivals" if requests["arrival_ns"][-1] == 0 else None


def sample_of(requests: pl.DataFrame) -> pl.DataFrame:
    """The sample: a :class:`ReplaySample` of the busiest minute's first requests, and of those before where too few follow."""
    tokens = pl.col("prompt_tokens").cast(pl.Int64) + pl.col("output_tokens").cast(pl.Int64)
    minute = pl.col("arrival_ns") // (WINDOW_S * COARSEST)
    minutes, sums = requests.select(minute=minute, tokens=tokens).to_numpy().T
    busy = np.zeros(int(minutes[-1]) + 1, dtype=np.int64)
    np.add.at(busy, minutes, sums)
    first = int(np.searchsorted(minutes, int(busy.argmax())))
    first = max(0, min(first, requests.height - SAMPLE_REQUESTS))
    own = requests.slice(first, SAMPLE_REQUESTS).with_columns(pl.all().cast(pl.Int64))
    since = own.with_columns(pl.col("arrival_ns") - pl.col("arrival_ns").first())
    frame = since.filter(pl.col("arrival_ns") < SAMPLE_NS).with_row_index("request", first)
    return ReplaySample.validate(frame.with_columns(pl.col("request").cast(pl.Int64)))


@dataclass(frozen=True)
class Replayer:
    """One cohort's log, replayed through any scenario under any bound, whole and as the sample."""

    inputs: InputTable
    whole: Mapping[Bound, Costs]
    sample: Mapping[Bound, Costs]

    @classmethod
    def of(cls, inputs: InputTable, workload: Workload, requests: pl.DataFrame) -> "Replayer":
        """Of a log with arrivals."""
        whole = {bound: Costs.of(inputs, bound, workload, requests) for bound in BOUNDS}
        taken = sample_of(requests)
        sample = {bound: Costs.of(inputs, bound, workload, taken, whole[bound].ticks_per_s) for bound in BOUNDS}
        return cls(inputs, whole, sample)

    def rows(self, row: Mapping[str, Any]) -> list[Row]:
        """The replays of one row of the scenario matrix: whole and sample, or the reason why there is none."""
        bound: Bound = row["bound"]
        knobs = Knobs(row["topology"], *(row[name] for name in KNOBS))
        shown = {"scenario": row["scenario"], "bound": bound, "ticks_per_second": self.whole[bound].ticks_per_s}
        reason = self.reason(row["status"], knobs, bound)
        if reason is not None:
            return [shown | {"part": WHOLE, "reason": reason}]
        each = gpus_per_worker(self.inputs)
        found = []
        for part, costs in ((WHOLE, self.whole[bound]), (SAMPLE, self.sample[bound])):
            outcome = replay(costs.paths(knobs), costs.setting)
            found.append(
                shown | {"part": part, "reason": None} | replay_row(outcome, costs, each, figures=part == WHOLE)
            )
        return found

    def reason(self, status: str, knobs: Knobs, bound: Bound) -> str | None:
        """Why a scenario is not replayed under ``bound``; None where it is."""
        if status == REFUSED:
            return REFUSED
        return None if self.whole[bound].fits(knobs) else KV_MEMORY


def replayed(inputs: InputTable, workload: Workload, requests: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the scenario matrix, replayed: a :class:`Replays` frame in their order, the whole trace before the sample."""
    if cohort_reason(inputs, requests) is not None or rows.is_empty():
        return _frame([])
    replayer = Replayer.of(inputs, workload, requests)
    every = rows.select("scenario", "topology", *KNOBS, "bound", "status").to_dicts()
    return _frame([one for found in side_by_side(replayer.rows, every) for one in found])


def side_by_side(work: Callable[[Row], list[Row]], rows: Iterable[Row]) -> Iterable[list[Row]]:
    """``work`` on each row, on all processors, in the order of ``rows``. Kernels let go of the interpreter while they run."""
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as threads:
        yield from threads.map(work, rows)


def _frame(rows: list[Row]) -> pl.DataFrame:
    columns = {name: column.dtype.type for name, column in Replays.to_schema().columns.items()}
    cells = {name: [row.get(name) for row in rows] for name in columns}
    return Replays.validate(pl.DataFrame(cells, schema=columns))
