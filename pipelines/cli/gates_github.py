"""The report of gates as workflow commands of GitHub Actions: annotations at the lines of the rules."""

from collections.abc import Iterator
from typing import Any

from pipelines.cli.gates_text import described, overridden, waived

Json = dict[str, Any]

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = _DATA | {":": "%3A", ",": "%2C"}


def github_lines(facts: Json) -> list[str]:
    """One command a line: errors, warnings, notices, and the summary as the last notice."""
    found = [*_verdicts(facts), *_objections(facts)]
    order = ("error", "warning", "notice")
    ordered = sorted(found, key=lambda one: order.index(one[0]))
    left = [
        f"not judged: {one['gate']}: {one['reason']}"
        for of in (*facts["scenarios"], facts["decision"])
        for one in of["not_judged"]
    ]
    closing = "\n".join([facts["summary"]["words"], *overridden(facts), *dict.fromkeys(left)])
    return [command(*one) for one in (*ordered, ("notice", {"title": f"{facts['cohort']}: gates"}, closing))]


def command(name: str, properties: dict[str, str], message: str) -> str:
    r"""A workflow command with its properties and message escaped.

    >>> command("error", {"file": "a,b.yaml", "line": "3"}, "90 %,\nnot 95 %")
    '::error file=a%2Cb.yaml,line=3::90 %25,%0Anot 95 %25'
    """
    listed = ",".join(f"{key}={_escaped(value, _PROPERTY)}" for key, value in properties.items())
    return f"::{name} {listed}::{_escaped(message, _DATA)}"


def level(row: Json) -> str:
    """How a verdict that is no pass is shown: one that does not count for the decision is a note, whatever its severity."""
    if row["effect"] in ("waived", "beside"):
        return "note"
    return "warning" if row["severity"] == "warn" else "error"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    legible = "".join(letter if letter.isprintable() or letter in "\r\n" else "?" for letter in text)
    return "".join(escapes.get(letter, letter) for letter in legible)


def _verdicts(facts: Json) -> Iterator[tuple[str, dict[str, str], str]]:
    for of in (*facts["scenarios"], facts["decision"]):
        for row in of["verdicts"]:
            if row["verdict"] != "pass":
                about = [f"{row['scenario'] or 'the decision'}: {row['words']}", described(row)]
                about += [waived(row["exception"])] if row["exception"] else []
                shown = level(row).replace("note", "notice")
                yield shown, _at(row, f"{facts['cohort']}: {row['gate']}"), "\n".join(about)


def _objections(facts: Json) -> Iterator[tuple[str, dict[str, str], str]]:
    """What stands against the decision beside verdicts."""
    for one in facts["objections"]:
        if one["kind"] != "verdict":
            yield "error", _at(one, f"{facts['cohort']}: not accepted"), one["words"]


def _at(row: Json, title: str) -> dict[str, str]:
    place = {"file": row["path"], "line": str(row["line"])} if row["path"] else {}
    return place | {"title": title}
