"""The report of gates as SARIF 2.1.0: one rule per gate, one result per verdict that is no pass."""

import hashlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from pipelines import __version__
from pipelines.cli.gates_github import level
from pipelines.cli.gates_text import at, judged, limit_from, waived
from pipelines.frames.metrics import METRICS
from pipelines.gates.wording import SYMBOLS, shown

Json = dict[str, Any]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LINK = re.compile(r"\[(?=[^\]]*\]\()")
_OBJECTIONS = {
    "no-topology": ("No topology qualifies", "No scenario of the compared topologies passes every blocking gate."),
    "expired-exception": (
        "An exception has expired",
        "A decision is not accepted until an exception that has expired is taken out.",
    ),
}
"""Rules for what stands against a decision beside gates; a gate's id has no hyphen."""
_RULE_OF = {"no_topology": "no-topology", "exception": "expired-exception"}
_SHOWN = ("bound", "figure", "op", "limit", "margin", "verdict", "blocking", "waived", "owner", "rests_on")


def sarif(facts: Json) -> Json:
    """One log with one run."""
    rules = list(_rules(facts))
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    driver = {"name": "phaseledger", "semanticVersion": __version__, "version": __version__, "rules": rules}
    about = ("cohort", "fingerprint", "seal", "as_of", "outcome", "scenario", "accepted")
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"phaseledger/gates/{facts['cohort']}/"},
        "invocations": [
            {"executionSuccessful": True, "toolConfigurationNotifications": list(_notifications(facts, places))}
        ],
        "results": [*_verdicts(facts, places), *_objections(facts, places)],
        "properties": {name: facts[name] for name in about} | {"summary": facts["summary"]["words"]},
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _all(facts: Json, kind: str) -> Iterator[Json]:
    for of in (*facts["scenarios"], facts["decision"]):
        yield from of[kind]


def _rules(facts: Json) -> Iterator[Json]:
    """Every gate once, judged or not; then what else may stand against the decision, if it does."""
    seen: set[str] = set()
    for row in (*_all(facts, "verdicts"), *_all(facts, "not_judged")):
        if row["gate"] in seen:
            continue
        seen.add(row["gate"])
        asks = _rule(row) if "verdict" in row else f"a gate of kind {row['kind']}"
        short = f"{row['gate']}: {asks}"
        yield _descriptor(row["gate"], short, row.get("rationale") or short, _help(row)) | {
            "defaultConfiguration": {"level": "warning" if row["severity"] == "warn" else "error"}
        }
    for kind in dict.fromkeys(one["kind"] for one in facts["objections"] if one["kind"] in _RULE_OF):
        title, why = _OBJECTIONS[_RULE_OF[kind]]
        yield _descriptor(_RULE_OF[kind], title, why, why) | {"defaultConfiguration": {"level": "error"}}


def _descriptor(name: str, short: str, full: str, more: str) -> Json:
    texts = {"shortDescription": short, "fullDescription": full, "help": more}
    return {"id": name} | {key: {"text": _message(text)} for key, text in texts.items()}


def _rule(row: Json) -> str:
    """What a gate asks for."""
    bound = f" ({row['bound']})" if row["bound"] else ""
    limit = shown(row["limit"], row["unit"]) if row["limit_source"] == "declared" else limit_from(row)
    return f"{judged(row)} {SYMBOLS[row['op']]} {limit}{bound}"


def _help(row: Json) -> str:
    about = f"{METRICS[row['metric']].meaning}. " if "metric" in row else ""
    instead = f" instead of {row['overrides']}" if row["overrides"] else ""
    blocking = "blocks" if row["blocking"] else "informs, and does not block"
    return f"{about}A gate of kind {row['kind']} that {blocking}; declared in {at(row)}{instead}; owner {row['owner']}."


def _verdicts(facts: Json, places: dict[str, int]) -> Iterator[Json]:
    for of in (*facts["scenarios"], facts["decision"]):
        for row in of["verdicts"]:
            if row["verdict"] == "pass":
                continue
            about = row["scenario"] or "decision"
            same = row["topology"] or "decision" if of.get("speaks", True) else about
            found = _result(facts, places, row["gate"], f"{same}/{row['gate']}", row)
            found["level"] = level(row)
            found["message"] = {"text": _message(f"{about}: {row['words']}")}
            found["locations"][0]["logicalLocations"] = [{"fullyQualifiedName": f"{facts['cohort']}/{about}"}]
            if row["waived"]:
                found["suppressions"] = [_suppression(row["exception"])]
            yield found | {"properties": {name: row[name] for name in _SHOWN}}


def _objections(facts: Json, places: dict[str, int]) -> Iterator[Json]:
    for one in facts["objections"]:
        if one["kind"] in _RULE_OF:
            rule = _RULE_OF[one["kind"]]
            yield _result(facts, places, rule, f"{rule}/{one['gate']}/{one['words']}", one)


def _result(facts: Json, places: dict[str, int], rule: str, identity: str, row: Json) -> Json:
    """A result at the line of its rule; ``identity`` is what stays the same from one plan to the next."""
    digest = hashlib.sha256(f"{facts['cohort']}/{identity}".encode()).hexdigest()
    return {
        "ruleId": rule,
        "ruleIndex": places[rule],
        "level": "error",
        "message": {"text": _message(row["words"])},
        "locations": [{"physicalLocation": _physical(row)}],
        "partialFingerprints": {"primaryLocationLineHash": f"{digest[:16]}:1"},
    }


def _physical(row: Json) -> Json:
    place: Json = {"artifactLocation": {"uri": quote(row["path"] or row["file"])}}
    return place | ({"region": {"startLine": row["line"]}} if row["line"] else {})


def _suppression(exception: Json | None) -> Json:
    """An exception stands in the rules, not at what it waives."""
    found: Json = {"kind": "external", "status": "accepted"}
    if exception is None:
        return found
    return found | {"justification": waived(exception), "location": {"physicalLocation": _physical(exception)}}


def _notifications(facts: Json, places: dict[str, int]) -> Iterator[Json]:
    """The gates that are not judged: nothing was found with them, and nothing could be."""
    for of in (*facts["scenarios"], facts["decision"]):
        about = of.get("scenario", "decision")
        for one in of["not_judged"]:
            yield {
                "level": "note",
                "message": {"text": _message(f"{about}: {one['gate']} is not judged: {one['reason']}")},
                "associatedRule": {"id": one["gate"], "index": places[one["gate"]]},
                "locations": [{"physicalLocation": _physical(one)}],
            }


def _message(text: str) -> str:
    """A text in which nothing is a placeholder or a link (SARIF 2.1.0, sections 3.11.5 and 3.11.6)."""
    return _LINK.sub(r"\\[", text.replace("{", "{{").replace("}", "}}"))
