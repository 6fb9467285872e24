"""What must hold for each gate as it stands in its file."""

import fnmatch
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pipelines.declarations.compared import SEPARATED
from pipelines.declarations.documents import Document, Mark, optional_text, texts
from pipelines.declarations.problems import Problem, Where, did_you_mean, show
from pipelines.declarations.quantities import OBJECTIVE_UNITS, QUANTITIES
from pipelines.declarations.typed import DECISION_KINDS, TOPOLOGIES, Gate
from pipelines.declarations.units import Domain, DomainError, QuantityError, exact, within
from pipelines.frames.metrics import (
    BY_BUCKET,
    BY_CLOSED_FORMS,
    CRITICAL_POOLS,
    METRICS,
    OF_DECISIONS,
    OF_SCENARIOS,
    Metric,
)

_DOMAINS: dict[str, Domain] = {"s": "positive", "ratio": "fraction", "count": "not_negative", "days": "not_negative"}
_NOUNS = {"s": "a time", "ratio": "a ratio", "count": "a count", "days": "a number of days"}
_DAYS = re.compile(r"\s*([0-9]{1,6})\s*(?:d|days?)\s*")
_FIELDS = ("scenario", "topology", "gate", "metric", "bound", "figure", "limit", "margin", "owner")
_FIELDS_OF_DECISIONS = ("gate", "metric", "figure", "limit", "margin", "owner")
SHARE = "share"
BUCKET_WORDS = ("shortest", "longest")


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
    def on_decision(self) -> bool:
        """Whether it is a gate over a figure of the decision, not of a scenario."""
        if self.metric is not None:
            return self.metric.scope == "decision"
        return self.document.get("kind") in DECISION_KINDS

    @property
    def metric(self) -> Metric | None:
        """The judged metric, if it is known."""
        name = self.get("metric")
        return METRICS.get(name) if isinstance(name, str) else None

    @property
    def unit(self) -> str | None:
        """The unit of the judged figure: a share has none."""
        return "ratio" if self.get("aggregate") == SHARE else self.metric.unit if self.metric else None

    @property
    def topologies(self) -> tuple[str, ...]:
        """The known topologies that the gate concerns; all where it does not say, none of the decision."""
        if self.on_decision:
            return ()
        if not self.has("where.topology"):
            return TOPOLOGIES
        named = texts(self.get("where.topology"))
        return tuple(name for name in TOPOLOGIES if name in named)

    def words(self, key: str) -> tuple[str, ...] | None:
        """The list of ``where``; None where it does not say."""
        return tuple(texts(self.get(f"where.{key}"))) if self.has(f"where.{key}") else None

    def figure(self, key: str, unit: str | None) -> Fraction | None:
        """What is written at ``key`` as an exact figure in ``unit``; None where it is a mapping or there is none.

        Raises :class:`QuantityError` for a figure that is not one of that unit.
        """
        raw = self.get(key)
        if unit is None or raw is None or isinstance(raw, dict | list):
            return None
        written = self.document.text((*self.where, key))
        days = _DAYS.fullmatch(raw) if unit == "days" and isinstance(raw, str) else None
        if unit == "days" and days is None and not (type(raw) is int or (type(raw) is float and raw.is_integer())):
            raise QuantityError(f"{show(raw)} is not a number of days; expected a whole one, as in 90 days")
        figure = exact(int(days[1]) if days else raw, "count" if unit == "days" else unit, written)  # type: ignore[arg-type]
        within(figure, _DOMAINS[unit], "count" if unit == "days" else unit, written)  # type: ignore[arg-type]
        return figure

    def limit(self) -> Fraction | None:
        """The limit as an exact figure in the unit of what is judged; None where it is an objective or a metric."""
        return self.figure("limit", self.unit)

    @property
    def summary(self) -> str:
        """What it asks for, in short: op, limit, bound, and whether it blocks."""
        written = self.document.text((*self.where, "limit"))
        if not written:
            written = " ".join(f"{key} {value}" for key, value in self.document.mapping((*self.where, "limit")).items())
        said = [
            f"{self.get('op')} {written}",
            str(self.get("bound") or ""),
            "blocks" if self.get("blocking") else "informs",
        ]
        return ", ".join(word for word in said if word)

    def typed(self, instead_of: str | None = None) -> Gate:
        """The gate as a typed object, once nothing is wrong with it; ``instead_of`` is the summary of what it overrides."""
        fields = self.document.mapping(self.where)
        limit, allowed, times = self.limit(), self.figure("within", "s"), self.get("limit.times")
        return Gate(
            id=str(self.get("id")),
            file=Path(self.document.file).name,
            overrides=optional_text(fields, "overrides"),
            instead_of=None if instead_of is None else f"{self.summary}; there {instead_of}",
            kind=str(self.document.get("kind")),
            scope="decision" if self.on_decision else "scenario",
            metric=str(self.get("metric")),
            topologies=self.topologies,
            buckets=self.words("bucket"),
            aggregate=optional_text(fields, "aggregate"),
            within=None if allowed is None else float(allowed),
            within_objective=optional_text(self.document.mapping((*self.where, "within")), "objective"),
            inputs=self.words("input"),
            cohorts=self.words("cohort"),
            bound=optional_text(fields, "bound"),
            op=str(self.get("op")),
            limit=None if limit is None else float(limit),
            objective=optional_text(self.document.mapping((*self.where, "limit")), "objective"),
            limit_metric=optional_text(self.document.mapping((*self.where, "limit")), "metric"),
            limit_baseline=optional_text(self.document.mapping((*self.where, "limit")), "baseline"),
            limit_times=float(times) if isinstance(times, int | float) else None,
            severity=str(self.get("severity")),
            blocking=self.get("blocking") is True,
            message=optional_text(fields, "message"),
            owner=optional_text(fields, "owner") or str(self.document.get("metadata.owner")),
            rationale=optional_text(fields, "rationale"),
        )


def placed_gates(document: Document) -> Iterator[PlacedGate]:
    """The gates of a document that are mappings at all."""
    listed = document.get("gates")
    if isinstance(listed, list):
        yield from (PlacedGate(document, ("gates", i)) for i, gate in enumerate(listed) if isinstance(gate, dict))


def gate_problems(gate: PlacedGate) -> Iterator[Problem]:
    """What is wrong with the meaning of one gate."""
    name, metric = gate.get("metric"), gate.metric
    known = _metrics_of(str(gate.document.get("kind")))
    if isinstance(name, str) and metric is None:
        yield gate.problem(
            "metric", f"unknown metric {show(name)}; expected {', '.join(known)}", did_you_mean(name, list(METRICS))
        )
    if metric is not None and metric.name not in known:
        yield gate.problem("metric", *_elsewhere(metric, known))
    elif metric is not None:
        yield from _aggregate(gate, metric)
        yield from _limit(gate, metric)
        yield from _reach(gate, metric)
    if gate.get("severity") == "warn" and gate.get("blocking") is True:
        message = "severity: warn on a gate with blocking: true, which would not stop anything; expected error"
        yield gate.problem("severity", message, "severity: error, or blocking: false")
    yield from _message(gate)
    yield from _inputs(gate)


def _metrics_of(kind: str) -> tuple[str, ...]:
    """The metrics that gates of a kind are over."""
    if kind in DECISION_KINDS:
        return tuple(name for name in OF_DECISIONS if name != CRITICAL_POOLS)
    of_scenarios = (*OF_SCENARIOS, *BY_BUCKET)
    return (*of_scenarios, CRITICAL_POOLS) if kind == "Capacity" else of_scenarios


def _elsewhere(metric: Metric, known: tuple[str, ...]) -> tuple[str, str]:
    """A metric of decisions among gates on scenarios, or the other way round."""
    expected = f"expected {', '.join(known)}"
    if metric.name == CRITICAL_POOLS:
        return f"{metric.name} is a figure of capacity; {expected}", "put the gate into kind: Capacity"
    if metric.scope == "decision":
        return f"{metric.name} is a figure of the decision; {expected}", "put the gate into kind: Provenance"
    return (
        f"{metric.name} is a figure of scenarios; {expected}",
        "put the gate into kind: Capacity, or another over scenarios",
    )


def _aggregate(gate: PlacedGate, metric: Metric) -> Iterator[Problem]:
    """How one figure is made of those of the buckets: said for all metrics that have one by bucket, and for no other."""
    by_bucket = metric.name in BY_BUCKET
    if by_bucket and not gate.has("aggregate"):
        yield gate.problem(
            "aggregate", f"missing; {metric.name} has a figure per bucket, expected worst, request_weighted or share"
        )
    if not by_bucket and not gate.on_decision:
        for key, at in (("aggregate", "aggregate"), ("where.bucket", "where.bucket")):
            if gate.has(key):
                one = metric.name.removesuffix("_worst").removesuffix("_envelope_share")
                hint = f"metric: {one}" if one in BY_BUCKET and one != metric.name else None
                yield gate.problem(
                    at,
                    f"{metric.name} has one figure per scenario; expected this with {', '.join(BY_BUCKET)} only",
                    hint,
                )
    shares = gate.get("aggregate") == SHARE
    if shares and not gate.has("within"):
        yield gate.problem(
            "within",
            "missing; aggregate: share counts the requests of buckets whose figure is within something, expected a time or an objective",
        )
    if gate.has("within") and not shares:
        yield gate.problem(
            "within",
            "only aggregate: share counts what is within something; expected nothing here",
            "aggregate: share, or leave it out",
        )
    elif gate.has("within"):
        yield from _figure(gate, "within", metric.name, metric.unit)


def _figure(gate: PlacedGate, key: str, name: str, unit: str) -> Iterator[Problem]:
    """Whether ``limit`` or ``within`` is an objective or a figure in ``unit``, that of ``name``."""
    objective = gate.get(f"{key}.objective")
    if isinstance(objective, str):
        known = OBJECTIVE_UNITS.get(objective)
        if known is not None and known != unit:
            same = [word for word, other in OBJECTIVE_UNITS.items() if other == unit]
            found = f"objective {objective} is {_NOUNS[known]}, {name} is {_NOUNS[unit]}"
            expected = f"{', '.join(same)}, or a figure" if same else "a figure"
            yield gate.problem(f"{key}.objective", f"{found}; expected {expected}")
        return
    try:
        gate.figure(key, unit)
    except DomainError as error:
        yield gate.problem(key, error.message, error.hint)
    except QuantityError as error:
        yield gate.problem(key, error.message, error.hint or f"{name} is {_NOUNS[unit]}")


def _limit(gate: PlacedGate, metric: Metric) -> Iterator[Problem]:
    unit = gate.unit or metric.unit
    name = f"a share of {metric.name}" if unit != metric.unit else f"metric {metric.name}"
    other = gate.get("limit.metric")
    if isinstance(gate.get("limit.baseline"), str):
        yield from _baseline(gate, metric)
        return
    if not isinstance(other, str):
        yield from _figure(gate, "limit", name, unit)
        return
    of_scenarios = [METRICS[word] for word in BY_CLOSED_FORMS if METRICS[word].unit == unit and word != metric.name]
    expected = f"expected {', '.join(one.name for one in of_scenarios)}"
    found = METRICS.get(other)
    if found is None:
        yield gate.problem(
            "limit.metric", f"unknown metric {show(other)}; {expected}", did_you_mean(other, list(BY_CLOSED_FORMS))
        )
    elif found in of_scenarios:
        yield from _reach(gate, found, "limit.metric")
    elif other == metric.name:
        yield gate.problem("limit.metric", f"{other} is the judged metric itself; {expected}")
    elif found.unit != unit:
        why = f"is {_NOUNS[found.unit]}, {name} is {_NOUNS[unit]}"
        yield gate.problem("limit.metric", f"{other} {why}; {expected}")
    else:
        why = "is a figure of the replay" if found.replayed else "is not one figure of a scenario"
        yield gate.problem("limit.metric", f"{other} {why}; {expected}")


def _baseline(gate: PlacedGate, metric: Metric) -> Iterator[Problem]:
    """A baseline is another topology, and has the figure."""
    baseline = str(gate.get("limit.baseline"))
    if metric.replayed:
        message = f"{metric.name} is a figure of the replay, which is not held against other scenarios"
        yield gate.problem("limit.baseline", f"{message}; expected a figure, an objective or another metric")
    elif metric.moves:
        message = f"{metric.name} does not exist for {baseline}; expected a figure, an objective or another metric"
        yield gate.problem("limit.baseline", message)
    elif baseline in gate.topologies:
        at = "where.topology" if gate.has("where.topology") else "limit.baseline"
        others = ", ".join(name for name in TOPOLOGIES if name != baseline)
        message = f"{baseline} would be held against itself; expected where: {{topology: [{others}]}}, or some of them"
        yield gate.problem(at, message)


def _reach(gate: PlacedGate, metric: Metric, key: str = "metric") -> Iterator[Problem]:
    """A figure of the transfer exists only where something is transferred; elsewhere its gate is refused for ever."""
    if not metric.moves or not gate.topologies:
        return
    at = "where.topology" if gate.has("where.topology") else key
    others = [name for name in gate.topologies if name not in SEPARATED]
    nowhere = f"{metric.name} does not exist for {' or '.join(others)}"
    expected = f"expected where: {{topology: [{', '.join(SEPARATED)}]}}, or one of them"
    if len(others) == len(gate.topologies):
        yield gate.problem(at, f"{nowhere}, so the gate judges nothing; {expected}")
    elif others:
        yield gate.problem(at, f"{nowhere}, so the gate would refuse them all; {expected}")


def _message(gate: PlacedGate) -> Iterator[Problem]:
    """Only what a verdict has can be put into its message."""
    message = gate.get("message")
    if not isinstance(message, str):
        return
    known = _FIELDS_OF_DECISIONS if gate.on_decision else _FIELDS
    try:
        parts = list(string.Formatter().parse(message))
    except ValueError as error:
        yield gate.problem(
            "message",
            f"{error}; expected {{ and }} in pairs around one of {', '.join(known)}",
            "a brace itself is written twice: {{",
        )
        return
    for _, name, form, conversion in parts:
        if name is not None and name not in known:
            yield gate.problem(
                "message",
                f"{show('{' + name + '}')} is nothing that a verdict has; expected {', '.join(known)}",
                did_you_mean(name, known),
            )
        elif form or conversion:
            yield gate.problem("message", f"{{{name}}} is written with its unit; expected it without a format")


_INPUT_PATHS = tuple(sorted({quantity.path for quantity in QUANTITIES} | {"requests.trace"}))


def _inputs(gate: PlacedGate) -> Iterator[Problem]:
    """Patterns that no input of any cohort matches."""
    if gate.get("metric") == CRITICAL_POOLS and gate.has("where.input"):
        yield gate.problem("where.input", f"{CRITICAL_POOLS} is not of inputs; expected nothing here")
        return
    for place, pattern in enumerate(gate.words("input") or ()):
        if not any(matches(pattern, path) for path in _INPUT_PATHS) and not pattern.startswith("objectives.buckets."):
            message = f"no input is called {show(pattern)}; expected a path of the inputs table, * for any part of one"
            where = (*gate.where, "where", "input", place)
            yield gate.document.problem(where, message, did_you_mean(pattern, _INPUT_PATHS))


def matches(pattern: str, path: str) -> bool:
    """Whether ``pattern`` is ``path``, where ``*`` stands for any characters.

    >>> matches("service.*", "service.decode.slots"), matches("service", "service.decode"), matches("*", "x")
    (True, False, True)
    """
    return fnmatch.fnmatchcase(path, pattern.replace("[", "[[]").replace("?", "[?]"))
