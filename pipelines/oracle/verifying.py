"""Verifies a receipt and its matrix from the exported files alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .arrivals import check_declared, check_edges
from .budget import check_budget
from .canonical import canonical_bytes, sha256_of
from .changes import check_changes
from .claims import check_claims
from .deciding import Candidate, check_decision, decide
from .declared import check_gates
from .derived import check_fingerprints, check_parts, check_service, check_transfer
from .excepting import check_exceptions
from .findings import Ledger, Verification
from .history import check_hits_count_once
from .holdings import check_kv
from .inputs import check_inputs
from .judging import check_verdicts, grounds_of, judge_all
from .matrix import check_matrix, check_matrix_summary
from .reading import ReceiptFile, read_bytes, read_receipt
from .reasons import check_reasons
from .recomputing import Plan, check_scenarios, plan_of
from .remeasuring import check_requests
from .replayed import check_replay
from .requests_file import Columns, Requests, requests_from
from .searching import check_search
from .structure import check_structure
from .words import check_formulas
from .workload import check_workload

RECEIPT_NAME, MATRIX_NAME = "receipt.json", "matrix.csv"

INCOMPUTABLE = (ArithmeticError, RecursionError, ValueError, TypeError, LookupError)
"""What a damaged receipt may end a computation with: it is rejected, whatever was found before."""


def verify(receipt_path: Path, matrix_path: Path | None = None, requests: Requests | None = None) -> Verification:
    """Verify a receipt, and the matrix given or found beside it; raise `Unreadable` if there is nothing to verify.

    `requests` are a CSV file of the requests that the receipt is of, or rows of four whole numbers: its columns.
    """
    pair = pair_of(receipt_path)
    file = read_receipt(pair.receipt, receipt_path)
    name = matrix_path or pair.matrix_name
    matrix = read_bytes(matrix_path or pair.matrix, name) if name is not None else None
    columns = None if requests is None else requests_from(requests)
    ledger, notes = Ledger(), []
    if matrix is None:
        notes.append(f"the matrix was not checked: there is no {MATRIX_NAME} beside the receipt, and none was given")
    if columns is None:
        notes.append("the workload was not recomputed: the requests were not given")
    try:
        check_form(ledger, file)
        if not check_structure(ledger, file.receipt):
            notes.append("nothing was recomputed: the structure is not that of a receipt")
        elif not check_content(ledger, file.receipt, matrix, columns):
            notes.append("the scenarios were not recomputed: the inputs table or the arrivals are not usable")
    except INCOMPUTABLE as error:
        why = "no receipt of a plan has figures, labels or nesting that cannot be computed with"
        ledger.holds("arithmetic", "receipt", False, type(error).__name__, "figures that can be recomputed", why)
    return Verification(
        str(receipt_path),
        str(name) if name else None,
        ledger.checked,
        ledger.disagreements,
        notes + ledger.notes,
        None if requests is None else str(requests) if isinstance(requests, str | os.PathLike) else "given as rows",
    )


@dataclass(frozen=True)
class Pair:
    """Where a receipt really is, and the matrix beside it; its name is None where there is none."""

    receipt: Path
    matrix: Path
    matrix_name: Path | None


def pair_of(given: Path) -> Pair:
    """Follow links once, so that a link that is replaced meanwhile does not mix two plans; a directory holds its receipt."""
    home = given if given.is_dir() else given.parent
    real = Path(os.path.realpath(given))
    if real.is_dir():
        real = Path(os.path.realpath(real / RECEIPT_NAME))
    matrix, plain = real.parent / MATRIX_NAME, home / MATRIX_NAME
    if not os.path.lexists(matrix):
        return Pair(real, matrix, None)
    return Pair(real, matrix, plain if os.path.realpath(plain) == os.path.realpath(matrix) else matrix)


def check_form(ledger: Ledger, file: ReceiptFile) -> None:
    """Check that the bytes are the canonical form, and that the seal is the digest of the rest."""
    canonical = canonical_bytes(file.receipt)
    at = _first_difference(file.raw, canonical)
    found, expected = (bytes_[at : at + 40].decode("utf-8", "replace") for bytes_ in (file.raw, canonical))
    ledger.holds("canonical form", f"byte {at}", file.raw == canonical, found, expected, "RFC 8785")
    unsealed = {name: value for name, value in file.receipt.items() if name != "seal"}
    ledger.same(
        "seal", "seal", file.receipt.get("seal"), sha256_of(unsealed), "SHA-256 of the receipt without its seal"
    )


def _first_difference(left: bytes, right: bytes) -> int:
    """Return the offset of the first byte that differs, or of the end of the shorter."""
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    return next(i for i in range(shorter) if left[i] != right[i])


def check_content(
    ledger: Ledger, receipt: Mapping[str, Any], matrix: bytes | None, columns: Columns | None = None
) -> bool:
    """Check everything in a receipt of the right structure; say whether its scenarios could be recomputed."""
    check_claims(ledger, receipt)
    check_fingerprints(ledger, receipt)
    recomputed = _check_recomputable(ledger, receipt, columns)
    check_matrix_summary(ledger, receipt)
    if matrix is not None:
        check_matrix(ledger, receipt, matrix)
    return recomputed


def _check_recomputable(ledger: Ledger, receipt: Mapping[str, Any], columns: Columns | None) -> bool:
    """Check inputs and workload, and if they are usable, everything that follows from them."""
    inputs = check_inputs(ledger, receipt["inputs"])
    usable = check_workload(ledger, receipt["workload"])
    if columns is not None:
        check_requests(ledger, receipt["workload"], columns)
    check_formulas(ledger, receipt)
    if inputs is None:
        return False
    check_hits_count_once(ledger, receipt["workload"], inputs)
    if not (check_declared(ledger, receipt["workload"], inputs) and usable):
        return False
    check_kv(ledger, receipt, inputs)
    check_service(ledger, receipt, inputs)
    check_transfer(ledger, receipt, inputs)
    check_parts(ledger, receipt, inputs)
    plan = plan_of(receipt, inputs)
    check_edges(ledger, receipt["workload"], inputs)
    if check_scenarios(ledger, plan):
        _check_judgement(ledger, plan, columns)
    return True


def _check_judgement(ledger: Ledger, plan: Plan, columns: Columns | None) -> None:
    """Check gates, verdicts and the decision, each from the exported figures; then search, changes and the replay."""
    receipt, inputs = plan.receipt, plan.inputs
    rules, grounds = receipt["rules"], grounds_of(receipt, inputs)
    check_gates(ledger, receipt, inputs)
    check_exceptions(ledger, receipt)
    candidates = [
        Candidate(place, row, judge_all(row, rules["gates"], grounds)) for place, row in enumerate(receipt["scenarios"])
    ]
    for candidate in candidates:
        check_verdicts(ledger, candidate.row, candidate.judged)
    prefer = rules["decision"]["prefer"]
    ledger.same("gates", "rules.decision.prefer", len(set(prefer)), len(prefer), "each key once")
    choice = decide(candidates, inputs.compared, prefer)
    check_decision(ledger, receipt, inputs, choice, grounds)
    check_reasons(ledger, receipt, choice, candidates)
    if receipt["transfer"] is not None:
        check_budget(ledger, receipt, inputs, choice.of_topology("disaggregated"))
    check_search(ledger, plan, choice)
    check_changes(ledger, plan, choice, prefer)
    check_replay(ledger, plan, choice, columns)
