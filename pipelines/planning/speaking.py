"""The speaking scenarios of a decision and everything that would change it, as frames."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from pipelines.frames.changes import BreakEvenRows, SensitivityRows, WorkerLessRows
from pipelines.frames.changes import Speaking as SpeakingRows
from pipelines.frames.inputs import InputTable
from pipelines.gates.rules import applicable, part_weights, preferred_keys
from pipelines.planning.changes import (
    BreakEven,
    Speaking,
    break_evens,
    most_sensitive,
    rate_headroom,
    sensitivities,
    workers_less,
)
from pipelines.planning.factors import is_measured, variables
from pipelines.planning.margins import Rows, blocking_on
from pipelines.planning.reliance import inputs_read
from pipelines.planning.room import fewest_gpus
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.evaluator import layouts
from pipelines.topologies.question import Workload, sizes_of

MOST_TO_MEASURE = 5


@dataclass(frozen=True)
class Changes:
    """What would change a decision: the four frames of :mod:`pipelines.frames.changes`."""

    speaking: pl.DataFrame
    sensitivity: pl.DataFrame
    break_even: pl.DataFrame
    workers_less: pl.DataFrame


@dataclass(frozen=True)
class Decided:
    """A decision with everything that it was made from."""

    inputs: InputTable
    workload: Workload
    gates: pl.DataFrame
    decision: pl.DataFrame
    matrix: pl.DataFrame
    preference: pl.DataFrame
    trace_provenance: str

    def would_precede(self, scenario: str, chosen: str) -> bool:
        """Whether ``scenario``, if it just passed, would be preferred over ``chosen``: by the keys before margin, as it would have none."""
        both = self.matrix.filter(pl.col("bound") == "nominal")
        own, other = (both.filter(pl.col("scenario") == name).row(0, named=True) for name in (scenario, chosen))
        for key in preferred_keys(self.preference):
            if key == "margin" or own[key] != other[key]:
                return key != "margin" and bool(own[key] < other[key])
        return False

    def speaking(self, row: dict[str, Any]) -> Speaking:
        """The scenario of one row of the decision, with the gates and inputs that concern it."""
        own = self.matrix.filter((pl.col("scenario") == row["scenario"]) & (pl.col("bound") == "nominal"))
        layout, frame = next(layouts(own))
        gates = list(applicable(self.gates, self.inputs).iter_rows(named=True))
        read = inputs_read(self.inputs, blocking_on(gates, row["topology"]), [row["topology"]])
        trace_rate = self.workload.whole["rate_rps"]
        return Speaking(
            inputs=self.inputs,
            workload=self.workload,
            row=Rows(
                layout, sizes_of(frame), frame["gpus"].cast(pl.Float64).to_numpy(), frame["operating_parts"].item()
            ),
            gates=gates,
            variables=variables(self.inputs, read, trace_rate, trace_observed=self.trace_provenance == "observed"),
        )


def changes(decided: Decided) -> Changes:
    """Sensitivity, break-even, headroom and one worker less of every speaking scenario."""
    found: dict[str, list[dict[str, Any]]] = {"speaking": [], "sensitivity": [], "break_even": [], "workers_less": []}
    for row in decided.decision.iter_rows(named=True):
        of = decided.speaking(row)
        now = of.now()
        sensitive, evens = sensitivities(of), break_evens(of)
        margin = None if np.isnan(now.margin[0]) else float(now.margin[0])
        found["speaking"].append(
            {"topology": row["topology"], "scenario": row["scenario"], "margin": margin}
            | {"most_sensitive": most_sensitive(sensitive, margin)}
            | _fix(evens if not now.passes[0] else [])
            | (_more_gpus(decided, row["topology"]) if _misses(row, passes=bool(now.passes[0])) else {})
            | _rate(of, evens)
        )
        own = {"topology": row["topology"]}
        found["sensitivity"] += [own | asdict(one) for one in sensitive]
        found["break_even"] += [own | asdict(one) for one in evens]
        found["workers_less"] += [own | asdict(one) for one in workers_less(of)]
    return Changes(
        _frame(SpeakingRows, found["speaking"]),
        _frame(SensitivityRows, found["sensitivity"]),
        _frame(BreakEvenRows, found["break_even"]),
        _frame(WorkerLessRows, found["workers_less"]),
    )


def _misses(row: dict[str, Any], *, passes: bool) -> bool:
    """Whether a row of the decision is a nearest miss by the closed forms, and not by a gate on the replay alone."""
    return row["standing"] == "nearest_miss" and not passes


def _frame(model: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {name: column.dtype.type for name, column in model.to_schema().columns.items()}
    frame: pl.DataFrame = model.validate(pl.DataFrame(rows, schema=schema, orient="row"))
    return frame


def _fix(rows: list[BreakEven]) -> dict[str, Any]:
    if not rows:
        return {}
    nearest = min(rows, key=lambda row: row.distance)
    return {"fix_path": nearest.path, "fix_factor": nearest.factor, "fix_value": nearest.value}


def _more_gpus(decided: Decided, topology: str) -> dict[str, Any]:
    of = TOPOLOGIES[topology]
    parts = of.operating_parts(part_weights(decided.preference))
    found = fewest_gpus(decided.inputs, decided.workload, decided.gates, of, parts)
    return {} if found is None else {"more_gpus": found[0], "more_gpus_scenario": found[1]}


def _rate(of: Speaking, rows: list[BreakEven]) -> dict[str, Any]:
    found = rate_headroom(of, rows)
    return {} if found is None else {f"rate_{name}": value for name, value in asdict(found).items()}


def measure_next(decided: Decided, changes: Changes) -> list[str]:
    """The inputs that are not observed and whose break-evens lie nearest, over the scenarios whose break-evens change the decision."""
    decisive = _decisive(decided)
    rows = changes.break_even.filter(pl.col("topology").is_in(decisive))
    order = {path: place for place, path in enumerate(["requests.rate", *decided.inputs.rows])}
    nearest: dict[str, float] = {}
    for row in rows.iter_rows(named=True):
        if is_measured(row["path"]) and not _observed(decided, row["path"]):
            distance = abs(float(np.log(row["factor"])))
            nearest[row["path"]] = min(distance, nearest.get(row["path"], np.inf))
    key: Callable[[str], tuple[float, int]] = lambda path: (nearest[path], order[path])  # noqa: E731
    return sorted(nearest, key=key)[:MOST_TO_MEASURE]


def _observed(decided: Decided, path: str) -> bool:
    if decided.inputs.has(path):
        return decided.inputs.provenance(path) == "observed"
    return decided.trace_provenance == "observed"


def _decisive(decided: Decided) -> list[str]:
    """The topologies whose break-evens change the decision: the chosen one, and those that miss but would be preferred over it."""
    chosen = decided.decision.filter(pl.col("standing") == "chosen")
    missing = decided.decision.filter(pl.col("standing") == "nearest_miss")
    if chosen.is_empty():
        return missing["topology"].to_list()
    return [
        chosen["topology"].item(),
        *(
            row["topology"]
            for row in missing.iter_rows(named=True)
            if decided.would_precede(row["scenario"], chosen["scenario"].item())
        ),
    ]
