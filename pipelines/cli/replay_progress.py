"""How far a replay is, for a person at a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_shown(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error, to be called with how much is done and how much there is; None where nobody looks at it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def said(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield said
