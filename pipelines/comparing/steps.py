"""What differs, as the steps of a chain: what cannot be changed alone is one step (docs/receipts.md, Comparing two receipts)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.comparing.differences import ARRIVALS, Differences, InputChange
from pipelines.topologies.constants import HIT_RATIO_INPUT

Json = dict[str, Any]

REQUESTS, RULES = "requests", "rules"
"""The parts of a step that are no paths; every path has a point in it."""

COMPARED = "topologies.compared"
THRESHOLDS = "topologies.routed.threshold_tokens"
BUCKET_OBJECTIVES = "objectives.buckets."
_OF_SEPARATED = ("objectives.ttft_growth", "objectives.transfer_reserve")
"""Objectives without which disaggregated and routed are not compared, or which mean nothing without them."""
_BLOCKS = {"separated": "service"}
"""Blocks that are changed with another one."""


@dataclass(frozen=True)
class Step:
    """Parts that are changed together: paths of inputs, the requests, the rules. ``joined`` says why not one by one."""

    name: str
    parts: tuple[str, ...]
    joined: tuple[str, ...] = ()

    def with_next(self, other: "Step", why: str) -> "Step":
        """Both as one step, since this one alone leads to what cannot be planned."""
        reason = f"{self.name} alone cannot be planned: {why}"
        return Step(
            f"{self.name} joined with {other.name}", self.parts + other.parts, (*self.joined, reason, *other.joined)
        )


def steps(found: Differences, old: Json, new: Json) -> list[Step]:
    """The steps from one receipt to the other in their order: inputs by the inputs table, the requests, the rules."""
    with_requests = _with_requests(found, old, new)
    placed: dict[str, list[str]] = {}
    for change in found.inputs:
        if change.path not in with_requests:
            placed.setdefault(_group(change, found) or change.path, []).append(change.path)
    listed = [Step(_title(paths), tuple(paths)) for paths in placed.values()]
    if found.requests or with_requests:
        parts = (*with_requests, *((REQUESTS,) if found.requests else ()))
        listed.append(Step(_requests_title(found, with_requests), parts))
    if found.rules:
        listed.append(Step(_rules_title(found), (RULES,)))
    return listed


def _group(change: InputChange, found: Differences) -> str | None:
    """The block that a change is made with; None where it is a step of its own."""
    block = change.path.partition(".")[0]
    compared = any(one.path == COMPARED for one in found.inputs)
    if change.path == COMPARED or (
        compared and change.one_sided and (block == "topologies" or change.path in _OF_SEPARATED)
    ):
        return "network"
    return _BLOCKS.get(block, block) if change.one_sided else None


def _title(paths: Sequence[str]) -> str:
    """What a step of inputs is called: its only path, or the blocks whose rows it has."""
    if len(paths) == 1:
        return paths[0]
    blocks = dict.fromkeys(path.partition(".")[0] for path in paths)
    if COMPARED in paths:
        return f"network with {COMPARED}" if "network" in blocks else COMPARED
    return " with ".join(blocks)


def _with_requests(found: Differences, old: Json, new: Json) -> list[str]:
    """The inputs that are changed with the requests: arrivals, and what is declared of these requests or their buckets only."""
    if not found.requests:
        return [change.path for change in found.inputs if change.path.startswith(ARRIVALS)]
    with_requests = {change.path for change in found.inputs if change.path.startswith(ARRIVALS)}
    if any(_states_hits(of) for of in (old, new)):
        with_requests.add(HIT_RATIO_INPUT)
    if not _edges_fit(old, new):
        tied = {change.path for change in found.inputs if change.path.startswith((THRESHOLDS, BUCKET_OBJECTIVES))}
        if THRESHOLDS in tied and any(change.path == COMPARED for change in found.inputs):
            tied |= {change.path for change in found.inputs if _group(change, found) == "network"}
        with_requests |= tied
    return [change.path for change in found.inputs if change.path in with_requests]


def _states_hits(receipt: Json) -> bool:
    """Whether the requests state cached tokens, beside which a declared hit ratio would count hits twice."""
    whole = receipt["workload"]["buckets"][0]
    return bool(whole["uncached_tokens_mean"] < whole["prompt_tokens_mean"])


def _edges_fit(old: Json, new: Json) -> bool:
    """Whether the thresholds and bucket objectives of each receipt are bucket edges of the other."""
    return all(
        set(edges_named({row["path"]: row["value"] for row in one["inputs"]}))
        <= set(other["workload"]["bucket_edges_tokens"])
        for one, other in ((old, new), (new, old))
    )


def edges_named(values: dict[str, Any]) -> list[int]:
    """The bucket edges that inputs name: thresholds, where routed is compared, and ends of bucket objectives."""
    routed = "routed" in str(values.get(COMPARED, "")).split()
    thresholds = [int(word) for word in str(values[THRESHOLDS]).split()] if routed and THRESHOLDS in values else []
    return thresholds + sorted({int(path.split(".")[2]) for path in values if path.startswith(BUCKET_OBJECTIVES)})


def _requests_title(found: Differences, paths: Sequence[str]) -> str:
    members = {change.member for change in found.requests}
    if not members:
        return paths[0] if len(paths) == 1 else "arrivals"
    said = "requests" if members - {"bucket_edges_tokens"} - _OF_EDGES else ""
    edges = "bucket edges" if "bucket_edges_tokens" in members else ""
    inputs = [path for path in paths if not path.startswith(ARRIVALS)]
    arrivals = ["arrivals"] if len(inputs) < len(paths) else []
    more = f" and {len(inputs) - 1} more {'input' if len(inputs) == 2 else 'inputs'}" if inputs[1:] else ""
    return " with ".join(word for word in (said, edges, *arrivals, *inputs[:1]) if word) + more


_OF_EDGES = {"buckets", "strata", "outputs", "windows", "warnings"}
"""What other edges alone change of the same requests."""


def _rules_title(found: Differences) -> str:
    kinds = {change.kind for change in found.rules}
    if kinds == {"date"}:
        return "the date of the rules"
    return "rules and their date" if "date" in kinds else "rules"
