"""``phaseledger diff``: what differs between two receipts, what moved because of it, and what decided (docs/receipts.md)."""

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.exits import NOTHING_QUALIFIES, VERIFICATION_FAILED, problems_reported, stop
from pipelines.declarations.problems import DeclarationProblems, Problem

if TYPE_CHECKING:
    from pipelines.cli.explain_reading import Receipt
    from pipelines.comparing.mixes import Sides
    from pipelines.comparing.report import ContradictedError

Json = dict[str, Any]

EPILOG = """\b
Examples:
  phaseledger diff 4a61c0 moderate-chat                        (a receipt in the store, and the last one of a cohort)
  phaseledger diff before/receipt.json after/receipt.json
  phaseledger diff 4a61c0 moderate-chat --format json | jq -r '.decisive[]'
"""

_SHOWN = 80


@click.command(epilog=EPILOG)
@click.argument("old")
@click.argument("new")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def diff(old: str, new: str, output: str, quiet: bool) -> None:
    """Compare the receipts OLD and NEW: which inputs, requests and rules differ, what moved because of which, and what decided.

    Either is a receipt.json, its directory, a cohort whose last receipt is meant, or the first six or more digits of its SHA-256.

    The cohort is planned again with one change on top of the other, from OLD to NEW, and with each change alone. So a comparison
    with many changes takes three plans of each: seconds for most cohorts. All figures are modeled.

    Exit code 0: the decision is the same. 1: it is not. 2: a receipt cannot be read, was changed after it was sealed, or is of
    another arithmetic. 3: a receipt does not say what its inputs give.
    """
    from pipelines.cli.diff_text import text_lines

    with problems_reported(output):
        files, receipts = _read(old, new)
        sides = _reopened(files, receipts)
    from pipelines.comparing.report import ContradictedError, compared

    progress = _Progress(shown=not quiet and sys.stderr.isatty())
    try:
        found = compared(receipts[0].json, receipts[1].json, sides, progress)
    except ContradictedError as error:
        progress.clear()
        _report_contradictions(files, error, output)
    progress.clear()
    for name, file in zip(("old", "new"), files, strict=True):
        found[name] = {"receipt": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()} | found[name]
    click.echo(json.dumps(found, indent=2, ensure_ascii=False) if output == "json" else "\n".join(text_lines(found)))
    if not found["same_decision"] or (found["left_out"] is not None and not found["left_out"]["same"]):
        stop(NOTHING_QUALIFIES)


def _read(old: str, new: str) -> "tuple[list[Path], list[Receipt]]":
    """Both receipts and where they are; DeclarationProblems with what is wrong with either."""
    from pipelines.cli.gates_reading import sealed_receipt
    from pipelines.cli.recomputed import receipt_meant

    files, receipts, problems = [], [], []
    for meant in (old, new):
        try:
            files.append(receipt_meant(meant))
            receipts.append(sealed_receipt(files[-1]))
        except DeclarationProblems as found:
            problems += [one for one in found.problems if one not in problems]
    if problems:
        raise DeclarationProblems(problems)
    return files, receipts


def _reopened(files: "list[Path]", receipts: "list[Receipt]") -> "Sides":
    """Both as the frames that a plan is made from; DeclarationProblems where a value is none that a plan could read."""
    from pandera.errors import SchemaError, SchemaErrors

    from pipelines.comparing.mixes import Sides
    from pipelines.receipts.reopened import reopened

    sides, problems = [], []
    for file, receipt in zip(files, receipts, strict=True):
        try:
            sides.append(reopened(receipt.json))
        except (SchemaError, SchemaErrors, ValueError, TypeError, OverflowError) as error:
            found = f"holds what no plan is made from: {' '.join(str(error).split())[:_SHOWN]}"
            problems.append(Problem(str(file), 1, 1, "", found, "plan the cohort again"))
    if problems:
        raise DeclarationProblems(problems)
    return Sides(*sides)


class _Progress:
    """One line on standard error that says how many plans were made."""

    def __init__(self, *, shown: bool) -> None:
        self._shown, self._width = shown, 0

    def __call__(self, done: int, total: int) -> None:
        """Say it."""
        if self._shown:
            line = f"planned {done} of {total}"
            self._width = max(self._width, len(line))
            click.echo(f"\r{line:<{self._width}}", nl=False, err=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            click.echo(f"\r{' ' * self._width}\r", nl=False, err=True)
            self._width = 0


def _report_contradictions(files: "list[Path]", error: "ContradictedError", output: str) -> None:
    """Name every value that a receipt states and its inputs do not give, and leave with 3."""
    rows = [
        {"receipt": str(file), "path": one.path, "stated": one.stated, "found": one.found}
        for file, wrong in zip(files, (error.old, error.new), strict=True)
        for one in wrong
    ]
    for row in rows:
        stated, found = (json.dumps(row[name], ensure_ascii=False)[:_SHOWN] for name in ("stated", "found"))
        click.echo(f"{row['receipt']}: {row['path']}: states {stated}, its inputs give {found}", err=True)
    count = f"{len(rows)} value{'s' if len(rows) != 1 else ''}"
    click.echo(
        f"{count} not as the inputs give; nothing was compared (phaseledger verify checks all of them)", err=True
    )
    if output == "json":
        click.echo(json.dumps({"disagreements": rows}, indent=2, ensure_ascii=False))
    stop(VERIFICATION_FAILED)
