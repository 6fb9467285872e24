"""Evaluations of one cohort -> the scenario matrix: the worst bucket of each figure, rounded to the exported digits."""

from collections.abc import Mapping

import polars as pl

from pipelines.frames.digits import round_results
from pipelines.frames.evaluation import LANES, ScenarioColumns
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import ScenarioMatrix
from pipelines.topologies.declared import TOPOLOGIES


class MixedCohortsError(ValueError):
    """Rows with different fingerprints were put side by side."""

    def __init__(self, fingerprints: list[str]) -> None:
        """Name the fingerprints that met."""
        shown = ", ".join(value[:12] for value in sorted(fingerprints))
        super().__init__(f"scenarios of different cohorts cannot be compared: fingerprints {shown}")


def _worst_bucket(figure: str) -> pl.Expr:
    """The first bucket whose exported figure is the largest."""
    return pl.col("bucket").filter(pl.col(figure) == pl.col(figure).max()).first()


def scenario_matrix(evaluations: list[pl.DataFrame], inputs: InputTable, weights: Mapping[str, float]) -> pl.DataFrame:
    """One row per scenario and bound of all topologies: a :class:`ScenarioMatrix`, in matrix order; ``weights`` as in the decision rule.

    Raises MixedCohortsError unless all rows carry one fingerprint.
    """
    lanes = pl.concat(evaluations)
    fingerprints = lanes["fingerprint"].unique().to_list()
    if len(fingerprints) != 1:
        raise MixedCohortsError(fingerprints)
    growth = inputs.number("objectives.ttft_growth") if inputs.has("objectives.ttft_growth") else None
    moved = pl.when(pl.col("topology") == "disaggregated").then(pl.col("transfer_wait_s") + pl.col("kv_movement_s"))
    exported = round_results(
        lanes.with_columns(transfer_s=moved, transfer_share=moved / pl.lit(growth, pl.Float64)).drop(LANES)
    ).with_columns(lanes["refusal_limit", "rate_rps"])  # declared or solved, with digits of their own
    parts = {name: topology.operating_parts(weights) for name, topology in TOPOLOGIES.items()}
    matrix = exported.group_by("place", "bound", maintain_order=True).agg(
        *[pl.col(name).first() for name in ScenarioColumns.to_schema().columns if name not in ("place", "bound")],
        ttft_worst_s=pl.col("ttft_s").max(),
        ttft_worst_bucket=_worst_bucket("ttft_s"),
        tpot_worst_s=pl.col("tpot_s").max(),
        tpot_worst_bucket=_worst_bucket("tpot_s"),
        e2e_worst_s=pl.col("e2e_s").max(),
        transfer_worst_s=pl.col("transfer_s").max(),
        transfer_envelope_share=pl.col("transfer_share").max(),
    )
    matrix = matrix.with_columns(operating_parts=pl.col("topology").replace_strict(parts, return_dtype=pl.Float64))
    matrix = matrix.sort("place", pl.col("bound") == "conservative")
    return ScenarioMatrix.validate(matrix.select(list(ScenarioMatrix.to_schema().columns)))
