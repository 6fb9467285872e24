"""Tests of gates, run: each gate is judged by the code that judges plans (docs/rules.md, Tests of rules)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from pipelines.declarations.rule_tests_placed import Figures, RuleTest, WrittenScenario
from pipelines.declarations.typed import Rules
from pipelines.frames.digits import significant
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import ScenarioMatrix
from pipelines.frames.metrics import BY_BUCKET, METRICS, OF_SCENARIOS, REPLAYED
from pipelines.gates.aggregates import BucketRequests
from pipelines.gates.judge import judge
from pipelines.gates.rules import concerns, gates_frame, resolved
from pipelines.gates.wording import worded
from pipelines.planning.acceptance import Reliance, decision_figure, judged
from pipelines.topologies.matrix import LATENCIES

NO_COHORT = ""
"""The name of a cohort that no rule names."""
NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True)
class Found:
    """What a gate said: verdict (``waived`` where an exception holds and it does not pass), margin, and the words for it.

    Where the gate does not apply, ``message`` says why.
    """

    verdict: str
    margin: float | None
    message: str


@dataclass(frozen=True)
class Outcome:
    """A test, what was found, and which of ``verdict``, ``margin`` and ``message`` are not as expected."""

    test: RuleTest
    found: Found
    wrong: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether all is as expected."""
        return not self.wrong


def run(tests: Iterable[RuleTest], rules: Rules) -> list[Outcome]:
    """Every test with what was found, in their order. Tests that differ in figures and topology alone are judged at once."""
    every = list(tests)
    frames = {day: _gates(rules, test) for day, test in {_day(one): one for one in every}.items()}
    alike: dict[Any, list[int]] = defaultdict(list)
    for place, test in enumerate(every):
        alike[_asked(test)].append(place)
    found: dict[int, Found] = {}
    for places in alike.values():
        own = [every[place] for place in places]
        gates = frames[_day(own[0])].filter(pl.col("gate") == own[0].gate)
        found |= zip(places, _found(own, gates), strict=True)
    return [_outcome(test, found[place]) for place, test in enumerate(every)]


def _day(test: RuleTest) -> tuple[str | None, date | None]:
    """What exceptions depend on."""
    return test.cohort, test.as_of


def _asked(test: RuleTest) -> tuple[Any, ...]:
    """What a gate is judged by, beside the figures of a scenario."""
    buckets = () if test.scenario is None else tuple(test.scenario.buckets.items())
    return test.gate, _day(test), tuple(sorted(test.objectives.items())), buckets


def _gates(rules: Rules, test: RuleTest) -> pl.DataFrame:
    """The gates as they stand for the cohort of ``test`` on its day; without a day, no exception holds."""
    holding = rules if test.as_of is not None else replace(rules, exceptions=())
    return gates_frame(holding, test.cohort or NO_COHORT, test.as_of)


def _outcome(test: RuleTest, found: Found) -> Outcome:
    expected = test.expect
    same = {
        "verdict": expected.verdict == found.verdict,
        "margin": "margin" not in expected.at or _rounded(expected.margin) == found.margin,
        "message": expected.message is None or expected.message == found.message,
    }
    return Outcome(test, found, tuple(key for key, equal in same.items() if not equal))


def _found(tests: Sequence[RuleTest], gates: pl.DataFrame) -> list[Found]:
    """What the one gate in ``gates`` says of ``tests``, which have the same objectives and buckets."""
    inputs = InputTable({f"objectives.{name}": {"value": value} for name, value in tests[0].objectives.items()})
    gate = resolved(gates, inputs).row(0, named=True)
    why = [_not_applicable(test, gate) for test in tests]
    judged_here = [place for place, reason in enumerate(why) if reason is None]
    scenarios = {place: one for place in judged_here if (one := tests[place].scenario) is not None}
    verdicts = {place: _verdict_on_decision(tests[place], gate) for place in judged_here if place not in scenarios}
    if scenarios:
        rows = judge(_matrix(scenarios), gates, inputs, _bucket_requests(next(iter(scenarios.values()))))
        verdicts |= {row["place"]: row for row in rows.iter_rows(named=True)}
    return [
        _said(verdicts[place], gate) if reason is None else Found(NOT_APPLICABLE, None, reason)
        for place, reason in enumerate(why)
    ]


def _said(verdict: dict[str, Any], gate: Mapping[str, Any]) -> Found:
    waived = verdict["waived"] and verdict["verdict"] != "pass"
    return Found("waived" if waived else verdict["verdict"], verdict["margin"], worded(verdict, gate))


def _not_applicable(test: RuleTest, gate: Mapping[str, Any]) -> str | None:
    """Why the resolved ``gate`` does not apply to what is tested; None where it does."""
    if not gate["here"]:
        return f"a gate of {', '.join(gate['cohorts'].split())} only"
    if not gate["applies"]:
        needs = [gate[key] for key in ("objective", "within_objective") if gate[key] is not None]
        lacks = " and ".join(name for name in dict.fromkeys(needs) if name not in test.objectives)
        return f"the cohort does not declare objectives.{lacks}"
    if test.scenario is not None and not concerns(gate, test.scenario.topology):
        return f"a gate on {', '.join(gate['topologies'].split())} only"
    return None


def _verdict_on_decision(test: RuleTest, gate: Mapping[str, Any]) -> dict[str, Any]:
    """What the resolved ``gate`` on the decision says of the inputs of ``test``, as in an Acceptance frame."""
    relied = [Reliance(one.path, one.observed, one.source) for one in test.inputs]
    found = decision_figure(gate["metric"], gate["inputs"], relied, test.as_of)
    verdict = judged(found.figure, gate["op"], gate["limit"])
    return (
        {name: gate[name] for name in ("gate", "metric", "unit", "op", "limit")}
        | {"figure": found.figure, "inputs": " ".join(found.inputs), **verdict}
        | {"waived": gate["blocking"] and bool(gate["waived"])}
    )


def _bucket_requests(scenario: WrittenScenario) -> BucketRequests:
    requests = np.array(list(scenario.buckets.values()), dtype=np.float64)
    return BucketRequests(list(scenario.buckets), requests)


def _matrix(scenarios: Mapping[int, WrittenScenario]) -> pl.DataFrame:
    """The columns of a scenario matrix: scenarios by place, a row for each bound that is written down; the rest is absent."""
    schema: dict[str, Any] = {name: column.dtype.type for name, column in ScenarioMatrix.to_schema().columns.items()}
    schema |= {METRICS[name].column: pl.List(pl.Float64) for name in BY_BUCKET}
    schema |= {METRICS[name].column: pl.Float64 for name in REPLAYED}
    rows = [
        {"scenario": scenario.topology, "topology": scenario.topology, "place": place, "bound": bound}
        | _row(figures, list(scenario.buckets))
        for place, scenario in scenarios.items()
        for bound, figures in scenario.bounds.items()
    ]
    return pl.DataFrame(rows, schema=schema)


def _row(figures: Figures, labels: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"status": "evaluated" if figures.refused is None else "refused"}
    for name in OF_SCENARIOS:
        row[METRICS[name].column] = _rounded(figures.of_scenario.get(name))
    for name in BY_BUCKET:
        values = figures.by_bucket.get(name)
        row[METRICS[name].column] = None if values is None else [_rounded(values[label]) for label in labels]
    return row | {f"{name}_judged_s": row[METRICS[f"{name}_worst"].column] for name in LATENCIES}


def _rounded(figure: float | None) -> float | None:
    """A figure with the digits that are exported, judged and compared."""
    return None if figure is None else significant(figure)
