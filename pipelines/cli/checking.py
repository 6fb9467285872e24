"""A cohort and its rules, checked as far as they can be without planning: each alone, both together, and against the log."""

from dataclasses import dataclass
from pathlib import Path

from pipelines.declarations.load import read_declarations
from pipelines.declarations.places import own_rules
from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.declarations.typed import Cohort, Rules
from pipelines.traces.freeze import read_cohort_requests, unknown_buckets
from pipelines.traces.log import LogOptions, read_log


@dataclass(frozen=True)
class CheckedCohort:
    """A cohort, where it has rules of its own, and the rules that it is judged by."""

    cohort: Cohort
    own: Path | None
    rules: Rules


def checked_cohort(place: Path, directory: Path) -> CheckedCohort:
    """The cohort at ``place`` under the rules of ``directory``; DeclarationProblems with everything that is wrong."""
    found, problems = read_checked(place, directory)
    if found is None:
        raise DeclarationProblems(problems)
    return found


def read_checked(place: Path, directory: Path) -> tuple[CheckedCohort | None, list[Problem]]:
    """The same, or None with the problems."""
    found, own = read_declarations(place, directory), own_rules(place, directory)
    problems = list(found.problems)
    try:
        if found.cohort is not None:
            shown_as = None if found.trace is None else _short(found.trace.file)
            requests = read_cohort_requests(found.cohort, shown_as=shown_as)
            problems += unknown_buckets(directory, own, found.rules, found.cohort, requests)
        elif found.trace is not None:
            read_log(found.trace.file, LogOptions.of(found.trace), shown_as=_short(found.trace.file))
    except DeclarationProblems as of_log:
        problems += of_log.problems
    if problems or found.cohort is None or found.rules is None:
        return None, problems
    return CheckedCohort(found.cohort, own, found.rules), []


def _short(path: Path) -> str:
    """``path`` relative to the current directory where it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
