"""One evaluation asset per topology, from one factory."""

import dagster as dg
import polars as pl

from pipelines.assets.frames_io import frame_asset, shown
from pipelines.frames.evaluation import Evaluation
from pipelines.frames.inputs import InputTable
from pipelines.topologies.declared import TOPOLOGIES, Topology
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.scenarios import scenario_frame

PREFIX = "evaluation"


def evaluation_asset(topology: Topology) -> dg.AssetsDefinition:
    """The asset that evaluates every scenario of ``topology`` on the cohort; no rows where the cohort does not compare it."""

    @frame_asset(
        Evaluation,
        "evaluate",
        key=[PREFIX, topology.name],
        ins={name: dg.AssetIn(name) for name in ("cohort", "frozen_cohort", "buckets", "strata")},
        description=f"Lanes of every {topology.name} scenario per bucket and bound. Latencies are modeled.",
    )
    def evaluation(
        cohort: pl.DataFrame, frozen_cohort: pl.DataFrame, buckets: pl.DataFrame, strata: pl.DataFrame
    ) -> dg.MaterializeResult[pl.DataFrame]:
        inputs = InputTable.of(cohort)
        frame = evaluate(
            topology.name, frozen_cohort["fingerprint"].item(), scenario_frame(inputs), inputs, buckets, strata
        )
        nominal = frame.filter(pl.col("bound") == "nominal").unique("scenario")
        refused = nominal.filter(pl.col("status") == "refused").height
        return shown(frame, scenarios=nominal.height, scenarios_refused=refused, modeled=True)

    return evaluation


ASSETS = [evaluation_asset(topology) for topology in TOPOLOGIES.values()]
