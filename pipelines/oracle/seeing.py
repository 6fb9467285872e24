"""What gates see of a scenario that is evaluated anew: its figures unrounded, or with the digits of a receipt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .findings import SIGNIFICANT_DIGITS, round_significant
from .names import LANES
from .recomputing import scalars
from .scenario import Evaluation
from .topologies import Evaluator

_JUDGED = "_judged_bucket"


@dataclass(frozen=True)
class Evaluated:
    """One scenario at one bound, with the rate and the evaluator that it was evaluated with, its GPUs and parts."""

    evaluation: Evaluation
    evaluator: Evaluator
    rate_rps: float
    gpus: int
    parts: float

    @property
    def refused(self) -> bool:
        """Whether it has no latency figure."""
        return self.evaluation.figures is None

    @cached_property
    def exact(self) -> Mapping[str, Any]:
        """Everything unrounded; but which bucket is judged follows from the digits that would be exported."""
        pressure = self.evaluation.pressure
        always = {"pressure": pressure, "headroom": 1 - pressure, "gpus": self.gpus, "operating_parts": self.parts}
        return _Seen(always | {"status": "refused" if self.refused else "evaluated"}, self._latency)

    @cached_property
    def shown(self) -> Mapping[str, Any]:
        """Everything with the digits that would be exported."""
        always = {name: _shown(self.exact[name]) for name in ("pressure", "headroom", "gpus", "operating_parts")}
        return _Seen(always | {"status": self.exact["status"]}, lambda name: _shown(self.exact[name]))

    def _latency(self, name: str) -> Any:
        """Return a member of `bounds` that a scenario has where it is not refused."""
        if name == "lanes":
            return self._lanes
        if name.endswith(_JUDGED):
            latency = name.removesuffix(_JUDGED)
            pairs = [(line["bucket"], _shown(line[f"{latency}_s"])) for line in self._lanes]
            return self.evaluator.setting.objectives.judged_bucket(latency, pairs)
        return self._scalars[name]

    @cached_property
    def _scalars(self) -> dict[str, float | None]:
        figures = self.evaluation.figures
        return {} if figures is None else scalars(self.evaluator, figures, self.rate_rps, self.gpus)

    @cached_property
    def _lanes(self) -> list[dict[str, Any]]:
        figures = self.evaluation.figures
        return [
            {"bucket": line.bucket, "ttft_s": line.ttft_s, "tpot_s": line.tpot_s, "e2e_s": line.e2e_s}
            | {f"{lane}_s": seconds for lane, seconds in zip(LANES, line.lanes, strict=True)}
            for line in (figures.timelines if figures else ())
        ]


class _Seen(dict[str, Any]):
    """Members of a bound; those that take long are computed when they are asked for."""

    def __init__(self, always: Mapping[str, Any], latency: Callable[[str], Any]) -> None:
        super().__init__(always)
        self._latency = latency

    def __missing__(self, name: str) -> Any:
        self[name] = found = self._latency(name)
        return found


def _shown(value: Any) -> Any:
    """Return a figure, or the figures of every bucket, with the digits of a receipt."""
    if isinstance(value, list):
        return [{name: _shown(figure) for name, figure in line.items()} for line in value]
    return round_significant(value, SIGNIFICANT_DIGITS) if isinstance(value, float) else value
