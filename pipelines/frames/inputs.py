"""The inputs table: every declared value of a cohort but the trace, one row each, and typed access to it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandera.polars as pa
import polars as pl
from numpy.typing import NDArray

Bound = Literal["nominal", "conservative"]
BOUNDS: tuple[Bound, ...] = ("nominal", "conservative")


class Inputs(pa.DataFrameModel):
    """One row per declared quantity; ``value`` holds numbers, ``text`` words (unit ``text``)."""

    path: str = pa.Field(unique=True, metadata={"unit": "", "meaning": "where the value is declared in the cohort"})
    unit: str = pa.Field(metadata={"unit": "", "meaning": "SI unit of value, low, high and conservative, or text"})
    value: float = pa.Field(nullable=True, metadata={"unit": "as unit", "meaning": "declared value, the nominal bound"})
    text: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "declared word, where unit is text"})
    low: float = pa.Field(nullable=True, metadata={"unit": "as unit", "meaning": "declared lower end"})
    high: float = pa.Field(nullable=True, metadata={"unit": "as unit", "meaning": "declared upper end"})
    conservative: float = pa.Field(nullable=True, metadata={"unit": "as unit", "meaning": "the end that hurts"})
    provenance: str = pa.Field(isin=["observed", "supplied"], metadata={"unit": "", "meaning": "observed or supplied"})
    source: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "where an observed value was measured"})
    note: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "the declaring person's remark"})

    class Config:
        """No other columns."""

        strict = True


@dataclass(frozen=True)
class InputTable:
    """Typed reading of an :class:`Inputs` frame."""

    rows: dict[str, dict[str, object]]

    @classmethod
    def of(cls, frame: pl.DataFrame) -> "InputTable":
        """Index a validated inputs frame by path."""
        return cls({row["path"]: row for row in frame.iter_rows(named=True)})

    def has(self, path: str) -> bool:
        """Whether the cohort declares ``path``."""
        return path in self.rows

    def number(self, path: str, bound: Bound = "nominal") -> float:
        """The value of ``path`` under ``bound`` in its SI unit; KeyError if it is not declared."""
        value = self.rows[path]["value" if bound == "nominal" else "conservative"]
        assert isinstance(value, float)
        return value

    def factor(self, path: str) -> float | NDArray[np.float64]:  # noqa: ARG002
        """What ``path`` is multiplied by: 1 here, see :mod:`pipelines.frames.varied`."""
        return 1.0

    def word(self, path: str) -> str:
        """The text value of ``path``; KeyError if it is not declared."""
        value = self.rows[path]["text"]
        assert isinstance(value, str)
        return value

    def provenance(self, path: str) -> str:
        """``observed`` or ``supplied``; KeyError if ``path`` is not declared."""
        return str(self.rows[path]["provenance"])

    def words(self, path: str) -> tuple[str, ...]:
        """The space-separated entries of a text value; none if it is not declared."""
        return tuple(self.word(path).split()) if self.has(path) else ()


def inputs_json(frame: pl.DataFrame) -> list[dict[str, object]]:
    """The inputs table as a receipt and the fingerprint hold it: one object per row, words in ``value`` and ``conservative``."""
    rows = []
    for row in frame.iter_rows(named=True):
        word = row.pop("text")
        rows.append(row | {"value": word, "conservative": word} if row["unit"] == "text" else row)
    return rows
