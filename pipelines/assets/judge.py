"""Rules, scenario matrix, verdicts, decision; every gate an asset check on the decision."""

import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import dagster as dg
import polars as pl

from pipelines import arithmetic
from pipelines.assets import evaluate
from pipelines.assets.frames_io import frame_asset, frame_out, shown
from pipelines.assets.source import COHORT_PARTITIONS, PlanSource
from pipelines.declarations import Gate, Rules
from pipelines.frames.canonical import digest
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import Decision, Gates, Preference, ScenarioMatrix, Verdicts
from pipelines.gates.decision import decide
from pipelines.gates.judge import judge
from pipelines.gates.rules import gates_frame, part_weights, preference_frame
from pipelines.gates.wording import SYMBOLS, said
from pipelines.receipts.headlines import chosen_or_nearest, headlines, outcome
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


def rules_version(rules: Rules) -> str:
    """A code version that changes with the rules, so that an edited rule shows as stale."""
    return f"{arithmetic.VERSION}+{digest(asdict(rules))[:16]}"


def rule_assets(rules: Rules) -> dg.AssetsDefinition:
    """The declared gates and the decision rule as assets."""
    about = {
        "gates": (Gates, "Every gate of the rules directory."),
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
    def declared_rules(plan_source: PlanSource) -> Iterator[dg.MaterializeResult[pl.DataFrame]]:
        declared = plan_source.load_rules()
        yield shown(gates_frame(declared), asset_key="gates")
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
    scenario_matrix: pl.DataFrame, gates: pl.DataFrame, inputs: pl.DataFrame
) -> dg.MaterializeResult[pl.DataFrame]:
    """Every scenario judged by every gate that applies to it."""
    frame = judge(scenario_matrix, gates, InputTable.of(inputs))
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


def _check_result(gate: Gate, decision: pl.DataFrame, verdicts: pl.DataFrame) -> dg.AssetCheckResult:
    """How the chosen scenario stands under ``gate``; with no choice, how the nearest misses do."""
    speaking = verdicts.filter(pl.col("scenario").is_in(chosen_or_nearest(decision)) & (pl.col("gate") == gate.id))
    metadata: dict[str, Any] = {"judged_scenarios": speaking.height}
    if speaking.height == 1:
        row = speaking.row(0, named=True)
        metadata |= {name: row[name] for name in ("figure", "limit", "margin") if row[name] is not None}
    said_of = [f"{row['scenario']}: {said(row)}" for row in speaking.iter_rows(named=True)]
    return dg.AssetCheckResult(
        check_name=gate.id,
        passed=bool((speaking["verdict"] == "pass").all()),
        severity=dg.AssetCheckSeverity.ERROR if gate.severity == "error" else dg.AssetCheckSeverity.WARN,
        description="; ".join(said_of) or "does not concern the decision",
        metadata=metadata,
    )


def decision_asset(rules: Rules) -> dg.AssetsDefinition:
    """The decision with one asset check per declared gate.

    The checks do not block in Dagster: a receipt is written of a failed plan too, and the decision itself honours ``blocking``.
    """

    def spec(gate: Gate) -> dg.AssetCheckSpec:
        limit = f"objectives.{gate.objective}" if gate.objective is not None else gate.limit
        role = "decides" if gate.blocking else "informs"
        text = f"{gate.metric} {SYMBOLS[gate.op]} {limit} ({gate.bound}, {role}). {gate.rationale or ''}".strip()
        with warnings.catch_warnings():
            # Without partitions, the check page would plot the margins of all cohorts as one line. Pinned in test_upstream.
            warnings.simplefilter("ignore", dg.PreviewWarning)
            return dg.AssetCheckSpec(gate.id, asset="decision", description=text, partitions_def=COHORT_PARTITIONS)

    @frame_asset(
        Decision,
        GROUP,
        ins={"inputs": dg.AssetIn("cohort")},
        check_specs=[spec(gate) for gate in rules.gates],
        description="The smallest scenario that passes every blocking gate, or none, and how each topology stands.",
    )
    def decision(
        scenario_matrix: pl.DataFrame, verdicts: pl.DataFrame, preference: pl.DataFrame, inputs: pl.DataFrame
    ) -> Iterator[dg.MaterializeResult[pl.DataFrame]]:
        frame = decide(scenario_matrix, verdicts, preference, InputTable.of(inputs))
        checks = [_check_result(gate, frame, verdicts) for gate in rules.gates]
        yield shown(frame, checks=checks, **_headline_metadata(scenario_matrix, frame))

    return decision


def judge_assets(rules: Rules) -> list[dg.AssetsDefinition]:
    """All assets of this group for the given rules."""
    return [rule_assets(rules), scenario_matrix, verdicts, decision_asset(rules)]
