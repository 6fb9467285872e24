"""``phaseledger transfer``: what moving KV caches takes, from measurements."""

import click

from pipelines.cli.transfer_budget import budget_verb
from pipelines.cli.transfer_fit import fit_verb


@click.group()
def transfer() -> None:
    """Fit measured KV transfers, or show what they take of a plan's budget."""


for verb in (fit_verb, budget_verb):
    transfer.add_command(verb)
