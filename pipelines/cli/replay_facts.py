"""What a replay by hand found, as facts: what ``--format json`` prints and the text says."""

import math
from collections.abc import Mapping
from typing import Any

from pipelines.frames.digits import significant
from pipelines.frames.replays import COUNTS, FIGURES, OF_POOL, POOLS, TIMES
from pipelines.gates.rules import preferred_keys
from pipelines.planning.replay_named import OneReplay, replayed_scenario
from pipelines.planning.replay_search import GOODPUT_FOR, Candidate, Found, ReplaySearch
from pipelines.planning.replay_spaces import Trace
from pipelines.receipts.headlines import worst_minute_of
from pipelines.replay.lanes import lane_means
from pipelines.replay.windows import windows_frame
from pipelines.topologies.scenarios import KNOBS

Json = dict[str, Any]

LABEL = "modeled"
_COUNTS = (*COUNTS, "swapped_bytes", *TIMES)


def requests_needed(target: float, requests: int) -> int:
    """The fewest of so many requests whose share, to the exported digits, is at least ``target``.

    >>> requests_needed(0.95, 100), requests_needed(0.951, 100), requests_needed(1.0, 7)
    (95, 96, 7)
    """
    fewest = max(0, math.floor(target * requests) - 1)
    while significant(fewest / requests) < target:
        fewest += 1
    return fewest


def asked(name: str, trace: Trace, target: float) -> Json:
    """What was asked."""
    return {
        "cohort": name,
        "bound": trace.bound,
        "target": target,
        "latency_label": LABEL,
        "requests": len(trace.costs.log.prompt),
    }


def search_facts(search: ReplaySearch, found: Found) -> Json:
    """The smallest scenario that meets the target, how each topology stands, and the list of scenarios."""
    order = list(search.trace.inputs.words("topologies.compared"))
    best = sorted(found.best.values(), key=lambda one: order.index(one.topology))
    wanted = {one.order: one for one in (found.smallest, *best, *found.listed) if one is not None}
    listed = sorted(wanted.values(), key=search.rank)
    known = {one.order: _facts(search, one) for one in listed}
    return {
        "meets": found.smallest is not None,
        "smallest": None if found.smallest is None else known[found.smallest.order]["scenario"],
        "preferred_by": [
            "replayed_goodput" if key == GOODPUT_FOR else key for key in preferred_keys(search.preference)
        ],
        "searched": vars(found.counts),
        "best": {one.topology: known[one.order]["scenario"] for one in best},
        "scenarios": [known[one.order] for one in listed],
    }


def _facts(search: ReplaySearch, candidate: Candidate) -> Json:
    one = replayed_scenario(search.trace, candidate.knobs, candidate.parts)
    if one.row is None or one.row["met"] != candidate.met:
        raise ArithmeticError(f"{one.scenario}: its paths do not add up to it")
    return scenario_facts(search.trace, one, search.target)


def scenario_facts(trace: Trace, one: OneReplay, target: float, *, windows: bool = False) -> Json:
    """One scenario: all counts and figures of its replay; with details lanes, and if asked for, ``windows``."""
    row = one.row
    facts: Json = {"scenario": one.scenario, "topology": one.knobs["topology"], "bound": trace.bound}
    facts |= {name: one.knobs[name] for name in (*KNOBS, "gpus")} | {"operating_parts": one.parts}
    facts |= {"reason": one.reason, "refusal": one.refusal}
    if row is None or one.outcome is None:
        return facts | dict.fromkeys(("meets_target", "requests_short", "figures", "worst_minute", "counts", "pools"))
    short = requests_needed(target, row["requests"]) - row["met"]
    facts |= {"meets_target": short <= 0, "requests_short": max(0, short)}
    facts |= {
        "figures": {name: row[name] for name in FIGURES},
        "worst_minute": worst_minute_of({"minute": None, **row}),
    }
    facts |= {"counts": {name: row[name] for name in _COUNTS}, "pools": _pools(row, one)}
    if one.outcome.details:
        facts["lane_means"] = lane_means(trace.costs, one.paths, one.outcome)
    if windows:
        facts["windows"] = windows_frame(trace.costs, one.outcome).to_dicts()
    return facts


def _pools(row: Mapping[str, Any], one: OneReplay) -> list[Json]:
    """Of each pool what its workers did, and the most that one of them held."""
    assert one.outcome is not None
    used = [pool for pool in POOLS if pool in one.outcome.servers]
    return [
        {"pool": pool, "workers": one.outcome.servers[pool]} | {name: row[f"{pool}_{name}"] for name in OF_POOL}
        for pool in used
    ]
