"""Measured service curves: prefill seconds by tokens, seconds of a decode step by sequences; from a table to their text."""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pipelines.declarations.documents import Document
from pipelines.declarations.measured_table import (
    LARGEST,
    TIME_UNITS,
    Column,
    Fault,
    Layout,
    Role,
    Row,
    Table,
    out_of_range,
    read_table,
)
from pipelines.declarations.points import points_of, points_text
from pipelines.declarations.problems import DeclarationProblems, Problem, show
from pipelines.declarations.quantities import Readings
from pipelines.declarations.service_relations import pool_peak

PREFILL_CURVES = ("service.prefill.curve", "separated.prefill.curve")
DECODE_CURVES = ("service.decode.curve", "separated.decode.curve")
SERVICE_CURVES = (*PREFILL_CURVES, *DECODE_CURVES)

FEWEST_POINTS, MOST_POINTS = 2, 1000
"""A line has two ends; a receipt holds every point, and a person reviews it."""
LARGEST_SIZE = 2**31 - 1
"""Tokens of the longest prompt that a log may hold; more sequences than that are in no batch."""

_TIMES = {"seconds": "s", "ms": "ms"}
_HIGHS = {f"{name}_high": unit for name, unit in _TIMES.items()}
_PLAIN = re.compile(r"[0-9]+(\.[0-9]+)?")
_TIME_LIKE = re.compile(r"(?P<stem>.+_)?(?P<unit>s|seconds|ms|milliseconds|msec)", re.IGNORECASE)


class ServicePoint(NamedTuple):
    """One size of a measured curve: whole tokens (prefill) or sequences (decode), seconds, and the upper end of the seconds."""

    size: int
    seconds: Fraction
    high_s: Fraction | None


ServiceCurve = tuple[ServicePoint, ...]
"""Strictly increasing sizes, times that do not decrease; upper times in all points or in none."""


def _unnamed(size: str, names: list[str], role: Role) -> tuple[str, str] | None:
    """The column that was probably meant, and what to call it."""
    for name in names:
        timed = _TIME_LIKE.fullmatch(name)
        if role.noun == "times" and timed and name not in _HIGHS:
            return name, f" to {'ms' if timed['unit'].lower().startswith('m') else 'seconds'}"
        if role.noun == size and name.lower().rpartition("_")[2] in (size, size.removesuffix("s")):
            return name, f" to {size}"
    return None


def _fault(size: str, text: str, column: Column) -> Fault | None:
    if not _PLAIN.fullmatch(text):
        return f"{show(text)} is not a plain decimal; expected digits, with a point at most", "as in 0.25"
    if column.unit != size:
        return out_of_range(text, column, "seconds")
    if Fraction(text).denominator != 1:
        return f"{text} {size} are not whole; expected whole {size}, 1 or more", None
    if Fraction(text) > LARGEST_SIZE:
        return f"{text} {size} are too many; expected at most {LARGEST_SIZE}", None
    return None


def _layout(things: str, size: str) -> Layout:
    return Layout(
        things,
        Role(size, f"a column {size}", {size: size}.get, {size: Fraction(1)}),
        Role("times", "a column seconds or ms", _TIMES.get, TIME_UNITS),
        Role("upper times", "a column seconds_high or ms_high", _HIGHS.get, TIME_UNITS),
        is_high=_HIGHS.__contains__,
        unnamed=partial(_unnamed, size),
        fault=partial(_fault, size),
    )


_LAYOUTS = {
    **dict.fromkeys(PREFILL_CURVES, _layout("prefills", "tokens")),
    **dict.fromkeys(DECODE_CURVES, _layout("decode steps", "sequences")),
}


def declared_service_curve(document: Document, path: str, directory: Path) -> ServiceCurve | None:
    """The curve of the table that the cohort names at ``path``; None where it names none. DeclarationProblems where it is none."""
    name = document.get(f"{path}.file")
    if not isinstance(name, str) or not name.strip():
        return None
    layout = _LAYOUTS[path]
    return _as_points(read_table(directory / name, layout), layout.size.noun)


def service_curve_problems(document: Document, readings: Readings, path: str, directory: Path) -> Iterator[Problem]:
    """What is wrong with the table at ``path``, and with its points beside the declared peak."""
    try:
        curve = declared_service_curve(document, path, directory)
    except DeclarationProblems as refused:
        yield from refused.problems
        return
    if curve is None:
        return
    if len(curve) > MOST_POINTS:
        yield document.problem(f"{path}.file", f"a curve of {len(curve)} points; expected at most {MOST_POINTS}")
    peak_path = pool_peak(readings, path.rpartition(".")[0])
    peak = readings.get(peak_path)
    for point in curve if peak else ():
        assert peak is not None
        if point.size > point.seconds * peak.highest:
            of_size = f"{point.size} {_LAYOUTS[path].size.noun} in {float(point.seconds)!r} s"
            message = (
                f"{of_size} are {float(point.size / point.seconds):.6g} tokens/s, above the declared peak of "
                f"{document.text(f'{peak_path}.value')}; expected measured rates up to it"
            )
            yield document.problem(f"{path}.file", message, "seconds read as ms, or swapped columns?")
            return


def _as_points(table: Table, noun: str) -> ServiceCurve:
    """The rows as a curve in ascending order; DeclarationProblems with all that keeps them from being one."""
    rows = sorted(table.rows, key=lambda row: (row.size, row.line))
    problems: list[Problem] = []
    if len(rows) < FEWEST_POINTS:
        message = f"a single point; expected {FEWEST_POINTS} or more for a curve"
        problems.append(table.at(rows[0].line, table.size_column, message))
    for before, after in pairwise(rows):
        if after.size == before.size:
            message = f"{after.size} {noun} are already on line {before.line}; expected one row a point"
            hint = "one row a size: the median of its times, and the largest of them as the upper time"
            problems.append(table.at(after.line, table.size_column, message, hint))
        else:
            problems += _decreases(table, before, after, noun)
    if problems:
        raise DeclarationProblems(problems)
    return tuple(ServicePoint(int(row.size), row.seconds, row.high_s) for row in rows)


def _decreases(table: Table, before: Row, after: Row, noun: str) -> Iterator[Problem]:
    for column, less, than in (
        (table.seconds_column, after.seconds, before.seconds),
        (table.high_column, after.high_s, before.high_s),
    ):
        if column and less is not None and than is not None and less < than:
            message = (
                f"{after.size} {noun} took {float(less)} s, less than {float(than)} s for {before.size} {noun} on "
                f"line {before.line}; expected non-decreasing times"
            )
            yield table.at(after.line, column, message, "repeat the measurement, or declare a fitted overhead and rate")


def service_curve_text(curve: ServiceCurve) -> str:
    """The canonical text of a curve: ``tokens:seconds[:high]`` or ``sequences:seconds[:high]``, as in the inputs table."""
    return points_text(curve)


def parse_points(text: str) -> ServiceCurve:
    """The curve that :func:`service_curve_text` wrote, its seconds exactly as written; ValueError for any other text.

    >>> parse_points("512:0.05:0.06 2048:0.19:0.2")[1]
    ServicePoint(size=2048, seconds=Fraction(19, 100), high_s=Fraction(1, 5))
    """
    curve = tuple(ServicePoint(*point) for point in points_of(text, "size"))
    if not _is_curve(curve) or service_curve_text(curve) != text:
        raise ValueError("not a canonical curve; expected two or more ascending sizes and times that do not decrease")
    return curve


def _is_curve(curve: ServiceCurve) -> bool:
    highs = [point.high_s for point in curve if point.high_s is not None]
    return (
        FEWEST_POINTS <= len(curve) <= MOST_POINTS
        and len(highs) in (0, len(curve))
        and highs == sorted(highs)
        and all(0 < point.seconds <= (point.high_s or point.seconds) <= LARGEST for point in curve)
        and curve[0].size > 0
        and curve[-1].size <= LARGEST_SIZE
        and all(one.size < other.size and one.seconds <= other.seconds for one, other in pairwise(curve))
    )
