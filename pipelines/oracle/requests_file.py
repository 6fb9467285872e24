"""The requests of a cohort: read from CSV, or handed over as rows, into four columns of whole numbers."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import gt, lt
from pathlib import Path
from typing import IO, TypeAlias, cast

from .reading import Unreadable

HEADER = "arrival_ns,prompt_tokens,cached_prompt_tokens,output_tokens"
MOST_TOKENS = 2**31 - 1
Row: TypeAlias = tuple[int, int, int, int]
"""Arrival in nanoseconds; prompt, cached prompt and output tokens."""
Requests: TypeAlias = str | os.PathLike[str] | Iterable[Row]
"""A CSV file, or the rows themselves."""

_GZIP = b"\x1f\x8b"
_BLOCK_BYTES, _BLOCK_ROWS = 1 << 18, 1 << 14
_LONGEST_LINE = 100
_COUNT = rb"(?:0|[1-9][0-9]{0,9})"
_ROWS = re.compile(rb"(?:(?:0|-?[1-9][0-9]{0,18}),%b,%b,%b\n)*" % (_COUNT, _COUNT, _COUNT))
_ARRIVALS = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Columns:
    """Requests in order of arrival, 20 bytes each."""

    arrivals: array[int] = field(default_factory=lambda: array("q"))
    prompts: array[int] = field(default_factory=lambda: array("i"))
    cached: array[int] = field(default_factory=lambda: array("i"))
    outputs: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        """How many requests there are."""
        return len(self.arrivals)

    @property
    def last(self) -> Row | None:
        """The last request so far."""
        return (self.arrivals[-1], self.prompts[-1], self.cached[-1], self.outputs[-1]) if self.arrivals else None

    def append(self, columns: Sequence[Sequence[int]]) -> str | None:
        """Take up more requests; or none, and say what is wrong with one of them."""
        arrivals, prompts, cached, outputs = columns
        rows = list(zip(arrivals, prompts, cached, outputs, strict=True))
        before = [self.last or rows[0], *rows]
        fits = (
            all(map(lt, cached, prompts))
            and min(cached) >= 0
            and min(outputs) >= 1
            and max(max(prompts), max(outputs)) <= MOST_TOKENS
            and min(arrivals) in _ARRIVALS
            and max(arrivals) in _ARRIVALS
            and not any(map(gt, before, rows))
        )
        if not fits:
            return next(f"{place}: {problem}" for place, pair in enumerate(zip(before, rows, strict=False))
                        if (problem := _problem_of(*pair)) is not None)  # fmt: skip
        for column, more in zip((self.arrivals, self.prompts, self.cached, self.outputs), columns, strict=True):
            column.extend(more)
        return None


def _problem_of(before: Row, row: Row) -> str | None:
    """Say what is wrong with a request that follows another."""
    arrival, prompt, cached, output = row
    if arrival not in _ARRIVALS:
        return f"arrival_ns {arrival}: 64 bits are expected"
    if not 1 <= prompt <= MOST_TOKENS:
        return f"prompt_tokens {prompt}: 1 to {MOST_TOKENS} are expected"
    if not 0 <= cached < prompt:
        return f"cached_prompt_tokens {cached}: fewer than the {prompt} of the prompt are expected"
    if not 1 <= output <= MOST_TOKENS:
        return f"output_tokens {output}: 1 to {MOST_TOKENS} are expected"
    if before > row:
        return "not in order: by arrival, ties by prompt, cached, then output tokens"
    return None


def requests_from(given: Requests) -> Columns:
    """Read requests from a file, or take them from rows; raise `Unreadable` at the first that is none."""
    if isinstance(given, str | os.PathLike):
        return read_requests(Path(given))
    columns, rows = Columns(), iter(given)
    while block := list(islice(rows, _BLOCK_ROWS)):
        _check_types(block, len(columns))
        _take(columns, tuple(zip(*block, strict=True)), "requests: row ", 1)
    return _some(columns, "requests")


def _check_types(block: Sequence[object], before: int) -> None:
    """Four whole numbers in every row."""
    if set(map(type, block)) <= {tuple, list}:
        rows = cast(Sequence[Sequence[object]], block)
        if set(map(len, rows)) == {4} and set(map(type, chain.from_iterable(rows))) == {int}:
            return
    place, row = next((place, row) for place, row in enumerate(block) if not _is_row(row))
    raise Unreadable(f"requests: row {before + place + 1}: {str(row)[:_LONGEST_LINE]}: four whole numbers are expected")


def _is_row(row: object) -> bool:
    return isinstance(row, tuple | list) and len(row) == 4 and all(type(cell) is int for cell in row)


def read_requests(path: Path) -> Columns:
    """Read a CSV file of requests, as it is or in gzip."""
    columns = Columns()
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise Unreadable(f"{path}: cannot be read: not a regular file")
        with path.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            stream = cast(IO[bytes], gzip.GzipFile(fileobj=raw) if packed else raw)
            _check_header(path, stream)
            for block in _blocks(path, stream, columns):
                if not _ROWS.fullmatch(block):
                    _refuse(path, block, len(columns))
                numbers = list(map(int, block.replace(b"\n", b",").split(b",")[:-1]))
                _take(columns, tuple(numbers[place::4] for place in range(4)), f"{path}:", 2)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreadable(f"{path}: cannot be read: {reason}") from error
    return _some(columns, str(path))


def _check_header(path: Path, stream: IO[bytes]) -> None:
    header = stream.readline(len(HEADER) + 3).rstrip(b"\n").removesuffix(b"\r")
    if header != HEADER.encode():
        raise Unreadable(f"{path}:1: the header is {_shown(header)}; {HEADER} is expected")


def _blocks(path: Path, stream: IO[bytes], columns: Columns) -> Iterator[bytes]:
    """Whole lines, some at a time; ends of lines are line feeds, also after the last."""
    rest = b""
    while more := stream.read(_BLOCK_BYTES):
        lines, end, rest = (rest + more).rpartition(b"\n")
        if len(rest) > _LONGEST_LINE:
            _refuse(path, (lines + end).replace(b"\r\n", b"\n") + rest, len(columns))
        if end:
            yield (lines + end).replace(b"\r\n", b"\n")
    if rest:
        yield rest.removesuffix(b"\r") + b"\n"


def _refuse(path: Path, block: bytes, before: int) -> None:
    """Raise at the first line that is no row."""
    for place, line in enumerate(block.split(b"\n")):
        if not _ROWS.fullmatch(line + b"\n"):
            raise Unreadable(
                f"{path}:{before + place + 2}: {_shown(line)}: four whole numbers are expected, in plain decimals"
            )


def _shown(line: bytes) -> str:
    return repr(line[:_LONGEST_LINE].decode("utf-8", "replace"))


def _take(columns: Columns, more: Sequence[Sequence[int]], where: str, first: int) -> None:
    """Append requests; raise at the first that is wrong, whose place is counted from `first`."""
    before = len(columns)
    problem = columns.append(more)
    if problem is not None:
        place, _, words = problem.partition(": ")
        raise Unreadable(f"{where}{before + int(place) + first}: {words}")


def _some(columns: Columns, where: str) -> Columns:
    if not columns:
        raise Unreadable(f"{where}: holds no requests")
    return columns
