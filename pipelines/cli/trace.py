"""``phaseledger trace``: what a request log holds, and the same log in the project's own format."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipelines.cli.exits import INTERRUPTED, problems_reported, stop

if TYPE_CHECKING:
    from rich.table import Table

    from pipelines.declarations.typed import ColumnMap, OnInvalid, PrefixCache
    from pipelines.traces.describe import Description
    from pipelines.traces.log import Log, LogOptions

F = TypeVar("F", bound=Callable[..., Any])

_ROLES = ("arrival", "unit", "prompt_tokens", "output_tokens", "cached_prompt_tokens", "model", "adapter", "priority")
_UNITS = ("s", "ms", "us", "ns", "datetime")
_FIRST_WORD_AFTER_S = 1.0
_WORDS_APART_S = 0.2


class Duration(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A time with its unit, as whole nanoseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """``3 s`` as 3,000,000,000."""
        from pipelines.declarations.units import QuantityError, whole_ns

        if isinstance(value, int):
            return value
        try:
            return whole_ns(value, str(value), "positive")
        except QuantityError as error:
            self.fail(error.message + (f" ({error.hint})" if error.hint else ""), param, ctx)


class Columns(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """Where a log of no known format holds what is read: ``role=column`` pairs with commas between them."""

    name = "columns"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "ColumnMap":
        """``arrival=ts,unit=ms,prompt_tokens=in,output_tokens=out`` as a column map."""
        from pipelines.declarations.problems import did_you_mean, show
        from pipelines.declarations.typed import ColumnMap

        if isinstance(value, ColumnMap):
            return value
        named: dict[str, str] = {}
        for pair in str(value).split(","):
            role, equals, column = pair.partition("=")
            role = role.strip()
            if not equals or not column.strip():
                self.fail(f"{show(pair)} names no column; expected role=column, as in prompt_tokens=in", param, ctx)
            if role not in _ROLES:
                hint = did_you_mean(role, _ROLES)
                expected = f"expected {', '.join(_ROLES)}"
                self.fail(f"unknown role {show(role)}; {expected}{f' ({hint})' if hint else ''}", param, ctx)
            if role in named:
                self.fail(f"{role} is given twice", param, ctx)
            named[role] = column.strip()
        self._check(named, param, ctx)
        return ColumnMap(**{role: named.get(role) for role in _ROLES})  # type: ignore[arg-type]

    def _check(self, named: dict[str, str], param: click.Parameter | None, ctx: click.Context | None) -> None:
        for role in ("prompt_tokens", "output_tokens"):
            if role not in named:
                self.fail(f"{role} is missing; expected {role}=column", param, ctx)
        if ("arrival" in named) != ("unit" in named):
            self.fail("arrival and unit go together; expected both or neither, as in arrival=ts,unit=ms", param, ctx)
        if named.get("unit", "s") not in _UNITS:
            self.fail(f"unknown unit of arrival; expected one of {', '.join(_UNITS)}", param, ctx)
        columns = [column for role, column in named.items() if role != "unit"]
        if len(set(columns)) < len(columns):
            self.fail("one column is named for two roles; expected a column of its own for each", param, ctx)


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
                help=f"Columns of a log of no known format (it is read as generic). Roles: {', '.join(_ROLES)}; unit is that of "
                f"arrival: {', '.join(_UNITS)}. Dotted paths in JSONL. A name with a comma needs a cohort.yaml.",
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
    from pipelines.traces.describe import read_with_progress

    progress = _Progress(quiet=arguments.quiet)
    try:
        return read_with_progress(path, arguments.options(on_invalid), str(path), progress)
    finally:
        progress.clear()


@contextmanager
def interruptible() -> Iterator[None]:
    """Leave with the exit code of an interruption where somebody stops the work: nothing is written before it is done."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted; nothing was written", err=True)
        stop(INTERRUPTED)


@dataclass
class _Progress:
    """One line on standard error that says how many rows were read, where a person looks at it."""

    quiet: bool
    started: float = field(default_factory=time.monotonic)
    said: float = 0.0

    def __call__(self, rows: int) -> None:
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


class Edges(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """Bucket edges in tokens, ascending, with commas between them."""

    name = "edges"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """``512,2048`` as numbers."""
        if isinstance(value, tuple):
            return value
        try:
            edges = tuple(int(edge) for edge in str(value).split(",") if edge.strip())
        except ValueError:
            self.fail("expected whole tokens with commas between them, as in 512,2048", param, ctx)
        if list(edges) != sorted(set(edges)) or any(not 2 <= edge < 2**31 for edge in edges):
            self.fail("expected edges of 2 tokens or more, each once, in ascending order", param, ctx)
        return edges


class Window(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A part of a log's time: from and to, in nanoseconds since its first arrival; either may be left out."""

    name = "window"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int | None]:
        """``2 h..3 h`` as whole nanoseconds."""
        if isinstance(value, tuple):
            return value
        start, dots, end = (part.strip() for part in str(value).partition(".."))
        if not dots or not (start or end):
            self.fail("expected FROM..TO, as in '2 h..3 h', '..30 min' or '2 h..'", param, ctx)
        low = None if start in ("", "0") else Duration().convert(start, param, ctx)
        high = Duration().convert(end, param, ctx) if end else None
        if low is not None and high is not None and low >= high:
            self.fail("holds nothing, since TO is not included; expected FROM before TO", param, ctx)
        return low, high


class CacheSize(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """The capacity of a prefix cache in tokens; None is without limit."""

    name = "cache"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "PrefixCache":
        """``unlimited`` or a whole number of tokens as a shared cache."""
        from pipelines.declarations.typed import PrefixCache

        if isinstance(value, PrefixCache):
            return value
        if value == "unlimited":
            return PrefixCache(None, "shared", 1)
        if not str(value).isascii() or not str(value).isdigit() or not 1 <= int(value) < 2**53:
            self.fail("expected unlimited, or a whole number of tokens, as in 2000000", param, ctx)
        return PrefixCache(int(value), "shared", 1)


@click.group()
def trace() -> None:
    """Look at a request log of any known format, or convert it."""


DESCRIBE_EPILOG = """\b
Examples:
  phaseledger trace describe requests.csv
  phaseledger trace describe day.jsonl.gz --edges 512,2048 --context 131072
  phaseledger trace describe gateway.csv --columns arrival=ts,unit=ms,prompt_tokens=in,output_tokens=out
  phaseledger trace describe requests.csv --format json | jq .rate_rps
"""


@trace.command("describe", epilog=DESCRIBE_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--edges",
    type=Edges(),
    metavar="TOKENS,...",
    help="Edges of the prompt buckets.  [default: four buckets of about equal count]",
)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@reading_options
def describe_verb(file: Path, edges: tuple[int, ...] | None, output: str, **reading: Any) -> None:
    """Say what the request log FILE holds: format, requests, rate, burstiness, token counts, groups, and what is invalid or doubtful.

    Rows that cannot be read are left out and reported by kind, as a cohort with on_invalid: drop would leave them out. Of a log of
    rates without requests (servegen), the windows are described. No prompt, user, session or request id is read or shown.

    Exit code 0: the log has requests. 2: it cannot be read as a whole, or has none.
    """
    arguments = reading_arguments(reading)
    with interruptible(), problems_reported(output):
        found = _described(file, arguments, edges)
    if output == "json":
        click.echo(json.dumps(found.as_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print_description(found)


def _described(file: Path, arguments: ReadingArguments, edges: tuple[int, ...] | None) -> "Description":
    from pipelines.traces.describe import QUARTERS, describe, describe_rates

    if arguments.lengths is None:
        rates = describe_rates(file, arguments.format)
        if rates is not None:
            return rates
    return describe(read_shown(file, arguments, "drop"), str(file), QUARTERS if edges is None else edges)


CONVERT_EPILOG = """\b
Examples:
  phaseledger trace convert azure.csv requests.csv
  phaseledger trace convert mooncake.jsonl.zst requests.parquet --prefix-cache unlimited
  phaseledger trace convert day.csv.gz hour.csv.gz --window '2 h..3 h' --on-invalid drop
"""


@trace.command("convert", epilog=CONVERT_EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--on-invalid",
    type=click.Choice(["reject", "drop"]),
    default="reject",
    show_default=True,
    help="What becomes of rows that cannot be read: nothing is written, or they are left out.",
)
@click.option(
    "--window",
    type=Window(),
    metavar="FROM..TO",
    help="This part of the log only, since its first arrival, TO not included; as in '2 h..3 h' or '..30 min'.",
)
@click.option(
    "--prefix-cache",
    type=CacheSize(),
    metavar="unlimited|TOKENS",
    help="Fill cached_prompt_tokens with what a shared cache of this capacity, empty at the beginning, holds by the log's block hashes.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT.")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@reading_options
def convert_verb(
    file: Path,
    out: Path,
    on_invalid: "OnInvalid",
    window: tuple[int | None, int | None] | None,
    prefix_cache: "PrefixCache | None",
    force: bool,
    output: str,
    **reading: Any,
) -> None:
    """Write the requests of the log FILE to OUT in the project's own format: CSV, JSONL or Parquet by its ending, CSV and JSONL also
    as .gz or .zst.

    What is kept of a request: arrival in nanoseconds, prompt, cached and output tokens, and the groups model, adapter and priority.
    Block hashes are not kept; --prefix-cache turns them into cached tokens. A log without arrivals is refused: the format has them.

    Exit code 0: written. 2: bad input; nothing was written.
    """
    arguments = reading_arguments(reading)
    with interruptible(), problems_reported(output):
        _check_target(file, out, force=force)
        log = read_shown(file, arguments, on_invalid)
        written = convert(log, str(file), out, window=window, cache=prefix_cache)
    dropped = log.invalid.by_code()
    if output == "json":
        click.echo(json.dumps({"file": str(out), "rows_read": log.rows_read, "dropped": dropped, "requests": written}))
        return
    for kind, rows in dropped.items():
        click.echo(f"dropped: {rows:,} {_plural(rows, 'row')}: {kind}", err=True)
    cut = log.rows.height - written
    click.echo(
        f"{out}: {written:,} {_plural(written, 'request')} of {log.rows_read:,} {_plural(log.rows_read, 'row')}"
        + (f" ({log.invalid.total:,} invalid)" if log.invalid else "")
        + (f" ({cut:,} outside the window)" if cut else "")
    )
    if log.block_tokens is not None and prefix_cache is None:
        click.echo("block hashes are not kept; --prefix-cache turns them into cached tokens", err=True)


def _check_target(file: Path, out: Path, *, force: bool) -> None:
    from pipelines.declarations.problems import DeclarationProblems, Problem
    from pipelines.traces.export import SUFFIXES

    found = hint = None
    if not out.name.lower().endswith(SUFFIXES):
        found = f"an ending of no known kind; expected one of {', '.join(SUFFIXES)}"
    elif out.is_dir():
        found = "is a directory; expected a file to write"
    elif out.exists() and file.exists() and out.samefile(file):
        found = "is the log itself; expected another file to write"
    elif out.exists() and not force:
        found, hint = "exists already; expected a new file", "--force overwrites it"
    elif not out.absolute().parent.is_dir():
        found = "cannot be written: its directory does not exist; expected a directory that does"
    if found:
        raise DeclarationProblems([Problem(str(out), 1, 1, "", found, hint)])


def convert(
    log: "Log",
    shown_as: str,
    out: Path,
    *,
    window: tuple[int | None, int | None] | None = None,
    cache: "PrefixCache | None" = None,
) -> int:
    """Write the requests of ``log`` within ``window`` (ns since the first arrival) to ``out``; how many they are.

    DeclarationProblems where it has no arrivals, no hashes for the ``cache``, nothing in the window, or ``out`` cannot be written.
    """
    from pipelines.declarations.problems import DeclarationProblems, Problem
    from pipelines.traces.describe import exported_rows
    from pipelines.traces.export import write_requests

    found = hint = None
    if not log.is_timed:
        found = "a log without arrivals; expected timestamps, which every row of the project's own format has"
        hint = "a cohort reads this log as it is, with requests.arrivals declared"
    elif cache is not None and log.block_tokens is None:
        found = f"no block hashes in a log of the format {log.format}; expected a log that has them for --prefix-cache"
    if found:
        raise DeclarationProblems([Problem(shown_as, 1, 1, "", found, hint)])
    rows = exported_rows(log, window or (None, None), cache)
    if rows.is_empty():
        found = f"none of {log.rows.height} requests lies in the window; expected some"
        raise DeclarationProblems([Problem(shown_as, 1, 1, "--window", found, None)])
    try:
        write_requests(rows, out)
    except OSError as error:
        found = f"cannot be written: {error.strerror or error}; expected a place that can be"
        raise DeclarationProblems([Problem(str(out), 1, 1, "", found, None)]) from None
    return rows.height


_WIDTH = 140


def _print_description(found: "Description") -> None:
    click.echo(f"{found.file}: {found.format}")
    click.echo()
    for name, text in _summary(found):
        click.echo(f"{name:<14}{text}")
    for title, table in _tables(found):
        click.echo()
        click.echo(title)
        _print_table(table)
    if found.warnings:
        click.echo()
        for warning in found.warnings:
            click.echo(f"warning: {warning}")


def _summary(found: "Description") -> list[tuple[str, str]]:
    """What is said in one line each."""
    lines = [
        ("rows", f"{found.rows_read:,}" + (f", of which {found.rows_invalid:,} invalid" if found.rows_invalid else ""))
    ]
    if found.rate_windows is not None:
        rates = found.rate_windows
        lines = [
            (
                "windows",
                f"{rates['windows']:,} of {rates['window_s']:,} s, of which {rates['nonempty_windows']:,} have requests",
            ),
            ("requests", f"{rates['expected_requests']:,.6g} expected; the log states rates, not requests"),
            ("peak", f"{_figure(rates['peak_rps'])} requests/s"),
        ]
    else:
        lines.append(("requests", f"{found.requests:,}"))
    lines.append(("duration", "-" if found.duration_s is None else _long(found.duration_s)))
    lines.append(("rate", "-" if found.rate_rps is None else f"{_figure(found.rate_rps)} requests/s"))
    if found.rate_windows is None:
        scv = "-" if found.arrival_scv is None else _figure(found.arrival_scv)
        lines.append(("burstiness", f"{scv} squared coefficient of variation of the gaps (Poisson arrivals: 1)"))
        if found.rate_rps is None:
            lines.append(("", _without_rate(found)))
    if found.cached_share is not None:
        lines.append(("cached", f"{100 * found.cached_share:.4g} % of all prompt tokens, as the log states"))
    if found.prefix_cache is not None:
        hits = found.prefix_cache
        lines.append(
            (
                "prefix cache",
                f"{100 * hits.hit_ratio:.4g} % of all prompt tokens would hit without a limit "
                f"(blocks of {hits.block_tokens} tokens, one cache shared by all)",
            )
        )
    lines += [("step", f"{step}: {detail}") for step, detail in found.steps]
    if found.requests_sha256 is not None:
        lines.append(("digest", f"{found.requests_sha256} (SHA-256 of the requests)"))
    return lines


def _without_rate(found: "Description") -> str:
    if found.duration_s is None and found.requests != 1:
        return "the log does not say when requests arrive; a cohort declares requests.arrivals"
    why = "a single request has" if found.requests == 1 else "requests that all arrive at one instant have"
    return f"{why} no rate; a cohort declares requests.arrivals"


def _tables(found: "Description") -> list[tuple[str, "Table"]]:
    tables = []
    if found.windows:
        columns = ["window", "windows", "dispersion", "peak rate"]
        rows = [
            [
                f"{row['window_s']:,} s",
                f"{row['windows']:,}",
                _figure(row["dispersion"]),
                f"{_figure(row['peak_rps'])}/s",
            ]
            for row in found.windows
        ]
        tables.append(
            ("arrivals per window (dispersion is variance over mean: 1 for Poisson arrivals)", _table(columns, rows))
        )
    if found.tokens:
        columns = ["tokens", "mean", "2nd moment", "min", "max", "sum"]
        rows = [
            [name, _figure(one.mean), _figure(one.m2), f"{one.min:,}", f"{one.max:,}", f"{one.sum:,}"]
            for name, one in found.tokens.items()
        ]
        rows.append(["prompt x output", _figure(found.prompt_output_mean), "", "", "", ""])
        tables.append(("tokens per request", _table(columns, rows)))
    if found.buckets:
        tables.append(("buckets of prompt tokens", _buckets(found)))
    for name, group in found.groups.items():
        shown = [[_plain(value), f"{count:,}"] for value, count in group.top]
        rest = (found.requests or 0) - group.requests_without - sum(count for _, count in group.top)
        shown += [[f"{group.values - len(group.top):,} others", f"{rest:,}"]] if rest else []
        shown += [["(none)", f"{group.requests_without:,}"]] if group.requests_without else []
        tables.append((f"requests by {name}", _table([name, "requests"], shown)))
    if found.invalid:
        columns = ["invalid rows", "column", "rows", "first at"]
        rows = [
            [one.kind, _plain(one.column), f"{one.rows:,}", ", ".join(map(str, one.first_rows))]
            for one in found.invalid
        ]
        tables.append(("rows that cannot be read (on_invalid: drop leaves them out)", _table(columns, rows)))
    return tables


def _buckets(found: "Description") -> "Table":
    columns = ["bucket", "requests", "share", "rate", "burstiness", "mean prompt", "max", "mean output", "max"]
    rows = [
        [
            row["bucket"],
            f"{row['requests']:,}",
            f"{100 * row['requests'] / (found.requests or 1):.4g} %",
            "-" if row["rate_rps"] is None else f"{_figure(row['rate_rps'])}/s",
            _figure(row["arrival_scv"]),
            _figure(row["prompt_tokens_mean"]),
            f"{row['prompt_tokens_max']:,}",
            _figure(row["output_tokens_mean"]),
            f"{row['output_tokens_max']:,}",
        ]
        for row in found.buckets
    ]
    return _table(columns, rows)


def _table(columns: list[str], rows: list[list[str]]) -> "Table":
    """The first column to the left, figures to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _print_table(table: "Table") -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width if console.is_terminal else 0, _WIDTH)
    console.print(table)


def _figure(value: float | None) -> str:
    """Four digits, all of them before the point, with thousands separators.

    >>> _figure(2.56639), _figure(12035.2), _figure(0.00012346), _figure(3.2e30), _figure(None)
    ('2.566', '12,035', '0.0001235', '3.2e+30', '-')
    """
    if value is None:
        return "-"
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _long(seconds: float) -> str:
    """A length of time in seconds, and in the unit that people would say it in."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return (
                f"{seconds:,.6g} s ({seconds / length:.4g} {unit})"
                if seconds < 1e6
                else f"{seconds:,.0f} s ({seconds / length:.4g} {unit})"
            )
    return f"{seconds:.6g} s"


def _plain(text: str) -> str:
    """A name on one line, never long: what a log holds must not steer the terminal."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if len(shown) <= 60 else shown[:59] + "…"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
