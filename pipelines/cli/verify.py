"""``phaseledger verify``: recompute a receipt, and say whose declarations and whose signature it has.

Imports neither polars nor Dagster, unless there is a cohort to compare with.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.exits import BAD_INPUT, VERIFICATION_FAILED, problems_reported, stop

if TYPE_CHECKING:
    from pipelines.cli.recomputed import Recomputed, Requests
    from pipelines.cli.verify_declared import Comparison
    from pipelines.cli.verify_signed import SignatureCheck

EPILOG = """\b
Examples:
  phaseledger verify receipts/moderate-chat
  phaseledger verify receipt.json --matrix matrix.csv --requests requests.csv --format json
  phaseledger verify 4a61c0 --cohort moderate-chat              (are those our inputs, rules and requests?)
  phaseledger verify moderate-chat --key release.key.pub        (who stands for it?)
  python -m pipelines.oracle receipt.json                       (the first of them, without this command)
"""


@click.command(epilog=EPILOG)
@click.argument("receipt")
@click.option("--matrix", type=click.Path(path_type=Path), help="The CSV matrix.  [default: matrix.csv beside RECEIPT]")
@click.option(
    "--requests",
    type=click.Path(path_type=Path),
    metavar="CSV",
    help="The requests, as phaseledger requests writes them: the workload is recomputed too.",
)
@click.option(
    "--cohort",
    metavar="COHORT",
    help="The cohort whose inputs, rules and requests RECEIPT is to have: a name or a path.",
)
@click.option(
    "--rules",
    "rules_option",
    metavar="DIR",
    help="Rules directory, beside --cohort.  [default: rules/ of the project]",
)
@click.option(
    "--key",
    "keys",
    type=click.Path(path_type=Path),
    metavar="PUB",
    multiple=True,
    help="A public key that has signed RECEIPT, may be repeated: each has to.",
)
@click.option(
    "--signature",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The envelope, beside --key.  [default: receipt.intoto.jsonl beside RECEIPT]",
)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def verify(
    receipt: str,
    matrix: Path | None,
    requests: Path | None,
    cohort: str | None,
    rules_option: str | None,
    keys: tuple[Path, ...],
    signature: Path | None,
    output: str,
) -> None:
    """Recompute every value of RECEIPT independently and say which, if any, disagree.

    RECEIPT is a receipt.json, its directory, a cohort whose last receipt is meant, or the first six or more digits of its SHA-256.

    Exit code 0: verified. 2: a file cannot be read. 3: a value disagrees, a declaration differs, or a signature is missing or not
    valid.
    """
    from pipelines.cli.recomputed import receipt_meant, recomputed
    from pipelines.oracle.reading import Unreadable

    _check_options(requests, cohort, rules_option, keys, signature)
    given: Requests | None = requests
    with problems_reported(output):
        file = receipt_meant(receipt)
        if cohort is not None:
            from pipelines.cli.verify_declared import compared, read_declared

            declared = read_declared(cohort, rules_option)
            given = declared.found.requests.iter_rows()
        if keys:
            from pipelines.cli.verify_signed import checked_signatures, read_expected

            expected = read_expected(keys, file, signature)
    try:
        found = recomputed(file, matrix, given)
    except Unreadable as error:
        _report_unreadable(file, error, output)
    comparison = None if cohort is None else compared(found.receipt, declared, is_whole=found.is_whole)
    signatures = checked_signatures(found, expected) if keys else []
    passed = found.verification.passed and (comparison is None or comparison.passed)
    passed = passed and all(one.reason is None for one in signatures)
    click.echo(_written(found, comparison, signatures, output, passed=passed), nl=False)
    if not passed:
        stop(VERIFICATION_FAILED)


def _check_options(
    requests: Path | None, cohort: str | None, rules: str | None, keys: tuple[Path, ...], signature: Path | None
) -> None:
    """What has no meaning together, or alone."""
    if cohort is not None and requests is not None:
        raise click.UsageError("--requests cannot be given beside --cohort, whose own requests are read.")
    if rules is not None and cohort is None:
        raise click.UsageError("--rules is read beside --cohort alone: a receipt states its own rules.")
    if signature is not None and not keys:
        raise click.UsageError("--signature is read beside --key alone: it says who has to have signed.")


def _report_unreadable(file: Path, error: Exception, output: str) -> None:
    if output == "json":
        click.echo(json.dumps({"receipt": str(file), "passed": False, "error": str(error)}))
    else:
        click.echo(str(error), err=True)
    stop(BAD_INPUT)


def _written(
    found: "Recomputed",
    comparison: "Comparison | None",
    signatures: "list[SignatureCheck]",
    output: str,
    *,
    passed: bool,
) -> str:
    from pipelines.oracle import render_json, render_text

    if output == "json":
        whole: dict[str, Any] = json.loads(render_json(found.verification)) | {
            "passed": passed,
            "declarations": None if comparison is None else comparison.as_json(),
            "signatures": [one.as_json() for one in signatures],
        }
        return json.dumps(whole, indent=2) + "\n"
    lines = [] if comparison is None else comparison.lines()
    lines += [one.line() for one in signatures]
    return render_text(found.verification) + "".join(f"{line}\n" for line in lines)
