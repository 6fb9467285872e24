"""``phaseledger explain``: a receipt as a page for a design review. Imports neither polars nor Dagster."""

import json

import click

from pipelines.cli.exits import BAD_INPUT, problems_reported, stop

EPILOG = """\b
Examples:
  phaseledger explain receipts/moderate-chat
  phaseledger explain receipts/bursty-documents --topology chunked --topology disaggregated
  phaseledger explain receipt.json --format json | jq '.lanes[].buckets[].grew_most'
"""


@click.command(epilog=EPILOG)
@click.argument("receipt")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--topology",
    "topologies",
    metavar="NAME",
    multiple=True,
    help="Only these topologies, may be repeated.  [default: all]",
)
def explain(receipt: str, output: str, topologies: tuple[str, ...]) -> None:
    """Explain the decision of RECEIPT on one page, from the receipt alone.

    RECEIPT is a receipt.json, its directory, a cohort whose last receipt is meant, or the first six or more digits of its SHA-256.

    What was asked and decided, how each figure stands to its limit, which lane shrank and which grew, what was refused and why,
    which queue dominates, what nobody has measured, and what would change the decision. Nothing is recomputed: that is what
    phaseledger verify is for.

    Exit code 0: explained. 2: the file cannot be read as a receipt of this version, or has no topology of that name.
    """
    from pipelines.cli.explain_facts import facts
    from pipelines.cli.explain_reading import UnfitError, read
    from pipelines.cli.explain_text import page
    from pipelines.cli.recomputed import receipt_meant

    with problems_reported(output):
        file = receipt_meant(receipt)
    try:
        found = facts(read(file, topologies))
        lines = [json.dumps(found, indent=2, ensure_ascii=False)] if output == "json" else page(found)
    except UnfitError as error:
        click.echo(f"{file}: {error}", err=True)
        stop(BAD_INPUT)
    click.echo("\n".join(lines))
