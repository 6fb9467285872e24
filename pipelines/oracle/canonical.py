"""The canonical form of a JSON value (RFC 8785), and the digests taken of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = str.maketrans({chr(code): f"\\u{code:04x}" for code in range(0x20)} | _SHORT_ESCAPES)


def es6_number(value: float) -> str:
    """Write a number as ECMAScript does (RFC 8785, section 3.2.2.3).

    >>> es6_number(1e21), es6_number(1e20), es6_number(1e-7), es6_number(0.000001), es6_number(-0.0)
    ('1e+21', '100000000000000000000', '1e-7', '0.000001', '0')
    """
    if not math.isfinite(value):
        raise ValueError(f"{value} has no JSON form")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    digits, point = _shortest_digits(abs(float(value)))
    return sign + _place_point(digits, point)


def _shortest_digits(value: float) -> tuple[str, int]:
    """Return the shortest digits that read back as the value, and the point's place: value = 0.DIGITS x 10^point."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    return digits.rstrip("0"), point


def _place_point(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{tail}e{point - 1:+d}"


def canonical_text(value: object) -> str:
    """Return the canonical form of a value made of None, booleans, numbers, strings, lists and dicts.

    >>> canonical_text({"b": [1.0, None, True], "a": "é"})
    '{"a":"é","b":[1,null,true]}'
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return es6_number(value)
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, Mapping):
        members = sorted(value.items(), key=lambda member: _utf16(member[0]))
        return "{" + ",".join(f"{canonical_text(key)}:{canonical_text(item)}" for key, item in members) + "}"
    if isinstance(value, Sequence):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _utf16(key: str) -> bytes:
    """Return the sort key of a member name: its UTF-16 code units."""
    return key.encode("utf-16-be", "surrogatepass")


def canonical_bytes(value: object) -> bytes:
    """Return the canonical form as the UTF-8 bytes that are hashed and written."""
    return canonical_text(value).encode("utf-8")


def sha256_of(value: object) -> str:
    """Return the SHA-256 (hex) of the canonical form of a value."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()
