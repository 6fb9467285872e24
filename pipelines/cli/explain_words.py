"""Figures with their units, loads and refusals in words."""

from typing import Any

from pipelines.gates.wording import shown

Json = dict[str, Any]

FACTORS = ("_factor", "_scv")
"""Ends of the names of ratios that people say as they are, not as a share."""

FIGURES = {
    "ttft_worst": "TTFT, slowest bucket",
    "tpot_worst": "TPOT, slowest bucket",
    "e2e_worst": "E2E, slowest bucket",
    "stall": "stall between tokens",
    "transfer_worst": "transfer, slowest bucket",
    "goodput": "goodput",
    "transfer_envelope_share": "transfer of envelope",
    "pressure": "tightest load of ceiling",
    "headroom": "left of the ceiling",
    "gpus": "GPUs",
    "operating_parts": "operating parts",
    "replayed_goodput": "goodput, replayed",
    "replayed_goodput_tokens": "goodput of tokens, replayed",
    "replayed_stall": "stall, replayed",
    "replayed_time_above_ceiling": "time above a ceiling, replayed",
    "replayed_peak_queue": "most that wait, replayed",
    "replayed_peak_kv": "most KV memory, replayed",
    "replayed_preemptions": "preemptions, replayed",
}

STANDINGS = {"chosen": "chosen", "passes_but_larger": "passes, but larger", "nearest_miss": "nearest miss"}

LOADS = {
    "mixed": "the mixed pool",
    "prefill_lane": "the prefill lane",
    "slots_mixed": "slots (mixed)",
    "kv_mixed": "KV memory (mixed)",
    "prefill": "the prefill pool",
    "decode": "the decode pool",
    "link": "the links",
    "slots_decode": "slots (decode)",
    "kv_prefill": "KV memory (prefill)",
    "kv_decode": "KV memory (decode)",
    "staging": "staging (decode)",
}

LEAST_CHANGE_S = 5e-7
"""Less than this is no change that a reader would see."""

_REGIMES = {
    "arrivals": "gaps between arrivals vary much more or less than those of independent ones",
    "runs": "prompts that run one after the other take much of the time between tokens",
    "lane": "the prefill lane is busy",
    "long_prompts": "a few long prompts vary the work of several prefill workers",
    "slots": "most sequence slots are taken",
    "tpot": "a TPOT objective is near the time of one step",
    "curve": "sizes lie beyond the last point of a service curve",
}
"""Regimes in which figures are for screening (docs/arithmetic.md, section 7)."""

_REFUSALS = {
    "utilization": "{load} would be busy {figures} of the time, and its ceiling is {limit}",
    "prefill_starved": "prompts would take {figures} of {load}, and its ceiling is {limit}",
    "slots": "sequences would take {figures} of {load}, and the ceiling is {limit}",
    "kv_memory": "KV caches and the sequences that fit would take {figures} of {load}, and the ceiling is {limit}",
    "link_saturated": "transfers would keep {load} busy {figures} of the time, and the ceiling is {limit}",
    "staging": "caches in flight would take {figures} of the free decode slots, and the ceiling is {limit}",
}
_STARVED = "decode tokens leave {figures} tokens of a step to prompts, and {limit} is needed"
_FLOORS = {
    "ttft_floor": "on idle workers, {resource} takes {figures} to the first token, above {limit}: no number of workers helps",
    "tpot_floor": "alone on a worker, {resource} takes {figures} per token, above {limit}: no number of workers helps",
}


def four(value: float) -> str:
    """Four significant digits, with thousands separators.

    >>> four(7907.70924), four(0.81424), four(67124.38), four(24.94)
    ('7,908', '0.8142', '67,120', '24.94')
    """
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}" if 1000 <= abs(rounded) < 1e15 else f"{rounded:.4g}"


def quantity(value: float | str | None, unit: str, path: str = "") -> str:
    """An input as people write it.

    >>> quantity(7907.70924, "tokens/s"), quantity(10842877640.0, "B/s"), quantity(2917981539, "B")
    ('7,908 tokens/s', '10.84 GB/s', '2.718 GiB')
    >>> quantity(3.1761526e-07, "s/token"), quantity(1.7307232, "ratio", "model.layout_factor"), quantity(0.45, "ratio")
    ('0.3176 us per token', '1.731', '45 %')
    """
    if value is None or isinstance(value, str):
        return "-" if value is None else value
    if unit == "s" or (unit == "ratio" and not path.endswith(FACTORS)):
        return shown(value, unit)
    scale, name = {
        "tokens/s": (1.0, " tokens/s"),
        "requests/s": (1.0, " requests/s"),
        "price/h": (1.0, " per hour"),
        "s/token": (1e6, " us per token"),
        "s/token^2": (1e9, " ns per token^2"),
        "B/s": (1e-9, " GB/s"),
        "B": (2.0**-30, " GiB"),
    }.get(unit, (1.0, ""))
    return f"{four(value * scale)}{name}"


def change(seconds: float) -> str:
    """By how much a time changes, to the microsecond; less than half of one is none that a reader would see.

    >>> change(0.01834604), change(-2.0041), change(1.958e-5), change(0.0), change(3e-8)
    ('+18.35 ms', '-2.004 s', '+0.02 ms', '0', '~0')
    """
    if abs(seconds) < LEAST_CHANGE_S:
        return "~0" if seconds else "0"
    return f"{'+' if seconds > 0 else ''}{shown(round(seconds, 6) if abs(seconds) < 1e-3 else seconds, 's')}"


def percent_change(factor: float) -> str:
    """A factor as what it adds or takes.

    >>> percent_change(1.5634643), percent_change(0.30779536)
    ('+56.35 %', '-69.22 %')
    """
    return f"{'+' if factor >= 1 else ''}{shown(factor - 1, 'ratio')}"


def load(resource: str) -> str:
    """A load by the name that people have for it."""
    return LOADS.get(resource, resource.replace("_", " "))


def regime(name: str) -> str:
    """A regime that makes figures good for screening only."""
    return _REGIMES.get(name, name.replace("_", " "))


def is_floor(kind: str) -> bool:
    """Whether more workers cannot mend a refusal of this kind."""
    return kind in _FLOORS


def refused(kind: str, resource: str, limit: float, lowest: float, highest: float) -> str:
    """Why scenarios are refused, whose figures lie between ``lowest`` and ``highest``.

    >>> refused("utilization", "mixed", 0.8, 0.9, 1.23)
    'the mixed pool would be busy 90 % to 123 % of the time, and its ceiling is 80 %'
    """
    starved = kind == "prefill_starved" and highest < limit
    unit = "s" if is_floor(kind) else "count" if starved else "ratio"

    def each(value: float) -> str:
        return four(value) if unit == "count" else shown(value, unit)

    figures = each(lowest) if lowest == highest else f"{each(lowest)} to {each(highest)}"
    sentence = _STARVED if starved else (_FLOORS | _REFUSALS).get(kind, "{load}: {figures}, and the limit is {limit}")
    return sentence.format(load=load(resource), resource=resource, figures=figures, limit=each(limit))


def why_refused(refusal: Json) -> str:
    """The same of one refusal."""
    figure = refusal["figure"]
    return refused(refusal["kind"], refusal["resource"], refusal["limit"], figure, figure)
