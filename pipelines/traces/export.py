"""Requests into a file of the project's own format, of which :mod:`pipelines.traces.formats.native` says what it is."""

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import polars as pl
import zstandard

from pipelines.frames.requests import GROUP_FIELDS
from pipelines.traces.formats.native import ARRIVAL
from pipelines.traces.timestamps import NS_PER_S

_ROWS_AT_ONCE = 1 << 18
_COUNTS = ("prompt_tokens", "cached_prompt_tokens", "output_tokens")
_ARRIVAL_TYPE = pl.Decimal(19, 9)
"""Holds every number of nanoseconds of 64 bits, in seconds."""

_PARQUET = ".parquet"
_TEXTS = (".csv", ".jsonl")
_PACKERS: dict[str, Callable[[IO[bytes]], Any]] = {
    "": lambda file: file,
    # without a name and a time in it, the same requests make the same file
    ".gz": lambda file: gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0),
    ".zst": lambda file: zstandard.ZstdCompressor().stream_writer(file, closefd=False),
}
SUFFIXES = (*(text + packed for text in _TEXTS for packed in _PACKERS), _PARQUET)
"""What the name of a file that can be written ends with."""


def write_requests(rows: pl.DataFrame, path: Path) -> None:
    """Write requests to ``path``, in the form that its suffix says (one of :data:`SUFFIXES`); a file that is there is replaced.

    ``rows`` has ``timestamp_ns`` (ns, from 0), ``prompt_tokens``, ``output_tokens``, and any of ``cached_prompt_tokens``, ``model``,
    ``adapter``, ``priority``; other columns are left out. The file is written under a temporary name beside ``path`` and then renamed,
    so that nobody finds half of it. Raises ValueError for any other suffix.
    """
    form, packed = _suffixes(path)
    names = [name for name in (*_COUNTS, *GROUP_FIELDS) if name in rows.columns]
    table = rows.lazy().select(_seconds().alias(ARRIVAL), *names)
    with _replacing(path) as temporary:
        if form == _PARQUET:
            table.with_columns(pl.col(ARRIVAL).cast(_ARRIVAL_TYPE)).sink_parquet(temporary)
            return
        with temporary.open("wb") as file:
            packing = _PACKERS[packed](file)
            _write_text(table, rows.height, packing, form)
            packing.close()


def _suffixes(path: Path) -> tuple[str, str]:
    """The form and the packing that a file's name says."""
    name = path.name.lower()
    packed = next((one for one in _PACKERS if one and name.endswith(one)), "")
    form = next((one for one in (*_TEXTS, _PARQUET) if name.endswith(one + packed)), "")
    if form + packed not in SUFFIXES:
        raise ValueError(f"expected a file name that ends with one of {', '.join(SUFFIXES)}")
    return form, packed


def _seconds() -> pl.Expr:
    """Nanoseconds as a decimal number of seconds, without zeros at its end."""
    ns = pl.col("timestamp_ns")
    fraction = (ns % NS_PER_S).cast(pl.String).str.zfill(9).str.strip_chars_end("0")
    whole = (ns // NS_PER_S).cast(pl.String)
    return pl.when(fraction == "").then(whole).otherwise(whole + "." + fraction)


def _write_text(table: pl.LazyFrame, height: int, file: IO[bytes], form: str) -> None:
    """The rows as text, a slice at a time: the text of a large log takes more memory than its numbers."""
    for start in range(0, max(height, 1), _ROWS_AT_ONCE):
        part = table.slice(start, _ROWS_AT_ONCE).collect()
        if form == ".csv":
            part.write_csv(file, include_header=start == 0)
        else:
            part.write_ndjson(file)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``, which takes its place at the end; nothing is left of it where writing fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
