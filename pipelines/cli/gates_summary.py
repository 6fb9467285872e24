"""The last line of a report of gates: how many there are, how they stand, and whether the decision is accepted."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_EFFECTS = ("passes", "blocks", "informs", "waived")
_MEANS = {"blocks": "blocking", "informs": "not blocking", "waived": "waived", "beside": "beside the decision"}


def counted(rows: list[Json], not_judged: int) -> str:
    """How verdicts stand, as a clause.

    >>> rows = [{"effect": "passes", "verdict": "pass"}, {"effect": "blocks", "verdict": "fail"}]
    >>> counted(rows, 1)
    '1 pass, 1 fails (blocking), 1 not judged'
    """
    parts = [f"{passing} pass"] if (passing := sum(row["effect"] == "passes" for row in rows)) else []
    for effect, means in _MEANS.items():
        for verdict, one, more in (("fail", "fails", "fail"), ("refused", "refused", "refused")):
            count = sum(row["effect"] == effect and row["verdict"] == verdict for row in rows)
            parts += [f"{count} {one if count == 1 else more} ({means})"] if count else []
    return ", ".join([*parts, *([f"{not_judged} not judged"] if not_judged else [])])


def speaking_rows(facts: Json) -> Iterator[Json]:
    """The verdicts that the decision rests on: those of the scenarios that speak for it, then its own."""
    for of in facts["scenarios"]:
        if of["speaks"]:
            yield from of["verdicts"]
    yield from facts["decision"]["verdicts"]


def stands(facts: Json) -> bool:
    """Whether every gate that decides passes, and the decision is accepted."""
    return facts["accepted"] and all(row["effect"] != "blocks" for row in speaking_rows(facts))


def summary(facts: Json) -> Json:
    """Counts over the verdicts that the decision rests on, and all of it in words."""
    rows = list(speaking_rows(facts))
    blocks = [of for of in facts["scenarios"] if of["speaks"]] + [facts["decision"]]
    judged = {row["gate"] for row in rows}
    left = {one["gate"] for of in blocks for one in of["not_judged"]} - judged
    scenarios = len(blocks) - 1
    of = f"{len(rows)} gates" if scenarios == 1 else f"{len(rows)} verdicts on {scenarios} scenarios"
    if len(rows) == 1:
        of = "1 gate"
    waivers = Counter(row["exception"]["expires"] for row in rows if row["exception"])
    parts = [f"{of}: {counted(rows, len(left))}"]
    parts += [f"{count} waived until {until}" for until, count in sorted(waivers.items())]
    against = "; ".join(one["words"] for one in facts["objections"])
    parts.append(f"not accepted: {against}" if against else "accepted")
    effects = Counter(row["effect"] for row in rows)
    return (
        {"verdicts": len(rows)}
        | {name: effects[name] for name in _EFFECTS}
        | {"not_judged": len(left), "stands": stands(facts), "words": "; ".join(parts)}
    )
