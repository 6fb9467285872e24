"""What is wrong with the rows of a request log: kinds with their counts and first rows, never the text of a cell."""

from dataclasses import dataclass, field

from pipelines.declarations.problems import Problem

_ROWS_SHOWN = 3


@dataclass(frozen=True)
class Kind:
    """One way in which a row can be wrong: what was found, what is expected, how to mend it."""

    found: str
    expected: str
    hint: str | None = None


_TOKENS = "expected a whole number of tokens, 1 or more"
_TIME = "expected a time such as 2023-11-16 18:17:03.9799600 or 2024-05-10T00:00:00+00:00"

BLANK_LINE = Kind("a blank line between rows", "expected blank lines at the end of the file only")
TOO_FEW_FIELDS = Kind("a row with fewer fields than the header", "expected one field per column")
TOO_MANY_FIELDS = Kind(
    "a row with more fields than the header", "expected one field per column", "quote fields that contain a comma"
)
CUT_OFF = Kind(
    "a last line that is cut off: fewer fields than the header and no newline",
    "expected a whole row",
    "was the file copied to its end?",
)
NOT_UTF8 = Kind("bytes that are not UTF-8", "expected a UTF-8 file", "convert the file, for example with iconv")
OPEN_QUOTE = Kind("a quoted field that is never closed", "expected a closing quote before the end of the file")
STRAY_QUOTE = Kind(
    "text after a closing quote", "expected a comma or the end of the line", 'write a quote inside a field as ""'
)
EMPTY_TOKENS = Kind("an empty token count", _TOKENS)
NOT_A_NUMBER = Kind("a token count that is not a number", _TOKENS)
NOT_WHOLE = Kind("a token count that is not written as a whole number", _TOKENS)
NEGATIVE_TOKENS = Kind("a negative token count", _TOKENS)
ZERO_TOKENS = Kind(
    "a token count of 0",
    _TOKENS,
    "requests that failed or were cancelled do not belong in the cohort: leave them out knowingly",
)
TOO_MANY_TOKENS = Kind("a token count above 2147483647", _TOKENS)
EMPTY_TIME = Kind("an empty timestamp", _TIME)
NOT_A_TIME = Kind("a timestamp that cannot be read", _TIME)


@dataclass
class RowFaults:
    """Counts the faults of one file by column and kind, and keeps the first rows of each."""

    _rows: dict[tuple[str, Kind], list[int]] = field(default_factory=dict)
    _counts: dict[tuple[str, Kind], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any row is at fault."""
        return bool(self._counts)

    def add(self, kind: Kind, row: int, column: str = "") -> None:
        """Note that ``row`` (line of the file, from 1) has a fault, in ``column`` if it concerns one."""
        key = (column, kind)
        self._counts[key] = self._counts.get(key, 0) + 1
        rows = self._rows.setdefault(key, [])
        if len(rows) < _ROWS_SHOWN:
            rows.append(row)

    def problems(self, file: str) -> list[Problem]:
        """One problem per column and kind, placed at its first row."""
        return [
            Problem(
                file,
                rows[0],
                1,
                column,
                f"{kind.found} {count_and_rows(self._counts[column, kind], rows)}; {kind.expected}",
                kind.hint,
            )
            for (column, kind), rows in self._rows.items()
        ]


def count_and_rows(count: int, rows: list[int]) -> str:
    """How often, and where.

    >>> count_and_rows(1, [5]), count_and_rows(7, [5, 9, 12])
    ('in 1 row (row 5)', 'in 7 rows (first at rows 5, 9, 12)')
    """
    if count == 1:
        return f"in 1 row (row {rows[0]})"
    listed = ", ".join(map(str, rows))
    return f"in {count} rows ({'first at rows' if count > len(rows) else 'rows'} {listed})"
