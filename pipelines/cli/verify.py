"""``phaseledger verify``: recompute a receipt from the exported files alone. Imports neither polars nor Dagster."""

from pathlib import Path

import click

from pipelines.cli.exits import stop

EPILOG = """\b
Examples:
  phaseledger verify receipts/moderate-chat/receipt.json
  phaseledger verify receipt.json --matrix matrix.csv --format json
  python -m pipelines.oracle receipt.json        (the same, without this command)
"""


@click.command(epilog=EPILOG)
@click.argument("receipt", type=click.Path(path_type=Path))
@click.option("--matrix", type=click.Path(path_type=Path), help="The CSV matrix.  [default: matrix.csv beside RECEIPT]")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def verify(receipt: Path, matrix: Path | None, output: str) -> None:
    """Recompute every value of RECEIPT (or of the receipt.json in a directory) independently and say which, if any, disagree.

    Exit code 0: verified. 2: a file cannot be read as a receipt. 3: a value disagrees.
    """
    from pipelines.oracle import main

    if receipt.is_dir():
        receipt = receipt / "receipt.json"
    arguments = [str(receipt), "--format", output]
    stop(main(arguments if matrix is None else [*arguments, "--matrix", str(matrix)]))
