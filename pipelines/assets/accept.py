"""Whether a decision is accepted: every gate an asset check, and the asset that only an accepted decision materializes."""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import polars as pl

from pipelines.assets.frames_io import StoredFrames
from pipelines.assets.judge import rules_version
from pipelines.assets.source import COHORT_PARTITIONS
from pipelines.declarations import Gate, Rules
from pipelines.frames.canonical import digest
from pipelines.frames.inputs import InputTable
from pipelines.gates.decision import decide
from pipelines.gates.rules import ON_DECISION
from pipelines.gates.rules_said import objection_said
from pipelines.gates.wording import SYMBOLS, worded
from pipelines.planning.acceptance import objections
from pipelines.receipts.headlines import chosen_or_nearest

GROUP = "accept"
_SHOWN = ("topology", "scenario", "reason")
_FRAMES = (
    "cohort",
    "gates",
    "exceptions",
    "preference",
    "scenario_matrix",
    "verdicts",
    "decision",
    "acceptance",
)


class NotAcceptedError(Exception):
    """The decision is not accepted; its text says why."""


class StaleDecisionError(Exception):
    """The stored decision does not follow from the stored verdicts."""

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__("the stored decision is not that of the stored verdicts; run the whole plan")


def _described(gate: Gate) -> str:
    limit = str(gate.limit)
    if gate.objective is not None:
        limit = f"objectives.{gate.objective}"
    elif gate.limit_times is not None:
        limit = f"{gate.limit_times:g} x {gate.limit_metric or f'the best of {gate.limit_baseline} on as many GPUs'}"
    role = "decides" if gate.blocking else "informs"
    judged = " ".join(word for word in (gate.aggregate, gate.metric) if word)
    about = ", ".join(word for word in (gate.bound, role, f"owner {gate.owner}") if word)
    return f"{judged} {SYMBOLS[gate.op]} {limit} ({about}). {gate.rationale or ''}".strip()


def _spec(gate: Gate) -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        # Without partitions, the check page would plot the margins of all cohorts as one line. Pinned in test_upstream.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            gate.id,
            asset="accepted",
            description=_described(gate),
            blocking=gate.blocking,
            partitions_def=COHORT_PARTITIONS,
        )


def _judged(gate: Mapping[str, Any], frames: dict[str, pl.DataFrame]) -> list[tuple[str, dict[str, Any]]]:
    """The verdicts of ``gate`` on what speaks for the decision, each with the words for it."""
    own = pl.col("gate") == gate["gate"]
    if gate["scope"] == ON_DECISION:
        rows = frames["acceptance"].filter(own)
        return [(worded(row, gate), row) for row in rows.iter_rows(named=True)]
    rows = frames["verdicts"].filter(own & pl.col("scenario").is_in(chosen_or_nearest(frames["decision"])))
    return [(f"{row['scenario']}: {worded(row, gate)}", row) for row in rows.iter_rows(named=True)]


def _check_result(name: str, frames: dict[str, pl.DataFrame]) -> dg.AssetCheckResult:
    """How the chosen scenario, or the decision, stands under a gate; with no choice, how the nearest misses do."""
    judged, severity = [], "warn"
    for gate in frames["gates"].filter(pl.col("gate") == name).iter_rows(named=True):
        judged, severity = _judged(gate, frames), gate["severity"]
    metadata: dict[str, Any] = {"judged": len(judged), "waived": any(row["waived"] for _, row in judged)}
    if len(judged) == 1:
        row = judged[0][1]
        metadata |= {name: row[name] for name in ("figure", "limit", "margin") if row[name] is not None}
    decides = severity == "error" and not metadata["waived"]
    return dg.AssetCheckResult(
        check_name=name,
        passed=all(row["verdict"] == "pass" for _, row in judged),
        severity=dg.AssetCheckSeverity.ERROR if decides else dg.AssetCheckSeverity.WARN,
        description="; ".join(words for words, _ in judged) or "does not concern the decision",
        metadata=metadata,
    )


def accepted_asset(rules: Rules) -> dg.AssetsDefinition:
    """The acceptance of a verified decision, with one asset check per gate of ``rules``."""

    @dg.asset(
        deps=[*_FRAMES, "verified_receipt"],
        partitions_def=COHORT_PARTITIONS,
        group_name=GROUP,
        kinds={"python"},
        code_version=rules_version(rules),
        check_specs=[_spec(gate) for gate in rules.gates],
    )
    def accepted(
        context: dg.AssetExecutionContext, stored_frames: StoredFrames
    ) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
        """The verified decision, accepted: a topology is chosen, every blocking gate passes, and no exception has expired.

        It judges for itself from the stored verdicts: a check that failed in an earlier run does not stop a later one.
        """
        frames = {name: stored_frames.read([name], context.partition_key) for name in _FRAMES}
        for gate in rules.gates:
            yield _check_result(gate.id, frames)
        again = decide(
            frames["scenario_matrix"],
            frames["verdicts"],
            frames["preference"],
            InputTable.of(frames["cohort"]),
            frames["gates"],
        )
        if not again.equals(frames["decision"]):
            raise StaleDecisionError
        found = objections(again, frames["acceptance"], frames["exceptions"])
        if found:
            raise NotAcceptedError("; ".join(objection_said(one, frames) for one in found))
        chosen = again.row(by_predicate=pl.col("standing") == "chosen", named=True)
        shown = {name: chosen[name] for name in _SHOWN}
        schema = dg.TableSchema(columns=[dg.TableColumn(name) for name in _SHOWN])
        yield dg.MaterializeResult(
            metadata=shown | {"dagster/row_count": 1, "dagster/column_schema": schema},
            data_version=dg.DataVersion(digest(shown)),
        )

    return accepted
