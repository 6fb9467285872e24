"""No figure, flag or word of a receipt can be changed alone: each one is recomputed, compared or sealed into another.

The receipt is a real cohort on a small inventory, so that every leaf can be tried. The JSON is judged without its
matrix, and changed inputs get a fingerprint of their own: neither may be what gives a change away.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle.findings import Ledger, round_significant
from pipelines.oracle.names import AGGREGATES, BUCKET_METRICS, DECISION_UNITS, METRIC_UNITS, TOPOLOGIES
from pipelines.oracle.structure import check_structure
from pipelines.oracle.verifying import INCOMPUTABLE, check_content
from tests.oracle.forging import Receipt, load, name_anew, shrink
from tests.oracle.handmade import receipt_of

Place = tuple[str | int, ...]

MEANINGLESS = {
    # place: why a change of it alone follows from nothing else in the receipt
    r"/seal": "the seal of the changed receipt is renewed",
    r"/matrix/sha256": "the matrix is not given here",
    r"/fingerprint": "renewed with the inputs; a wrong one is tried below",
    r"/versions/product": "names the writer",
    r"/cohort/(name|title)": "names the cohort",
    r"/truth_boundary/(statement|unmeasured/\d+)": "prose",
    r"/(kv|transfer)/formula": "prose",
    r"/topologies/\d+/parts/\w+/\d+": "names of parts; their number counts",
    r"/decision/reason": "prose",
    r"/rejected/\d+/reason": "prose",
    r"/inputs/\[.*\]/(source|note)": "prose, held by the fingerprint",
    r"/inputs/\[model\.name\]/.*": "a name, held by the fingerprint",
    r"/inputs/\[.*(peak_.*|line_rate)\]/(value|conservative|low|high|provenance)": "compared with, never computed with",
    r"/inputs/\[.*\]/(low|high)": "the end that does not hurt, held by the fingerprint",
    r"/inputs/\[service\.first_token_source\]/(value|conservative|provenance)": "read only when state moves",
    r"/inputs/\[service\.decode\.discipline\]/provenance": "read by no evaluation, held by the fingerprint",
    r"/inputs/\[topologies\..*\]/provenance": "read only by the topologies it names",
    r"/workload/(requests_sha256|bucket_edges_tokens/\d+)": "held by the fingerprint; edges by the bucket labels",
    r"/workload/(format|source|note)": "prose",
    r"/workload/dropped/\d+/kind": "a name",
    r"/workload/steps/\d+/detail": "prose",
    r"/workload/warnings/\d+": "prose",
    r"/workload/prefix_cache/(capacity_tokens|scope|workers|block_tokens)": "what the cache was; its hits are counted",
    r"/workload/buckets/[1-9]\d*/arrival_scv": "no equation reads it",
    r"/workload/buckets/[1-9]\d*/(output_tokens_m2|prompt_output_mean)": "sums hold it as far as it counts",
    r"/workload/buckets/[1-9]\d*/(attention_m2|uncached_attention_mean|prompt_attention_mean)": "likewise",
    r"/workload/buckets/\d+/output_tokens_max": "no equation reads it; laws of moments bound it",
    r"/workload/buckets/[1-9]\d*/(prompt_tokens|uncached_tokens|attention)_max": "only the largest is read; laws bound it",
    r"/workload/windows/\d+/(dispersion|peak_rps)": "no equation reads it; whole counts and laws bound it",
    r"/rules/gates/\d+/(file|overrides|kind|message|owner|rationale)": "names who made the rule, in which words",
    r"/rules/gates/\d+/(severity|blocking|op)": "another rule with the same verdicts",
    r"/rules/gates/5/(metric|bound|limit_source)": "a gate that does not apply judges nothing",
    r"/rules/decision/(file|overrides)": "names who made the rule",
    r"/rules/decision/prefer/\d+": "another order with the same choice",
}
"""Leaves whose change may go unnoticed in some receipt, and why; all others must be noticed in every receipt."""

WORDS = [
    ("modeled", "measured"),
    ("derived", "observed", "supplied"),
    ("evaluated", "refused"),
    ("nominal", "conservative"),
    ("pass", "fail", "refused"),
    ("lte", "gte"),
    ("error", "warn"),
    ("prefill", "transfer", "decode"),
    ("passes_but_larger", "nearest_miss"),
    ("topology_chosen", "no_topology_qualifies"),
    TOPOLOGIES,
    tuple(METRIC_UNITS),
    ("s", "ratio", "count", "B", "B/s"),
    ("least_loaded", "round_robin"),
    ("bf16", "fp8"),
    ("utilization", "kv_memory", "slots", "link_saturated", "prefill_starved", "staging", "ttft_floor", "tpot_floor"),
    ("slots_mixed", "slots_decode"),
    ("passes", "fails"),
    ("whole_prompts", "chunks", "separated", "whole_prompts_or_chunks"),
    ("all", "below_threshold", "from_threshold"),
    ("mixed", "prefill_lane", "link", "kv_mixed", "kv_prefill", "kv_decode"),
    ("operating_parts", "gpus", "margin"),
    ("LatencyObjective", "Goodput", "TransferBudget", "Capacity"),
    ("scenario", "decision"),
    BUCKET_METRICS,
    tuple(DECISION_UNITS),
    AGGREGATES,
    ("shortest", "longest"),
    ("holds", "expired", "other_cohort"),
    ("no_topology", "verdict", "exception"),
]


@pytest.fixture(scope="module")
def small(receipt_directory: Path) -> Receipt:
    return shrunk(receipt_directory)


def shrunk(directory: Path) -> Receipt:
    receipt = shrink(load(directory), workers=3, chunk_tokens=512)
    assert rejects(receipt) == []
    return receipt


def rejects(receipt: Receipt) -> list[str]:
    """The places that the verifier, given the JSON alone, disagrees with."""
    ledger = Ledger()
    if check_structure(ledger, receipt):
        check_content(ledger, receipt, None)
    return [item.where for item in ledger.disagreements]


class Noticed(Exception):  # noqa: N818 - what a sweep hopes for
    """The first disagreement: one is enough."""


class Impatient(Ledger):
    """Ends at the first disagreement."""

    def holds(self, check: str, where: str, holds: bool, found: object, expected: object, why: str = "") -> bool:
        if not holds:
            raise Noticed(where)
        return super().holds(check, where, holds, found, expected, why)


def notices(receipt: Receipt) -> bool:
    """Whether the verifier, given the JSON alone, disagrees with anything."""
    ledger = Impatient()
    try:
        if check_structure(ledger, receipt):
            check_content(ledger, receipt, None)
    except (Noticed, *INCOMPUTABLE):
        return True
    return False


def leaves(value: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*at, key))
    else:
        yield at, value


def name_of(receipt: Receipt, at: Place) -> str:
    """The place as text; inputs by their path."""
    parts = [str(part) for part in at]
    if parts[0] == "inputs":
        parts[1] = f"[{receipt['inputs'][at[1]]['path']}]"
    return "/" + "/".join(parts)


def other_values(value: Any) -> list[Any]:
    """What a forger might put in place of a leaf."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        nudged = round_significant(value * (1 + 1e-6), 12)
        if value and abs(value) < 1e5 and isinstance(value, int):
            nudged = value + 1
        return [nudged if value else 1e-6, -value if value else -1, 0 if value else 1]
    if isinstance(value, str):
        return [other for words in WORDS if value in words for other in words if other != value] or [f"{value}x"]
    return [1.0]


def put(receipt: Receipt, at: Place, value: Any) -> Receipt:
    """The receipt with another leaf; shares everything that does not lie on the way to it."""
    changed: Any = copy.copy(receipt)
    here = changed
    for key in at[:-1]:
        here[key] = copy.copy(here[key])
        here = here[key]
    here[at[-1]] = value
    if at[0] in ("inputs", "workload"):
        name_anew(changed)
    return changed  # type: ignore[no-any-return]


def one_of(index: int, values: list[Any]) -> Any:
    """Takes turns, so that neighbouring leaves are changed in different ways."""
    return values[index % len(values)]


def test_every_leaf_outside_the_scenarios(small: Receipt) -> None:
    """Each changed in one of the ways, or in three with PHASELEDGER_LEAVES=all, which takes several minutes."""
    unnoticed = set()
    for index, (at, value) in enumerate(leaves({name: item for name, item in small.items() if name != "scenarios"})):
        name = name_of(small, at)
        if any(re.fullmatch(pattern, name) for pattern in MEANINGLESS):
            continue
        others = other_values(value)[:3]
        for other in others if os.environ.get("PHASELEDGER_LEAVES") == "all" else [one_of(index, others)]:
            if not notices(put(small, at, other)):
                unnoticed.add(f"{name}: {value!r} -> {other!r}")
    assert not unnoticed


@pytest.mark.parametrize("cohort", ["bursty-documents", "overloaded"], ids=["evaluated", "refused"])
def test_leaves_of_the_scenarios(cohort: str, receipt_directories: dict[str, Path]) -> None:
    """Every other leaf, each changed in one of the ways."""
    small, unnoticed, tried = shrunk(receipt_directories[cohort]), set(), 0
    for index, (at, value) in enumerate(leaves({"scenarios": small["scenarios"]})):
        other = one_of(index // 2, other_values(value))
        if index % 2:
            continue
        tried += 1
        if not notices(put(small, at, other)):
            unnoticed.add(f"{name_of(small, at)}: {value!r} -> {other!r}")
    assert tried > 250
    assert not unnoticed


def test_a_fingerprint_of_another_question(small: Receipt) -> None:
    assert rejects({**small, "fingerprint": "0" * 64}) == ["fingerprint"]
    for index, row in enumerate(small["inputs"]):
        changed = put(small, ("inputs", index, "note"), f"{row['note']} ")
        assert "fingerprint" in rejects({**changed, "fingerprint": small["fingerprint"]})


@pytest.mark.parametrize(
    ("stack", "kind", "cached", "hit_ratio"),
    [
        ("plain", "open", True, None),
        ("plain", "rate", False, (0.3, 0.2)),
        ("plain", "closed", True, None),
        ("windows", "rate", True, None),
        ("latent", "open", False, None),
        ("hybrid", "rate", True, None),
    ],
    ids=["open, with hits", "rate, with a hit ratio", "closed, with hits", "windows", "latent", "hybrid"],
)
def test_leaves_of_other_cohorts(stack: str, kind: str, cached: bool, hit_ratio: tuple[float, float] | None) -> None:
    """What the bundled cohorts have not: hits, declared arrivals, rows dropped and steps, kinds of layers, curves."""
    small = shrink(receipt_of(kind, cached=cached, hit_ratio=hit_ratio, stack=stack), workers=2, chunk_tokens=512)
    unnoticed = set()
    assert rejects(small) == []
    rooms = (
        ("requests.", "service.prefill.") if stack == "plain" else ("model.", "inventory.", "network.", "objectives.")
    )
    table = [row for row in small["inputs"] if row["path"].startswith(rooms)]
    of_stack = ("kv", "transfer") if stack != "plain" else ("workload", "service")
    parts = {name: small[name] for name in of_stack} | {"inputs": table}
    for index, (at, value) in enumerate(leaves(parts)):
        place = at if at[0] != "inputs" else ("inputs", small["inputs"].index(table[int(at[1])]), *at[2:])
        name, other = name_of(small, place), one_of(index, other_values(value))
        meaningless = any(re.fullmatch(pattern, name) for pattern in MEANINGLESS)
        if not (meaningless or notices(put(small, place, other))):
            unnoticed.add(f"{name}: {value!r} -> {other!r}")
    assert not unnoticed


def test_every_reason_for_being_meaningless_is_needed(small: Receipt) -> None:
    receipts = (small, receipt_of("open", cached=True))
    names = [name_of(receipt, at) for receipt in receipts for at, _ in leaves(receipt)]
    unused = [p for p in MEANINGLESS if not any(re.fullmatch(p, name) for name in names)]
    assert unused in ([], [r"/inputs/\[model\.name\]/.*"])
