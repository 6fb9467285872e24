"""What a request log format must state about itself."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

RAW_SCHEMA = {"timestamp_ns": pl.Int64, "prompt_tokens": pl.Int64, "output_tokens": pl.Int64}
"""The raw frame: a log's rows in the order of the file; ``timestamp_ns`` in nanoseconds from an origin of the log's own."""

_NAMES_SHOWN = 8
_COLUMN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_ .()/-]{0,39}")
_LOOKS_LIKE_DATA = re.compile(r"\s*|[^A-Za-z]*[0-9].*", re.DOTALL)


@dataclass(frozen=True)
class TraceFormat:
    """A known format of request logs.

    ``expects`` says in a few words how a file of it begins; ``detect`` decides on the first line of a file; ``read`` takes the bytes of a
    file and the name to show for it, and returns its raw frame or raises
    :class:`~pipelines.declarations.problems.DeclarationProblems`.
    """

    name: str
    expects: str
    detect: Callable[[str], bool]
    read: Callable[[bytes, str], pl.DataFrame]


def first_line(log: bytes) -> str:
    """The first line of a file without its byte order mark and line end; bytes that are not UTF-8 become U+FFFD."""
    end = min((place for place in (log.find(b"\n"), log.find(b"\r")) if place >= 0), default=len(log))
    return log[:end].decode("utf-8-sig", errors="replace")


def describe_header(names: list[str]) -> str:
    """The names of a header as they may stand in a message; nothing of a first line that holds data.

    >>> describe_header(["TIMESTAMP", "Tokens"]), describe_header(["0", "600"])
    ('the columns TIMESTAMP, Tokens', 'no column names')
    """
    if any(_LOOKS_LIKE_DATA.fullmatch(name) for name in names):
        return "no column names"
    shown = [name if _COLUMN_NAME.fullmatch(name) else "(another name)" for name in names[:_NAMES_SHOWN]]
    more = len(names) - len(shown)
    return f"the columns {', '.join(shown)}{f' and {more} more' if more else ''}"
