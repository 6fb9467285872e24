"""The replay of the requests through scenarios, before these are judged."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import polars as pl

from pipelines.assets.frames_io import frame_out, shown
from pipelines.assets.judge import GROUP, check_search
from pipelines.assets.source import COHORT_PARTITIONS, PlanSource
from pipelines.frames.inputs import InputTable
from pipelines.frames.replay_scope import ReplayScope
from pipelines.frames.replays import Replays, ReplaySample
from pipelines.planning.replaying import ReplayAsked, Replayed, replayed
from pipelines.receipts.headlines import replay_of
from pipelines.replay.compiled import is_cold
from pipelines.topologies.question import Workload

FRAMES = {
    "replays": (
        Replays,
        "The requests replayed through scenarios, whole and as the verifier's sample. Times are modeled.",
    ),
    "replay_sample": (ReplaySample, "The requests that the verifier replays."),
    "replay_scope": (ReplayScope, "Which scenarios were replayed, or why none was."),
}


@dg.multi_asset(
    outs={name: frame_out(model, GROUP, description) for name, (model, description) in FRAMES.items()},
    ins={"inputs": dg.AssetIn("cohort")},
    partitions_def=COHORT_PARTITIONS,
)
def replay(
    plan_source: PlanSource,
    inputs: pl.DataFrame,
    requests: pl.DataFrame,
    buckets: pl.DataFrame,
    strata: pl.DataFrame,
    outputs: pl.DataFrame,
    gates: pl.DataFrame,
    preference: pl.DataFrame,
    search: pl.DataFrame,
    scenario_matrix: pl.DataFrame,
) -> Iterator[dg.MaterializeResult[pl.DataFrame]]:
    """The trace itself, request by request, through the finalists or through all kept scenarios. Times are modeled.

    It is made anew whenever the rules are judged: which scenarios are replayed depends on them.
    """
    check_search(search, gates, preference)
    asked = ReplayAsked(
        inputs=InputTable.of(inputs),
        workload=Workload(buckets, strata, outputs),
        requests=requests,
        matrix=scenario_matrix,
        gates=gates,
        preference=preference,
        asked=plan_source.replay,
    )
    if is_cold():
        dg.get_dagster_logger().info("          the replay is compiled, which takes some 15 s and is done once")
    found = replayed(asked)
    yield shown(found.replays, asset_key="replays", **_headlines(asked, found))
    yield shown(found.sample, asset_key="replay_sample")
    yield shown(found.scope, asset_key="replay_scope")


def _headlines(asked: ReplayAsked, found: Replayed) -> dict[str, Any]:
    """How many scenarios were replayed, and of each finalist the goodput and the worst minute under the nominal bound."""
    known = found.replays.filter(pl.col("reason").is_null())
    metadata: dict[str, Any] = {"which": found.scope["which"].item(), "modeled": True}
    metadata["scenarios_replayed"] = known["scenario"].n_unique()
    if found.scope["reason"].item() is not None:
        return metadata | {"reason": found.scope["reason"].item()}
    for row in asked.finalists().iter_rows(named=True):
        own = replay_of(row["scenario"], known)
        if own is None or own["figures"] is None:
            continue
        metadata[f"{row['topology']}/scenario"] = row["scenario"]
        metadata[f"{row['topology']}/replayed_goodput"] = own["figures"]["replayed_goodput"]
        if own["worst_minute"] is not None:
            metadata |= {f"{row['topology']}/worst_minute_{name}": value for name, value in own["worst_minute"].items()}
    return metadata


ASSETS = [replay]
