"""What must hold for each gate, and between gates."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pipelines.declarations.compared import SEPARATED
from pipelines.declarations.documents import Document, Mark, texts
from pipelines.declarations.problems import Problem, Where, did_you_mean, plain, show
from pipelines.declarations.quantities import OBJECTIVE_UNITS
from pipelines.declarations.typed import TOPOLOGIES, Gate
from pipelines.declarations.units import Domain, DomainError, QuantityError, exact, within
from pipelines.frames.metrics import METRICS, Metric

_DOMAINS: dict[str, Domain] = {"s": "positive", "ratio": "fraction", "count": "not_negative"}
_NOUNS = {"s": "a time", "ratio": "a ratio", "count": "a count"}
_UPPER, _LOWER = ("lte", "lt"), ("gte", "gt")


@dataclass(frozen=True)
class PlacedGate:
    """A gate as it stands in its document, whether or not it is well formed."""

    document: Document
    where: Where

    def get(self, key: str) -> object:
        """The value of ``key`` in the gate."""
        return self.document.get((*self.where, *key.split(".")))

    def has(self, key: str) -> bool:
        """Whether the gate writes ``key``."""
        return self.document.has((*self.where, *key.split(".")))

    def problem(self, key: str, message: str, hint: str | None = None) -> Problem:
        """A problem at ``key`` of the gate."""
        return self.document.problem((*self.where, *key.split(".")), message, hint)

    @property
    def place(self) -> str:
        """``file:line:col`` of the gate."""
        mark: Mark = self.document.mark(self.where)
        return f"{self.document.file}:{mark.line}:{mark.column}"

    @property
    def metric(self) -> Metric | None:
        """The judged metric, if it is known."""
        name = self.get("metric")
        return METRICS.get(name) if isinstance(name, str) else None

    @property
    def topologies(self) -> tuple[str, ...]:
        """The known topologies that the gate concerns; all where it does not say."""
        if not self.has("where"):
            return TOPOLOGIES
        named = texts(self.get("where.topology"))
        return tuple(name for name in TOPOLOGIES if name in named)

    def limit(self) -> Fraction | None:
        """The limit as an exact figure in the metric's unit; None for an objective or where it cannot be read.

        Raises :class:`QuantityError` for a figure that is not one of the metric's unit.
        """
        raw, metric = self.get("limit"), self.metric
        if metric is None or raw is None or isinstance(raw, dict | list):
            return None
        written = self.document.text((*self.where, "limit"))
        figure = exact(raw, metric.unit, written)
        within(figure, _DOMAINS[metric.unit], metric.unit, written)
        return figure

    def typed(self) -> Gate:
        """The gate as a typed object, once nothing is wrong with it."""
        limit, objective, rationale = self.limit(), self.get("limit.objective"), self.get("rationale")
        return Gate(
            id=str(self.get("id")),
            file=Path(self.document.file).name,
            kind=str(self.document.get("kind")),
            metric=str(self.get("metric")),
            topologies=self.topologies,
            bound=str(self.get("bound")),
            op=str(self.get("op")),
            limit=None if limit is None else float(limit),
            objective=None if objective is None else str(objective),
            severity=str(self.get("severity")),
            blocking=self.get("blocking") is True,
            owner=str(self.document.get("metadata.owner")),
            rationale=None if rationale is None else str(rationale),
        )


def placed_gates(document: Document) -> Iterator[PlacedGate]:
    """The gates of a document that are mappings at all."""
    listed = document.get("gates")
    if isinstance(listed, list):
        yield from (PlacedGate(document, ("gates", i)) for i, gate in enumerate(listed) if isinstance(gate, dict))


def gate_problems(gate: PlacedGate) -> Iterator[Problem]:
    """What is wrong with the meaning of one gate."""
    name, metric = gate.get("metric"), gate.metric
    if isinstance(name, str) and metric is None:
        message = f"unknown metric {show(name)}; expected {', '.join(METRICS)}"
        yield gate.problem("metric", message, did_you_mean(name, list(METRICS)))
    if metric is not None:
        yield from _limit(gate, metric)
        yield from _reach(gate, metric)
    if gate.get("severity") == "warn" and gate.get("blocking") is True:
        message = "severity: warn on a gate with blocking: true, which would not stop anything; expected error"
        yield gate.problem("severity", message, "severity: error, or blocking: false")


def _limit(gate: PlacedGate, metric: Metric) -> Iterator[Problem]:
    objective = gate.get("limit.objective")
    if isinstance(objective, str):
        unit = OBJECTIVE_UNITS.get(objective)
        if unit is not None and unit != metric.unit:
            same = [word for word, other in OBJECTIVE_UNITS.items() if other == metric.unit]
            found = f"objective {objective} is {_NOUNS[unit]}, metric {metric.name} is {_NOUNS[metric.unit]}"
            expected = f"{', '.join(same)}, or a figure" if same else "a figure"
            yield gate.problem("limit.objective", f"{found}; expected {expected}")
        return
    try:
        gate.limit()
    except DomainError as error:
        yield gate.problem("limit", error.message, error.hint)
    except QuantityError as error:
        yield gate.problem("limit", error.message, error.hint or f"{metric.name} is {_NOUNS[metric.unit]}")


def _reach(gate: PlacedGate, metric: Metric) -> Iterator[Problem]:
    """A figure of the transfer exists only where something is transferred; elsewhere its gate is refused for ever."""
    if not metric.name.startswith("transfer_") or not gate.topologies:
        return
    at = "where.topology" if gate.has("where.topology") else "metric"
    others = [name for name in gate.topologies if name not in SEPARATED]
    nowhere = f"{metric.name} does not exist for {' or '.join(others)}"
    expected = f"expected where: {{topology: [{', '.join(SEPARATED)}]}}, or one of them"
    if len(others) == len(gate.topologies):
        yield gate.problem(at, f"{nowhere}, so the gate judges nothing; {expected}")
    elif others:
        yield gate.problem(at, f"{nowhere}, so the gate would refuse them all; {expected}")


def gates_together(gates: list[PlacedGate]) -> Iterator[tuple[PlacedGate, Problem]]:
    """What is wrong between gates, each with the later gate: one name twice, or limits that no figure meets."""
    first: dict[str, PlacedGate] = {}
    for gate in gates:
        name = gate.get("id")
        if isinstance(name, str) and first.setdefault(name, gate) is not gate:
            message = f"{plain(name)} is already the gate at {first[name].place}; expected a name of its own"
            yield gate, gate.problem("id", message)
    for one, other in itertools.combinations(gates, 2):
        if _contradict(one, other):
            message = (
                f"{_said(other)} cannot hold together with {_said(one)} of gate {plain(one.get('id'))} at {one.place}; "
                "expected limits that some figure meets"
            )
            yield other, other.problem("limit", message)


def _contradict(one: PlacedGate, other: PlacedGate) -> bool:
    same = all(one.get(key) == other.get(key) and one.has(key) for key in ("metric", "bound"))
    if not same or not set(one.topologies) & set(other.topologies):
        return False
    upper, lower = (one, other) if one.get("op") in _UPPER else (other, one)
    if upper.get("op") not in _UPPER or lower.get("op") not in _LOWER:
        return False
    try:
        highest, lowest = upper.limit(), lower.limit()
    except QuantityError:
        return False
    if highest is None or lowest is None:
        return False
    strict = upper.get("op") == "lt" or lower.get("op") == "gt"
    return lowest > highest or (lowest == highest and strict)


def _said(gate: PlacedGate) -> str:
    return f"{gate.get('metric')} {gate.get('op')} {gate.document.text((*gate.where, 'limit'))}"
