"""The part of the page on lanes: a table for each pair of scenarios, and a sentence for each bucket."""

from typing import Any

from pipelines.cli.explain_lanes import LANES
from pipelines.cli.explain_layout import columns, wrapped
from pipelines.cli.explain_words import change
from pipelines.gates.wording import shown

Json = dict[str, Any]

_SHORT = {
    "prefill_execution": "prefill",
    "first_decode_step": "first step",
    "remaining_generation": "remaining",
}
_FIRST_TOKENS = (
    "Where decode emits the first token, TTFT counts the lanes up to the first decode step; where prefill does, up to "
    "the end of prefill."
)


def lanes_lines(facts: Json) -> list[str]:
    """Every pair, or that there is none."""
    if not facts["lanes"]:
        return ["There is no second scenario to hold lanes against."]
    lines: list[str] = []
    for at, pair in enumerate(facts["lanes"]):
        lines += [*([""] if at else []), *_pair(pair)]
    if any(pair["first_token_elsewhere"] and pair["buckets"] for pair in facts["lanes"]):
        lines += wrapped(_FIRST_TOKENS)
    return lines


def _pair(pair: Json) -> list[str]:
    baseline = f"{pair['baseline']} ({pair['baseline_gpus']} GPUs, {pair['baseline_is']})"
    lines = wrapped(f"From {baseline} to {pair['scenario']} ({pair['scenario_gpus']} GPUs):")
    if pair["refused"]:
        for row in pair["refused"]:
            lines += wrapped(f"{row['scenario']} is refused, so it has no lanes: {row['reason']}", "  ")
        return lines
    lines += _table(pair["buckets"])
    for row in pair["buckets"]:
        lines += wrapped(_sentence(row), "  ")
    return [*lines, *wrapped(_decode(pair), "  ")]


def _table(buckets: list[Json]) -> list[str]:
    """Changes of the lanes, without lanes that change nowhere."""
    moving = [at for at in range(len(LANES)) if any(row["lanes"][at]["change_s"] for row in buckets)]
    heads = [_SHORT.get(LANES[at], LANES[at].replace("_", " ").replace("kv", "KV")) for at in moving]
    rows = [["bucket", *heads, "TTFT", "TPOT"]]
    for row in buckets:
        changes = [row["lanes"][at]["change_s"] for at in moving]
        totals = [row[name]["change_s"] for name in ("ttft", "tpot")]
        rows.append([row["bucket"], *("-" if moved is None else change(moved) for moved in (*changes, *totals))])
    return columns(rows)


def _sentence(row: Json) -> str:
    shrank, grew = row["shrank_most"], row["grew_most"]
    shrinks = "no lane shrinks" if shrank is None else f"{_lane(shrank)} shrinks most, {_ends(shrank)}"
    grows = "no lane grows" if grew is None else f"{_lane(grew)} grows most, {_ends(grew)}"
    return f"{row['bucket']}: {shrinks}; {grows}. TTFT {_ends(row['ttft'])}"


def _lane(row: Json) -> str:
    return str(row["lane"]).replace("_", " ").replace("kv", "KV")


def _ends(moved: Json) -> str:
    return " -> ".join(shown(moved[name], "s") for name in ("baseline_s", "scenario_s"))


def _from_to(moved: Json) -> str:
    by = "" if moved["change_s"] is None else f" ({change(moved['change_s'])})"
    return f"{_ends(moved)}{by}"


def _decode(pair: Json) -> str:
    goodput = " -> ".join(shown(pair["goodput"][side], "ratio") for side in ("baseline", "scenario"))
    figures = f"stall {_from_to(pair['stall'])}, slowest TPOT {_from_to(pair['tpot_worst'])}"
    return f"decode: {figures}; goodput {goodput}"
