"""What the replay of the requests came to in the scenarios that speak for a topology: as facts, and as a part of the page."""

from typing import Any

from pipelines.cli.explain_layout import columns, wrapped
from pipelines.cli.explain_reading import BOUNDS, Receipt
from pipelines.cli.log_text import plural
from pipelines.cli.replay_words import why_not, worst_minute
from pipelines.gates.wording import shown

Json = dict[str, Any]

_OF_COHORT = ("which", "reason", "when_memory_is_full", "window_s")
_OF_SCENARIO = ("scenario", "bound", "reason", "figures", "worst_minute")
_COLUMNS = {
    "goodput": ("replayed_goodput", "ratio"),
    "of tokens": ("replayed_goodput_tokens", "ratio"),
    "TTFT": ("replayed_ttft_mean_s", "s"),
    "TPOT": ("replayed_tpot_mean_s", "s"),
    "stall": ("replayed_stall_s", "s"),
    "above ceiling": ("replayed_time_above_ceiling_s", "s"),
    "most waiting": ("replayed_peak_queue", "count"),
    "most KV": ("replayed_peak_kv", "ratio"),
    "preempted": ("replayed_preemptions", "count"),
}
_MARKED = "TTFT and TPOT are means; * with every declared range at its bad end"
_ABOUT = "The requests of the log, one by one, in order of arrival, through the schedulers of each scenario: modeled, not measured."


def replay(receipt: Receipt) -> Json:
    """What of the cohort was replayed, and the figures of the speaking scenarios under both bounds."""
    of = receipt.json["replay"]
    speaking = [row["scenario"] for row in receipt.speaking]
    order = {name: place for place, name in enumerate(speaking)}
    own = sorted((row for row in of["scenarios"] if row["scenario"] in order), key=lambda row: order[row["scenario"]])
    return {name: of[name] for name in _OF_COHORT} | {
        "sample_requests": None if of["sample"] is None else len(of["sample"]["requests"]),
        "replayed": len({row["scenario"] for row in of["scenarios"] if row["reason"] is None}),
        "scenarios": [{name: row[name] for name in _OF_SCENARIO} for row in own],
    }


def replay_lines(facts: Json) -> list[str]:
    """A table of the speaking scenarios, and the minute in which each is worst."""
    of = facts["replay"]
    if of["reason"] is not None:
        return [why_not(of["reason"])]
    rows = {(row["scenario"], row["bound"]): row for row in of["scenarios"]}
    names = list(dict.fromkeys(row["scenario"] for row in of["scenarios"]))
    table = [["scenario", *_COLUMNS, "goodput*"]]
    table += [_cells(name, *(rows[name, bound]["figures"] for bound in BOUNDS)) for name in names]
    lines = [*wrapped(_ABOUT), *columns(table), *wrapped(_MARKED)]
    for name in names:
        lines += wrapped(f"{name}: {_said(rows[name, BOUNDS[0]])}")
    return [*lines, *_how(of)]


def _how(of: Json) -> list[str]:
    """What was replayed, and what of it can be checked without the log."""
    count, sample = of["replayed"], of["sample_requests"]
    return wrapped(
        f"{count} {plural(count, 'scenario')} replayed ({of['which']}); full KV memory: {of['when_memory_is_full']}. "
        f"The verifier replays {sample} {plural(sample, 'request')}, from the busiest minute on."
    )


def _cells(name: str, nominal: Json | None, conservative: Json | None) -> list[str]:
    figures = [shown(None if nominal is None else nominal[key], unit) for key, unit in _COLUMNS.values()]
    return [name, *figures, shown(None if conservative is None else conservative["replayed_goodput"], "ratio")]


def _said(row: Json) -> str:
    return worst_minute(row["worst_minute"]) if row["reason"] is None else why_not(row["reason"])
