"""One figure of those of the prompt buckets (docs/rules.md, Gates)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.arithmetic.numbers import Bools, Floats, column
from pipelines.frames.digits import significant_values

UPPER_LIMITS = ("lte", "lt")
_WORDS = {"shortest": 0, "longest": -1}


class UnknownBucketError(ValueError):
    """A gate names a bucket that the workload does not have."""


@dataclass(frozen=True)
class BucketRequests:
    """The buckets of a workload in their order: labels, and the requests of each."""

    labels: Sequence[str]
    requests: Floats

    def chosen(self, words: str | None) -> Bools:
        """Which of them ``words`` name, all where there are none; UnknownBucketError for a label that there is not."""
        found = np.full(len(self.labels), words is None)
        for word in (words or "").split():
            if word in _WORDS:
                found[_WORDS[word]] = True
            elif word in self.labels:
                found[list(self.labels).index(word)] = True
            else:
                raise UnknownBucketError(f"no bucket {word}; there are {', '.join(self.labels)}")
        return found


def aggregated(gate: Mapping[str, Any], values: Floats, of: BucketRequests) -> Floats:
    """The figure that the resolved ``gate`` judges of every row of ``values`` (rows x buckets, NaN where there is none).

    A row without any figure in the chosen buckets has none.
    """
    chosen = of.chosen(gate["buckets"])
    own, requests = values[:, chosen], of.requests[chosen]
    known = ~np.isnan(own)
    some = known.any(axis=1)
    if gate["aggregate"] == "worst":
        upper = gate["op"] in UPPER_LIMITS
        edge = np.where(known, own, -np.inf if upper else np.inf)
        found = edge.max(axis=1) if upper else edge.min(axis=1)
    else:
        counted = np.where(known, requests, 0.0)
        total = np.where(some, counted.sum(axis=1), 1.0)
        measure = significant_values(own) <= column(gate["within"]) if gate["aggregate"] == "share" else own
        found = np.where(known, measure * counted, 0.0).sum(axis=1) / total
    return np.where(some, found, np.nan)
