"""Figures by bucket, and the one figure that a gate makes of them (docs/rules.md, Gates)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .names import LONGEST, SHORTEST

_LANES = {
    "ttft": ("ttft_s",),
    "tpot": ("tpot_s",),
    "e2e": ("e2e_s",),
    "prefill_wait": ("prefill_wait_s",),
    "transfer": ("transfer_wait_s", "kv_movement_s"),
    "decode_wait": ("decode_wait_s",),
}
"""Members of `lanes` that add up to each metric."""

Shown = Callable[[float], float]
"""How a figure is written: with 10 digits, or as it is."""


def selected(words: Sequence[str] | None, labels: Sequence[str]) -> list[str]:
    """Return the buckets that a gate is about, in their order; all without words.

    >>> selected(["longest", "[1,512)"], ["[1,512)", "[512,4096)", "[4096,inf)"])
    ['[1,512)', '[4096,inf)']
    """
    if words is None:
        return list(labels)
    named = {SHORTEST: labels[:1], LONGEST: labels[-1:]}
    chosen = {label for word in words for label in named.get(word, [word])}
    return [label for label in labels if label in chosen]


def aggregated(
    gate: Mapping[str, Any], lanes: Sequence[Mapping[str, Any]], requests: Mapping[str, int], shown: Shown
) -> float | None:
    """Return the figure of a gate on a metric by bucket; None where no bucket that it is about has one."""
    chosen = set(selected(gate["buckets"], list(requests)))
    having = [
        (requests[line["bucket"]], figure)
        for line in lanes
        if line["bucket"] in chosen and (figure := _figure_of(line, gate["metric"], shown)) is not None
    ]
    return _aggregate(gate, having, shown) if having else None


def _figure_of(line: Mapping[str, Any], metric: str, shown: Shown) -> float | None:
    """Return the figure of one bucket: as it is in `lanes`, or a sum of these."""
    terms = [line[name] for name in _LANES[metric]]
    if None in terms:
        return None
    return float(terms[0]) if len(terms) == 1 else shown(math.fsum(terms))


def _aggregate(gate: Mapping[str, Any], having: Sequence[tuple[int, float]], shown: Shown) -> float | None:
    """Make one figure of requests and figures of buckets."""
    how, within = gate["aggregate"], gate["within"]
    if how == "worst":
        figures = [figure for _, figure in having]
        return max(figures) if gate["op"] in ("lte", "lt") else min(figures)
    total = sum(count for count, _ in having)
    if how == "request_weighted":
        return shown(math.fsum(count * figure for count, figure in having) / total)
    return None if within is None else shown(sum(count for count, figure in having if figure <= within) / total)
