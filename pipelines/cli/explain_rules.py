"""What a reader of a decision has to know of its rules: what stands in whose place, what is waived, whether it is accepted."""

from collections.abc import Iterator
from typing import Any

from pipelines.cli.explain_reading import Receipt
from pipelines.gates.wording import worded

Json = dict[str, Any]

_AGAINST = {
    "no_topology": "no topology qualifies",
    "verdict": "{gate} is not passed",
    "exception": "the exception of {gate} expired",
}


def decided(receipt: Receipt) -> Json:
    """The outcome, and everything about the rules that is not as usual, in words."""
    of = receipt.json["decision"]
    kept = ("outcome", "topology", "scenario", "reason", "accepted")
    return {name: of[name] for name in kept} | {"rules": list(_rules(receipt))}


def _rules(receipt: Receipt) -> Iterator[str]:
    rules, of = receipt.json["rules"], receipt.json["decision"]
    for gate in rules["gates"]:
        if gate["overrides"] is not None:
            yield f"{gate['id']} is the cohort's own ({gate['file']}), instead of that of {gate['overrides']}."
    if rules["decision"]["overrides"] is not None:
        yield f"The order of preference is the cohort's own ({rules['decision']['file']})."
    for row in rules["exceptions"]:
        if row["standing"] != "other_cohort":
            where = f" for {', '.join(row['topologies'])}" if row["topologies"] else ""
            verb = "is waived until" if row["standing"] == "holds" else "was waived until"
            yield f"{row['gate']}{where} {verb} {row['expires']}: {row['reason']} ({row['owner']})."
    for row in of["verdicts"]:
        gate = receipt.gate(row["gate"])
        about = {name: gate[name] for name in ("metric", "unit", "op")} | {"inputs": " ".join(row["inputs"])}
        yield f"On the decision: {worded(row | about, gate)}."
    if receipt.json["as_of"] is not None:
        yield f"All this as of {receipt.json['as_of']}."
    if not of["accepted"] and (of["scenario"] is not None or len(of["objections"]) > 1):
        why = [_AGAINST[one["kind"]].format(gate=one["gate"]) for one in of["objections"]]
        yield f"Not accepted: {'; '.join(why)}."
