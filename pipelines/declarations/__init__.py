"""YAML -> typed, frozen declarations. Every problem is reported at once, with its file, line and column."""

from typing import TYPE_CHECKING, Any

from pipelines.declarations.bundled import bundled
from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.declarations.typed import TOPOLOGIES, Cohort, DecisionRule, Gate, Input, Rules, TraceSource

__all__ = [
    "TOPOLOGIES",
    "Cohort",
    "DecisionRule",
    "DeclarationProblems",
    "Gate",
    "Input",
    "Problem",
    "Rules",
    "TraceSource",
    "bundled",
    "load_cohort",
    "load_declarations",
    "load_rules",
]

if TYPE_CHECKING:
    from pipelines.declarations.load import load_cohort, load_declarations, load_rules

_LOADERS = ("load_cohort", "load_declarations", "load_rules")


def __getattr__(name: str) -> Any:
    """The loaders, on demand: the schemas that they check against take half of the start of a command that loads nothing."""
    if name in _LOADERS:
        from pipelines.declarations import load

        return getattr(load, name)
    raise AttributeError(name)
