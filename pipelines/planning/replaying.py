"""Which scenarios the trace is replayed through: all that are kept, or those that speak by the closed forms (docs/replay.md)."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.frames.replay_scope import ALL, FINALISTS, ReplayScope
from pipelines.frames.replays import Replays, ReplaySample
from pipelines.gates.decision import decide
from pipelines.gates.judge import bucket_requests, judge
from pipelines.gates.replayed import by_closed_forms, on_replays
from pipelines.topologies.question import Workload
from pipelines.topologies.scenarios import KNOBS

_ROW = ("scenario", "topology", *KNOBS, "bound", "status")
_KEY = ("scenario", "bound")


class StaleReplaysError(Exception):
    """The stored replays are not those that the gates ask for."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__("a gate is on figures of a replay that was not made of these scenarios; run the whole plan")


@dataclass(frozen=True)
class ReplayAsked:
    """A scenario matrix, what it was made from, the rules, and whether ``all`` scenarios are to be replayed or the ``finalists``."""

    inputs: InputTable
    workload: Workload
    requests: pl.DataFrame
    matrix: pl.DataFrame
    gates: pl.DataFrame
    preference: pl.DataFrame
    asked: str = FINALISTS

    @property
    def which(self) -> str:
        """``all`` where that is asked for, or where a gate that applies is on a replayed figure."""
        return ALL if self.asked == ALL or on_replays(self.gates, self.inputs) else FINALISTS

    def finalists(self) -> pl.DataFrame:
        """The decision by the closed forms: a row for each compared topology with the scenario that speaks for it."""
        gates = by_closed_forms(self.gates)
        verdicts = judge(self.matrix, gates, self.inputs, bucket_requests(self.workload.buckets))
        return decide(self.matrix, verdicts, self.preference, self.inputs, gates)


@dataclass(frozen=True)
class Replayed:
    """The replay of a plan: what of it there is, its figures, the sample that the verifier replays."""

    scope: pl.DataFrame  # ReplayScope, one row
    replays: pl.DataFrame  # Replays
    sample: pl.DataFrame  # ReplaySample


def replayed(of: ReplayAsked) -> Replayed:
    """Replay what is asked for under both bounds; no rows where the cohort has no arrivals to replay."""
    from pipelines.replay import plan  # its compiler takes a second to import, which only a plan has to wait for

    reason = plan.cohort_reason(of.inputs, of.requests)
    scope = _frame(ReplayScope, [{"which": of.which, "reason": reason}])
    if reason is not None:
        return Replayed(scope, _frame(Replays, []), _frame(ReplaySample, []))
    rows = of.matrix
    if of.which == FINALISTS:
        rows = rows.filter(pl.col("scenario").is_in(of.finalists()["scenario"].to_list()))
    found = plan.replayed(of.inputs, of.workload, of.requests, rows.select(_ROW))
    return Replayed(scope, found, plan.sample_of(of.requests))


def check_replays(
    matrix: pl.DataFrame, gates: pl.DataFrame, inputs: InputTable, scope: pl.DataFrame, replays: pl.DataFrame
) -> None:
    """Raise StaleReplaysError where a gate that applies is on replayed figures, and not all rows of ``matrix`` were replayed."""
    if not on_replays(gates, inputs):
        return
    row = scope.row(0, named=True)
    lacking = matrix.select(_KEY).join(replays.select(_KEY), on=_KEY, how="anti")
    if row["which"] != ALL or (row["reason"] is None and not lacking.is_empty()):
        raise StaleReplaysError


def _frame(model: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {name: column.dtype.type for name, column in model.to_schema().columns.items()}
    frame: pl.DataFrame = model.validate(pl.DataFrame(rows, schema=schema, orient="row"))
    return frame
