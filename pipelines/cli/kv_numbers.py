"""Bytes as people and as scripts read them: exact, and binary units named as such."""

from fractions import Fraction

_BINARY = ((2**60, "EiB"), (2**50, "PiB"), (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def figure(value: Fraction | int) -> str:
    """An exact number with thousands separators; halves as a decimal.

    >>> figure(147456), figure(Fraction(8193, 2))
    ('147,456', '4,096.5')
    """
    whole, part = divmod(Fraction(value), 1)
    return f"{whole:,}" + (str(float(part))[1:] if part else "")


def binary(value: Fraction | int) -> str:
    """The same in the largest binary unit of which there is one; ``~`` before what is rounded to three decimals.

    >>> binary(147456), binary(10**9), binary(512)
    ('144 KiB', '~953.674 MiB', '512 B')
    """
    size, unit = next(((size, unit) for size, unit in _BINARY if value >= size), (1, "B"))
    exact = Fraction(value) / size
    rounded = round(exact, 3)
    text = f"{float(rounded):,.3f}".rstrip("0").rstrip(".")
    return f"{'' if rounded == exact else '~'}{text} {unit}"


def number(value: Fraction | int | None) -> int | float | None:
    """The same as a JSON number: whole where it is, else a double that is exactly it.

    >>> number(Fraction(4, 2)), number(Fraction(5, 2)), number(None)
    (2, 2.5, None)
    """
    if value is None:
        return None
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 else float(exact)
