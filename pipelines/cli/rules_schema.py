"""The JSON Schema of one kind of document, standing alone."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from pipelines.declarations.bundled import bundled
from pipelines.declarations.typed import DECISION_KINDS, RULE_KINDS, SCENARIO_KINDS

Json = dict[str, Any]

KINDS = {
    "LatencyObjective": "gates over figures of a scenario: how long its requests take",
    "Goodput": "gates over figures of a scenario: how many requests meet their objectives",
    "TransferBudget": "gates over figures of a scenario: what moving the KV cache takes",
    "Capacity": "gates over figures of a scenario: how full and how large it is",
    "Provenance": "gates over figures of the decision: what it rests on",
    "Exceptions": "gates that are waived, for whom, why and until when",
    "Decision": "how passing scenarios are ordered",
    "RuleTest": "tests of gates, in tests/ of the rules directory",
}
_BRANCHES = (
    dict.fromkeys(SCENARIO_KINDS, "gates")
    | dict.fromkeys(DECISION_KINDS, "decisionGates")
    | {"Exceptions": "exceptions", "Decision": "decision"}
)
"""The definition in the schema of rules that holds for each kind."""
_REFERENCE = "#/$defs/"


def schema_of(kind: str) -> Json:
    """The schema of ``kind`` with nothing that only other kinds need."""
    whole = _bundled("rules.v1" if kind in RULE_KINDS else "rule-tests.v1")
    defs = whole.pop("$defs")
    own = copy.deepcopy(defs[_BRANCHES[kind]]) if kind in RULE_KINDS else whole
    own["properties"] = own["properties"] | {
        "apiVersion": whole["properties"]["apiVersion"],
        "kind": {"const": kind, "description": "What the document is about."},
    }
    head = {
        "$schema": whole["$schema"],
        "$id": f"urn:phaseledger:schema:rules:v1:{kind}",
        "title": f"phaseledger {kind}",
        "description": f"One document of kind {kind}: {KINDS[kind]}.",
    }
    required = ["apiVersion", "kind", *(name for name in own["required"] if name not in ("apiVersion", "kind"))]
    needed = _needed(own, defs)
    return (
        head
        | {name: value for name, value in own.items() if name not in head}
        | {
            "required": required,
            "$defs": {name: definition for name, definition in defs.items() if name in needed},
        }
    )


def _bundled(name: str) -> Json:
    loaded: Json = json.loads((bundled("schemas") / f"{name}.schema.json").read_text(encoding="utf-8"))
    return loaded


def _needed(node: object, defs: Json) -> set[str]:
    """The definitions that ``node`` refers to, and those that they refer to."""
    needed: set[str] = set()
    waiting = list(_references(node))
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += _references(defs[name])
    return needed


def _references(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_REFERENCE)
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _references(value)
