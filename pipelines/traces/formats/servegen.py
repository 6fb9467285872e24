"""The logs of ServeGen: not of requests, but of the rates at which one client sends them, window by window.

CSV without a header: start of the window (s), requests per second, coefficient of variation of the gaps between arrivals, the
distribution that was fitted to the gaps (empty where there were none) and its two parameters, shape and scale (s).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from pipelines.declarations.problems import DeclarationProblems
from pipelines.frames.requests import MAX_TOKENS
from pipelines.traces import faults
from pipelines.traces.faults import Fault, Kind, RowFaults
from pipelines.traces.formats.servegen_lengths import Lengths, read_lengths
from pipelines.traces.log_file import Head, LogFile
from pipelines.traces.quantiles import (
    SHAPES,
    Floats,
    Ints,
    alternating,
    equally_likely,
    log_exponential_quantiles,
    log_gamma_quantiles,
    log_weibull_quantiles,
)
from pipelines.traces.timestamps import LATEST_NS, NS_PER_S
from pipelines.traces.trace_format import ROW_SCHEMA, Reading

MOST_REQUESTS = 50_000_000
"""More than these are not derived from one log: they would not fit into memory."""

DISTRIBUTIONS: dict[str, Callable[[Floats, float], Floats]] = {
    "Gamma": log_gamma_quantiles,
    "Weibull": log_weibull_quantiles,
    "Exponential": log_exponential_quantiles,
}
"""Logarithms of the quantiles of gaps, by the name that a log has for their distribution."""

_WINDOW_SCHEMA = {
    "start_s": pl.Int64,
    "rate_rps": pl.Float64,
    "cv": pl.Float64,
    "distribution": pl.String,
    "shape": pl.Float64,
    "scale": pl.Float64,
}
_FIELDS = len(_WINDOW_SCHEMA)
_START = re.compile(r"[0-9]{1,10}")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_NAME = re.compile(r"(?:[A-Z][A-Za-z]{1,30})?")
_PARTS_PER_MEAN_GAP = 1 << 20
_LARGEST_NUMBER = 1e12

_WHOLE_FILE = "a window that is left out would change the rate: mend the file, or cut it to the windows that are right"
_NOT_SIX = Kind(
    "not_six_fields",
    "a window that does not have six fields",
    "expected start, rate, cv, distribution, shape, scale",
    _WHOLE_FILE,
)
_NOT_A_START = Kind(
    "not_a_start", "a start that is not a number of seconds", "expected a whole number, 0 or more", _WHOLE_FILE
)
_NOT_A_RATE = Kind(
    "not_a_number", "a value that is not a number", f"expected a number from 0 to {_LARGEST_NUMBER:g}", _WHOLE_FILE
)
_NO_DISTRIBUTION = Kind(
    "no_distribution", "a rate above 0 without a distribution", "expected that of its gaps", _WHOLE_FILE
)
_UNKNOWN = Kind(
    "unknown_distribution", "a distribution of another name", f"expected one of {', '.join(DISTRIBUTIONS)}", _WHOLE_FILE
)
_NOT_A_SHAPE = Kind(
    "not_a_shape", "a shape that no gaps have", f"expected a number from {SHAPES[0]:g} to {SHAPES[1]:g}", _WHOLE_FILE
)
_UNEVEN = Kind(
    "uneven",
    "a window that does not begin where the one above ends",
    "expected windows of one length, in order",
    _WHOLE_FILE,
)


@dataclass(frozen=True)
class WindowRates:
    """The windows of a log of rates: their length (s), and a frame of start, rate, cv, distribution (null: no requests), shape, scale."""

    window_s: int
    frame: pl.DataFrame

    @property
    def windows(self) -> int:
        """How many there are."""
        return self.frame.height

    @property
    def nonempty_windows(self) -> int:
        """How many have requests."""
        return int((self.frame["rate_rps"] > 0).sum())

    @property
    def duration_s(self) -> int:
        """From the start of the first window to the end of the last (s)."""
        return self.windows * self.window_s

    @property
    def expected_requests(self) -> float:
        """The sum of rate times window."""
        return float(sum(self._requests(), Fraction(0)))

    @property
    def rate_rps(self) -> float:
        """Requests per second over all windows, empty ones included."""
        return self.expected_requests / self.duration_s

    @property
    def peak_rate_rps(self) -> float:
        """Requests per second of the busiest window."""
        return float(max(self.frame["rate_rps"]))

    def counts(self) -> list[int]:
        """Whole requests of each window: what is left over of a window goes to the next, so that the total is kept.

        >>> frame = pl.DataFrame({"rate_rps": [0.25, 0.25, 0.0, 1.0]})
        >>> WindowRates(1, frame).counts(), WindowRates(10, frame).counts()
        ([0, 1, 0, 1], [3, 2, 0, 10])
        """
        counts, total, given = [], Fraction(0), 0
        for requests in self._requests():
            total += requests
            # halves up, in exact arithmetic: the nearest whole number of all requests up to here
            upto = int(total + Fraction(1, 2))
            counts.append(upto - given)
            given = upto
        return counts

    def _requests(self) -> Iterator[Fraction]:
        return (Fraction(rate) * self.window_s for rate in self.frame["rate_rps"])


def read_windows(log: LogFile) -> WindowRates:
    """The windows of a log of rates; DeclarationProblems for all rows that are none, with their numbers."""
    found = RowFaults()
    rows: list[tuple[int, float, float, str | None, float, float]] = []
    starts: list[int | None] = []
    for number, line in _lines(log):
        window = _window(line) if line else Fault(faults.BLANK_LINE)
        if isinstance(window, Fault):
            found.add(window, number)
            starts.append(None)
            continue
        rows.append(window)
        starts.append(window[0])
        if not _is_even(starts):
            found.add(Fault(_UNEVEN, "time", "start"), number)
    if found:
        raise DeclarationProblems(found.problems(log.shown_as))
    if len(rows) < 2:
        raise log.refused("fewer than two windows: their length cannot be told; expected a log of rates by window")
    return WindowRates(rows[1][0] - rows[0][0], pl.DataFrame(rows, schema=_WINDOW_SCHEMA, orient="row"))


def _lines(log: LogFile) -> Iterator[tuple[int, str]]:
    """The lines of a log with their numbers, without the blank ones at its end."""
    blank: list[int] = []
    for block in log.blocks():
        lines = block.data.split(b"\n")
        if block.data.endswith(b"\n"):
            lines.pop()
        for number, line in enumerate(lines, block.first_row):
            text = line.decode(errors="replace").strip()
            if not text:
                blank.append(number)
                continue
            yield from ((row, "") for row in blank)
            blank.clear()
            yield number, text


def _is_even(starts: list[int | None]) -> bool:
    """Whether the last window begins after the one above, and as long after it as the second after the first; True if it cannot be told."""
    last, above, first, second = starts[-1], *((starts[-2], starts[0], starts[1]) if len(starts) > 1 else (None,) * 3)
    if last is None or above is None:
        return True
    if last <= above or first is None or second is None:
        return last > above
    return last - above == second - first


def _window(line: str) -> tuple[int, float, float, str | None, float, float] | Fault:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != _FIELDS:
        return Fault(_NOT_SIX)
    start, name = fields[0], fields[3]
    if not _START.fullmatch(start) or int(start) * NS_PER_S >= LATEST_NS:
        return Fault(_NOT_A_START, "time", "start")
    numbers = {column: _number(fields[place]) for column, place in (("rate", 1), ("cv", 2), ("shape", 4), ("scale", 5))}
    for column, value in numbers.items():
        if value is None:
            return Fault(_NOT_A_RATE, "row", column)
    rate, cv, shape, scale = (value or 0.0 for value in numbers.values())
    if rate > 0:
        fault = _distribution_fault(name, shape)
        if fault is not None:
            return fault
    return int(start), rate, cv, name or None, shape, scale


def _distribution_fault(name: str, shape: float) -> Fault | None:
    """What keeps the gaps of a window with requests from being derived."""
    if not name:
        return Fault(_NO_DISTRIBUTION, "row", "distribution")
    if name not in DISTRIBUTIONS:
        return Fault(_UNKNOWN, "row", "distribution")
    if name != "Exponential" and not SHAPES[0] <= shape <= SHAPES[1]:
        return Fault(_NOT_A_SHAPE, "row", "shape")
    return None


def _number(text: str) -> float | None:
    value = float(text) if _NUMBER.fullmatch(text) else None
    return None if value is None or value > _LARGEST_NUMBER else value


@dataclass(frozen=True)
class ServeGen:
    """A log of rates as a log of requests: derived from the rates and distributions, the same ones every time."""

    name: str = "servegen"
    expects: str = "CSV without a header: window start (s), rate, cv, distribution, two parameters"
    block_tokens: int | None = None

    def detect(self, head: Head) -> bool:
        """Whether the first line is a window of rates."""
        fields = [field.strip() for field in head.line.split(",")]
        return (
            len(fields) == _FIELDS
            and _START.fullmatch(fields[0]) is not None
            and all(_NUMBER.fullmatch(fields[place]) for place in (1, 2, 4, 5))
            and _NAME.fullmatch(fields[3]) is not None
        )

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The requests that the rates stand for, window by window."""
        path = reading.options.lengths
        if path is None:
            hint = "name it: requests.trace.lengths in a cohort, --lengths on the command line; ServeGen calls it chunk-N-dataset.json"
            raise log.refused("a log of rates holds no requests; its data set of lengths is needed", hint)
        rates = read_windows(log)
        if rates.expected_requests > MOST_REQUESTS:
            hint = "cut the file to fewer windows"
            raise log.refused(f"rates that stand for more than {MOST_REQUESTS:,} requests; expected fewer", hint)
        lengths = read_lengths(LogFile(path, str(path)))
        counts = rates.counts()
        reading.steps.append(("expand", f"{rates.nonempty_windows} windows of {rates.window_s} s with requests"))
        reading.notes.append(_note(rates, sum(counts), lengths))
        yield from _expanded(log, reading, rates, counts, lengths)


SERVEGEN = ServeGen()


def _note(rates: WindowRates, requests: int, lengths: Lengths) -> str:
    reasoning = "; output tokens include those of the reasoning" if lengths.with_reasoning else ""
    return (
        f"{requests:,} requests are derived from the rates and distributions of {rates.nonempty_windows} windows, none of them was "
        f"observed; prompt and output tokens are independent of each other, since the data set of lengths gives no joint distribution"
        f"{reasoning}"
    )


def _expanded(
    log: LogFile, reading: Reading, rates: WindowRates, counts: list[int], lengths: Lengths
) -> Iterator[pl.DataFrame]:
    first = 0
    for row, (window, count) in enumerate(zip(rates.frame.iter_rows(named=True), counts, strict=True), 1):
        if not count:
            continue
        held = lengths.at(window["start_s"])
        if held is None:
            message = "requests before the first window of the data set of lengths; expected lengths for every window with requests"
            raise log.refused(message, "does the data set belong to this log?", row=row)
        index = np.arange(first, first + count)
        prompt, output = lengths.deal(held, index)
        offsets = gap_starts_ns(window["distribution"], window["shape"], count, rates.window_s * NS_PER_S)
        frame = pl.DataFrame(
            {
                "row": index + 1,
                "timestamp_ns": offsets + window["start_s"] * NS_PER_S,
                "prompt_tokens": prompt,
                "output_tokens": output,
            },
            schema=ROW_SCHEMA,
        )
        yield _countable(frame, reading)
        first += count


def gap_starts_ns(distribution: str, shape: float, count: int, window_ns: int) -> pl.Series:
    """Where in a window its requests arrive (ns): at the start of gaps that fill it, one at each equally likely quantile.

    Short and long gaps take turns (van der Corput). Gaps are whole parts of a millionth of the mean gap, so that the arrivals do not
    depend on how a machine rounds the last digit of a quantile.

    >>> gap_starts_ns("Exponential", 1, 2, 1_000).to_list()
    [0, 171]
    """
    logs = DISTRIBUTIONS[distribution](equally_likely(count), shape)
    gaps = np.exp(logs - logs.max())
    # one part at least, so that no request arrives at the very end of the window, which is the start of the next
    parts: Ints = np.maximum(np.rint(gaps / gaps.mean() * _PARTS_PER_MEAN_GAP), 1).astype(np.int64)[alternating(count)]
    before = pl.DataFrame({"parts": np.cumsum(parts) - parts})
    start = pl.col("parts").cast(pl.Int128) * window_ns // int(parts.sum())
    return before.select(start.cast(pl.Int64)).to_series()


def _countable(frame: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """The rows with token counts that a request can have; the others are noted."""
    for name in ("prompt_tokens", "output_tokens"):
        for kind, wrong in (
            (faults.ZERO_TOKENS, pl.col(name) < 1),
            (faults.TOO_MANY_TOKENS, pl.col(name) > MAX_TOKENS),
        ):
            rows = frame.filter(wrong)["row"]
            if not rows.is_empty():
                reading.faults.add_all(Fault(kind, name, name), rows.len(), rows.head(faults.FIRST_ROWS).to_list())
                frame = frame.filter(~wrong)
    return frame
