"""Evaluates single scenarios anew: with one input multiplied, or with other pool sizes (docs/arithmetic.md section 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .baselines import limit_baseline
from .enumerating import resized
from .judging import Judged, exact_margin, gates_on, grounds_of, is_replayed, judge, judge_figure
from .loop import solved_rps
from .names import BOUNDS
from .parameters import CONCURRENCY, GPU_MEMORY, KV_TOKENS, RATE, Inputs
from .recomputing import Plan, operating_parts
from .resting import paths_read
from .scenario import Knobs
from .seeing import Evaluated
from .topologies import Evaluator

_COUNTS_THAT_CHANGE = ("service.decode.max_sequences", "separated.decode.max_sequences", CONCURRENCY, KV_TOKENS)
_FROM_ONE = ("model.layout_factor", "network.relayout_factor")
"""Factors that are not changed to below 1."""
_CEILING = ".utilization_ceiling"
_UP_TO_ONE = frozenset(
    (
        "service.prefill.prefix_hit_ratio",
        "inventory.memory_utilization",
        "network.competing_traffic",
        "network.prefix_at_destination",
        "network.overlap",
        "objectives.attainment",
        "objectives.transfer_reserve",
    )
)
"""Ratios that must be below or at 1, beside the ceilings."""


@dataclass(frozen=True)
class Standing:
    """Whether a scenario passes, its margin (none where a gate that blocks is refused), and the verdicts of these gates."""

    passes: bool
    margin: float | None
    judged: tuple[Judged, ...]

    @property
    def failing(self) -> Judged | None:
        """The first gate that blocks, in order, that is not passed."""
        return next((entry for entry in self.judged if entry.verdict != "pass"), None)


class Bench:
    """Evaluates scenarios of one plan under changed inputs."""

    def __init__(self, plan: Plan) -> None:
        """Take the blocking gates, but for those on replayed figures; the exported rates of a closed loop are where the solution begins."""
        self.plan, rules = plan, plan.receipt["rules"]
        self._gates = [gate for gate in rules["gates"] if gate["blocking"] and not is_replayed(gate)]
        self._grounds = grounds_of(plan.receipt, plan.inputs)
        self._weights = rules["decision"]["operating_part_weights"]
        self._rates = {
            (row["scenario"], bound): row["bounds"][bound]["rate_rps"]
            for row in plan.receipt["scenarios"]
            for bound in BOUNDS
        }
        self._changed: dict[tuple[str | None, float], _Anew] = {}

    def blocking(self, topology: str) -> list[Mapping[str, Any]]:
        """Return the gates that block scenarios of a topology."""
        return [gate for gate in gates_on(topology, self._gates) if not self._grounds.waives(gate, topology)]

    def changed_inputs(self, topology: str) -> list[str]:
        """Return the inputs that are changed of a topology, in table order; `requests.rate` also stands for the trace's."""
        inputs, gates = self.plan.inputs, self.blocking(topology)
        open_trace = RATE not in inputs.rows and CONCURRENCY not in inputs.rows
        paths = [path for path in paths_read(inputs, (topology,), gates) if _may_change(inputs.rows[path])]
        return [*([RATE] if open_trace else []), *paths]

    def value(self, path: str) -> float:
        """Return the value of an input as it is."""
        own = self.plan.inputs.nominal(path)
        return float(own if own is not None else self.plan.evaluators["nominal"].traffic.rate_rps)

    def changeable(self, path: str, factor: float) -> bool:
        """Whether an input can be multiplied so far: ratios stay below 1, factors above, and memory is left."""
        row = self.plan.inputs.rows.get(path)
        ends = (
            [row[end] * factor for end in ("value", "low", "high", "conservative") if row[end] is not None]
            if row
            else []
        )
        if factor > 1 and (path in _UP_TO_ONE or path.endswith(_CEILING)) and max(ends) >= 1:
            return False
        if factor < 1 and path in _FROM_ONE and min(ends) < 1:
            return False
        if path not in GPU_MEMORY:
            return True
        inputs = self.plan.inputs.scaled(path, factor)
        return all(inputs.kv_memory_bytes(bound) > 0 for bound in BOUNDS)

    def standing(self, knobs: Knobs, path: str | None = None, factor: float = 1.0) -> Standing:
        """Evaluate and judge a scenario, with one input multiplied."""
        anew = self._changed.setdefault((path, factor), _Anew(self, path, factor))
        gates, examined = self.blocking(knobs.topology), bool(gates_on(knobs.topology, self._gates))
        nominal = anew.at(knobs, "nominal")
        judged = [self._judged(gate, knobs, anew) for gate in gates]
        evaluated = nominal is not None and not nominal.refused
        verdicts = tuple(entry for entry, _ in judged)
        margins = [margin for _, margin in judged if margin is not None]
        refused = any(entry.verdict == "refused" for entry in verdicts)
        return Standing(
            evaluated and examined and all(entry.verdict == "pass" for entry in verdicts),
            None if refused or not margins else min(margins),
            verdicts,
        )

    def exported_rate(self, knobs: Knobs, bound: str) -> float | None:
        """Return the rate that a scenario of the receipt was evaluated at."""
        return self._rates.get((knobs.name, bound))

    def parts_of(self, knobs: Knobs) -> float:
        """Return the weighted number of operating parts of a scenario."""
        return operating_parts(knobs.topology, self._weights)

    def _judged(self, gate: Mapping[str, Any], knobs: Knobs, anew: _Anew) -> tuple[Judged, float | None]:
        """Judge by rounded figures, limits and aggregates; return the margin of unrounded ones."""
        at, gate = anew.at(knobs, gate["bound"]), _restated(gate, anew.inputs)
        if at is None:
            return judge_figure(gate, None, gate["limit"]), None
        grounds = replace(self._grounds, objectives=at.evaluator.setting.objectives)
        others = self.plan.inventory.baseline(limit_baseline(gate) or "", at.gpus)
        baseline = [one for other in others if (one := anew.at(other, gate["bound"])) is not None]
        exact = judge(at.exact, gate, replace(grounds, exact=True), [one.exact for one in baseline])
        shown = judge(at.shown, gate, grounds, [one.shown for one in baseline])
        return shown, exact_margin(exact.figure, gate["op"], exact.limit)

    def one_less(self, knobs: Knobs) -> Sequence[tuple[str, int, Standing]]:
        """Return pool, its workers, and the standing of the scenario with one less in it, for each of its pools in turn."""
        nothing = Standing(False, None, ())
        return [
            (pool, size, self.standing(resized(knobs, pool, size - 1)) if size > 1 else nothing)
            for pool, size in knobs.pools.items()
        ]


class _Anew:
    """Evaluates scenarios of a plan with one input multiplied, or none: each once at each bound."""

    def __init__(self, bench: Bench, path: str | None, factor: float) -> None:
        """Nothing is multiplied yet."""
        self._bench, self._plan, self._as_it_is = bench, bench.plan, path is None
        self._path, self._factor = path, factor
        self._evaluators: dict[str, Evaluator] = {}
        self._found: dict[tuple[str, str], Evaluated | None] = {}

    @cached_property
    def inputs(self) -> Inputs:
        """The inputs, one of them multiplied."""
        return self._plan.inputs if self._path is None else self._plan.inputs.scaled(self._path, self._factor)

    def at(self, knobs: Knobs, bound: str) -> Evaluated | None:
        """Evaluate at one bound; None where nothing of the memory is left."""
        key = (knobs.name, bound)
        if key not in self._found:
            self._found[key] = self._evaluated(knobs, bound)
        return self._found[key]

    def _evaluated(self, knobs: Knobs, bound: str) -> Evaluated | None:
        evaluator = self._evaluator(bound)
        mixed, separated = evaluator.setting.mixed, evaluator.setting.separated
        if min(mixed.kv_memory_bytes, separated.kv_memory_bytes, separated.kv_memory_prefill_bytes) <= 0:
            return None
        rate = evaluator.traffic.rate_rps
        if evaluator.traffic.concurrency is not None:
            known = self._bench.exported_rate(knobs, bound)
            rate = known if known is not None and self._as_it_is else solved_rps(evaluator, knobs, known)
        gpus, parts = self._plan.inventory.gpus_of(knobs), self._bench.parts_of(knobs)
        return Evaluated(evaluator.evaluate(knobs, rate), evaluator, rate, gpus, parts)

    def _evaluator(self, bound: str) -> Evaluator:
        if self._as_it_is:
            return self._plan.evaluators[bound]
        if bound not in self._evaluators:
            traffic = self._plan.cohort.traffic(self.inputs, bound)
            self._evaluators[bound] = Evaluator(self.inputs.setting(bound), traffic)
        return self._evaluators[bound]


def _restated(gate: Mapping[str, Any], inputs: Inputs) -> Mapping[str, Any]:
    """Return a gate whose limit and `within` are the objectives of changed inputs."""
    found = {name: inputs.nominal(gate[f"{name}_source"]) for name in ("limit", "within")}
    return {**gate, **{name: value for name, value in found.items() if value is not None}}


def _may_change(row: Mapping[str, Any]) -> bool:
    """A number that is not 0, and no count but slots and concurrency."""
    counted = row["unit"] == "count" and row["path"] not in _COUNTS_THAT_CHANGE
    return row["unit"] != "text" and not counted and row["value"] != 0


def is_chosen(path: str) -> bool:
    """Whether an input is chosen, not measured: an objective, or the ceiling of a utilization."""
    return path.startswith("objectives.") or path.endswith(_CEILING)
