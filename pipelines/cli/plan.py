"""``phaseledger plan``: check everything, run the job, say what was decided and where it is written."""

import json
import os
from datetime import datetime
from pathlib import Path

import click

from pipelines.cli.exits import BAD_INPUT, INTERRUPTED, NOTHING_QUALIFIES, VERIFICATION_FAILED, problems_reported, stop

EPILOG = """\b
Examples:
  phaseledger plan moderate-chat
  phaseledger plan my/cohort.yaml --rules my/rules --out build/receipt
  phaseledger plan bursty-documents --format json | jq .topology
"""


@click.command(epilog=EPILOG)
@click.argument("cohort")
@click.option("--rules", "rules_option", metavar="DIR", help="Rules directory.  [default: rules/ of the project]")
@click.option(
    "--as-of",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Date that exceptions and ages of evidence are read at.  [default: today in UTC, where a rule reads a date]",
)
@click.option("--out", metavar="DIR", help="Where receipt.json and matrix.csv go.  [default: receipts/COHORT/]")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def plan(
    cohort: str, rules_option: str | None, as_of: datetime | None, out: str | None, output: str, quiet: bool
) -> None:
    """Plan COHORT, a name under cohorts/ or a path: evaluate every topology, judge, decide, export a verified receipt.

    Rules beside the cohort (rules/ next to its cohort.yaml) stand in the place of those of the rules directory that they name.

    Exit code 0: a topology was chosen and the decision accepted. 1: none qualifies, or a gate on the decision stands against it.
    2: bad input. 3: the verifier disagrees with the receipt.
    """
    from pipelines.declarations.places import cohort_path, export_directory, rules_directory

    rules = Path(rules_option) if rules_option else rules_directory()
    from pipelines.cli.checking import checked_cohort

    with problems_reported(output):
        declared = checked_cohort(cohort_path(cohort), rules).cohort
        target = Path(out) if out else export_directory(declared.name)
        _check_writable(target)

    day = "" if as_of is None else as_of.date().isoformat()
    from pipelines.cli.run import InterruptedRunError, VerificationFailedError, run_plan

    try:
        with problems_reported(output):
            result = run_plan(declared.name, cohort_path(cohort), rules, target, day, quiet=quiet)
    except VerificationFailedError as error:
        click.echo(f"verification failed: {error}", err=True)
        stop(VERIFICATION_FAILED)
    except OSError as error:
        click.echo(
            f"{error.filename or target}:1:1: cannot be written: {error.strerror}; the run was stopped", err=True
        )
        stop(BAD_INPUT)
    except (KeyboardInterrupt, InterruptedRunError):
        click.echo("interrupted; the exports are those of before, or complete", err=True)
        stop(INTERRUPTED)
    if output == "json":
        click.echo(json.dumps(result.as_json(), indent=2, ensure_ascii=False))
    else:
        from pipelines.cli.report import print_report

        print_report(result)
    if result.objections:
        stop(NOTHING_QUALIFIES)


def _check_writable(target: Path) -> None:
    """DeclarationProblems where the export directory cannot be made or written, before anything runs."""
    from pipelines.declarations import DeclarationProblems, Problem

    try:
        existing = next(place for place in (target, *target.absolute().parents) if place.exists())
        writable = existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
        writable = writable and not any((target / name).is_dir() for name in ("receipt.json", "matrix.csv"))
    except OSError:
        writable = False
    if not writable:
        found = "cannot be written; expected a directory, or a place where one can be made"
        raise DeclarationProblems([Problem(str(target), 1, 1, "--out", found, None)])
