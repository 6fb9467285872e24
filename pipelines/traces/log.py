"""A request log, read: its requests in canonical order, and their digest."""

import hashlib
import sys
import time
from array import array
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.frames.requests import Requests
from pipelines.traces.csv_columns import header_names
from pipelines.traces.registry import FORMATS
from pipelines.traces.trace_format import TraceFormat, describe_header, first_line

_DIGEST_TAG = b"phaseledger requests v1\n"
_ROWS_PER_UPDATE = 1 << 16
_SETTLED_AFTER_NS = 2 * 10**9
"""A file that changed more recently may change again without a new modification time, so it is not remembered."""


@dataclass(frozen=True)
class RequestLog:
    """A request log that was read whole: ``rows_read`` rows of data, of which ``rows_dropped`` are not in ``requests``."""

    requests: pl.DataFrame
    format: str
    rows_read: int
    rows_dropped: int = 0


@dataclass(frozen=True)
class _Version:
    """One state of one file, read as one format."""

    path: Path
    size: int
    mtime_ns: int
    format: str | None


_last: dict[_Version, RequestLog] = {}


def read_requests(path: Path, format: str | None, *, shown_as: str | None = None) -> RequestLog:
    """Read a request log; ``format`` None detects it from the first line.

    Raises DeclarationProblems with every kind of fault in the file, under the name ``shown_as`` (``path`` if None): no row is dropped.
    The log that was read last is remembered, since the command reads it once to check it and once to evaluate it.
    """
    name = shown_as or str(path)
    try:
        version = _version(path, format)
        if version in _last:
            return _last[version]
        data = path.read_bytes()
    except OSError as error:
        raise DeclarationProblems(
            [_problem(name, f"cannot be read: {(error.strerror or 'unreadable').lower()}")]
        ) from None
    log = _read(data, _chosen(format, data, name), name)
    _last.clear()
    if time.time_ns() - version.mtime_ns > _SETTLED_AFTER_NS:
        _last[version] = log
    return log


def requests_sha256(frame: pl.DataFrame) -> str:
    """Digest of a :class:`Requests` frame: the same for the same requests, whatever file and format they came from.

    SHA-256 (hex) of a domain tag and the little-endian 64-bit integers of arrivals, prompts and outputs, column after column.
    """
    digest = hashlib.sha256(_DIGEST_TAG)
    for name in Requests.to_schema().columns:
        for rows in frame[name].to_frame().iter_slices(_ROWS_PER_UPDATE):
            numbers = array("q", rows[name].to_list())
            if sys.byteorder == "big":
                numbers.byteswap()
            digest.update(numbers)
    return digest.hexdigest()


def _version(path: Path, format_name: str | None) -> _Version:
    state = path.stat()
    return _Version(path.resolve(), state.st_size, state.st_mtime_ns, format_name)


def _chosen(name: str | None, data: bytes, shown_as: str) -> TraceFormat:
    """The format called ``name``, or the one that the first line shows."""
    known = "; ".join(f"{one.name} ({one.expects})" for one in FORMATS.values())
    if name is not None:
        if name not in FORMATS:
            raise DeclarationProblems([_problem(shown_as, f"unknown trace format; known formats: {known}")])
        return FORMATS[name]
    if not data.strip():
        raise DeclarationProblems([_problem(shown_as, "the file is empty; expected a request log")])
    header = first_line(data)
    for one in FORMATS.values():
        if one.detect(header):
            return one
    found = f"the format is not recognised from the first line, which has {describe_header(header_names(header))}"
    raise DeclarationProblems([_problem(shown_as, f"{found}; known formats: {known}")])


def _read(data: bytes, chosen: TraceFormat, shown_as: str) -> RequestLog:
    if not data.strip():
        raise DeclarationProblems([_problem(shown_as, "the file is empty; expected a request log")])
    raw = chosen.read(data, shown_as)
    reason = _no_rate(raw)
    if reason:
        raise DeclarationProblems(
            [_problem(shown_as, f"{reason}; expected two or more requests at different times, so that there is a rate")]
        )
    since_first = (pl.col("timestamp_ns") - pl.col("timestamp_ns").min()).alias("arrival_ns")
    tokens = pl.col("prompt_tokens", "output_tokens").cast(pl.Int32)
    requests = raw.select(since_first, tokens, cached_prompt_tokens=pl.lit(0, pl.Int32)).select(
        list(Requests.to_schema().columns)
    )
    requests = requests.sort(requests.columns)
    return RequestLog(Requests.validate(requests), chosen.name, rows_read=raw.height)


def _no_rate(raw: pl.DataFrame) -> str | None:
    if raw.height == 0:
        return "a header and no rows"
    if raw.height == 1:
        return "a single request"
    if raw["timestamp_ns"].n_unique() == 1:
        return f"{raw.height} requests that all arrive at one instant"
    return None


def _problem(file: str, message: str) -> Problem:
    return Problem(file, 1, 1, "", message)
