"""The verdicts of two receipts that answer one question, gate by gate and scenario by scenario."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

VERDICTS = ("pass", "fail", "refused")


def side_by_side(old: Json, new: Json) -> Json:
    """How often each gate says what in either receipt, which verdicts changed, and which reasons of rejected topologies."""
    before, after = _verdicts(old), _verdicts(new)
    changed = [
        {"scenario": scenario, "gate": gate, "old": before.get(key), "new": after.get(key)}
        for key in [*before, *(key for key in after if key not in before)]
        for gate, scenario in [key]
        if before.get(key) != after.get(key)
    ]
    gates = list(dict.fromkeys(gate for gate, _ in (*before, *after)))
    return {
        "gates": [
            {"gate": gate, "old": _counts(before, gate), "new": _counts(after, gate)}
            | {"changed": sum(row["gate"] == gate for row in changed)}
            for gate in gates
        ],
        "changed": changed,
        "rejected": list(_rejected(old, new)),
    }


def _verdicts(receipt: Json) -> dict[tuple[str, str], Json]:
    """Verdict and waiver by gate and scenario."""
    return {
        (row["gate"], of["scenario"]): {"verdict": row["verdict"], "waived": row["waived"]}
        for of in receipt["scenarios"]
        for row in of["verdicts"]
    }


def _counts(verdicts: dict[tuple[str, str], Json], gate: str) -> Json | None:
    """How often each verdict is; None of a gate that judges nothing."""
    own = [row for (name, _), row in verdicts.items() if name == gate]
    if not own:
        return None
    counted = Counter(row["verdict"] for row in own)
    return {name: counted[name] for name in VERDICTS} | {"waived": sum(row["waived"] for row in own)}


def _rejected(old: Json, new: Json) -> Iterator[Json]:
    before, after = ({row["topology"]: row for row in of["rejected"]} for of in (old, new))
    kept = ("scenario", "status", "reason")
    for topology in dict.fromkeys((*before, *after)):
        stated = [
            None if topology not in rows else {name: rows[topology][name] for name in kept} for rows in (before, after)
        ]
        if stated[0] != stated[1]:
            yield {"topology": topology, "old": stated[0], "new": stated[1]}
