"""The scenarios that are kept, and one evaluation asset per topology, from one factory."""

import dagster as dg
import polars as pl

from pipelines.assets.frames_io import frame_asset, shown
from pipelines.frames.changes import SearchSpace
from pipelines.frames.evaluation import Evaluation
from pipelines.frames.inputs import InputTable
from pipelines.planning.search import Asked, kept_scenarios
from pipelines.topologies.declared import TOPOLOGIES, Topology
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.question import Workload

PREFIX = "evaluation"
GROUP = "evaluate"


@frame_asset(SearchSpace, GROUP, ins={"inputs": dg.AssetIn("cohort")})
def search(
    inputs: pl.DataFrame,
    buckets: pl.DataFrame,
    strata: pl.DataFrame,
    outputs: pl.DataFrame,
    gates: pl.DataFrame,
    preference: pl.DataFrame,
) -> dg.MaterializeResult[pl.DataFrame]:
    """The scenarios of the cohort: all of them, or of very many those that the decision needs (docs/arithmetic.md, section 10)."""
    asked = Asked(InputTable.of(inputs), Workload(buckets, strata, outputs), gates, preference)
    kept = kept_scenarios(asked)
    return shown(kept, scenarios_searched=kept["searched"][0], scenarios_kept=kept.height)


def evaluation_asset(topology: Topology) -> dg.AssetsDefinition:
    """The asset that evaluates every scenario of ``topology`` on the cohort; no rows where the cohort does not compare it."""

    @frame_asset(
        Evaluation,
        GROUP,
        key=[PREFIX, topology.name],
        ins={name: dg.AssetIn(name) for name in ("cohort", "frozen_cohort", "buckets", "strata", "outputs", "search")},
        description=f"Lanes of every {topology.name} scenario per bucket and bound. Latencies are modeled.",
    )
    def evaluation(
        cohort: pl.DataFrame,
        frozen_cohort: pl.DataFrame,
        buckets: pl.DataFrame,
        strata: pl.DataFrame,
        outputs: pl.DataFrame,
        search: pl.DataFrame,
    ) -> dg.MaterializeResult[pl.DataFrame]:
        inputs = InputTable.of(cohort)
        fingerprint = frozen_cohort["fingerprint"].item()
        frame = evaluate(topology.name, fingerprint, search, inputs, Workload(buckets, strata, outputs))
        nominal = frame.filter(pl.col("bound") == "nominal").unique("scenario")
        refused = nominal.filter(pl.col("status") == "refused").height
        return shown(frame, scenarios=nominal.height, scenarios_refused=refused, modeled=True)

    return evaluation


ASSETS = [search, *(evaluation_asset(topology) for topology in TOPOLOGIES.values())]
