"""``phaseledger init``: a first cohort from a request log and a model's config.json."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.exits import problems_reported
from pipelines.cli.log_reading import ReadingArguments, interruptible, read_shown, reading_arguments, reading_options
from pipelines.cli.trace import convert
from pipelines.declarations.kv_dtypes import NAMES

if TYPE_CHECKING:
    from pipelines.cli.init_template import Inventory, LogFacts, Shape
    from pipelines.declarations.cache import CacheShape
    from pipelines.declarations.model_cache import ModelCache
    from pipelines.traces.describe import Description
    from pipelines.traces.log import Log

EPILOG = """\b
Examples:
  phaseledger init my-chat --trace my-chat/requests.csv --model Llama-3.1-8B/config.json
  phaseledger init cohorts/code --trace ~/azure.csv --model config.json --gpus 16 --kv-dtype fp8
  phaseledger init my-chat --trace log.csv --layers 32 --kv-heads 8 --head-dim 128 --parameters 8e9
"""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_COPY = "requests.csv"


def _name(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _NAME.fullmatch(value):
        raise click.BadParameter("expected a-z, 0-9 and -, at most 63 characters")
    return value


def _parameters(_: click.Context, __: click.Parameter, value: float | None) -> int | None:
    if value is None:
        return None
    if not 1e6 <= value <= 1e15:
        raise click.BadParameter("expected a number of weights, as in 8e9")
    return int(value)


@dataclass(frozen=True)
class Weights:
    """All weights of a model, and those that one token passes through, where somebody said."""

    total: int | None
    active: int | None


@click.command(epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--trace", "trace_file", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The request log."
)
@click.option(
    "--model", type=click.Path(path_type=Path), metavar="CONFIG.json", help="config.json of the served model."
)
@click.option("--name", callback=_name, help="Name of the cohort.  [default: that of DIR]")
@click.option("--gpus", default=8, show_default=True, type=click.IntRange(1, 4096), help="GPUs in the inventory.")
@click.option(
    "--kv-dtype",
    default="bf16",
    show_default=True,
    type=click.Choice(NAMES),
    help="Data type of the KV cache.",
)
@click.option(
    "--layers", type=click.IntRange(1, 2**31 - 1), help="Layers that hold KV, in place of what CONFIG.json says."
)
@click.option("--kv-heads", type=click.IntRange(1, 2**31 - 1), help="KV heads of a layer.")
@click.option("--head-dim", type=click.IntRange(1, 2**31 - 1), help="Elements of a key or a value of one head.")
@click.option(
    "--parameters",
    type=float,
    callback=_parameters,
    help="Weights of the model, as in 8e9.  [default: counted from CONFIG.json]",
)
@click.option(
    "--active-parameters",
    type=float,
    callback=_parameters,
    help="Weights that one token passes through: fewer than all in a mixture of experts.  [default: counted from CONFIG.json]",
)
@click.option(
    "--copy",
    "copied",
    is_flag=True,
    help="Copy the valid requests to DIR/requests.csv: token counts and times only, without block hashes.",
)
@click.option("--force", is_flag=True, help="Overwrite what --copy and DIR/cohort.yaml would overwrite.")
@reading_options
def init(
    directory: Path,
    trace_file: Path,
    model: Path | None,
    name: str | None,
    gpus: int,
    force: bool,
    copied: bool,
    **options: Any,
) -> None:
    """Write DIR/cohort.yaml, a first cohort of the requests in FILE served by the model of CONFIG.json. It plans as it stands.

    What the log and the model do not say is assumed: every such figure is marked as supplied, with a note that begins with ASSUMED and
    says how to measure it. Rates are scaled from the number of weights with cautious effective figures, never with a vendor's peak.

    The log is referred to where it is, by its path relative to DIR.

    A model whose KV cache its file does not settle is refused, not guessed: give --layers, --kv-heads and --head-dim instead, or write
    model.cache by hand. phaseledger kv CONFIG.json shows what was read.

    Exit code 0: written. 2: bad input; nothing was written.
    """
    by_hand = {part: options.pop(part) for part in ("layers", "kv_heads", "head_dim")}
    kv_dtype, counted = options.pop("kv_dtype"), Weights(options.pop("parameters"), options.pop("active_parameters"))
    arguments = reading_arguments(options)
    if model is None and None in by_hand.values():
        raise click.UsageError(
            "--model is missing; expected a config.json, or all of --layers, --kv-heads and --head-dim"
        )
    if any(by_hand.values()) and None in by_hand.values():
        raise click.UsageError("--layers, --kv-heads and --head-dim go together; expected all of them or none")
    with interruptible(), problems_reported("text"):
        _check_directory(directory, force=force)
        _check_weights(counted)
        shape = _shape(model, by_hand, kv_dtype, counted)
        stock = _inventory(shape, gpus)
        name = name or _named_after(directory)
        warnings = _write(directory, trace_file, name, shape, stock, arguments, force=force, copied=copied)
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    target = directory / "cohort.yaml"
    click.echo(f"{target}: written; its assumptions are the notes that begin with ASSUMED")
    click.echo(f"next: phaseledger plan {directory}")


def _check_directory(directory: Path, *, force: bool) -> None:
    from pipelines.declarations.problems import DeclarationProblems, Problem

    target, found, hint = directory / "cohort.yaml", None, None
    if directory.exists() and not directory.is_dir():
        target, found = directory, "is not a directory; expected one, or a place where one can be made"
    elif target.is_dir():
        found = "is a directory; expected a file to write"
    elif target.exists() and target.stat().st_size and not force:
        found, hint = "exists already; expected none", "--force overwrites it"
    if found:
        raise DeclarationProblems([Problem(str(target), 1, 1, "", found, hint)])


def _check_weights(counted: Weights) -> None:
    from pipelines.declarations.problems import DeclarationProblems, Problem

    if counted.active is not None and (counted.total is None or counted.active > counted.total):
        found = "more than all weights" if counted.total is not None else "given without --parameters"
        message = f"{found}; expected those of --parameters that one token passes through"
        raise DeclarationProblems([Problem("--active-parameters", 1, 1, "", message, None)])


def _shape(model: Path | None, by_hand: dict[str, int | None], kv_dtype: str, counted: Weights) -> "Shape":
    from pipelines.cli.init_template import ASSUMED_PARAMETERS, Shape
    from pipelines.declarations.cache import plain_shape
    from pipelines.declarations.model_configs import read_model_cache

    declared = {part: count for part, count in by_hand.items() if count is not None}
    given = f"nobody said: {ASSUMED_PARAMETERS / 1e9:.0f}e9 assumed"
    if counted.total:
        given = f"--parameters {counted.total / 1e9:.3g}e9"
        given += f", --active-parameters {counted.active / 1e9:.3g}e9" if counted.active else ""
    name = "model" if model is None else model.parent.name if model.name == "config.json" else model.stem
    name = name.removesuffix("_config") or "model"
    if declared:
        note = (
            "as given on the command line; make it observed, with a source, once it is checked against the served model"
        )
        cache = plain_shape(*declared.values())
        return Shape(name, cache, kv_dtype, note, None, counted.total, counted.active, given)
    assert model is not None
    read = read_model_cache(model)
    _check_planned(model, read, kv_dtype, counted)
    read_from = "; ".join(", ".join(dict.fromkeys(factor.read_from for factor in part.factors)) for part in read.parts)
    note = f"read from {model.name}: {read_from}; observed, with the file as source, if it is that of the served model"
    for extra in read.notes:
        note += f"; {extra}"
    total = counted.total or read.parameters
    active = counted.active or counted.total or read.active_parameters
    if counted.active is None and counted.total and read.parameters and read.active_parameters:
        active = int(counted.total * read.active_parameters / read.parameters)
    source = given if counted.total or read.parameters is None else f"counted from {model.name}"
    return Shape(
        name=name,
        cache=read.shape,
        kv_dtype=kv_dtype,
        note=note,
        attention_heads=read.attention_heads,
        parameters=total,
        active_parameters=active,
        parameters_from=source,
        context_tokens=read.context_tokens,
    )


def _check_planned(model: Path, read: "ModelCache", kv_dtype: str, counted: Weights) -> None:
    """A problem where a cohort could not be planned with the model, or an assumption about its size would be wild."""
    from pipelines.declarations.kv_dtypes import PACKED_LATENT
    from pipelines.declarations.problems import DeclarationProblems, Problem

    found = hint = None
    if any(part.kind == "cross" for part in read.shape):
        found = "its layers attend to an encoder or an image, which is not planned; expected a decoder of text"
        hint = "phaseledger kv shows what it keeps"
    elif kv_dtype == PACKED_LATENT and not any(part.kind == "latent" for part in read.shape):
        found = f"it has no latent, of which {PACKED_LATENT} is a layout; expected another --kv-dtype"
    elif read.parameters is None and counted.total is None and not _is_plain(read.shape):
        found = "its weights are not counted, since its layers are not all alike; expected --parameters"
        hint = "as in --parameters 671e9 --active-parameters 37e9: all weights, and those that one token passes through"
    elif read.parameters is None and counted.active is None and read.has_experts:
        found = (
            "it has experts, and how many weights a token passes through is not counted; expected --active-parameters"
        )
        hint = "as in --parameters 671e9 --active-parameters 37e9"
    if found:
        raise DeclarationProblems([Problem(str(model), 1, 1, "", found, hint)])


def _is_plain(shape: "CacheShape") -> bool:
    from pipelines.cli.init_template import plain_counts

    return plain_counts(shape) is not None


def _inventory(shape: "Shape", gpus: int) -> "Inventory":
    from pipelines.cli.init_template import GPU_MEMORY_BYTES, inventory, weight_bytes
    from pipelines.declarations.problems import DeclarationProblems, Problem

    stock = inventory(shape, gpus)
    if stock is None:
        found = (
            f"{gpus} GPUs of {GPU_MEMORY_BYTES / 1e9:.0f} GB (assumed) do not hold {weight_bytes(shape) / 1e9:,.0f} GB of weights; "
            "expected more GPUs"
        )
        raise DeclarationProblems([Problem("--gpus", 1, 1, "", found, "--parameters says how many weights there are")])
    return stock


def _named_after(directory: Path) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", Path(os.path.abspath(directory)).name.lower())[:63].strip("-")
    return name or "first-cohort"


def _write(
    directory: Path,
    trace_file: Path,
    name: str,
    shape: "Shape",
    stock: "Inventory",
    arguments: ReadingArguments,
    *,
    force: bool,
    copied: bool,
) -> tuple[str, ...]:
    """Read the log, write everything or nothing, and return what is doubtful about the log."""
    from pipelines.cli.init_template import cohort_yaml
    from pipelines.declarations.problems import DeclarationProblems, Problem
    from pipelines.traces.describe import describe, describe_rates

    if arguments.lengths is None and describe_rates(trace_file, arguments.format) is not None:
        found = "a log of rates, not of requests; expected requests, or --lengths: the data set of token counts"
        raise DeclarationProblems([Problem(str(trace_file), 1, 1, "", found, None)])
    log = read_shown(trace_file, arguments, "drop")
    described = describe(log, str(trace_file))
    copy = directory / _COPY
    if copied and copy.exists() and not force:
        found = "exists already, and the log would be copied there; expected none"
        raise DeclarationProblems([Problem(str(copy), 1, 1, "", found, "--force overwrites it")])
    facts = _facts(log, described, trace_file, directory, arguments, shape, is_near=not copied)
    title = f"Requests of {trace_file.name} on {shape.name}"
    _place(directory, cohort_yaml(name, title, facts, shape, stock), log, copy if copied else None, str(trace_file))
    return (*log.warnings, *([log.ties] if log.ties else []), *_beyond_context(log, shape, arguments))


def _beyond_context(log: "Log", shape: "Shape", arguments: ReadingArguments) -> list[str]:
    """Whether the model cannot serve some of the requests."""
    if not shape.context_tokens or arguments.context is not None:
        return []
    beyond = int((log.rows["prompt_tokens"].cast(int) + log.rows["output_tokens"] > shape.context_tokens).sum())
    if not beyond:
        return []
    return [
        f"{beyond:,} of {log.rows.height:,} requests have more prompt and output tokens than the model's context of "
        f"{shape.context_tokens:,}: --context {shape.context_tokens} makes them invalid"
    ]


def _place(directory: Path, text: str, log: "Log", copy: Path | None, shown_as: str) -> None:
    """Write the cohort, and the copy of the log where there is to be one; check them; leave nothing behind if they are not right."""
    from pipelines.declarations.load import load_cohort
    from pipelines.declarations.problems import DeclarationProblems, Problem

    made = [place for place in (directory, *directory.parents) if not place.exists()]
    target, draft = directory / "cohort.yaml", directory / f".cohort.yaml.{os.getpid()}"
    copied = copy is not None and not copy.exists()
    done = False
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if copy is not None:
            convert(log, shown_as, copy)
        draft.write_text(text, encoding="utf-8")
        try:
            load_cohort(draft)
        except DeclarationProblems as refused:
            raise DeclarationProblems(replace(problem, file=str(target)) for problem in refused.problems) from None
        draft.replace(target)
        done = True
    except OSError as error:
        found = f"cannot be written: {error.strerror or error}; expected a place that can be"
        raise DeclarationProblems([Problem(str(target), 1, 1, "", found, None)]) from None
    finally:
        if not done:
            draft.unlink(missing_ok=True)
            if copied and copy is not None:
                copy.unlink(missing_ok=True)
            with suppress(OSError):
                for place in made:
                    place.rmdir()


def _facts(
    log: "Log",
    described: "Description",
    trace_file: Path,
    directory: Path,
    arguments: ReadingArguments,
    shape: "Shape",
    *,
    is_near: bool,
) -> "LogFacts":
    from pipelines.cli.init_template import LogFacts

    reported = ", ".join(f"{rows:,} {kind}" for kind, rows in log.invalid.by_code().items())
    comments = [_counted(described)]
    if not is_near:
        comments.append(
            f"Copied by phaseledger init from a log of the format {log.format}; to convert it again: phaseledger trace convert."
        )
        if log.invalid:
            comments.append(f"Left out of the copy: {log.invalid.total:,} of {log.rows_read:,} rows ({reported}).")
        comments += [f"{step}: {detail}." for step, detail in log.steps]
    if shape.context_tokens and arguments.context is None:
        comments.append(
            f"context_tokens: {shape.context_tokens} in trace would treat requests beyond the model's context as invalid."
        )
    columns = {
        column.name: getattr(arguments.columns, column.name)
        for column in (fields(arguments.columns) if arguments.columns is not None else ())
        if getattr(arguments.columns, column.name) is not None
    }
    return LogFacts(
        file=_relative(trace_file, directory) if is_near else _COPY,
        format=log.format if is_near else "phaseledger",
        note="as given to phaseledger init; say observed, and name the source, if it was recorded from the traffic to be served",
        comments=tuple(comments),
        edges=described.bucket_edges_tokens,
        columns=columns if is_near else None,
        lengths=_relative(arguments.lengths, directory) if is_near and arguments.lengths is not None else None,
        context_tokens=arguments.context if is_near else None,
        turn_time_ns=arguments.turn_time_ns if is_near else None,
        turn_time_per_output_token_ns=arguments.turn_time_per_output_token_ns if is_near else None,
        invalid=f"{log.invalid.total:,} of {log.rows_read:,} rows: {reported}" if log.invalid and is_near else None,
        tick_ns=_tick(log),
        without_rate=_without_rate(log, described),
        hit_ratio=described.prefix_cache.hit_ratio if described.prefix_cache and is_near else None,
    )


def _relative(file: Path, directory: Path) -> str:
    return os.path.relpath(os.path.abspath(file), os.path.abspath(directory))


def _counted(described: "Description") -> str:
    requests = f"{described.requests:,} request{'' if described.requests == 1 else 's'}"
    if described.duration_s is None or described.rate_rps is None:
        return f"{requests}."
    return f"{requests} in {described.duration_s:,.6g} s, {described.rate_rps:.4g} requests/s on average."


def _tick(log: "Log") -> int | None:
    from pipelines.traces.doubts import tick_ns, tie_doubt

    if not log.is_timed or tie_doubt(log.rows["timestamp_ns"]) is None:
        return None
    return tick_ns(log.rows["timestamp_ns"].unique().sort())


def _without_rate(log: "Log", described: "Description") -> str | None:
    """Why arrivals have to be declared; None where the log's own can be planned with."""
    from pipelines.traces.freeze import FEWEST_REQUESTS

    if not log.is_timed:
        return "the log does not say when requests arrive"
    if (described.requests or 0) < FEWEST_REQUESTS or described.rate_rps is None:
        return "the log has too few different arrivals for a rate and its variation"
    return None
