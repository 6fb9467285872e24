"""What a replay came to, in words."""

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]

ATTAINMENT_INPUT = "objectives.attainment"

_OF_COHORT = {
    "closed_loop": "the cohort declares a concurrency, so that there are no arrivals to replay",
    "no_arrivals": "the cohort declares a rate, or classes, and no arrivals that could be replayed",
}
_OF_SCENARIO = {
    "refused": "the closed forms refuse it",
    "kv_memory": "a request does not fit into the KV memory of a worker even alone",
}


def why_not(reason: str) -> str:
    """Why a cohort or a scenario is not replayed.

    >>> why_not("refused")
    'not replayed: the closed forms refuse it'
    """
    return f"not replayed: {(_OF_COHORT | _OF_SCENARIO).get(reason, reason.replace('_', ' '))}"


def worst_minute(of: Json | None) -> str:
    """The minute in which most requests do not meet their objectives; there is none where all do.

    >>> worst_minute({"minute": 12, "requests": 1400, "met": 3})
    'worst minute 12 (from 0): 3 of 1,400 requests meet all objectives'
    >>> worst_minute(None)
    'all requests meet all objectives'
    """
    if of is None:
        return "all requests meet all objectives"
    return f"worst minute {of['minute']} (from 0): {of['met']:,} of {of['requests']:,} requests meet all objectives"


def replay_doubt(scenario: str, met: float, promised: float) -> str | None:
    """What the trace itself says against a scenario: that fewer of its requests meet their objectives than were promised."""
    if met >= promised:
        return None
    return (
        f"replayed, {100 * met:.4g} % of the requests meet TTFT, TPOT and E2E in {scenario} (modeled), of {100 * promised:.4g} % "
        "promised: `phaseledger replay` says whether a topology keeps that on this trace, and which is the smallest; a gate on "
        "replayed_goodput makes the plan choose by it"
    )


def replay_doubts(promised: float, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Of the chosen one among ``rows`` (``scenario``, ``standing``, ``replay``), what its replay says against it."""
    figures = {row["scenario"]: (row["replay"] or {}).get("figures") for row in rows if row["standing"] == "chosen"}
    said = [
        replay_doubt(name, own["replayed_modeled_goodput"], promised)
        for name, own in figures.items()
        if own is not None
    ]
    return [doubt for doubt in said if doubt is not None]
