"""What must hold between gates: names of their own, limits that some figure meets, and what a cohort's rules stand in the place of."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.declarations.documents import Document
from pipelines.declarations.gates import PlacedGate
from pipelines.declarations.problems import Problem, did_you_mean, plain
from pipelines.declarations.units import QuantityError

_UPPER, _LOWER = ("lte", "lt"), ("gte", "gt")
_SAME = ("metric", "bound", "aggregate", "within", "where.bucket", "where.input")
"""What two gates have in common if they judge the same figure."""


def repeated_names(gates: Sequence[PlacedGate]) -> Iterator[tuple[PlacedGate, Problem]]:
    """One name twice among the gates of one directory, each with the later gate."""
    first: dict[str, PlacedGate] = {}
    for gate in gates:
        name = gate.get("id")
        if isinstance(name, str) and first.setdefault(name, gate) is not gate:
            message = f"{plain(name)} is already the gate at {first[name].place}; expected a name of its own"
            yield gate, gate.problem("id", message)


def contradictions(gates: Sequence[PlacedGate]) -> Iterator[tuple[PlacedGate, Problem]]:
    """Limits of two gates that no figure meets, each with the later gate."""
    for one, other in itertools.combinations(gates, 2):
        if _contradict(one, other):
            message = (
                f"{_said(other)} cannot hold together with {_said(one)} of gate {plain(one.get('id'))} at {one.place}; "
                "expected limits that some figure meets"
            )
            yield other, other.problem("limit", message)


def _contradict(one: PlacedGate, other: PlacedGate) -> bool:
    same = all(one.get(key) == other.get(key) for key in _SAME) and one.has("metric")
    if not same or one.on_decision != other.on_decision or not _meet(one, other):
        return False
    upper, lower = (one, other) if one.get("op") in _UPPER else (other, one)
    if upper.get("op") not in _UPPER or lower.get("op") not in _LOWER:
        return False
    try:
        limits = upper.limit(), lower.limit()
    except QuantityError:
        return False
    if limits[0] is None or limits[1] is None:
        return False
    highest, lowest = float(limits[0]), float(limits[1])  # 0.9 and 90 % are one limit
    strict = upper.get("op") == "lt" or lower.get("op") == "gt"
    return lowest > highest or (lowest == highest and strict)


def _meet(one: PlacedGate, other: PlacedGate) -> bool:
    """Whether both judge some scenario."""
    cohorts = one.words("cohort"), other.words("cohort")
    apart = cohorts[0] is not None and cohorts[1] is not None and not set(cohorts[0]) & set(cohorts[1])
    return not apart and bool(set(one.topologies) & set(other.topologies))


def _said(gate: PlacedGate) -> str:
    return f"{gate.get('metric')} {gate.get('op')} {gate.document.text((*gate.where, 'limit'))}"


def override_problems(gates: Sequence[PlacedGate], base: Sequence[PlacedGate]) -> Iterator[tuple[PlacedGate, Problem]]:
    """What a cohort's gates say of those in whose place they stand, against the gates of the rules directory."""
    known = {str(gate.get("id")): gate for gate in base}
    for gate in gates:
        name, over = gate.get("id"), gate.get("overrides")
        if not isinstance(name, str):
            continue
        other = known.get(name)
        if other is None and isinstance(over, str):
            message = f"no gate of the rules directory is called {plain(name)}; expected the id of one, or no overrides"
            yield gate, gate.problem("overrides", message, did_you_mean(name, list(known)))
        elif other is not None and not isinstance(over, str):
            file = Path(other.document.file).name
            message = f"{plain(name)} is already the gate at {other.place}; expected a name of its own"
            yield gate, gate.problem("id", message, f"overrides: {file} to stand in its place")
        elif other is not None and over != Path(other.document.file).name:
            message = f"{plain(name)} is the gate at {other.place}; expected {Path(other.document.file).name}"
            yield gate, gate.problem("overrides", message)


def overrides_nothing(gates: Sequence[PlacedGate], decisions: Sequence[Document]) -> Iterator[tuple[Document, Problem]]:
    """``overrides`` in the rules directory itself."""
    message = "only the rules of a cohort stand in the place of others; expected nothing here"
    for gate in gates:
        if gate.has("overrides"):
            yield gate.document, gate.problem("overrides", message)
    for document in decisions:
        if document.has("overrides"):
            yield document, document.problem("overrides", message)
