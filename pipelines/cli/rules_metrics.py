"""The registry of metrics as a table and as JSON."""

import textwrap
from typing import Any

from pipelines.cli.explain_layout import WIDTH, columns
from pipelines.declarations.compared import SEPARATED
from pipelines.declarations.typed import TOPOLOGIES
from pipelines.frames.metrics import METRICS, Metric


def as_json() -> list[dict[str, Any]]:
    """Every metric in the order of the registry; no topology and no column of those of the decision."""
    return [
        {
            "name": metric.name,
            "unit": metric.unit,
            "of": metric.scope,
            "modeled": metric.needs_latency,
            "topologies": list(_topologies(metric)),
            "meaning": metric.meaning,
            "column": metric.column or None,
        }
        for metric in METRICS.values()
    ]


def _topologies(metric: Metric) -> tuple[str, ...]:
    if metric.scope == "decision":
        return ()
    return SEPARATED if metric.moves else TOPOLOGIES


def lines() -> list[str]:
    """The registry as a table; meanings run on below themselves."""
    rows = [["metric", "unit", "of", "modeled", "exists for", "column", "meaning"]]
    rows += [_cells(metric) for metric in METRICS.values()]
    facts = columns([row[:-1] for row in rows], left=range(len(rows[0])))
    width = max(map(len, facts)) + 2
    found = []
    for line, row in zip(facts, rows, strict=True):
        found += textwrap.wrap(
            row[-1], WIDTH, initial_indent=f"{line:<{width}}", subsequent_indent=" " * width, break_on_hyphens=False
        )
    return found


def _cells(metric: Metric) -> list[str]:
    exists = "all topologies" if not metric.moves else ", ".join(SEPARATED)
    if metric.scope == "decision":
        exists = "-"
    modeled = "yes" if metric.needs_latency else "no"
    return [metric.name, metric.unit, metric.scope, modeled, exists, metric.column or "-", metric.meaning]
