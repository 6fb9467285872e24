"""Declared rules as frames, and their limits on one cohort."""

import polars as pl

from pipelines.declarations import Rules
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import Gates, Preference
from pipelines.frames.metrics import METRICS


def gates_frame(rules: Rules) -> pl.DataFrame:
    """A :class:`Gates` frame, one row per gate in declared order."""
    rows = [
        {
            "gate": gate.id,
            "file": gate.file,
            "kind": gate.kind,
            "metric": gate.metric,
            "unit": METRICS[gate.metric].unit,
            "topologies": " ".join(gate.topologies),
            "bound": gate.bound,
            "op": gate.op,
            "limit": gate.limit,
            "objective": gate.objective,
            "severity": gate.severity,
            "blocking": gate.blocking,
            "owner": gate.owner,
            "rationale": gate.rationale,
        }
        for gate in rules.gates
    ]
    schema = {name: column.dtype.type for name, column in Gates.to_schema().columns.items()}
    return Gates.validate(pl.DataFrame(rows, schema=schema))


def preference_frame(rules: Rules) -> pl.DataFrame:
    """A :class:`Preference` frame of the decision rule."""
    rows = [("prefer", name, float(rank)) for rank, name in enumerate(rules.decision.prefer)]
    rows += [("weight", name, float(weight)) for name, weight in rules.decision.operating_part_weights.items()]
    return Preference.validate(pl.DataFrame(rows, schema=["rule", "name", "value"], orient="row"))


def part_weights(preference: pl.DataFrame) -> dict[str, float]:
    """Weight by kind of operating part."""
    return dict(preference.filter(pl.col("rule") == "weight").select("name", "value").iter_rows())


def preferred_keys(preference: pl.DataFrame) -> list[str]:
    """The ranking keys, most important first."""
    return preference.filter(pl.col("rule") == "prefer").sort("value")["name"].to_list()


def applicable(gates: pl.DataFrame, inputs: InputTable) -> pl.DataFrame:
    """``gates`` with every limit resolved; a gate whose objective the cohort does not declare keeps a null limit and does not apply."""
    limits = [
        inputs.number(f"objectives.{row['objective']}")
        if row["objective"] is not None and inputs.has(f"objectives.{row['objective']}")
        else row["limit"]
        for row in gates.iter_rows(named=True)
    ]
    return gates.with_columns(limit=pl.Series(limits, dtype=pl.Float64))
