"""Where a run finds its declarations and leaves its exports."""

from functools import lru_cache
from pathlib import Path

import dagster as dg

from pipelines.declarations import Cohort, Rules, load_cohort, load_rules
from pipelines.declarations.known import known_cohorts
from pipelines.declarations.places import cohort_path, export_directory, rules_directory

COHORT_PARTITIONS = dg.StaticPartitionsDefinition(list(known_cohorts()))
"""One partition per known cohort, keyed by its name. Static: a dynamic definition costs a query per event and triples a small plan."""


_READ_WITH: dict[Path, tuple[Path, ...]] = {}
"""By place of a cohort, the files that it was last read with."""


@lru_cache(maxsize=4)
def _cohort_as_of(path: Path, _state: tuple[tuple[str, int, int], ...]) -> Cohort:
    return load_cohort(path)


@lru_cache(maxsize=4)
def _rules_as_of(directory: Path, _state: tuple[tuple[str, int, int], ...]) -> Rules:
    return load_rules(directory)


def _state(path: Path, pattern: str) -> tuple[tuple[str, int, int], ...]:
    """Name, size and modification time of the declarations at ``path``: what a remembered reading of them depends on."""
    files = sorted(path.glob(pattern)) if path.is_dir() else [path]
    found = [(file.name, file.stat()) for file in files if file.is_file()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


def declared_rules(directory: Path) -> Rules:
    """The rules of ``directory``, parsed once per version of its files; raises DeclarationProblems."""
    return _rules_as_of(directory, _state(directory, "*.y*ml"))


class PlanSource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """What to plan: a cohort (its partition key, if empty), a rules directory and an export directory (their defaults, if empty)."""

    cohort: str = ""
    rules: str = ""
    out: str = ""

    def load_cohort(self, partition_key: str) -> Cohort:
        """The declared cohort of a partition; raises DeclarationProblems."""
        known = known_cohorts()
        place = cohort_path(self.cohort) if self.cohort else known.get(partition_key, cohort_path(partition_key))
        beside = tuple(state for file in _READ_WITH.get(place, ()) for state in _state(file, ""))
        cohort = _cohort_as_of(place, (*_state(place, "cohort.yaml"), *beside))
        _READ_WITH[place] = cohort.read_with
        return cohort

    def load_rules(self) -> Rules:
        """The declared rules; raises DeclarationProblems."""
        return declared_rules(Path(self.rules) if self.rules else rules_directory())

    def export_directory(self, partition_key: str) -> Path:
        """Where receipt.json and matrix.csv of a partition go: ``receipts/COHORT/`` of the project unless declared."""
        return Path(self.out) if self.out else export_directory(partition_key)
