"""Objectives of the buckets: what holds for short prompts, and what for all (docs/arithmetic.md section 1)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from .findings import SIGNIFICANT_DIGITS, round_significant

LATENCIES = ("ttft", "tpot", "e2e")
OF_BUCKETS = re.compile(r"objectives\.buckets\.([1-9][0-9]{0,14})\.(ttft|tpot|e2e)")
"""The path of an objective of the buckets below an edge."""


@dataclass(frozen=True)
class Objectives:
    """`objectives.NAME` (s), and those of the buckets below each edge, ascending."""

    of_all: Mapping[str, float]
    of_edges: tuple[tuple[int, Mapping[str, float]], ...] = ()
    _known: dict[tuple[str, str], float | None] = field(default_factory=dict, compare=False, repr=False)

    def of(self, name: str, bucket: str) -> float | None:
        """`ttft_k`, `tpot_k` or `e2e_k` (s): of the smallest edge that the bucket lies below, if it has one.

        >>> Objectives({"ttft": 2.0}, ((512, {"ttft": 0.5}),)).of("ttft", "[1,512)")
        0.5
        """
        if (name, bucket) not in self._known:
            upper = float(bucket[:-1].partition(",")[2])
            own = next((values for edge, values in self.of_edges if edge >= upper), {})
            self._known[name, bucket] = own.get(name, self.of_all.get(name))
        return self._known[name, bucket]

    def judged_bucket(self, name: str, figures: Sequence[tuple[str, float | None]]) -> str | None:
        """Return the first bucket whose figure, of 10 digits, has the largest ratio to its objective.

        Without objectives of buckets, or of this name, it is the bucket with the largest figure; None without figures.
        """
        having = [(bucket, figure) for bucket, figure in figures if figure is not None]
        objectives = [self.of(name, bucket) for bucket, _ in having] if self.of_edges else []
        if not any(objectives):
            return max(having, key=lambda item: item[1])[0] if having else None
        ratios = [
            (bucket, round_significant(figure / objective, SIGNIFICANT_DIGITS))
            for (bucket, figure), objective in zip(having, objectives, strict=True)
            if objective
        ]
        return max(ratios, key=lambda item: item[1])[0]


def objectives_of(rows: Mapping[str, Mapping[str, Any]]) -> Objectives:
    """Read the objectives of an inputs table: they have no range."""
    of_all = {name: rows[f"objectives.{name}"]["value"] for name in LATENCIES if f"objectives.{name}" in rows}
    of_edges: dict[int, dict[str, float]] = {}
    for path in rows:
        found = edge_of(path)
        if found is not None:
            of_edges.setdefault(found[0], {})[found[1]] = rows[path]["value"]
    return Objectives(of_all, tuple(sorted(of_edges.items())))


@lru_cache(maxsize=4096)
def edge_of(path: str) -> tuple[int, str] | None:
    """Return edge and name of an objective of buckets; None of another path.

    >>> edge_of("objectives.buckets.512.ttft"), edge_of("objectives.ttft")
    ((512, 'ttft'), None)
    """
    found = OF_BUCKETS.fullmatch(path)
    return (int(found[1]), found[2]) if found else None
