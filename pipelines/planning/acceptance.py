"""Whether a decision is accepted: gates on what it rests on, and exceptions that have run out (docs/rules.md, Gates on the decision)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl

from pipelines.declarations.gates import matches
from pipelines.frames.digits import significant
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import Acceptance
from pipelines.frames.metrics import CRITICAL_POOLS
from pipelines.gates.rules import ON_DECISION, applicable, resolved
from pipelines.planning.reliance import TRACE, rests_on

_DATE = re.compile(r"(?=([0-9]{4}-[0-9]{2}-[0-9]{2}))")


@dataclass(frozen=True)
class Reliance:
    """One input that a decision rests on: where it is, whether it is observed, and what its source says."""

    path: str
    observed: bool
    source: str | None


@dataclass(frozen=True)
class Found:
    """The figure of a gate on the decision, and the inputs that make it; None where one of them has no age.

    ``counted`` is how many inputs it was looked for in.
    """

    figure: float | None
    inputs: Sequence[str]
    counted: int = 0


def relied_on(
    inputs: InputTable, gates: pl.DataFrame, decision: pl.DataFrame, frozen: Mapping[str, Any]
) -> list[Reliance]:
    """What the chosen scenario rests on or, where none is chosen, all nearest misses together."""
    chosen = decision.filter(pl.col("standing") == "chosen")
    topologies = (decision if chosen.is_empty() else chosen)["topology"].to_list()
    rows = rests_on(inputs, applicable(gates, inputs), topologies, frozen["provenance"])
    return [
        Reliance(
            row["path"],
            row["provenance"] == "observed",
            frozen["source"] if row["path"] == TRACE else inputs.rows[row["path"]]["source"],  # type: ignore[arg-type]
        )
        for row in rows
    ]


def dated(source: str | None) -> date | None:
    """The first date that exists in the calendar and is written ``YYYY-MM-DD`` in ``source``.

    >>> dated("gateway log of 2026-13-01, then 2026-11-02"), dated("vendor") is None
    (datetime.date(2026, 11, 2), True)
    """
    for found in _DATE.findall(source or ""):
        try:
            return date.fromisoformat(found)
        except ValueError:
            continue
    return None


def decision_figure(metric: str, patterns: str | None, relied: Sequence[Reliance], as_of: date | None) -> Found:
    """The figure of ``metric`` over those of ``relied`` that a pattern matches, all where there are no ``patterns``."""
    own = [one for one in relied if patterns is None or any(matches(word, one.path) for word in patterns.split())]
    unobserved = [one.path for one in own if not one.observed]
    if metric == "unobserved_inputs":
        return Found(float(len(unobserved)), unobserved, len(own))
    if metric == "unobserved_share":
        return Found(significant(len(unobserved) / len(own)) if own else 0.0, unobserved, len(own))
    dates = {one.path: dated(one.source) for one in own if one.observed}
    undated = [path for path, day in dates.items() if day is None or as_of is None or day > as_of]
    if undated or as_of is None:
        return Found(None, undated, len(own))
    ages = {path: (as_of - day).days for path, day in dates.items() if day is not None}
    oldest = max(ages.values(), default=0)
    return Found(float(oldest), [path for path, age in ages.items() if age == oldest], len(own))


def critical_pools(decision: pl.DataFrame, workers_less: pl.DataFrame) -> Found:
    """How many pools of the chosen scenario it does not pass without one worker of; nothing where none is chosen."""
    chosen = decision.filter(pl.col("standing") == "chosen")
    if chosen.is_empty():
        return Found(None, [])
    own = workers_less.filter((pl.col("topology") == chosen["topology"].item()) & ~pl.col("passes"))
    return Found(float(own.height), [])


def judge_decision(
    gates: pl.DataFrame,
    rule_set: pl.DataFrame,
    inputs: InputTable,
    decision: pl.DataFrame,
    frozen: Mapping[str, Any],
    workers_less: pl.DataFrame,
) -> pl.DataFrame:
    """Judge the decision by every gate on it that applies: an :class:`Acceptance` frame; ``workers_less`` are its rows of that."""
    relied = relied_on(inputs, gates, decision, frozen)
    day = rule_set["as_of"].item()
    as_of = None if day is None else date.fromisoformat(day)
    rows = []
    own = resolved(gates, inputs).filter((pl.col("scope") == ON_DECISION) & pl.col("applies"))
    for gate in own.iter_rows(named=True):
        if gate["metric"] == CRITICAL_POOLS:
            found = critical_pools(decision, workers_less)
        else:
            found = decision_figure(gate["metric"], gate["inputs"], relied, as_of)
        waived = gate["blocking"] and bool(gate["waived"])
        rows.append(
            {name: gate[name] for name in ("gate", "metric", "unit", "op", "limit", "severity")}
            | {"figure": found.figure, "inputs": " ".join(found.inputs), "counted": found.counted}
            | judged(found.figure, gate["op"], gate["limit"])
            | {"waived": waived, "blocking": gate["blocking"] and not waived}
        )
    schema = {name: column.dtype.type for name, column in Acceptance.to_schema().columns.items()}
    return Acceptance.validate(pl.DataFrame(rows, schema=schema, orient="row"))


def judged(figure: float | None, op: str, limit: float) -> dict[str, Any]:
    """Verdict and margin of a figure that must be at most, or below, ``limit``."""
    if figure is None:
        return {"verdict": "refused", "margin": None}
    holds = figure <= limit if op == "lte" else figure < limit
    margin = significant((limit - figure) / limit) if limit else None
    return {"verdict": "pass" if holds else "fail", "margin": margin}


def objections(decision: pl.DataFrame, acceptance: pl.DataFrame, exceptions: pl.DataFrame) -> list[dict[str, Any]]:
    """Why the decision is not accepted, as in the receipt; none where it is."""
    found: list[dict[str, Any]] = []
    if decision.filter(pl.col("standing") == "chosen").is_empty():
        found.append({"kind": "no_topology", "gate": None})
    failing = acceptance.filter(pl.col("blocking") & (pl.col("verdict") != "pass"))
    found += [{"kind": "verdict", "gate": gate} for gate in failing["gate"]]
    expired = exceptions.filter(pl.col("standing") == "expired")
    return found + [{"kind": "exception", "gate": gate} for gate in expired["gate"]]
