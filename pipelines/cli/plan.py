"""``phaseledger plan``: check everything, run the job, say what was decided and where it is written."""

import json
from datetime import datetime
from pathlib import Path

import click

from pipelines.cli.exits import NOTHING_QUALIFIES, problems_reported, stop
from pipelines.cli.planning import ALL, FINALISTS, planned

EPILOG = """\b
Examples:
  phaseledger plan moderate-chat
  phaseledger plan my/cohort.yaml --rules my/rules --out build/receipt
  phaseledger plan bursty-documents --format json | jq .topology
  phaseledger plan moderate-chat --replay all                  (the trace through every scenario, not only through the finalists)
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
@click.option(
    "--replay",
    type=click.Choice([FINALISTS, ALL]),
    default=FINALISTS,
    show_default=True,
    help="Replay the requests through the scenarios that speak for a topology, or through all; a gate on a replayed figure asks for all.",
)
@click.option("--out", metavar="DIR", help="Where receipt.json and matrix.csv go.  [default: receipts/COHORT/]")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def plan(
    cohort: str,
    rules_option: str | None,
    as_of: datetime | None,
    replay: str,
    out: str | None,
    output: str,
    quiet: bool,
) -> None:
    """Plan COHORT, a name under cohorts/ or a path: evaluate every topology, replay, judge, decide, export a verified receipt.

    Rules beside the cohort (rules/ next to its cohort.yaml) add to the rules directory, or stand in the place of what they name.

    Exit code 0: a topology was chosen and the decision accepted. 1: none qualifies, or a gate on the decision stands against it.
    2: bad input. 3: the verifier disagrees with the receipt.
    """
    from pipelines.declarations import DeclarationProblems, Problem
    from pipelines.declarations.places import chosen_rules, cohort_path

    with problems_reported(output):
        place, rules = cohort_path(cohort), chosen_rules(rules_option)
        if out is not None and not out.strip():
            raise DeclarationProblems([Problem("--out", 1, 1, "", "is empty; expected a directory")])
    result = planned(place, rules, Path(out) if out else None, as_of, output, replay=replay, quiet=quiet)
    if output == "json":
        click.echo(json.dumps(result.as_json(), indent=2, ensure_ascii=False))
    else:
        from pipelines.cli.report import print_report

        print_report(result)
    if result.objections:
        stop(NOTHING_QUALIFIES)
