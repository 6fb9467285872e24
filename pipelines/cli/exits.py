"""Exit codes, and how bad input is reported."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click

from pipelines.declarations.problems import DeclarationProblems

NOTHING_QUALIFIES = 1
BAD_INPUT = 2
VERIFICATION_FAILED = 3
INTERRUPTED = 130


def stop(code: int) -> NoReturn:
    """Leave the command with ``code``."""
    sys.stdout.flush()
    raise click.exceptions.Exit(code)


@contextmanager
def problems_reported(output: str) -> Iterator[None]:
    """Report DeclarationProblems and exit with 2.

    One problem a line on standard error; if ``output`` is json, one JSON object on standard output as well.
    """
    try:
        yield
    except DeclarationProblems as found:
        for problem in found.problems:
            click.echo(str(problem), err=True)
        count = len(found.problems)
        click.echo(f"{count} problem{'s' if count != 1 else ''}; nothing was run or written", err=True)
        if output == "json":
            click.echo(json.dumps({"problems": [vars(problem) for problem in found.problems]}, indent=2))
        stop(BAD_INPUT)
