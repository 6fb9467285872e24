"""The header line of a CSV log, and what of it may stand in a message."""

import csv
import re

_NAMES_SHOWN, _DELIMITERS_AT_LEAST = 8, 2
_COLUMN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.()/-]{0,39}( [A-Za-z0-9_.()/-]{1,20}){0,3}")
_LOOKS_LIKE_DATA = re.compile(r"\s*|[^A-Za-z]*[0-9].*", re.DOTALL)


def header_names(line: str) -> list[str]:
    """The column names of a header line, without the space around them; none of a line with a quote that never closes."""
    try:
        return [name.strip() for name in next(csv.reader([line], strict=True), [])]
    except csv.Error:
        return []


def describe_header(names: list[str]) -> str:
    """The names of a header as they may stand in a message; nothing of a first line that holds data.

    >>> describe_header(["TIMESTAMP", "Tokens"]), describe_header(["0", "600"])
    ('the columns TIMESTAMP, Tokens', 'no column names')
    """
    if len(names) < 2 or any(_LOOKS_LIKE_DATA.fullmatch(name) for name in names):
        return "no column names"
    shown = [name if _COLUMN_NAME.fullmatch(name) else "(another name)" for name in names[:_NAMES_SHOWN]]
    more = len(names) - len(shown)
    return f"the columns {', '.join(shown)}{f' and {more} more' if more else ''}"


def header_hint(line: str, names: list[str]) -> str | None:
    """What may be wrong with a first line that does not name the columns that were looked for."""
    if "," not in line:
        for delimiter, called in (("\t", "tabs"), (";", "semicolons"), ("|", "vertical bars")):
            if line.count(delimiter) >= _DELIMITERS_AT_LEAST:
                return f"are the fields separated by {called}? expected commas"
    if describe_header(names) == "no column names" and "," in line:
        return "is the header line missing? put the column names on the first line"
    return None
