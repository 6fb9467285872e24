"""Inputs of which some are multiplied, row by row: what the same arithmetic gives for a changed cohort."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipelines.frames.inputs import Bound, InputTable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class VariedInputs(InputTable):
    """An inputs table whose numbers are arrays where ``factors`` has the path: value times a factor per evaluated row.

    A range moves with its value. ``requests.rate`` may have a factor where no rate is declared: it scales the trace's.
    """

    factors: Mapping[str, Floats] = field(default_factory=dict)

    def number(self, path: str, bound: Bound = "nominal") -> float | Floats:  # type: ignore[override]
        """The value of ``path`` under ``bound`` in its SI unit, one per row where it is varied."""
        value = InputTable.number(self, path, bound)
        return value * self.factors[path] if path in self.factors else value

    def factor(self, path: str) -> float | Floats:
        """What ``path`` is multiplied by."""
        return self.factors.get(path, 1.0)

    def at(self, places: NDArray[np.int64]) -> "VariedInputs":
        """The inputs of the rows at ``places``."""
        return VariedInputs(self.rows, {path: factor[places] for path, factor in self.factors.items()})
