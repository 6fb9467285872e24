"""A small language for the shape of JSON values: exact members, types, enumerations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .findings import Ledger

Shape = Callable[[Ledger, str, object], bool]
"""Checks one value at one place, notes what is wrong, and says whether the value may be used."""

CHECK = "structure"
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters, but for tabs and ends of lines."""


def _expect(ledger: Ledger, where: str, holds: bool, found: object, expected: str) -> bool:
    return ledger.holds(CHECK, where, holds, describe(found), expected, "docs/formats.md")


def describe(value: object) -> object:
    """Name a whole object or list by its kind; show every other value as it is."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return value


def text(pattern: str | None = None, *, empty: bool = False, called: str | None = None) -> Shape:
    """A string without control characters, not empty unless allowed, wholly matched by the pattern if there is one."""
    expected = called or (f"text like {pattern}" if pattern else "text" if empty else "text that is not empty")

    def check(ledger: Ledger, where: str, value: object) -> bool:
        fits = isinstance(value, str) and (empty or value.strip() != "") and not _CONTROLS.search(value)
        fits = fits and (pattern is None or re.fullmatch(pattern, str(value)) is not None)
        return _expect(ledger, where, fits, value, f"{expected}, and printable")

    return check


def line() -> Shape:
    """Text on one line: what names and titles are."""
    return text("[^\n]*", called="one line of text")


def one_of(*allowed: str) -> Shape:
    """One of the listed strings."""

    def check(ledger: Ledger, where: str, value: object) -> bool:
        return _expect(ledger, where, isinstance(value, str) and value in allowed, value, " or ".join(allowed))

    return check


def number(minimum: float | None = None) -> Shape:
    """A number (not a boolean), not below the minimum if there is one."""
    expected = "a number" if minimum is None else f"a number of at least {minimum}"

    def check(ledger: Ledger, where: str, value: object) -> bool:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        fits = fits and (minimum is None or float(value) >= minimum)  # type: ignore[arg-type]
        return _expect(ledger, where, fits, value, expected)

    return check


def count(minimum: int = 0) -> Shape:
    """A whole number, not below the minimum."""

    def check(ledger: Ledger, where: str, value: object) -> bool:
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
        return _expect(ledger, where, fits, value, f"a whole number of at least {minimum}")

    return check


def boolean() -> Shape:
    """True or false."""

    def check(ledger: Ledger, where: str, value: object) -> bool:
        return _expect(ledger, where, isinstance(value, bool), value, "true or false")

    return check


def number_or_text() -> Shape:
    """A number, or text on one line."""
    numeric, textual = number(), line()

    def check(ledger: Ledger, where: str, value: object) -> bool:
        return (textual if isinstance(value, str) else numeric)(ledger, where, value)

    return check


def nullable(shape: Shape) -> Shape:
    """Null, or the shape."""

    def check(ledger: Ledger, where: str, value: object) -> bool:
        return value is None or shape(ledger, where, value)

    return check


def record(members: Mapping[str, Shape]) -> Shape:
    """An object with exactly these members."""

    def check(ledger: Ledger, where: str, value: object) -> bool:
        if not isinstance(value, dict):
            return _expect(ledger, where, False, value, "an object")
        usable = True
        for name in sorted(members.keys() - value.keys()):
            usable = _expect(ledger, under(where, name), False, "nothing", "a member of this name")
        for name in sorted(value.keys() - members.keys()):
            usable = _expect(ledger, under(where, name), False, value[name], "no member of this name")
        for name, shape in members.items():
            if name in value:
                usable = shape(ledger, under(where, name), value[name]) and usable
        return usable

    return check


def distinct(shape: Shape) -> Shape:
    """A list, not empty, of texts of which none is there twice."""
    items = listing(shape, least=1)

    def check(ledger: Ledger, where: str, value: object) -> bool:
        if not items(ledger, where, value):
            return False
        words: list[str] = value  # type: ignore[assignment]
        return _expect(ledger, where, len(set(words)) == len(words), value, "each of them once")

    return check


def listing(shape: Shape, *, key: str | None = None, least: int = 0) -> Shape:
    """A list whose items all have the shape; items are named by the member `key` where they have it."""

    def check(ledger: Ledger, where: str, value: object) -> bool:
        if not isinstance(value, list):
            return _expect(ledger, where, False, value, "a list")
        usable = _expect(ledger, where, len(value) >= least, value, f"a list of at least {least}")
        for index, item in enumerate(value):
            usable = shape(ledger, item_path(where, index, item, key), item) and usable
        return usable

    return check


def under(where: str, name: str) -> str:
    """Return the path of a member."""
    return f"{where}.{name}" if where else name


def item_path(where: str, index: int, item: Any, key: str | None) -> str:
    """Return the path of a list item: by its own name where it has one, else by its place."""
    name = item.get(key) if isinstance(item, dict) and key else None
    return f"{where}[{name if isinstance(name, str) and name else index}]"
