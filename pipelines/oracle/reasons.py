"""Reasons in words, made anew from exported figures (docs/formats.md, Reasons)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .deciding import Candidate, Choice
from .findings import Ledger
from .judging import Judged

REASONS = "docs/formats.md, Reasons"
NONE_CHOSEN = "no scenario of the compared topologies passes every blocking gate"
ABSENT = "-"
SYMBOLS = {"lte": "<=", "lt": "<", "gte": ">=", "gt": ">"}
_FLOORS = {"ttft_floor": "TTFT", "tpot_floor": "TPOT"}
_IN_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


def number(value: float) -> str:
    """Write four significant digits.

    >>> number(95.214), number(40.0), number(0.000012345), number(123456.0)
    ('95.21', '40', '1.234e-05', '1.235e+05')
    """
    return f"{value + 0.0:.4g}"  # no -0


def count(value: float) -> str:
    """Write a count, or what is counted with weights.

    >>> count(11.0), count(2.5), count(1234567.0)
    ('11', '2.5', '1234567')
    """
    return f"{value + 0.0:.10g}"


def quantity(value: float | None, unit: str) -> str:
    """Write a figure with its unit.

    >>> quantity(3.188, "s"), quantity(0.045, "s"), quantity(0.75, "ratio"), quantity(1, "days"), quantity(7, "days")
    ('3.188 s', '45 ms', '75 %', '1 day', '7 days')
    >>> quantity(12, "count"), quantity(None, "s")
    ('12', '-')
    """
    if value is None:
        return ABSENT
    if unit == "s":
        return f"{number(value)} s" if value >= 1 else f"{number(value * 1000)} ms"
    if unit == "ratio":
        return f"{number(value * 100)} %"
    if unit == "days":
        return f"{count(value)} {'day' if value == 1 else 'days'}"
    return count(value)


def check_reasons(ledger: Ledger, receipt: Mapping[str, Any], choice: Choice, candidates: Sequence[Candidate]) -> None:
    """Compare the reason of the decision and of each rejected topology, word by word."""
    prefer = receipt["rules"]["decision"]["prefer"]
    expected = reason_of_choice(choice, candidates)
    ledger.same("decision", "decision.reason", receipt["decision"]["reason"], expected, REASONS)
    reasons = {one.topology: reason_of_rejection(one, choice.chosen, prefer) for one in choice.rejected}
    for row in receipt["rejected"]:
        if row["topology"] in reasons:
            where = f"rejected[{row['topology']}].reason"
            ledger.same("rejected", where, row["reason"], reasons[row["topology"]], REASONS)


def reason_of_choice(choice: Choice, candidates: Sequence[Candidate]) -> str:
    """Return why a scenario was chosen, or that none is."""
    chosen = choice.chosen
    if chosen is None:
        return NONE_CHOSEN
    passing = sum(candidate.passes for candidate in candidates)
    worth = ", ".join(in_words(chosen, key) for key in ("operating_parts", "gpus", "margin"))
    return f"the smallest of {passing} passing scenarios of {len(candidates)}: {worth}"


def in_words(candidate: Candidate, key: str) -> str:
    """Return what a scenario is preferred by."""
    value = candidate.worth(key)
    words: dict[str, Callable[[float], str]] = {
        "operating_parts": lambda parts: f"{count(parts)} operating parts",
        "gpus": lambda gpus: f"{count(gpus)} GPUs",
        "margin": lambda margin: f"{number(margin * 100)} % margin",
    }
    return words[key](value)


def reason_of_rejection(candidate: Candidate, chosen: Candidate | None, prefer: Sequence[str]) -> str:
    """Return why the scenario that stands for a topology was not chosen."""
    if candidate.passes and chosen is not None:
        return _larger(candidate, chosen, prefer)
    refusal = candidate.row["bounds"]["nominal"]["refusal"]
    if refusal is not None:
        return f"refused: {_refusal(refusal)}"
    verdicts = [of_verdict(candidate, judged) for judged in candidate.failing]
    return "; ".join(verdicts) or "no blocking gate applies to it"


def _larger(candidate: Candidate, chosen: Candidate, prefer: Sequence[str]) -> str:
    for key in prefer:
        if candidate.worth(key) != chosen.worth(key):
            return f"passes, but with {in_words(candidate, key)} where {chosen.name} has {in_words(chosen, key)}"
    return f"passes, but comes after {chosen.name} in the matrix"


def _refusal(refusal: Mapping[str, Any]) -> str:
    kind, resource = refusal["kind"], refusal["resource"].replace("_", " ")
    figure, limit = refusal["figure"], refusal["limit"]
    if kind in _FLOORS:
        at, objective = quantity(figure, "s"), quantity(limit, "s")
        return f"{_FLOORS[kind]} of {refusal['resource']} is {at} on idle workers, objective {objective}"
    words = kind.replace("_", " ")
    if figure < limit:
        return f"{words}, {resource} with room for {number(figure)} tokens in a step, needs {number(limit)}"
    return f"{words} of {resource} {number(figure)}, ceiling {number(limit)}"


def of_verdict(candidate: Candidate, judged: Judged) -> str:
    """Return a verdict that is no pass in the gate's own words, or in the usual ones."""
    gate = judged.gate
    if gate["message"] is not None:
        return filled(gate["message"], candidate, judged)
    limit = f"{SYMBOLS[gate['op']]} {quantity(judged.limit, gate['unit'])}"
    if judged.verdict == "refused":
        missing = "limit" if judged.figure is not None and judged.limit is None else f"figure to hold against {limit}"
        return f"{gate['id']} refused: no {gate['bound']} {missing}"
    bound = " (conservative)" if gate["bound"] == "conservative" else ""
    return f"{gate['id']} {quantity(judged.figure, gate['unit'])}{bound}, not {limit}"


def filled(message: str, candidate: Candidate, judged: Judged) -> str:
    """Return the message of a gate with its names replaced; doubled braces are braces."""
    gate = judged.gate
    values = {name: str(gate[member]) for name, member in (("gate", "id"), ("metric", "metric"), ("owner", "owner"))}
    values |= {"scenario": candidate.name, "topology": candidate.topology, "bound": str(gate["bound"])}
    values |= {name: quantity(getattr(judged, name), gate["unit"]) for name in ("figure", "limit")}
    values["margin"] = quantity(judged.margin, "ratio")

    def replacement(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else values.get(found[1], found[0])

    return _IN_BRACES.sub(replacement, message)
