"""The shape of what a receipt says of its replay (docs/formats.md, Receipt)."""

from __future__ import annotations

from .findings import Ledger
from .names import BOUNDS, MEMORY_POLICIES
from .parameters import POOLS
from .shapes import Shape, count, listing, nullable, number, one_of, record, text

COUNTS = (
    "requests",
    "output_tokens",
    "unfinished",
    "met_ttft",
    "met_tpot",
    "met_e2e",
    "met_stall",
    "met_modeled",
    "met",
    "met_tokens",
    "generation_steps",
    "preemptions",
    "recomputed_tokens",
    "peak_queue",
)
SUMS = ("ttft_s", "generation_s", "stall_s", "end_s")
OF_LINKS = ("peak_transfer_queue", "peak_decode_queue", "link_s")
"""Members of `R` that a scenario without links does not have."""
OF_POOLS = ("prefill_s", "decode_s", "swap_s")
SHARES = ("replayed_goodput", "replayed_goodput_tokens", "replayed_modeled_goodput")
FIGURES = (
    *SHARES,
    "replayed_met_rps",
    "replayed_stall_s",
    "replayed_time_above_ceiling_s",
    "replayed_peak_kv",
    "gpu_seconds_busy",
)
"""Figures that are there of every replay, beside the two counts."""

_POOL = record(
    {"pool": one_of(*POOLS), **dict.fromkeys(OF_POOLS, number(0)), "peak_kv_bytes": count(0)},
)
_RESULT = record(
    {
        **dict.fromkeys(COUNTS, count(0)),
        **dict.fromkeys(SUMS, number(0)),
        "swapped_bytes": number(0),
        "peak_transfer_queue": nullable(count(0)),
        "peak_decode_queue": nullable(count(0)),
        "link_s": nullable(number(0)),
        "pools": listing(_POOL, key="pool", least=1),
    }
)
_FIGURES = record(
    {
        **dict.fromkeys(FIGURES, number(0)),
        "replayed_ttft_mean_s": nullable(number(0)),
        "replayed_tpot_mean_s": nullable(number(0)),
        "replayed_peak_queue": count(0),
        "replayed_preemptions": count(0),
    }
)
_SCENARIO = record(
    {
        "scenario": text(),
        "bound": one_of(*BOUNDS),
        "reason": nullable(one_of("refused", "kv_memory")),
        "figures": nullable(_FIGURES),
        "worst_minute": nullable(record({"minute": count(0), "requests": count(1), "met": count(0)})),
        "whole": nullable(_RESULT),
        "sample": nullable(_RESULT),
    }
)


def _request() -> Shape:
    """Four whole numbers: arrival, prompt, cached prompt and output tokens."""
    numbers, four = listing(count(0), least=4), 4

    def check(ledger: Ledger, where: str, value: object) -> bool:
        fits = numbers(ledger, where, value)
        length = len(value) if isinstance(value, list) else None
        return ledger.same("structure", where, length, four, "docs/formats.md, Receipt") and fits

    return check


def _window() -> Shape:
    """The length of windows, which is one."""

    def check(ledger: Ledger, where: str, value: object) -> bool:
        return ledger.same("structure", where, value, 60, "docs/replay.md, Windows")

    return check


REPLAY = record(
    {
        "which": one_of("finalists", "all"),
        "reason": nullable(one_of("closed_loop", "no_arrivals")),
        "when_memory_is_full": one_of(*MEMORY_POLICIES),
        "window_s": _window(),
        "ticks_per_second": nullable(record(dict.fromkeys(BOUNDS, count(1)))),
        "sample": nullable(record({"first": count(0), "requests": listing(_request(), least=1)})),
        "scenarios": listing(_SCENARIO),
    }
)
