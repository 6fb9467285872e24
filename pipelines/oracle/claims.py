"""What a receipt claims about itself: versions, labels, and prose that must not claim a measurement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .findings import SIGNIFICANT_DIGITS, Ledger
from .names import BOUNDS
from .words import check_truth

CHECK = "claims"
ARITHMETIC_VERSION = "5"
LATENCY_LABEL = "modeled"
RESULT_PROVENANCE = "derived"

_NO_MEASUREMENT = "nothing here is a measurement"
_CLAIM = re.compile(
    r"\b(?:measured|measurements?|benchmarked|percentiles?)\b"
    r"|(?<![/\w])p\d{2,3}(?:\.\d+)?\b(?!/)"  # p99, but not the p10 of a scenario
    r"|\bobserved\s+(?:ttft|tpot|e2e|latenc\w+|goodput|stalls?|throughput)\b",
    re.IGNORECASE,
)
_DENIAL = re.compile(r"\b(?:no|not|none|never|nor|neither|nothing|without|cannot)\b|n't\b", re.IGNORECASE)


def check_claims(ledger: Ledger, receipt: Mapping[str, Any]) -> None:
    """Every latency is modeled, every result derived, and no prose says otherwise."""
    versions, truth = receipt["versions"], receipt["truth_boundary"]
    digits = versions["significant_digits"]
    ledger.same(CHECK, "versions.arithmetic", versions["arithmetic"], ARITHMETIC_VERSION, "the version verified here")
    ledger.same(CHECK, "versions.significant_digits", digits, SIGNIFICANT_DIGITS, "docs/arithmetic.md section 11")
    ledger.same(CHECK, "truth_boundary.latency_label", truth["latency_label"], LATENCY_LABEL, _NO_MEASUREMENT)
    for scenario in receipt["scenarios"]:
        for bound in BOUNDS:
            where, row = f"scenarios[{scenario['scenario']}].bounds.{bound}", scenario["bounds"][bound]
            ledger.same(CHECK, f"{where}.label", row["label"], LATENCY_LABEL, _NO_MEASUREMENT)
            ledger.same(CHECK, f"{where}.provenance", row["provenance"], RESULT_PROVENANCE, "results are derived")
    check_truth(ledger, CHECK, truth)
    for index, warning in enumerate(receipt["workload"]["warnings"]):
        _check_prose(ledger, f"workload.warnings[{index}]", warning)


def claims_a_measurement(prose: str) -> bool:
    """Whether a sentence speaks of measurements or percentiles without denying them.

    >>> claims_a_measurement("TTFT p99 is 0.4 s."), claims_a_measurement("Nothing here is measured.")
    (True, False)
    """
    sentences = re.split(r"(?<=[.;!?])\s+", prose)
    return any(_CLAIM.search(sentence) and not _DENIAL.search(sentence) for sentence in sentences)


def _check_prose(ledger: Ledger, where: str, prose: str) -> None:
    holds = not claims_a_measurement(prose)
    ledger.holds(CHECK, where, holds, prose, "prose that claims no measurement and no percentile", _NO_MEASUREMENT)
