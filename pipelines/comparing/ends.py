"""Whether a receipt says what its inputs give, as far as a comparison relies on it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.comparing.planner import Planned
from pipelines.comparing.tracked import Tracked
from pipelines.frames.canonical import digest
from pipelines.frames.inputs import BOUNDS
from pipelines.frames.metrics import REPLAYED
from pipelines.receipts.headlines import NOTHING_PASSES
from pipelines.receipts.matrix_csv import COLUMNS_OF_BOUND
from pipelines.receipts.reopened import Reopened
from pipelines.receipts.rules import rules_section

Json = dict[str, Any]

_OTHERWISE = ("status", "refusal_kind", "refusal_resource", "refusal_figure", "refusal_limit", "screening")


@dataclass(frozen=True)
class Disagreement:
    """What a receipt states at ``path``, and what its inputs give."""

    path: str
    stated: object
    found: object


def disagreements(receipt: Json, side: Reopened, planned: Planned) -> list[Disagreement]:
    """Where the fingerprints, the rules, the search or the decision of a receipt are not those that a plan of it finds.

    Where gates on replayed figures apply, the decision is not looked at, nor their verdicts: nothing is replayed here.
    """
    return [one for one in _compared(receipt, side, planned) if one.stated != one.found]


def _compared(receipt: Json, side: Reopened, planned: Planned) -> Iterator[Disagreement]:
    of = receipt["workload"]
    asked = {"inputs": receipt["inputs"]} | {name: of[name] for name in ("requests_sha256", "bucket_edges_tokens")}
    yield Disagreement("fingerprint", receipt["fingerprint"], digest(asked))
    yield from _rules(receipt["rules"], rules_section(side.rules, planned.mix.inputs))
    yield Disagreement("search.scenarios", receipt["search"]["scenarios"], planned.searched)
    yield Disagreement("search.kept", receipt["search"]["kept"], planned.matrix.height // len(BOUNDS))
    yield from _verdicts(receipt, planned)
    if not left_out(receipt):
        yield from _decided(receipt, planned)


def left_out(receipt: Json) -> list[str]:
    """The gates of a receipt that apply and are on replayed figures, in their order."""
    return [gate["id"] for gate in receipt["rules"]["gates"] if gate["applies"] and gate["metric"] in REPLAYED]


def _decided(receipt: Json, planned: Planned) -> Iterator[Disagreement]:
    for name, value in planned.decided.items():
        yield Disagreement(f"decision.{name}", receipt["decision"][name], value)
    chosen = planned.decision.filter(pl.col("standing") == "chosen")["reason"].to_list()
    yield Disagreement("decision.reason", receipt["decision"]["reason"], chosen[0] if chosen else NOTHING_PASSES)
    found = planned.decision.filter(pl.col("standing") != "chosen").select("topology", "scenario", "standing", "reason")
    stated = {row["topology"]: row for row in receipt["rejected"]}
    yield Disagreement("rejected", list(stated), found["topology"].to_list())
    for row in found.iter_rows(named=True):
        for name, column in (("scenario", "scenario"), ("status", "standing"), ("reason", "reason")):
            path = f"rejected[{row['topology']}].{name}"
            yield Disagreement(path, stated.get(row["topology"], {}).get(name), row[column])


def _verdicts(receipt: Json, planned: Planned) -> Iterator[Disagreement]:
    without = left_out(receipt)
    stated = {
        (of["scenario"], row["gate"]): (row["verdict"], row["waived"])
        for of in receipt["scenarios"]
        for row in of["verdicts"]
        if row["gate"] not in without
    }
    columns = planned.verdicts.select("scenario", "gate", "verdict", "waived")
    found = {(scenario, gate): (verdict, waived) for scenario, gate, verdict, waived in columns.iter_rows()}
    for key in dict.fromkeys((*stated, *found)):
        for name, own, given in zip(
            ("verdict", "waived"), stated.get(key, (None, None)), found.get(key, (None, None)), strict=True
        ):
            yield Disagreement(f"scenarios[{key[0]}].verdicts[{key[1]}].{name}", own, given)


def _rules(stated: Json, found: Json) -> Iterable[Disagreement]:
    gates = {row["id"]: row for row in found["gates"]}
    for row in stated["gates"]:
        for name, value in row.items():
            yield Disagreement(f"rules.gates[{row['id']}].{name}", value, gates[row["id"]][name])
    yield Disagreement("rules.fingerprint", stated["fingerprint"], found["fingerprint"])


def figures_disagree(receipt: Json, planned: Planned, one: Tracked) -> list[Disagreement]:
    """Where the figures of a scenario, under both bounds, are not those that a plan of the receipt finds."""
    stated = next((row for row in receipt["scenarios"] if row["scenario"] == one.scenario), None)
    if stated is None:
        return [Disagreement(f"scenarios[{one.scenario}]", None, "a scenario that is kept")]
    rows = planned.matrix.filter(pl.col("scenario") == one.scenario).iter_rows(named=True)
    return [
        Disagreement(
            f"scenarios[{one.scenario}].bounds.{row['bound']}.{name}", stated["bounds"][row["bound"]][name], row[name]
        )
        for row in rows
        for name in ("rate_rps", "status", *(name for name in COLUMNS_OF_BOUND if name not in _OTHERWISE))
        if stated["bounds"][row["bound"]][name] != row[name]
    ]
