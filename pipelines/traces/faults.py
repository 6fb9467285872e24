"""What is wrong with the rows of a request log: kinds with their counts and first rows, never the text of a cell."""

from dataclasses import dataclass, field

from pipelines.declarations.problems import Problem
from pipelines.frames.requests import MAX_TOKENS

FIRST_ROWS = 3

_DROP = "on_invalid: drop leaves such rows out and counts them"


@dataclass(frozen=True)
class Kind:
    """One way in which a row can be wrong: a code for scripts, what was found, what is expected, how to mend it."""

    code: str
    found: str
    expected: str
    hint: str = _DROP


_TOKENS = "expected a whole number of tokens, 1 or more"
_CACHED = "expected a whole number of tokens, 0 or more"
_TIME = "expected a time such as 2023-11-16 18:17:03.9799600 or 2024-05-10T00:00:00+00:00"
_NUMBER_TIME = "expected a number, 0 or more"
_ABORTED = f"requests that failed or were cancelled are no part of a cohort: {_DROP}"

BLANK_LINE = Kind("blank_line", "a blank line between rows", "expected blank lines at the end of the file only")
TOO_FEW_FIELDS = Kind("too_few_fields", "a row with fewer fields than the header", "expected one field per column")
TOO_MANY_FIELDS = Kind(
    "too_many_fields",
    "a row with more fields than the header",
    "expected one field per column",
    "quote fields that contain a comma",
)
CUT_OFF = Kind(
    "cut_off",
    "a last line that is cut off: fewer fields than the header and no newline",
    "expected a whole row",
    "was the file copied to its end?",
)
CUT_OFF_RECORD = Kind(
    "cut_off",
    "a last line that is cut off: not a whole JSON object and no newline",
    "expected a whole record",
    "was the file copied to its end?",
)
NOT_UTF8 = Kind(
    "not_utf8", "bytes that are not UTF-8", "expected a UTF-8 file", "convert the file, for example with iconv"
)
OPEN_QUOTE = Kind(
    "open_quote", "a quoted field that is never closed", "expected a closing quote before the end of the file"
)
STRAY_QUOTE = Kind(
    "stray_quote",
    "text after a closing quote",
    "expected a comma or the end of the line",
    'write a quote inside a field as ""',
)
LONE_CR = Kind(
    "lone_cr", "a carriage return within a row", "expected lines that all end alike: with LF, or with CR and LF"
)
NOT_JSON = Kind("not_json", "a line that is not a JSON object", "expected one JSON object a line")
NOT_A_LIST = Kind("not_a_list", "a field that is not a list", "expected a list")
MISSING = Kind("missing", "a field that is missing or null", "expected a value")
REPEATED_HEADER = Kind(
    "repeated_header", "the header line again", "expected it once, at the top", f"were files joined? {_DROP}"
)
EMPTY_TOKENS = Kind("empty", "an empty token count", _TOKENS)
MISSING_TOKENS = Kind("empty", "a token count that is missing or null", _TOKENS)
NOT_A_NUMBER = Kind("not_a_number", "a token count that is not a number", _TOKENS)
NOT_WHOLE = Kind("not_whole", "a token count that is not written as a whole number", _TOKENS)
NEGATIVE_TOKENS = Kind("negative", "a negative token count", _TOKENS)
ZERO_TOKENS = Kind("zero", "a token count of 0", _TOKENS, _ABORTED)
TOO_MANY_TOKENS = Kind("too_large", f"a token count above {MAX_TOKENS}", _TOKENS)
CACHED_WHOLE = Kind(
    "above_prompt",
    "more cached tokens than prompt tokens",
    "expected at most the prompt's, of which one at least is computed",
)
EMPTY_TIME = Kind("empty", "an empty timestamp", _TIME)
NOT_A_TIME = Kind("not_a_time", "a timestamp that cannot be read", _TIME)
NUMBER_FOR_TIME = Kind(
    "not_a_time", "a number for a date with a time", _TIME, "is it in s, ms, us or ns? declare that as its unit"
)
MISSING_TIME = Kind(
    "empty", "a timestamp that is missing or null", "expected one: a request without it is not one at time 0"
)
NOT_A_NUMBER_TIME = Kind("not_a_time", "a timestamp that is not a number", _NUMBER_TIME)
NEGATIVE_TIME = Kind("negative", "a negative timestamp", _NUMBER_TIME)
TIME_OUT_OF_RANGE = Kind(
    "out_of_range", "a timestamp outside the years 1970 to 2199", "expected a time of this age; is the unit right?"
)
ABOVE_CONTEXT = Kind(
    "above_context", "more prompt and output tokens than context_tokens", "expected requests that the model can serve"
)
BATCHED = Kind(
    "batched",
    "a row that stands for a batch of requests",
    "expected one request a row: what each of a batch is long is not said",
)
OTHER_REQUEST = Kind("other_request", "a request that is not one of text generation", "expected only those")
FAILED = Kind("failed", "a request that failed", "expected requests that were served", _ABORTED)
OUT_OF_ORDER = Kind(
    "no_first_turn",
    "a later turn of a session whose first turn is missing or invalid",
    "expected the turn with a timestamp before it",
)
SESSION = Kind("session", "a session of requests that wait for each other", "expected one request a line")

FIELDS = (
    "row",
    "time",
    "prompt_tokens",
    "cached_prompt_tokens",
    "output_tokens",
    "hash_ids",
    "model",
    "adapter",
    "priority",
)
"""What a fault concerns: the row as a whole, or one field of a request."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with one row: its kind, the field that it concerns, and how the log calls that field."""

    kind: Kind
    field: str = "row"
    column: str = ""

    @property
    def code(self) -> str:
        """A name for receipts and scripts.

        >>> Fault(ZERO_TOKENS, "output_tokens", "GeneratedTokens").code
        'output_tokens_zero'
        """
        return self.kind.code if self.field == "row" else f"{self.field}_{self.kind.code}"


@dataclass
class RowFaults:
    """Counts the invalid rows of one log by fault, each row once, and keeps the first rows of each."""

    counts: dict[Fault, int] = field(default_factory=dict)
    rows: dict[Fault, list[int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether any row is invalid."""
        return bool(self.counts)

    @property
    def total(self) -> int:
        """Invalid rows."""
        return sum(self.counts.values())

    def add(self, fault: Fault, row: int) -> None:
        """Note that ``row`` (line of the file, from 1) is invalid."""
        self.add_all(fault, 1, [row])

    def add_all(self, fault: Fault, count: int, first_rows: list[int]) -> None:
        """Note ``count`` invalid rows, of which the first are given."""
        self.counts[fault] = self.counts.get(fault, 0) + count
        self.rows[fault] = sorted([*self.rows.get(fault, ()), *first_rows])[:FIRST_ROWS]

    def merge(self, other: "RowFaults") -> None:
        """Add the faults of a later part of the same log."""
        for fault, count in other.counts.items():
            self.add_all(fault, count, other.rows[fault])

    def by_code(self) -> dict[str, int]:
        """Invalid rows by the fault's code: most rows first, then by name."""
        totals: dict[str, int] = {}
        for fault, count in self.counts.items():
            totals[fault.code] = totals.get(fault.code, 0) + count
        return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))

    def problems(self, file: str, *, with_hints: bool = True) -> list[Problem]:
        """One problem per fault, placed at its first row, in the order of the file; hints are for logs of which some rows are right."""
        return [
            Problem(
                file,
                self.rows[fault][0],
                1,
                fault.column,
                f"{fault.kind.found} {count_and_rows(count, self.rows[fault])}; {fault.kind.expected}",
                fault.kind.hint if with_hints or fault.kind.hint != _DROP else None,
            )
            for fault, count in sorted(self.counts.items(), key=lambda item: self.rows[item[0]][0])
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
