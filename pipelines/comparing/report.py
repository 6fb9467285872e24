"""The comparison of two receipts as one JSON value."""

from dataclasses import asdict
from typing import Any

import polars as pl

from pipelines.comparing.chain import Chain, Link, Progress, chain, same_decision
from pipelines.comparing.differences import Differences, InputChange, RuleChange, differences
from pipelines.comparing.ends import Disagreement, disagreements, figures_disagree, left_out
from pipelines.comparing.mixes import Sides, UnplannableError
from pipelines.comparing.planner import Planned, Planner
from pipelines.comparing.side_by_side import side_by_side
from pipelines.comparing.steps import REQUESTS, RULES, steps
from pipelines.comparing.tracked import Tracked, figures, moved, tracked
from pipelines.receipts.headlines import NOTHING_PASSES

Json = dict[str, Any]

_OF_REQUESTS = (
    "kind",
    "requests",
    "duration_s",
    "bucket_edges_tokens",
    "requests_sha256",
    "format",
    "provenance",
    "source",
    "note",
    "rows_read",
    "rows_dropped",
    "prefix_cache",
)
_DECIDED = ("outcome", "topology", "scenario", "accepted", "objections", "reason")
_OF_ALL_REQUESTS = (
    "rate_rps",
    "arrival_scv",
    "prompt_tokens_mean",
    "uncached_tokens_mean",
    "output_tokens_mean",
    "prompt_tokens_max",
    "output_tokens_max",
)


class ContradictedError(Exception):
    """A receipt does not say what its inputs give: ``old`` and ``new`` hold where."""

    def __init__(self, old: list[Disagreement], new: list[Disagreement]) -> None:
        """Keep them."""
        super().__init__("a receipt does not say what its inputs give")
        self.old, self.new = old, new


def compared(old: Json, new: Json, sides: Sides, progress: Progress) -> Json:
    """Everything that is to be said of two receipts and the frames reopened from them, but for where they were read.

    ContradictedError where one of them states what its inputs do not give.
    """
    found = differences(old, new, sides.old.rules, sides.new.rules)
    planner = Planner(sides)
    listed = steps(found, old, new)
    every = frozenset(part for step in listed for part in step.parts)
    ends = [_end(planner, frozenset()), _end(planner, every)]
    wrong = [
        [end] if isinstance(end, Disagreement) else disagreements(receipt, side, end)
        for receipt, side, end in zip((old, new), (sides.old, sides.new), ends, strict=True)
    ]
    if any(wrong):
        raise ContradictedError(*wrong)
    walked = chain(planner, listed, progress)
    followed = tracked(walked.old, walked.new)
    wrong = [
        [
            disagreement
            for one in followed
            if name in one.standing
            for disagreement in figures_disagree(receipt, planned, one)
        ]
        for name, receipt, planned in (("old", old, walked.old), ("new", new, walked.new))
    ]
    if any(wrong):
        raise ContradictedError(*wrong)
    return _report(old, new, found, walked, followed)


def _end(planner: Planner, parts: frozenset[str]) -> Planned | Disagreement:
    try:
        return planner.plan(parts)
    except UnplannableError as error:
        return Disagreement("inputs", "what a plan was made from", f"no plan can be made of it: {error}")


def _report(old: Json, new: Json, found: Differences, walked: Chain, followed: list[Tracked]) -> Json:
    one_question = old["fingerprint"] == new["fingerprint"]
    states = [walked.old, *(link.after for link in walked.links)]
    follow = {one.scenario: [figures(state, one) for state in states] for one in followed}
    links = [
        _link(link, walked, found, {name: rows[place : place + 2] for name, rows in follow.items()})
        for place, link in enumerate(walked.links)
    ]
    without = _left_out(old, new)
    return {
        "old": _about(old) if without is None else _about(old) | _by_closed_forms(walked.old),
        "new": _about(new) if without is None else _about(new) | _by_closed_forms(walked.new),
        "latency_label": "modeled",
        "left_out": without,
        "same_cohort": old["cohort"]["name"] == new["cohort"]["name"],
        "same_question": one_question,
        "nothing_differs": found.nothing,
        "same_decision": walked.same,
        "scenarios": [_followed(one, follow[one.scenario]) for one in followed],
        "steps": links,
        "decisive": [row["name"] for row in links if row["decisive"]],
        "verdicts": side_by_side(old, new) if one_question else None,
    }


def _left_out(old: Json, new: Json) -> Json | None:
    """The gates on replayed figures that apply in either receipt, and what is decided there with them; None without such gates."""
    gates = list(dict.fromkeys((*left_out(old), *left_out(new))))
    if not gates:
        return None
    decisions = {name: {key: of["decision"][key] for key in _DECIDED} for name, of in (("old", old), ("new", new))}
    return {"gates": gates} | decisions | {"same": same_decision(old["decision"], new["decision"])}


def _by_closed_forms(planned: Planned) -> Json:
    """What a plan decides, in place of what its receipt says."""
    chosen = planned.decision.filter(pl.col("standing") == "chosen")["reason"].to_list()
    return {"decision": planned.decided | {"reason": chosen[0] if chosen else NOTHING_PASSES}}


def _followed(one: Tracked, states: list[Json | None]) -> Json:
    """A followed scenario, how it stands in either receipt, and its figures in OLD, in NEW and the difference."""
    return {
        "scenario": one.scenario,
        "topology": one.topology,
        "old": one.standing.get("old"),
        "new": one.standing.get("new"),
        "figures": _moved(states[0], states[-1]),
    }


def _moved(before: Json | None, after: Json | None) -> Json:
    return {"before": before, "after": after, "moved": moved(before, after)}


def _about(receipt: Json) -> Json:
    of = receipt["decision"]
    return {
        "cohort": receipt["cohort"]["name"],
        "title": receipt["cohort"]["title"],
        "fingerprint": receipt["fingerprint"],
        "rules_fingerprint": receipt["rules"]["fingerprint"],
        "seal": receipt["seal"],
        "as_of": receipt["as_of"],
        "arithmetic": receipt["versions"]["arithmetic"],
        "product": receipt["versions"]["product"],
        "decision": {name: of[name] for name in _DECIDED},
        "search": {name: receipt["search"][name] for name in ("scenarios", "kept")},
        "requests": {name: receipt["workload"][name] for name in _OF_REQUESTS}
        | {name: receipt["workload"]["buckets"][0][name] for name in _OF_ALL_REQUESTS},
    }


def _link(link: Link, walked: Chain, found: Differences, followed: dict[str, list[Json | None]]) -> Json:
    step = link.step
    return {
        "name": step.name,
        "joined": list(step.joined),
        "inputs": [_input(change) for change in found.inputs if change.path in step.parts],
        "requests": [change.member for change in found.requests] if REQUESTS in step.parts else [],
        "rules": [_rule(change) for change in found.rules] if RULES in step.parts else [],
        "decision": link.after.decided,
        "figures": [{"scenario": name} | _moved(*states) for name, states in followed.items()],
        "old_with_it_alone": _alone(link.alone),
        "new_without_it": _alone(link.without),
        "sufficient": walked.sufficient(link),
        "necessary": walked.necessary(link),
        "decisive": walked.decisive(link),
    }


def _input(change: InputChange) -> Json:
    kept = ("value", "low", "high", "conservative", "provenance", "source", "note")
    old, new = (None if row is None else {name: row[name] for name in kept} for row in (change.old, change.new))
    unit = (change.old or change.new or {})["unit"]
    return {"path": change.path, "unit": unit, "members": change.members, "old": old, "new": new}


def _rule(change: RuleChange) -> Json:
    return {
        "kind": change.kind,
        "name": change.name,
        "change": change.change,
        "members": [asdict(member) for member in change.members],
        "old": change.old,
        "new": change.new,
    }


def _alone(planned: Planned | UnplannableError) -> Json:
    """The decision of a step alone, or why there is none."""
    if isinstance(planned, UnplannableError):
        return {"decision": None, "why_not": str(planned)}
    return {"decision": planned.decided, "why_not": None}
