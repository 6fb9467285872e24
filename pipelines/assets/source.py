"""Where a run finds its declarations and leaves its exports."""

from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path

import dagster as dg

from pipelines.declarations import Cohort, Rules, load_cohort, load_rules
from pipelines.declarations.known import known_cohorts
from pipelines.declarations.places import cohort_path, export_directory, own_rules, receipts_directory, rules_directory
from pipelines.frames.replay_scope import FINALISTS
from pipelines.gates.rules import reads_a_date
from pipelines.receipts.store import Pair, keep, put_beside_others

COHORT_PARTITIONS = dg.StaticPartitionsDefinition(list(known_cohorts()))
"""One partition per known cohort, keyed by its name. Static: a dynamic definition costs a query per event and triples a small plan."""


_READ_WITH: dict[Path, tuple[Path, ...]] = {}
"""By place of a cohort, the files that it was last read with."""


@lru_cache(maxsize=4)
def _cohort_as_of(path: Path, _state: tuple[tuple[str, int, int], ...]) -> Cohort:
    return load_cohort(path)


@lru_cache(maxsize=4)
def _rules_as_of(directory: Path, own: Path | None, _state: tuple[tuple[str, int, int], ...]) -> Rules:
    return load_rules(directory, own)


def _state(path: Path, pattern: str) -> tuple[tuple[str, int, int], ...]:
    """Name, size and modification time of the declarations at ``path``: what a remembered reading of them depends on."""
    files = sorted(path.glob(pattern)) if path.is_dir() else [path]
    found = [(file.name, file.stat()) for file in files if file.is_file()]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


def declared_rules(directory: Path, own: Path | None = None) -> Rules:
    """The rules of ``directory`` and a cohort's ``own``, parsed once per version of their files; raises DeclarationProblems."""
    beside = () if own is None else _state(own, "*.y*ml")
    return _rules_as_of(directory, own, (*_state(directory, "*.y*ml"), *beside))


class PlanSource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """What to plan: a cohort (its partition key, if empty), a rules directory and an export directory.

    Empty, these are the project's rules and its store of receipts. ``as_of`` is the date that exceptions and ages are read at;
    today in UTC, if empty. ``replay`` says which scenarios the trace is replayed through, ``finalists`` or ``all``.
    """

    cohort: str = ""
    rules: str = ""
    out: str = ""
    as_of: str = ""
    replay: str = FINALISTS

    def _place(self, partition_key: str) -> Path:
        known = known_cohorts()
        return cohort_path(self.cohort) if self.cohort else known.get(partition_key, cohort_path(partition_key))

    def load_cohort(self, partition_key: str) -> Cohort:
        """The declared cohort of a partition; raises DeclarationProblems."""
        place = self._place(partition_key)
        beside = tuple(state for file in _READ_WITH.get(place, ()) for state in _state(file, ""))
        cohort = _cohort_as_of(place, (*_state(place, "cohort.yaml"), *beside))
        _READ_WITH[place] = cohort.read_with
        return cohort

    def load_rules(self, partition_key: str) -> Rules:
        """The declared rules, with what the cohort has instead; raises DeclarationProblems."""
        directory = Path(self.rules) if self.rules else rules_directory()
        return declared_rules(directory, own_rules(self._place(partition_key), directory))

    def day(self, rules: Rules, cohort: str) -> date | None:
        """The date of the plan, where ``rules`` read one for the cohort of this name."""
        if not reads_a_date(rules, cohort):
            return None
        return date.fromisoformat(self.as_of) if self.as_of else datetime.now(UTC).date()

    def publish(self, partition_key: str, pair: Pair) -> Path:
        """Make a verified pair visible, in the store of the project's receipts unless another place is declared; where it is found."""
        if self.out:
            put_beside_others(Path(self.out), pair)
            return Path(self.out)
        keep(receipts_directory(), partition_key, pair)
        return export_directory(partition_key)
