"""What differs between two receipts: inputs, requests, rules. Nothing is planned here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.gates.rules import part_weights, preferred_keys
from pipelines.receipts.rules import RuleFrames

Json = dict[str, Any]

ARRIVALS = "requests."
_MEMBERS = ("unit", "value", "low", "high", "conservative", "provenance", "source", "note")


@dataclass(frozen=True)
class InputChange:
    """One row of the inputs table as either receipt has it; None where it has none."""

    path: str
    old: Json | None
    new: Json | None

    @property
    def one_sided(self) -> bool:
        """Whether only one of the receipts declares it."""
        return self.old is None or self.new is None

    @property
    def members(self) -> list[str]:
        """What of the row differs; none where it is not in both."""
        if self.old is None or self.new is None:
            return []
        return [name for name in _MEMBERS if self.old[name] != self.new[name]]


@dataclass(frozen=True)
class MemberChange:
    """One member of something that both receipts have."""

    member: str
    old: Any
    new: Any


@dataclass(frozen=True)
class RuleChange:
    """One gate, exception or other part of the rules: ``added``, ``removed`` or ``changed`` in its ``members``."""

    kind: str
    name: str
    change: str
    old: Json | None
    new: Json | None

    @property
    def members(self) -> list[MemberChange]:
        """What of it differs; nothing of what was added or removed."""
        if self.old is None or self.new is None:
            return []
        return [
            MemberChange(name, self.old[name], self.new[name]) for name in self.old if self.old[name] != self.new[name]
        ]


@dataclass(frozen=True)
class Differences:
    """Everything that a plan is made from and that differs, inputs in the order of the inputs table."""

    inputs: tuple[InputChange, ...]
    requests: tuple[MemberChange, ...]
    rules: tuple[RuleChange, ...]

    @property
    def nothing(self) -> bool:
        """Whether the two receipts are made from the same."""
        return not (self.inputs or self.requests or self.rules)


def differences(old: Json, new: Json, old_rules: RuleFrames, new_rules: RuleFrames) -> Differences:
    """What differs between two receipts and their reopened rules."""
    return Differences(
        tuple(_inputs(old["inputs"], new["inputs"])),
        tuple(_members(old["workload"], new["workload"])),
        tuple(_rules(old_rules, new_rules)),
    )


def table_order(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The paths of both inputs tables in the order that both have: those of ``old`` alone stand where they stood there.

    >>> table_order(["a", "gone", "b"], ["a", "b", "come"])
    ['a', 'gone', 'b', 'come']
    """
    known = set(new)
    waiting: dict[str | None, list[str]] = {}
    after: str | None = None
    for path in old:
        if path in known:
            after = path
        else:
            waiting.setdefault(after, []).append(path)
    order = list(waiting.get(None, []))
    for path in new:
        order += [path, *waiting.get(path, [])]
    return order


def _inputs(old: Sequence[Json], new: Sequence[Json]) -> Iterable[InputChange]:
    before, after = ({row["path"]: row for row in rows} for rows in (old, new))
    for path in table_order(list(before), list(after)):
        if before.get(path) != after.get(path):
            yield InputChange(path, before.get(path), after.get(path))


def _members(old: Json, new: Json) -> Iterable[MemberChange]:
    for name, value in old.items():
        if value != new[name]:
            yield MemberChange(name, value, new[name])


def _rules(old: RuleFrames, new: RuleFrames) -> Iterable[RuleChange]:
    yield from _named("gate", _gates(old.gates), _gates(new.gates))
    yield from _named("exception", _exceptions(old.exceptions), _exceptions(new.exceptions))
    yield from _named("decision", {"decision": _decision(old)}, {"decision": _decision(new)})
    yield from _named("date", {"as_of": {"as_of": old.as_of}}, {"as_of": {"as_of": new.as_of}})
    yield from _order(old.gates, new.gates)


def _named(kind: str, old: dict[str, Json], new: dict[str, Json]) -> Iterable[RuleChange]:
    for name in table_order(list(old), list(new)):
        before, after = old.get(name), new.get(name)
        if before != after:
            change = "added" if before is None else "removed" if after is None else "changed"
            yield RuleChange(kind, name, change, before, after)


def _order(old: pl.DataFrame, new: pl.DataFrame) -> Iterable[RuleChange]:
    """The order of the gates that both have, which is that of verdicts and of what is said of them."""
    both = set(old["gate"]) & set(new["gate"])
    before, after = ([name for name in gates["gate"] if name in both] for gates in (old, new))
    if before != after:
        yield RuleChange("order", "gates", "changed", {"order": before}, {"order": after})


def _gates(frame: pl.DataFrame) -> dict[str, Json]:
    """Gates by id, as they were declared: what follows from the inputs or from the exceptions is no part of them."""
    return {row["gate"]: _gate(row) for row in frame.drop("instead_of", "waived").iter_rows(named=True)}


def _gate(row: Json) -> Json:
    kept = {name: value for name, value in row.items() if name not in ("gate", "objective", "within_objective")}
    for source, objective in (("limit", "objective"), ("within", "within_objective")):
        if row[objective] is not None:
            kept[source] = f"objectives.{row[objective]}"
    return kept


def _exceptions(frame: pl.DataFrame) -> dict[str, Json]:
    """Exceptions by gate, and by their place among those of one gate."""
    found: dict[str, Json] = {}
    for row in frame.iter_rows(named=True):
        count = sum(name.partition(" ")[0] == row["gate"] for name in found)
        found[row["gate"] if not count else f"{row['gate']} ({count + 1})"] = row
    return found


def _decision(rules: RuleFrames) -> Json:
    row = rules.rule_set.row(0, named=True)
    return {
        "file": row["decision_file"],
        "overrides": row["decision_overrides"],
        "prefer": preferred_keys(rules.preference),
        "operating_part_weights": part_weights(rules.preference),
    }
