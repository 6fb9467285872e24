"""The command: one verb per thing that a person wants done. Heavy imports happen inside the verbs."""

import click

from pipelines import __version__
from pipelines.cli.cohorts import cohorts
from pipelines.cli.diff import diff
from pipelines.cli.explain import explain
from pipelines.cli.gates import gates
from pipelines.cli.init import init
from pipelines.cli.keygen import keygen
from pipelines.cli.kv import kv
from pipelines.cli.oracle import oracle
from pipelines.cli.plan import plan
from pipelines.cli.receipts import receipts
from pipelines.cli.replay import replay
from pipelines.cli.requests import requests
from pipelines.cli.rules import rules
from pipelines.cli.sign import sign
from pipelines.cli.trace import trace
from pipelines.cli.transfer import transfer
from pipelines.cli.ui import ui
from pipelines.cli.verify import verify


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0 pass, 1 no topology qualifies or the decision is not accepted, 2 bad input, 3 verification failed, "
        "130 interrupted."
    ),
)
@click.version_option(__version__, prog_name="phaseledger")
def command() -> None:
    """Decide between aggregated, chunked and disaggregated prefill/decode on one declared request cohort.

    Every number is a declared input or deterministic arithmetic over declared inputs. Latencies are modeled, never measured.
    """


for verb in (
    plan,
    explain,
    replay,
    gates,
    diff,
    verify,
    oracle,
    requests,
    keygen,
    sign,
    trace,
    init,
    kv,
    transfer,
    rules,
    cohorts,
    receipts,
    ui,
):
    command.add_command(verb)
