"""What would change the decision."""

from collections.abc import Iterator

import dagster as dg
import polars as pl

from pipelines.assets.frames_io import frame_out, shown
from pipelines.assets.source import COHORT_PARTITIONS
from pipelines.frames.changes import BreakEvenRows, SensitivityRows, Speaking, WorkerLessRows
from pipelines.frames.inputs import InputTable
from pipelines.planning.speaking import Decided
from pipelines.planning.speaking import changes as find
from pipelines.topologies.question import Workload

GROUP = "judge"
FRAMES = {
    "speaking": (
        Speaking,
        "Of each topology the scenario that speaks for it: its margin, what would mend it, how far traffic can grow.",
    ),
    "sensitivity": (SensitivityRows, "The margin of each speaking scenario with each input a tenth down and up."),
    "break_even": (BreakEvenRows, "The value of each input at which a speaking scenario begins or ceases to pass."),
    "workers_less": (WorkerLessRows, "Each speaking scenario with one worker less in each of its pools."),
}


@dg.multi_asset(
    outs={name: frame_out(model, GROUP, description) for name, (model, description) in FRAMES.items()},
    ins={"inputs": dg.AssetIn("cohort")},
    partitions_def=COHORT_PARTITIONS,
)
def changes(
    inputs: pl.DataFrame,
    frozen_cohort: pl.DataFrame,
    buckets: pl.DataFrame,
    strata: pl.DataFrame,
    outputs: pl.DataFrame,
    gates: pl.DataFrame,
    preference: pl.DataFrame,
    scenario_matrix: pl.DataFrame,
    decision: pl.DataFrame,
) -> Iterator[dg.MaterializeResult[pl.DataFrame]]:
    """Sensitivity, break-even, headroom and one worker less of the speaking scenarios. Latencies are modeled."""
    decided = Decided(
        inputs=InputTable.of(inputs),
        workload=Workload(buckets, strata, outputs),
        gates=gates,
        decision=decision,
        matrix=scenario_matrix,
        preference=preference,
        trace_provenance=frozen_cohort["provenance"].item(),
    )
    found = find(decided)
    for name in FRAMES:
        yield shown(getattr(found, name), asset_key=name)


ASSETS = [changes]
