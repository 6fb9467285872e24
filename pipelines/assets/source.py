"""Where a run finds its declarations and leaves its exports."""

from pathlib import Path

import dagster as dg

from pipelines.declarations import Cohort, Rules, load_cohort, load_rules
from pipelines.declarations.known import known_cohorts
from pipelines.declarations.places import cohort_path, export_directory, rules_directory

COHORT_PARTITIONS = dg.StaticPartitionsDefinition(list(known_cohorts()))
"""One partition per known cohort, keyed by its name. Static: a dynamic definition costs a query per event and triples a small plan."""


class PlanSource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """What to plan: a cohort (its partition key, if empty), a rules directory and an export directory (their defaults, if empty)."""

    cohort: str = ""
    rules: str = ""
    out: str = ""

    def load_cohort(self, partition_key: str) -> Cohort:
        """The declared cohort of a partition; raises DeclarationProblems."""
        known = known_cohorts()
        if not self.cohort and partition_key in known:
            return load_cohort(known[partition_key])
        return load_cohort(cohort_path(self.cohort or partition_key))

    def load_rules(self) -> Rules:
        """The declared rules; raises DeclarationProblems."""
        return load_rules(Path(self.rules) if self.rules else rules_directory())

    def export_directory(self, partition_key: str) -> Path:
        """Where receipt.json and matrix.csv of a partition go: ``receipts/COHORT/`` of the project unless declared."""
        return Path(self.out) if self.out else export_directory(partition_key)
