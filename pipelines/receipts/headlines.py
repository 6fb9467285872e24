"""The headline values of a plan: per topology, the figures of the scenario that speaks for it."""

from typing import Any

import polars as pl

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
