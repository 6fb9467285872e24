"""What changed, in the words and units of a person: an input, the requests, the rules, a decision."""

from collections.abc import Callable
from typing import Any

from pipelines.cli.explain_words import four, quantity
from pipelines.cli.log_text import plural
from pipelines.gates.wording import SYMBOLS, shown

Json = dict[str, Any]

NONE_QUALIFIES = "none qualifies"
NOT_DECLARED = "not declared"
_BY_DEFAULT = "not declared: default"
_LONGEST = 60
FEW = 3

_REQUESTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "kind": ("arrivals", lambda value: {"open": "of the log", "rate": "at a rate", "closed": "closed loop"}[value]),
    "requests": ("requests", lambda value: f"{value:,}"),
    "duration_s": ("duration", lambda value: shown(value, "s")),
    "rate_rps": ("rate", lambda value: quantity(value, "requests/s")),
    "arrival_scv": ("squared variation of gaps", lambda value: "-" if value is None else four(value)),
    "prompt_tokens_mean": ("mean prompt", lambda value: four(value)),
    "uncached_tokens_mean": ("of which uncached", lambda value: four(value)),
    "prompt_tokens_max": ("longest prompt", lambda value: four(value)),
    "output_tokens_mean": ("mean output", lambda value: four(value)),
    "output_tokens_max": ("longest output", lambda value: four(value)),
    "bucket_edges_tokens": ("bucket edges", lambda value: " ".join(map(str, value)) or "none"),
    "prefix_cache": (
        "prefix cache",
        lambda value: "none" if value is None else f"hits {shown(value['hit_ratio'], 'ratio')}",
    ),
    "format": ("format", str),
    "rows_read": ("rows read", lambda value: f"{value:,}"),
    "rows_dropped": ("rows dropped", lambda value: f"{value:,}"),
    "provenance": ("provenance", str),
    "source": ("source", lambda value: cut(value)),
    "note": ("note", lambda value: cut(value)),
}
"""What is said of requests that differ, in this order."""

_MEMBERS = {"here": "concerns the cohort", "op": "comparison"}


def cut(text: Any, longest: int = _LONGEST) -> str:
    """A text on one line that is no longer than a cell has room for."""
    line = " ".join(str(text).split()) if text is not None else "none"
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def decided(of: Json) -> str:
    """A decision in a few words."""
    if of["scenario"] is None:
        return NONE_QUALIFIES
    if of["accepted"]:
        return str(of["scenario"])
    against = ", ".join(dict.fromkeys(_objection(one) for one in of["objections"]))
    return f"{of['scenario']}, not accepted: {against}"


def _objection(one: Json) -> str:
    return f"exception of {one['gate']} expired" if one["kind"] == "exception" else f"gate {one['gate']}"


def value(row: Json | None, change: Json, member: str = "value") -> str:
    """One end of an input as people write it; to all its digits, where four would hide the change."""
    if row is None:
        return NOT_DECLARED
    if row[member] is None:
        return "none"
    both = [None if end is None else end[member] for end in (change["old"], change["new"])]
    written = [quantity(one, change["unit"], change["path"]) for one in both]
    if both[0] != both[1] and written[0] == written[1]:
        return cut(f"{row[member]!r} {change['unit']}")
    return cut(quantity(row[member], change["unit"], change["path"]))


def said_input(change: Json) -> str:
    """What of an input changed: its value, its range, whose figure it is; sources and notes where nothing else did.

    >>> row = {
    ...     "value": 0.3,
    ...     "low": None,
    ...     "high": 0.4,
    ...     "conservative": 0.4,
    ...     "provenance": "supplied",
    ...     "source": None,
    ...     "note": None,
    ... }
    >>> change = {
    ...     "path": "service.admission",
    ...     "unit": "s",
    ...     "old": row,
    ...     "new": row | {"value": 0.2, "provenance": "observed"},
    ... }
    >>> said_input(change)
    '300 ms -> 200 ms; supplied -> observed'
    """
    old, new = change["old"], change["new"]
    if old is None or new is None:
        return f"{value(old, change)} -> {value(new, change)}"
    said = []
    if old["value"] != new["value"]:
        said.append(f"{value(old, change)} -> {value(new, change)}")
    ends = [name for name in ("low", "high") if old[name] != new[name]]
    said += [f"{name} {value(old, change, name)} -> {value(new, change, name)}" for name in ends]
    if old["provenance"] != new["provenance"]:
        said.append(f"{old['provenance']} -> {new['provenance']}")
    remarks = [name for name in ("source", "note") if old[name] != new[name]]
    return "; ".join(said or [f"{name} {cut(old[name])} -> {cut(new[name])}" for name in remarks])


def declared(row: Json | None, change: Json) -> str:
    """An input as one receipt has it, a line for each thing that it says and the other does not."""
    if row is None:
        return NOT_DECLARED
    other = change["new"] if row is change["old"] else change["old"]
    first = value(row, change)
    for name, word in (("low", "from"), ("high", "to")):
        if row[name] is not None:
            first += f", {word} {value(row, change, name)}"
    if row["note"] == _BY_DEFAULT:
        return f"{first} (default)"
    if other is None or row["provenance"] != other["provenance"]:
        first += f" ({row['provenance']})"
    remarks = [
        name for name in ("source", "note") if row[name] is not None and (other is None or row[name] != other[name])
    ]
    return "\n".join([first, *(f"  {name}: {cut(row[name], 2 * _LONGEST)}" for name in remarks)])


def said_step(step: Json, old: Json, new: Json) -> list[str]:
    """What a step changes, a clause a line; of many inputs and rules only how many."""
    lines = []
    inputs = step["inputs"]
    if len(inputs) == 1 and not step["requests"] and not step["rules"]:
        return said_input(inputs[0]).split("; ")
    if len(inputs) <= FEW:
        lines += [f"{row['path']}: {said_input(row)}" for row in inputs]
    else:
        counts = [
            (sum(row["old"] is None for row in inputs), "appear"),
            (sum(row["new"] is None for row in inputs), "disappear"),
            (sum(row["old"] is not None and row["new"] is not None for row in inputs), "change"),
        ]
        said = [
            f"{count} {plural(count, 'input')} {word}{'s' if count == 1 else ''}" for count, word in counts if count
        ]
        lines.append(f"{', '.join(said)}, listed below")
    if step["requests"]:
        lines += said_requests(step["requests"], old["requests"], new["requests"])
    rules = [f"{said_rule(row)}" for row in step["rules"]]
    return lines + (rules if len(rules) <= FEW else [*rules[:FEW], f"and {len(rules) - FEW} more, listed below"])


def said_requests(members: list[str], old: Json, new: Json) -> list[str]:
    """What of the requests changed."""
    said = [
        f"{name} {words(old[key])} -> {words(new[key])}"
        for key, (name, words) in _REQUESTS.items()
        if old[key] != new[key]
    ]
    if said:
        return said
    if "requests_sha256" in members:
        return [f"other requests: {old['requests_sha256'][:12]} -> {new['requests_sha256'][:12]}"]
    return [", ".join(members)]


def said_rule(change: Json) -> str:
    """One change of the rules as a clause."""
    label = {"gate": f"gate {change['name']}", "exception": f"exception of {change['name']}", "date": "as of"}.get(
        change["kind"], change["name"]
    )
    if change["kind"] == "date":
        return f"as of {change['old']['as_of'] or 'no date'} -> {change['new']['as_of'] or 'no date'}"
    if change["change"] != "changed":
        row = change["new"] or change["old"]
        about = _gate(row) if change["kind"] == "gate" else _exception(row)
        return f"{label} {change['change']}: {about}"
    unit = (change["new"] or {}).get("unit", "")
    members = [_member(one, unit) for one in change["members"]]
    return f"{label}: {'; '.join(members)}"


def _gate(row: Json) -> str:
    effect = "blocks" if row["blocking"] else "informs"
    bound = f" ({row['bound']})" if row["bound"] else ""
    over = f" instead of {row['overrides']}" if row["overrides"] else ""
    return f"{row['metric']}{bound} {SYMBOLS[row['op']]} {_limit(row)}, {effect}, of {row['file']}{over}"


def _limit(row: Json) -> str:
    if row["limit_metric"] or row["limit_baseline"]:
        return f"{row['limit_times']:.4g} x {row['limit_metric'] or 'best ' + row['limit_baseline']}"
    return _figure(row["limit"], row["unit"])


def _exception(row: Json) -> str:
    where = f" for {', '.join(row['topologies'].split())}" if row["topologies"] else ""
    return f"until {row['expires']}{where}, {row['reason']} ({row['owner']}), {row['standing'].replace('_', ' ')}"


def _figure(value: Any, unit: str) -> str:
    return value.replace("objectives.", "objective ") if isinstance(value, str) else shown(value, unit)


def _member(one: Json, unit: str) -> str:
    if one["member"] in ("limit", "within"):
        ends = [_figure(one[end], unit if one["member"] == "limit" else "s") for end in ("old", "new")]
    else:
        ends = [_written(one[end]) for end in ("old", "new")]
    return f"{_MEMBERS.get(one['member'], one['member'].replace('_', ' '))} {ends[0]} -> {ends[1]}"


def _written(given: Any) -> str:
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, dict):
        return cut(", ".join(f"{name} {number:g}" for name, number in given.items()))
    return cut(" ".join(given) if isinstance(given, list) else given)
