"""What ``phaseledger kv`` found as a person reads it."""

import shutil
import sys
import textwrap
from fractions import Fraction

import click

from pipelines.arithmetic.kv import CacheBytes
from pipelines.cli.kv_formula import Formula
from pipelines.cli.kv_found import BY_HAND, Found
from pipelines.cli.kv_numbers import binary, figure
from pipelines.cli.log_text import plain, plural
from pipelines.declarations.cache import CacheLayers

_ALWAYS = ("kv_bytes_per_token", "allocated_bytes_per_token")
_LONGEST = 100
_WIDTH, _NARROWEST = 140, 40


def print_found(found: Found, *, explain: bool) -> None:
    """The model, its kinds of layers, the figures, and what is to be known beside them."""
    family = found.model.family or ("a shape by hand" if found.file is None else "no family named")
    click.echo(f"{plain(found.file or BY_HAND)}: {plain(family, _LONGEST)}")
    click.echo()
    for name, text in _summary(found):
        click.echo(f"{name:<10}{text}")
    click.echo()
    formulas = found.formulas
    _print_columns(
        [
            ["layers", "kind", "heads", "one head keeps", "window", "bytes of all layers"],
            *(_kind(one) for one in formulas),
        ],
        right={0, 2, 4},
    )
    for without in found.model.without:
        count = f"{without.layers:,} {plural(without.layers, 'layer')}"
        click.echo(f"{count} keep nothing: {plain(without.meaning)} ({plain(without.read_from)})")
    if explain:
        click.echo()
        for one in formulas:
            click.echo(_wrapped(f"{plain(one.part.meaning)}: {plain(one.text)}"))
    click.echo()
    _print_figures(found)
    click.echo()
    _print_uses(found)
    _print_fitting(found)
    for note in found.notes:
        click.echo(f"note: {plain(note)}")


def _summary(found: Found) -> list[tuple[str, str]]:
    lines = [("shape", found.shape), ("kv dtype", found.kv_dtype)]
    if found.asked.tokens is not None:
        lines.append(("tokens", f"{found.asked.tokens:,}"))
    if found.encoder_tokens is not None:
        lines.append(("encoder", f"{found.encoder_tokens:,} {plural(found.encoder_tokens, 'position')}"))
    if found.in_blocks:
        size = found.asked.block_tokens
        lines.append(("blocks", f"{size:,} {plural(size, 'token')} each"))
    return lines


def _kind(one: Formula) -> list[str]:
    layers = one.part.layers
    window = "-" if layers.tokens is None or layers.kind != "window" else f"{layers.tokens:,}"
    return [
        f"{layers.layers:,}",
        plain(one.part.meaning),
        f"{layers.heads:,}",
        _kept(layers),
        window,
        f"{figure(one.bytes)} per {one.per}",
    ]


def _kept(layers: CacheLayers) -> str:
    """What one head keeps, in elements."""
    first, second = f"{layers.first:,}", f"{layers.second:,}"
    words = {
        "latent": f"latent {first} + position {second}",
        "index": f"vector {first} + {second} bytes of scale",
        "state": f"state {first}" + (f"; convolution {second} per layer" if layers.second else ""),
    }
    return words.get(layers.kind, f"key {first} + value {second}")


def _print_figures(found: Found) -> None:
    """One row per figure that is there, with a column for a rank and for all ranks where there are several."""
    report = found.report
    sets = [found.values(report.copy)]
    head = ["", "one copy", ""]
    if found.tensor_parallel > 1:
        sets += [found.values(report.rank), found.values(report.ranks)]
        head += ["one rank", "", f"all {found.tensor_parallel:,} ranks", ""]
    rows = []
    for name in sets[0]:
        values = [one[name] for one in sets]
        if values[0] is not None and (values[0] or name in _ALWAYS):
            rows.append([name, *(cell for value in values for cell in _cells(value))])
    _print_columns([head, *rows], right={1, 3, 5})


def _cells(value: Fraction | None) -> tuple[str, str]:
    return (figure(value or 0), binary(value or 0))


def _print_uses(found: Found) -> None:
    """Which figures decide what is sent, and which ones decide how much fits."""
    cache, ranks = found.report.copy.cache, found.tensor_parallel
    column = f", in the column of all {ranks:,} ranks" if ranks > 1 else ""
    growing = ["kv_bytes_per_token"] * bool(cache.attention) + ["index_bytes_per_token"] * bool(cache.index)
    sent = [f"{' and '.join(growing)} of every token"] if growing else []
    if cache.windows:
        lengths = " and ".join(f"{window.tokens:,}" for window in cache.windows)
        tokens = plural(cache.windows[-1].tokens, "token")
        sent.append(f"window_bytes_per_token of the last {lengths} {tokens} (window_tokens)")
    once = _once(cache, found.encoder_tokens)
    copies = f"{column}: what several ranks keep moves several times" if column else ""
    click.echo(f"{'to send':<10}{_listed([*sent, *once])}{copies}")
    held = ["allocated_bytes_per_token of every token"] if cache.allocated else []
    where = ", where an engine gives every layer the full length" if cache.windows else ""
    click.echo(f"{'to hold':<10}{_listed([*held, *once])}{where}{column}: how many sequences fit")
    if len(cache.windows) > 1:
        each = "; ".join(
            f"{figure(one.bytes_per_token)} of {one.tokens:,} {plural(one.tokens, 'token')}" for one in cache.windows
        )
        click.echo(f"{'windows':<10}{each}")


def _once(cache: CacheBytes, encoder_tokens: int | None) -> list[str]:
    """The figures that count once per sequence, whatever its length."""
    once = ["state_bytes_per_sequence once"] if cache.state else []
    if cache.cross:
        of = "every prompt token"
        if encoder_tokens is not None and encoder_tokens != cache.cross_tokens:
            of = f"{encoder_tokens:,} {plural(encoder_tokens, 'position')} (--encoder-tokens)"
        elif cache.cross_tokens is not None:
            of = f"{cache.cross_tokens:,} {plural(cache.cross_tokens, 'position')} (cross_tokens)"
        once.append(f"cross_bytes_per_encoder_token of {of}")
    return once


def _listed(parts: list[str]) -> str:
    """Parts with commas, and an ``and`` before the last.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _print_fitting(found: Found) -> None:
    """What fits into --memory."""
    report, asked = found.report, found.asked
    if asked.memory is None:
        return
    click.echo()
    ranks = f" of all {found.tensor_parallel:,} ranks" if found.tensor_parallel > 1 else ""
    within = f"{figure(asked.memory)} bytes ({binary(asked.memory)}){ranks}"
    if report.tokens_that_fit is not None:
        click.echo(f"{'fit':<10}{_tokens_that_fit(found, report.tokens_that_fit, within)}")
    if report.sequences_that_fit is not None:
        count = report.sequences_that_fit
        each = "" if asked.tokens is None else f" of {asked.tokens:,} {plural(asked.tokens, 'token')}"
        click.echo(f"{'fit':<10}{count:,} {plural(count, 'sequence')}{each} in {within}")


def _tokens_that_fit(found: Found, tokens: int, within: str) -> str:
    """How many tokens fit: of all sequences together, or of a single one where it keeps more than tokens."""
    asked, once = found.asked, found.once_bytes
    if asked.memory is not None and once > asked.memory:
        return f"0 tokens in {within}: not one sequence fits, which keeps {figure(once)} bytes ({binary(once)}) whatever its length"
    count = tokens // asked.block_tokens
    blocks = f" in {count:,} {plural(count, 'block')}" if found.in_blocks else ""
    text = f"{tokens:,} {plural(tokens, 'token')}{blocks} at allocated_bytes_per_token in {within}"
    if not once:
        return text
    return f"{text}: of a single sequence, beside the {figure(once)} bytes ({binary(once)}) that it keeps once"


def _wrapped(text: str) -> str:
    """``text`` in lines that fit the terminal, or of 140 columns where there is none; all but the first are indented."""
    columns = max(shutil.get_terminal_size().columns, _NARROWEST) if sys.stdout.isatty() else _WIDTH
    return textwrap.fill(text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _print_columns(rows: list[list[str]], right: set[int]) -> None:
    """Rows under each other, the first of them as a head; columns in ``right`` end at one place."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    for row in rows:
        cells = zip(row, widths, strict=True)
        line = "  ".join(
            f"{cell:>{width}}" if at in right else f"{cell:<{width}}" for at, (cell, width) in enumerate(cells)
        )
        click.echo(line.rstrip())
