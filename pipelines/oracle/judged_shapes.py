"""The shape of what a receipt says of rules, verdicts and the decision (docs/formats.md, Receipt)."""

from __future__ import annotations

from .excepting import DATE
from .names import (
    AGGREGATES,
    BOUNDS,
    BUCKET_METRICS,
    DECISION_UNITS,
    GATE_KINDS,
    METRIC_UNITS,
    PART_KINDS,
    PREFERENCES,
    TOPOLOGIES,
)
from .shapes import boolean, distinct, line, listing, nullable, number, one_of, record, text

_NAME = text("[a-z0-9_]{1,63}")
_FILE = text(r"[^/\n]+\.ya?ml")
_TOPOLOGIES = listing(one_of(*TOPOLOGIES))
_COHORTS = nullable(distinct(text("[A-Za-z0-9._-]{1,64}")))
_OBJECTIVE = r"objectives\.[a-z0-9_]+"

_GATE = record(
    {
        "id": _NAME,
        "file": _FILE,
        "overrides": nullable(_FILE),
        "kind": one_of(*GATE_KINDS),
        "scope": one_of("scenario", "decision"),
        "metric": one_of(*METRIC_UNITS, *BUCKET_METRICS, *DECISION_UNITS),
        "unit": one_of("s", "ratio", "count", "days"),
        "topologies": _TOPOLOGIES,
        "buckets": nullable(distinct(text(r"shortest|longest|\[[0-9]+,(?:[0-9]+|inf)\)"))),
        "aggregate": nullable(one_of(*AGGREGATES)),
        "within": nullable(number(0)),
        "within_source": nullable(text(f"declared|{_OBJECTIVE}")),
        "inputs": nullable(distinct(text("[a-z0-9_.*-]+"))),
        "cohorts": _COHORTS,
        "bound": nullable(one_of(*BOUNDS)),
        "op": one_of("lte", "lt", "gte", "gt"),
        "limit": nullable(number()),
        "limit_source": text(rf"declared|{_OBJECTIVE}|(?:metrics|baselines)\.[a-z0-9_]+"),
        "limit_times": nullable(number()),
        "severity": one_of("error", "warn"),
        "blocking": boolean(),
        "applies": boolean(),
        "message": nullable(text(empty=True)),
        "owner": line(),
        "rationale": nullable(text(empty=True)),
    }
)

_EXCEPTION = record(
    {
        "gate": _NAME,
        "file": _FILE,
        "topologies": _TOPOLOGIES,
        "cohorts": _COHORTS,
        "reason": text(),
        "owner": line(),
        "expires": text(DATE),
        "standing": one_of("holds", "expired", "other_cohort"),
    }
)

RULES = record(
    {
        "fingerprint": text("[0-9a-f]{64}"),
        "gates": listing(_GATE, key="id"),
        "exceptions": listing(_EXCEPTION),
        "decision": record(
            {
                "file": _FILE,
                "overrides": nullable(_FILE),
                "prefer": listing(one_of(*PREFERENCES), least=1),
                "operating_part_weights": record({kind: number(0) for kind in PART_KINDS}),
            }
        ),
    }
)

_FIGURES = {
    "gate": text(),
    "figure": nullable(number()),
    "limit": nullable(number()),
    "verdict": one_of("pass", "fail", "refused"),
}
_JUDGED = {**_FIGURES, "margin": nullable(number()), "waived": boolean()}

VERDICT = record({**_JUDGED, "bound": one_of(*BOUNDS)})

DECISION = record(
    {
        "outcome": one_of("topology_chosen", "no_topology_qualifies"),
        "scenario": nullable(text()),
        "topology": nullable(one_of(*TOPOLOGIES)),
        "reason": text(),
        "rests_on": listing(
            record({"path": text(), "provenance": one_of("observed", "supplied")}), key="path", least=1
        ),
        "unobserved_share": number(0),
        "verdicts": listing(record({**_JUDGED, "limit": number(), "inputs": listing(text())}), key="gate"),
        "accepted": boolean(),
        "objections": listing(
            record({"kind": one_of("no_topology", "verdict", "exception"), "gate": nullable(text())})
        ),
    }
)

REJECTED = record(
    {
        "topology": one_of(*TOPOLOGIES),
        "scenario": text(),
        "status": one_of("passes_but_larger", "nearest_miss"),
        "failing": listing(record(_FIGURES), key="gate"),
        "reason": text(),
    }
)
