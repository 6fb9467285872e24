"""Exceptions: gates that are waived, for whom, why, and until when."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pipelines.declarations.documents import Document, texts
from pipelines.declarations.gates import PlacedGate
from pipelines.declarations.problems import Problem, Where, did_you_mean, plain, show
from pipelines.declarations.typed import Waiver


@dataclass(frozen=True)
class PlacedWaiver:
    """An exception as it stands in its document, whether or not it is well formed."""

    document: Document
    where: Where

    def get(self, key: str) -> object:
        """The value of ``key``."""
        return self.document.get((*self.where, *key.split(".")))

    def problem(self, key: str, message: str, hint: str | None = None) -> Problem:
        """A problem at ``key``."""
        return self.document.problem((*self.where, *key.split(".")), message, hint)

    def words(self, key: str) -> tuple[str, ...] | None:
        """The list of ``where``; None where it does not say."""
        written = self.document.has((*self.where, "where", key))
        return tuple(texts(self.get(f"where.{key}"))) if written else None

    def typed(self, gate: PlacedGate) -> Waiver:
        """The exception of ``gate`` as a typed object, once nothing is wrong with it."""
        topologies = self.words("topology")
        return Waiver(
            gate=str(self.get("gate")),
            file=Path(self.document.file).name,
            topologies=tuple(name for name in gate.topologies if topologies is None or name in topologies),
            cohorts=self.words("cohort"),
            reason=str(self.get("reason")),
            owner=str(self.get("owner")),
            expires=date.fromisoformat(str(self.get("expires"))),
        )


def placed_waivers(document: Document) -> Iterator[PlacedWaiver]:
    """The exceptions of a document that are mappings at all."""
    listed = document.get("exceptions")
    if isinstance(listed, list):
        yield from (PlacedWaiver(document, ("exceptions", i)) for i, one in enumerate(listed) if isinstance(one, dict))


def waiver_problems(waiver: PlacedWaiver, gates: Sequence[PlacedGate]) -> Iterator[Problem]:
    """What is wrong with the meaning of one exception, among all ``gates`` that there are."""
    expires = waiver.get("expires")
    if isinstance(expires, str) and _date(expires) is None and len(expires) == len("2026-12-31"):
        yield waiver.problem(
            "expires", f"{show(expires)} is not a day of the calendar; expected a date such as 2026-12-31"
        )
    name = waiver.get("gate")
    if not isinstance(name, str):
        return
    of_name = [gate for gate in gates if gate.get("id") == name]
    if not of_name:
        known = [str(gate.get("id")) for gate in gates if isinstance(gate.get("id"), str)]
        yield waiver.problem(
            "gate", f"no gate is called {plain(name)}; expected {', '.join(known)}", did_you_mean(name, known)
        )
        return
    gate = of_name[-1]
    if gate.get("blocking") is False:
        yield waiver.problem(
            "gate",
            f"{plain(name)} at {gate.place} does not block, so there is nothing to waive; expected a gate with blocking: true",
        )
    yield from _nowhere(waiver, gate, name)


def _nowhere(waiver: PlacedWaiver, gate: PlacedGate, name: str) -> Iterator[Problem]:
    topologies, cohorts = waiver.words("topology"), waiver.words("cohort")
    if topologies and gate.on_decision:
        yield waiver.problem("where.topology", f"{plain(name)} is a gate on the decision; expected no topologies")
    elif topologies and not set(topologies) & set(gate.topologies):
        message = f"{plain(name)} at {gate.place} does not concern {' or '.join(map(plain, topologies))}"
        yield waiver.problem("where.topology", f"{message}; expected {', '.join(gate.topologies)}")
    of_gate = gate.words("cohort")
    if cohorts and of_gate and not set(cohorts) & set(of_gate):
        message = f"{plain(name)} at {gate.place} does not concern {' or '.join(map(plain, cohorts))}"
        yield waiver.problem("where.cohort", f"{message}; expected {', '.join(of_gate)}")


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
