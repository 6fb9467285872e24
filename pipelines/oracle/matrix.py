"""The scenario matrix: every cell of the CSV, from the receipt it belongs to."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

from .canonical import es6_number
from .claims import LATENCY_LABEL, RESULT_PROVENANCE
from .findings import Ledger
from .names import BOUNDS
from .parameters import CHUNKS, RATE, ROUTED_CHUNKS, SEPARATED, THRESHOLDS

CHECK = "matrix"
FORMAT = "docs/formats.md, Matrix"

_IDENTITY = ("fingerprint", "scenario", "topology", "latency_label")
_INPUTS = {
    "prefill_tokens_per_second": "service.prefill.tokens_per_second",
    "decode_tokens_per_second": "service.decode.tokens_per_second",
    "effective_bandwidth_bytes_per_s": "network.effective_bandwidth",
    "ttft_objective_s": "objectives.ttft",
    "tpot_objective_s": "objectives.tpot",
}
_KNOBS = (
    "rate_rps",
    "threshold_tokens",
    "workers_mixed",
    "workers_prefill",
    "workers_decode",
    "chunk_tokens",
    "gpus",
    "operating_parts",
)
_REFUSAL = ("kind", "resource", "figure", "limit")
_RESULTS = (
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

Cells = dict[str, tuple[Any, str]]
"""Column name -> value and its provenance."""


def columns_of(receipt: Mapping[str, Any]) -> list[str]:
    """Return the specified columns: the identity, then each value beside its provenance."""
    bounded = ["status", *(f"refusal_{name}" for name in _REFUSAL), *_RESULTS]
    values = [*_INPUTS, *_KNOBS]
    values += [f"{name}_{bound}" for bound in BOUNDS for name in bounded]
    values += [f"gate_{name}" for name in _gates_of(receipt)]
    values += ["passes", "chosen"]
    return [*_IDENTITY, *(column for value in values for column in (value, f"{value}_provenance"))]


def _gates_of(receipt: Mapping[str, Any]) -> list[str]:
    """Return the gates over figures of a scenario that apply, in their order."""
    gates = receipt["rules"]["gates"]
    return [gate["id"] for gate in gates if gate["applies"] and gate["scope"] == "scenario"]


def cells_of(receipt: Mapping[str, Any], scenario: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of every cell in one scenario's row."""
    inputs = {row["path"]: row for row in receipt["inputs"]}
    cells = _input_cells(inputs, scenario) | _knob_cells(inputs, scenario)
    for bound in BOUNDS:
        cells |= _bound_cells(scenario["bounds"][bound], bound)
    verdicts = {verdict["gate"]: verdict["verdict"] for verdict in scenario["verdicts"]}
    for name in _gates_of(receipt):
        cells[f"gate_{name}"] = (verdicts.get(name), RESULT_PROVENANCE)
    cells["passes"] = (scenario["passes"], RESULT_PROVENANCE)
    cells["chosen"] = (scenario["scenario"] == receipt["decision"]["scenario"], RESULT_PROVENANCE)
    texts = {
        "fingerprint": receipt["fingerprint"],
        "scenario": cell_text(scenario["scenario"]),
        "topology": scenario["topology"],
        "latency_label": LATENCY_LABEL,
    }
    for name, (value, provenance) in cells.items():
        texts[name] = cell_text(value)
        texts[f"{name}_provenance"] = "" if value is None else provenance
    return texts


def _input_cells(inputs: Mapping[str, Any], scenario: Mapping[str, Any]) -> Cells:
    cells: Cells = {}
    for name, path in _INPUTS.items():
        row = inputs.get(path)
        at_work = row is not None and (not path.startswith("network.") or scenario["topology"] in SEPARATED)
        cells[name] = (row["value"], row["provenance"]) if row is not None and at_work else (None, "")
    return cells


def _knob_cells(inputs: Mapping[str, Any], scenario: Mapping[str, Any]) -> Cells:
    cells: Cells = {name: (scenario.get(name), RESULT_PROVENANCE) for name in _KNOBS}
    rate = inputs.get(RATE)
    provenance = rate["provenance"] if rate is not None else RESULT_PROVENANCE
    cells["rate_rps"] = (scenario["bounds"]["nominal"]["rate_rps"], provenance)
    chunks = ROUTED_CHUNKS if scenario["topology"] == "routed" else CHUNKS
    for name, path in (("chunk_tokens", chunks), ("threshold_tokens", THRESHOLDS)):
        row = inputs.get(path)
        cells[name] = (scenario[name], row["provenance"] if row is not None else "")
    return cells


def _bound_cells(row: Mapping[str, Any], bound: str) -> Cells:
    refusal = row["refusal"] or dict.fromkeys(_REFUSAL)
    values = {"status": row["status"]} | {f"refusal_{name}": refusal[name] for name in _REFUSAL}
    values |= {name: row[name] for name in _RESULTS}
    values["screening"] = " ".join(row["screening"]) or None
    return {f"{name}_{bound}": (value, RESULT_PROVENANCE) for name, value in values.items()}


def cell_text(value: object) -> str:
    """Return the text of a cell: numbers as in the receipt, and no text that a spreadsheet takes for a formula.

    >>> cell_text(None), cell_text(True), cell_text(-0.25), cell_text("=1+1")
    ('', 'true', '-0.25', "'=1+1")
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return es6_number(value)
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def check_matrix_summary(ledger: Ledger, receipt: Mapping[str, Any]) -> None:
    """Check what the receipt itself says of its matrix: rows and columns."""
    summary = receipt["matrix"]
    ledger.same(CHECK, "matrix.rows", summary["rows"], len(receipt["scenarios"]), "one row per scenario")
    ledger.listed(CHECK, "matrix.columns", summary["columns"], columns_of(receipt), FORMAT)


def check_matrix(ledger: Ledger, receipt: Mapping[str, Any], raw: bytes) -> None:
    """Check the CSV's digest and form, and recompute every cell."""
    digest = hashlib.sha256(raw).hexdigest()
    ledger.same(CHECK, "matrix.sha256", receipt["matrix"]["sha256"], digest, "SHA-256 of the CSV's bytes")
    rows = _parse(ledger, raw)
    if rows is None:
        return
    columns = columns_of(receipt)
    header, *body = rows or [[]]
    if not ledger.listed(CHECK, "matrix.csv[header]", header, columns, FORMAT):
        return
    scenarios = receipt["scenarios"]
    ledger.same(CHECK, "matrix.csv[rows]", len(body), len(scenarios), "one row per scenario")
    for found, scenario in zip(body, scenarios, strict=False):
        _check_cells(ledger, found, columns, cells_of(receipt, scenario), scenario["scenario"])


def _check_cells(
    ledger: Ledger, found: Sequence[str], columns: Sequence[str], expected: Mapping[str, str], name: str
) -> None:
    where = f"matrix.csv[{name}]"
    if ledger.same(CHECK, where, len(found), len(columns), "one cell per column"):
        for column, text in zip(columns, found, strict=True):
            ledger.same(CHECK, f"{where}.{column}", text, expected[column], "the receipt's value")


def _parse(ledger: Ledger, raw: bytes) -> list[list[str]] | None:
    """Parse RFC 4180; every line ends with CR LF."""
    try:
        text = raw.decode("utf-8")
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        ledger.holds(CHECK, "matrix.csv", False, str(error), "RFC 4180 in UTF-8", FORMAT)
        return None
    bare = text.replace("\r\n", "")
    lines_end = text.endswith("\r\n") and "\n" not in bare and "\r" not in bare
    ledger.holds(CHECK, "matrix.csv", lines_end, "other line ends", "CR LF at the end of every line", FORMAT)
    return rows
