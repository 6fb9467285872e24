"""Rules, scenario matrix, verdicts, decision, and how the decision stands under the gates on it."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import dagster as dg
import polars as pl

from pipelines import arithmetic
from pipelines.assets import evaluate
from pipelines.assets.frames_io import frame_asset, frame_out, shown
from pipelines.assets.source import COHORT_PARTITIONS, PlanSource
from pipelines.declarations import Rules
from pipelines.frames.canonical import digest
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import (
    Acceptance,
    Decision,
    Exceptions,
    Gates,
    Preference,
    RuleSet,
    ScenarioMatrix,
    Verdicts,
)
from pipelines.gates.decision import decide
from pipelines.gates.judge import bucket_requests, judge
from pipelines.gates.replayed import beside_replays
from pipelines.gates.rules import exceptions_frame, gates_frame, part_weights, preference_frame, rule_set_frame
from pipelines.planning.acceptance import judge_decision
from pipelines.planning.replaying import check_replays
from pipelines.planning.search import searched_by
from pipelines.receipts.headlines import headlines, outcome
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.matrix import scenario_matrix as assemble

GROUP = "judge"
_PLOTTED = (
    "ttft_worst_s",
    "tpot_worst_s",
    "stall_s",
    "goodput",
    "utilization_worst",
    "headroom",
    "dominant_queue",
    "transfer_envelope_share",
)


class StaleSearchError(Exception):
    """The kept scenarios were searched under other rules."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__(
            "the scenarios were searched under other rules, and not all of them were kept; run the whole plan"
        )


def check_search(search: pl.DataFrame, gates: pl.DataFrame, preference: pl.DataFrame) -> None:
    """Raise StaleSearchError if other scenarios had to be kept under these rules."""
    if search["rules"][0] not in ("", searched_by(gates, preference)):
        raise StaleSearchError


def rules_version(rules: Rules) -> str:
    """A code version that changes with the rules, so that an edited rule shows as stale."""
    return f"{arithmetic.VERSION}+{digest(json.loads(json.dumps(asdict(rules), default=str)))[:16]}"


def rule_assets(rules: Rules) -> dg.AssetsDefinition:
    """The declared gates and the decision rule as assets."""
    about = {
        "gates": (Gates, "Every gate that the cohort is judged by, with its exceptions."),
        "exceptions": (Exceptions, "Gates that are waived, for whom, why, and until when."),
        "rule_set": (RuleSet, "The date that exceptions and ages are read at, and where the decision rule is."),
        "preference": (
            Preference,
            "In which order passing scenarios are preferred, and what an operating part weighs.",
        ),
    }

    version = rules_version(rules)

    @dg.multi_asset(
        outs={
            name: frame_out(model, GROUP, description, kinds={"yaml"}, code_version=version)
            for name, (model, description) in about.items()
        },
        partitions_def=COHORT_PARTITIONS,
    )
    def declared_rules(
        context: dg.AssetExecutionContext, plan_source: PlanSource
    ) -> Iterator[dg.MaterializeResult[pl.DataFrame]]:
        name = plan_source.load_cohort(context.partition_key).name
        declared = plan_source.load_rules(context.partition_key)
        day = plan_source.day(declared, name)
        yield shown(gates_frame(declared, name, day), asset_key="gates")
        yield shown(exceptions_frame(declared, name, day), asset_key="exceptions")
        yield shown(rule_set_frame(declared, day), asset_key="rule_set")
        yield shown(preference_frame(declared), asset_key="preference")

    return declared_rules


@frame_asset(
    ScenarioMatrix,
    GROUP,
    ins={"inputs": dg.AssetIn("cohort"), "preference": dg.AssetIn("preference")}
    | {name: dg.AssetIn([evaluate.PREFIX, name]) for name in TOPOLOGIES},
)
def scenario_matrix(
    inputs: pl.DataFrame, preference: pl.DataFrame, **evaluations: pl.DataFrame
) -> dg.MaterializeResult[pl.DataFrame]:
    """All scenarios of all topologies on one cohort, both bounds. Latencies are modeled."""
    frames = [evaluations[name] for name in TOPOLOGIES]
    return shown(assemble(frames, InputTable.of(inputs), part_weights(preference)), modeled=True)


@frame_asset(
    Verdicts,
    GROUP,
    ins={"inputs": dg.AssetIn("cohort")},
)
def verdicts(
    scenario_matrix: pl.DataFrame,
    search: pl.DataFrame,
    gates: pl.DataFrame,
    preference: pl.DataFrame,
    buckets: pl.DataFrame,
    inputs: pl.DataFrame,
    replays: pl.DataFrame,
    replay_scope: pl.DataFrame,
) -> dg.MaterializeResult[pl.DataFrame]:
    """Every kept scenario judged by every gate that applies to it.

    Raises StaleSearchError if others had to be kept under these rules, StaleReplaysError if a gate is on replays that were not made.
    """
    check_search(search, gates, preference)
    table = InputTable.of(inputs)
    check_replays(scenario_matrix, gates, table, replay_scope, replays)
    frame = judge(beside_replays(scenario_matrix, replays), gates, table, bucket_requests(buckets))
    counts = dict(frame["verdict"].value_counts().iter_rows())
    return shown(frame, **{f"verdicts_{name}": counts.get(name, 0) for name in ("pass", "fail", "refused")})


def _headline_metadata(matrix: pl.DataFrame, decision: pl.DataFrame) -> dict[str, Any]:
    metadata: dict[str, Any] = {"outcome": outcome(decision)["outcome"]}
    metadata["chosen_topology"] = outcome(decision)["topology"] or "none"
    metadata["chosen_scenario"] = outcome(decision)["scenario"] or "none"
    for row in headlines(matrix, decision):
        metadata[f"{row['topology']}/scenario"] = row["scenario"]
        metadata |= {f"{row['topology']}/{name}": row[name] for name in _PLOTTED if row[name] is not None}
    return metadata


@frame_asset(
    Decision,
    GROUP,
    ins={"inputs": dg.AssetIn("cohort")},
    description="The smallest scenario that passes every blocking gate, or none, and how each topology stands.",
)
def decision(
    scenario_matrix: pl.DataFrame,
    verdicts: pl.DataFrame,
    preference: pl.DataFrame,
    gates: pl.DataFrame,
    inputs: pl.DataFrame,
) -> dg.MaterializeResult[pl.DataFrame]:
    """Choose the smallest scenario that passes."""
    frame = decide(scenario_matrix, verdicts, preference, InputTable.of(inputs), gates)
    return shown(frame, **_headline_metadata(scenario_matrix, frame))


@frame_asset(
    Acceptance,
    GROUP,
    ins={"inputs": dg.AssetIn("cohort")},
)
def acceptance(
    gates: pl.DataFrame,
    rule_set: pl.DataFrame,
    decision: pl.DataFrame,
    frozen_cohort: pl.DataFrame,
    workers_less: pl.DataFrame,
    inputs: pl.DataFrame,
) -> dg.MaterializeResult[pl.DataFrame]:
    """The decision, judged by every gate on it."""
    frozen = frozen_cohort.row(0, named=True)
    return shown(judge_decision(gates, rule_set, InputTable.of(inputs), decision, frozen, workers_less))


def judge_assets(rules: Rules) -> list[dg.AssetsDefinition]:
    """All assets of this group for the given rules."""
    return [rule_assets(rules), scenario_matrix, verdicts, decision, acceptance]
