"""``phaseledger transfer fit``: an overhead and a bandwidth from a table of measured transfers."""

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from pipelines.cli.exits import problems_reported

if TYPE_CHECKING:
    from pipelines.arithmetic.transfer_fit import TransferFit
    from pipelines.declarations.problems import Problem
    from pipelines.declarations.transfer_table import ColumnChoice, TransferTable


class LineRate(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A bandwidth with its unit, exactly, in bytes per second."""

    name = "bandwidth"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        """``200 Gbit/s`` as 25,000,000,000."""
        from pipelines.declarations.units import QuantityError, exact, within

        if isinstance(value, Fraction):
            return value
        try:
            rate = exact(value, "B/s", str(value))
            within(rate, "positive", "B/s", str(value))
        except QuantityError as error:
            self.fail(error.message + (f" ({error.hint})" if error.hint else ""), param, ctx)
        return rate


class Column(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A column of a table, and its unit where its name does not state it: ``NAME`` or ``NAME=UNIT``."""

    name = "column"

    def __init__(self, of: Literal["sizes", "times"]) -> None:
        """Remember what the column holds, since that decides its units."""
        self.of = of

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "ColumnChoice":
        """``kv=MiB`` as a column and its unit."""
        from pipelines.declarations.problems import did_you_mean, show
        from pipelines.declarations.transfer_table import SIZE_UNITS, TIME_UNITS, ColumnChoice

        if isinstance(value, ColumnChoice):
            return value
        name, equals, unit = (part.strip() for part in str(value).partition("="))
        units = tuple(SIZE_UNITS if self.of == "sizes" else TIME_UNITS)
        if not name:
            self.fail(f"{show(value)} names no column; expected NAME or NAME={units[-1]}", param, ctx)
        if equals and unit not in units:
            hint = did_you_mean(unit, units)
            expected = f"expected one of {', '.join(units)}"
            self.fail(f"unknown unit {show(unit)}; {expected}{f' ({hint})' if hint else ''}", param, ctx)
        return ColumnChoice(name, unit or None)


EPILOG = """\b
Examples:
  phaseledger transfer fit transfers.csv
  phaseledger transfer fit transfers.csv --line-rate '200 Gbit/s' --links 8
  phaseledger transfer fit sweep.csv --bytes-column size=MiB --seconds-column p50_ms
  phaseledger transfer fit transfers.csv --format json | jq .overhead_s
"""


@click.command("fit", epilog=EPILOG)
@click.argument("file", metavar="FILE.csv", type=click.Path(path_type=Path))
@click.option(
    "--bytes-column",
    "size",
    type=Column("sizes"),
    metavar="NAME[=UNIT]",
    help="The column of sizes, as in size=MiB.  [default: the one called bytes, or that ends in _bytes, _mib, _mb, ...]",
)
@click.option(
    "--seconds-column",
    "time",
    type=Column("times"),
    metavar="NAME[=UNIT]",
    help="The column of times, as in p50=ms.  [default: the one called seconds, or that ends in _s, _ms or _us]",
)
@click.option(
    "--high-column",
    "high",
    type=Column("times"),
    metavar="NAME[=UNIT]",
    help="The column of upper times, which the conservative line covers.  [default: high_s, or one that ends in _high_s, ...]",
)
@click.option(
    "--line-rate",
    type=LineRate(),
    metavar="BANDWIDTH",
    help="Line rate of one link, as in '200 Gbit/s': a transfer above it is refused.",
)
@click.option(
    "--links",
    type=click.IntRange(1, 4096),
    help="Links that one transfer is striped over: a cohort declares the bandwidth of one.  [default: 1]",
)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def fit_verb(
    file: Path,
    size: "ColumnChoice | None",
    time: "ColumnChoice | None",
    high: "ColumnChoice | None",
    line_rate: Fraction | None,
    links: int | None,
    output: str,
) -> None:
    """Fit an overhead and a bandwidth to the measured KV transfers in FILE.csv: time = overhead + bytes / bandwidth.

    FILE.csv has a header and one transfer a row, with a column of sizes and one of times whose names state their units, as in
    kv_bytes and transfer_s; other columns are ignored. Shown are both figures with their conservative ends, how far each
    measurement is from them, what would mislead, and lines for the network block of a cohort. docs/transfer.md says how to measure.

    Exit code 0: fitted. 2: bad input, or a bandwidth above --line-rate.
    """
    with problems_reported(output):
        from pipelines.declarations.transfer_table import ColumnChoices, read_transfer_table

        table = read_transfer_table(file, ColumnChoices(size, time, high))
        ceiling = None if line_rate is None else line_rate * (links or 1)
        fit = _fitted(table, ceiling, links)
    from pipelines.cli.transfer_fit_text import Told, as_json, text_lines

    told = Told(table, fit, links or 1, _no_curve(table) if fit.affine_misleads else None)
    if output == "json":
        click.echo(json.dumps(as_json(told, ceiling), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        click.echo("\n".join(text_lines(told)))


def _no_curve(table: "TransferTable") -> str | None:
    """Why a cohort cannot have the table as its measured curve; None where it can. A cohort reads it by its header alone."""
    from pipelines.declarations.problems import DeclarationProblems
    from pipelines.declarations.transfer_curve import MOST_POINTS
    from pipelines.declarations.transfer_table import as_curve, read_transfer_table

    try:
        points = len(as_curve(table))
    except DeclarationProblems as refused:
        problem = refused.problems[0]
        return f"on line {problem.line}, {problem.message.partition('; expected')[0]}"
    if points > MOST_POINTS:
        return f"it has {points:,} sizes, and a curve at most {MOST_POINTS:,} points"
    columns = (table.bytes_column, table.seconds_column, table.high_column)
    try:
        read = read_transfer_table(Path(table.file))
    except DeclarationProblems:
        read = None
    if read is None or (read.bytes_column, read.seconds_column, read.high_column) != columns:
        return "a cohort reads columns by their names alone; rename them so that they state their units"
    return None


def _fitted(table: "TransferTable", ceiling: Fraction | None, links: int | None) -> "TransferFit":
    """The fit; DeclarationProblems where there is none, or it or a single transfer is faster than ``ceiling`` (B/s)."""
    from pipelines.arithmetic.transfer_fit import FitError, fit_transfers
    from pipelines.declarations.problems import DeclarationProblems, Problem

    problems = [] if ceiling is None else _too_fast(table, ceiling, links)
    try:
        fit = fit_transfers(table.rows)
    except FitError as error:
        raise DeclarationProblems([*problems, Problem(table.file, 1, 1, "", error.message, error.hint)]) from None
    if ceiling is not None and fit.bandwidth > ceiling:
        problems.append(_above(table.file, 1, "the fitted bandwidth is", (fit.bandwidth, ceiling), links))
    if problems:
        raise DeclarationProblems(problems)
    return fit


def _too_fast(table: "TransferTable", ceiling: Fraction, links: int | None) -> "list[Problem]":
    """The fastest of the transfers that are above ``ceiling``, in bytes per second; their number stands for the others."""
    above = [row for row in table.rows if row.bytes / row.seconds > ceiling]
    if not above:
        return []
    fastest = max(above, key=lambda row: (row.bytes / row.seconds, -row.line))
    what = "this transfer ran at" if len(above) == 1 else f"the fastest of {len(above)} transfers ran at"
    return [_above(table.file, fastest.line, what, (fastest.bytes / fastest.seconds, ceiling), links)]


def _above(file: str, line: int, what: str, rates: tuple[Fraction, Fraction], links: int | None) -> "Problem":
    from pipelines.arithmetic.transfer_fit import likely_mistake
    from pipelines.cli.transfer_fit_text import factor, rate
    from pipelines.declarations.problems import Problem

    found, ceiling = rates
    message = f"{what} {rate(found)}, {factor(found / ceiling)} the line rate of {rate(ceiling)}; expected at most that"
    striped = "" if links else " or several links, which --links would say?"
    return Problem(file, line, 1, "--line-rate", message, likely_mistake(found / ceiling) + striped)
