"""The report of gates as JUnit XML: a suite per scenario and one for the decision."""

import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

from pipelines.cli.gates_text import described, one_line, waived

Json = dict[str, Any]

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ACCEPTED = "decision accepted"
"""The case that fails where the decision is not accepted; a gate's id has no space."""


def junit_text(facts: Json) -> str:
    """One document. A case fails exactly where a gate decides against the plan, or the decision is not accepted."""
    root = ElementTree.Element("testsuites", {"name": _legible(f"phaseledger gates {facts['cohort']}")})
    for of in facts["scenarios"]:
        about = {"standing": of["standing"], "topology": of["topology"]}
        suite = _suite(root, facts, of["scenario"], about)
        _cases(suite, of)
        _counts(suite, [suite])
    about = {"outcome": facts["outcome"], "as_of": facts["as_of"]}
    suite = _suite(root, facts, "decision", about)
    _cases(suite, facts["decision"])
    _accepted(suite, facts)
    _counts(suite, [suite])
    _counts(root, root)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _suite(root: ElementTree.Element, facts: Json, name: str, about: dict[str, str | None]) -> ElementTree.Element:
    suite = ElementTree.SubElement(root, "testsuite", {"name": _legible(f"{facts['cohort']}: {name}")})
    properties = ElementTree.SubElement(suite, "properties")
    same = {name: facts[name] for name in ("fingerprint", "seal")}
    for key, value in (about | same).items():
        if value is not None:
            ElementTree.SubElement(properties, "property", {"name": key, "value": _legible(value)})
    return suite


def _counts(element: ElementTree.Element, suites: Iterable[ElementTree.Element]) -> None:
    """How many cases there are, and how many of them fail or are skipped."""
    cases = [case for suite in suites for case in suite.iter("testcase")]
    element.set("tests", str(len(cases)))
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(kind, str(sum(case.find(tag) is not None for case in cases)))


def _cases(suite: ElementTree.Element, of: Json) -> None:
    for row in of["verdicts"]:
        case = _case(suite, row["gate"], row)
        text = "\n".join(one_line(part) for part in (row["words"], f"{row['gate']}, {described(row)}"))
        if row["waived"]:
            said = waived(row["exception"]) if row["exception"] else "waived"
            _add(case, "skipped", {"message": said}, None)
            _add(case, "system-out", {}, text)
        elif row["effect"] == "beside":
            _add(case, "skipped", {"message": f"beside the decision: {row['words']}"}, None)
        elif row["effect"] == "blocks":
            _add(case, "failure", {"message": row["words"], "type": row["verdict"]}, text)
        elif row["effect"] == "informs":
            _add(case, "system-out", {}, f"{row['severity']}, not blocking: {text}")
    for one in of["not_judged"]:
        _add(_case(suite, one["gate"], one), "skipped", {"message": f"not judged: {one['reason']}"}, None)


def _case(suite: ElementTree.Element, name: str, row: Json | None) -> ElementTree.Element:
    attributes = {"classname": suite.attrib["name"], "name": _legible(name)}
    if row is not None:
        attributes["file"] = _legible(row["path"] or row["file"])
        attributes |= {"line": str(row["line"])} if row["line"] else {}
    return ElementTree.SubElement(suite, "testcase", attributes)


def _accepted(suite: ElementTree.Element, facts: Json) -> None:
    """A case of its own: an exception that has expired, and no topology that qualifies, are the fault of no gate."""
    case = _case(suite, ACCEPTED, None)
    if not facts["accepted"]:
        words = [one_line(one["words"]) for one in facts["objections"]]
        _add(case, "failure", {"message": f"not accepted: {'; '.join(words)}", "type": "objection"}, "\n".join(words))


def _add(case: ElementTree.Element, tag: str, attributes: dict[str, str], text: str | None) -> None:
    element = ElementTree.SubElement(case, tag, {name: _legible(value) for name, value in attributes.items()})
    element.text = None if text is None else _legible(text)


def _legible(text: str) -> str:
    """A text without the characters that XML has no way to write."""
    return _NO_XML.sub("?", text)
