"""The page of ``phaseledger explain``: the question, the decision, and what was compared."""

from collections.abc import Callable
from typing import Any

from pipelines.cli.explain_layout import WIDTH, columns, named, used, wrapped
from pipelines.cli.explain_replay import replay_lines
from pipelines.cli.explain_text_changes import changes_lines, frontier_lines, uncertainty_lines
from pipelines.cli.explain_text_lanes import lanes_lines
from pipelines.cli.explain_words import FIGURES, STANDINGS, four, load, quantity
from pipelines.cli.log_text import plural
from pipelines.gates.wording import SYMBOLS, shown

Json = dict[str, Any]

_PARTS = {
    "pools": "pool",
    "queues": "queue",
    "state_transfers": "transfer",
    "failure_edges": "failure edge",
}
_MOST_REFUSALS = 12

_BAD_ENDS = "* with every declared range at its bad end"
_MARKS: list[tuple[str, Callable[[Json], bool]]] = [
    (_BAD_ENDS, lambda figure: bool(figure["bound"] == "conservative")),
    ("! fails", lambda figure: bool(figure["verdict"] == "fail")),
]
_AGAINST_FLOORS = (
    "What helps where no number of workers does: a faster prefill, decode step or transfer, a larger chunk budget, or "
    "another objective."
)


def page(facts: Json) -> list[str]:
    """All parts of the page, each under its heading."""
    question = facts["question"]
    title = f"{question['cohort']}: {question['title']} (latencies are modeled means, not measurements)"
    parts: list[tuple[str, Callable[[Json], list[str]]]] = [
        ("The question", _question),
        ("The decision", _decision),
        ("What was compared", _compared),
        ("Which lane shrank, which grew", lanes_lines),
        ("What was not chosen, what was refused", _refused),
        ("Queues and ceilings", _queues),
        ("What nobody has measured", uncertainty_lines),
        ("What would change the decision", changes_lines),
        ("The frontier: what each number of parts and GPUs could promise", frontier_lines),
        ("The replay of the requests", replay_lines),
        ("Truth boundary", _boundary),
    ]
    lines = wrapped(title)
    for number, (heading, of) in enumerate(parts, start=1):
        lines += ["", f"{number}. {heading}", *of(facts)]
    return lines


def _question(facts: Json) -> list[str]:
    of = facts["question"]
    lines = [("requests", _requests(of))]
    for row in of["buckets"]:
        rate = "" if row["rate_rps"] is None else f" at {four(row['rate_rps'])}/s"
        means = f"mean prompt {four(row['prompt_tokens_mean'])}, mean output {four(row['output_tokens_mean'])} tokens"
        lines.append((f"  {row['bucket']}", f"{row['requests']:,}{rate}, {means}"))
    objectives = ", ".join(
        f"{row['path'].removeprefix('objectives.')} {quantity(row['value'], row['unit'], row['path'])}"
        for row in of["objectives"]
    )
    kept = "" if of["kept"] == of["scenarios"] else f", of which {of['kept']:,} are in the receipt"
    lines.append(("objectives", objectives))
    lines.append(("inventory", f"{four(of['gpus'])} GPUs; {of['scenarios']:,} scenarios fit it{kept}"))
    return named([*lines, *(("warning", warning) for warning in of["warnings"])])


def _requests(of: Json) -> str:
    if of["rate_rps"] is not None:
        arrivals = f"at {four(of['rate_rps'])} requests/s"
    else:
        arrivals = f"in a closed loop of {four(of['concurrency'] or 0)} at once"
    over = "" if of["duration_s"] is None else f" over {four(of['duration_s'])} s"
    bursts = (
        "" if of["arrival_scv"] is None else f"; squared variation of gaps {four(of['arrival_scv'])} (independent: 1)"
    )
    dropped = f"; {of['rows_dropped']:,} invalid rows of the log dropped" if of["rows_dropped"] else ""
    return f"{of['requests']:,} ({of['format']}, {of['provenance']}) {arrivals}{over}{bursts}{dropped}"


def _decision(facts: Json) -> list[str]:
    of = facts["decision"]
    if of["scenario"] is None:
        said = wrapped(f"No topology qualifies: {of['reason']}.")
    else:
        said = wrapped(f"Choose {of['topology']}, as {of['scenario']}: {of['reason']}.")
    for line in of["rules"]:
        said += wrapped(line)
    return said


def _compared(facts: Json) -> list[str]:
    rows = [["scenario", "GPUs", "parts", "made of", "standing", "least margin", "cost/M"]]
    for of in facts["compared"]:
        counts = [(of["parts"][kind], word) for kind, word in _PARTS.items() if of["parts"].get(kind)]
        cost = of["cost_per_million_tokens"]
        rows.append(
            [
                of["scenario"],
                str(of["gpus"]),
                four(of["operating_parts"]),
                ", ".join(f"{count} {plural(count, word)}" for count, word in counts),
                STANDINGS[of["standing"]],
                shown(of["margin"], "ratio"),
                "-" if cost is None else four(cost),
            ]
        )
    marks = [mark for mark, holds in _MARKS if any(holds(one) for of in facts["compared"] for one in of["figures"])]
    return [
        *columns(used(rows), left=(0, 3, 4)),
        "",
        *_figures(facts["compared"]),
        *(["; ".join(marks)] if marks else []),
    ]


def _figures(compared: list[Json]) -> list[str]:
    """Each figure against its limit, a column for each topology; two tables where one would be too wide."""
    gates = list(dict.fromkeys(figure["gate"] for of in compared for figure in of["figures"]))
    own = [{figure["gate"]: figure for figure in of["figures"]} for of in compared]
    rows = [["figure (margin)", "limit", *(of["topology"] for of in compared)]]
    for gate in gates:
        found = [figures[gate] for figures in own if gate in figures]
        alone = len({figure["limit"] for figure in found}) == 1
        limit = _limit(found[0]) if alone else "of a bucket" if found[0]["judged_by_bucket"] else "by scenario"
        rows.append([_named_figure(found[0]), limit, *(_cell(figures.get(gate), alone=alone) for figures in own)])
    lines = columns(rows, left=range(len(rows[0])))
    if len(compared) == 1 or max(map(len, lines)) <= WIDTH:
        return lines
    half = (len(compared) + 1) // 2
    return [*_figures(compared[:half]), *_figures(compared[half:])]


def _named_figure(figure: Json) -> str:
    of_metric = FIGURES.get(figure["metric"], figure["metric"])
    name = of_metric if figure["by_bucket"] is None else f"{figure['gate']}: {figure['by_bucket']} {of_metric}"
    return f"{name}{'*' if figure['bound'] == 'conservative' else ''}{'' if figure['blocking'] else ' (informs)'}"


def _limit(figure: Json) -> str:
    return f"{SYMBOLS[figure['op']]} {shown(figure['limit'], figure['unit'])}"


def _cell(figure: Json | None, *, alone: bool) -> str:
    if figure is None:
        return ""
    if figure["verdict"] == "refused":
        return "refused (waived)" if figure["waived"] else "refused"
    margin = "" if figure["margin"] is None else f" ({shown(figure['margin'], 'ratio')})"
    limit = "" if alone else f" {_limit(figure)}"
    mark = "" if figure["verdict"] == "pass" else "! "
    waived = " (waived)" if figure["waived"] else ""
    return f"{mark}{shown(figure['figure'], figure['unit'])}{limit}{margin}{waived}"


def _refused(facts: Json) -> list[str]:
    lines: list[str] = []
    for row in facts["not_chosen"]:
        verb = "comes nearest: " if row["status"] == "nearest_miss" else ""
        lines += wrapped(f"{row['topology']}: {row['scenario']} {verb}{row['reason']}")
    for row in facts["refused"][:_MOST_REFUSALS]:
        only = "" if row["bound"] == "nominal" else " at the bad ends only"
        count = len(row["scenarios"])
        lines += wrapped(f"{count} of {row['of']} {row['topology']} refused{only}: {row['reason']}")
    left = len(facts["refused"]) - _MOST_REFUSALS
    if left > 0:
        lines.append(f"and {left} more {plural(left, 'reason')}: see --format json")
    if not all(row["more_workers_help"] for row in facts["refused"]):
        lines += wrapped(_AGAINST_FLOORS)
    return lines or ["nothing"]


def _queues(facts: Json) -> list[str]:
    rows = [
        ["scenario", "dominant queue", "mean wait", "tightest load", "utilization", "ceiling", "used", "at bad ends"]
    ]
    conservative = {of["scenario"]: of for of in facts["queues"] if of["bound"] == "conservative"}
    for of in facts["queues"]:
        if of["bound"] != "nominal":
            continue
        queue, at_bad_ends = of["dominant_queue"], conservative[of["scenario"]]
        same = at_bad_ends["tightest"] == of["tightest"]
        rows.append(
            [
                of["scenario"],
                queue or "- (refused)",
                "-" if queue is None else shown(of["waits"].get(f"{queue}_s"), "s"),
                load(of["tightest"]),
                *(shown(of[name], "ratio") for name in ("utilization", "ceiling", "pressure")),
                f"{shown(at_bad_ends['pressure'], 'ratio')}{'' if same else ' ' + load(at_bad_ends['tightest'])}",
            ]
        )
    return columns(rows, left=(0, 1, 3))


def _boundary(facts: Json) -> list[str]:
    of = facts["truth_boundary"]
    check = "This page repeats the receipt: phaseledger verify recomputes it."
    return [*wrapped(of["statement"]), *wrapped(f"Every latency here is labelled {of['latency_label']}. {check}")]
