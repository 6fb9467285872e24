"""Quantities as people write them, read exactly: ``0.1 ms`` is the double nearest to 0.0001, not 0.1 divided by 1000.

Everything becomes SI: seconds, bytes, bytes per second. A mistake is named as the mistake that it probably is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pipelines.declarations.problems import show

Unit = Literal["s", "B", "B/s", "requests/s", "tokens/s", "s/token", "s/token^2", "ratio", "count", "price/h", "text"]
Domain = Literal["positive", "not_negative", "share", "fraction", "below_one"]
"""Above 0; 0 or more; above 0 and at most 1; from 0 to 1; from 0 to 1 without 1 itself."""

_PREFIXES: Mapping[str, Fraction] = {
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
}
_BINARY: Mapping[str, Fraction] = {
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
}

TIMES: Mapping[str, Fraction] = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "min": Fraction(60),
    "h": Fraction(3600),
}
SIZES: Mapping[str, Fraction] = {f"{prefix}B": size for prefix, size in {**_PREFIXES, **_BINARY}.items()}
_BITS: Mapping[str, Fraction] = {
    f"{prefix}{bit}": size / 8 for prefix, size in _PREFIXES.items() for bit in ("bit", "b")
}
BANDWIDTHS: Mapping[str, Fraction] = {
    f"{size}{per}": factor for size, factor in {**SIZES, **_BITS}.items() for per in ("/s", "ps")
}

REQUEST_RATES: Mapping[str, Fraction] = {
    f"{what}/{per}": 1 / TIMES[per] for what in ("", "req", "requests") for per in ("s", "min", "h")
}


@dataclass(frozen=True)
class _Dimension:
    noun: str
    example: str
    units: str
    known: Mapping[str, Fraction]


_MEASURED: Mapping[str, _Dimension] = {
    "s": _Dimension("a time", "8 ms", "ns us ms s min h", TIMES),
    "B": _Dimension("a size", "16 GiB", "B kB MB GB TB KiB MiB GiB TiB", SIZES),
    "B/s": _Dimension(
        "a bandwidth",
        "21 GB/s or 400 Gbit/s",
        "B kB MB GB TB KiB MiB GiB TiB or bit kbit Mbit Gbit Tbit, per second (/s)",
        BANDWIDTHS,
    ),
    "requests/s": _Dimension("a request rate", "3.2/s", "/s /min /h, or req and requests before them", REQUEST_RATES),
}
_BARE: Mapping[str, str] = {
    "tokens/s": "a bare number of tokens per second",
    "s/token": "a bare number of seconds per token",
    "s/token^2": "a bare number of seconds per token squared",
    "count": "a whole number",
    "price/h": "a bare number: the price of one GPU for an hour",
    "ratio": "a ratio from 0 to 1",
}
_OTHER: tuple[tuple[str, Mapping[str, Fraction]], ...] = (
    ("a time", TIMES),
    ("a size", SIZES),
    ("a size in bits", _BITS),
    ("a bandwidth", BANDWIDTHS),
    ("a request rate", REQUEST_RATES),
    ("a ratio", {"%": Fraction(1, 100)}),
)
NICKNAMES: Mapping[str, str] = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "micros", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("nsec", "nanos", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("byte", "bytes"), "B"),
    **dict.fromkeys(("rps", "qps", "reqs/s", "request/s", "req/sec", "requests/sec", "req/second"), "req/s"),
    **dict.fromkeys(("/sec", "/second", "1/s", "per second"), "/s"),
    **dict.fromkeys(("rpm", "request/min", "req/minute", "/minute"), "req/min"),
}

_WRITTEN = re.compile(
    r"\s*([-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?)(?![0-9])\s*(.*?)\s*"
)
_GROUPED = re.compile(r"[0-9]+(?:[_, ']+[0-9]+)+")
_SMALLEST, _LARGEST = Fraction(1, 10**24), Fraction(10**24)
_LONGEST_NS = 2**63 - 1
_LONGEST_DECIMAL = 40
"""Characters of a number that is kept as a fraction: more are no figure that anyone measured."""


class QuantityError(ValueError):
    """A value that cannot be read: what was found and expected, and a hint."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        """Keep the message and the hint apart."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class DomainError(QuantityError):
    """A value that can be read, but is too small or too large to mean anything."""


def exact(raw: object, unit: Unit, written: str = "") -> Fraction:
    """The exact value of ``raw`` in SI ``unit``; ``written`` is how it stands in the file.

    >>> exact("400 Gbit/s", "B/s") == exact("50 GB/s", "B/s") == 50 * 10**9
    True
    >>> float(exact("0.1 ms", "s"))
    0.0001
    """
    if unit in _MEASURED:
        value = _measured(raw, unit, written)
    elif unit == "ratio":
        value = _ratio(raw)
    else:
        value = _bare(raw, unit)
    if value and not _SMALLEST <= abs(value) <= _LARGEST:
        raise QuantityError(f"{written or show(raw)} is out of range; expected a size between 1e-24 and 1e24 {unit}")
    return value


def si(raw: object, unit: Unit) -> float:
    """``raw`` in SI ``unit`` as the nearest double.

    >>> si("16 GiB", "B"), si("80 %", "ratio")
    (17179869184.0, 0.8)
    """
    return float(exact(raw, unit))


def whole_ns(raw: object, written: str, domain: Domain) -> int:
    """A time as whole nanoseconds, the unit in which logs count.

    >>> whole_ns("1.5 s", "1.5 s", "positive")
    1500000000
    """
    value = exact(raw, "s", written)
    within(value, domain, "s", written)
    nanoseconds = value * 10**9
    if nanoseconds.denominator != 1:
        raise QuantityError(f"{written} is not a whole number of nanoseconds; expected one")
    if nanoseconds > _LONGEST_NS:
        raise QuantityError(f"{written} is more than 292 years; expected a time that a log can span")
    return int(nanoseconds)


def exact_decimal(raw: int | float, written: str) -> Fraction:
    """A bare number exactly as it is ``written``: 0.1 is one tenth, not the double nearest to it.

    >>> exact_decimal(0.1, "0.1")
    Fraction(1, 10)
    """
    if raw and not _SMALLEST <= abs(Fraction(raw)) <= _LARGEST:
        raise QuantityError(f"{written} is out of range; expected a number between 1e-24 and 1e24")
    if isinstance(raw, int) or not raw:  # a zero may be written with an exponent that no memory holds
        return Fraction(int(raw))
    if len(written) > _LONGEST_DECIMAL:
        raise QuantityError(f"{written} has too many digits; expected at most {_LONGEST_DECIMAL} characters")
    return Fraction(written)


def within(value: Fraction, domain: Domain, unit: Unit, written: str) -> None:
    """Refuse a value outside of its domain."""
    bounded = domain in ("share", "fraction", "below_one")
    if value < 0:
        expected = "a ratio from 0 to 1" if bounded else "more than 0" if domain == "positive" else "0 or more"
        raise DomainError(f"{written} is negative; expected {expected}")
    if value == 0 and domain in ("positive", "share"):
        raise DomainError(f"{written} is zero; expected more than 0")
    if bounded and value > 1:
        percentage = unit == "ratio" and "%" not in written and 2 <= value <= 100
        hint = f"{written} is a percentage? write {float(value / 100):.12g} or {written} %" if percentage else None
        raise DomainError(f"{written} is above 1; ratios are from 0 to 1", hint)
    if domain == "below_one" and value == 1:
        raise DomainError(f"{written} is the whole; expected a ratio below 1")


def _measured(raw: object, unit: Unit, written: str) -> Fraction:
    dimension = _MEASURED[unit]
    expected = f"expected {dimension.noun} with its unit, as in {dimension.example}"
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise QuantityError(f"{show(raw)} is not {dimension.noun}; {expected}")
    if not isinstance(raw, str):
        raise QuantityError(f"{written or show(raw)} has no unit; {expected}")
    match = _WRITTEN.fullmatch(raw)
    if not match:
        raise QuantityError(f"{show(raw)} is not {dimension.noun}; {expected}")
    number, name = match.groups()
    if not name:
        raise QuantityError(f"{number} has no unit; {expected}")
    if name not in dimension.known:
        raise _wrong_unit(name, unit, dimension)
    return Fraction(number) * dimension.known[name]


def _wrong_unit(name: str, unit: Unit, dimension: _Dimension) -> QuantityError:
    expected = f"expected {dimension.noun}: {dimension.units}"
    other = next((noun for noun, table in _OTHER if name in table and noun != dimension.noun), None)
    if other is None:
        return QuantityError(f"unknown unit {show(name)}; {expected}", _meant(name, unit, dimension.known))
    hint = None
    if other == "a size in bits" and unit == "B":
        hint = f"{name.removesuffix('bit').removesuffix('b')}B is bytes"
    elif other.startswith("a size") and unit == "B/s":
        hint = f"did you mean {name}/s?"
    elif f"/{name}" in dimension.known:
        hint = f"did you mean /{name}?"
    return QuantityError(f"{show(name)} is {other}; {expected}", hint)


def _meant(name: str, unit: Unit, known: Mapping[str, Fraction]) -> str | None:
    """What an unknown unit probably stands for."""
    prefix = "k" if name[0] in "kK" else name[0].upper()
    stem = name.lower().removesuffix("/s").removesuffix("ps")
    if unit == "s" and name in ("m", "M"):
        return f"{name} is ambiguous: min is minutes, ms is milliseconds"
    if unit == "B/s" and stem in ("kb", "mb", "gb", "tb"):
        return f"case matters: {prefix}B/s is bytes, {prefix}bit/s is bits, and one is 8 times the other"
    if unit == "B/s" and stem in ("kib", "mib", "gib", "tib"):
        return f"binary prefixes are for bytes ({name[0].upper()}iB/s), bits are decimal ({prefix}bit/s)"
    if unit == "B" and name.lower() in ("k", "m", "g", "t"):
        return f"{prefix}B is decimal, {name.upper()}iB is binary"
    if unit == "B" and name.lower() in ("ki", "mi", "gi", "ti"):
        return f"did you mean {name[0].upper()}iB?"
    if NICKNAMES.get(name.lower()) in known:
        return f"did you mean {NICKNAMES[name.lower()]}?"
    alike = [word for word in known if word.lower() == name.lower()]
    return f"did you mean {alike[0]}?" if len(alike) == 1 else None


def _ratio(raw: object) -> Fraction:
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return Fraction(raw)
    match = _WRITTEN.fullmatch(raw) if isinstance(raw, str) else None
    if match and match.group(2) == "%":
        return Fraction(match.group(1)) / 100
    hint = f"write {match.group(1)} without quotes" if match and not match.group(2) else None
    raise QuantityError(f"{show(raw)} is not a ratio; expected 0.8 or 80 %", hint)


def _bare(raw: object, unit: Unit) -> Fraction:
    expected = _BARE[unit]
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        if unit == "count" and raw != int(raw):
            raise QuantityError(f"{show(raw)} is not whole; expected {expected}")
        return Fraction(raw)
    match = _WRITTEN.fullmatch(raw) if isinstance(raw, str) else None
    hint = None
    if isinstance(raw, str) and _GROUPED.fullmatch(raw):
        hint = "write the digits without separators"
    elif match and unit != "count":
        hint = f"write {match.group(1)}: the key names the unit"
    raise QuantityError(f"{show(raw)} is not a number; expected {expected}", hint)
