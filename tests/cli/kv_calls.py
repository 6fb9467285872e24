"""`phaseledger kv` as tests call it, and what it said."""

import json
from typing import Any

from click.testing import CliRunner, Result

from pipelines.cli import command


def kv(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["kv", *arguments])


def found(*arguments: str) -> dict[str, Any]:
    run = kv(*arguments, "--format", "json")
    assert run.exit_code == 0, run.output
    read: dict[str, Any] = json.loads(run.stdout)
    return read


def said(*arguments: str) -> list[str]:
    """The lines of the text, with one space between words."""
    run = kv(*arguments)
    assert run.exit_code == 0, run.output
    return [" ".join(line.split()) for line in run.stdout.splitlines()]
