"""Writes a verification as text for people and as JSON for programs."""

from __future__ import annotations

import json
import math

from .findings import Disagreement, Verification

SHOWN = 20
_LONGEST_VALUE = 120


def render_text(verification: Verification) -> str:
    """Write the outcome, the count of every check, and the first disagreements."""
    lines = [f"{verification.receipt}: {_outcome(verification)} ({verification.compared} values compared)"]
    lines += [f"note: {note}" for note in verification.notes]
    lines += [_line(item) for item in verification.disagreements[:SHOWN]]
    rest = len(verification.disagreements) - SHOWN
    if rest > 0:
        lines.append(f"... and {rest} more disagreements")
    lines += [f"  {name}: {count}" for name, count in verification.checked.items()]
    lines.append(f"{verification.compared} values compared: {verification.outcome}")
    return _printable("\n".join(lines)) + "\n"


def _outcome(verification: Verification) -> str:
    if not verification.passed:
        return f"verification failed, {verification.outcome}"
    return "verified" if verification.matrix else "verified, without its matrix"


def _line(item: Disagreement) -> str:
    why = f" ({item.why})" if item.why else ""
    return f"{item.where}: found {_short(item.found)}, recomputed {_short(item.expected)}{why}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(_jsonable(value), ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def _printable(text: str) -> str:
    """Escape what a terminal would act on."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode("ascii") for c in text)


def render_json(verification: Verification) -> str:
    """Write the whole verification, every disagreement included."""
    value = {
        "receipt": verification.receipt,
        "matrix": verification.matrix,
        "requests": verification.requests,
        "passed": verification.passed,
        "outcome": verification.outcome,
        "compared": verification.compared,
        "checked": verification.checked,
        "notes": verification.notes,
        "disagreements": [
            {
                "where": item.where,
                "found": _jsonable(item.found),
                "expected": _jsonable(item.expected),
                "why": item.why,
            }
            for item in verification.disagreements
        ],
    }
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False, default=str) + "\n"


def _jsonable(value: object) -> object:
    """Return the value, with numbers that JSON lacks as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
