"""Limits that are a baseline: the best that a topology of mixed workers reaches on as many GPUs (docs/rules.md, Gates)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .findings import SIGNIFICANT_DIGITS, unit_of_last_digit

OF_BASELINE = "baselines."
BASELINES = ("aggregated", "chunked")
"""The topologies that may be one."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Baselines:
    """The scenarios of a receipt by topology and mixed workers, and the GPUs that one of these occupies."""

    gpus_per_worker: int = 1
    rows: Mapping[tuple[str, int], Sequence[Row]] = field(default_factory=dict)

    def on(self, topology: str, gpus: int) -> Sequence[Row]:
        """Return the scenarios of a baseline with as many workers as so many GPUs make up."""
        return self.rows.get((topology, gpus // self.gpus_per_worker), ())


def baselines_of(rows: Iterable[Row], gpus_per_worker: int) -> Baselines:
    """Find the scenarios that may be a baseline."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["topology"] in BASELINES:
            found.setdefault((row["topology"], row["workers_mixed"]), []).append(row)
    return Baselines(gpus_per_worker, found)


def limit_baseline(gate: Mapping[str, Any]) -> str | None:
    """Return the topology whose best figure a gate's limit is a multiple of."""
    source = str(gate["limit_source"])
    return source.removeprefix(OF_BASELINE) if source.startswith(OF_BASELINE) else None


def best_of(figures: Iterable[float | None], op: str) -> float | None:
    """Return the smallest figure for lte and lt, the largest for gte and gt; None where there is none.

    >>> best_of([0.4, None, 0.3], "lt"), best_of([0.4, None, 0.3], "gte"), best_of([None], "lte")
    (0.3, 0.4, None)
    """
    there = [figure for figure in figures if figure is not None]
    return None if not there else min(there) if op in ("lte", "lt") else max(there)


def units_of_limit(limit: float | None, times: float) -> float:
    """Return how many units of its last digit a limit moves by with one unit of the figure that it is a multiple of.

    >>> round(units_of_limit(0.9, 0.9), 9), round(units_of_limit(2.4, 0.8), 9)
    (9.0, 0.8)
    """
    if not limit or not times:
        return 0.0
    moved = abs(times) * unit_of_last_digit(limit / times, SIGNIFICANT_DIGITS)
    return moved / unit_of_last_digit(limit, SIGNIFICANT_DIGITS)
