"""``phaseledger transfer``: what moving KV caches takes, from measurements."""

import click

from pipelines.cli.transfer_fit import fit_verb


@click.group()
def transfer() -> None:
    """Work with measured KV transfers."""


for verb in (fit_verb,):
    transfer.add_command(verb)
