"""Evaluations of one cohort -> the scenario matrix: the worst bucket of each figure, rounded to the exported digits."""

import polars as pl

from pipelines.frames.digits import round_results
from pipelines.frames.evaluation import ScenarioColumns
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import ScenarioMatrix


class MixedCohortsError(ValueError):
    """Rows with different fingerprints were put side by side."""

    def __init__(self, fingerprints: list[str]) -> None:
        """Name the fingerprints that met."""
        shown = ", ".join(value[:12] for value in sorted(fingerprints))
        super().__init__(f"scenarios of different cohorts cannot be compared: fingerprints {shown}")


def _worst_bucket(figure: str) -> pl.Expr:
    return pl.col("bucket").get(pl.col(figure).arg_max())


def scenario_matrix(evaluations: list[pl.DataFrame], inputs: InputTable) -> pl.DataFrame:
    """One row per scenario and bound of all topologies: a :class:`ScenarioMatrix`, in matrix order.

    Raises MixedCohortsError unless all rows carry one fingerprint.
    """
    lanes = pl.concat(evaluations)
    fingerprints = lanes["fingerprint"].unique().to_list()
    if len(fingerprints) != 1:
        raise MixedCohortsError(fingerprints)
    shared = list(ScenarioColumns.to_schema().columns)
    moved = pl.when((pl.col("topology") == "disaggregated").first()).then((pl.col("transfer_wait_s") + pl.col("kv_movement_s")).max())
    matrix = lanes.group_by("place", "bound", maintain_order=True).agg(
        *[pl.col(name).first() for name in shared if name not in ("place", "bound")],
        ttft_worst_s=pl.col("ttft_s").max(),
        ttft_worst_bucket=_worst_bucket("ttft_s"),
        tpot_worst_s=pl.col("tpot_s").max(),
        tpot_worst_bucket=_worst_bucket("tpot_s"),
        e2e_worst_s=pl.col("e2e_s").max(),
        transfer_worst_s=moved,
    )
    growth = inputs.number("objectives.ttft_growth") if inputs.has("objectives.ttft_growth") else None
    matrix = matrix.with_columns(
        transfer_envelope_share=pl.col("transfer_worst_s") / pl.lit(growth, pl.Float64)
    ).sort("place", pl.col("bound") == "conservative")
    return ScenarioMatrix.validate(round_results(matrix.select(list(ScenarioMatrix.to_schema().columns))))
