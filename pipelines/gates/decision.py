"""Verdicts -> decision: the smallest scenario that passes every blocking gate, or none, and the nearest miss of each topology."""

from typing import Any

import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import Decision
from pipelines.gates.rules import preferred_keys
from pipelines.gates.wording import refusal, worded

UNMEASURED_VIOLATION = 1.0
"""Violation that a failing gate counts as where its limit is 0 and no relative distance exists."""

_RANKING = {"operating_parts": ("operating_parts", False), "gpus": ("gpus", False), "margin": ("margin", True)}
"""Ranking key -> column and whether more is better."""


def standing(matrix: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """One row per scenario: ``passes``, smallest blocking ``margin``, ``refusals`` and ``violation``, next to its nominal figures.

    A scenario passes if its nominal bound is not refused, a gate that is declared blocking applies to it, and all that block it pass.
    """
    blocks, failing = pl.col("blocking"), pl.col("blocking") & (pl.col("verdict") == "fail")
    judged = (
        verdicts.filter(blocks | pl.col("waived"))
        .group_by("place", maintain_order=True)
        .agg(
            gates_pass=((pl.col("verdict") == "pass") | ~blocks).all(),
            margin=pl.col("margin").filter(blocks).min(),
            refusals=(blocks & (pl.col("verdict") == "refused")).sum(),
            violation=(-pl.col("margin")).fill_null(UNMEASURED_VIOLATION).filter(failing).max(),
        )
    )
    nominal = matrix.filter(pl.col("bound") == "nominal")
    return nominal.join(judged, on="place", how="left", maintain_order="left").with_columns(
        passes=pl.col("gates_pass").fill_null(False) & (pl.col("status") == "evaluated"),
        margin=pl.col("margin").fill_null(0.0),
        refusals=pl.col("refusals").fill_null(0),
        violation=pl.col("violation").fill_null(0.0),
    )


def _best(passing: pl.DataFrame, prefer: list[str]) -> pl.DataFrame:
    keys = [_RANKING[name] for name in prefer]
    return passing.sort(
        [column for column, _ in keys] + ["place"], descending=[more for _, more in keys] + [False]
    ).head(1)


def _nearest_miss(missing: pl.DataFrame) -> pl.DataFrame:
    return missing.sort("refusals", "violation", "pressure", "gpus", "place", nulls_last=True).head(1)


def decide(
    matrix: pl.DataFrame, verdicts: pl.DataFrame, preference: pl.DataFrame, inputs: InputTable, gates: pl.DataFrame
) -> pl.DataFrame:
    """Choose: a :class:`Decision` frame, one row per compared topology in declared order; ``gates`` have the words for what failed."""
    scenarios, prefer = standing(matrix, verdicts), preferred_keys(preference)
    chosen = _best(scenarios.filter("passes"), prefer)
    rows = []
    for name in inputs.words("topologies.compared"):
        own = scenarios.filter(pl.col("topology") == name)
        passing = own.filter("passes")
        best = (_nearest_miss(own) if passing.is_empty() else _best(passing, prefer)).row(0, named=True)
        if passing.is_empty():
            status, reason = "nearest_miss", _why_missed(best, verdicts, gates)
        elif best["scenario"] == chosen["scenario"].item():
            status, reason = "chosen", _why_chosen(best, scenarios)
        else:
            status, reason = "passes_but_larger", _why_not_smallest(best, chosen.row(0, named=True), prefer)
        rows.append((name, best["scenario"], best["place"], status, reason))
    return Decision.validate(
        pl.DataFrame(rows, schema=["topology", "scenario", "place", "standing", "reason"], orient="row")
    )


def _why_missed(best: dict[str, Any], verdicts: pl.DataFrame, gates: pl.DataFrame) -> str:
    unmet = verdicts.filter(pl.col("blocking") & (pl.col("place") == best["place"]) & (pl.col("verdict") != "pass"))
    if best["status"] == "refused":
        return refusal(best)
    if unmet.is_empty():
        return "no blocking gate applies to it"
    own = {row["gate"]: row for row in gates.iter_rows(named=True)}
    return "; ".join(worded(row, own[row["gate"]]) for row in unmet.iter_rows(named=True))


def _counted(row: dict[str, Any], key: str) -> str:
    words = {"operating_parts": "operating parts", "gpus": "GPUs", "margin": "margin"}
    value = f"{row[key] * 100:.4g} %" if key == "margin" else f"{row[key]:.10g}"
    return f"{value} {words[key]}"


def _why_chosen(best: dict[str, Any], scenarios: pl.DataFrame) -> str:
    passing = scenarios.filter("passes").height
    sizes = ", ".join(_counted(best, key) for key in _RANKING)
    return f"the smallest of {passing} passing scenarios of {scenarios.height}: {sizes}"


def _why_not_smallest(best: dict[str, Any], chosen: dict[str, Any], prefer: list[str]) -> str:
    for key in prefer:
        if best[key] != chosen[key]:
            return f"passes, but with {_counted(best, key)} where {chosen['scenario']} has {_counted(chosen, key)}"
    return f"passes, but comes after {chosen['scenario']} in the matrix"
