"""``phaseledger keygen``: a key pair to sign receipts with."""

from pathlib import Path

import click

from pipelines.cli.exits import problems_reported

EPILOG = """\b
Examples:
  phaseledger keygen release.key                                (writes release.key and release.key.pub)
  phaseledger sign receipts/moderate-chat --key release.key
  phaseledger verify receipts/moderate-chat --key release.key.pub

\b
The same with OpenSSL:
  openssl genpkey -algorithm ed25519 -out release.key
  openssl pkey -in release.key -pubout -out release.key.pub
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
def keygen(file: Path) -> None:
    """Write a new Ed25519 private key to FILE, readable by its owner alone and not encrypted, and the public key to FILE.pub.

    Exit code 0: both are written. 2: one of them is there already, or cannot be written; nothing was written.
    """
    from pipelines.receipts.keys import new_signer, write_key_pair

    with problems_reported("text"):
        signer = new_signer()
        public = write_key_pair(file, signer)
    click.echo(f"private key: {file}")
    click.echo(f"public key:  {public}")
    click.echo(f"key id:      {signer.public_key.keyid}")
