"""What a replay came to, in words."""

from typing import Any

Json = dict[str, Any]

_OF_COHORT = {
    "closed_loop": "the cohort declares a concurrency, so that there are no arrivals to replay",
    "no_arrivals": "all requests come at one instant, so that there are no arrivals to replay",
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
