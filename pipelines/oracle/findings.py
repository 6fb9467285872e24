"""What a verification compares, how close two numbers must be, and what it found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

SIGNIFICANT_DIGITS = 10
WORKLOAD_DIGITS = 12
ABSOLUTE_SLACK = 1e-15
"""Differences of this size are rounding of sums whose true value is zero."""


@dataclass(frozen=True)
class Disagreement:
    """One value of the exported files that does not follow from the others."""

    where: str
    found: object
    expected: object
    why: str


@dataclass(frozen=True)
class Verification:
    """The outcome of one verification: how many values each check compared, and those that disagree."""

    receipt: str
    matrix: str | None
    checked: dict[str, int]
    disagreements: list[Disagreement]
    notes: list[str] = field(default_factory=list)
    requests: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every compared value agrees."""
        return not self.disagreements

    @property
    def compared(self) -> int:
        """How many values were compared."""
        return sum(self.checked.values())

    @property
    def outcome(self) -> str:
        """The outcome in a word or two."""
        return "verified" if self.passed else f"{len(self.disagreements)} values disagree"


class Ledger:
    """Collects comparisons while a receipt is verified."""

    def __init__(self) -> None:
        """Begin with nothing compared."""
        self.checked: dict[str, int] = {}
        self.disagreements: list[Disagreement] = []
        self.notes: list[str] = []
        """What was not looked at, and why."""

    def holds(self, check: str, where: str, holds: bool, found: object, expected: object, why: str = "") -> bool:
        """Count one comparison, and note a disagreement if it does not hold."""
        self.checked[check] = self.checked.get(check, 0) + 1
        if not holds:
            self.disagreements.append(Disagreement(where, found, expected, why))
        return holds

    def same(self, check: str, where: str, found: object, expected: object, why: str = "") -> bool:
        """Compare two values that must be identical (a boolean is not a number)."""
        alike = isinstance(found, bool) == isinstance(expected, bool) and found == expected
        return self.holds(check, where, alike, found, expected, why)

    def figure(self, check: str, where: str, found: float | None, expected: float | None, why: str = "") -> bool:
        """Compare an exported result with its recomputed value: one unit of the last exported digit apart at most."""
        if found is None or expected is None:
            return self.same(check, where, found, expected, why)
        rounded = self.rounded(where, found, SIGNIFICANT_DIGITS)
        return self.holds(check, where, close(found, expected, 1.0), found, expected, why) and rounded

    def rounded(self, where: str, found: float, digits: int) -> bool:
        """Check that a number is written with at most so many significant digits."""
        shorter = round_significant(found, digits)
        return self.holds("digits", where, found == shorter, found, shorter, f"at most {digits} significant digits")

    def listed(self, check: str, where: str, found: Sequence[object], expected: Sequence[object], why: str) -> bool:
        """Compare two sequences item by item, and their lengths."""
        if found == expected:
            self.checked[check] = self.checked.get(check, 0) + max(1, len(expected))
            return True
        if len(found) != len(expected):
            return self.holds(check, where, False, list(found), list(expected), why)
        agreed = [
            self.same(check, f"{where}[{i}]", *pair, why) for i, pair in enumerate(zip(found, expected, strict=True))
        ]
        return all(agreed)


def round_significant(value: float, digits: int) -> float:
    """Round to so many significant digits, half to even on the exact binary value.

    >>> round_significant(0.123456789012, 10), round_significant(-2.5e-7, 1)
    (0.123456789, -2e-07)
    """
    return float(f"{value:.{digits - 1}e}")


def unit_of_last_digit(value: float, digits: int) -> float:
    """Return the weight of the last of so many significant digits.

    >>> unit_of_last_digit(31.6, 10), unit_of_last_digit(0.05, 3)
    (1e-08, 0.0001)
    """
    if value == 0 or not math.isfinite(value):
        return 0.0
    return float(Decimal(1).scaleb(Decimal(value).adjusted() - digits + 1))


def close(found: float, expected: float, units: float, digits: int = SIGNIFICANT_DIGITS) -> bool:
    """Whether two numbers differ by at most so many units of the last significant digit.

    >>> close(0.1234567891, 0.12345678905, 1.0), close(0.1234567891, 0.1234567893, 1.0), close(0.0, 1e-16, 1.0)
    (True, False, True)
    """
    if not math.isfinite(expected):
        return False
    difference, largest = abs(found - expected), max(abs(found), abs(expected))
    if difference <= ABSOLUTE_SLACK + units * largest * 10.0**-digits:
        return True
    return difference <= ABSOLUTE_SLACK + units * unit_of_last_digit(largest, digits) * (1 + 1e-6)
