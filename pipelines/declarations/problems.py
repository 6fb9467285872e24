"""What is wrong with a declaration, and where: one problem a line, all problems of all files at once."""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Where = tuple[str | int, ...]
"""Keys and list positions that lead from the top of a document to a value."""

_PLAIN_KEY = re.compile(r"[\w-]+")
_SHOWN_AT_MOST = 60


@dataclass(frozen=True)
class Problem:
    """A place in a file (line and column from 1), what was found there, what was expected, and how to mend it."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        """``file:line:col: path: message (hint: ...)``."""
        path = f"{self.path}: " if self.path else ""
        file = "".join(letter if letter.isprintable() else "?" for letter in self.file)
        hint = f" (hint: {self.hint})" if self.hint else ""
        return f"{file}:{self.line}:{self.column}: {path}{self.message}{hint}"

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """Sort key: file, place, path, message."""
        return (self.file, self.line, self.column, self.path, self.message)


class DeclarationProblems(Exception):  # noqa: N818 - it carries many problems, it is not one error
    """Raised once, with every problem of every file that was read."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep the problems sorted by file and place, each once."""
        self.problems: tuple[Problem, ...] = tuple(sorted(set(problems), key=lambda problem: problem.order))
        super().__init__(str(self))

    def __str__(self) -> str:
        """One problem a line."""
        return "\n".join(str(problem) for problem in self.problems)

    def __reduce__(self) -> tuple[type["DeclarationProblems"], tuple[tuple[Problem, ...]]]:
        """Pickle by the problems, so that the exception crosses process boundaries."""
        return (type(self), (self.problems,))


def show_path(where: Where) -> str:
    """Write a place as people say it.

    >>> show_path(("gates", 0, "limit"))
    'gates[0].limit'
    """
    shown = ""
    for step in where:
        if isinstance(step, int):
            shown += f"[{step}]"
            continue
        key = step if _PLAIN_KEY.fullmatch(step) else show(step)
        shown += f".{key}" if shown else key
    return shown


def show(value: object) -> str:
    """A found value as it may stand in a message: one line, never long.

    >>> show(None), show(True), show("fast")
    ('nothing', 'true', '"fast"')
    """
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    written = json.dumps(value, ensure_ascii=False)
    text = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in written)
    return text if len(text) <= _SHOWN_AT_MOST else text[: _SHOWN_AT_MOST - 1] + "…"


def plain(value: object) -> str:
    """A name as itself; anything else as :func:`show` puts it."""
    short = isinstance(value, str) and len(value) <= _SHOWN_AT_MOST and _PLAIN_KEY.fullmatch(value)
    return str(value) if short else show(value)


def nearest(word: object, known: Sequence[str]) -> str | None:
    """The known word that was probably meant, if one is near.

    >>> nearest("aggregatd", ["aggregated", "chunked"])
    'aggregated'
    """
    if not isinstance(word, str) or len(word) > _SHOWN_AT_MOST:
        return None
    by_shape = {name.lower().replace("-", "_"): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("-", "_").replace(" ", "_"), list(by_shape), n=1, cutoff=0.7)
    return by_shape[found[0]] if found else None


def did_you_mean(word: object, known: Sequence[str]) -> str | None:
    """The hint that names the nearest known word."""
    guess = nearest(word, known)
    return f"did you mean {guess}?" if guess else None
