"""A request log on disk: decompressed as it is read, in blocks that end where a line ends."""

import gzip
import json
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import zstandard

from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.traces.header import header_names

BLOCK_BYTES = 8 << 20
LONGEST_LINE_BYTES = 1 << 28

_READ_BYTES = 1 << 20
_PACKED_BYTES = 1 << 14
_COUNTED_BYTES = 1 << 17
"""Small enough for what is compared to stay in the processor's cache."""

_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
_SKIPPABLE = b"\x2a\x4d\x18"
_LARGEST_WINDOW = 1 << 31
_BOM, _BLANK = b"\xef\xbb\xbf", b"\r\n \t"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Block(NamedTuple):
    """Whole lines of a log; ``first_row`` is the line number of the first, ``is_last`` says that the file ends here."""

    first_row: int
    data: bytes
    is_last: bool


@dataclass(frozen=True)
class Head:
    """How a log begins: its first line that is not blank, as text, as column names, and as a JSON record if it is one."""

    line: str
    names: tuple[str, ...]
    record: dict[str, object] | None
    is_parquet: bool = False
    is_document: bool = False  # begins like one JSON object over many lines
    document: dict[str, object] | None = None  # that object, where the file is one


@dataclass(frozen=True)
class LogFile:
    """The log at ``path``; ``shown_as`` is its name in messages. Every method raises DeclarationProblems where it cannot be read."""

    path: Path
    shown_as: str

    @cached_property
    def head(self) -> Head:
        """How the log begins; DeclarationProblems if it is empty."""
        start = self._start()
        if start.startswith(_PARQUET):
            return Head("", (), None, is_parquet=True)
        line = _first_line(start)
        text = (start if line is None else line).decode(errors="replace").strip()
        if not text:
            raise self.refused("the file is empty; expected a request log")
        record = _record(text)
        is_document = record is None and text.lstrip().startswith("{")
        document = record_of(self.read_all()) if is_document and line is not None and _is_opening(text) else None
        names = tuple(header_names(text)) if record is None else ()
        return Head(text, names, record, is_document=is_document, document=document)

    def _start(self) -> bytes:
        """The log from its first character that is not blank to the end of that line, or further."""
        parts: list[bytes] = []
        size = 0
        for place, chunk in enumerate(self._chunks()):
            if place == 0:
                self._check_is_text(chunk)
                chunk = chunk.removeprefix(_BOM)
            part = chunk if parts else chunk.lstrip(_BLANK)
            if part:
                parts.append(part)
                size += len(part)
                if b"\n" in part or b"\r" in part or part.startswith(_PARQUET):
                    break
            if size > LONGEST_LINE_BYTES:
                raise self._too_long()
        return b"".join(parts)

    def _check_is_text(self, start: bytes) -> None:
        """DeclarationProblems where the first bytes are not those of a text, or of a Parquet file."""
        if start.startswith((_GZIP, _ZSTD)) or _is_skippable(start):
            raise self.refused("compressed twice; expected CSV, JSONL or Parquet, at most compressed once")
        if start.startswith(_UTF16) or (b"\x00" in start[:64] and not start.startswith(_PARQUET)):
            hint = "convert the file to UTF-8, for example with iconv -f UTF-16 -t UTF-8"
            raise self.refused("not a text file in UTF-8; expected CSV, JSONL or Parquet", hint)

    def blocks(self) -> Iterator[Block]:
        """The log in order, about :data:`BLOCK_BYTES` at a time, without a byte order mark; CR ends a line where no LF does."""
        row, pending = 1, b""
        for lines in self._lines():
            if pending:
                yield Block(row, pending, False)
                row += count_of(b"\n", pending)
            pending = lines
        if pending:
            yield Block(row, pending, True)

    def _lines(self) -> Iterator[bytes]:
        """The log in pieces that end where a line ends, but for the last one."""
        chunks = self._chunks()
        start = next(chunks, b"").removeprefix(_BOM)
        lone_cr = b"\r" in start and b"\n" not in start
        start = start.replace(b"\r", b"\n") if lone_cr else start
        waiting = [start]
        size = len(start)
        for piece in chunks:
            chunk = piece.replace(b"\r", b"\n") if lone_cr else piece
            size += len(chunk)
            cut = chunk.rfind(b"\n") + 1 if size >= BLOCK_BYTES else 0
            if cut:
                yield b"".join([*waiting, memoryview(chunk)[:cut]])
                chunk = chunk[cut:]
                waiting, size = [], len(chunk)
            elif size > LONGEST_LINE_BYTES:
                raise self._too_long()
            waiting.append(chunk)
        data = b"".join(waiting)
        if data:
            yield data

    def read_all(self) -> bytes:
        """The whole log without its byte order mark."""
        return b"".join(self._chunks()).removeprefix(_BOM)

    def refused(self, message: str, hint: str | None = None, *, row: int = 1, column: str = "") -> DeclarationProblems:
        """The error that says what is wrong with the file as a whole."""
        return DeclarationProblems([Problem(self.shown_as, row, 1, column, message, hint)])

    def _too_long(self) -> DeclarationProblems:
        return self.refused(f"a line of more than {LONGEST_LINE_BYTES >> 20} MiB; expected one request a line")

    def _chunks(self) -> Iterator[bytes]:
        """The decompressed content, a piece at a time."""
        try:
            mode = self.path.stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                found = "not a regular file; expected one, since a log is read more than once"
                raise self.refused(found, "save it to a file first")
            with self.path.open("rb") as file:
                magic = file.read(4)
            if magic.startswith(_GZIP):
                yield from _gunzipped(self.path)
            elif magic == _ZSTD or _is_skippable(magic):
                yield from _unzstd(self.path)
            else:
                with self.path.open("rb") as file:
                    while chunk := file.read(_READ_BYTES):
                        yield chunk
        except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError):
            hint = "was the file copied to its end?"
            raise self.refused(
                "compressed data that is cut off or damaged; expected a whole gzip or zstd file", hint
            ) from None
        except OSError as error:
            raise self.refused(f"cannot be read: {(error.strerror or 'unreadable').lower()}") from None


def count_of(byte: bytes, data: bytes) -> int:
    """How often one byte occurs: what ``data.count`` says, several times as fast where it occurs often.

    >>> count_of(b",", b"1,2,3")
    2
    """
    numbers = np.frombuffer(data, np.uint8)
    pieces = (numbers[start : start + _COUNTED_BYTES] for start in range(0, numbers.size, _COUNTED_BYTES))
    return sum(int(np.count_nonzero(piece == byte[0])) for piece in pieces)


def _gunzipped(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as file:
        while chunk := file.read(_READ_BYTES):
            yield chunk


def _unzstd(path: Path) -> Iterator[bytes]:
    """All frames of a file. A stream reader would end quietly where the last frame is cut off."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    frame, given = unpacker.decompressobj(), False
    with path.open("rb") as file:
        while chunk := file.read(_PACKED_BYTES):
            while chunk:
                if frame.eof:
                    frame, given = unpacker.decompressobj(), False
                given = True
                out = frame.decompress(chunk)
                if out:
                    yield out
                chunk = frame.unused_data if frame.eof else b""
    if given and not frame.eof:
        raise EOFError


def _is_skippable(start: bytes) -> bool:
    """Whether a zstd file begins with a frame that says something about it, as parallel compressors write."""
    return len(start) >= 4 and start[1:4] == _SKIPPABLE and 0x50 <= start[0] <= 0x5F


def _first_line(start: bytes) -> bytes | None:
    """The first line, without its end; None if it has none."""
    ends = [place for place in (start.find(b"\n"), start.find(b"\r")) if place >= 0]
    return start[: min(ends)].rstrip() if ends else None


def _is_opening(text: str) -> bool:
    """Whether a first line can begin an object over many lines, unlike a record that is cut off."""
    return text == "{" or text.endswith((",", "{", "["))


def _record(text: str) -> dict[str, object] | None:
    return record_of(text.encode()) if text.startswith("{") else None


def record_of(data: bytes) -> dict[str, object] | None:
    """The JSON object that ``data`` is, None if it is none; Infinity and NaN, which Python writes beside JSON, are numbers."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        if b"Infinity" not in data and b"NaN" not in data:
            return None
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None
