"""Gates x scenario matrix -> verdicts."""

import polars as pl

from pipelines.frames.digits import round_results
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import Verdicts
from pipelines.frames.metrics import METRICS
from pipelines.gates.rules import applicable

_HOLDS = {
    "lte": lambda figure, limit: figure <= limit,
    "lt": lambda figure, limit: figure < limit,
    "gte": lambda figure, limit: figure >= limit,
    "gt": lambda figure, limit: figure > limit,
}
UPPER_LIMITS = ("lte", "lt")


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
    concerned = (pl.col("bound") == gate["bound"]) & pl.col("topology").is_in(str(gate["topologies"]).split())
    shown = (pl.col("status") == "evaluated") if metric.needs_latency else pl.lit(True)
    distance = limit - figure if op in UPPER_LIMITS else figure - limit
    return (
        matrix.filter(concerned)
        .with_columns(
            *[
                pl.lit(gate[name]).alias(name)
                for name in ("gate", "metric", "unit", "op", "limit", "severity", "blocking")
            ],
            figure=pl.when(shown).then(pl.col(metric.column).cast(pl.Float64)),
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
