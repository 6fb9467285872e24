"""The text of a measured curve: points ``size:seconds`` or ``size:seconds:high``, with spaces between them."""

import re
from collections.abc import Iterable
from fractions import Fraction

from pipelines.declarations.problems import show

Point = tuple[int, Fraction, Fraction | None]
"""A whole size (bytes, tokens or sequences), its seconds, and the upper end of them where one was measured."""

_TIME = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


def points_text(points: Iterable[Point]) -> str:
    """The canonical text of points, seconds as the shortest text of their doubles.

    >>> points_text([(512, Fraction(1, 100), None), (1024, Fraction(2, 100), Fraction(3, 100))])
    '512:0.01 1024:0.02:0.03'
    """
    return " ".join(
        f"{size}:{float(seconds)!r}" + ("" if high_s is None else f":{float(high_s)!r}")
        for size, seconds, high_s in points
    )


def points_of(text: str, size: str) -> list[Point]:
    """The points of a text, seconds exactly as written; ValueError where one is none. ``size`` is what an error calls it.

    >>> points_of("512:0.01 1024:0.02:0.03", "tokens")[1]
    (1024, Fraction(1, 50), Fraction(3, 100))
    """
    points: list[Point] = []
    for written in text.split(" "):
        first, *times = written.split(":")
        whole = first.isascii() and first.isdigit()
        if not whole or len(times) not in (1, 2) or not all(map(_TIME.fullmatch, times)):
            message = f"{show(written)} is no point of a curve; expected {size}:seconds or {size}:seconds:high"
            raise ValueError(message)
        points.append((int(first), Fraction(times[0]), Fraction(times[1]) if len(times) == 2 else None))
    return points
