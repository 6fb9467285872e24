"""``phaseledger receipts``: what is in the store of receipts. Imports neither polars nor Dagster."""

import json

import click

from pipelines.cli.exits import BAD_INPUT, stop

EPILOG = """\b
Examples:
  phaseledger receipts
  phaseledger receipts moderate-chat
  phaseledger receipts --format json | jq -r '.receipts[] | select(.accepted) | .sha256'
"""

_DIGITS = 12


@click.command(epilog=EPILOG)
@click.argument("cohorts", nargs=-1, metavar="[COHORT]...")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def receipts(cohorts: tuple[str, ...], output: str) -> None:
    """List the receipts in the store, of all cohorts or of those named, and bring its index up to date.

    Every receipt is read: one that was changed since it was written is named, and is none.

    Exit code 0: all of them could be read. 2: some could not, or no receipt is of a cohort that was named.
    """
    from pipelines.declarations.places import receipts_directory
    from pipelines.declarations.problems import Problem, plain
    from pipelines.receipts.finding import STORE
    from pipelines.receipts.store import INDEX, reindexed, shown_digests

    root = receipts_directory()
    try:
        index = reindexed(root)
    except OSError as error:
        click.echo(f"{error.filename or root / INDEX}:1:1: cannot be written: {error.strerror}", err=True)
        stop(BAD_INPUT)
    latest = set(shown_digests(root).values())
    entries = [
        entry | {"latest": entry["sha256"] in latest}
        for entry in index.entries
        if not cohorts or entry["cohort"] in cohorts
    ]
    wrong = [Problem(str(root / STORE / name), 1, 1, "", why) for name, why in index.unreadable.items()]
    missing = sorted(set(cohorts) - {entry["cohort"] for entry in entries})
    wrong += [Problem(str(root), 1, 1, "", f"no receipt of a cohort {plain(name)}") for name in missing]
    if output == "json":
        click.echo(
            json.dumps({"receipts": entries, "problems": [vars(one) for one in wrong]}, indent=2, ensure_ascii=False)
        )
    else:
        for entry in entries:
            click.echo(_line(entry))
        if not entries and not wrong:
            click.echo(f"no receipts in {root}; phaseledger plan COHORT makes one")
    for one in wrong:
        click.echo(str(one), err=True)
    if wrong:
        stop(BAD_INPUT)


def _line(entry: dict[str, object]) -> str:
    mark = "*" if entry["latest"] else " "
    decided = str(entry["scenario"] or "none qualifies")
    if entry["scenario"] and not entry["accepted"]:
        decided += " (not accepted)"
    notes = [f"as of {entry['as_of']}"] if entry["as_of"] else []
    notes += ["signed"] if entry["signed"] else []
    digits = str(entry["sha256"])[:_DIGITS]
    question, rules = (str(entry[name])[:_DIGITS] for name in ("fingerprint", "rules_fingerprint"))
    line = (
        f"{mark} {digits}  {entry['cohort']!s:<24} {decided:<36} question {question}  rules {rules}  {', '.join(notes)}"
    )
    return line.rstrip()
