"""The scenario matrix as RFC 4180 CSV: each value beside its provenance (docs/formats.md, Matrix)."""

import csv
import hashlib
import io
from typing import Any

from pipelines.frames.canonical import canonical_bytes
from pipelines.frames.inputs import BOUNDS
from pipelines.topologies.scenarios import CHUNKS_INPUT, ROUTED_CHUNKS_INPUT

COLUMNS_OF_BOUND = (
    "status",
    "refusal_kind",
    "refusal_resource",
    "refusal_figure",
    "refusal_limit",
    "ttft_worst_s",
    "tpot_worst_s",
    "e2e_worst_s",
    "stall_s",
    "goodput",
    "pressure",
    "tightest",
    "headroom",
    "dominant_queue",
    "decode_batch",
    "transfer_worst_s",
    "transfer_envelope_share",
    "cost_per_million_tokens",
    "screening",
)

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_INPUT_COLUMNS = {
    "prefill_tokens_per_second": "service.prefill.tokens_per_second",
    "decode_tokens_per_second": "service.decode.tokens_per_second",
    "effective_bandwidth_bytes_per_s": "network.effective_bandwidth",
    "ttft_objective_s": "objectives.ttft",
    "tpot_objective_s": "objectives.tpot",
}
_DERIVED_KNOBS = ("workers_mixed", "workers_prefill", "workers_decode")
_KNOBS = {"aggregated": "", "chunked": CHUNKS_INPUT, "disaggregated": "", "routed": ROUTED_CHUNKS_INPUT}
"""Where the chunk budget of a topology is declared."""
_THRESHOLDS = "topologies.routed.threshold_tokens"
_RATE = "requests.rate"

Json = dict[str, Any]
Cell = tuple[Any, str]


def cell(value: Any) -> str:
    """One value as CSV text: numbers as in canonical JSON, absent as empty, words safe from being read as a formula.

    >>> cell(1e-7), cell(True), cell(None), cell("=1+1")
    ('1e-7', 'true', '', "'=1+1")
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    return canonical_bytes(value).decode()


def matrix_csv(body: Json) -> tuple[list[str], int, bytes, str]:
    """Column names, number of rows, bytes and SHA-256 of the matrix of an unsealed receipt ``body``."""
    inputs = {row["path"]: row for row in body["inputs"]}
    rows = [_row(body, inputs, scenario) for scenario in body["scenarios"]]
    columns = ["fingerprint", "scenario", "topology", "latency_label"]
    columns += [name for value in rows[0] for name in (value, f"{value}_provenance")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    for scenario, row in zip(body["scenarios"], rows, strict=True):
        named = [
            body["fingerprint"],
            scenario["scenario"],
            scenario["topology"],
            body["truth_boundary"]["latency_label"],
        ]
        values = [
            part for value, provenance in row.values() for part in (value, provenance if value is not None else None)
        ]
        writer.writerow([cell(value) for value in (*named, *values)])
    data = text.getvalue().encode()
    return columns, len(rows), data, hashlib.sha256(data).hexdigest()


def _row(body: Json, inputs: dict[str, Json], scenario: Json) -> dict[str, Cell]:
    """Column -> value and provenance, in column order."""
    row: dict[str, Cell] = {}
    for column, path in _INPUT_COLUMNS.items():
        used = path in inputs and (path != "network.effective_bandwidth" or scenario["workers_decode"] is not None)
        row[column] = (inputs[path]["value"], inputs[path]["provenance"]) if used else (None, "")
    rate_from = inputs[_RATE]["provenance"] if _RATE in inputs else "derived"
    row["rate_rps"] = (scenario["bounds"]["nominal"]["rate_rps"], rate_from)
    row["threshold_tokens"] = (scenario["threshold_tokens"], inputs.get(_THRESHOLDS, {}).get("provenance", ""))
    row |= {name: (scenario[name], "derived") for name in _DERIVED_KNOBS}
    budgets = _KNOBS.get(scenario["topology"], "")
    row["chunk_tokens"] = (scenario["chunk_tokens"], inputs.get(budgets, {}).get("provenance", ""))
    row |= {name: (scenario[name], "derived") for name in ("gpus", "operating_parts")}
    for bound in BOUNDS:
        shown = scenario["bounds"][bound]
        refusal = {f"refusal_{name}": value for name, value in (shown["refusal"] or {}).items()}
        figures = shown | refusal | {"screening": " ".join(shown["screening"]) or None}
        row |= {f"{name}_{bound}": (figures.get(name), "derived") for name in COLUMNS_OF_BOUND}
    verdicts = {verdict["gate"]: verdict["verdict"] for verdict in scenario["verdicts"]}
    applying = [gate["id"] for gate in body["rules"]["gates"] if gate["applies"] and gate["scope"] == "scenario"]
    row |= {f"gate_{name}": (verdicts.get(name), "derived") for name in applying}
    chosen = body["decision"]["scenario"] == scenario["scenario"]
    return row | {"passes": (scenario["passes"], "derived"), "chosen": (chosen, "derived")}
