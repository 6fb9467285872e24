"""Evaluations of one cohort -> the scenario matrix: the worst bucket of each figure, rounded to the exported digits."""

from collections.abc import Mapping

import polars as pl

from pipelines.frames.digits import RESULT_DIGITS, round_results, significant
from pipelines.frames.evaluation import LANES, ScenarioColumns
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import ScenarioMatrix
from pipelines.topologies.constants import bucket_objective_path
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.requests import edges_of

LATENCIES = ("ttft", "tpot", "e2e")
BY_BUCKET = {f"{name}_by_bucket": f"{name}_s" for name in ("ttft", "tpot", "e2e", "prefill_wait", "decode_wait")} | {
    "transfer_by_bucket": "moved_s"
}
"""Columns that list a figure of every bucket, and where it comes from."""

_MOVING = ("transfer_wait_s", "kv_movement_s")


class MixedCohortsError(ValueError):
    """Rows with different fingerprints were put side by side."""

    def __init__(self, fingerprints: list[str]) -> None:
        """Name the fingerprints that met."""
        shown = ", ".join(value[:12] for value in sorted(fingerprints))
        super().__init__(f"scenarios of different cohorts cannot be compared: fingerprints {shown}")


def _first(column: str, where_largest: str) -> pl.Expr:
    """``column`` of the first bucket whose exported ``where_largest`` is the largest."""
    return pl.col(column).filter(pl.col(where_largest) == pl.col(where_largest).max()).first()


def bucket_objectives(inputs: InputTable, labels: list[str]) -> pl.DataFrame:
    """The declared objectives of each bucket in seconds, one row per label; absent where none is declared."""

    def of(label: str, name: str) -> float | None:
        path = bucket_objective_path(inputs, edges_of(label)[1], name)
        return inputs.number(path) if inputs.has(path) else None

    columns = {f"{name}_objective_s": [of(label, name) for label in labels] for name in LATENCIES}
    return pl.DataFrame({"bucket": labels} | columns, schema_overrides=dict.fromkeys(columns, pl.Float64))


def _judged(lanes: pl.DataFrame, inputs: InputTable) -> pl.DataFrame:
    """Add what each bucket's figures are judged against, and by how much: its objective where buckets have their own, else all alike."""
    lanes = lanes.join(
        bucket_objectives(inputs, lanes["bucket"].unique().to_list()), on="bucket", how="left", maintain_order="left"
    )
    by_bucket = any(path.startswith("objectives.buckets.") for path in inputs.rows)
    measures = []
    for name in LATENCIES:
        objective = f"{name}_objective_s"
        own = by_bucket and not lanes[objective].is_null().all()
        against = pl.col(objective).fill_null(float("inf")) if own else pl.lit(1.0)
        ratio = lanes.select(pl.col(f"{name}_s") / against).to_series()
        rounded = [None if value is None else significant(value, RESULT_DIGITS) for value in ratio]
        measures.append(pl.Series(f"{name}_measure", rounded, dtype=pl.Float64))
    return lanes.with_columns(measures)


def scenario_matrix(evaluations: list[pl.DataFrame], inputs: InputTable, weights: Mapping[str, float]) -> pl.DataFrame:
    """One row per scenario and bound of all topologies: a :class:`ScenarioMatrix`, in matrix order; ``weights`` as in the decision rule.

    Raises MixedCohortsError unless all rows carry one fingerprint.
    """
    lanes = pl.concat(evaluations)
    fingerprints = lanes["fingerprint"].unique().to_list()
    if len(fingerprints) != 1:
        raise MixedCohortsError(fingerprints)
    growth = inputs.number("objectives.ttft_growth") if inputs.has("objectives.ttft_growth") else None
    separating = [name for name, topology in TOPOLOGIES.items() if topology.separates]
    moved = pl.when(pl.col("topology").is_in(separating)).then(pl.col("transfer_wait_s") + pl.col("kv_movement_s"))
    exported = round_results(
        lanes.with_columns(transfer_s=moved, transfer_share=moved / pl.lit(growth, pl.Float64)).drop(
            lane for lane in LANES if lane not in (*BY_BUCKET.values(), *_MOVING)
        )
    ).with_columns(lanes["refusal_limit", "rate_rps"])  # declared or solved, with digits of their own
    exported = exported.with_columns(
        round_results(
            exported.select(moved_s=pl.when(pl.col("transfer_s").is_not_null()).then(pl.sum_horizontal(_MOVING)))
        )
    )
    exported = _judged(exported, inputs)
    parts = {name: topology.operating_parts(weights) for name, topology in TOPOLOGIES.items()}
    judged = {name: pl.col(column) for name, column in BY_BUCKET.items()}
    for name in LATENCIES:
        judged[f"{name}_judged_bucket"] = _first("bucket", f"{name}_measure")
        judged[f"{name}_judged_s"] = _first(f"{name}_s", f"{name}_measure")
        judged[f"{name}_objective_s"] = _first(f"{name}_objective_s", f"{name}_measure")
    matrix = exported.group_by("place", "bound", maintain_order=True).agg(
        *[pl.col(name).first() for name in ScenarioColumns.to_schema().columns if name not in ("place", "bound")],
        ttft_worst_s=pl.col("ttft_s").max(),
        ttft_worst_bucket=_first("bucket", "ttft_s"),
        tpot_worst_s=pl.col("tpot_s").max(),
        tpot_worst_bucket=_first("bucket", "tpot_s"),
        e2e_worst_s=pl.col("e2e_s").max(),
        transfer_worst_s=pl.col("transfer_s").max(),
        transfer_envelope_share=pl.col("transfer_share").max(),
        **judged,
    )
    matrix = matrix.with_columns(operating_parts=pl.col("topology").replace_strict(parts, return_dtype=pl.Float64))
    matrix = matrix.sort("place", pl.col("bound") == "conservative")
    return ScenarioMatrix.validate(matrix.select(list(ScenarioMatrix.to_schema().columns)))
