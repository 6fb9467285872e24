"""What a replay by hand found, as a person reads it. Every figure is modeled, and none is a percentile."""

from collections.abc import Iterator
from typing import Any

from pipelines.cli.explain_layout import columns, named, used, wrapped
from pipelines.cli.log_text import plural
from pipelines.cli.replay_words import why_not, worst_minute
from pipelines.frames.evaluation import LANES
from pipelines.gates.wording import shown

Json = dict[str, Any]

_WORDS = {
    "operating_parts": "fewer operating parts",
    "gpus": "fewer GPUs",
    "replayed_goodput": "more goodput on the trace",
}
_COLUMNS = {
    "goodput": ("replayed_goodput", "ratio"),
    "of tokens": ("replayed_goodput_tokens", "ratio"),
    "mean TTFT": ("replayed_ttft_mean_s", "s"),
    "mean TPOT": ("replayed_tpot_mean_s", "s"),
    "stall": ("replayed_stall_s", "s"),
    "above ceiling": ("replayed_time_above_ceiling_s", "s"),
    "most waiting": ("replayed_peak_queue", "count"),
    "most KV": ("replayed_peak_kv", "ratio"),
    "preempted": ("replayed_preemptions", "count"),
}
_SERVERS = ("mixed", "prefill", "decode", "link")
_OBJECTIVES = {"TTFT": "met_ttft", "TPOT": "met_tpot", "E2E": "met_e2e", "stall": "met_stall"}
_MODELED = "modeled, not measured"
_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def size(amount: float) -> str:
    """Bytes in the unit that people would say them in.

    >>> size(0.0), size(1536.0), size(5 * 2**30)
    ('0 B', '1.5 KiB', '5 GiB')
    """
    unit, name = next((pair for pair in _UNITS if amount >= pair[0]), _UNITS[-1])
    return f"{amount / unit:.4g} {name}"


def search_lines(of: Json) -> list[str]:
    """The answer, the scenarios behind it, and how many were looked at for it."""
    target = shown(of["target"], "ratio")
    order = ", then ".join(_WORDS[key] for key in of["preferred_by"])
    question = f"{of['cohort']}: the smallest topology that keeps {target} of {of['requests']:,} requests within all objectives"
    lines = wrapped(f"{question}, the trace replayed under the {of['bound']} bound: every figure is {_MODELED}")
    lines += [f"smaller is: {order}", ""]
    rows = {row["scenario"]: row for row in of["scenarios"]}
    if of["smallest"] is not None:
        lines += wrapped(f"it is {_said(rows[of['smallest']])}")
    elif not rows:
        lines += ["no scenario could be replayed"]
    else:
        lines += [f"no scenario meets the target of {target}; the best of each topology is"]
        for name in of["best"].values():
            lines += wrapped(f"{_said(rows[name])}; {_off(rows[name], of['target'])}", "  ")
    if rows:
        lines += ["", *_table(of["scenarios"]), ""]
        for row in of["scenarios"]:
            lines += wrapped(f"{row['scenario']}: {worst_minute(row['worst_minute'])}")
    return [*lines, "", *_counted(of["searched"])]


def _said(row: Json) -> str:
    goodput = shown(row["figures"]["replayed_goodput"], "ratio")
    return f"{row['scenario']} with {_sizes(row)}: {goodput} of the requests meet all objectives"


def _sizes(row: Json) -> str:
    parts, gpus = row["operating_parts"], row["gpus"]
    return f"{shown(parts, 'count')} operating {'part' if parts == 1 else 'parts'}, {gpus} {plural(gpus, 'GPU')}"


def _off(row: Json, target: float) -> str:
    points, short = (target - row["figures"]["replayed_goodput"]) * 100, row["requests_short"]
    return f"{points:.4g} percentage points off, {short:,} {plural(short, 'request')} short of the target"


def _table(rows: list[Json]) -> list[str]:
    table = [["scenario", "GPUs", "parts", "target", *_COLUMNS]]
    for row in rows:
        figures = [shown(row["figures"][key], unit) for key, unit in _COLUMNS.values()]
        met = "met" if row["meets_target"] else "not met"
        table.append([row["scenario"], str(row["gpus"]), shown(row["operating_parts"], "count"), met, *figures])
    return columns(table)


def _counted(of: Json) -> list[str]:
    without = of["refused"], of["kv_memory"]
    return wrapped(
        f"looked at {of['looked_at']:,} of {of['scenarios']:,} scenarios: {of['replayed']:,} replayed "
        f"(as {of['paths']:,} {plural(of['paths'], 'path')}), {without[0]:,} refused by the closed forms, "
        f"{without[1]:,} in which a request does not fit into the KV memory of a worker"
    )


def scenarios_lines(of: Json) -> list[str]:
    """Each named scenario: everything that its replay came to, and its windows if they are there."""
    lines = wrapped(f"{of['cohort']}: the trace replayed under the {of['bound']} bound; every figure is {_MODELED}")
    for row in of["scenarios"]:
        lines += ["", f"{row['scenario']} ({_sizes(row)})"]
        if row["reason"] is not None:
            why = f" ({row['refusal']})" if row["refusal"] else ""
            lines += wrapped(f"{why_not(row['reason'])}{why}", "  ")
            continue
        lines += [f"  {line}" for line in named(list(_facts(row, of["target"])))]
        if row["lane_means"] is not None:
            lines += ["", *(f"  {line}" for line in _lanes(row["lane_means"]))]
        if "windows" in row:
            lines += ["", *(f"  {line}" for line in _windows(row["windows"]))]
    return lines


def _facts(row: Json, target: float) -> Iterator[tuple[str, str]]:
    """What there is to say, with what it is about."""
    counts, figures = row["counts"], row["figures"]
    short = f", {row['requests_short']:,} requests short of it" if row["requests_short"] else ", met"
    whole = (
        f"{shown(figures['replayed_goodput'], 'ratio')} of the requests ({counts['met']:,} of {counts['requests']:,})"
    )
    yield "goodput", f"{whole} meet all objectives; target {shown(target, 'ratio')}{short}"
    each = ", ".join(f"{name} {counts[key]:,}" for name, key in _OBJECTIVES.items())
    yield "by objective", f"requests that meet it: {each} (all, where it is not declared)"
    modeled = shown(figures["replayed_modeled_goodput"], "ratio")
    yield "without stall", f"{modeled} of the requests ({counts['met_modeled']:,}) meet TTFT, TPOT and E2E"
    tokens = f"{shown(figures['replayed_goodput_tokens'], 'ratio')} of {counts['output_tokens']:,} output tokens"
    yield "of tokens", f"{tokens} ({counts['met_tokens']:,}) are of requests that meet all objectives"
    yield (
        "rate",
        f"{figures['replayed_met_rps']:.4g} requests/s meet all objectives, to the end at {shown(counts['end_s'], 's')}",
    )
    if counts["unfinished"]:
        yield "unfinished", f"{counts['unfinished']:,} requests are not complete when the clock ends; they meet nothing"
    yield "mean TTFT", shown(figures["replayed_ttft_mean_s"], "s")
    yield (
        "mean TPOT",
        f"{shown(figures['replayed_tpot_mean_s'], 's')} over {counts['generation_steps']:,} tokens after the first",
    )
    yield "stall", f"{shown(figures['replayed_stall_s'], 's')} at most between two tokens of a request"
    yield "waiting", ", ".join(_waiting(counts))
    yield "worst minute", worst_minute(row["worst_minute"]).removeprefix("worst minute ")
    yield (
        "above ceiling",
        f"{shown(figures['replayed_time_above_ceiling_s'], 's')} of minutes in which a pool, or the links, is at its ceiling or above",
    )
    yield from _work(row)


def _waiting(counts: Json) -> Iterator[str]:
    yield f"at most {counts['peak_queue']:,} request{'' if counts['peak_queue'] == 1 else 's'} for prefill"
    if counts["peak_transfer_queue"] is not None:
        yield f"{counts['peak_transfer_queue']:,} for a link"
        yield f"{counts['peak_decode_queue']:,} for a decode step"


def _work(row: Json) -> Iterator[tuple[str, str]]:
    """What workers and links did, and what memory held."""
    counts, figures = row["counts"], row["figures"]
    for pool in row["pools"]:
        spent = [(what, pool[f"{what}_s"]) for what in ("prefill", "decode", "swap")]
        did = ", ".join(f"{shown(time, 's')} of {what}" for what, time in spent if time) or "no work"
        workers = f"{pool['workers']:,} {plural(pool['workers'], 'worker')}"
        yield f"{pool['pool']} pool", f"{workers}: {did}; at most {size(pool['peak_kv_bytes'])} of KV cache on one"
    if counts["link_s"] is not None:
        yield "links", f"channels kept for {shown(counts['link_s'], 's')}"
    yield "busy", f"{figures['gpu_seconds_busy']:,.6g} GPU-seconds"
    moved = f"{size(counts['swapped_bytes'])} of cache moved between GPU and host"
    again = f"{counts['preemptions']:,} preemptions, {counts['recomputed_tokens']:,} tokens prefilled again, {moved}"
    yield "KV memory", f"at most {shown(figures['replayed_peak_kv'], 'ratio')} of a worker's; {again}"


def _lanes(means: Json) -> list[str]:
    """The mean lanes, whose sum is the mean E2E."""
    words = {name: name.removesuffix("_s").replace("kv", "KV").replace("_", " ") for name in LANES}
    rows = [[words[name], shown(means[name], "s")] for name in LANES]
    return columns([["lane", "mean"], *rows, ["E2E", shown(sum(means.values()), "s")]])


def _windows(rows: list[Json]) -> list[str]:
    """The windows under each other; pools that the scenario does not have are left out."""
    table = [["minute", "requests", "met", "goodput", *(_SERVERS), "above ceiling"]]
    for row in rows:
        shares = [shown(row[f"{name}_utilization"], "ratio") for name in _SERVERS]
        above = "yes" if row["above_ceiling"] else "no"
        counts = [f"{row[name]:,}" for name in ("minute", "requests", "met")]
        table.append([*counts, shown(row["goodput"], "ratio"), *shares, above])
    return columns(used(table), left=())
