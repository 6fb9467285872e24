"""``phaseledger kv``: what a model's KV cache takes, from its config.json or from a shape written by hand."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from pipelines.cli.exits import problems_reported
from pipelines.cli.kv_arguments import Count, DataType, Memory, Shape

if TYPE_CHECKING:
    from pipelines.cli.kv_found import Found
    from pipelines.declarations.cache import CacheShape
    from pipelines.declarations.model_cache import ModelCache

EPILOG = """\b
Examples:
  phaseledger kv Qwen3-8B/config.json
  phaseledger kv config.json --tokens 32768 --tp 8 --explain
  phaseledger kv config.json --kv-dtype fp8 --memory '40 GiB' --tokens 8192 --block-tokens 16
  phaseledger kv --shape 32x8x128
  phaseledger kv --shape 'full:18x8x64 window:18x8x64@128' --format json | jq .kv_bytes_per_token

docs/kv.md says what each figure is for, and how a shape is written.
"""

_MOST_TOKENS, _MOST_RANKS, _MOST_BLOCK_TOKENS = 10**9, 1024, 10**6


@click.command(epilog=EPILOG)
@click.argument("config", metavar="[CONFIG.json]", required=False, type=click.Path(path_type=Path))
@click.option("--shape", type=Shape(), metavar="TEXT", help="The shape of the cache by hand, in place of CONFIG.json.")
@click.option("--tokens", type=Count(_MOST_TOKENS), metavar="N", help="Tokens of a sequence: its bytes as a whole.")
@click.option(
    "--encoder-tokens",
    type=Count(_MOST_TOKENS, smallest=0),
    metavar="N",
    help="Positions of the encoder or image that a sequence attends to.  [default: as many as the model always has]",
)
@click.option(
    "--kv-dtype",
    type=DataType(),
    metavar="DTYPE",
    default="bf16",
    show_default=True,
    help="Of the cache, not of the weights: fp32, bf16, fp16, fp8, int8, fp4, fp8_ds_mla.",
)
@click.option(
    "--tp", type=Count(_MOST_RANKS), metavar="N", default=1, show_default=True, help="Ranks that share the heads."
)
@click.option(
    "--block-tokens", type=Count(_MOST_BLOCK_TOKENS), metavar="N", help="Round --tokens and --memory to whole blocks."
)
@click.option("--memory", type=Memory(), metavar="SIZE", help="Of all ranks, as in '16 GiB': what fits into it.")
@click.option("--explain", is_flag=True, help="Show every factor, and the key it was read from.")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def kv(
    config: Path | None,
    shape: "CacheShape | None",
    tokens: int | None,
    encoder_tokens: int | None,
    kv_dtype: str,
    tp: int,
    block_tokens: int | None,
    memory: int | None,
    explain: bool,
    output: str,
) -> None:
    """Say how many bytes a model's KV cache takes: per token, in windows, per sequence, and as an engine allocates it.

    All figures are exact, and of one copy; --tp adds those of one rank and of all ranks, which may hold a head more than once.
    Beside them are the same bytes in binary units, with ~ where three decimals do not show them exactly.
    A model whose cache cannot be told from CONFIG.json is refused, not guessed.

    Exit code 0: said. 2: bad input.
    """
    if (config is None) == (shape is None):
        missing = "CONFIG.json or --shape is missing" if config is None else "CONFIG.json and --shape are both given"
        raise click.UsageError(f"{missing}; expected one of them, as in --shape 32x8x128")
    lengths = _Lengths(tokens, encoder_tokens, block_tokens, memory)
    _check_used(lengths)
    with problems_reported(output):
        found = _found(config, shape, kv_dtype, tp, lengths)
    if output == "json":
        from pipelines.cli.kv_json import as_json

        click.echo(json.dumps(as_json(found), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        from pipelines.cli.kv_text import print_found

        print_found(found, explain=explain)


class _Lengths(NamedTuple):
    """Options that a sequence is made of; None where they were not given."""

    tokens: int | None
    encoder_tokens: int | None
    block_tokens: int | None
    memory: int | None


def _check_used(lengths: _Lengths) -> None:
    """Refuse what would be accepted and mean nothing."""
    if lengths.block_tokens is not None and lengths.tokens is None and lengths.memory is None:
        raise click.UsageError("--block-tokens rounds --tokens or --memory; expected one of them beside it")
    if lengths.encoder_tokens is not None and lengths.tokens is None:
        raise click.UsageError("--encoder-tokens is of a sequence; expected --tokens beside it")


def _refuse(file: str, path: str, found: str, hint: str | None = None) -> NoReturn:
    from pipelines.declarations.problems import DeclarationProblems, Problem

    raise DeclarationProblems([Problem(file, 1, 1, path, found, hint)])


def _found(config: Path | None, shape: "CacheShape | None", kv_dtype: str, ranks: int, lengths: _Lengths) -> "Found":
    from pipelines.arithmetic.kv_report import LARGEST, Asked, report
    from pipelines.cli.kv_found import BY_HAND, Found, model_by_hand
    from pipelines.cli.kv_numbers import figure

    if config is not None:
        from pipelines.declarations.model_configs import read_model_cache

        model, shown_as = read_model_cache(config), str(config)
    else:
        model, shown_as = model_by_hand(shape or ()), BY_HAND
    encoder_tokens = _encoder_tokens(model, lengths.encoder_tokens, shown_as)
    _check_latent(model, kv_dtype, shown_as)
    asked = Asked(lengths.tokens, encoder_tokens or 0, lengths.block_tokens or 1, lengths.memory)
    made = report(model.shape, kv_dtype, ranks, asked)
    largest = max(made.copy.largest, made.ranks.largest)
    if largest >= LARGEST:
        found = f"{figure(largest)} bytes; expected less than 4 PiB, up to where every figure is exact as a JSON number"
        _refuse(shown_as, "", found)
    file = None if config is None else str(config)
    return Found(file, model, kv_dtype, ranks, asked, encoder_tokens, lengths.block_tokens is not None, made)


def _encoder_tokens(model: "ModelCache", given: int | None, shown_as: str) -> int | None:
    """Positions of the encoder: those given, or those that the model always has; None where nobody said."""
    cross = [part for part in model.shape if part.kind == "cross"]
    if given is not None and not cross:
        _refuse(shown_as, "--encoder-tokens", "no layer attends to an encoder; expected no --encoder-tokens")
    return cross[0].tokens if cross and given is None else given


def _check_latent(model: "ModelCache", kv_dtype: str, shown_as: str) -> None:
    from pipelines.declarations.kv_dtypes import PACKED_LATENT

    if kv_dtype == PACKED_LATENT and not any(part.kind == "latent" for part in model.shape):
        found = f"{PACKED_LATENT} is a layout of a latent, and no layer keeps one; expected another data type"
        _refuse(shown_as, "--kv-dtype", found, "fp8 is 1 byte an element")
