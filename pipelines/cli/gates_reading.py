"""A receipt as ``phaseledger gates`` reads it: sealed, of the right structure, and of one piece."""

import re
import string
from collections.abc import Iterator
from pathlib import Path

from pipelines.cli.explain_reading import Json, Receipt, UnfitError, read
from pipelines.declarations.problems import DeclarationProblems, Problem, show

_PLACE = re.compile(r" at line ([0-9]+), column ([0-9]+)$")
_OF_DECISIONS = frozenset({"gate", "metric", "figure", "limit", "margin", "owner"})
_OF_SCENARIOS = _OF_DECISIONS | {"scenario", "topology", "bound"}
"""What a gate's message may be filled with (docs/rules.md)."""


def sealed_receipt(file: Path) -> Receipt:
    """The receipt in ``file``; DeclarationProblems where it is none, was changed since it was sealed, or contradicts itself."""
    from pipelines.oracle.canonical import sha256_of

    try:
        receipt = read(file, ())
    except UnfitError as error:
        raise DeclarationProblems([_unfit(file, str(error))]) from error
    seal = sha256_of({name: value for name, value in receipt.json.items() if name != "seal"})
    if receipt.json["seal"] != seal:
        found = f"{receipt.json['seal']}, but the receipt has the digest {seal}: it was changed after it was written"
        raise DeclarationProblems([Problem(str(file), 1, 1, "seal", found, "plan the cohort again")])
    wrong = [Problem(str(file), 1, 1, path, message) for path, message in _contradictions(receipt)]
    if wrong:
        raise DeclarationProblems(wrong)
    return receipt


def _unfit(file: Path, message: str) -> Problem:
    """A reason why a file is no receipt, at its place where the reader knows one."""
    text, _, hint = message.partition(" (hint: ")
    at = _PLACE.search(text)
    line, column = (int(at[1]), int(at[2])) if at else (1, 1)
    return Problem(str(file), line, column, "", _PLACE.sub("", text), hint.removesuffix(")") or None)


def _contradictions(receipt: Receipt) -> Iterator[tuple[str, str]]:
    """Names that lead nowhere and messages that cannot be filled: a planner writes neither."""
    yield from _references(receipt)
    for gate in receipt.json["rules"]["gates"]:
        known = _OF_SCENARIOS if gate["scope"] == "scenario" else _OF_DECISIONS
        if gate["message"] is not None and not _fillable(gate["message"], known):
            found = f"{show(gate['message'])} cannot be filled; expected {{}} around one of {', '.join(sorted(known))}"
            yield f"rules.gates[{gate['id']}].message", found


def _references(receipt: Receipt) -> Iterator[tuple[str, str]]:
    of, decision = receipt.json, receipt.json["decision"]
    scopes = {name: gate["scope"] for name, gate in receipt.gates.items()}
    for row in of["scenarios"]:
        yield from _gates(f"scenarios[{row['scenario']}].verdicts", row["verdicts"], scopes, "scenario")
    yield from _gates("decision.verdicts", decision["verdicts"], scopes, "decision")
    named = [("decision.scenario", decision["scenario"])] if decision["scenario"] is not None else []
    for path, name in [*named, *((f"rejected[{row['topology']}].scenario", row["scenario"]) for row in of["rejected"])]:
        if name not in receipt.scenarios:
            yield path, f"{show(name)} is no scenario of the receipt"
    if decision["accepted"] != (not decision["objections"]):
        count = len(decision["objections"])
        yield "decision.accepted", f"{show(decision['accepted'])} beside {count} objections"
    for place, one in enumerate(decision["objections"]):
        if not _known(of, one):
            yield f"decision.objections[{place}].gate", f"{show(one['gate'])} is nothing that the receipt objects with"


def _gates(path: str, verdicts: list[Json], scopes: dict[str, str], scope: str) -> Iterator[tuple[str, str]]:
    for row in verdicts:
        if scopes.get(row["gate"]) != scope:
            yield f"{path}[{row['gate']}].gate", f"{show(row['gate'])} is no gate on the {scope} in this receipt"


def _known(of: Json, objection: Json) -> bool:
    """Whether the receipt holds what an objection is about."""
    if objection["kind"] == "no_topology":
        return objection["gate"] is None
    rows = of["decision"]["verdicts"]
    if objection["kind"] == "exception":
        rows = [row for row in of["rules"]["exceptions"] if row["standing"] == "expired"]
    return any(row["gate"] == objection["gate"] for row in rows)


def _fillable(message: str, known: frozenset[str]) -> bool:
    """Whether a message has nothing in braces but names that a verdict has, without a format of their own."""
    try:
        parts = list(string.Formatter().parse(message))
    except ValueError:
        return False
    return all(name is None or (name in known and not form and not how) for _, name, form, how in parts)
