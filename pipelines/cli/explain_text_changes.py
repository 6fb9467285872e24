"""The parts of the page on what is unmeasured, what would change the decision, and the frontier."""

from collections import Counter
from typing import Any

from pipelines.cli.explain_layout import columns, named, wrapped
from pipelines.cli.explain_reading import RATE_INPUT
from pipelines.cli.explain_words import STANDINGS, four, percent_change, quantity, regime
from pipelines.cli.log_text import plural
from pipelines.gates.wording import shown

Json = dict[str, Any]

_MOST_STEPS = 4
"""Numbers of GPUs of one line of the frontier: beyond, the last of them stands for those between."""


def uncertainty_lines(facts: Json) -> list[str]:
    """The share that nobody observed, what to measure first, and what no input expresses."""
    of = facts["uncertainty"]
    by_block = Counter(path.partition(".")[0] for path in of["unobserved"])
    blocks = ", ".join(f"{block} {count}" for block, count in by_block.items())
    share = shown(of["unobserved_share"], "ratio")
    lines = wrapped(
        f"{len(of['unobserved'])} of {of['inputs']} inputs behind the decision ({share}) are not observed"
        + (f": {blocks}" if blocks else "")
    )
    if of["measure_next"]:
        rows = [["measure next", "declared", "the decision changes at", "factor", "there"]]
        lines += columns(rows + [_to_measure(row) for row in of["measure_next"]], left=(0, 4))
    else:
        lines.append("no single unobserved input within 1/16 to 16 times its value changes the decision")
    lines += _screening(of["screening"])
    return [*lines, *wrapped(f"not in any input: {'; '.join(of['unmeasured'])}")]


def _screening(rows: list[Json]) -> list[str]:
    """Scenarios whose figures are to be replayed or measured before they decide; both bounds in one line if alike."""
    bounds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in rows:
        bounds.setdefault((row["scenario"], tuple(row["marks"])), []).append(row["bound"])
    return [
        line
        for (scenario, marks), under in bounds.items()
        for line in wrapped(
            f"for screening only: {scenario} ({' and '.join(under)}): {'; '.join(map(regime, marks))}",
        )
    ]


def _to_measure(row: Json) -> list[str]:
    declared, even = quantity(row["value"], row["unit"], row["path"]), row["break_even"]
    if even is None:
        return [row["path"], declared, "-", "-", ""]
    value = quantity(even["value"], row["unit"], row["path"])
    return [row["path"], declared, value, four(even["factor"]), f"{even['scenario']} {_event(even['event'])}"]


def _event(event: str) -> str:
    return {"fails": "no longer passes", "passes": "passes"}[event]


def changes_lines(facts: Json) -> list[str]:
    """The chosen scenario first, then what would mend the others."""
    chosen = [row for row in facts["changes"] if row["standing"] == "chosen"]
    lines: list[str] = []
    for row in chosen + [row for row in facts["changes"] if row["standing"] != "chosen"]:
        lines += _of_scenario(row)
    return lines


def _of_scenario(row: Json) -> list[str]:
    """All of the chosen scenario; of another, in a sentence, what would mend it or how much room it has."""
    margin = "" if row["margin"] is None else f", least margin {shown(row['margin'], 'ratio')}"
    name = f"{row['scenario']} ({STANDINGS[row['standing']]}{margin})"
    if row["standing"] != "chosen":
        return wrapped(f"{name}: {_mending(row) if _missed(row) else _rate(row)}")
    sensitive = "" if row["most_sensitive"] is None else f": most sensitive to {row['most_sensitive']}"
    less = [_one_less(one) for one in row["one_worker_less"]]
    lines = [*wrapped(f"{name}{sensitive}"), *_nearest(row), *wrapped(_rate(row), "  ")]
    return [*lines, *(wrapped(f"one worker less: {'; '.join(less)}", "  ") if less else [])]


def _nearest(row: Json) -> list[str]:
    if not row["nearest"]:
        return wrapped("no single input within 1/16 to 16 times its value makes it fail", "  ")
    rows = [["nearest break-evens", "declared", "fails at", "factor", "provenance"]]
    rows += [
        [
            one["path"],
            quantity(one["declared"], one["unit"], one["path"]),
            quantity(one["value"], one["unit"], one["path"]),
            four(one["factor"]),
            one["provenance"],
        ]
        for one in row["nearest"]
    ]
    more = row["break_evens"] - len(row["nearest"])
    lines = [*columns(rows, left=(0, 4)), *([f"and {more} further away"] if more else [])]
    return [f"  {line}" for line in lines]


def _mending(row: Json) -> str:
    fix, more = row["fix"], row["more_gpus"]
    if fix is None:
        mended = "no input alone, within 1/16 to 16 times its value, makes it pass"
    else:
        declared, value = (quantity(fix[name], fix["unit"], fix["path"]) for name in ("declared", "value"))
        mended = f"would pass with {fix['path']} {value} in place of {declared} (times {four(fix['factor'])})"
    larger = (
        "no larger inventory looked at does" if more is None else f"on {more['gpus']} GPUs, {more['scenario']} does"
    )
    by_rate = fix is not None and row["rate"] is not None and fix["path"] == row["rate"]["path"]
    return f"{mended}; {larger}" + ("" if by_rate else f"; {_rate(row)}")


def _rate(row: Json) -> str:
    of = row["rate"]
    if of is None:
        return (
            "less traffic alone does not mend it"
            if _missed(row)
            else "16 times the traffic alone does not make it fail"
        )
    unit, said = ("requests/s", "") if of["path"] == RATE_INPUT else ("count", " requests at once")
    ends = f"from {quantity(of['now'], unit)} to {quantity(of['value'], unit)}{said} ({percent_change(of['factor'])})"
    verdict = {"fail": "fails", "refused": "has no figure"}.get(of["verdict"] or "", "is not passed")
    gate = "" if of["gate"] is None else f"; beyond, {of['gate']} {verdict}"
    if of["event"] == "fails":
        return f"traffic may grow {ends}{gate}"
    return f"traffic must fall {ends} for it to pass{gate.replace('beyond', 'above')}"


def _missed(row: Json) -> bool:
    return bool(row["standing"] == "nearest_miss")


def _one_less(one: Json) -> str:
    workers, pool = one["workers"], one["pool"]
    if one["load_factor"] is None:
        return f"{pool} has {workers}, none to take away"
    less = f"{pool} {workers} -> {workers - 1}, load per worker times {four(one['load_factor'])}"
    margin = "" if one["margin"] is None else f" (margin {shown(one['margin'], 'ratio')})"
    if one["passes"]:
        return f"{less}, still passes{margin}"
    if one["oscillates"]:
        return f"{less}, no longer passes{margin}: consolidating to {workers - 1} would oscillate"
    return f"{less}, does not pass either{margin}"


def frontier_lines(facts: Json) -> list[str]:
    """For each figure, what each number of operating parts and GPUs could promise."""
    lines: list[tuple[str, str]] = []
    for row in facts["frontier"]:
        first, *others = row["steps"]
        said = [f"{_step(first)} {plural(first['gpus'], 'GPU')} ({first['scenario']})", *map(_step, others)]
        if others:
            said[-1] += f" ({others[-1]['scenario']})"
        if len(said) > _MOST_STEPS:
            said = [*said[: _MOST_STEPS - 1], f"({len(said) - _MOST_STEPS} between)", said[-1]]
        parts = f"{four(row['operating_parts'])} {plural(row['operating_parts'], 'part')}"
        lines.append((f"{row['figure']}, {parts}", ", ".join(said)))
    return named(lines) or ["empty: no scenario is within the other objectives under both bounds"]


def _step(step: Json) -> str:
    return f"{shown(step['value_s'], 's')} on {step['gpus']}"
