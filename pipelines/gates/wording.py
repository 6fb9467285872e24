"""Figures, limits and gates as a person reads them."""

from typing import Any

SYMBOLS = {"lte": "<=", "lt": "<", "gte": ">=", "gt": ">"}

_MILLISECONDS_BELOW_S = 1.0
_FLOORS = {"ttft_floor": "TTFT", "tpot_floor": "TPOT"}


def shown(value: float | None, unit: str) -> str:
    """A figure with its unit, to four digits: seconds below one as milliseconds, ratios as per cent; ``-`` if absent.

    >>> shown(0.0412345, "s"), shown(2.5, "s"), shown(0.9532, "ratio"), shown(4.0, "count"), shown(None, "s")
    ('41.23 ms', '2.5 s', '95.32 %', '4', '-')
    """
    if value is None:
        return "-"
    if unit == "s":
        return f"{value:.4g} s" if abs(value) >= _MILLISECONDS_BELOW_S else f"{value * 1e3:.4g} ms"
    if unit == "ratio":
        return f"{value * 100:.4g} %"
    return f"{value:.10g}"


def said(verdict: dict[str, Any]) -> str:
    """One verdict as a clause: what was judged, its figure, its limit.

    >>> said(
    ...     {
    ...         "gate": "stall",
    ...         "bound": "nominal",
    ...         "verdict": "fail",
    ...         "figure": 2.0,
    ...         "limit": 0.4,
    ...         "unit": "s",
    ...         "op": "lte",
    ...     }
    ... )
    'stall 2 s, not <= 400 ms'
    """
    limit = f"{SYMBOLS[verdict['op']]} {shown(verdict['limit'], verdict['unit'])}"
    if verdict["verdict"] == "refused":
        return f"{verdict['gate']} refused: no {verdict['bound']} figure to hold against {limit}"
    relation = "" if verdict["verdict"] == "pass" else "not "
    bound = " (conservative)" if verdict["bound"] == "conservative" else ""
    return f"{verdict['gate']} {shown(verdict['figure'], verdict['unit'])}{bound}, {relation}{limit}"


def refusal(row: dict[str, Any]) -> str:
    """A refusal as a clause: kind, resource, figure, limit.

    >>> refusal(
    ...     {"refusal_kind": "utilization", "refusal_resource": "mixed", "refusal_figure": 1.2, "refusal_limit": 0.8}
    ... )
    'refused: utilization of mixed 1.2, ceiling 0.8'
    """
    if row["refusal_kind"] in _FLOORS:
        name = _FLOORS[row["refusal_kind"]]
        alone, objective = (shown(row[f"refusal_{end}"], "s") for end in ("figure", "limit"))
        return f"refused: {name} of {row['refusal_resource']} is {alone} on idle workers, objective {objective}"
    kind, resource = row["refusal_kind"].replace("_", " "), row["refusal_resource"].replace("_", " ")
    figure, limit = row["refusal_figure"], row["refusal_limit"]
    if figure < limit:  # a prefill lane without room: the one figure that is too small, not too large
        return f"refused: {kind}, {resource} with room for {figure:.4g} tokens in a step, needs {limit:.4g}"
    return f"refused: {kind} of {resource} {figure:.4g}, ceiling {limit:.4g}"
