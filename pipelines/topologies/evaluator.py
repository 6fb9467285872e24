"""Cohort x scenarios -> lanes: all scenarios of one topology, both bounds, every bucket, without a loop over scenarios."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.frames.digits import WORKLOAD_DIGITS, significant
from pipelines.frames.evaluation import LANES, LOADS, Evaluation
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.frames.workload import ALL
from pipelines.topologies import aggregated, chunked, disaggregated
from pipelines.topologies.closed_loop import solved_rates
from pipelines.topologies.constants import CONCURRENCY_INPUT, bound_constants
from pipelines.topologies.declared import TOPOLOGIES, Topology
from pipelines.topologies.disaggregated import transfer_constants
from pipelines.topologies.lanes import bucket_lanes, check_lanes_add_up, dominant_queue, mean_e2e_s
from pipelines.topologies.memory import bounded_windows
from pipelines.topologies.phases import Phases, Prompts, Setting, Span, Stratum
from pipelines.topologies.transfers import Transfers, transfers

_EVALUATORS = {
    "aggregated": aggregated.evaluate,
    "chunked": chunked.evaluate,
    "disaggregated": disaggregated.evaluate,
}
_LATENCY_COLUMNS = ("decode_batch", "stall_s", "goodput", "dominant_queue", *LANES, "ttft_s", "tpot_s", "e2e_s")


@dataclass(frozen=True)
class _Question:
    """One topology on one workload, for whatever scenarios, bounds and rates a frame holds."""

    topology: Topology
    setting: Setting
    buckets: list[dict[str, Any]]
    spans: dict[str, Span]

    def phases(self, base: pl.DataFrame) -> Phases:
        """Waits, loads and pace of every row of ``base``."""
        return _EVALUATORS[self.topology.name](base, self.setting)

    def response(self, base: pl.DataFrame) -> pl.DataFrame:
        """Whether each row of ``base`` is ``refused`` at its rate, and its mean ``e2e_s`` over all requests."""
        phases = self.phases(base)
        return _with_refusal(phases.frame, self.topology).select(
            refused=pl.col("status") == "refused", e2e_s=mean_e2e_s(phases, self.buckets, self.spans)
        )


def evaluate(
    topology: str,
    fingerprint: str,
    scenarios: pl.DataFrame,
    inputs: InputTable,
    buckets: pl.DataFrame,
    strata: pl.DataFrame,
) -> pl.DataFrame:
    """Evaluate every scenario of ``topology`` under both bounds: an :class:`Evaluation` frame, one row per scenario, bound and bucket.

    Latencies are unrounded seconds. In a closed loop each scenario and bound is evaluated at the rate that it sustains.
    Raises ArithmeticError if lanes do not add up to the latencies derived without them.
    """
    own = scenarios.filter(pl.col("topology") == topology)
    if own.is_empty():
        return _nothing()
    moved = {bound: transfers(inputs, buckets, strata, bound) for bound in BOUNDS if topology == "disaggregated"}
    spans = _spans(buckets, strata, moved)
    question = _Question(
        TOPOLOGIES[topology],
        scenario_setting(inputs, tuple(stratum for span in spans.values() for stratum in span.strata)),
        buckets.filter(pl.col("bucket") != ALL).to_dicts(),
        spans,
    )
    base = own.join(base_constants(inputs, buckets, moved), how="cross", maintain_order="left_right")
    if inputs.has(CONCURRENCY_INPUT):
        base = base.with_columns(solved_rates(base, question.response))
    phases = question.phases(base)
    judged = _with_pressure(_with_refusal(phases.frame, question.topology), question.topology)
    shown = judged.with_columns(fingerprint=pl.lit(fingerprint), rate_rps=_exported_rates(base))
    lanes = _lanes(shown, phases, question)
    check_lanes_add_up(lanes, phases.first_token)
    return Evaluation.validate(lanes.select(list(Evaluation.to_schema().columns)))


def _nothing() -> pl.DataFrame:
    """No rows: a topology that is not compared may lack the inputs that it needs."""
    schema = {name: column.dtype.type for name, column in Evaluation.to_schema().columns.items()}
    return Evaluation.validate(pl.DataFrame(schema=schema))


def _exported_rates(base: pl.DataFrame) -> pl.Series:
    """Λ of each row in requests/s, to the digits of a workload figure."""
    return pl.Series([significant(rate, WORKLOAD_DIGITS) for rate in base["rate"]], dtype=pl.Float64)


def base_constants(inputs: InputTable, buckets: pl.DataFrame, moved: Mapping[Bound, Transfers]) -> pl.DataFrame:
    """:func:`bound_constants`, with the transfers under each bound where there are any."""
    constants = bound_constants(inputs, buckets)
    if not moved:
        return constants
    return pl.concat(
        [constants, pl.DataFrame([transfer_constants(moved[bound]) for bound in BOUNDS])], how="horizontal"
    )


def scenario_setting(inputs: InputTable, strata: tuple[Stratum, ...] = ()) -> Setting:
    """What is declared once for all scenarios and bounds. ``strata`` are read by chunked pools only."""
    sharing = "network.link_sharing"
    return Setting(
        dispatch=inputs.word("service.dispatch"),
        first_token=inputs.word("service.first_token_source"),
        link_sharing=inputs.word(sharing) if inputs.has(sharing) else "shared",
        windows=bounded_windows(inputs),
        strata=strata,
    )


def _spans(buckets: pl.DataFrame, strata: pl.DataFrame, moved: Mapping[Bound, Transfers]) -> dict[str, Span]:
    """The prompt buckets with their strata, in ascending order; a stratum's share is of the whole cohort."""
    total = int(strata["requests"].sum())
    movements = [[one.movement_s for one in moved[bound].strata] for bound in BOUNDS if bound in moved]
    each = list(zip(*movements, strict=True)) if movements else [(0.0, 0.0)] * strata.height
    parts: dict[str, list[Stratum]] = {}
    for row, moved_s in zip(strata.iter_rows(named=True), each, strict=True):
        parts.setdefault(row["bucket"], []).append(Stratum(row["requests"] / total, _prompts(row), moved_s))
    named = buckets.filter(pl.col("bucket") != ALL).iter_rows(named=True)
    return {row["bucket"]: Span(_prompts(row), tuple(parts[row["bucket"]])) for row in named}


def _prompts(row: dict[str, Any]) -> Prompts:
    return Prompts(row["prompt_tokens_mean"], row["uncached_tokens_mean"], row["attention_mean"])


def _with_refusal(frame: pl.DataFrame, topology: Topology) -> pl.DataFrame:
    """Add status and refusal; a load after the one that refuses is absent, and so is every load the topology does not have."""
    kind, resource = pl.lit(None, pl.String), pl.lit(None, pl.String)
    figure, limit = pl.lit(None, pl.Float64), pl.lit(None, pl.Float64)
    refused, loads = pl.lit(False), []
    for load in topology.loads:
        value, ceiling = pl.col(f"load_{load.resource}"), pl.col(load.ceiling)
        no_room = pl.col("room") < 1 if load.resource == "prefill_lane" else pl.lit(False)
        full = no_room | (value >= ceiling).fill_null(False)
        first = ~refused & full
        by_memory = pl.col("batch_cap") < pl.col("slots") if load.resource == "slots" else pl.lit(False)
        reason = pl.when(by_memory).then(pl.lit("kv_memory")).otherwise(pl.lit(load.refusal))
        kind = pl.when(first).then(reason).otherwise(kind)
        resource = pl.when(first).then(pl.lit(load.resource)).otherwise(resource)
        starved_of = pl.col("room") if load.resource == "prefill_lane" else value
        figure = pl.when(first & no_room).then(starved_of).when(first).then(value).otherwise(figure)
        limit = pl.when(first & no_room).then(1.0).when(first).then(ceiling).otherwise(limit)
        loads.append(pl.when(~refused).then(value).alias(value.meta.output_name()))
        refused = refused | full  # `first` holds `refused` again: with it the expression doubles per load
    owned = {load.resource for load in topology.loads}
    absent = [pl.lit(None, pl.Float64).alias(f"load_{name}") for name in LOADS if name not in owned]
    return frame.with_columns(
        *loads,
        *absent,
        refusal_kind=kind,
        refusal_resource=resource,
        refusal_figure=figure,
        refusal_limit=limit,
        status=pl.when(refused).then(pl.lit("refused")).otherwise(pl.lit("evaluated")),
    )


def _with_pressure(frame: pl.DataFrame, topology: Topology) -> pl.DataFrame:
    """Add pressure, tightest and headroom over the loads that are present."""
    ratios = [pl.col(f"load_{load.resource}") / pl.col(load.ceiling) for load in topology.loads]
    tightest = pl.lit(None, pl.String)
    for load, ratio in reversed(list(zip(topology.loads, ratios, strict=True))):
        tightest = pl.when(ratio == pl.col("pressure")).then(pl.lit(load.resource)).otherwise(tightest)
    return frame.with_columns(pressure=pl.max_horizontal(ratios)).with_columns(
        tightest=tightest, headroom=1 - pl.col("pressure")
    )


def _lanes(frame: pl.DataFrame, phases: Phases, question: _Question) -> pl.DataFrame:
    """One row per scenario, bound and bucket, in that order; refused rows without latencies."""
    frame = frame.with_columns(dominant_queue=dominant_queue())
    per_bucket = [bucket_lanes(frame, phases, row, question.spans[row["bucket"]]) for row in question.buckets]
    goodput = per_bucket[0]["met"]
    for one in per_bucket[1:]:
        goodput = goodput + one["met"]
    shown = pl.when(pl.col("status") == "evaluated")
    stacked = [
        one.with_columns(goodput=goodput.clip(0.0, 1.0), bucket_place=pl.lit(i)) for i, one in enumerate(per_bucket)
    ]
    return (
        pl.concat(stacked)
        .with_columns(shown.then(pl.col(name)).alias(name) for name in _LATENCY_COLUMNS)
        .sort("place", pl.col("bound") == "conservative", "bucket_place")
    )
