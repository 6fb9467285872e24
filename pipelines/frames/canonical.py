"""RFC 8785 canonical JSON: the one byte sequence of a value, for digests and exports."""

import hashlib
from typing import Any

import rfc8785


def canonical_bytes(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value; raises ``rfc8785.CanonicalizationError`` for NaN, infinities and integers beyond 2^53.

    >>> canonical_bytes({"b": 1.0, "a": 1e-7})
    b'{"a":1e-7,"b":1}'
    """
    return rfc8785.dumps(value)


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()
