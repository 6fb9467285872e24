"""Plans of two mixed receipts: searched, evaluated, judged, decided, each mix once (docs/receipts.md, Comparing two receipts)."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import polars as pl
from pandera.config import config_context

from pipelines.comparing.mixes import Mix, Parts, Sides, UnplannableError
from pipelines.frames.canonical import digest
from pipelines.frames.changes import WorkerLessRows
from pipelines.frames.metrics import CRITICAL_POOLS
from pipelines.gates.decision import decide
from pipelines.gates.judge import bucket_requests, judge
from pipelines.gates.rules import part_weights, resolved
from pipelines.planning.acceptance import judge_decision, objections
from pipelines.planning.changes import workers_less
from pipelines.planning.search import Asked, kept_scenarios
from pipelines.planning.speaking import Decided
from pipelines.receipts.headlines import outcome
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.matrix import scenario_matrix

Json = dict[str, Any]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Planned:
    """What a plan of one mix found."""

    mix: Mix
    searched: int
    matrix: pl.DataFrame  # ScenarioMatrix
    verdicts: pl.DataFrame  # Verdicts
    decision: pl.DataFrame  # Decision
    acceptance: pl.DataFrame  # Acceptance
    objections: tuple[Json, ...]

    @property
    def decided(self) -> Json:
        """Outcome, topology, scenario, and whether it is accepted."""
        return outcome(self.decision) | {"accepted": not self.objections, "objections": list(self.objections)}


@dataclass
class Planner:
    """Plans mixes of two receipts; what two of them have in common is computed once."""

    sides: Sides
    _plans: dict[Parts, Planned | UnplannableError] = field(default_factory=dict)
    _matrices: dict[object, pl.DataFrame] = field(default_factory=dict)
    _judged: dict[object, tuple[int, pl.DataFrame, pl.DataFrame, pl.DataFrame]] = field(default_factory=dict)

    def knows(self, parts: Parts) -> bool:
        """Whether a plan of this mix was made already."""
        return parts in self._plans

    def plan(self, parts: Parts) -> Planned:
        """The plan with ``parts`` as NEW has them. UnplannableError where there is none."""
        if parts not in self._plans:
            self._plans[parts] = self._attempt(parts)
        found = self._plans[parts]
        if isinstance(found, UnplannableError):
            raise found
        return found

    def _attempt(self, parts: Parts) -> Planned | UnplannableError:
        try:
            # a half of the time would go into checks of frames that the same code made of checked ones
            with config_context(validation_enabled=False):
                return self._planned(self.sides.mix(parts))
        except UnplannableError as error:
            return error
        except Exception as error:  # a mix is nobody's cohort: whatever it breaks is a reason why it cannot be planned
            return UnplannableError(_said(error))

    def _planned(self, mix: Mix) -> Planned:
        gates, exceptions = mix.rules.gates, mix.rules.exceptions
        searched, matrix, verdicts, decision = _once(
            self._judged, (mix.numbers, mix.new_requests, mix.new_rules), lambda: self._judge(mix)
        )
        less = _workers_less(mix, matrix, decision)
        acceptance = judge_decision(gates, mix.rules.rule_set, mix.inputs, decision, mix.frozen, less)
        against = objections(decision, acceptance, exceptions)
        return Planned(mix, searched, matrix, verdicts, decision, acceptance, tuple(against))

    def _judge(self, mix: Mix) -> tuple[int, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        gates, preference = mix.rules.gates, mix.rules.preference
        kept = kept_scenarios(Asked(mix.inputs, mix.workload, gates, preference))
        weights = part_weights(preference)
        key = (mix.numbers, mix.new_requests, tuple(kept["scenario"]), tuple(sorted(weights.items())))
        matrix = _once(self._matrices, key, lambda: evaluated(mix, kept, weights))
        verdicts = judge(matrix, gates, mix.inputs, bucket_requests(mix.workload.buckets))
        return kept["searched"][0], matrix, verdicts, decide(matrix, verdicts, preference, mix.inputs, gates)


def evaluated(mix: Mix, scenarios: pl.DataFrame, weights: Mapping[str, float]) -> pl.DataFrame:
    """The scenario matrix of these scenarios; those of topologies that have none are left out."""
    names = scenarios["topology"].unique(maintain_order=True)
    mark = digest([list(row) for row in mix.numbers])
    frames = [evaluate(name, mark, scenarios, mix.inputs, mix.workload) for name in names]
    return scenario_matrix(frames, mix.inputs, weights)


def _workers_less(mix: Mix, matrix: pl.DataFrame, decision: pl.DataFrame) -> pl.DataFrame:
    """The chosen scenario with one worker less in each pool, where a gate on the decision asks for it."""
    rows: list[Json] = []
    asked = resolved(mix.rules.gates, mix.inputs).filter((pl.col("metric") == CRITICAL_POOLS) & pl.col("applies"))
    if not asked.is_empty():
        of = Decided(
            mix.inputs,
            mix.workload,
            mix.rules.gates,
            decision,
            matrix,
            mix.rules.preference,
            mix.frozen["provenance"],
        )
        for row in decision.filter(pl.col("standing") == "chosen").iter_rows(named=True):
            rows += [{"topology": row["topology"]} | asdict(one) for one in workers_less(of.speaking(row))]
    schema = {name: column.dtype.type for name, column in WorkerLessRows.to_schema().columns.items()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _once(known: dict[object, Value], key: object, find: Callable[[], Value]) -> Value:
    if key not in known:
        known[key] = find()
    return known[key]


def _said(error: Exception) -> str:
    """What went wrong, on one line."""
    if isinstance(error, KeyError):
        return f"{error.args[0] if error.args else 'an input'} is not declared"
    text = " ".join(str(error).split())
    return f"it cannot be evaluated ({text})" if text else "it cannot be evaluated"
