"""``phaseledger transfer budget``: what moving the cache takes of the TTFT growth that was agreed for it, from a receipt."""

import json
from pathlib import Path
from typing import Any

import click

from pipelines.cli.exits import BAD_INPUT, VERIFICATION_FAILED, problems_reported, stop

EPILOG = """\b
Examples:
  phaseledger transfer budget receipts/moderate-chat
  phaseledger transfer budget receipt.json --format json | jq '.budget.rows[].envelope_share'
"""

Json = dict[str, Any]


@click.command("budget", epilog=EPILOG)
@click.argument("receipt")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def budget_verb(receipt: str, output: str) -> None:
    """Show the transfer budget of RECEIPT, after verifying it.

    RECEIPT is a receipt.json, its directory, a cohort whose last receipt is meant, or the first six or more digits of its SHA-256.

    Of the disaggregated scenario that the decision names: what each bucket uses of the envelope and of the reserve, the bytes of a
    transfer and the bandwidth of a link that would use it exactly, the longest prompt that fits, and what is in flight to a decode
    worker against the room that it has.

    Exit code 0: shown. 2: the file cannot be read as a receipt, or no topology of it moves the cache. 3: a value disagrees.
    """
    from pipelines.cli.recomputed import receipt_meant

    with problems_reported(output):
        file = receipt_meant(receipt)
    read = _verified(file)
    if read["transfer"] is None:
        click.echo(
            f"{file}: no topology of this receipt moves the cache; expected one that compares disaggregated",
            err=True,
        )
        stop(BAD_INPUT)
    if output == "json":
        click.echo(json.dumps({"cohort": read["cohort"]["name"], "kv": read["kv"]} | read["transfer"], indent=2))
    else:
        from pipelines.cli.transfer_budget_text import print_budget

        print_budget(read)


def _verified(file: Path) -> Json:
    from pipelines.cli.explain_reading import is_missing
    from pipelines.oracle.reading import Unreadable, read_receipt
    from pipelines.oracle.verifying import verify

    try:
        read = read_receipt(file).receipt
        verification = verify(file, None)
    except Unreadable as error:
        hint = (
            ""
            if not is_missing(file)
            else " (hint: give the directory of a plan's receipt, as in receipts/moderate-chat)"
        )
        click.echo(f"{error}{hint}", err=True)
        stop(BAD_INPUT)
    if not verification.passed:
        first = verification.disagreements[0]
        click.echo(
            f"{file}: verification failed: {first.where}: found {first.found}, expected {first.expected}", err=True
        )
        stop(VERIFICATION_FAILED)
    return read
