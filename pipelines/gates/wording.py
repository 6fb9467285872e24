"""Figures, limits and gates as a person reads them."""

from collections.abc import Mapping
from typing import Any

SYMBOLS = {"lte": "<=", "lt": "<", "gte": ">=", "gt": ">"}

_MILLISECONDS_BELOW_S = 1.0
_MOST_PATHS = 4
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
    if unit == "days":
        return f"{value:.10g} days" if value != 1 else "1 day"
    return f"{value:.10g}"


def said(verdict: dict[str, Any]) -> str:
    """One verdict as a clause: what was judged, its figure, its limit.

    >>> row = {"gate": "stall", "bound": "nominal", "figure": 2.0, "limit": 0.4, "unit": "s", "op": "lte"}
    >>> said(row | {"verdict": "fail"}), said(row | {"verdict": "fail", "waived": True})
    ('stall 2 s, not <= 400 ms', 'stall 2 s, not <= 400 ms (waived)')
    """
    waived = " (waived)" if verdict.get("waived") else ""
    limit = f"{SYMBOLS[verdict['op']]} {shown(verdict['limit'], verdict['unit'])}"
    if verdict["verdict"] == "refused":
        lacks = "figure" if verdict["figure"] is None else "limit"
        against = f" to hold against {limit}" if verdict["figure"] is None else ""
        return f"{verdict['gate']} refused: no {verdict['bound']} {lacks}{against}{waived}"
    relation = "" if verdict["verdict"] == "pass" else "not "
    bound = " (conservative)" if verdict["bound"] == "conservative" else ""
    return f"{verdict['gate']} {shown(verdict['figure'], verdict['unit'])}{bound}, {relation}{limit}{waived}"


def said_of_decision(verdict: dict[str, Any]) -> str:
    """A verdict on the decision as a clause, with the inputs that make its figure.

    >>> row = {"gate": "measured", "figure": 0.5, "limit": 0.2, "unit": "ratio", "op": "lte", "waived": False}
    >>> said_of_decision(row | {"verdict": "fail", "inputs": "model.layers requests.trace"})
    'measured 50 %, not <= 20 %: model.layers, requests.trace'
    >>> said_of_decision(row | {"figure": None, "verdict": "refused", "inputs": "model.layers"})
    'measured refused: no date, or one to come, in the source of model.layers'
    """
    waived = " (waived)" if verdict["waived"] else ""
    every = verdict["inputs"].split()
    paths = ", ".join(every[:_MOST_PATHS]) + (f" and {len(every) - _MOST_PATHS} more" if every[_MOST_PATHS:] else "")
    if verdict["verdict"] == "refused":
        why = f"no date, or one to come, in the source of {paths}" if paths else "nothing was chosen"
        return f"{verdict['gate']} refused: {why}{waived}"
    relation = "" if verdict["verdict"] == "pass" else "not "
    limit = f"{SYMBOLS[verdict['op']]} {shown(verdict['limit'], verdict['unit'])}"
    why = f": {paths}" if paths and verdict["verdict"] == "fail" else ""
    if not why and verdict.get("metric") != "critical_pools" and not verdict.get("counted", 1):
        why = ": no input that it rests on matches"
    return f"{verdict['gate']} {shown(verdict['figure'], verdict['unit'])}, {relation}{limit}{waived}{why}"


def message(template: str, verdict: Mapping[str, Any], owner: str) -> str:
    """What a gate's ``message`` says of a verdict.

    >>> row = {"gate": "stall", "metric": "stall", "figure": 2.0, "limit": 0.4, "unit": "s", "margin": -4.0}
    >>> message("{gate}: {figure} where {limit} were promised, {margin}", row, "sre")
    'stall: 2 s where 400 ms were promised, -400 %'
    """
    fields = {name: verdict.get(name) for name in ("scenario", "topology", "gate", "metric", "bound")}
    figures = {name: shown(verdict[name], verdict["unit"]) for name in ("figure", "limit")}
    return template.format(**fields, **figures, margin=shown(verdict["margin"], "ratio"), owner=owner)


def worded(verdict: dict[str, Any], gate: Mapping[str, Any]) -> str:
    """A verdict in the gate's own words where it has some and the verdict is not a pass, else in the usual ones."""
    if gate["message"] is not None and verdict["verdict"] != "pass":
        waived = " (waived)" if verdict["waived"] else ""
        return message(gate["message"], verdict, gate["owner"]) + waived
    return said(verdict) if gate["scope"] == "scenario" else said_of_decision(verdict)


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
