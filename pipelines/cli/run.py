"""Running the plan job in this process, on the embedded instance."""

import gc
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from filelock import FileLock

from pipelines.cli.instance import opened_instance, prepare_home
from pipelines.declarations.known import remember_cohort
from pipelines.declarations.places import export_directory, own_rules
from pipelines.receipts.headlines import NOTHING_PASSES

if TYPE_CHECKING:
    import dagster as dg

_RARE_COLLECTIONS = (50_000, 20, 20)
"""Thresholds of the cyclic collector while a plan runs: at the default ones it takes a tenth of a small plan's time."""
_FRAMES = (
    "cohort",
    "frozen_cohort",
    "buckets",
    "strata",
    "outputs",
    "gates",
    "exceptions",
    "rule_set",
    "scenario_matrix",
    "verdicts",
    "decision",
    "acceptance",
    "replays",
    "replay_scope",
)
"""Frames that say what a run decided."""


class VerificationFailedError(Exception):
    """The independent verifier disagrees with the receipt that the run made, which is left at ``receipt``."""

    def __init__(self, why: str, receipt: Path) -> None:
        """Keep where it is."""
        super().__init__(why)
        self.receipt = receipt


class InterruptedRunError(Exception):
    """Somebody stopped the run."""


@dataclass(frozen=True)
class Asked:
    """What to plan: a cohort of this name and its place, a rules directory; ``out`` None is the store, ``as_of`` empty today."""

    name: str
    cohort: Path
    rules: Path
    out: Path | None
    as_of: str
    replay: str


@dataclass(frozen=True)
class PlanResult:
    """What a finished run decided and exported. ``verdicts`` are those of the scenarios in ``headlines``, each with its ``replay``."""

    cohort: str
    outcome: dict[str, Any]
    headlines: list[dict[str, Any]]
    replay: dict[str, Any]
    verdicts: pl.DataFrame
    receipt: Path
    matrix: Path
    sha256: str
    values_compared: int
    gates_not_applied: list[str]
    acceptance: pl.DataFrame
    on_decision: list[str]
    objections: list[str]
    rules: list[str]
    requests: dict[str, Any]
    rows_read: int
    dropped: list[dict[str, Any]]
    warnings: list[str]

    @property
    def reason(self) -> str:
        """Why this outcome, in words."""
        chosen = [row["reason"] for row in self.headlines if row["standing"] == "chosen"]
        return chosen[0] if chosen else NOTHING_PASSES

    def as_json(self) -> dict[str, Any]:
        """Decision, headline values, verdicts of each topology's scenario, and paths."""
        return {
            "cohort": self.cohort,
            **self.outcome,
            "reason": self.reason,
            "latency_label": "modeled",
            "topologies": self.headlines,
            "replay": self.replay,
            "verdicts": self.verdicts.drop("place").to_dicts(),
            "gates_not_applied": self.gates_not_applied,
            "verdicts_on_decision": self.acceptance.to_dicts(),
            "accepted": not self.objections,
            "objections": self.objections,
            "rules": self.rules,
            "requests": self.requests,
            "rows_read": self.rows_read,
            "dropped": self.dropped,
            "warnings": self.warnings,
            "receipt": str(self.receipt),
            "matrix": str(self.matrix),
            "sha256": self.sha256,
            "values_compared": self.values_compared,
        }


def run_plan(asked: Asked, *, quiet: bool) -> PlanResult:
    """Materialize every asset of the cohort's partition and collect what was decided, accepted or not.

    Raises DeclarationProblems if the instance cannot be used, VerificationFailedError, InterruptedRunError, and whatever else
    an asset raised.
    """
    gc.set_threshold(*_RARE_COLLECTIONS)
    home, name, out = prepare_home(), asked.name, asked.out
    remember_cohort(name, asked.cohort)

    from dagster._core.errors import DagsterExecutionInterruptedError

    from pipelines.assets.accept import NotAcceptedError
    from pipelines.assets.export import VerificationError
    from pipelines.assets.frames_io import clear_unfinished_frames
    from pipelines.definitions import JOB, definitions, frames_directory

    source = {
        "cohort": str(asked.cohort.resolve()),
        "rules": str(asked.rules.resolve()),
        "out": "" if out is None else str(out.resolve()),
        "as_of": asked.as_of,
        "replay": asked.replay,
    }
    own = own_rules(asked.cohort, asked.rules)
    run_config = {
        "resources": {"plan_source": {"config": source}},
        "loggers": {"console": {"config": {"quiet": quiet}}},
    }
    # the frames of a cohort are stored under its name: two plans of one name would read each other's
    with FileLock(home / f".planning-{name}.lock"), opened_instance(home) as instance:
        clear_unfinished_frames(frames_directory(), name)
        job = definitions(asked.rules, [] if own is None else [own]).resolve_job_def(JOB)
        try:
            job.execute_in_process(run_config=run_config, partition_key=name, instance=instance)
        except NotAcceptedError:
            pass  # everything but the acceptance is stored and exported: what stands against it is read from there
        except VerificationError as error:
            raise VerificationFailedError(str(error), error.receipt) from error
        except DagsterExecutionInterruptedError as error:
            raise InterruptedRunError from error
        return _collect(name, instance, out or export_directory(name))


def _collect(name: str, instance: "dg.DagsterInstance", out: Path) -> PlanResult:
    import dagster as dg

    from pipelines.assets.frames_io import StoredFrames
    from pipelines.cli.replay_words import ATTAINMENT_INPUT, replay_doubts
    from pipelines.definitions import frames_directory
    from pipelines.frames.inputs import InputTable
    from pipelines.gates.rules import resolved
    from pipelines.gates.rules_said import objection_said, rules_said
    from pipelines.gates.wording import worded
    from pipelines.planning.acceptance import objections
    from pipelines.receipts.doubts import input_doubts
    from pipelines.receipts.finding import MATRIX, RECEIPT
    from pipelines.receipts.headlines import headlines, outcome, replay_of
    from pipelines.topologies.question import Workload

    stored = StoredFrames(base=frames_directory())
    frames = {key: stored.read([key], name) for key in _FRAMES}
    frozen = frames["frozen_cohort"].row(0, named=True)
    shown = [
        row | {"replay": replay_of(row["scenario"], frames["replays"])}
        for row in headlines(frames["scenario_matrix"], frames["decision"])
    ]
    inputs = InputTable.of(frames["cohort"])
    gates = resolved(frames["gates"], inputs)
    of_cohort = dg.AssetRecordsFilter(asset_key=dg.AssetKey("verified_receipt"), asset_partitions=[name])
    verified = instance.fetch_materializations(of_cohort, limit=1).records[0].asset_materialization
    assert verified is not None
    checked = verified.metadata
    own = {row["gate"]: row for row in gates.iter_rows(named=True)}
    against = objections(frames["decision"], frames["acceptance"], frames["exceptions"])
    return PlanResult(
        cohort=name,
        outcome=outcome(frames["decision"]),
        headlines=shown,
        replay=frames["replay_scope"].row(0, named=True),
        verdicts=frames["verdicts"].filter(pl.col("scenario").is_in([row["scenario"] for row in shown])),
        receipt=out / RECEIPT,
        matrix=out / MATRIX,
        sha256=str(checked["sha256"].value),
        values_compared=int(str(checked["values_compared"].value)),
        gates_not_applied=gates.filter(~pl.col("applies"))["gate"].to_list(),
        acceptance=frames["acceptance"],
        on_decision=[worded(row, own[row["gate"]]) for row in frames["acceptance"].iter_rows(named=True)],
        objections=[objection_said(one, frames) for one in against],
        rules=rules_said(gates, frames["exceptions"], frames["rule_set"]),
        requests=_requests(frozen, frames["buckets"]["rate_rps"][0]),
        rows_read=frozen["rows_read"],
        dropped=json.loads(frozen["dropped"]),
        warnings=json.loads(frozen["warnings"])
        + input_doubts(inputs, Workload(frames["buckets"], frames["strata"], frames["outputs"]))
        + replay_doubts(inputs.number(ATTAINMENT_INPUT), shown),
    )


def _requests(frozen: dict[str, Any], rate_rps: float | None) -> dict[str, Any]:
    """What the plan is for: how many requests, at which rate, and what was done to their log."""
    cache = frozen["prefix_cache"]
    return {
        "count": frozen["requests"],
        "format": frozen["format"],
        "kind": frozen["kind"],
        "rate_rps": rate_rps,
        "steps": json.loads(frozen["steps"]),
        "hit_ratio": json.loads(cache)["hit_ratio"] if cache else None,
    }
