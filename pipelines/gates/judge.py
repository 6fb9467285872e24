"""Gates x scenario matrix -> verdicts."""

from collections.abc import Mapping

import polars as pl

from pipelines.frames.digits import round_results
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import Verdicts
from pipelines.frames.metrics import METRICS
from pipelines.gates.rules import applicable
from pipelines.topologies.matrix import LATENCIES

_HOLDS = {
    "lte": lambda figure, limit: figure <= limit,
    "lt": lambda figure, limit: figure < limit,
    "gte": lambda figure, limit: figure >= limit,
    "gt": lambda figure, limit: figure > limit,
}
UPPER_LIMITS = ("lte", "lt")

_OBJECTIVE_OF = {f"{name}_worst": name for name in LATENCIES}
"""Metrics that are judged bucket by bucket where their limit is the objective of this name."""


def judged_by_bucket(gate: Mapping[str, object]) -> str | None:
    """The latency that ``gate`` holds against each bucket's own objective, if it does."""
    name = _OBJECTIVE_OF.get(str(gate["metric"]))
    return name if name is not None and gate["objective"] == name else None


def judge(matrix: pl.DataFrame, gates: pl.DataFrame, inputs: InputTable) -> pl.DataFrame:
    """Judge every scenario by every gate that applies to it: a :class:`Verdicts` frame, scenarios in matrix order, gates in theirs.

    Figures and margins are results and rounded, limits are declared and not.
    The verdict is ``refused`` where the figure is absent, or the scenario is refused under the gate's bound and the figure is a latency.
    """
    judged = [
        _judge_one(matrix, gate).with_columns(gate_place=pl.lit(position))
        for position, gate in enumerate(applicable(gates, inputs).iter_rows(named=True))
        if gate["limit"] is not None
    ]
    columns = list(Verdicts.to_schema().columns)
    verdicts = pl.concat(judged).sort("place", "gate_place").select(columns)
    return Verdicts.validate(round_results(verdicts).with_columns(verdicts["limit"]))


def _judge_one(matrix: pl.DataFrame, gate: dict[str, object]) -> pl.DataFrame:
    metric = METRICS[str(gate["metric"])]
    figure, limit, op = pl.col("figure"), pl.col("limit"), str(gate["op"])
    latency = judged_by_bucket(gate)
    column = metric.column if latency is None else f"{latency}_judged_s"
    declared = pl.lit(gate["limit"], pl.Float64)
    limits = declared if latency is None else pl.col(f"{latency}_objective_s").fill_null(declared)
    concerned = (pl.col("bound") == gate["bound"]) & pl.col("topology").is_in(str(gate["topologies"]).split())
    shown = (pl.col("status") == "evaluated") if metric.needs_latency else pl.lit(True)
    distance = limit - figure if op in UPPER_LIMITS else figure - limit
    return (
        matrix.filter(concerned)
        .with_columns(
            *[pl.lit(gate[name]).alias(name) for name in ("gate", "metric", "unit", "op", "severity", "blocking")],
            limit=limits,
            figure=pl.when(shown).then(pl.col(column).cast(pl.Float64)),
        )
        .with_columns(
            margin=pl.when(limit != 0).then(distance / limit),
            verdict=pl.when(figure.is_null())
            .then(pl.lit("refused"))
            .when(_HOLDS[op](figure, limit))
            .then(pl.lit("pass"))
            .otherwise(pl.lit("fail")),
        )
    )
