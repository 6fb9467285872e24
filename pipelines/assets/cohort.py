"""cohort -> requests -> frozen cohort, buckets, strata, output strata, windows."""

from collections.abc import Iterator

import dagster as dg
import polars as pl

from pipelines.assets.frames_io import frame_asset, frame_out, shown
from pipelines.assets.source import COHORT_PARTITIONS, PlanSource
from pipelines.frames.frozen import FrozenCohort
from pipelines.frames.inputs import Inputs, InputTable
from pipelines.frames.requests import Requests
from pipelines.frames.workload import Buckets, OutputStrata, Strata, Windows
from pipelines.topologies.constants import declared_rate_rps
from pipelines.traces.freeze import frozen_cohort as freeze
from pipelines.traces.freeze import inputs_frame, read_cohort_requests
from pipelines.traces.requests import requests_sha256
from pipelines.traces.workload import Workload

GROUP = "cohort"


@frame_asset(
    Inputs,
    GROUP,
    kinds={"yaml"},
)
def cohort(context: dg.AssetExecutionContext, plan_source: PlanSource) -> dg.MaterializeResult[pl.DataFrame]:
    """Every declared value of the cohort with its unit, bounds and provenance."""
    declared = plan_source.load_cohort(context.partition_key)
    frame = inputs_frame(declared)
    counts = frame["provenance"].value_counts()
    by_provenance = {f"inputs_{name}": count for name, count in counts.iter_rows()}
    return shown(frame, title=declared.title, topologies=", ".join(declared.topologies), **by_provenance)


@frame_asset(
    Requests,
    GROUP,
    deps=[cohort],
)
def requests(context: dg.AssetExecutionContext, plan_source: PlanSource) -> dg.MaterializeResult[pl.DataFrame]:
    """The trace or the classes as requests: arrival and token counts, no text, no identifiers."""
    declared = plan_source.load_cohort(context.partition_key)
    log = read_cohort_requests(declared)
    version = dg.DataVersion(requests_sha256(log.requests))
    return shown(
        log.requests, version, format=log.format, rows_read=log.rows_read, rows_dropped=sum(log.dropped.values())
    )


@frame_asset(
    FrozenCohort,
    GROUP,
    ins={"inputs": dg.AssetIn("cohort")},
    deps=[requests],
)
def frozen_cohort(
    context: dg.AssetExecutionContext, plan_source: PlanSource, inputs: pl.DataFrame
) -> dg.MaterializeResult[pl.DataFrame]:
    """What was read, under the fingerprint that every result carries."""
    declared = plan_source.load_cohort(context.partition_key)
    frame = freeze(declared, read_cohort_requests(declared), inputs)
    row = frame.row(0, named=True)
    known = {name: row[name] for name in ("fingerprint", "kind", "requests", "duration_s") if row[name] is not None}
    return shown(frame, **known)


@dg.multi_asset(
    outs={
        name: frame_out(model, GROUP, description)
        for name, model, description in (
            (
                "buckets",
                Buckets,
                "Rate, burstiness and moments of the whole cohort and of each range of prompt lengths.",
            ),
            ("strata", Strata, "Each bucket cut into parts of about equal count, for chunk counts and goodput."),
            (
                "outputs",
                OutputStrata,
                "Each bucket cut by output tokens into parts of about equal count, for the share that meets a TPOT objective.",
            ),
            ("windows", Windows, "How evenly requests of each bucket arrive. No rows where arrivals are declared."),
        )
    },
    ins={"inputs": dg.AssetIn("cohort")},
    partitions_def=COHORT_PARTITIONS,
)
def workload(
    requests: pl.DataFrame, frozen_cohort: pl.DataFrame, inputs: pl.DataFrame
) -> Iterator[dg.MaterializeResult[pl.DataFrame]]:
    """Moments of the prompt buckets, their strata by work and by output, and the evenness of their arrivals."""
    edges = tuple(int(edge) for edge in frozen_cohort["bucket_edges_tokens"].item().split())
    kind = frozen_cohort["kind"].item()
    cut = Workload(requests, edges, kind, declared_rate_rps(InputTable.of(inputs)))
    frame = cut.buckets()
    overall = frame.row(0, named=True)
    headline = ("rate_rps", "arrival_scv", "prompt_tokens_mean", "output_tokens_mean")
    known = {name: overall[name] for name in headline if overall[name] is not None}
    yield shown(frame, asset_key="buckets", **known)
    yield shown(cut.strata(), asset_key="strata")
    yield shown(cut.outputs(), asset_key="outputs")
    yield shown(cut.windows(), asset_key="windows")


ASSETS = [cohort, requests, frozen_cohort, workload]
