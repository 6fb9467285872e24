"""A receipt made by hand: forty dozen requests, drawn with a seed, and everything that follows from them.

Its workload is computed here in whole numbers and fractions, from the requests themselves; its figures are filled in
with the verifier's equations, which other tests hold against numbers worked by hand.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from pipelines.oracle.names import (
    BUCKET_METRICS,
    CAPACITY_UNITS,
    DECISION_UNITS,
    METRIC_UNITS,
    NOT_DECLARED,
    PART_KINDS,
)
from pipelines.oracle.parameters import SEPARATED, THRESHOLDS
from pipelines.oracle.recomputing import operating_parts
from pipelines.oracle.table import rows_with
from pipelines.oracle.topologies import PATHS
from pipelines.oracle.words import PARTS, STATEMENT, UNMEASURED
from tests.oracle import forging as forge
from tests.oracle.forging import Receipt
from tests.oracle.replaying_again import LOGS, log_key
from tests.oracle.stacks import STACKS, Values

EDGES = [512, 4096]
PLAIN = ("aggregated", "chunked", "disaggregated")
WINDOWS_S = (1, 10, 60, 600, 3600)

VALUES: dict[str, tuple[Any, ...]] = {
    "requests.rate": (1.25, None, 1.5),
    "requests.concurrency": (24, None, 32),
    "model.layers": (32,),
    "model.kv_heads": (8,),
    "model.head_dim": (128,),
    "model.kv_dtype": ("bf16",),
    "service.dispatch": ("least_loaded",),
    "service.first_token_source": ("decode",),
    "service.admission": (0.002, None, 0.004),
    "service.prefill.discipline": ("fifo",),
    "service.prefill.tokens_per_second": (9000, 8000),
    "service.prefill.overhead": (0.008, None, 0.012),
    "service.prefill.seconds_per_token_squared": (2e-9, None, 3e-9),
    "service.prefill.utilization_ceiling": (0.8,),
    "service.prefill.peak_tokens_per_second": (40000,),
    "service.decode.discipline": ("fifo",),
    "service.decode.tokens_per_second": (2000, 1800),
    "service.decode.step_overhead": (0.012, None, 0.013),
    "service.decode.seconds_per_context_token": (2e-8,),
    "service.decode.max_sequences": (64,),
    "service.decode.utilization_ceiling": (0.85,),
    "inventory.gpus": (3,),
    "inventory.gpus_per_worker": (1,),
    "inventory.kv_memory_per_worker": (40 * 2**30,),
    "network.links": (2,),
    "network.line_rate": (5e10,),
    "network.effective_bandwidth": (1.8e10, 1.2e10),
    "network.peak_bandwidth": (4e10,),
    "network.registration": (0.001, None, 0.002),
    "network.synchronization": (0.001,),
    "network.receiver_visibility": (0.001,),
    "network.utilization_ceiling": (0.7,),
    "objectives.ttft": (2.0,),
    "objectives.tpot": (0.05,),
    "objectives.stall": (1.0,),
    "objectives.ttft_growth": (0.5,),
    "objectives.attainment": (0.9,),
    "topologies.compared": (" ".join(PLAIN),),
    "topologies.chunked.chunk_tokens": ("512",),
}
"""Value, low and high of what the cohort declares."""


@dataclass(frozen=True)
class Request:
    """Prompt, uncached and output tokens, and when it arrives (ms)."""

    p: int
    u: int
    o: int
    at_ms: int

    @property
    def z(self) -> int:
        return self.p**2 - (self.p - self.u) ** 2


def requests_of(cached: bool, count: int = 480) -> list[Request]:
    dice, at, made = random.Random(20261129), 0, []
    for _ in range(count):
        p = min(6000, max(20, round(dice.lognormvariate(6.7, 0.9))))
        hit = min(p - 1, 16 * dice.randrange(p // 16 + 1)) if cached and dice.random() < 0.6 else 0
        made.append(Request(p, p - hit, min(400, max(1, round(dice.expovariate(1 / 120)))), at))
        at += round(1000 * dice.expovariate(1.0)) + (20_000 if dice.random() < 0.01 else 0)
    return made


def digits12(value: Fraction | float) -> float:
    return float(f"{float(value):.11e}")


def mean(values: Sequence[int]) -> float:
    return digits12(Fraction(sum(values), len(values)))


def label_of(p: int) -> str:
    low, high = next(pair for pair in pairwise([1, *EDGES, math.inf]) if pair[0] <= p < pair[1])
    return f"[{low},{high})"


def bucket_row(name: str, own: Sequence[Request], kind: str, rate: float | None, count: int) -> Receipt:
    gaps = [b.at_ms - a.at_ms for a, b in pairwise(own)]
    total, squares = sum(gaps), sum(gap**2 for gap in gaps)
    scv = digits12(Fraction(squares * len(gaps), total**2) - 1) if kind == "open" and len(gaps) > 1 else None
    means: dict[str, Callable[[Request], int]] = {
        "prompt_tokens_mean": lambda r: r.p,
        "prompt_tokens_m2": lambda r: r.p**2,
        "uncached_tokens_mean": lambda r: r.u,
        "uncached_tokens_m2": lambda r: r.u**2,
        "attention_mean": lambda r: r.z,
        "attention_m2": lambda r: r.z**2,
        "uncached_attention_mean": lambda r: r.u * r.z,
        "prompt_uncached_mean": lambda r: r.p * r.u,
        "prompt_attention_mean": lambda r: r.p * r.z,
        "output_tokens_mean": lambda r: r.o,
        "output_tokens_m2": lambda r: r.o**2,
        "prompt_output_mean": lambda r: r.p * r.o,
        "multi_token_share": lambda r: int(r.o >= 2),
    }
    return {
        "bucket": name,
        "requests": len(own),
        "rate_rps": None if rate is None else digits12(Fraction(rate) * len(own) / count),
        "arrival_scv": scv,
        **{member: mean([value(r) for r in own]) for member, value in means.items()},
        "prompt_tokens_max": max(r.p for r in own),
        "uncached_tokens_max": max(r.u for r in own),
        "attention_max": max(r.z for r in own),
        "output_tokens_max": max(r.o for r in own),
    }


def strata_rows(name: str, own: Sequence[Request]) -> list[Receipt]:
    return [
        {"bucket": name, "stratum": number, "requests": len(rows), "prompt_tokens_mean": mean([r.p for r in rows]),
         "uncached_tokens_mean": mean([r.u for r in rows]), "attention_mean": mean([r.z for r in rows]),
         "prompt_tokens_m2": mean([r.p**2 for r in rows]), "prompt_uncached_mean": mean([r.p * r.u for r in rows]),
         "uncached_tokens_m2": mean([r.u**2 for r in rows])}
        for number, rows in cut_by(own, lambda r: r.u)
    ]  # fmt: skip


def output_rows(name: str, own: Sequence[Request]) -> list[Receipt]:
    return [
        {"bucket": name, "stratum": number, "requests": len(rows), "output_tokens_mean": mean([r.o for r in rows])}
        for number, rows in cut_by(own, lambda r: r.o)
    ]


def cut_by(own: Sequence[Request], tokens: Callable[[Request], int]) -> list[tuple[int, list[Request]]]:
    """Number and requests of the strata of a bucket."""
    ordered = sorted(own, key=tokens)
    cut: dict[int, list[Request]] = {}
    fewer: dict[int, int] = {}
    for place, r in enumerate(ordered):
        cut.setdefault(16 * fewer.setdefault(tokens(r), place) // len(ordered), []).append(r)
    return sorted(cut.items())


def window_rows(name: str, own: Sequence[Request], duration_ms: int) -> list[Receipt]:
    rows = []
    for length in WINDOWS_S:
        windows = duration_ms // (1000 * length)
        if windows < 10:
            continue
        counts = [0] * windows
        for r in own:
            if r.at_ms < 1000 * length * windows:
                counts[r.at_ms // (1000 * length)] += 1
        total, squares = sum(counts), sum(c**2 for c in counts)
        dispersion = digits12(Fraction(squares, total) - Fraction(total, windows)) if total else None
        rows.append({"bucket": name, "window_s": length, "windows": windows, "dispersion": dispersion,
                     "peak_rps": digits12(Fraction(max(counts), length))})  # fmt: skip
    return rows


def workload_of(requests: Sequence[Request], kind: str) -> Receipt:
    count, duration_ms = len(requests), requests[-1].at_ms
    rate = {"open": Fraction(1000 * (count - 1), duration_ms), "rate": VALUES["requests.rate"][0], "closed": None}[kind]
    groups = {"all": list(requests)}
    for label in sorted({label_of(r.p) for r in requests}, key=lambda label: int(label[1:].split(",")[0])):
        groups[label] = [r for r in requests if label_of(r.p) == label]
    buckets = [bucket_row(name, own, kind, rate, count) for name, own in groups.items()]
    cached = any(r.u < r.p for r in requests)
    hits = Fraction(sum(r.p - r.u for r in requests), sum(r.p for r in requests))
    cache = {"capacity_tokens": None, "scope": "shared", "workers": 1, "block_tokens": 16, "hit_ratio": digits12(hits)}
    return {
        "kind": kind,
        "requests_sha256": "5" * 64,
        "format": "qwen-bailian" if cached else "azure-llm",
        "provenance": "supplied",
        "source": None,
        "note": "drawn with a seed",
        "requests": count,
        "duration_s": digits12(Fraction(duration_ms, 1000)) if kind == "open" else None,
        "bucket_edges_tokens": EDGES,
        "rows_read": count + 30,
        "rows_dropped": 30,
        "dropped": [{"kind": "arrival", "rows": 16}, {"kind": "output_tokens", "rows": 7},
                    {"kind": "prompt_tokens", "rows": 7}],
        "steps": [],
        "prefix_cache": cache if cached else None,
        "warnings": ["there is little in the log"],
        "buckets": buckets,
        "strata": [row for name, own in groups.items() if name != "all" for row in strata_rows(name, own)],
        "outputs": [row for name, own in groups.items() if name != "all" for row in output_rows(name, own)],
        "windows": [row for name, own in groups.items() for row in window_rows(name, own, duration_ms)]
        if kind == "open" else [],
    }  # fmt: skip


def with_steps_to(workload: Receipt, times: int) -> None:
    """Steps that lead from the rows to the requests of the workload, repeated so often."""
    count = workload["requests"]
    workload["rows_read"] = count + workload["rows_dropped"] + 490
    workload["steps"] = [
        {"step": "spread_ties", "detail": "1 s", "requests": workload["rows_read"] - workload["rows_dropped"]},
        {"step": "where", "detail": "model: a", "requests": count // times},
        {"step": "repeat", "detail": f"{times} times", "requests": count},
        {"step": "scale_rate", "detail": "1.5", "requests": count},
    ]


def inputs_of(kind: str, hit_ratio: tuple[float, float] | None, stack: str = "plain") -> list[Receipt]:
    values: Values = {**VALUES, **STACKS[stack]}
    there = {"rate": ("requests.rate",), "closed": ("requests.concurrency",)}.get(kind, ())
    table = []
    routed = "routed" in values["topologies.compared"][0]  # type: ignore[index]
    for row in rows_with(values.keys()):
        if row.path == THRESHOLDS and not routed:
            continue
        if row.path.startswith("requests.") and (row.path not in there and (row.default is None or kind == "open")):
            continue
        value, low, high, *_ = (*(values.get(row.path, (row.default,)) or (None,)), None, None)
        note = None if row.path in values else NOT_DECLARED
        if row.path == "service.prefill.prefix_hit_ratio" and hit_ratio:
            (value, low), note = hit_ratio, "as the engine reports it"
        hurts = {"low": low, "high": high}.get(row.hurts or "")
        if value is not None:
            table.append({"path": row.path, "unit": row.unit, "value": value, "low": low, "high": high,
                          "conservative": value if hurts is None else hurts, "provenance": "supplied", "source": None,
                          "note": note})  # fmt: skip
    return table


def gate(name: str, metric: str, unit: str, op: str, objective: str, compared: Sequence[str]) -> Receipt:
    """A blocking gate whose limit is an objective."""
    topologies = [name for name in compared if name in SEPARATED or not metric.startswith("transfer")]
    limit = VALUES[f"objectives.{objective}"][0]
    return {**RULE, "id": name, "metric": metric, "unit": unit, "topologies": topologies, "op": op, "limit": limit,
            "limit_source": f"objectives.{objective}"}  # fmt: skip


RULE: Receipt = {
    "file": "latency.yaml",
    "overrides": None,
    "kind": "LatencyObjective",
    "scope": "scenario",
    **dict.fromkeys(("buckets", "aggregate", "within", "within_source", "inputs", "cohorts", "limit_times", "message")),
    "bound": "nominal",
    "severity": "error",
    "blocking": True,
    "applies": True,
    "owner": "serving",
    "rationale": None,
}
"""What most gates have alike."""


def gate_by_bucket(name: str, metric: str, aggregate: str, op: str, limit: float | None, **others: Any) -> Receipt:
    """A blocking gate on a metric by bucket, with a limit of its own."""
    unit = "ratio" if aggregate == "share" else "s"
    return {**RULE, "id": name, "metric": metric, "unit": unit, "topologies": list(PLAIN), "aggregate": aggregate,
            "op": op, "limit": limit, "limit_source": "declared", **others}  # fmt: skip


def gate_on_decision(name: str, metric: str, op: str, limit: float, **others: Any) -> Receipt:
    """A blocking gate on the decision."""
    kind, file = ("Capacity", "capacity.yaml") if metric in CAPACITY_UNITS else ("Provenance", "provenance.yaml")
    return {**RULE, "id": name, "file": file, "kind": kind, "scope": "decision", "metric": metric,
            "unit": DECISION_UNITS[metric], "topologies": [], "bound": None, "op": op, "limit": limit,
            "limit_source": "declared", **others}  # fmt: skip


def gate_with_baseline(name: str, metric: str, baseline: str, times: float, **others: Any) -> Receipt:
    """A blocking gate on the topologies that move, whose limit is a multiple of a baseline."""
    unit = "s" if metric in BUCKET_METRICS else METRIC_UNITS[metric]
    return {**RULE, "id": name, "metric": metric, "unit": unit, "topologies": list(SEPARATED), "op": "lte",
            "limit": None, "limit_source": f"baselines.{baseline}", "limit_times": times, **others}  # fmt: skip


def exception(name: str, topologies: Sequence[str], expires: str, **others: Any) -> Receipt:
    return {"gate": name, "file": "exceptions.yaml", "topologies": list(topologies), "cohorts": None,
            "reason": "a second link is on its way", "owner": "network", "expires": expires, "standing": "holds",
            **others}  # fmt: skip


def receipt_of(
    kind: str = "open",
    *,
    cached: bool = False,
    hit_ratio: tuple[float, float] | None = None,
    stack: str = "plain",
    amend: Callable[[Receipt], None] = lambda receipt: None,
) -> Receipt:
    """A receipt of arrivals of a kind: with hits of its own, or a declared hit ratio (value and low), or neither.

    Inputs and rules may be amended before anything is evaluated with them.
    """
    weights, table = dict.fromkeys(PART_KINDS, 1), inputs_of(kind, hit_ratio, stack)
    values = {row["path"]: row["value"] for row in table}
    compared, source = values["topologies.compared"].split(" "), values["service.first_token_source"]
    requests = requests_of(cached)
    workload = workload_of(requests, kind)
    LOGS[log_key(workload)] = sorted((r.at_ms * 10**6, r.p, r.p - r.u, r.o) for r in requests)
    with_steps_to(workload, 1)
    receipt: Receipt = {
        "seal": "0" * 64,
        "apiVersion": "phaseledger/v1",
        "kind": "TopologyReceipt",
        "versions": {"product": "0.1", "arithmetic": "5", "significant_digits": 10},
        "truth_boundary": {"statement": STATEMENT, "latency_label": "modeled", "unmeasured": list(UNMEASURED)},
        "cohort": {"name": "handmade", "title": "Made by hand"},
        "as_of": None,
        "inputs": table,
        "workload": workload,
        "topologies": [{"topology": name,
                        "paths": [{"prompts": prompts, "kind": path,
                                   "first_token": source if path == "separated" else "prefill"}
                                  for prompts, path in PATHS[name]],
                        "parts": {part: list(PARTS[name][part]) for part in PART_KINDS},
                        "operating_parts": operating_parts(name, weights)} for name in compared],
        "rules": {"gates": [gate("ttft_worst", "ttft_worst", "s", "lte", "ttft", compared),
                            gate("stall", "stall", "s", "lte", "stall", compared),
                            gate("goodput", "goodput", "ratio", "gte", "attainment", compared),
                            gate("transfer", "transfer_worst", "s", "lte", "ttft_growth", compared)],
                  "exceptions": [],
                  "decision": {"file": "decision.yaml", "overrides": None, "prefer": ["operating_parts", "gpus", "margin"],
                               "operating_part_weights": weights}},
    }  # fmt: skip
    amend(receipt)
    receipt["scenarios"] = forge.rows_of(receipt)
    forge.recompute(receipt)
    forge.name_anew(receipt)
    forge.attach(receipt, forge.matrix_rows(receipt))
    return receipt
