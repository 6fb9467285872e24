"""``phaseledger requests``: the frozen requests of a cohort as the CSV that the verifier reads."""

import gzip
import io
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipelines.cli.exits import problems_reported
from pipelines.cli.log_reading import interruptible
from pipelines.cli.new_files import check_new_file

if TYPE_CHECKING:
    import polars as pl

EPILOG = """\b
Examples:
  phaseledger requests moderate-chat requests.csv
  phaseledger requests my/cohort.yaml requests.csv.gz
  phaseledger requests moderate-chat - | head
  phaseledger verify receipt.json --requests requests.csv
"""

_SUFFIXES = (".csv", ".csv.gz")
_STANDARD_OUTPUT = "-"


@click.command(epilog=EPILOG)
@click.argument("cohort")
@click.argument("out", metavar="[OUT.csv]", default=_STANDARD_OUTPUT, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--force", is_flag=True, help="Overwrite OUT.csv.")
def requests(cohort: str, out: Path, force: bool) -> None:
    """Write the requests of COHORT, as a plan of it freezes them, to OUT.csv, OUT.csv.gz or (as -, or left out) standard output.

    One row per request, and of a request four numbers alone: arrival_ns, prompt_tokens, cached_prompt_tokens, output_tokens. They
    are what the receipt's requests_sha256 is of. The same requests give the same bytes.

    Exit code 0: written. 2: bad input; nothing was written.
    """
    with interruptible(), problems_reported("text"):
        if str(out) == _STANDARD_OUTPUT:
            click.echo(as_csv(_frozen(cohort)), nl=False)
            return
        check_new_file(out, _SUFFIXES, force=force)
        frame = _frozen(cohort)
        _write(out, as_csv(frame))
    from pipelines.traces.requests import requests_sha256

    count = f"{frame.height:,} request{'s' if frame.height != 1 else ''}"
    click.echo(f"{out}: {count}, requests_sha256 {requests_sha256(frame)}")


def _frozen(cohort: str) -> "pl.DataFrame":
    """The requests of the cohort that is meant; DeclarationProblems where it or its log is faulty."""
    from pipelines.declarations.load import load_cohort
    from pipelines.declarations.places import cohort_path
    from pipelines.traces.freeze import read_cohort_requests

    return read_cohort_requests(load_cohort(cohort_path(cohort))).requests


def as_csv(frame: "pl.DataFrame") -> bytes:
    """A :class:`Requests` frame as CSV: its columns, and no other."""
    from pipelines.frames.requests import Requests

    text = io.BytesIO()
    frame.select(list(Requests.to_schema().columns)).write_csv(text, line_terminator="\n")
    return text.getvalue()


def _write(out: Path, text: bytes) -> None:
    from pipelines.declarations.problems import DeclarationProblems, Problem
    from pipelines.receipts.write import write_atomically

    try:
        write_atomically(out, _packed(text) if out.name.endswith(".gz") else text)
    except OSError as error:
        found = f"cannot be written: {error.strerror}; expected a place that can be"
        raise DeclarationProblems([Problem(str(out), 1, 1, "", found)]) from None


def _packed(text: bytes) -> bytes:
    """``text`` as gzip; without a name and a time in it, the same text makes the same bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
        file.write(text)
    return packed.getvalue()
