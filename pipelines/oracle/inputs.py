"""The inputs table: which paths it may hold, in which order and ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .cache import ELEMENT_BYTES, parse_cache
from .curves import parse_curve
from .findings import Ledger
from .parameters import (
    ARRIVAL_SCV,
    BANDWIDTH,
    CACHE,
    CONCURRENCY,
    CURVE,
    GPU_MEMORY,
    KV_MEMORY,
    KV_TOKENS,
    OVERHEAD_INPUTS,
    PLAIN_SHAPE,
    RATE,
    Inputs,
)
from .relations import check_relations
from .structure import ALLOCATIONS, LINK_SHARING, NOT_DECLARED, TOPOLOGIES

CHECK = "inputs"

Range = Literal["positive", "not negative", "ratio", "below one", "ceiling", "one or more", "count"]
Presence = Literal["always", "optional", "network", "optional network", "affine", "line", "declared arrivals"]
"""`network`: there exactly when a disaggregated topology is compared; `affine`: then, but for a curve alone; `line`:
then, and optional beside a curve; `declared arrivals`: with a rate or a concurrency."""
ALTERNATIVES = ((PLAIN_SHAPE, (CACHE,)), ((KV_MEMORY,), (KV_TOKENS,), GPU_MEMORY))
"""Ways to declare one thing: exactly one of each is there, with all of its inputs."""


@dataclass(frozen=True)
class Row:
    """What the inputs table may hold at one path."""

    path: str
    unit: str
    hurts: Literal["low", "high"] | None = None
    range: Range = "positive"
    presence: Presence = "always"
    default: float | str | None = None
    words: tuple[str, ...] = ()


ROWS = (
    Row(RATE, "requests/s", "high", presence="optional"),
    Row(CONCURRENCY, "count", "high", "count", "optional"),
    Row(ARRIVAL_SCV, "ratio", "high", "not negative", "declared arrivals", 1.0),
    Row("model.name", "text", presence="optional"),
    Row("model.layers", "count", range="count"),
    Row("model.kv_heads", "count", range="count"),
    Row("model.head_dim", "count", range="count"),
    Row(CACHE, "text"),
    Row("model.kv_dtype", "text", words=tuple(ELEMENT_BYTES)),
    Row("model.layout_factor", "ratio", "high", default=1.0),
    Row("model.tensor_parallel", "count", range="count", default=1),
    Row("model.block_tokens", "count", range="count", default=1),
    Row("model.kv_allocation", "text", words=ALLOCATIONS, default="uniform"),
    Row("service.dispatch", "text", words=("least_loaded", "round_robin")),
    Row("service.first_token_source", "text", words=("decode", "prefill")),
    Row("service.admission", "s", "high", "not negative"),
    Row("service.prefill.discipline", "text", words=("fifo",)),
    Row("service.prefill.tokens_per_second", "tokens/s", "low"),
    Row("service.prefill.overhead", "s", "high", "not negative"),
    Row("service.prefill.seconds_per_token_squared", "s/token^2", "high", "not negative", default=0.0),
    Row("service.prefill.prefix_hit_ratio", "ratio", "low", "ratio", default=0.0),
    Row("service.prefill.utilization_ceiling", "ratio", "low", "ceiling"),
    Row("service.prefill.peak_tokens_per_second", "tokens/s", presence="optional"),
    Row("service.decode.discipline", "text", words=("fifo",)),
    Row("service.decode.tokens_per_second", "tokens/s", "low"),
    Row("service.decode.step_overhead", "s", "high", "not negative"),
    Row("service.decode.seconds_per_context_token", "s/token", "high", "not negative", default=0.0),
    Row("service.decode.max_sequences", "count", "low", "count"),
    Row("service.decode.utilization_ceiling", "ratio", "low", "ceiling"),
    Row("service.decode.peak_tokens_per_second", "tokens/s", presence="optional"),
    Row("inventory.gpus", "count", range="count"),
    Row("inventory.gpus_per_worker", "count", range="count"),
    Row(KV_MEMORY, "B", "low"),
    Row(KV_TOKENS, "count", "low", "count"),
    Row("inventory.gpu_memory", "B", "low"),
    Row("inventory.memory_utilization", "ratio", "low", "ceiling"),
    Row("inventory.weights_per_worker", "B", "high", "not negative"),
    Row("inventory.activations_per_worker", "B", "high", "not negative"),
    Row("network.links", "count", "low", "count", "network"),
    Row("network.links_per_transfer", "count", None, "count", "network", 1),
    Row("network.link_sharing", "text", presence="network", words=LINK_SHARING, default="shared"),
    Row("network.line_rate", "B/s", presence="line"),
    Row(BANDWIDTH, "B/s", "low", presence="affine"),
    Row("network.peak_bandwidth", "B/s", presence="optional network"),
    Row("network.competing_traffic", "ratio", "high", "below one", "network", 0.0),
    *(Row(path, "s", "high", "not negative", "affine") for path in OVERHEAD_INPUTS),
    Row("network.router_handover", "s", "high", "not negative", "network", 0.0),
    Row("network.seconds_per_descriptor", "s", "high", "not negative", "affine", 0.0),
    Row("network.regions_per_block", "count", "high", "count", "affine", 2),
    Row("network.relayout_factor", "ratio", "high", "one or more", "network", 1.0),
    Row("network.prefix_at_destination", "ratio", "low", "ratio", "network", 0.0),
    Row("network.overlap", "ratio", "low", "ratio", "network", 0.0),
    Row("network.utilization_ceiling", "ratio", "low", "ceiling", "network"),
    Row(CURVE, "text", presence="optional network"),
    Row("objectives.ttft", "s"),
    Row("objectives.tpot", "s"),
    Row("objectives.stall", "s", presence="optional"),
    Row("objectives.ttft_growth", "s", presence="optional"),
    Row("objectives.transfer_reserve", "ratio", range="ceiling", presence="optional"),
    Row("objectives.attainment", "ratio", range="ceiling"),
    Row("topologies.compared", "text"),
    Row("topologies.chunked.chunk_tokens", "text", presence="optional"),
)
_BY_PATH = {row.path: row for row in ROWS}

_WRITTEN = {CACHE: parse_cache, CURVE: parse_curve}
"""Texts that are more than a word."""


def check_inputs(ledger: Ledger, table: Sequence[Mapping[str, Any]]) -> Inputs | None:
    """Check the inputs table; return it if the scenarios can be recomputed from it."""
    rows = {str(row["path"]): row for row in table}
    rows_fit = [_check_row(ledger, f"inputs[{row['path']}]", row) for row in table]
    compared = _check_compared(ledger, rows)
    complete = _check_order(ledger, [str(row["path"]) for row in table], compared)
    one = ledger.holds(
        CHECK, f"inputs[{RATE}]", not {RATE, CONCURRENCY} <= rows.keys(), CONCURRENCY, "a rate or a concurrency"
    )
    if not (complete and one and all(rows_fit)):
        return None
    chunk_tokens = tuple(
        int(word) for word in str(_value(rows, "topologies.chunked.chunk_tokens") or "").split(" ") if word
    )
    inputs = Inputs(rows, compared, chunk_tokens)
    fits = ledger.holds(
        CHECK,
        "inputs[inventory.gpus].value",
        inputs.workers >= 1,
        inputs.nominal("inventory.gpus"),
        "the GPUs of at least one worker",
    )
    return inputs if check_relations(ledger, inputs) and fits else None


def _value(rows: Mapping[str, Mapping[str, Any]], path: str) -> Any:
    return rows[path]["value"] if path in rows else None


def _check_row(ledger: Ledger, where: str, row: Mapping[str, Any]) -> bool:
    """Check one row against what its path may hold."""
    known = _BY_PATH.get(str(row["path"]))
    if not ledger.holds(CHECK, where, known is not None, row["path"], "a path of docs/formats.md") or known is None:
        return False
    ledger.same(CHECK, f"{where}.unit", row["unit"], known.unit, "docs/formats.md, inputs table")
    ledger.holds(
        CHECK,
        f"{where}.source",
        row["provenance"] != "observed" or row["source"] is not None,
        row["source"],
        "the source of an observed value",
    )
    if row["note"] == NOT_DECLARED:
        found = [row[member] for member in ("value", "low", "high", "provenance", "source")]
        ledger.listed(
            CHECK, where, found, [known.default, None, None, "supplied", None], f"{NOT_DECLARED} of {known.path}"
        )
    return _check_text(ledger, where, row, known) if known.unit == "text" else _check_number(ledger, where, row, known)


def _check_text(ledger: Ledger, where: str, row: Mapping[str, Any], known: Row) -> bool:
    fits = isinstance(row["value"], str) and (not known.words or row["value"] in known.words)
    expected = " or ".join(known.words) or "text, as docs/formats.md writes it"
    if fits and known.path in _WRITTEN:
        fits = _WRITTEN[known.path](row["value"]) is not None
    fits = ledger.holds(CHECK, f"{where}.value", fits, row["value"], expected)
    for end in ("low", "high"):
        ledger.same(CHECK, f"{where}.{end}", row[end], None, "text has no range")
    return ledger.same(CHECK, f"{where}.conservative", row["conservative"], row["value"], "text has one value") and fits


def _check_number(ledger: Ledger, where: str, row: Mapping[str, Any], known: Row) -> bool:
    """Check value, low, high: numbers in range and in order; and that the conservative end is the one that hurts."""
    usable = True
    for member in ("value", "low", "high", "conservative"):
        value = row[member]
        if value is None and member in ("low", "high"):
            continue
        fits = not isinstance(value, str) and in_range(value, known.range)
        usable = ledger.holds(CHECK, f"{where}.{member}", fits, value, f"a number: {known.range}") and usable
    if not usable:
        return False
    value, low, high = row["value"], row["low"], row["high"]
    ledger.holds(CHECK, f"{where}.low", low is None or low <= value, low, f"at most the value {value}")
    ledger.holds(CHECK, f"{where}.high", high is None or high >= value, high, f"at least the value {value}")
    hurts = row[known.hurts] if known.hurts and row[known.hurts] is not None else value
    ledger.same(
        CHECK, f"{where}.conservative", row["conservative"], hurts, "docs/arithmetic.md section 1: the end that hurts"
    )
    return True


def in_range(value: float, kind: Range) -> bool:
    """Whether a number lies in a range of the inputs table."""
    if kind == "count":
        return isinstance(value, int) and value >= 1
    ranges = {
        "positive": value > 0,
        "not negative": value >= 0,
        "ratio": 0 <= value <= 1,
        "below one": 0 <= value < 1,
        "ceiling": 0 < value <= 1,
        "one or more": value >= 1,
    }
    return ranges[kind]


def _check_compared(ledger: Ledger, rows: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the compared topologies, in the order of docs/formats.md."""
    words = str(_value(rows, "topologies.compared") or "").split(" ")
    compared = tuple(name for name in TOPOLOGIES if name in words)
    ledger.same(
        CHECK, "inputs[topologies.compared].value", words, list(compared or TOPOLOGIES), "topologies, in this order"
    )
    chunks = _value(rows, "topologies.chunked.chunk_tokens")
    if "chunked" in compared and chunks is not None:
        budgets = str(chunks).split(" ")
        fits = all(re.fullmatch("[1-9][0-9]{0,15}", word) for word in budgets) and len(set(budgets)) == len(budgets)
        if not ledger.holds(
            CHECK, "inputs[topologies.chunked.chunk_tokens].value", fits, chunks, "distinct whole numbers"
        ):
            return ()
    return compared


def _check_order(ledger: Ledger, found: list[str], compared: tuple[str, ...]) -> bool:
    """Check that exactly the paths of the compared topologies are there, in table order."""
    there = set(found)
    expected = [row.path for row in ROWS if _belongs(row, there, compared)]
    for path in expected:
        ledger.holds(CHECK, f"inputs[{path}]", path in there, "nothing", "this input")
    return ledger.holds(
        CHECK, "inputs", bool(compared) and found == expected, found, expected, "docs/formats.md, inputs table"
    )


def _belongs(row: Row, there: set[str], compared: tuple[str, ...]) -> bool:
    """Whether a path is to be there, given what else is."""
    for ways in ALTERNATIVES:
        if any(row.path in way for way in ways):
            chosen = next((way for way in ways if there & set(way)), ways[0])
            return row.path in chosen
    if row.path == "topologies.chunked.chunk_tokens":
        return "chunked" in compared
    moved, declared = "disaggregated" in compared, row.path in there
    if row.path == "objectives.ttft_growth" and moved:
        return True
    curve_alone = CURVE in there and not there & {BANDWIDTH, *OVERHEAD_INPUTS}
    expected = {
        "always": True,
        "optional": declared,
        "network": moved,
        "optional network": moved and declared,
        "affine": moved and not curve_alone,
        "line": moved and (declared or CURVE not in there),
        "declared arrivals": RATE in there or CONCURRENCY in there,
    }
    return expected[row.presence]
