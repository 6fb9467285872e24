"""Which scenarios of a cohort are kept: all of them, or of very many those that the decision needs (docs/arithmetic.md, section 10)."""

from dataclasses import dataclass

import polars as pl

from pipelines.frames.changes import SearchSpace
from pipelines.frames.inputs import InputTable
from pipelines.planning.room import scenario_count
from pipelines.topologies.question import Workload
from pipelines.topologies.scenarios import scenario_frame

KEEP_ALL = 1000
"""Up to so many scenarios, all of them are kept."""


@dataclass(frozen=True)
class Asked:
    """A cohort and the rules that it is judged by."""

    inputs: InputTable
    workload: Workload
    gates: pl.DataFrame
    preference: pl.DataFrame


def kept_scenarios(asked: Asked, keep_all: int = KEEP_ALL) -> pl.DataFrame:
    """The kept scenarios in matrix order: a :class:`SearchSpace` frame."""
    thresholds = asked.workload.thresholds(asked.inputs)
    names = asked.inputs.words("topologies.compared")
    searched = sum(scenario_count(asked.inputs, name, len(thresholds)) for name in names)
    kept = scenario_frame(asked.inputs, thresholds)
    assert kept.height == searched
    return SearchSpace.validate(kept.with_columns(searched=pl.lit(searched, pl.Int64)))
