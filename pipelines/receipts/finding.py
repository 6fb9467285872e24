"""Which receipt a person means: a file, its directory, a cohort's last one, or the first digits of a digest (docs/receipts.md)."""

import re
from pathlib import Path

from pipelines.declarations.places import receipts_directory
from pipelines.declarations.problems import DeclarationProblems, Problem, did_you_mean

RECEIPT, MATRIX, ENVELOPE = "receipt.json", "matrix.csv", "receipt.intoto.jsonl"
STORE = "_store"
"""No cohort has such a name: theirs have no underscore."""

DIGITS = re.compile(r"[0-9a-f]{6,64}")
"""What names a receipt of the store: how its digest begins."""
_SHOWN = 5


def receipt_file(meant: str) -> Path:
    """The receipt.json that ``meant`` leads to, as a real path, so that what lies beside it is of the same plan.

    DeclarationProblems where it leads nowhere, or to more than one.
    """
    if not meant.strip():
        raise _problem("RECEIPT", "is empty; expected a receipt, its directory, a cohort, or digits of a digest")
    try:
        return _found(meant)
    except (OSError, ValueError) as error:
        raise _problem(meant, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _found(meant: str) -> Path:
    place, root = Path(meant), receipts_directory()
    if place.is_file() or (place / RECEIPT).exists():
        return (place / RECEIPT if place.is_dir() else place).resolve()
    # the directory of a cohort's declarations often has the name of the cohort
    if "/" not in meant and (root / meant / RECEIPT).is_file():
        return (root / meant / RECEIPT).resolve()
    if place.exists():
        return (place / RECEIPT if place.is_dir() else place).resolve()
    if DIGITS.fullmatch(meant):
        return _of_digits(meant, root / STORE)
    raise _problem(
        meant, "no such receipt; expected a file, its directory, a planned cohort, or digits of a digest", _hint(meant)
    )


def _of_digits(digits: str, store: Path) -> Path:
    found = sorted(place.name for place in store.glob(f"{digits}*") if (place / RECEIPT).is_file())
    if len(found) == 1:
        return (store / found[0] / RECEIPT).resolve()
    if not found:
        raise _problem(digits, f"no receipt in {store} has a digest that begins so")
    more = f" and {len(found) - _SHOWN} more" if found[_SHOWN:] else ""
    raise _problem(digits, f"begins the digests of {', '.join(found[:_SHOWN])}{more}; expected more digits")


def _hint(meant: str) -> str | None:
    planned = sorted(place.parent.name for place in receipts_directory().glob(f"*/{RECEIPT}"))
    return did_you_mean(meant, planned)


def _problem(meant: str, found: str, hint: str | None = None) -> DeclarationProblems:
    return DeclarationProblems([Problem(meant, 1, 1, "", found, hint)])
