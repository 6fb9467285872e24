"""Which budgets could be promised with how much to operate, and the baselines of separated scenarios (docs/arithmetic.md, section 10)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.frames.changes import FrontierRows
from pipelines.frames.inputs import InputTable
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.matrix import LATENCIES

FIGURES = ("ttft", "tpot", "stall")
_COLUMNS = {"ttft": "ttft_worst_s", "tpot": "tpot_worst_s", "stall": "stall_s"}
BASELINES = ("aggregated", "chunked")

GAIN = 0.01
"""By how much a figure must be smaller to be worth more parts or GPUs."""


@dataclass(frozen=True)
class Candidate:
    """A scenario that might be on the frontier of ``figure``: operating parts, GPUs, seconds, its order in the matrix, its knobs."""

    figure: str
    parts: float
    gpus: int
    value_s: float
    order: tuple[float, ...]
    knobs: dict[str, Any]


def thinned(candidates: Iterable[Candidate]) -> list[dict[str, Any]]:
    """The knobs of those on the frontier, in the order of :func:`frontier`."""
    found: list[dict[str, Any]] = []
    ordered = sorted(
        candidates, key=lambda one: (FIGURES.index(one.figure), one.parts, one.gpus, one.value_s, one.order)
    )
    kept: list[Candidate] = []
    for one in ordered:
        if _gains(
            one.parts, one.gpus, one.value_s, [(k.parts, k.gpus, k.value_s) for k in kept if k.figure == one.figure]
        ):
            kept.append(one)
            found.append(one.knobs)
    return found


def _gains(parts: float, gpus: int, value_s: float, kept: list[tuple[float, int, float]]) -> bool:
    """Whether a figure is smaller enough than all kept ones of as few parts and GPUs."""
    return all(
        parts < other_parts or gpus < other_gpus or value_s < (1 - GAIN) * other
        for other_parts, other_gpus, other in kept
    )


def _within(figure: str, inputs: InputTable) -> pl.Expr:
    """Whether a figure is within its objective, bucket by bucket where buckets have their own; true where there is none."""
    if figure in LATENCIES:
        judged, objective = pl.col(f"{figure}_judged_s"), pl.col(f"{figure}_objective_s")
        return (judged <= objective).fill_null(True)
    if not inputs.has("objectives.stall"):
        return pl.lit(True)
    return (pl.col("stall_s") <= inputs.number("objectives.stall")).fill_null(True)


def frontier(matrix: pl.DataFrame, inputs: InputTable) -> pl.DataFrame:
    """The frontier of a scenario matrix: a :class:`FrontierRows` frame, by figure, then operating parts, then GPUs."""
    refused = matrix.group_by("place").agg(refused=(pl.col("status") == "refused").any())
    nominal = matrix.filter(pl.col("bound") == "nominal").join(refused, on="place", how="left", maintain_order="left")
    found: list[dict[str, Any]] = []
    for figure in FIGURES:
        others = [_within(other, inputs) for other in FIGURES if other != figure]
        candidates = nominal.filter(
            ~pl.col("refused") & pl.all_horizontal(others) & pl.col(_COLUMNS[figure]).is_not_null()
        )
        found += _least(figure, candidates)
    schema = {name: column.dtype.type for name, column in FrontierRows.to_schema().columns.items()}
    return FrontierRows.validate(pl.DataFrame(found, schema=schema))


def _least(figure: str, candidates: pl.DataFrame) -> list[dict[str, Any]]:
    """Those that gain over all that have as few parts and GPUs; fewest parts first, then GPUs."""
    kept: list[dict[str, Any]] = []
    ordered = candidates.sort("operating_parts", "gpus", _COLUMNS[figure], "place")
    for row in ordered.iter_rows(named=True):
        value = row[_COLUMNS[figure]]
        before = [(other["operating_parts"], other["gpus"], other["value_s"]) for other in kept]
        if _gains(row["operating_parts"], row["gpus"], value, before):
            kept.append(
                {name: row[name] for name in ("scenario", "operating_parts", "gpus")}
                | {"figure": figure, "value_s": value}
            )
    return kept


def baselines(scenarios: pl.DataFrame, speaking: list[str]) -> list[dict[str, Any]]:
    """Of each separated or routed scenario among ``speaking``, the aggregated and chunked ones of as many GPUs, or the most below."""
    separating = [name for name, topology in TOPOLOGIES.items() if topology.separates]
    rows = scenarios.filter(pl.col("scenario").is_in(speaking) & pl.col("topology").is_in(separating))
    found = []
    for row in rows.sort("place").iter_rows(named=True):
        of_topology = {name: _as_large(scenarios.filter(pl.col("topology") == name), row["gpus"]) for name in BASELINES}
        first = of_topology["aggregated"]
        found.append(
            {
                "scenario": row["scenario"],
                "aggregated": first[0] if first else None,
                "chunked": of_topology["chunked"],
            }
        )
    return found


def _as_large(own: pl.DataFrame, gpus: int) -> list[str]:
    fitting = own.filter(pl.col("gpus") <= gpus)
    return fitting.filter(pl.col("gpus") == pl.col("gpus").max()).sort("place")["scenario"].to_list()
