"""The scenarios that a comparison follows through the chain, and their figures in each plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl

from pipelines.comparing.mixes import Mix
from pipelines.comparing.planner import Planned, evaluated
from pipelines.frames.inputs import BOUNDS
from pipelines.gates.judge import bucket_requests, judge
from pipelines.gates.rules import part_weights
from pipelines.receipts.headlines import outcome
from pipelines.topologies.scenarios import CHUNKS_INPUT, KNOBS, ROUTED_CHUNKS_INPUT, named

Json = dict[str, Any]

FIGURES = ("ttft_worst_s", "tpot_worst_s", "stall_s", "goodput")
MARGIN = "margin"
_BUDGETS = {"chunked": CHUNKS_INPUT, "routed": ROUTED_CHUNKS_INPUT}


@dataclass(frozen=True)
class Tracked:
    """A scenario that one receipt chooses, or that stands for one which chooses nothing; ``of`` says which receipts."""

    scenario: str
    knobs: Json
    standing: Mapping[str, str]

    @property
    def topology(self) -> str:
        """Its topology."""
        return str(self.knobs["topology"])


def tracked(old: Planned, new: Planned) -> list[Tracked]:
    """The scenarios of both receipts, once where they are one."""
    found: dict[str, Tracked] = {}
    for name, own, other in (("old", old, new), ("new", new, old)):
        row = _speaks(own, other)
        nominal = own.matrix.filter((pl.col("scenario") == row["scenario"]) & (pl.col("bound") == "nominal"))
        knobs = nominal.select("topology", "gpus", *KNOBS).row(0, named=True)
        before = found[row["scenario"]].standing if row["scenario"] in found else {}
        found[row["scenario"]] = Tracked(row["scenario"], knobs, {**before, name: row["standing"]})
    return list(found.values())


def _speaks(own: Planned, other: Planned) -> Json:
    """The scenario chosen, or the nearest miss of the topology that the other chooses, or of the first compared one."""
    rows = {row["topology"]: row for row in own.decision.iter_rows(named=True)}
    for topology in (outcome(own.decision)["topology"], outcome(other.decision)["topology"]):
        if topology in rows:
            return dict(rows[topology])
    return dict(next(iter(rows.values())))


def figures(planned: Planned, one: Tracked) -> Json | None:
    """The figures of a scenario under both bounds and its smallest margin; None where the cohort of the plan has no such scenario."""
    matrix, verdicts = planned.matrix, planned.verdicts
    if one.scenario not in matrix["scenario"]:
        kept = matrix.height // len(BOUNDS)
        if planned.searched == kept or not _fits(planned.mix, one):
            return None
        matrix, verdicts = _beside(planned.mix, one)
    own = pl.col("scenario") == one.scenario
    rows = {row["bound"]: row for row in matrix.filter(own).iter_rows(named=True)}
    return {bound: {name: rows[bound][name] for name in ("status", *FIGURES)} for bound in BOUNDS} | {
        MARGIN: _margin(verdicts.filter(own & pl.col("blocking")))
    }


def _margin(blocking: pl.DataFrame) -> float | None:
    """The smallest margin of the gates that block a scenario; None where one of them is refused."""
    if (blocking["verdict"] == "refused").any():
        return None
    least: float | None = blocking["margin"].min()  # type: ignore[assignment]
    return least


def _fits(mix: Mix, one: Tracked) -> bool:
    """Whether the cohort has the scenario, though the search did not keep it."""
    budget, threshold = one.knobs["chunk_tokens"], one.knobs["threshold_tokens"]
    gpus = named(mix.inputs, [one.knobs])["gpus"].item()
    return (
        one.topology in mix.inputs.words("topologies.compared")
        and gpus <= mix.inputs.number("inventory.gpus")
        and (budget is None or str(budget) in mix.inputs.words(_BUDGETS[one.topology]))
        and (threshold is None or threshold in mix.thresholds)
    )


def _beside(mix: Mix, one: Tracked) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The matrix and the verdicts of one scenario alone: no gate of so large a cohort holds it against others."""
    matrix = evaluated(mix, named(mix.inputs, [one.knobs]), part_weights(mix.rules.preference))
    return matrix, judge(matrix, mix.rules.gates, mix.inputs, bucket_requests(mix.workload.buckets))


def moved(before: Json | None, after: Json | None) -> Json:
    """By how much each figure moved, exactly, to the exported digit; None where it is absent on either side."""
    return {
        bound: {name: _difference(_of(before, bound, name), _of(after, bound, name)) for name in FIGURES}
        for bound in BOUNDS
    } | {MARGIN: _difference((before or {}).get(MARGIN), (after or {}).get(MARGIN))}


def _of(found: Json | None, bound: str, name: str) -> float | None:
    value: float | None = None if found is None else found[bound][name]
    return value


def _difference(before: float | None, after: float | None) -> float | None:
    """The difference of two decimals as they are written: of doubles, it would not be that of their digits.

    >>> _difference(0.3, 0.1), 0.1 - 0.3
    (-0.2, -0.19999999999999998)
    """
    if before is None or after is None:
        return None
    return float(Decimal(repr(after)) - Decimal(repr(before)))
