"""Everything that one plan computed, as the frames that a receipt is made from."""

from dataclasses import dataclass

import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.receipts.rules import RuleFrames
from pipelines.topologies.question import Workload


@dataclass(frozen=True)
class PlanFrames:
    """The frames of one plan, each validated by the model named in its comment."""

    inputs: pl.DataFrame  # Inputs
    frozen: pl.DataFrame  # FrozenCohort
    buckets: pl.DataFrame  # Buckets
    strata: pl.DataFrame  # Strata
    outputs: pl.DataFrame  # OutputStrata
    windows: pl.DataFrame  # Windows
    evaluations: list[pl.DataFrame]  # Evaluation, one per compared topology
    matrix: pl.DataFrame  # ScenarioMatrix
    gates: pl.DataFrame  # Gates
    exceptions: pl.DataFrame  # Exceptions
    rule_set: pl.DataFrame  # RuleSet, one row
    preference: pl.DataFrame  # Preference
    verdicts: pl.DataFrame  # Verdicts
    decision: pl.DataFrame  # Decision
    acceptance: pl.DataFrame  # Acceptance
    searched: int  # scenarios of the cohort, of which those of the matrix are kept
    speaking: pl.DataFrame  # Speaking
    sensitivity: pl.DataFrame  # SensitivityRows
    break_even: pl.DataFrame  # BreakEvenRows
    workers_less: pl.DataFrame  # WorkerLessRows
    replays: pl.DataFrame  # Replays
    replay_sample: pl.DataFrame  # ReplaySample
    replay_scope: pl.DataFrame  # ReplayScope, one row

    @property
    def workload(self) -> Workload:
        """The requests as topologies read them."""
        return Workload(self.buckets, self.strata, self.outputs)

    @property
    def rules(self) -> RuleFrames:
        """The rules of the plan."""
        return RuleFrames(self.gates, self.exceptions, self.rule_set, self.preference)

    @property
    def table(self) -> InputTable:
        """Typed access to the inputs."""
        return InputTable.of(self.inputs)
