"""``phaseledger sign``: stand for a receipt that the verifier recomputed."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from pipelines.cli.exits import BAD_INPUT, VERIFICATION_FAILED, problems_reported, stop

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner

    from pipelines.cli.recomputed import Recomputed

EPILOG = """\b
Examples:
  phaseledger keygen release.key
  phaseledger sign receipts/moderate-chat --key release.key
  phaseledger sign 4a61c0 --key second.key                      (adds a signature to the first)
  phaseledger sign receipt.json --key release.key --signature build/receipt.intoto.jsonl --format json
"""


@click.command(epilog=EPILOG)
@click.argument("receipt")
@click.option(
    "--key", type=click.Path(path_type=Path), metavar="FILE", required=True, help="The private key: Ed25519 in PEM."
)
@click.option(
    "--signature",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Where the envelope goes.  [default: receipt.intoto.jsonl beside RECEIPT]",
)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def sign(receipt: str, key: Path, signature: Path | None, output: str) -> None:
    """Verify RECEIPT, then sign it: an in-toto Statement of its SHA-256 and its decision, in a DSSE envelope.

    RECEIPT is a receipt.json, its directory, a cohort whose last receipt is meant, or the first six or more digits of its SHA-256.
    Where others signed it, their signatures stay; with the same key, nothing changes.

    Exit code 0: signed. 2: bad input, or the envelope that is there is of something else. 3: RECEIPT does not verify; nothing was
    signed.
    """
    from pipelines.cli.recomputed import receipt_meant
    from pipelines.receipts.finding import ENVELOPE
    from pipelines.receipts.keys import read_signer

    with problems_reported(output):
        signer = read_signer(key)
        file = receipt_meant(receipt)
    found = _verified(file)
    with problems_reported(output):
        done = _sign(found, signer, signature or file.parent / ENVELOPE)
    if output == "json":
        digest = hashlib.sha256(found.raw).hexdigest()
        said = {"receipt": str(file), "sha256": digest, "signature": str(done.envelope), "keyid": done.keyid}
        click.echo(json.dumps(said | {"signatures": done.signatures, "changed": done.is_new}, indent=2))
        return
    others = done.signatures - 1
    beside = f", beside {others} other signature{'s' if others > 1 else ''}" if others else ""
    outcome = "signed" if done.is_new else "was signed already, nothing changed:"
    click.echo(f"{done.envelope}: {outcome} by the key {done.keyid}{beside}")


class Done(NamedTuple):
    """What signing came to."""

    envelope: Path
    keyid: str
    signatures: int
    is_new: bool


def _verified(file: Path) -> "Recomputed":
    from pipelines.cli.recomputed import recomputed
    from pipelines.oracle.reading import Unreadable

    try:
        found = recomputed(file)
    except Unreadable as error:
        click.echo(str(error), err=True)
        stop(BAD_INPUT)
    if not found.verification.passed:
        first = found.verification.disagreements[0]
        said = f"{first.where}: found {first.found}, expected {first.expected}"
        click.echo(f"{file}: verification failed, nothing was signed: {said}", err=True)
        stop(VERIFICATION_FAILED)
    return found


def _sign(found: "Recomputed", signer: "CryptoSigner", target: Path) -> Done:
    """Put a signature into the envelope at ``target``; DeclarationProblems where that is another statement's or cannot be written."""
    from pipelines.cli.verify_signed import envelope_in
    from pipelines.declarations.problems import DeclarationProblems, Problem
    from pipelines.receipts.attestation import read_envelope, statement, statement_fault, with_signature
    from pipelines.receipts.write import alone_in, write_atomically

    expected, key = statement(found.raw, found.receipt), signer.public_key
    try:
        with alone_in(
            target.parent
        ):  # two who sign at once would each write the envelope without the other's signature
            before = envelope_in(target, is_named=target.is_symlink())
            fault = None if before is None else statement_fault(before, expected)
            if fault is not None:
                hint = "remove it, or write another file with --signature"
                raise DeclarationProblems([Problem(str(target), 1, 1, "", f"signs something else: {fault}", hint)])
            if before is not None and before.is_signed_by(key):
                return Done(target, key.keyid, len(before.signatures), is_new=False)
            text = with_signature(expected, signer, before)
            write_atomically(target, text)
    except OSError as error:
        found_there = f"cannot be written: {error.strerror}; nothing was signed"
        raise DeclarationProblems([Problem(str(target), 1, 1, "", found_there)]) from None
    return Done(target, key.keyid, len(read_envelope(text).signatures), is_new=True)
