"""What is said of the replay of all requests, held against itself, the workload and the inputs, without the requests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .arrivals import agree
from .findings import SIGNIFICANT_DIGITS, Ledger, close, unit_of_last_digit
from .parameters import Inputs, Parameters
from .replayed_shapes import OF_LINKS, OF_POOLS
from .replaying import WINDOW_S
from .replaying_scenarios import Path, Service, fits_alone, paths_of
from .scenario import Knobs
from .ticking import nearest, transfer_s
from .traffic import lower_edge

CHECK = "replay"
WHY = "docs/replay.md, What comes out"
_NS = 1e-9
_EXACT_SUM = 1e11
"""Below it, a sum of whole numbers is known from a mean of 12 digits."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Whole:
    """What the replay of all requests through one scenario is held against."""

    workload: Row
    inputs: Inputs
    knobs: Knobs
    service: Service
    minutes: int

    def buckets(self, path: Path) -> list[Row]:
        """The buckets of the workload that take a path."""
        return buckets_of(self.workload, path)

    def memory(self, pool: str) -> int:
        """Memory of a worker of a pool, in whole bytes."""
        separated = self.service.separated
        return nearest(
            {
                "mixed": self.service.mixed.kv_memory_bytes,
                "prefill": separated.kv_memory_prefill_bytes,
                "decode": separated.kv_memory_bytes,
            }[pool]
        )


def buckets_of(workload: Row, path: Path) -> list[Row]:
    """The buckets whose prompts take a path: thresholds are edges."""
    return [row for row in workload["buckets"][1:] if path.takes(lower_edge(row["bucket"]))]


def may_fit(workload: Row, service: Service, knobs: Knobs) -> bool | None:
    """Whether every request fits into a worker alone, by the largest prompt and output of each bucket; None if unknown."""
    surely = possibly = True
    for path in paths_of(knobs):
        of = service.of(path)
        for row in buckets_of(workload, path):
            longest, most = row["prompt_tokens_max"], row["output_tokens_max"]
            least = lower_edge(row["bucket"])
            surely = surely and fits_alone(of, longest, most, separated=path.separated)
            for prompt, outputs in ((longest, 1), (least, most)):
                possibly = possibly and fits_alone(of, prompt, outputs, separated=path.separated)
    return True if surely else None if possibly else False


def check_whole(ledger: Ledger, where: str, row: Row, of: Whole) -> None:
    """Check what all requests give under one bound, as far as it follows without them."""
    for member in ("whole", "sample"):
        _check_result(ledger, f"{where}.{member}", row[member], of)
    whole, place = row["whole"], f"{where}.whole"
    if row["sample"]["requests"] == whole["requests"]:
        alike = {name: row["sample"][name] for name in whole}
        ledger.same(CHECK, place, whole, alike, "the sample is the whole log")
    _check_counts(ledger, place, whole, of.workload)
    _check_moments(ledger, place, whole, of)
    _check_figures(ledger, f"{where}.figures", row["figures"], whole, of)
    _check_minutes(ledger, where, row, of)


def _check_result(ledger: Ledger, where: str, found: Row, of: Whole) -> None:
    """Check what holds within any `R`: pools, links, counts that bound each other, work that takes its time."""
    pools = list(of.knobs.pools)
    names = [pool["pool"] for pool in found["pools"]]
    linked = of.knobs.workers_prefill is not None
    for name in OF_LINKS:
        there = (found[name] is not None) == linked
        ledger.holds(
            CHECK, f"{where}.{name}", there, found[name], "there where there are links", "docs/formats.md, Replay"
        )
    for name, least, most in _orders(found):
        ledger.holds(CHECK, f"{where}.{name}", least <= most, least, f"at most {most}", WHY)
    steps = found["output_tokens"] - found["requests"]
    complete = not found["unfinished"]
    if complete:
        ledger.same(CHECK, f"{where}.generation_steps", found["generation_steps"], steps, WHY)
    policy = of.service.mixed.when_memory_is_full
    for name, may in (("preemptions", policy != "wait"), ("swapped_bytes", policy == "swap")):
        ledger.holds(CHECK, f"{where}.{name}", may or found[name] == 0, found[name], f"0 with {policy}", WHY)
    for name in ("recomputed_tokens", "swapped_bytes"):
        ledger.holds(
            CHECK, f"{where}.{name}", found["preemptions"] > 0 or not found[name], found[name], "0 otherwise", WHY
        )
    if not ledger.listed(CHECK, f"{where}.pools", names, pools, "the pools of the scenario"):
        return
    for pool in found["pools"] if complete else ():
        name = pool["pool"]
        busy, most = math.fsum(pool[one] for one in OF_POOLS), of.knobs.pools[name] * found["end_s"]
        ledger.holds(
            CHECK, f"{where}.pools[{name}]", busy <= most * (1 + 1e-8), busy, f"at most {most}: workers x end", WHY
        )
        if policy == "wait" or name == "prefill":
            held, room = pool["peak_kv_bytes"], of.memory(name)
            ledger.holds(CHECK, f"{where}.pools[{name}].peak_kv_bytes", held <= room, held, f"at most {room}", WHY)


def _orders(found: Row) -> Iterator[tuple[str, float, float]]:
    """Members that are at most something else."""
    requests, complete = found["requests"], found["requests"] - found["unfinished"]
    yield "unfinished", found["unfinished"], requests
    for name in ("ttft", "tpot", "e2e", "stall"):
        yield f"met_{name}", found[f"met_{name}"], complete
        yield "met", found["met"], found[f"met_{name}"]
        if name != "stall":
            yield "met_modeled", found["met_modeled"], found[f"met_{name}"]
    yield "met", found["met"], found["met_modeled"]
    yield "met", found["met"], found["met_tokens"]
    # of requests that meet TTFT and TPOT, at most those fail together that fail E2E
    yield "requests", found["met_ttft"] + found["met_tpot"] + found["met_e2e"] - 2 * requests, found["met_modeled"]
    yield "requests", found["met_modeled"] + found["met_stall"] - requests, found["met"]
    # who does not meet has a token at least
    yield "met_tokens", found["met_tokens"] + requests - found["met"], found["output_tokens"]
    yield "peak_queue", found["peak_queue"], requests
    for name in ("peak_transfer_queue", "peak_decode_queue"):
        yield name, found[name] or 0, requests
    yield "stall_s", found["stall_s"], found["end_s"]
    yield "stall_s", found["stall_s"], found["generation_s"]
    yield "ttft_s", found["ttft_s"], found["end_s"] * requests * (1 + 1e-8)
    yield "generation_s", found["generation_s"], found["end_s"] * requests * (1 + 1e-8)


def _check_counts(ledger: Ledger, where: str, whole: Row, workload: Row) -> None:
    """All requests, and all of their tokens."""
    ledger.same(CHECK, f"{where}.requests", whole["requests"], workload["requests"], "all requests")
    total, found = workload["requests"] * workload["buckets"][0]["output_tokens_mean"], whole["output_tokens"]
    holds = found == round(total) if total < _EXACT_SUM else agree(found, total)
    ledger.holds(CHECK, f"{where}.output_tokens", holds, found, round(total), "requests x output_tokens_mean")


def _check_moments(ledger: Ledger, where: str, whole: Row, of: Whole) -> None:
    """Check sums that follow from means: whole prompts, each once, and transfers, where they are straight lines."""
    for path in paths_of(of.knobs):
        params, rows = of.service.of(path), of.buckets(path)
        plain = of.service.hit_ratio == 0 and params.prefill_curve is None
        name = "prefill" if path.separated else "mixed"
        pool = next((one for one in whole["pools"] if one["pool"] == name), None)
        once = path.separated or (path.budget is None and not whole["preemptions"])
        if plain and once and pool is not None and not whole["unfinished"]:
            expected, slack = _prompts_s(params, rows), _NS * sum(row["requests"] for row in rows)
            near = abs(pool["prefill_s"] - expected) <= slack + 1e-9 * expected
            ledger.holds(
                CHECK, f"{where}.pools[{name}].prefill_s", near, pool["prefill_s"], expected, "the means of prompts"
            )
        if path.separated and whole["link_s"] is not None and _is_straight(params, of.service, rows):
            busy, slack = _transfers_s(params, rows), _NS * sum(row["requests"] for row in rows)
            near = abs(whole["link_s"] - busy) <= slack + 1e-9 * busy
            ledger.holds(CHECK, f"{where}.link_s", near or bool(whole["unfinished"]), whole["link_s"], busy, "means")


def _prompts_s(of: Parameters, rows: Sequence[Row]) -> float:
    """`Σ (d + u/r_p + q·z)` (s) over all requests of some buckets."""
    return math.fsum(
        row["requests"]
        * (
            of.prefill_overhead_s
            + row["uncached_tokens_mean"] / of.prefill_tokens_per_s
            + of.prefill_s_per_token2 * row["attention_mean"]
        )
        for row in rows
    )


def _is_straight(of: Parameters, service: Service, rows: Sequence[Row]) -> bool:
    """Whether the transfers of some buckets are all made, and each is a straight line in its tokens."""
    plain = of.curve is None and not of.cache.windows and of.block_tokens == 1 and service.hit_ratio == 0
    return plain and (of.decode_emits_first_token or all(row["multi_token_share"] == 1 for row in rows))


def _transfers_s(of: Parameters, rows: Sequence[Row]) -> float:
    """`Σ (T(v) - h_x)` (s): of the mean, by halves of a line through two whole numbers of tokens."""
    at_0, at_1 = (transfer_s(of, float(tokens))[0] - of.handover_s for tokens in (0, 1))
    there = of.prefix_at_destination
    return math.fsum(
        row["requests"]
        * (at_0 + (at_1 - at_0) * ((1 - there) * row["prompt_tokens_mean"] + there * row["uncached_tokens_mean"]))
        for row in rows
    )


def _check_figures(ledger: Ledger, where: str, found: Row, whole: Row, of: Whole) -> None:
    """Every figure follows from what it is made of, to its last digit, or that of a sum that was rounded."""
    requests, complete = whole["requests"], whole["requests"] - whole["unfinished"]
    exact = {
        "replayed_goodput": whole["met"] / requests,
        "replayed_goodput_tokens": whole["met_tokens"] / whole["output_tokens"],
        "replayed_modeled_goodput": whole["met_modeled"] / requests,
        "replayed_stall_s": whole["stall_s"],
        "replayed_peak_queue": whole["peak_queue"],
        "replayed_preemptions": whole["preemptions"],
        "replayed_peak_kv": max(pool["peak_kv_bytes"] / of.memory(pool["pool"]) for pool in whole["pools"]),
    }
    for name, value in exact.items():
        ledger.figure(CHECK, f"{where}.{name}", found[name], value, WHY)
    steps, each = (
        whole["generation_steps"],
        [(pool["pool"], pool[name]) for pool in whole["pools"] for name in OF_POOLS],
    )
    busy = [of.inputs.gpus_per_worker(name) * seconds for name, seconds in each]
    lost = math.fsum(of.inputs.gpus_per_worker(name) * _lost(seconds) for name, seconds in each)
    ended, ttft, generation = whole["end_s"], whole["ttft_s"], whole["generation_s"]
    rate, means = whole["met"] / ended if ended else 0.0, (ttft / complete if complete else None)
    rounded = {
        "replayed_met_rps": (rate, rate * _lost(ended) / ended if ended else 0.0),
        "replayed_ttft_mean_s": (means, _lost(ttft) / max(1, complete)),
        "replayed_tpot_mean_s": (generation / steps if steps else None, _lost(generation) / max(1, steps)),
        "gpu_seconds_busy": (math.fsum(busy), lost),
    }
    for name, (value, slack) in rounded.items():
        shown, place = found[name], f"{where}.{name}"
        if shown is None or value is None:
            ledger.same(CHECK, place, shown, value, WHY)
        else:
            ledger.rounded(place, shown, SIGNIFICANT_DIGITS)
            near = close(shown, value, 1.0) or abs(shown - value) <= slack + unit_of_last_digit(
                shown, SIGNIFICANT_DIGITS
            )
            ledger.holds(CHECK, place, near, shown, value, WHY)


def _lost(seconds: float) -> float:
    """What a sum may have lost when it was rounded (s)."""
    return unit_of_last_digit(seconds, SIGNIFICANT_DIGITS) / 2


def _check_minutes(ledger: Ledger, where: str, row: Row, of: Whole) -> None:
    """Check the time above the ceiling, which is of whole minutes, and the worst of them."""
    why, whole = "docs/replay.md, Windows", row["whole"]
    above, worst = row["figures"]["replayed_time_above_ceiling_s"], row["worst_minute"]
    most = of.minutes
    fits = above % WINDOW_S == 0 and above <= WINDOW_S * most
    name = "replayed_time_above_ceiling_s"
    ledger.holds(CHECK, f"{where}.figures.{name}", fits, above, f"minutes of {most}", why)
    unmet, place = whole["requests"] - whole["met"], f"{where}.worst_minute"
    if (
        not ledger.holds(CHECK, place, (worst is not None) == (unmet > 0), worst, f"{unmet} do not meet", why)
        or not worst
    ):
        return
    own = worst["requests"] - worst["met"]
    ledger.holds(CHECK, f"{place}.minute", worst["minute"] < most, worst["minute"], f"below {most}", why)
    ledger.holds(CHECK, f"{place}.requests", worst["requests"] <= whole["requests"], worst["requests"], "of all", why)
    ledger.holds(CHECK, f"{place}.met", worst["met"] <= whole["met"], worst["met"], "of all that meet", why)
    ledger.holds(CHECK, f"{place}.met", own <= unmet <= own * most, own, "the most of a minute", why)
    if most == 1:
        ledger.same(CHECK, place, worst["requests"], whole["requests"], "there is one minute")
