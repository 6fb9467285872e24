"""The inputs table: which paths it may hold, in which order and ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .cache import parse_cache
from .curves import parse_curve
from .enumerating import inventory_of
from .findings import Ledger
from .names import NOT_DECLARED, TOPOLOGIES
from .parameters import (
    BANDWIDTH,
    CACHE,
    CHUNKS,
    CONCURRENCY,
    CURVE,
    GPU_MEMORY,
    KV_MEMORY,
    KV_TOKENS,
    OVERHEAD_INPUTS,
    PLAIN_SHAPE,
    PRICE,
    RATE,
    ROUTED_CHUNKS,
    SEPARATED,
    SWAP_BANDWIDTH,
    THRESHOLDS,
    WHEN_FULL,
    Inputs,
)
from .relations import check_relations
from .table import Range, Row, row_of, rows_with

CHECK = "inputs"

ALTERNATIVES = ((PLAIN_SHAPE, (CACHE,)), ((KV_MEMORY,), (KV_TOKENS,), GPU_MEMORY))
"""Ways to declare one thing: exactly one of each is there, with all of its inputs."""
MOST_PATHS, MOST_OF_A_LOOP, MOST_THRESHOLDS = 500_000, 20_000, 64
"""Paths that a cohort may span, scenarios of one with a concurrency, and lengths to route by."""

_PLAIN = ("inventory.gpus", PRICE, "network.links_per_transfer")
_CURVES = tuple(f"{room}.{phase}.curve" for room in ("service", "separated") for phase in ("prefill", "decode"))
_WRITTEN = {CACHE: parse_cache, CURVE: parse_curve, **dict.fromkeys(_CURVES, parse_curve)}
"""Texts that are more than a word."""
_NUMBERS = (CHUNKS, THRESHOLDS, ROUTED_CHUNKS)
"""Texts that are whole numbers, ascending."""


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
    swapped, named = _value(rows, WHEN_FULL) == "swap", f"inputs[{SWAP_BANDWIDTH}]"
    why = "there where full memory is swapped"
    if not ledger.same(CHECK, named, SWAP_BANDWIDTH in rows, swapped, why):
        return None
    budgets, thresholds, routed_budgets = (_whole_numbers(rows, path) for path in _NUMBERS)
    inputs = Inputs(rows, compared, budgets, thresholds, routed_budgets)
    return inputs if check_relations(ledger, inputs) and _check_size(ledger, inputs) else None


def _check_size(ledger: Ledger, inputs: Inputs) -> bool:
    """The GPUs of at least one worker, and no more paths and scenarios than a cohort may span."""
    inventory, where = inventory_of(inputs, inputs.thresholds), "inputs[inventory.gpus].value"
    least = inventory.least_gpus
    fits = ledger.holds(CHECK, where, inputs.gpus >= least, inputs.gpus, f"{least}: one scenario of each topology")
    thresholds = len(inputs.thresholds)
    ledger.holds(CHECK, f"inputs[{THRESHOLDS}].value", thresholds <= MOST_THRESHOLDS, thresholds, f"{MOST_THRESHOLDS}")
    few = inputs.gpus // inventory.mixed <= MOST_PATHS and inventory.paths() <= MOST_PATHS
    why = "docs/formats.md: what a cohort may span"
    fits = ledger.holds(CHECK, where, few, inputs.gpus, f"at most {MOST_PATHS} paths", why) and fits
    if fits and CONCURRENCY in inputs.rows:
        fits = ledger.holds(
            CHECK, where, inventory.count() <= MOST_OF_A_LOOP, inputs.gpus, f"at most {MOST_OF_A_LOOP} scenarios", why
        )
    return fits


def _whole_numbers(rows: Mapping[str, Mapping[str, Any]], path: str) -> tuple[int, ...]:
    return tuple(int(word) for word in str(_value(rows, path) or "").split(" ") if word)


def _value(rows: Mapping[str, Mapping[str, Any]], path: str) -> Any:
    return rows[path]["value"] if path in rows else None


def _check_row(ledger: Ledger, where: str, row: Mapping[str, Any]) -> bool:
    """Check one row against what its path may hold."""
    known = row_of(str(row["path"]))
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
    if fits and known.path in _NUMBERS:
        fits, expected = _are_ascending(row["value"]), "distinct whole numbers, ascending"
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
    for end in ("low", "high") if has_no_range(known.path) else ():
        ledger.same(CHECK, f"{where}.{end}", row[end], None, "a figure without a range (docs/formats.md)")
    ledger.holds(CHECK, f"{where}.low", low is None or low <= value, low, f"at most the value {value}")
    ledger.holds(CHECK, f"{where}.high", high is None or high >= value, high, f"at least the value {value}")
    hurts = row[known.hurts] if known.hurts and row[known.hurts] is not None else value
    ledger.same(
        CHECK, f"{where}.conservative", row["conservative"], hurts, "docs/arithmetic.md section 1: the end that hurts"
    )
    return True


def has_no_range(path: str) -> bool:
    """Whether a number is declared without a range: objectives, the model's shape, counts of GPUs, a price.

    >>> has_no_range("objectives.ttft"), has_no_range("model.layers"), has_no_range("model.layout_factor")
    (True, True, False)
    """
    if path.startswith(("objectives.", "model.")):
        return path != "model.layout_factor"
    return path in _PLAIN or path.endswith(".gpus_per_worker")


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
    if any(name in SEPARATED for name in compared):
        alone = [name for name in ("aggregated", "chunked") if name not in compared]
        why = "docs/formats.md: what separates is never compared alone"
        ledger.listed(CHECK, "inputs[topologies.compared].value", alone, [], why)
    return compared


def _are_ascending(text: str) -> bool:
    """Whether a text is whole numbers, ascending.

    >>> _are_ascending("512 1024"), _are_ascending("1024 512"), _are_ascending("512,1024")
    (True, False, False)
    """
    words = text.split(" ")
    if not all(re.fullmatch("[1-9][0-9]{0,14}", word) for word in words):
        return False
    numbers = [int(word) for word in words]
    return numbers == sorted(set(numbers))


def _check_order(ledger: Ledger, found: list[str], compared: tuple[str, ...]) -> bool:
    """Check that exactly the paths of the compared topologies are there, in table order."""
    there = set(found)
    expected = [row.path for row in rows_with(there) if _belongs(row, there, compared)]
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
    moved, declared = any(name in SEPARATED for name in compared), row.path in there
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
        "swap": SWAP_BANDWIDTH in there,
        "prefill line": "service.prefill.curve" not in there,
        "decode line": "service.decode.curve" not in there,
        "chunked": "chunked" in compared,
        "routed": "routed" in compared,
        "optional routed": "routed" in compared and declared,
    }
    return expected[row.presence]
