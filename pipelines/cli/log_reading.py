"""What the verbs that read a request log share: how it is to be read, and progress while it is."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipelines.cli.exits import INTERRUPTED, stop
from pipelines.cli.log_arguments import ROLES, UNITS, Columns, Duration

if TYPE_CHECKING:
    from pipelines.declarations.typed import ColumnMap, OnInvalid
    from pipelines.traces.log import Log, LogOptions

F = TypeVar("F", bound=Callable[..., Any])

_FIRST_WORD_AFTER_S = 1.0
_WORDS_APART_S = 0.2


@dataclass(frozen=True)
class ReadingArguments:
    """How a log is to be read, as the command line says it."""

    as_format: str | None
    columns: "ColumnMap | None"
    context: int | None
    turn_time_ns: int | None
    turn_time_per_output_token_ns: int | None
    lengths: Path | None = None
    quiet: bool = False

    def options(self, on_invalid: "OnInvalid") -> "LogOptions":
        """The options that a cohort would declare."""
        from pipelines.traces.log import LogOptions
        from pipelines.traces.trace_format import ReadOptions

        reading = ReadOptions(self.columns, self.turn_time_ns, self.turn_time_per_output_token_ns, self.lengths)
        return LogOptions(self.format, on_invalid, self.context, reading)

    @property
    def format(self) -> str | None:
        """The named format: generic where columns are named; None where the log's beginning decides."""
        return "generic" if self.columns is not None else self.as_format


def reading_options(verb: F) -> F:
    """The options of :class:`ReadingArguments`, in the order of the help."""
    for option in reversed(
        (
            click.option(
                "--as",
                "as_format",
                metavar="FORMAT",
                help="Read it as this format.  [default: detected from its beginning]",
            ),
            click.option(
                "--columns",
                type=Columns(),
                metavar="ROLE=COLUMN,...",
                help=f"Columns of a log of no known format (it is read as generic). Roles: {', '.join(ROLES)}; unit is that of "
                f"arrival: {', '.join(UNITS)}. Dotted paths in JSONL. A name with a comma needs a cohort.yaml.",
            ),
            click.option(
                "--context",
                type=click.IntRange(2, 2**31 - 1),
                metavar="TOKENS",
                help="Context of the model: requests with more prompt and output tokens are invalid.",
            ),
            click.option(
                "--turn-time",
                "turn_time_ns",
                type=Duration(),
                metavar="TIME",
                help="Logs with delays between turns: how long a turn takes before the delay to the next begins, as in '3 s'.",
            ),
            click.option(
                "--turn-time-per-output-token",
                "turn_time_per_output_token_ns",
                type=Duration(),
                metavar="TIME",
                help="The same, for each output token, as in '20 ms'.",
            ),
            click.option(
                "--lengths",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Logs of rates (servegen): the data set of token counts that belongs to it.",
            ),
            click.option("--quiet", is_flag=True, help="No progress on standard error."),
        )
    ):
        verb = option(verb)
    return verb


def reading_arguments(options: dict[str, Any]) -> ReadingArguments:
    """The arguments of a verb with :func:`reading_options`; a usage error where they contradict each other."""
    arguments = ReadingArguments(**options)
    if arguments.columns is not None and arguments.as_format not in (None, "generic"):
        raise click.UsageError(f"--columns is for logs of no known format; {arguments.as_format} knows its columns")
    if arguments.as_format == "generic" and arguments.columns is None:
        raise click.UsageError("--as generic needs --columns: which column holds what?")
    return arguments


def read_shown(path: Path, arguments: ReadingArguments, on_invalid: "OnInvalid") -> "Log":
    """The log at ``path``, with progress on a terminal where it takes more than a second."""
    from pipelines.traces.log import read_log

    progress = Progress(quiet=arguments.quiet)
    try:
        log = read_log(path, arguments.options(on_invalid), progress=progress)
    finally:
        progress.clear()
    _check_used(path, arguments, {step for step, _ in log.steps})
    return log


def _check_used(path: Path, arguments: ReadingArguments, steps: set[str]) -> None:
    """DeclarationProblems where an option says something about a log that this one is not."""
    from pipelines.declarations.problems import DeclarationProblems, Problem

    turns = arguments.turn_time_ns is not None or arguments.turn_time_per_output_token_ns is not None
    problems = []
    if turns and "place_turns" not in steps:
        problems.append("no delays between turns in the log; expected some, for --turn-time")
    if arguments.lengths is not None and "expand" not in steps:
        problems.append("a log of requests, not of rates; expected no --lengths beside it")
    if problems:
        raise DeclarationProblems(Problem(str(path), 1, 1, "", found, None) for found in problems)


@contextmanager
def interruptible() -> Iterator[None]:
    """Leave with the exit code of an interruption where somebody stops the work: nothing is written before it is done."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted; nothing was written", err=True)
        stop(INTERRUPTED)


@dataclass
class Progress:
    """One line on standard error that says how many rows were read, where a person looks at it."""

    quiet: bool
    started: float = field(default_factory=time.monotonic)
    said: float = 0.0

    def __call__(self, rows: int) -> None:
        """Say how many rows were read, if it is time to."""
        now = time.monotonic()
        if self.quiet or not sys.stderr.isatty():
            return
        if now - self.started >= _FIRST_WORD_AFTER_S and now - self.said >= _WORDS_APART_S:
            self.said = now
            click.echo(f"\r{rows:,} rows read", err=True, nl=False)

    def clear(self) -> None:
        """Remove the line."""
        if self.said:
            click.echo("\r\x1b[K", err=True, nl=False)
