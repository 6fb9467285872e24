"""Spares the verifier to evaluate again what it evaluated for another receipt with the same inputs and requests.

Evaluations are functions of inputs and requests, so that a receipt that was changed elsewhere has the same. What is
compared with them is untouched: every receipt is still compared as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from pipelines.oracle import changes, derived, replayed, verifying
from pipelines.oracle.canonical import sha256_of
from pipelines.oracle.changing import Bench
from pipelines.oracle.parameters import Inputs
from pipelines.oracle.recomputing import Plan, plan_of
from pipelines.oracle.replaying_scenarios import Replayer, Service
from pipelines.oracle.requests_file import Row

KEPT = 6
"""So many questions are remembered: those asked last."""


class Remembering:
    """Evaluators, and scenarios under changed inputs, by what they are made of."""

    def __init__(self) -> None:
        self._evaluators: list[tuple[Any, Any]] = []
        self._changed: list[tuple[Any, Any]] = []
        self._digests: list[tuple[Any, Any]] = []
        self._replayers: list[tuple[Any, Any]] = []

    def plan_of(self, receipt: Mapping[str, Any], inputs: Inputs) -> Plan:
        """A plan with the evaluators of an equal question."""
        plan = plan_of(receipt, inputs)
        plan.__dict__["evaluators"] = _recalled(
            self._evaluators, (receipt["inputs"], receipt["workload"]), lambda: plan.evaluators
        )
        return plan

    def bench(self, plan: Plan) -> Bench:
        """A bench with what another has evaluated of an equal question, at equal rates."""
        bench, receipt = Bench(plan), plan.receipt
        made_of = (receipt["inputs"], receipt["workload"], bench._rates, bench._weights)
        bench._changed = _recalled(self._changed, made_of, lambda: bench._changed)
        return bench

    def replayer(self, rows: Sequence[Row], service: Service, ticks_per_s: int) -> Any:
        """A replayer that has replayed what another has of equal requests."""
        made_of = (rows, service, ticks_per_s)
        return _recalled(self._replayers, made_of, lambda: Replayer(*made_of))

    def sha256_of(self, value: Mapping[str, Any]) -> str:
        """A digest of what is made of the same objects, not only of equal ones: 1 and 1.0 are, but are written differently."""
        own = _Same(value)
        return str(_recalled(self._digests, own, lambda: sha256_of(value)))


class _Same:
    """Equal to what has the same objects as members."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._members = dict(value)

    def __eq__(self, other: object) -> bool:
        own = self._members
        if not isinstance(other, _Same) or own.keys() != other._members.keys():
            return False
        return all(own[name] is other._members[name] for name in own)

    __hash__ = None  # type: ignore[assignment]


def _recalled(kept: list[tuple[Any, Any]], made_of: Any, make: Any) -> Any:
    """What was made of an equal thing, or is made now."""
    for place, (known, value) in enumerate(kept):
        if known == made_of:
            kept.insert(0, kept.pop(place))
            return value
    kept.insert(0, (made_of, make()))
    del kept[KEPT:]
    return kept[0][1]


@contextmanager
def remembered() -> Iterator[None]:
    """Let the verifier evaluate the same inputs and requests once, however many receipts are made of them."""
    memory = Remembering()
    with (
        patch.object(verifying, "plan_of", memory.plan_of),
        patch.object(changes, "Bench", memory.bench),
        patch.object(derived, "sha256_of", memory.sha256_of),
        patch.object(replayed, "Replayer", memory.replayer),
    ):
        yield
