"""Arrivals: what each kind of them leaves null, and the rates of the buckets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .findings import WORKLOAD_DIGITS, Ledger
from .objectives import edge_of
from .parameters import CONCURRENCY, RATE, Inputs
from .traffic import rate_at

CHECK = "workload"
WHOLE = "workload.buckets[all]"
FORMAT = "docs/formats.md, Receipt"
LEAST_OF_A_TRACE = 3

ROUNDING = 2 * 10.0 ** (1 - WORKLOAD_DIGITS)
"""Relative difference of two sides of an identity, each rounded to 12 significant digits."""


def agree(left: float, right: float) -> bool:
    """Whether the sides of an identity are equal but for the rounding of the workload."""
    if not (math.isfinite(left) and math.isfinite(right)):
        return False
    return abs(left - right) <= ROUNDING * max(abs(left), abs(right))


def check_arrivals(ledger: Ledger, workload: Mapping[str, Any]) -> bool:
    """Check what must be null and what must not, and an open trace's rates; say whether the rates can be used."""
    kind, rows = workload["kind"], workload["buckets"]
    duration = workload["duration_s"]
    fits = [
        ledger.holds(CHECK, "workload.duration_s", (duration is not None) == (kind == "open"), duration, kind, FORMAT)
    ]
    for row in rows:
        where, rate, scv = f"workload.buckets[{row['bucket']}]", row["rate_rps"], row["arrival_scv"]
        known = rate is None if kind == "closed" else rate is not None
        fits.append(
            ledger.holds(CHECK, f"{where}.rate_rps", known, rate, f"null only if closed; kind is {kind}", FORMAT)
        )
        if kind != "open":
            ledger.same(CHECK, f"{where}.arrival_scv", scv, None, "arrivals are declared")
    if not all(fits):
        return False
    if kind == "open":
        _check_trace(ledger, workload, rows)
    return True


def _check_trace(ledger: Ledger, workload: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """`Λ = (N - 1) / duration`, `Λ_k = Λ · N_k / N`; and a variation that so many gaps can have."""
    requests, whole = workload["requests"], rows[0]
    enough = requests >= LEAST_OF_A_TRACE
    ledger.holds(
        CHECK, "workload.requests", enough, requests, f"at least {LEAST_OF_A_TRACE}", "one gap has no variation"
    )
    arrivals = whole["rate_rps"] * workload["duration_s"]
    why = "rate x duration = requests - 1"
    ledger.holds(CHECK, f"{WHOLE}.rate_rps", agree(arrivals, requests - 1), arrivals, requests - 1, why)
    check_shares(ledger, workload, whole["rate_rps"])
    scv = whole["arrival_scv"]
    ledger.holds(CHECK, f"{WHOLE}.arrival_scv", scv is not None, scv, "a number: every wait reads it")
    for row in rows:
        where, scv = f"workload.buckets[{row['bucket']}].arrival_scv", row["arrival_scv"]
        if scv is not None:
            most = row["requests"] - 1
            ledger.holds(CHECK, where, scv <= most, scv, f"at most {most}", "one of the gaps may be all of the time")


def check_shares(ledger: Ledger, workload: Mapping[str, Any], rate_rps: float) -> None:
    """`Λ_k = Λ · N_k / N`."""
    for row in workload["buckets"][1:]:
        where, rate = f"workload.buckets[{row['bucket']}].rate_rps", rate_rps * row["requests"] / workload["requests"]
        why = "docs/arithmetic.md section 1: the bucket's share of the rate"
        ledger.holds(CHECK, where, agree(row["rate_rps"], rate), row["rate_rps"], rate, why)


def check_declared(ledger: Ledger, workload: Mapping[str, Any], inputs: Inputs) -> bool:
    """Check that the kind of arrivals is the declared one, and a declared rate; say whether the kind can be used."""
    kind = "closed" if CONCURRENCY in inputs.rows else "rate" if RATE in inputs.rows else "open"
    if not ledger.same(CHECK, "workload.kind", workload["kind"], kind, "what the inputs table declares of arrivals"):
        return False
    rate = rate_at(workload, inputs, "nominal")
    if kind == "rate" and rate is not None:
        found = workload["buckets"][0]["rate_rps"]
        ledger.holds(CHECK, f"{WHOLE}.rate_rps", agree(found, rate), found, rate, RATE)
        check_shares(ledger, workload, rate)
    return True


def check_edges(ledger: Ledger, workload: Mapping[str, Any], inputs: Inputs) -> None:
    """Thresholds, and the edges of objectives of buckets, are edges of the buckets."""
    edges = workload["bucket_edges_tokens"]
    of_objectives = [found[0] for path in inputs.rows if (found := edge_of(path)) is not None]
    for edge in dict.fromkeys((*inputs.thresholds, *of_objectives)):
        why = "thresholds and edges of objectives are bucket edges (docs/formats.md)"
        ledger.holds(CHECK, "workload.bucket_edges_tokens", edge in edges, edges, f"{edge} among them", why)
