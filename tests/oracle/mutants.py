"""Mutants of a receipt: every leaf of it changed in every way that somebody might try, alone, and sealed again.

A leaf that an enumeration of the schema allows other words for gets each of them; numbers are nudged by a millionth (whole ones by
one), negated, zeroed, and swapped with the next number beside them; booleans are flipped; other text gets a letter more; what is
absent is filled in. The matrix is not given to the verifier: it would give every change of a scenario away.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pipelines.oracle.findings import Ledger, round_significant
from pipelines.oracle.structure import SECTIONS, check_structure
from pipelines.oracle.verifying import INCOMPUTABLE, check_content
from tests.oracle.forging import Receipt, name_anew, name_rules_anew

Place = tuple[str | int, ...]

KINDS = ("nudged", "negated", "zeroed", "swapped", "flipped", "reworded", "spelled otherwise", "filled in")
NUDGE, WHOLE_UP_TO = 1e-6, 1e5
NUDGED_DIGITS = 12
"""Digits that a nudged number keeps: more than a receipt has, so that the nudge is seen."""

_SCHEMA = Path(__file__).resolve().parents[2] / "schemas" / "topology-receipt.v1.schema.json"
_NAMED_BY = {"inputs": "path", "gates": "id", "scenarios": "scenario"}
"""Rows that are called by a member of theirs, not by number."""


@dataclass(frozen=True)
class Mutant:
    """A receipt with other values at some leaves; one, but for swaps."""

    name: str
    kind: str
    changes: tuple[tuple[Place, Any], ...]

    @property
    def section(self) -> str:
        """The member of the receipt that is changed."""
        return str(self.changes[0][0][0])

    def of(self, receipt: Receipt) -> Receipt:
        """The changed receipt; shares everything that does not lie on the way to a change."""
        changed: Any = receipt
        for place, value in self.changes:
            changed = put(changed, place, value)
        return changed  # type: ignore[no-any-return]


def mutants(receipt: Receipt) -> Iterator[Mutant]:
    """Every mutant of a receipt, leaf by leaf."""
    for place, value in leaves(receipt):
        name = name_of(receipt, place)
        for kind, other in _others(place, value):
            yield Mutant(name, kind, ((place, other),))
        beside = _next_number(receipt, place, value)
        if beside is not None:
            yield Mutant(name, "swapped", ((place, beside[1]), (beside[0], value)))


def leaves(value: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value that is no object and no array, with its place."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*at, key))
    else:
        yield at, value


def name_of(receipt: Receipt, place: Place) -> str:
    """The place as text; inputs, gates and scenarios by their names."""
    parts, here = [], receipt
    for step, key in enumerate(place):
        by = _NAMED_BY.get(str(place[step - 1])) if isinstance(key, int) and step else None
        here = here[key]  # type: ignore[index]
        parts.append(f"[{here[by]}]" if by and by in here else str(key))
    return "/" + "/".join(parts)


def _others(place: Place, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "flipped", not value
    elif isinstance(value, int | float):
        yield "nudged", _nudged(value)
        if value:
            yield "negated", -value
            yield "zeroed", 0
    elif isinstance(value, str):
        words = words_at(place)
        yield from (("reworded", word) for word in words if word != value)
        if not words:
            yield "spelled otherwise", f"{value}x"
    else:
        yield "filled in", 1.0
        yield from (("filled in", word) for word in words_at(place)[:1])


def _nudged(value: float) -> float:
    if value == 0:
        return NUDGE
    if isinstance(value, int) and abs(value) < WHOLE_UP_TO:
        return value + 1
    return round_significant(value * (1 + NUDGE), NUDGED_DIGITS)


def _next_number(receipt: Receipt, place: Place, value: Any) -> tuple[Place, Any] | None:
    """The next number in the same object or array, if it is another."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    home: Any = receipt
    for key in place[:-1]:
        home = home[key]
    items = list(home.items() if isinstance(home, dict) else enumerate(home))
    keys = [key for key, _ in items]
    for key, other in items[keys.index(place[-1]) + 1 :]:
        if isinstance(other, int | float) and not isinstance(other, bool):
            return ((*place[:-1], key), other) if other != value else None
    return None


def put(receipt: Receipt, place: Place, value: Any) -> Receipt:
    """The receipt with another value at a place; shares everything that does not lie on the way to it."""
    changed: Any = copy.copy(receipt)
    here = changed
    for key in place[:-1]:
        here[key] = copy.copy(here[key])
        here = here[key]
    here[place[-1]] = value
    return changed  # type: ignore[no-any-return]


@cache
def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_SCHEMA.read_text())
    return found


def words_at(place: Place) -> tuple[str, ...]:
    """The words that the schema allows at a place; none where any text is."""
    return _words(tuple("#" if isinstance(key, int) else key for key in place))


@cache
def _words(place: tuple[str, ...]) -> tuple[str, ...]:
    nodes = [_schema()]
    for key in place:
        nodes = [inner for node in nodes for inner in _inner(node, key)]
    words = [word for node in nodes for one in _alternatives(node) for word in one.get("enum", ()) if word is not None]
    return tuple(dict.fromkeys(word for word in words if isinstance(word, str)))


def _alternatives(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "$ref" in node:
        yield from _alternatives(_schema()["$defs"][node["$ref"].rsplit("/", 1)[1]])
    yield node
    for word in ("anyOf", "oneOf", "allOf"):
        for other in node.get(word, ()):
            yield from _alternatives(other)


def _inner(node: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    for one in _alternatives(node):
        if key == "#":
            if isinstance(one.get("items"), dict):
                yield one["items"]
        elif key in one.get("properties", {}):
            yield one["properties"][key]
        elif isinstance(one.get("additionalProperties"), dict):
            yield one["additionalProperties"]


class _Noticed(Exception):  # noqa: N818 - what a mutant is made for
    """The first disagreement: one is enough."""


class _Impatient(Ledger):
    """Ends at the first disagreement."""

    def holds(self, check: str, where: str, holds: bool, found: object, expected: object, why: str = "") -> bool:
        if not holds:
            raise _Noticed(where)
        return super().holds(check, where, holds, found, expected, why)


def noticed_at(receipt: Receipt, *, renamed: bool, section: str | None = None) -> str | None:
    """Where the verifier, given the JSON alone, first disagrees; None if it never does.

    The receipt is sealed again; if ``renamed``, it has got the fingerprints of what it now says as well. If only one ``section`` of
    it is not that of a verified receipt, no other has to be looked at for its structure.
    """
    if renamed:
        receipt = receipt | {"rules": dict(receipt["rules"])}
        try:
            if section in (None, "inputs", "workload", "fingerprint"):
                name_anew(receipt)
            if section in (None, "rules", "as_of"):
                name_rules_anew(receipt)
        except (TypeError, ValueError, LookupError):
            return "fingerprint"
    ledger = _Impatient()
    try:
        if section is None:
            check_structure(ledger, receipt)
        else:
            SECTIONS[section](ledger, section, receipt[section])
        check_content(ledger, receipt, None)
    except _Noticed as noticed:
        return str(noticed)
    except INCOMPUTABLE as error:
        return type(error).__name__
    return None


def disagreements(receipt: Receipt) -> list[str]:
    """Every place that the verifier, given the JSON alone, disagrees with."""
    ledger = Ledger()
    if check_structure(ledger, receipt):
        check_content(ledger, receipt, None)
    return [item.where for item in ledger.disagreements]
