"""The replay as a section of a receipt: what was replayed, the sample, and what came of every scenario (docs/formats.md, Replay)."""

from typing import Any

import polars as pl

from pipelines.frames.inputs import BOUNDS
from pipelines.frames.replays import COUNTS, OF_POOL, POOLS, SAMPLE, TIMES, WHOLE
from pipelines.receipts.headlines import figures_of, worst_minute_of
from pipelines.receipts.plan import PlanFrames
from pipelines.replay.clock import WINDOW_S
from pipelines.replay.policy import memory_policy

Json = dict[str, Any]

_MEMBERS = (*COUNTS, "swapped_bytes", *TIMES)
_BYTES = "peak_kv_bytes"
_POOL_KNOBS = {pool: f"workers_{pool}" for pool in POOLS}


def replay_section(plan: PlanFrames) -> Json:
    """What was replayed and why, and one object per scenario and bound, in matrix order."""
    scope = plan.replay_scope.row(0, named=True)
    known = scope["reason"] is None
    return {
        "which": scope["which"],
        "reason": scope["reason"],
        "when_memory_is_full": memory_policy(plan.table),
        "window_s": WINDOW_S,
        "ticks_per_second": {bound: _ticks(plan.replays, bound) for bound in BOUNDS} if known else None,
        "sample": _sample(plan.replay_sample) if known else None,
        "scenarios": _scenarios(plan) if known else [],
    }


def _ticks(replays: pl.DataFrame, bound: str) -> int:
    """Ticks per second, the same for all that is replayed under one bound."""
    return int(replays.filter(pl.col("bound") == bound)["ticks_per_second"][0])


def _sample(frame: pl.DataFrame) -> Json:
    rows = frame.select("arrival_ns", "prompt_tokens", "cached_prompt_tokens", "output_tokens")
    return {"first": int(frame["request"][0]), "requests": [list(row) for row in rows.iter_rows()]}


def _scenarios(plan: PlanFrames) -> list[Json]:
    pools = {
        row["scenario"]: [pool for pool in POOLS if row[_POOL_KNOBS[pool]] is not None]
        for row in plan.matrix.filter(pl.col("bound") == BOUNDS[0]).iter_rows(named=True)
    }
    parts: dict[tuple[str, str], dict[str, Json]] = {}
    for row in plan.replays.iter_rows(named=True):
        parts.setdefault((row["scenario"], row["bound"]), {})[row["part"]] = row
    return [_scenario(name, bound, own, pools[name]) for (name, bound), own in parts.items()]


def _scenario(name: str, bound: str, parts: dict[str, Json], pools: list[str]) -> Json:
    whole = parts[WHOLE]
    replayed = whole["reason"] is None
    return {
        "scenario": name,
        "bound": bound,
        "reason": whole["reason"],
        "figures": figures_of(whole) if replayed else None,
        "worst_minute": worst_minute_of(whole),
        "whole": _results(whole, pools) if replayed else None,
        "sample": _results(parts[SAMPLE], pools) if replayed else None,
    }


def _results(row: Json, pools: list[str]) -> Json:
    """The counts and sums of one replay, times in seconds."""
    own = [{"pool": pool} | {name: row[f"{pool}_{name}"] for name in OF_POOL} for pool in pools]
    whole = [pool | {_BYTES: int(pool[_BYTES])} for pool in own]
    return {name: row[name] for name in _MEMBERS} | {"pools": whole}
