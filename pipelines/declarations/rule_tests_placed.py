"""Tests of gates: as they stand in a file of ``kind: RuleTest``, and as typed objects (docs/rules.md, Tests of rules)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from pipelines.declarations.documents import Document, Mark, optional_text, whole
from pipelines.declarations.problems import Problem, Where
from pipelines.declarations.quantities import OBJECTIVE_UNITS, QUANTITIES, Quantity
from pipelines.declarations.typed import Bound
from pipelines.declarations.units import exact, within
from pipelines.frames.metrics import BY_BUCKET, METRICS, OF_SCENARIOS, Metric

BOUNDS: tuple[Bound, ...] = ("nominal", "conservative")
OBJECTIVES: Mapping[str, Quantity] = {
    name: quantity for quantity in QUANTITIES for name in OBJECTIVE_UNITS if quantity.path == f"objectives.{name}"
}
_SHARES = ("goodput", "replayed_goodput", "replayed_goodput_tokens")
_WEIGHTED = "operating_parts"
"""A count that weights make, so that it need not be whole."""


@dataclass(frozen=True)
class Figures:
    """What a scenario has under one bound: figures in SI units, None where one is absent, and why it is refused, if it is."""

    refused: str | None
    of_scenario: Mapping[str, float | None]
    by_bucket: Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class WrittenScenario:
    """The scenario that a gate is tried on; ``buckets`` are in the order of their prompts, with their requests (1 where not said)."""

    topology: str
    bounds: Mapping[Bound, Figures]
    buckets: Mapping[str, int]


@dataclass(frozen=True)
class WrittenInput:
    """An input that the decision rests on."""

    path: str
    observed: bool
    source: str | None


@dataclass(frozen=True)
class Expectation:
    """What a test expects; ``at`` has line and column of everything that it says, ``margin`` and ``message`` only if they are in it."""

    verdict: str
    margin: float | None
    message: str | None
    at: Mapping[str, Mark]


@dataclass(frozen=True)
class RuleTest:
    """One gate, what it is judged on, and what is expected of that. ``scenario`` is None for a gate on the decision."""

    name: str
    gate: str
    file: str
    at: Mark
    cohort: str | None
    as_of: date | None
    objectives: Mapping[str, float]
    scenario: WrittenScenario | None
    inputs: tuple[WrittenInput, ...]
    expect: Expectation

    @property
    def title(self) -> str:
        """How the test is called among all others."""
        return f"{self.gate}: {self.name}"


@dataclass(frozen=True)
class PlacedTest:
    """A test as it stands in its document, whether or not it is well formed."""

    document: Document
    where: Where

    def at(self, key: str | Where) -> Where:
        """Where ``key`` of the test stands."""
        return (*self.where, *(key.split(".") if isinstance(key, str) else key))

    def get(self, key: str | Where) -> object:
        """The value of ``key``."""
        return self.document.get(self.at(key))

    def has(self, key: str | Where) -> bool:
        """Whether the test writes ``key``."""
        return self.document.has(self.at(key))

    def mapping(self, key: str | Where) -> dict[str, object]:
        """The mapping at ``key``; an empty one where there is none."""
        return self.document.mapping(self.at(key))

    def problem(self, key: str | Where, message: str, hint: str | None = None, *, on_key: bool = False) -> Problem:
        """A problem at ``key``."""
        return self.document.problem(self.at(key), message, hint, on="key" if on_key else "value")

    @property
    def place(self) -> str:
        """``file:line:col`` of the test."""
        mark = self.document.mark(self.where)
        return f"{self.document.file}:{mark.line}:{mark.column}"

    @property
    def written(self) -> list[tuple[Bound, str]]:
        """Bound and name of every known figure of the scenario."""
        return [(bound, name) for bound in BOUNDS for name in self.mapping(f"scenario.{bound}") if name in METRICS]

    def figure(self, key: str | Where, metric: Metric) -> Fraction | None:
        """The figure of ``metric`` at ``key``, exactly; None where it is absent, or a list or a mapping.

        Raises :class:`QuantityError` for one that is not of its unit, or that the metric cannot have.
        """
        raw, text = self.get(key), self.document.text(self.at(key))
        if raw is None or isinstance(raw, dict | list):
            return None
        weighted = metric.name == _WEIGHTED and isinstance(raw, float)
        value = exact(raw, "ratio" if weighted else metric.unit, text)  # type: ignore[arg-type]  # days are of decisions
        if metric.name == "gpus":
            within(value, "positive", "count", text)
        elif metric.name in _SHARES or (metric.name == "headroom" and value > 0):
            within(value, "fraction", "ratio", text)
        elif metric.name != "headroom":  # what is left of a ceiling is negative beyond it
            within(value, "not_negative", "ratio", text)
        return value

    def margin(self) -> Fraction | None:
        """The expected margin; None where there is none. Raises :class:`QuantityError` for what is not a ratio."""
        raw = self.get("expect.margin")
        if raw is None or isinstance(raw, dict | list):
            return None
        return exact(raw, "ratio", self.document.text(self.at("expect.margin")))

    def objective(self, name: str) -> Fraction:
        """The objective ``name``; raises :class:`QuantityError` where it is not one."""
        key, quantity = f"objectives.{name}", OBJECTIVES[name]
        text = self.document.text(self.at(key))
        value = exact(self.get(key), quantity.unit, text)
        within(value, quantity.domain, quantity.unit, text)
        return value

    def typed(self) -> RuleTest:
        """The test as a typed object, once nothing is wrong with it."""
        as_of, own = self.get("as_of"), self.document.mapping(self.where)
        return RuleTest(
            name=str(self.get("name")),
            gate=str(self.get("gate")),
            file=self.document.file,
            at=self.document.mark(self.where),
            cohort=optional_text(own, "cohort"),
            as_of=None if as_of is None else date.fromisoformat(str(as_of)),
            objectives={name: float(self.objective(name)) for name in self.mapping("objectives")},
            scenario=self._scenario() if self.has("scenario") else None,
            inputs=tuple(self._inputs()),
            expect=self._expectation(),
        )

    def _scenario(self) -> WrittenScenario:
        bounds = {bound: self._figures(bound) for bound in BOUNDS if self.has(f"scenario.{bound}")}
        requests = {label: whole(count) or 1 for label, count in self.mapping("scenario.requests").items()}
        labels = {label for one in bounds.values() for values in one.by_bucket.values() for label in values}
        ordered = sorted(labels | set(requests), key=bucket_ends)
        return WrittenScenario(
            str(self.get("scenario.topology")), bounds, {label: requests.get(label, 1) for label in ordered}
        )

    def _figures(self, bound: Bound) -> Figures:
        path = f"scenario.{bound}"
        own = self.mapping(path)
        return Figures(
            optional_text(own, "refused"),
            {name: self._number(f"{path}.{name}", name) for name in own if name in OF_SCENARIOS},
            {
                name: {label: self._number(("scenario", bound, name, label), name) for label in own[name]}  # type: ignore[attr-defined]
                for name in own
                if name in BY_BUCKET
            },
        )

    def _number(self, key: str | Where, metric: str) -> float | None:
        """The figure at ``key`` as the nearest double."""
        figure = self.figure(key, METRICS[metric])
        return None if figure is None else float(figure)

    def _inputs(self) -> Iterator[WrittenInput]:
        listed = self.get("inputs")
        for row in listed if isinstance(listed, list) else []:
            yield WrittenInput(str(row["path"]), row["provenance"] == "observed", optional_text(row, "source"))

    def _expectation(self) -> Expectation:
        own, margin = self.mapping("expect"), self.margin()
        return Expectation(
            verdict=str(own["verdict"]),
            margin=None if margin is None else float(margin),
            message=optional_text(own, "message"),
            at={key: self.document.mark(self.at(f"expect.{key}")) for key in own},
        )


def bucket_ends(label: str) -> tuple[int, float]:
    """The first prompt length in a bucket and the first beyond it.

    >>> bucket_ends("[1,1024)"), bucket_ends("[1024,inf)")
    ((1, 1024.0), (1024, inf))
    """
    low, _, high = label.strip("[)").partition(",")
    return int(low), float(high)
