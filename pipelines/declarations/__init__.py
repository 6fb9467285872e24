"""YAML -> typed, frozen declarations. Every problem is reported at once, with its file, line and column."""

from pipelines.declarations.bundled import bundled
from pipelines.declarations.load import load_cohort, load_declarations, load_rules
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
