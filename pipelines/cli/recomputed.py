"""A receipt that the verifier recomputed, and the bytes that it was: what a verb signs or compares is what was verified."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.oracle import Verification

Json = dict[str, Any]
Requests = Path | Iterable[tuple[int, int, int, int]]


@dataclass(frozen=True)
class Recomputed:
    """A receipt as it was read once, and what the verifier found of it."""

    file: Path
    raw: bytes
    receipt: Json
    verification: "Verification"

    @property
    def is_whole(self) -> bool:
        """Whether it has every member of a receipt, each of its type, so that they can be read."""
        from pipelines.oracle.findings import Ledger
        from pipelines.oracle.structure import check_structure

        return check_structure(Ledger(), self.receipt)


def receipt_meant(meant: str) -> Path:
    """The receipt.json that a person means, as short as it can be written; DeclarationProblems where there is none."""
    from pipelines.receipts.finding import receipt_file

    file, here = receipt_file(meant), Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file


def recomputed(file: Path, matrix: Path | None = None, requests: Requests | None = None) -> Recomputed:
    """The receipt in ``file`` with its verification, which fails where the file changes meanwhile; Unreadable where there is none."""
    from pipelines.oracle import Disagreement, verify
    from pipelines.oracle.reading import read_bytes, read_receipt

    before = read_receipt(file)
    verification = verify(file, matrix, requests)
    if read_bytes(file) != before.raw:
        why = "nobody knows which of its bytes were verified"
        changed = Disagreement("receipt", "other bytes", "the bytes that were there at first", why)
        verification.disagreements.append(changed)
    return Recomputed(file, before.raw, before.receipt, verification)
