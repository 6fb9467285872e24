"""Sets what a receipt says of one replay beside the replay: counts, times and sums, figures (docs/replay.md, What comes out)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .findings import Ledger
from .parameters import Inputs
from .replayed_shapes import COUNTS, OF_POOLS
from .replaying import WINDOW_S
from .replaying_scenarios import Outcome
from .ticking import nearest

CHECK = "replay"
WHY = "docs/replay.md, What comes out"


def compare_result(ledger: Ledger, where: str, found: Mapping[str, Any], outcome: Outcome) -> None:
    """Compare all members of `R`: counts as they are, ticks in seconds."""
    counts, sums, ticks = outcome.counts(), outcome.sums(), outcome.ticks_per_s
    for name in COUNTS:
        ledger.same(CHECK, f"{where}.{name}", found[name], counts[name], WHY)
    for name in ("ttft", "generation", "stall", "end"):
        ledger.figure(CHECK, f"{where}.{name}_s", found[f"{name}_s"], sums[name] / ticks, WHY)
    ledger.figure(CHECK, f"{where}.swapped_bytes", found["swapped_bytes"], sums["swapped_bytes"], WHY)
    moving = outcome.moving
    transfers, arrived = (moving.peak_transfers, moving.peak_arrived) if moving else (None, None)
    ledger.same(CHECK, f"{where}.peak_transfer_queue", found["peak_transfer_queue"], transfers, WHY)
    ledger.same(CHECK, f"{where}.peak_decode_queue", found["peak_decode_queue"], arrived, WHY)
    links = moving.links.prefill / ticks if moving is not None and moving.links is not None else None
    ledger.figure(CHECK, f"{where}.link_s", found["link_s"], links, WHY)
    pools, names = outcome.pools(), [row["pool"] for row in found["pools"]]
    if ledger.listed(CHECK, f"{where}.pools", names, list(pools), "the pools of the scenario"):
        for row, pool in zip(found["pools"], pools.values(), strict=True):
            place = f"{where}.pools[{row['pool']}]"
            for name, busy in zip(OF_POOLS, (pool.prefill, pool.decode, pool.swap), strict=True):
                ledger.figure(CHECK, f"{place}.{name}", row[name], busy / ticks, WHY)
            ledger.same(CHECK, f"{place}.peak_kv_bytes", row["peak_kv_bytes"], pool.peak, WHY)


def compare_figures(ledger: Ledger, where: str, row: Mapping[str, Any], outcome: Outcome, inputs: Inputs) -> None:
    """Compare the figures, and the worst minute, of all requests."""
    found, figures = row["figures"], figures_of(outcome, inputs)
    for name, value in figures.items():
        ledger.figure(CHECK, f"{where}.figures.{name}", found[name], value, WHY)
    ledger.same(
        CHECK, f"{where}.worst_minute", row["worst_minute"], worst_minute_of(outcome), "docs/replay.md, Windows"
    )


def worst_minute_of(outcome: Outcome) -> dict[str, int] | None:
    """The first window with the most requests that do not meet everything; None where all do."""
    windows = outcome.windows()
    minute = max(windows, key=lambda at: (windows[at][0] - windows[at][1], -at))
    if windows[minute][0] == windows[minute][1]:
        return None
    return {"minute": minute, "requests": windows[minute][0], "met": windows[minute][1]}


def figures_of(outcome: Outcome, inputs: Inputs) -> dict[str, float | None]:
    """The figures of a replay of all requests, unrounded."""
    counts, sums, ticks = outcome.counts(), outcome.sums(), outcome.ticks_per_s
    requests, complete = counts["requests"], counts["requests"] - counts["unfinished"]
    service, pools = outcome.service, outcome.pools()
    memory = {
        "mixed": service.mixed.kv_memory_bytes,
        "prefill": service.separated.kv_memory_prefill_bytes,
        "decode": service.separated.kv_memory_bytes,
    }
    busy = sum((pool.prefill + pool.decode + pool.swap) * inputs.gpus_per_worker(name) for name, pool in pools.items())
    return {
        "replayed_goodput": counts["met"] / requests,
        "replayed_goodput_tokens": counts["met_tokens"] / counts["output_tokens"],
        "replayed_modeled_goodput": counts["met_modeled"] / requests,
        "replayed_met_rps": counts["met"] * ticks / sums["end"] if sums["end"] else 0.0,
        "replayed_ttft_mean_s": sums["ttft"] / ticks / complete if complete else None,
        "replayed_tpot_mean_s": (
            sums["generation"] / ticks / counts["generation_steps"] if counts["generation_steps"] else None
        ),
        "replayed_stall_s": sums["stall"] / ticks,
        "replayed_time_above_ceiling_s": WINDOW_S * outcome.windows_above(),
        "replayed_peak_queue": counts["peak_queue"],
        "replayed_peak_kv": max(pool.peak / nearest(memory[name]) for name, pool in pools.items()),
        "replayed_preemptions": counts["preemptions"],
        "gpu_seconds_busy": busy / ticks,
    }
