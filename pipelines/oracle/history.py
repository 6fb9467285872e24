"""Where the requests come from: rows read and dropped, what was done to the log, the prefix cache it was given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .findings import WORKLOAD_DIGITS, Ledger
from .names import STEPS
from .parameters import HIT_RATIO, Inputs

CHECK = "workload"
FORMAT = "docs/formats.md, Receipt"
CLASSES = "classes"

_RATIO_SLACK = 2 * 10.0 ** (1 - WORKLOAD_DIGITS)
"""Absolute: `1 - u1/p1` of two means of 12 digits."""
_CUTS = ("window", "where", "prompt_tokens")
_BLOCK_TOKENS = {"mooncake": 512, "qwen-bailian": 16}
_THIN, _REPEAT = re.compile(r"([0-9]{1,18}) of every ([0-9]{1,18})"), re.compile(r"([0-9]{1,18}) times")


def check_history(ledger: Ledger, workload: Mapping[str, Any]) -> None:
    """Check source, rows, steps and prefix cache against each other and against the requests that are left."""
    sourced = workload["provenance"] != "observed" or workload["source"] is not None
    ledger.holds(CHECK, "workload.source", sourced, workload["source"], "the source of an observed trace")
    _check_dropped(ledger, workload)
    if workload["format"] == CLASSES:
        _check_classes(ledger, workload)
    else:
        _check_steps(ledger, workload)
    if workload["prefix_cache"] is not None:
        _check_prefix_cache(ledger, workload["prefix_cache"], workload["buckets"][0])
        size, expected = workload["prefix_cache"]["block_tokens"], _BLOCK_TOKENS.get(workload["format"])
        cache = workload["prefix_cache"]
        apart = cache["scope"] == "per_worker" or cache["workers"] == 1
        ledger.holds(CHECK, "workload.prefix_cache.workers", apart, cache["workers"], 1, "the cache is shared")
        where = "workload.prefix_cache.block_tokens"
        ledger.same(CHECK, where, size, expected, f"blocks of a log of the format {workload['format']}")


def _check_dropped(ledger: Ledger, workload: Mapping[str, Any]) -> None:
    dropped = workload["dropped"]
    total = sum(row["rows"] for row in dropped)
    ledger.same(CHECK, "workload.rows_dropped", workload["rows_dropped"], total, "the sum over `dropped`")
    kinds = [row["kind"] for row in dropped]
    ledger.same(CHECK, "workload.dropped", len(set(kinds)), len(kinds), "each kind once")
    in_order = [row["kind"] for row in sorted(dropped, key=lambda row: (-row["rows"], row["kind"]))]
    ledger.listed(CHECK, "workload.dropped", kinds, in_order, "most rows first, then by name")


def _check_classes(ledger: Ledger, workload: Mapping[str, Any]) -> None:
    """Classes stand for requests by whole weights; nothing is dropped, and they have no arrivals and no hashes."""
    ledger.same(CHECK, "workload.rows_dropped", workload["rows_dropped"], 0, "classes are not dropped")
    declared = workload["kind"] != "open"
    ledger.holds(CHECK, "workload.kind", declared, workload["kind"], "rate or closed", "classes have no arrivals")
    ledger.same(CHECK, "workload.prefix_cache", workload["prefix_cache"], None, "for logs with block hashes")
    if not workload["steps"]:
        requests, classes = workload["requests"], workload["rows_read"]
        ledger.holds(CHECK, "workload.requests", requests >= classes, requests, f"at least {classes}", "whole weights")


def _check_steps(ledger: Ledger, workload: Mapping[str, Any]) -> None:
    """Each step leaves so many requests of those before it; the last leaves those of the workload."""
    steps = workload["steps"]
    names = [step["step"] for step in steps]
    in_order = [name for name in STEPS if name in names]
    ledger.listed(CHECK, "workload.steps", names, in_order, "each step once, in the order of docs/formats.md")
    left = workload["rows_read"] - workload["rows_dropped"]
    ledger.holds(CHECK, "workload.rows_dropped", left >= 1, workload["rows_dropped"], "fewer than the rows read")
    for step in steps:
        where, requests = f"workload.steps[{step['step']}].requests", step["requests"]
        if step["step"] in _CUTS:
            ledger.holds(CHECK, where, requests <= left, requests, f"at most {left}", "the requests before this step")
        elif step["step"] == "thin":
            ledger.same(CHECK, where, requests, _thinned(left, step["detail"]), f"{step['detail']} of {left}")
        elif step["step"] == "repeat":
            said = _REPEAT.fullmatch(step["detail"])
            times = int(said[1]) if said else 0
            ledger.same(CHECK, where, requests, left * times, f"{left} requests, {step['detail']}")
            _check_repeated(ledger, workload, times)
        else:
            ledger.same(CHECK, where, requests, left, "moves requests in time, and leaves their number")
        left = requests
    ledger.same(CHECK, "workload.requests", workload["requests"], left, "what rows and steps leave")


def _thinned(requests: int, detail: str) -> int | None:
    """How many of `requests` the first `keep` of every `of` are; None where the detail does not say."""
    said = _THIN.fullmatch(detail)
    keep, of = (int(said[1]), int(said[2])) if said else (0, 0)
    return requests // of * keep + min(requests % of, keep) if 0 < keep < of else None


def _check_repeated(ledger: Ledger, workload: Mapping[str, Any], times: int) -> None:
    """A log that is repeated has every prompt as often."""
    for bucket in workload["buckets"] if times > 1 else ():
        where, requests = f"workload.buckets[{bucket['bucket']}].requests", bucket["requests"]
        ledger.holds(CHECK, where, requests % times == 0, requests, f"a multiple of {times}", "the log is repeated")


def _check_prefix_cache(ledger: Ledger, cache: Mapping[str, Any], whole: Mapping[str, Any]) -> None:
    """`hit_ratio = 1 - u1/p1` of all requests."""
    where, found = "workload.prefix_cache.hit_ratio", cache["hit_ratio"]
    expected = 1 - whole["uncached_tokens_mean"] / whole["prompt_tokens_mean"]
    agrees = abs(found - expected) <= _RATIO_SLACK and 0 <= found < 1
    ledger.holds(CHECK, where, agrees, found, expected, "1 - uncached_tokens_mean/prompt_tokens_mean")
    ledger.rounded(where, found, WORKLOAD_DIGITS)


def check_hits_count_once(ledger: Ledger, workload: Mapping[str, Any], inputs: Inputs) -> None:
    """A hit ratio is declared only where the requests carry no hits of their own."""
    row = inputs.rows[HIT_RATIO]
    declared = max(row[member] or 0 for member in ("value", "low", "high")) > 0
    whole = workload["buckets"][0]
    own = workload["prefix_cache"] is not None or whole["uncached_tokens_mean"] < whole["prompt_tokens_mean"]
    why = "the requests carry hits of their own: they would count twice"
    ledger.holds(CHECK, f"inputs[{HIT_RATIO}].value", not (declared and own), row["value"], 0, why)
