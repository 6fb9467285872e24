"""The headline values of a plan: per topology, the figures of the scenario that speaks for it."""

from typing import Any

import polars as pl

from pipelines.frames.replays import FIGURES as REPLAYED
from pipelines.frames.replays import WHOLE

_COUNTS = ("replayed_peak_queue", "replayed_preemptions")
NOTHING_PASSES = "no scenario of the compared topologies passes every blocking gate"
POOL_LOADS = ("mixed", "prefill", "decode")
FIGURES = (
    "status",
    "ttft_worst_s",
    "tpot_worst_s",
    "stall_s",
    "goodput",
    "headroom",
    "tightest",
    "dominant_queue",
    "transfer_envelope_share",
    "cost_per_million_tokens",
    "screening",
)


def headlines(matrix: pl.DataFrame, decision: pl.DataFrame) -> list[dict[str, Any]]:
    """One object per compared topology, nominal bound; latencies in seconds, absent where the scenario is refused.

    ``utilization`` maps each pool to its load; ``utilization_worst`` is the largest of them.
    """
    nominal = {row["scenario"]: row for row in matrix.filter(pl.col("bound") == "nominal").iter_rows(named=True)}
    shown = []
    for row in decision.iter_rows(named=True):
        figures = nominal[row["scenario"]]
        pools = {pool: figures[f"load_{pool}"] for pool in POOL_LOADS if figures[f"load_{pool}"] is not None}
        shown.append(
            {name: row[name] for name in ("topology", "scenario", "standing", "reason")}
            | {"gpus": figures["gpus"], "operating_parts": figures["operating_parts"]}
            | {name: figures[name] for name in FIGURES}
            | {"utilization": pools, "utilization_worst": max(pools.values(), default=None)}
        )
    return shown


def replay_of(scenario: str, replays: pl.DataFrame) -> dict[str, Any] | None:
    """The replay of a scenario under the nominal bound: its figures and worst minute, or why there are none; None where it is not in it."""
    own = replays.filter(scenario=scenario, bound="nominal", part=WHOLE)
    if own.is_empty():
        return None
    row = own.row(0, named=True)
    known = row["reason"] is None
    return {
        "reason": row["reason"],
        "figures": figures_of(row) if known else None,
        "worst_minute": worst_minute_of(row),
    }


def figures_of(row: dict[str, Any]) -> dict[str, Any]:
    """The figures of a row of the replays, counts as whole numbers."""
    return {name: row[name] for name in REPLAYED} | {name: int(row[name]) for name in _COUNTS}


def worst_minute_of(row: dict[str, Any]) -> dict[str, Any] | None:
    """The worst minute of a row of the replays: its number, its requests, and those that meet all objectives."""
    if row["minute"] is None:
        return None
    return {"minute": row["minute"], "requests": row["minute_requests"], "met": row["minute_met"]}


def outcome(decision: pl.DataFrame) -> dict[str, Any]:
    """The decision in one object: outcome, topology and scenario (null if none qualifies)."""
    chosen = decision.filter(pl.col("standing") == "chosen").to_dicts()
    return {
        "outcome": "topology_chosen" if chosen else "no_topology_qualifies",
        "topology": chosen[0]["topology"] if chosen else None,
        "scenario": chosen[0]["scenario"] if chosen else None,
    }


def chosen_or_nearest(decision: pl.DataFrame) -> list[str]:
    """The scenario chosen, or every topology's nearest miss if none is."""
    chosen = decision.filter(pl.col("standing") == "chosen")
    return (decision if chosen.is_empty() else chosen)["scenario"].to_list()
