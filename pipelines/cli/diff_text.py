"""The comparison of two receipts as a person reads it, on a page of 140 columns."""

from collections.abc import Callable
from typing import Any

from pipelines.cli.diff_moves import moves_lines
from pipelines.cli.diff_words import FEW, cut, decided, declared, said_rule, said_step
from pipelines.cli.explain_layout import WIDTH, columns, used, wrapped
from pipelines.cli.log_text import plain

Json = dict[str, Any]

_DIGITS = 12
_MOST_NAMES = 6
_NAME_WIDTH, _DECISION_WIDTH = 44, 40
_TOGETHER = (
    "Nothing is decisive by itself: no change alone makes old decide as new does, and new decides so without any one of them. "
    "They decide together."
)


def text_lines(facts: Json) -> list[str]:
    """The head, then each part that has something to say."""
    lines = _head(facts)
    parts: list[tuple[str, Callable[[Json], list[str]]]] = [
        ("The chain from old to new: each change on top of those before it", _chain),
        ("What moved", moves_lines),
        ("What was decisive", _decisive),
        ("The inputs that differ", _inputs),
        ("The rules that differ", _rules),
        ("Verdicts side by side", _verdicts),
    ]
    for heading, of in parts:
        said = of(facts)
        if said:
            lines += ["", heading, *said]
    return lines


def _head(facts: Json) -> list[str]:
    old, new = facts["old"], facts["new"]
    lines = wrapped(
        f"Two receipts compared (arithmetic {new['arithmetic']}; all figures are {facts['latency_label']} means from declared "
        "inputs, not measurements)"
    )
    lines.append("")
    for name, of in (("old", old), ("new", new)):
        as_of = f", as of {of['as_of']}" if of["as_of"] else ""
        lines += wrapped(
            f"{name:<10}{of['sha256'][:_DIGITS]}  {of['cohort']}: {of['title']}{as_of} ({of['receipt']})", "", " " * 10
        )
    lines += wrapped(f"{'question':<10}{_question(facts)}", "", " " * 10)
    before, after = decided(old["decision"]), decided(new["decision"])
    changed = f"same: {after}" if facts["same_decision"] else f"CHANGED: {before} -> {after}"
    lines += wrapped(f"{'decision':<10}{changed}", "", " " * 10)
    if facts["left_out"] is not None:
        lines += _left_out(facts["left_out"])
    if facts["nothing_differs"]:
        lines += ["", "Nothing differs: inputs, requests, rules and date are the same."]
    return lines


def _left_out(of: Json) -> list[str]:
    """That gates on replayed figures do not count here, and what the receipts decide with them."""
    before, after = decided(of["old"]), decided(of["new"])
    stated = after if before == after else f"{before} -> {after}"
    gates = "gate" if len(of["gates"]) == 1 else "gates"
    return wrapped(
        f"{'left out':<10}the {gates} on replayed figures, {', '.join(of['gates'])}: a receipt holds no requests to replay, so that "
        f"decisions here are those of the other gates; with them, the receipts say: {stated}",
        "",
        " " * 10,
    )


def _question(facts: Json) -> str:
    ends = [facts[name]["fingerprint"][:_DIGITS] for name in ("old", "new")]
    names = [facts[name]["cohort"] for name in ("old", "new")]
    of = "" if facts["same_cohort"] else f"they are of different cohorts, {names[0]} and {names[1]}; "
    if facts["same_question"]:
        return f"{of}the same (fingerprint {ends[0]})"
    return f"{of}another (fingerprint {ends[0]} -> {ends[1]}): verdicts are not set side by side"


def _chain(facts: Json) -> list[str]:
    steps = facts["steps"]
    if not steps:
        return []
    rows = [["#", "what changes", "old -> new", "decision after it"]]
    before = facts["old"]["decision"]
    rows.append(["", "(old)", "", decided(before)])
    for number, step in enumerate(steps, start=1):
        said = decided(step["decision"])
        rows.append(
            [
                str(number),
                step["name"],
                "\n".join(said_step(step, facts["old"], facts["new"])),
                "same" if said == decided(before) else said,
            ]
        )
        before = step["decision"]
    lines = _cells(rows)
    for number, step in enumerate(steps, start=1):
        for reason in step["joined"]:
            lines += wrapped(f"{number}: {reason}", "  ")
    if len(steps) > 1:
        lines += wrapped(
            "The order is fixed: inputs as in their table, requests, rules. What two changes do together is laid to the later."
        )
    return lines


def _cells(rows: list[list[str]]) -> list[str]:
    """The table of the chain, numbers to the right."""
    first = max(len(row[0]) for row in rows)
    widths = [first, _width(rows, 1, _NAME_WIDTH), 0, _width(rows, 3, _DECISION_WIDTH)]
    widths[2] = WIDTH - sum(widths) - 6
    return _folded_rows([[f"{row[0]:>{first}}", *row[1:]] for row in rows], widths)


def _folded_rows(rows: list[list[str]], widths: list[int]) -> list[str]:
    """A table whose cells go on in the next line where they are too long."""
    lines = []
    for row in rows:
        parts = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
        for place in range(max(map(len, parts))):
            cells = [part[place] if place < len(part) else "" for part in parts]
            lines.append("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip())
    return lines


def _width(rows: list[list[str]], place: int, most: int) -> int:
    return min(most, max(len(row[place]) for row in rows))


def _folded(cell: str, width: int) -> list[str]:
    """A cell in lines that are no longer than its column."""
    lines: list[str] = []
    for clause in cell.split("\n"):
        text = plain(clause)
        while len(text) > width:
            at = text.rfind(" ", 0, width + 1)
            at = at if at > 0 else width
            lines.append(text[:at].rstrip())
            text = f"  {text[at:].lstrip()}"
        lines.append(text)
    return lines


def _decisive(facts: Json) -> list[str]:
    steps = facts["steps"]
    if not steps:
        return []
    rows = [["#", "what changes", "old with it alone", "new without it", "so it is"]]
    for number, step in enumerate(steps, start=1):
        if _speaks(step, facts):
            rows.append(
                [
                    str(number),
                    cut(step["name"], _NAME_WIDTH),
                    _alone(step["old_with_it_alone"]),
                    _alone(step["new_without_it"]),
                    _so(step, facts),
                ]
            )
    table = columns(used(rows, empty=("",)), left=(1, 2, 3, 4)) if rows[1:] else []
    reasons = [
        line
        for number, step in enumerate(steps, start=1)
        for name, words in (("old_with_it_alone", "old with it alone"), ("new_without_it", "new without it"))
        if step[name]["why_not"]
        for line in wrapped(f"{number}: {words} cannot be planned: {step[name]['why_not']}", "  ")
    ]
    return [*wrapped(_verdict(facts, quiet=len(steps) - len(rows) + 1)), *table, *reasons]


def _speaks(step: Json, facts: Json) -> bool:
    """Whether a step says anything of the decision."""
    alone, without = step["old_with_it_alone"], step["new_without_it"]
    if alone["why_not"] or without["why_not"] or step["decisive"]:
        return True
    return bool(decided(alone["decision"]) != decided(facts["old"]["decision"]) or step["necessary"])


def _verdict(facts: Json, quiet: int) -> str:
    others = f" The {quiet} changes that are not listed turn nothing." if quiet > 1 else ""
    others = " The change that is not listed turns nothing." if quiet == 1 and len(facts["steps"]) > 1 else others
    if facts["same_decision"]:
        if quiet == len(facts["steps"]):
            return "The decision is the same, and no change turns it: neither alone in old, nor by its absence in new."
        return f"The decision is the same; what is listed would turn it, alone in old or by its absence in new.{others}"
    if facts["decisive"]:
        return f"Decisive: {', '.join(facts['decisive'])}.{others}"
    return f"{_TOGETHER}{others}"


def _alone(of: Json) -> str:
    return "cannot be planned" if of["why_not"] else decided(of["decision"])


def _so(step: Json, facts: Json) -> str:
    words = [name for name in ("sufficient", "necessary") if step[name]]
    if facts["same_decision"]:
        return "what keeps it" if step["necessary"] else ""
    return " and ".join(words)


def _inputs(facts: Json) -> list[str]:
    changes = [change for step in facts["steps"] for change in step["inputs"]]
    if not changes:
        return []
    rows = [["path", "old", "new"]]
    rows += [[change["path"], *(declared(change[name], change) for name in ("old", "new"))] for change in changes]
    path = _width(rows, 0, _NAME_WIDTH)
    each = (WIDTH - path - 4) // 2
    return _folded_rows(rows, [path, each, each])


def _rules(facts: Json) -> list[str]:
    changes = [change for step in facts["steps"] for change in step["rules"]]
    if len(changes) <= FEW:  # the chain has them all
        return []
    return [line for change in changes for line in wrapped(said_rule(change), "  ", "      ")]


def _verdicts(facts: Json) -> list[str]:
    of = facts["verdicts"]
    if of is None or facts["nothing_differs"]:
        return []
    rows = [["gate", "old: pass", "fail", "refused", "new: pass", "fail", "refused", "changed"]]
    for row in of["gates"]:
        counts = [_counts(row[name]) for name in ("old", "new")]
        rows.append([row["gate"], *counts[0], *counts[1], str(row["changed"])])
    lines = columns(rows)
    groups: dict[tuple[str, str], list[str]] = {}
    for row in of["changed"]:
        groups.setdefault((row["gate"], f"{_said(row['old'])} -> {_said(row['new'])}"), []).append(row["scenario"])
    for (gate, change), names in groups.items():
        listed = ", ".join(names[:_MOST_NAMES]) + (
            f" and {len(names) - _MOST_NAMES} more" if names[_MOST_NAMES:] else ""
        )
        lines += wrapped(f"{gate}: {change}: {listed}")
    for row in of["rejected"]:
        lines += [f"{row['topology']}:"]
        for name in ("old", "new"):
            lines += wrapped(f"{name}: {_reason(row[name], row['topology'], facts[name]['decision'])}", "  ", "       ")
    return lines


def _counts(of: Json | None) -> list[str]:
    return ["-"] * 3 if of is None else [str(of[name]) for name in ("pass", "fail", "refused")]


def _said(of: Json | None) -> str:
    if of is None:
        return "not judged"
    return f"{of['verdict']}, waived" if of["waived"] else str(of["verdict"])


def _reason(of: Json | None, topology: str, decision: Json) -> str:
    if of is not None:
        return f"{of['scenario']}: {of['reason']}"
    return (
        f"chosen as {decision['scenario']}: {decision['reason']}"
        if decision["topology"] == topology
        else "not compared"
    )
