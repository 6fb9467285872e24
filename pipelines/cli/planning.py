"""Planning for a verb: everything checked, the job run, and whatever goes wrong said and turned into an exit code."""

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.cli.exits import BAD_INPUT, INTERRUPTED, VERIFICATION_FAILED, problems_reported, stop

if TYPE_CHECKING:
    from pipelines.cli.run import PlanResult

FINALISTS, ALL = "finalists", "all"
"""What may be replayed; here too, so that a command line is checked before anything large is imported."""


def planned(
    cohort: Path,
    rules: Path,
    out: Path | None,
    as_of: datetime | None,
    output: str,
    *,
    replay: str = FINALISTS,
    quiet: bool,
) -> "PlanResult":
    """What a plan of ``cohort`` decided; ``out`` and ``as_of`` None are the usual export directory and today, ``output`` is a format.

    ``replay`` says which scenarios the requests are replayed through, ``finalists`` or ``all``.
    Leaves the command with 2 (bad input), 3 (verification failed) or 130 (interrupted).
    """
    from pipelines.cli.checking import checked_cohort
    from pipelines.declarations.places import export_directory

    with problems_reported(output):
        declared = checked_cohort(cohort, rules).cohort
        usual = export_directory(declared.name)
        if out is not None and out.absolute() == usual.absolute():
            out = None  # the usual place, by its name
        target = out or usual
        _check_writable(target, stored=out is None)

    from pipelines.cli.run import Asked, InterruptedRunError, VerificationFailedError, run_plan

    day = "" if as_of is None else as_of.date().isoformat()
    try:
        with problems_reported(output):
            return run_plan(Asked(declared.name, cohort, rules, out, day, replay), quiet=quiet)
    except VerificationFailedError as error:
        click.echo(f"verification failed: {error}", err=True)
        click.echo(f"{target} is as it was; the receipt that failed is {error.receipt}", err=True)
        stop(VERIFICATION_FAILED)
    except OSError as error:
        at = error.filename or target
        click.echo(f"{at}:1:1: cannot be written: {error.strerror}; the run was stopped", err=True)
        stop(BAD_INPUT)
    except (KeyboardInterrupt, InterruptedRunError):
        click.echo("interrupted; the exports are those of before, or complete", err=True)
        stop(INTERRUPTED)


def _check_writable(target: Path, *, stored: bool) -> None:
    """DeclarationProblems where the exports cannot be written, before anything runs; ``stored`` ones are reached by a link."""
    from pipelines.declarations import DeclarationProblems, Problem
    from pipelines.receipts.finding import STORE

    found = "cannot be written; expected a directory, or a place where one can be made"
    linked = stored and (target.is_symlink() or not os.path.lexists(target))
    try:
        if not stored and target.resolve().parent.name == STORE:
            found = "leads to a receipt that is kept; expected another directory"
            places = []
        else:
            places = [target.parent / STORE, target.parent] if linked else [target]
        writable = bool(places) and all(_is_writable(place) for place in places)
        writable = writable and not any((target / name).is_dir() for name in ("receipt.json", "matrix.csv"))
    except OSError:
        writable = False
    if not writable:
        raise DeclarationProblems([Problem(str(target), 1, 1, "" if stored else "--out", found, None)])


def _is_writable(directory: Path) -> bool:
    """Whether something can be put into a directory, or the directory be made."""
    existing = next(place for place in (directory, *directory.absolute().parents) if os.path.lexists(place))
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
