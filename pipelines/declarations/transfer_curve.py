"""The measured curve of a cohort's transfers: read from its table, checked against the lines that it was measured on."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from pipelines.declarations.documents import Document
from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.declarations.quantities import Readings
from pipelines.declarations.transfer_table import TransferCurve, as_curve, read_transfer_table

FILE = "network.transfer_curve.file"
MOST_POINTS = 1000
"""A receipt holds every point, and a person reviews it."""


def declared_curve(document: Document, directory: Path) -> TransferCurve | None:
    """The curve of the table that the cohort names; None where it names none. DeclarationProblems where it is none."""
    name = document.get(FILE)
    if not isinstance(name, str) or not name.strip():
        return None
    return as_curve(read_transfer_table(directory / name))


def curve_problems(document: Document, readings: Readings, directory: Path) -> Iterator[Problem]:
    """What is wrong with the table, and with the curve on the declared lines."""
    try:
        curve = declared_curve(document, directory)
    except DeclarationProblems as refused:
        yield from refused.problems
        return
    if curve is None:
        return
    if len(curve) > MOST_POINTS:
        yield document.problem(FILE, f"a curve of {len(curve)} points; expected at most {MOST_POINTS}")
    upper = [(point.bytes, point.seconds if point.high_s is None else point.high_s) for point in curve]
    for (before, sooner), (size, later) in pairwise(upper):
        if later < sooner:
            message = (
                f"the upper time of {size} bytes is below that of {before}; expected upper times that do not decrease"
            )
            yield document.problem(FILE, message, "give every point an upper time, or none")
            break
    yield from _faster_than_lines(document, readings, curve)


def _faster_than_lines(document: Document, readings: Readings, curve: TransferCurve) -> Iterator[Problem]:
    line, each = readings.get("network.line_rate"), readings.get("network.links_per_transfer")
    if line is None:
        return
    limit = line.highest * (each.highest if each else 1)
    for point in curve:
        if point.bytes > point.seconds * limit:
            message = (
                f"{point.bytes} bytes in {float(point.seconds)} s are {_gigabytes(point.bytes / point.seconds)} GB/s, above the "
                f"{_gigabytes(limit)} GB/s of the lines; expected at most the line rate of links_per_transfer links"
            )
            hint = "how many links were used? or was only the last chunk timed, or GB read as GiB?"
            yield document.problem(FILE, message, hint)
            return


def _gigabytes(bandwidth: Fraction) -> str:
    return f"{float(bandwidth / 10**9):.6g}"
