"""Lines of a page that is 140 columns wide."""

import textwrap
from collections.abc import Collection, Sequence

from pipelines.cli.log_text import plain

WIDTH = 140


def wrapped(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    """A text in lines that fit; all but the first begin with ``hanging``, or else with the indent and two more spaces."""
    after = f"{indent}  " if hanging is None else hanging
    return textwrap.wrap(
        plain(text), WIDTH, initial_indent=indent, subsequent_indent=after, break_on_hyphens=False
    ) or [""]


def named(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Texts that begin with what they are about, in a column of its own."""
    width = max((len(name) for name, _ in rows), default=0) + 2
    return [line for name, text in rows for line in wrapped(text, f"{plain(name):<{width}}", " " * width)]


def columns(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Rows under each other, the first of them as a head; columns in ``left`` begin at one place, the others end there.

    >>> columns([["scenario", "GPUs"], ["aggregated/n2", "2"]])
    ['scenario       GPUs', 'aggregated/n2     2']
    """
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        sized = enumerate(zip(row, widths, strict=True))
        lines.append(
            "  ".join(f"{cell:<{width}}" if at in left else f"{cell:>{width}}" for at, (cell, width) in sized).rstrip()
        )
    return lines


def used(rows: list[list[str]], empty: Collection[str] = ("", "-")) -> list[list[str]]:
    """The rows without the columns in which, but for the head, there is nothing."""
    kept = [at for at in range(len(rows[0])) if any(row[at] not in empty for row in rows[1:])]
    return [[row[at] for at in kept] for row in rows]
