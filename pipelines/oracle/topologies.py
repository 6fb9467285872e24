"""The topologies, evaluated from the exported inputs: their paths, one by one and together (docs/arithmetic.md sections 5 and 6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from .chunking import Chunks, chunks
from .parameters import Setting
from .scenario import Evaluation, Figures, Gauge, Knobs, Load, PathFigures, Refusal, Refused
from .separation import Separated, separated
from .traffic import Moments, Requests, Traffic, split_scv
from .whole_prompts import WholePrompts, whole_prompts

PATHS = {
    "aggregated": (("all", "whole_prompts"),),
    "chunked": (("all", "chunks"),),
    "disaggregated": (("all", "separated"),),
    "routed": (("below_threshold", "whole_prompts_or_chunks"), ("from_threshold", "separated")),
}
"""Which prompts take which kind of path."""

Path: TypeAlias = WholePrompts | Chunks | Separated
Outcome: TypeAlias = tuple[tuple[Load, ...], Refusal | None, PathFigures | None]
Key: TypeAlias = tuple[str, int | None, int | None]
"""Kind of a path, threshold of its topology, chunk budget."""


class Evaluator:
    """Evaluates scenarios of one cohort at one bound: constants of a path once, and each of its sizes and rates once."""

    def __init__(self, setting: Setting, traffic: Traffic) -> None:
        """Compute nothing yet."""
        self.setting, self.traffic = setting, traffic
        self._paths: dict[Key, Path] = {}
        self._outcomes: dict[tuple[object, ...], Outcome] = {}
        self._floors: dict[Key, tuple[list[float], float]] = {}

    def evaluate(self, knobs: Knobs, rate_rps: float | None = None) -> Evaluation:
        """Evaluate one scenario at the cohort's rate, or another: one path after the other, then the floors."""
        loads: list[Load] = []
        figures: list[PathFigures] = []
        keys = path_keys(knobs)
        for key in keys:
            of_path, refusal, own = self._outcome(key, knobs, self.traffic.rate_rps if rate_rps is None else rate_rps)
            loads += of_path
            if own is None:
                return Evaluation(tuple(loads), refusal, None)
            figures.append(own)
        floor = self._floor(keys)
        return Evaluation(tuple(loads), floor, None if floor else Figures(tuple(figures)))

    def path(self, key: Key) -> Path:
        """Return a path with its constants."""
        if key not in self._paths:
            kind, threshold, budget = key
            requests = self.traffic.requests
            if threshold is not None:
                requests = requests.split(threshold)[1 if kind == "separated" else 0]
            self._paths[key] = self._collect(kind, requests, budget)
        return self._paths[key]

    def _collect(self, kind: str, requests: Requests, budget: int | None) -> Path:
        if kind == "separated":
            return separated(self.setting.separated, requests)
        return (
            whole_prompts(self.setting.mixed, requests)
            if budget is None
            else chunks(self.setting.mixed, requests, budget)
        )

    def _outcome(self, key: Key, knobs: Knobs, rate_rps: float) -> Outcome:
        """Evaluate a path at its sizes."""
        sizes = (knobs.workers_prefill, knobs.workers_decode) if key[0] == "separated" else (knobs.workers_mixed,)
        at = (key, sizes, rate_rps)
        if at not in self._outcomes:
            path, gauge = self.path(key), Gauge()
            portion = path.requests.portion
            arrivals = rate_rps * portion, split_scv(self.traffic.arrival_scv, portion)
            try:
                figures = _evaluated(path, arrivals, knobs, gauge)
                self._outcomes[at] = tuple(gauge.loads), None, figures
            except Refused as refused:
                self._outcomes[at] = tuple(gauge.loads), refused.refusal, None
        return self._outcomes[at]

    def _floor(self, keys: Iterable[Key]) -> Refusal | None:
        """`ttft_floor`, then `tpot_floor`: what no number of workers can mend."""
        own = [(self.path(key), *self._floors_of(key)) for key in keys]
        firsts = [(k, floor) for path, floors, _ in own for k, floor in zip(path.requests.buckets, floors, strict=True)]
        paces = [(k, pace) for path, _, pace in own for k in path.requests.buckets if k.multi_token_share > 0]
        return self._beyond("ttft", firsts) or self._beyond("tpot", paces)

    def _floors_of(self, key: Key) -> tuple[list[float], float]:
        if key not in self._floors:
            path = self.path(key)
            self._floors[key] = path.floors_s(), path.pace_floor_s
        return self._floors[key]

    def _beyond(self, name: str, floors: Iterable[tuple[Moments, float]]) -> Refusal | None:
        """Refuse where a floor exceeds its objective; the first bucket with the largest ratio is named."""
        worst: Refusal | None = None
        largest = 1.0
        for k, floor in floors:
            objective = self.setting.objectives.of(name, k.bucket)
            if objective is not None and floor / objective > largest:
                largest, worst = floor / objective, Refusal(f"{name}_floor", k.bucket, floor, objective)
        return worst


def path_keys(knobs: Knobs) -> tuple[Key, ...]:
    """Return the paths of a scenario, the short one first."""
    separate: Key = ("separated", knobs.threshold_tokens, None)
    mixed: Key = ("mixed", knobs.threshold_tokens, knobs.chunk_tokens)
    if knobs.topology == "routed":
        return mixed, separate
    return (separate,) if knobs.topology == "disaggregated" else (mixed,)


def _evaluated(path: Path, arrivals: tuple[float, float], knobs: Knobs, gauge: Gauge) -> PathFigures:
    if isinstance(path, Separated):
        return path.evaluate(*arrivals, knobs.workers_prefill or 0, knobs.workers_decode or 0, gauge)
    return path.evaluate(*arrivals, knobs.workers_mixed or 0, gauge)


def evaluate(setting: Setting, traffic: Traffic, knobs: Knobs) -> Evaluation:
    """Evaluate one scenario."""
    return Evaluator(setting, traffic).evaluate(knobs)
