"""Gates x scenario matrix -> verdicts."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from pipelines.arithmetic.numbers import Floats
from pipelines.frames.digits import round_results, significant_values
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import Verdicts
from pipelines.frames.metrics import METRICS
from pipelines.frames.workload import ALL
from pipelines.gates.aggregates import UPPER_LIMITS, BucketRequests, aggregated
from pipelines.gates.rules import applicable
from pipelines.topologies.matrix import LATENCIES

_HOLDS = {
    "lte": lambda figure, limit: figure <= limit,
    "lt": lambda figure, limit: figure < limit,
    "gte": lambda figure, limit: figure >= limit,
    "gt": lambda figure, limit: figure > limit,
}

_OBJECTIVE_OF = {f"{name}_worst": name for name in LATENCIES}
"""Metrics that are judged bucket by bucket where their limit is the objective of this name."""
_COPIED = ("gate", "metric", "unit", "op", "severity")


def judged_by_bucket(gate: Mapping[str, object]) -> str | None:
    """The latency that ``gate`` holds against each bucket's own objective, if it does."""
    name = _OBJECTIVE_OF.get(str(gate["metric"]))
    return name if name is not None and gate["objective"] == name else None


def bucket_requests(buckets: pl.DataFrame) -> BucketRequests:
    """Labels and requests of a :class:`Buckets` frame, without the row of all requests."""
    own = buckets.filter(pl.col("bucket") != ALL)
    return BucketRequests(own["bucket"].to_list(), own["requests"].cast(pl.Float64).to_numpy())


def judge(matrix: pl.DataFrame, gates: pl.DataFrame, inputs: InputTable, buckets: BucketRequests) -> pl.DataFrame:
    """Judge every scenario by every gate that applies to it: a :class:`Verdicts` frame, scenarios in matrix order, gates in theirs.

    Where a gate is on a replayed figure, ``matrix`` has the replayed figures beside it (pipelines.gates.replayed).

    Figures, margins and limits that are multiples of figures are results and rounded, declared limits are not.
    The verdict is ``refused`` where figure or limit is absent, or the scenario is refused under the gate's bound and either is a latency.
    Raises UnknownBucketError where a gate names a bucket that there is not.
    """
    judged = [
        _judge_one(matrix, gate, inputs, buckets).with_columns(gate_place=pl.lit(position))
        for position, gate in enumerate(applicable(gates, inputs).iter_rows(named=True))
        if gate["applies"]
    ]
    columns = list(Verdicts.to_schema().columns)
    if not judged:
        return _none()
    verdicts = pl.concat(judged).sort("place", "gate_place").select(columns)
    return Verdicts.validate(round_results(verdicts).with_columns(verdicts["limit"]))


def _none() -> pl.DataFrame:
    schema = {name: column.dtype.type for name, column in Verdicts.to_schema().columns.items()}
    return Verdicts.validate(pl.DataFrame(schema=schema))


def _judge_one(matrix: pl.DataFrame, gate: dict[str, Any], inputs: InputTable, buckets: BucketRequests) -> pl.DataFrame:
    figure, limit, op = pl.col("figure"), pl.col("limit"), str(gate["op"])
    concerned = (pl.col("bound") == gate["bound"]) & pl.col("topology").is_in(gate["topologies"].split())
    waived = pl.col("topology").is_in(gate["waived"].split())
    distance = limit - figure if op in UPPER_LIMITS else figure - limit
    own = matrix.filter(concerned)
    return own.with_columns(
        *[pl.lit(gate[name], pl.String).alias(name) for name in _COPIED],
        limit=_limits(matrix, own, gate, inputs, buckets),
        figure=_figures(own, gate, buckets),
        waived=pl.lit(gate["blocking"]) & waived,
        blocking=pl.lit(gate["blocking"]) & ~waived,
    ).with_columns(
        margin=pl.when(limit != 0).then(distance / limit),
        verdict=pl.when(figure.is_null() | limit.is_null())
        .then(pl.lit("refused"))
        .when(_HOLDS[op](figure, limit))
        .then(pl.lit("pass"))
        .otherwise(pl.lit("fail")),
    )


def _limits(
    matrix: pl.DataFrame, own: pl.DataFrame, gate: dict[str, Any], inputs: InputTable, buckets: BucketRequests
) -> pl.Series:
    """The limit of every row: declared, a bucket's own objective, or a multiple of another of its figures or of a baseline's."""
    if gate["limit_baseline"] is not None:
        return _of_baseline(matrix, own, gate, inputs, buckets)
    if gate["limit_metric"] is not None:
        return _rounded(gate["limit_times"] * _of_scenario(own, gate["limit_metric"]))
    latency = judged_by_bucket(gate)
    if latency is None:
        return pl.Series([gate["limit"]] * own.height, dtype=pl.Float64)
    return own[f"{latency}_objective_s"].fill_null(gate["limit"])


def _of_baseline(
    matrix: pl.DataFrame, own: pl.DataFrame, gate: dict[str, Any], inputs: InputTable, buckets: BucketRequests
) -> pl.Series:
    """A multiple of the best figure of the baseline's scenarios on as many GPUs as each row has."""
    others = matrix.filter(bound=gate["bound"], topology=gate["limit_baseline"])
    figures = others.select("gpus", figure=_figures(others, gate, buckets))
    best = pl.col("figure").min() if gate["op"] in UPPER_LIMITS else pl.col("figure").max()
    each = int(inputs.number("inventory.gpus_per_worker"))
    fitting = own.select(gpus=pl.col("gpus") // each * each)
    found = fitting.join(figures.group_by("gpus").agg(best), on="gpus", how="left", maintain_order="left")
    return _rounded(gate["limit_times"] * found["figure"].fill_null(np.nan).to_numpy())


def _figures(own: pl.DataFrame, gate: dict[str, Any], buckets: BucketRequests) -> pl.Series:
    """The judged figure of every row, absent where the row is refused and the figure is a latency."""
    latency = judged_by_bucket(gate)
    if gate["aggregate"] is not None:
        return _rounded(aggregated(gate, _by_bucket(own, gate["metric"], len(buckets.labels)), buckets))
    if latency is not None:
        return _shown(own, own[f"{latency}_judged_s"])
    return pl.Series(_of_scenario(own, gate["metric"])).fill_nan(None)


def _of_scenario(own: pl.DataFrame, metric: str) -> Floats:
    """The figure of a metric of scenarios in every row; NaN where there is none, or it is a latency of a refused row."""
    known = METRICS[metric]
    figure = own[known.column].cast(pl.Float64)
    found: Floats = (_shown(own, figure) if known.needs_latency else figure).fill_null(np.nan).to_numpy()
    return found


def _shown(own: pl.DataFrame, figure: pl.Series) -> pl.Series:
    shown: pl.Series = own.select(pl.when(pl.col("status") == "evaluated").then(figure)).to_series()
    return shown


def _by_bucket(own: pl.DataFrame, metric: str, buckets: int) -> Floats:
    """The figures of a metric by bucket: rows x buckets, NaN where there is none."""
    column = _shown(own, own[METRICS[metric].column])
    values = own.select(pl.when(column.is_null()).then([None] * buckets).otherwise(column).alias("values"))
    flat = values["values"].explode().cast(pl.Float64).fill_null(np.nan).to_numpy()
    return np.asarray(flat, dtype=np.float64).reshape(own.height, buckets)


def _rounded(values: Floats) -> pl.Series:
    return pl.Series(significant_values(values), dtype=pl.Float64).fill_nan(None)
