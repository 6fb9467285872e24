"""A fit of measured transfers as people and scripts read it, and as lines of a cohort."""

import json
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pipelines.arithmetic.transfer_fit import FASTEST_PLAUSIBLE, SLOWEST_PLAUSIBLE
from pipelines.cli.log_text import plain

if TYPE_CHECKING:
    from pipelines.arithmetic.transfer_fit import ConstantBandwidth, TransferFit
    from pipelines.declarations.transfer_table import TransferColumn, TransferTable

_DIGITS = 4
"""Significant digits of a declared figure: more than a measurement has."""

_TIMES = (("s", 0, "1"), ("ms", -3, "1e-4"), ("us", -6, "0"))
_SIZES = (("TB", 12, "1e12"), ("GB", 9, "1e9"), ("MB", 6, "1e6"), ("kB", 3, "1e3"), ("B", 0, "0"))
"""Units, their powers of ten, and from what they are used."""

_PLAIN_SOURCE = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*\.[A-Za-z]+")
_CURVE_COMMENT = (
    "  # file is relative to the directory of the cohort. effective_bandwidth, registration, synchronization and",
    "  # receiver_visibility hold outside of the measured sizes: keep all four of them, or none.",
)
_BENDS = {
    "upward": "upward: large transfers take longer per byte than the line says",
    "downward": "downward: large transfers take less per byte than the line says",
    "none": "none",
}


@dataclass(frozen=True)
class Told:
    """A table, its fit, how many links one transfer is striped over, and why a cohort cannot have the table as a curve."""

    table: "TransferTable"
    fit: "TransferFit"
    links: int
    no_curve: str | None = None
    """None also where a line does not mislead: nobody asked."""

    @property
    def is_curve(self) -> bool:
        """Whether a cohort is better off with the table than with the line."""
        return self.fit.affine_misleads and self.no_curve is None


def seconds(value: Fraction, rounding: str = ROUND_HALF_EVEN) -> str:
    """A time in the unit that people would say it in.

    >>> seconds(Fraction(39433, 10**8)), seconds(Fraction(39433, 10**8), ROUND_CEILING)
    ('0.3943 ms', '0.3944 ms')
    """
    return _with_unit(value, _TIMES, rounding)


def size(value: Fraction) -> str:
    """A size in decimal units."""
    return _with_unit(value, _SIZES, ROUND_HALF_EVEN)


def rate(value: Fraction, rounding: str = ROUND_HALF_EVEN) -> str:
    """A bandwidth in decimal units of bytes.

    >>> rate(Fraction(25 * 10**9)), rate(Fraction(1399999, 10), ROUND_FLOOR)
    ('25 GB/s', '139.9 kB/s')
    """
    return f"{_with_unit(value, _SIZES, rounding)}/s"


def factor(value: Fraction) -> str:
    """A factor in words.

    >>> factor(Fraction(437, 100))
    '4.37 times'
    """
    return f"{float(value):.3g} times"


def _with_unit(value: Fraction, units: tuple[tuple[str, int, str], ...], rounding: str) -> str:
    context = Context(prec=_DIGITS, rounding=rounding)
    shown = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    unit, power, _ = next(one for one in units if shown >= Decimal(one[2])) if shown else units[0]
    return f"{shown.scaleb(-power).normalize():f} {unit}"


def _percent(value: Fraction) -> str:
    return f"{100 * float(value):.1f} %"


def text_lines(told: Told) -> list[str]:
    """Figures, the table of points, warnings, and lines for a cohort."""
    table, fit, links = told.table, told.fit, told.links
    points = fit.points
    lines = [
        f"{plain(table.file)}: {len(points):,} transfers of {fit.sizes:,} sizes, {size(points[0].bytes)} to {size(points[-1].bytes)}",
        "",
        f"overhead          {seconds(fit.overhead_s)}",
        f"bandwidth         {rate(fit.bandwidth)}",
        f"conservative      {seconds(fit.overhead_high_s, ROUND_CEILING)} and {rate(fit.bandwidth_low, ROUND_FLOOR)}: "
        f"no measured {'or upper ' if table.high_column else ''}time is above that line",
        f"off by            {_percent(fit.largest_residual)} at most, {_percent(fit.median_residual)} at the median",
        *([f"per link          {rate(fit.bandwidth / links)} on each of {links} links"] if links > 1 else []),
    ]
    if fit.overhead_s:
        lines.append(
            f"half speed        at {size(fit.half_performance_bytes)}: there, overhead takes as long as the payload"
        )
    lines += [f"curvature         {_BENDS[fit.curvature]}"] if fit.curvature else []
    lines += [
        f"one bandwidth     {_constant(fit.of_largest, 'largest', 'smallest')}",
        f"                  {_constant(fit.of_smallest, 'smallest', 'largest')}",
        "",
        *_table(fit),
    ]
    lines += ["", *(f"warning: {warning}" for warning in warnings(told))] if warnings(told) else []
    lines += ["", *(f"note: {note}" for note in notes(table, fit))] if notes(table, fit) else []
    return [*lines, "", "for the network block of a cohort, in place of the same keys:", "", *cohort_lines(told)]


def _constant(one: "ConstantBandwidth", of: str, at: str) -> str:
    direction = "short" if one.says_s < one.measured_s else "long"
    verdict = "as measured" if one.says_s == one.measured_s else f"{factor(one.wrong_by)} too {direction}"
    measured = f"measured: {seconds(one.measured_s)}"
    return f"{rate(one.bandwidth)} of the {of} alone says {seconds(one.says_s)} at the {at}, {verdict} ({measured})"


def _table(fit: "TransferFit") -> list[str]:
    rows = [("bytes", "measured", "fitted", "off by", "bytes/s")]
    for point in fit.points:
        off = f"{100 * float(point.residual):+.1f} %".replace("-0.0 %", "0.0 %").replace("+0.0 %", "0.0 %")
        measured, fitted = seconds(point.measured_s), seconds(point.fitted_s)
        rows.append((f"{float(point.bytes):,.0f}", measured, fitted, off, rate(point.bytes / point.measured_s)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def warnings(told: Told) -> list[str]:
    """What would mislead, or is probably a mistake."""
    fit, found = told.fit, []
    if fit.constant_misleads:
        wrong = factor(fit.of_largest.most_wrong_by)
        mend = "; declare the overhead as well" if fit.overhead_s and not told.is_curve else ""
        found.append(
            f"one bandwidth misleads: the {rate(fit.of_largest.bandwidth)} of the largest transfer, without overhead, is up to "
            f"{wrong} wrong here{mend}"
        )
    if fit.affine_misleads:
        mend = "; declare the table as network.transfer_curve instead"
        if told.no_curve:
            mend = f", and the table cannot be network.transfer_curve instead: {told.no_curve}"
        found.append(
            f"an overhead and a bandwidth are up to {_percent(fit.largest_residual)} off a measured time{mend}"
        )
    if fit.bandwidth > FASTEST_PLAUSIBLE:
        found.append(
            f"{rate(fit.bandwidth)} is more than any link carries; times in s read as ms, or in ms read as us? sizes in kB read as MB?"
        )
    if fit.bandwidth < SLOWEST_PLAUSIBLE:
        found.append(
            f"{rate(fit.bandwidth)} is less than any link carries; times in us or ms read as s? sizes in kB or MB read as bytes?"
        )
    return found


def notes(table: "TransferTable", fit: "TransferFit") -> list[str]:
    """What to know about the fit, and what of the table was not read."""
    found = list(table.notes)
    if fit.bounded:
        found.append("the best line would have an overhead below 0; fitted with an overhead of 0")
    if fit.is_exact_by_count:
        found.append("a line goes through any two measurements, so residuals say nothing; measure more sizes")
    elif fit.sizes == 2:
        found.append(
            "two sizes: residuals say how repeats scatter, not whether a line is the right form; measure more sizes"
        )
    return found


def cohort_lines(told: Told) -> list[str]:
    """YAML for ``network:`` in a cohort, where a bandwidth is that of one link.

    Where a line misleads and the table can stand for itself, it does. Conservative ends are rounded outward, so that they still
    cover what was measured.
    """
    file = told.table.file
    source = file if _PLAIN_SOURCE.fullmatch(file) else json.dumps(file)
    origin = f"provenance: observed, source: {source}"
    striped = []
    if told.links > 1:
        striped = [
            "  # links of the cohort has to be at least links_per_transfer.",
            f"  links_per_transfer: {{value: {told.links}, {origin}}}",
        ]
    if told.is_curve:
        return [*striped, *_CURVE_COMMENT, f"  transfer_curve: {{file: {source}, {origin}}}"]
    return [*striped, *_affine_lines(told, origin)]


def _affine_lines(told: Told, origin: str) -> list[str]:
    fit, links = told.fit, told.links
    bandwidth = f"value: {rate(fit.bandwidth / links)}, low: {rate(fit.bandwidth_low / links, ROUND_FLOOR)}"
    overhead = f"value: {seconds(fit.overhead_s)}, high: {seconds(fit.overhead_high_s, ROUND_CEILING)}"
    return [
        f"  effective_bandwidth: {{{bandwidth}, {origin}}}",
        "  # The fitted overhead holds everything that was measured before and after the payload.",
        f"  registration: {{{overhead}, {origin}}}",
        "  # Raise these two to what the measurement did not include.",
        f"  synchronization: {{value: 0 s, {origin}}}",
        f"  receiver_visibility: {{value: 0 s, {origin}}}",
    ]


def as_json(told: Told, ceiling: Fraction | None) -> dict[str, Any]:
    """The fit as docs/transfer.md documents it."""
    table, fit = told.table, told.fit
    return {
        "file": table.file,
        "columns": {
            "bytes": _column(table.bytes_column),
            "seconds": _column(table.seconds_column),
            "high": _column(table.high_column),
        },
        "transfers": len(fit.points),
        "sizes": fit.sizes,
        "bytes_min": _number(fit.points[0].bytes),
        "bytes_max": _number(fit.points[-1].bytes),
        "overhead_s": float(fit.overhead_s),
        "bandwidth_bytes_per_s": float(fit.bandwidth),
        "overhead_high_s": float(fit.overhead_high_s),
        "bandwidth_low_bytes_per_s": float(fit.bandwidth_low),
        "stretch": float(fit.stretch),
        "overhead_bounded": fit.bounded,
        "half_performance_bytes": float(fit.half_performance_bytes),
        "largest_residual": float(fit.largest_residual),
        "median_residual": float(fit.median_residual),
        "curvature": fit.curvature,
        "constant_of_largest": _constant_json(fit.of_largest),
        "constant_of_smallest": _constant_json(fit.of_smallest),
        "constant_misleads": fit.constant_misleads,
        "affine_misleads": fit.affine_misleads,
        "links": told.links,
        "line_rate_bytes_per_s": None if ceiling is None else float(ceiling),
        "points": [
            {
                "bytes": _number(point.bytes),
                "measured_s": float(point.measured_s),
                "high_s": None if point.high_s is None else float(point.high_s),
                "fitted_s": float(point.fitted_s),
                "residual": float(point.residual),
                "bytes_per_s": float(point.bytes / point.measured_s),
            }
            for point in fit.points
        ],
        "warnings": warnings(told),
        "notes": notes(table, fit),
        "network": "\n".join(cohort_lines(told)) + "\n",
    }


def _column(column: "TransferColumn | None") -> dict[str, str] | None:
    return None if column is None else {"name": column.name, "unit": column.unit}


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _constant_json(one: "ConstantBandwidth") -> dict[str, float]:
    return {
        "bandwidth_bytes_per_s": float(one.bandwidth),
        "says_s": float(one.says_s),
        "measured_s": float(one.measured_s),
        "wrong_by": float(one.wrong_by),
        "most_wrong_by": float(one.most_wrong_by),
    }
