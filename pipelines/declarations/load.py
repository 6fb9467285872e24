"""The three ways in: a cohort, a directory of rules, or both with what must hold between them."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipelines.declarations.cohort import read_cohort
from pipelines.declarations.documents import Document
from pipelines.declarations.places import own_rules
from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.declarations.requests import read_request_numbers, trace_source
from pipelines.declarations.rules import read_rules
from pipelines.declarations.search_size import weighed_problems
from pipelines.declarations.typed import Cohort, Rules, TraceSource


def load_cohort(path: str | os.PathLike[str]) -> Cohort:
    """The cohort of ``path`` (a cohort.yaml or the directory that holds one); DeclarationProblems otherwise."""
    cohort, _, problems = read_cohort(path)
    if cohort is None:
        raise DeclarationProblems(problems)
    return cohort


def load_rules(directory: str | os.PathLike[str], own: str | os.PathLike[str] | None = None) -> Rules:
    """The rules of every \\*.yaml and \\*.yml directly in ``directory``, with those of a cohort's ``own``; or DeclarationProblems."""
    rules, problems = read_rules(directory, own)
    if rules is None:
        raise DeclarationProblems(problems)
    return rules


@dataclass(frozen=True)
class Declared:
    """What could be read of a cohort and its rules, with everything that is wrong.

    ``trace`` is the cohort's log wherever the ``requests`` block is sound, even if the rest of the cohort is not.
    """

    cohort: Cohort | None
    rules: Rules | None
    trace: TraceSource | None
    problems: tuple[Problem, ...]


def read_declarations(cohort_path: str | os.PathLike[str], rules_directory: str | os.PathLike[str]) -> Declared:
    """A cohort and the rules to judge it by, as far as they can be read."""
    cohort, document, problems = read_cohort(cohort_path)
    trace = cohort.trace if cohort else _sound_trace(document, problems)
    rules, rule_problems = read_rules(rules_directory, own_rules(cohort_path, rules_directory))
    problems += rule_problems
    if cohort and rules and document:
        problems += _unjudged(cohort, document, rules, str(rules_directory))
        problems += weighed_problems(cohort, document, rules)
        problems += _without_baseline(cohort, document, rules)
    return Declared(cohort, rules, trace, tuple(problems))


def load_declarations(
    cohort_path: str | os.PathLike[str], rules_directory: str | os.PathLike[str]
) -> tuple[Cohort, Rules]:
    """Both, or all problems of both at once."""
    declared = read_declarations(cohort_path, rules_directory)
    if declared.cohort is None or declared.rules is None or declared.problems:
        raise DeclarationProblems(declared.problems)
    return declared.cohort, declared.rules


def _sound_trace(document: Document | None, problems: list[Problem]) -> TraceSource | None:
    """The log of a cohort that is faulty elsewhere."""
    requests = ("requests", "(root)", "")
    if document is None or any(problem.path.split(".")[0].split("[")[0] in requests for problem in problems):
        return None
    numbers, _ = read_request_numbers(document)
    return trace_source(document, numbers, Path(document.file).parent)


def _without_baseline(cohort: Cohort, document: Document, rules: Rules) -> Iterator[Problem]:
    """A gate whose baseline the cohort does not compare."""
    for gate in rules.gates:
        judged = [name for name in cohort.topologies if name in gate.topologies]
        missing = gate.limit_baseline is not None and gate.limit_baseline not in cohort.topologies
        if missing and judged and gate.concerns(cohort.name):
            message = f"gate {gate.id} of {gate.file} holds {', '.join(judged)} against {gate.limit_baseline}"
            yield document.problem(
                "topologies", f"{message}, which is not compared; expected topologies.{gate.limit_baseline}", on="key"
            )


def _unjudged(cohort: Cohort, document: Document, rules: Rules, directory: str) -> Iterator[Problem]:
    """A topology that no blocking gate concerns can never pass: it would be compared for nothing."""
    declared = {row.path.removeprefix("objectives.") for row in cohort.inputs if row.path.startswith("objectives.")}
    applying = [
        gate
        for gate in rules.gates
        if gate.blocking and gate.concerns(cohort.name) and all(name in declared for name in gate.needs())
    ]
    for topology in cohort.topologies:
        if not any(topology in gate.topologies for gate in applying):
            message = f"no blocking gate of {directory} applies to it, so it can never pass; expected one"
            added = not document.has(f"topologies.{topology}")
            hint = "aggregated and chunked are compared wherever disaggregated or routed is" if added else None
            yield document.problem(f"topologies.{topology}", message, hint, on="key")
