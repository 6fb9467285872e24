"""``phaseledger trace``: what a request log holds, and the same log in the project's own format."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.exits import problems_reported
from pipelines.cli.log_arguments import CacheSize, Edges, Window
from pipelines.cli.log_reading import ReadingArguments, interruptible, read_shown, reading_arguments, reading_options

if TYPE_CHECKING:
    from pipelines.declarations.typed import OnInvalid, PrefixCache
    from pipelines.traces.describe import Description
    from pipelines.traces.log import Log


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
        from pipelines.cli.log_text import print_description

        print_description(found)


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
    from pipelines.cli.new_files import check_new_file
    from pipelines.traces.export import SUFFIXES

    arguments = reading_arguments(reading)
    with interruptible(), problems_reported(output):
        check_new_file(out, SUFFIXES, force=force, log=file)
        log = read_shown(file, arguments, on_invalid)
        written = convert(log, str(file), out, window=window, cache=prefix_cache)
    dropped = log.invalid.by_code()
    if output == "json":
        click.echo(json.dumps({"file": str(out), "rows_read": log.rows_read, "dropped": dropped, "requests": written}))
        return
    from pipelines.cli.log_text import plain, plural

    for kind, rows in dropped.items():
        click.echo(f"dropped: {rows:,} {plural(rows, 'row')}: {kind}", err=True)
    cut = log.rows.height - written
    click.echo(
        f"{plain(str(out))}: {written:,} {plural(written, 'request')} of {log.rows_read:,} {plural(log.rows_read, 'row')}"
        + (f" ({log.invalid.total:,} invalid)" if log.invalid else "")
        + (f" ({cut:,} outside the window)" if cut else "")
    )
    if log.block_tokens is not None and prefix_cache is None:
        click.echo("block hashes are not kept; --prefix-cache turns them into cached tokens", err=True)


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
    from polars.exceptions import PolarsError

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
    except (OSError, PolarsError) as error:  # the latter around the former, where Parquet is written
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no room, or no permission"
        found = f"cannot be written: {reason}; expected a place that can be"
        raise DeclarationProblems([Problem(str(out), 1, 1, "", found, None)]) from None
    return rows.height
