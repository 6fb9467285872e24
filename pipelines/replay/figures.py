"""What a replay came to, as a row of the replays frame (docs/replay.md, What comes out)."""

from collections.abc import Mapping
from typing import Any

from pipelines.frames.digits import significant
from pipelines.frames.replays import COUNTS, POOLS, TIMES
from pipelines.replay.clock import WINDOW_S
from pipelines.replay.costs import Costs
from pipelines.replay.run import LINK, Outcome

_OF_LINKS = ("peak_transfer_queue", "peak_decode_queue")
_SPENT = ("prefill", "decode", "swap")
Row = dict[str, Any]


def replay_row(outcome: Outcome, costs: Costs, gpus: Mapping[str, int], *, figures: bool) -> Row:
    """Counts and seconds, to the exported digits; with ``figures``, what is made of them, for workers of so many ``gpus``."""
    row = _counted(outcome, costs.ticks_per_s)
    if figures:
        row |= _figures(outcome, costs, gpus) | _worst_minute(outcome, costs)
    return row


def _counted(outcome: Outcome, per_second: int) -> Row:
    counts, moves = outcome.counts, LINK in outcome.servers
    row: Row = {name: counts[name] if moves or name not in _OF_LINKS else None for name in COUNTS}
    row |= {name: seconds(counts[f"{name.removesuffix('_s')}_ticks"], per_second) for name in TIMES}
    row["link_s"] = row["link_s"] if moves else None
    row["swapped_bytes"] = significant(float(counts["swapped_bytes"]))
    for pool in POOLS:
        if pool in outcome.servers:
            row |= {f"{pool}_{name}_s": seconds(counts[f"{pool}_{name}_ticks"], per_second) for name in _SPENT}
            row[f"{pool}_peak_kv_bytes"] = float(counts[f"{pool}_peak_kv_bytes"])
    return row


def seconds(ticks: int, per_second: int) -> float:
    """Ticks in seconds, to the exported digits: of whole numbers of any size, the nearest double first.

    >>> seconds(10**20 + 1, 10**14)
    1000000.0
    """
    return significant(ticks / per_second)


def _figures(outcome: Outcome, costs: Costs, gpus: Mapping[str, int]) -> Row:
    counts, per_second = outcome.counts, costs.ticks_per_s
    finished, steps = counts["requests"] - counts["unfinished"], counts["generation_steps"]
    busy = sum(
        counts[f"{pool}_{name}_ticks"] * gpus[pool] for pool in POOLS if pool in outcome.servers for name in _SPENT
    )
    above = int(outcome.above(costs.ceilings, costs.setting.window_ticks).sum())
    kv = max(counts[f"{pool}_peak_kv_bytes"] / costs.capacity(pool) for pool in POOLS if pool in outcome.servers)
    return {
        "replayed_goodput": significant(counts["met"] / counts["requests"]),
        "replayed_goodput_tokens": significant(counts["met_tokens"] / counts["output_tokens"]),
        "replayed_modeled_goodput": significant(counts["met_modeled"] / counts["requests"]),
        "replayed_met_rps": significant(counts["met"] * per_second / counts["end_ticks"]) if finished else 0.0,
        "replayed_ttft_mean_s": significant(counts["ttft_ticks"] / (finished * per_second)) if finished else None,
        "replayed_tpot_mean_s": significant(counts["generation_ticks"] / (steps * per_second)) if steps else None,
        "replayed_stall_s": seconds(counts["stall_ticks"], per_second),
        "replayed_time_above_ceiling_s": float(WINDOW_S * above),
        "replayed_peak_queue": float(counts["peak_queue"]),
        "replayed_peak_kv": significant(kv),
        "replayed_preemptions": float(counts["preemptions"]),
        "gpu_seconds_busy": seconds(busy, per_second),
    }


def _worst_minute(outcome: Outcome, costs: Costs) -> Row:
    """The window with the most requests that are not met, the first if equal; nothing where all are."""
    requests = costs.requests_by_window
    missed = requests - outcome.met
    worst = int(missed.argmax())
    if missed[worst] == 0:
        return {}
    return {"minute": worst, "minute_requests": int(requests[worst]), "minute_met": int(outcome.met[worst])}
