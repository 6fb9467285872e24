"""What a replay by hand is of: a cohort with arrivals of its own, its requests, and the rules that say what is smaller; or all problems."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from pipelines.cli.checking import read_checked
from pipelines.declarations.cohort import read_cohort
from pipelines.declarations.documents import Document
from pipelines.declarations.places import own_rules
from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.declarations.rules import read_rules
from pipelines.declarations.typed import Cohort, Rules
from pipelines.frames.inputs import Bound, InputTable
from pipelines.gates.rules import preference_frame
from pipelines.planning.replay_named import nearest_names, why_unknown
from pipelines.planning.replay_spaces import Trace
from pipelines.replay.costs import Costs
from pipelines.topologies.constants import declared_rate_rps
from pipelines.topologies.question import Workload
from pipelines.traces.edges import bucket_edges
from pipelines.traces.freeze import inputs_frame, read_cohort_requests
from pipelines.traces.workload import Workload as Cut

T = TypeVar("T")

_OWN_ARRIVALS = "requests.slice.scale_rate replays a log at another rate than its own"
_OF_CLASSES = "declare requests.trace, a log of requests with their arrivals"
_WITHOUT_ARRIVALS = {
    "closed": "a closed loop: a request comes when another one leaves, so that there are no arrivals to replay",
    "rate": "a declared rate: only how many requests come is known, not when, so that there are no arrivals to replay",
}
_DECLARED = {"closed": "requests.arrivals.concurrency", "rate": "requests.arrivals.rate"}


@dataclass(frozen=True)
class Asked:
    """A cohort that can be replayed, the rules that say what is smaller, and its requests."""

    cohort: Cohort
    rules: Rules
    requests: pl.DataFrame

    @property
    def preference(self) -> pl.DataFrame:
        """The decision rule as a frame."""
        return preference_frame(self.rules)

    def trace(self, bound: Bound) -> Trace:
        """The cohort and its log under one bound."""
        inputs, cohort = InputTable.of(inputs_frame(self.cohort)), self.cohort
        edges = bucket_edges(self.requests, cohort.bucket_edges_tokens, cohort.forced_edges_tokens)
        cut = Cut(self.requests, tuple(edges), cohort.kind, declared_rate_rps(inputs))
        workload = Workload(cut.buckets(), cut.strata(), cut.outputs())
        return Trace(inputs, workload, Costs.of(inputs, bound, workload, self.requests), bound)


def read_asked(place: Path, directory: Path) -> Asked:
    """The cohort at ``place`` with the rules of ``directory`` and its own; DeclarationProblems with everything that is wrong."""
    cohort, document, problems = read_cohort(place)
    if cohort is None or document is None:
        raise DeclarationProblems(read_checked(place, directory)[1])
    rules, of_rules = read_rules(directory, own_rules(place, directory))
    problems = [*problems, *of_rules, *_without_arrivals(cohort, document)]
    found = collected(problems, lambda: read_cohort_requests(cohort, shown_as=_shown(cohort)))
    if problems or rules is None or found is None:
        raise DeclarationProblems(problems)
    return Asked(cohort, rules, found.requests)


def collected(problems: list[Problem], step: Callable[[], T]) -> T | None:
    """What ``step`` gives; None where it has problems, which are put to the others."""
    try:
        return step()
    except DeclarationProblems as found:
        problems += found.problems
        return None


def check_names(trace: Trace, names: Sequence[str]) -> None:
    """DeclarationProblems where a name is that of no scenario, with the nearest ones."""
    problems = []
    for name in names:
        why = why_unknown(trace, name)
        if why is not None:
            near = nearest_names(trace, name)
            hint = f"nearest: {', '.join(near)}" if near else None
            problems.append(Problem("--scenario", 1, 1, name, why, hint))
    if problems:
        raise DeclarationProblems(problems)


def _without_arrivals(cohort: Cohort, document: Document) -> Iterator[Problem]:
    """The declaration in place of arrivals."""
    if cohort.kind == "open":
        return
    hint = (
        _OF_CLASSES if cohort.trace is None else f"leave requests.arrivals out to replay the log's own; {_OWN_ARRIVALS}"
    )
    message = f"{_WITHOUT_ARRIVALS[cohort.kind]}; expected a log with arrivals of its own"
    yield document.problem(_DECLARED[cohort.kind], message, hint, on="key")


def _shown(cohort: Cohort) -> str | None:
    """The log relative to the current directory where it lies below."""
    here = Path.cwd()
    file: Any = None if cohort.trace is None else cohort.trace.file
    if file is None:
        return None
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)
