"""The three ways in: a cohort, a directory of rules, or both with what must hold between them."""

import os
from collections.abc import Iterator

from pipelines.declarations.cohort import read_cohort
from pipelines.declarations.documents import Document
from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.declarations.rules import read_rules
from pipelines.declarations.typed import Cohort, Rules


def load_cohort(path: str | os.PathLike[str]) -> Cohort:
    """The cohort of ``path`` (a cohort.yaml or the directory that holds one); DeclarationProblems otherwise."""
    cohort, _, problems = read_cohort(path)
    if cohort is None:
        raise DeclarationProblems(problems)
    return cohort


def load_rules(directory: str | os.PathLike[str]) -> Rules:
    """The rules of every \\*.yaml and \\*.yml directly in ``directory``; DeclarationProblems otherwise."""
    rules, problems = read_rules(directory)
    if rules is None:
        raise DeclarationProblems(problems)
    return rules


def load_declarations(
    cohort_path: str | os.PathLike[str], rules_directory: str | os.PathLike[str]
) -> tuple[Cohort, Rules]:
    """Both, or all problems of both at once."""
    cohort, document, problems = read_cohort(cohort_path)
    rules, rule_problems = read_rules(rules_directory)
    problems += rule_problems
    if cohort and rules and document:
        problems += _unjudged(cohort, document, rules, str(rules_directory))
    if cohort is None or rules is None or problems:
        raise DeclarationProblems(problems)
    return cohort, rules


def _unjudged(cohort: Cohort, document: Document, rules: Rules, directory: str) -> Iterator[Problem]:
    """A topology that no blocking gate concerns can never pass: it would be compared for nothing."""
    declared = {row.path.removeprefix("objectives.") for row in cohort.inputs if row.path.startswith("objectives.")}
    for topology in cohort.topologies:
        applies = any(
            gate.blocking and topology in gate.topologies and (gate.objective is None or gate.objective in declared)
            for gate in rules.gates
        )
        if not applies:
            message = f"no blocking gate of {directory} applies to it, so it can never pass; expected one"
            yield document.problem(f"topologies.{topology}", message, on="key")
