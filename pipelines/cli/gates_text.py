"""The report of gates as a person reads it."""

from typing import Any

from pipelines.cli.explain_layout import WIDTH, columns, used, wrapped
from pipelines.cli.explain_words import STANDINGS
from pipelines.cli.gates_summary import counted
from pipelines.cli.log_text import plain
from pipelines.gates.wording import SYMBOLS, shown

Json = dict[str, Any]

_ORDER = ("blocks", "informs", "waived", "beside", "passes")
_HEAD = ["gate", "judged", "bound", "verdict", "figure", "limit", "from", "margin", "observed"]
_SHRINKING = ("judged", "from", "gate")
"""Columns of names that people choose: they are cut, in this order, where a line would be too long."""
_FIGURES = ("figure", "limit", "margin", "observed")
_LEAST = 12


def text_lines(facts: Json) -> list[str]:
    """What failed and why, then every verdict, scenario by scenario; the summary last."""
    lines = wrapped(
        f"{facts['cohort']}: gates on what speaks for the decision (latencies are {facts['latency_label']} means, not measurements)"
    )
    explained: set[str] = set()
    for of in facts["scenarios"]:
        standing = STANDINGS.get(of["standing"], "beside the decision")
        lines += ["", plain(f"{of['scenario']} ({standing})")]
        refused = {bound: why for bound, why in of["refused"].items() if why is not None}
        if "nominal" in refused:
            lines += wrapped(refused["nominal"], "  ")
        elif refused:
            lines += wrapped(f"{refused['conservative']}, at the bad ends of the declared ranges", "  ")
        lines += _verdicts(of, explained)
    if facts["decision"]["verdicts"] or facts["decision"]["not_judged"]:
        lines += ["", "the decision", *_verdicts(facts["decision"], explained)]
    lines += ["", *_rules(facts)]
    return [*lines, *wrapped(facts["summary"]["words"])]


def _verdicts(of: Json, explained: set[str]) -> list[str]:
    """The verdicts of a scenario, or of the decision: those that fail in their own words, then all, then what is not judged."""
    rows = sorted(of["verdicts"], key=lambda row: _ORDER.index(row["effect"]))
    lines: list[str] = []
    for row in rows:
        if row["verdict"] != "pass":
            lines += _failure(row, why=row["gate"] not in explained)
            explained.add(row["gate"])
    if rows:
        lines += [f"  {line}" for line in _fitted([_HEAD, *map(_cells, rows)])]
    groups: dict[str, list[str]] = {}
    for one in of["not_judged"]:
        groups.setdefault(one["reason"], []).append(one["gate"])
    for reason, gates in groups.items():
        lines += wrapped(f"not judged: {', '.join(gates)}: {one_line(reason)}", "  ")
    return [*lines, f"  {counted(rows, len(of['not_judged']))}"]


def _failure(row: Json, *, why: bool) -> list[str]:
    """A verdict that is no pass in its own words, where its gate is written, whose it is and, where it is the first, why it exists."""
    label = {"blocks": "FAILS", "informs": "informs", "waived": "waived", "beside": "beside"}[row["effect"]]
    lines = wrapped(one_line(row["words"]), f"  {label:<8}", " " * 10)
    about = described(row) if why else f"owner {row['owner']}"
    lines += wrapped(f"{row['gate']} at {at(row)}, {one_line(about)}", " " * 10, " " * 10)
    if row["exception"] is not None:
        lines += wrapped(one_line(waived(row["exception"])), " " * 10, " " * 10)
    return lines


def overridden(facts: Json) -> list[str]:
    """What of the cohort stands in the place of what, gates and the decision rule."""
    rows = [row for of in (*facts["scenarios"], facts["decision"]) for row in (*of["verdicts"], *of["not_judged"])]
    said = [
        f"overridden: {name}: {row['file']} of the cohort instead of {row['overrides']}"
        for name, row in [*((row["gate"], row) for row in rows), ("the decision", facts["decision_rule"])]
        if row["overrides"] is not None
    ]
    return [one_line(one) for one in dict.fromkeys(said)]


def at(row: Json) -> str:
    """Where a gate is written: file and line where they are at hand."""
    return plain(f"{row['path']}:{row['line']}" if row["path"] else row["file"])


def described(row: Json) -> str:
    """Who answers for a gate, and why it exists."""
    return f"owner {row['owner']}" + (f": {row['rationale']}" if row["rationale"] else "")


def waived(exception: Json) -> str:
    """Until when an exception holds, why, and who answers for it."""
    return f"waived until {exception['expires']}: {exception['reason']} ({exception['owner']})"


def one_line(text: str) -> str:
    """A text whose breaks are single spaces."""
    return " ".join(text.split())


def limit_from(row: Json) -> str:
    """Where a limit comes from."""
    source = str(row["limit_source"])
    if source.startswith("baselines."):
        return f"{row['limit_times']:.4g} x best {source.removeprefix('baselines.')}"
    if source.startswith("metrics."):
        return f"{row['limit_times']:.4g} x {source.removeprefix('metrics.')}"
    return f"objective {source.removeprefix('objectives.')}" if source.startswith("objectives.") else source


def judged(row: Json) -> str:
    """What a gate judges: a metric, and how one figure is made of those of the buckets."""
    buckets = f" {' '.join(row['buckets'])}" if row["buckets"] else ""
    if row["aggregate"] == "share":
        return f"share of {row['metric']}{buckets} within {shown(row['within'], 's')}"
    aggregate = f"{str(row['aggregate']).replace('_', '-')} " if row["aggregate"] else ""
    return f"{aggregate}{row['metric']}{buckets}"


def _cells(row: Json) -> list[str]:
    observed = sum(one["provenance"] == "observed" for one in row["rests_on"])
    return [
        row["gate"],
        judged(row),
        row["bound"] or "-",
        f"{row['verdict']}, waived" if row["waived"] else row["verdict"],
        shown(row["figure"], row["unit"]),
        f"{SYMBOLS[row['op']]} {shown(row['limit'], row['unit'])}",
        limit_from(row),
        shown(row["margin"], "ratio"),
        f"{observed} of {len(row['rests_on'])}",
    ]


def _fitted(rows: list[list[str]]) -> list[str]:
    """A table that is no wider than the page, as long as cutting the names that people choose can make it so."""
    rows = used(rows)
    shrinking = [rows[0].index(name) for name in _SHRINKING]
    for at in shrinking:
        widest = max(len(row[at]) for row in rows)
        excess = max(map(len, _table(rows))) - (WIDTH - 2)
        if excess > 0:
            cut = max(_LEAST, widest - excess)
            rows = [[*row[:at], plain(row[at], cut), *row[at + 1 :]] for row in rows]
    return _table(rows)


def _table(rows: list[list[str]]) -> list[str]:
    left = [at for at, name in enumerate(rows[0]) if name not in _FIGURES]
    return columns(rows, left=left)


def _rules(facts: Json) -> list[str]:
    """What is to be known of overrides, exceptions and the date."""
    lines = [line for said in overridden(facts) for line in wrapped(said)]
    for one in facts["exceptions"]:
        if one["standing"] == "other_cohort":
            continue
        label, until = ("waived", "until") if one["standing"] == "holds" else ("expired", "on")
        where = f" for {', '.join(one['topologies'])}" if one["topologies"] else ""
        said = f"{label}: {one['gate']}{where} {until} {one['expires']}: {one['reason']} ({one['owner']}), {at(one)}"
        lines += wrapped(one_line(said))
    return [*lines, *([f"as of {facts['as_of']}"] if facts["as_of"] else [])]
