"""Reads a receipt from its file, refusing every JSON text that two readers could understand differently."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

API_VERSION = "phaseledger/v1"
KIND = "TopologyReceipt"

_EXACT_INTEGER_LIMIT = 2**53


class Unreadable(Exception):  # noqa: N818 - named for what the input is
    """The input is missing, is not JSON, or is not a receipt of this version: nothing can be verified."""


@dataclass(frozen=True)
class ReceiptFile:
    """A receipt and the bytes it was read from."""

    raw: bytes
    receipt: dict[str, Any]


def read_bytes(path: Path, name: Path | None = None) -> bytes:
    """Return the content of a file, called by its name in messages; a pipe or a device might never end."""
    shown = name or path
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise Unreadable(f"{shown}: cannot be read: not a regular file")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreadable(f"{shown}: cannot be read: {reason}") from error


def read_receipt(path: Path, name: Path | None = None) -> ReceiptFile:
    """Read a receipt, called by its name in messages; whatever is not one of this version is unreadable."""
    raw, shown = read_bytes(path, name), name or path
    try:
        value = parse_json(raw)
    except Unreadable as error:
        raise Unreadable(f"{shown}: {error}") from error
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise Unreadable(f"{shown}: is not a receipt: a JSON object whose kind is {KIND} is expected")
    if value.get("apiVersion") != API_VERSION:
        raise Unreadable(f"{shown}: apiVersion is {value.get('apiVersion')!r}; this verifier reads {API_VERSION}")
    return ReceiptFile(raw, value)


def parse_json(raw: bytes) -> Any:
    """Parse JSON with one meaning only: UTF-8, no duplicate names, finite numbers, whole Unicode characters."""
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_unique_members,
            parse_int=_whole_number,
            parse_float=_finite_number,
            parse_constant=_no_constant,
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"is not UTF-8: {error.reason} at byte {error.start}") from error
    except UnicodeEncodeError as error:
        raise Unreadable("holds half of a surrogate pair, which is not a character") from error
    except json.JSONDecodeError as error:
        raise Unreadable(f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise Unreadable("is nested too deeply to be a receipt") from error
    return value


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise Unreadable(f"is ambiguous: the name {name!r} appears twice in one object")
        members[name] = value
    return members


def _whole_number(text: str) -> int | float:
    """Return an int where doubles are exact, else the double that every JSON reader would take."""
    value = _finite_number(text)
    return int(value) if abs(value) <= _EXACT_INTEGER_LIMIT else value


def _finite_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Unreadable(f"holds a number beyond the range of a double: {text[:32]}")
    return value


def _no_constant(text: str) -> float:
    raise Unreadable(f"is not JSON: {text} is not a number")
