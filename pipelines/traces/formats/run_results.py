"""What the serving benchmarks of vLLM and SGLang share: results of one run as one JSON object, with an array per field of its requests.

Of the arrays only lengths, start times and whether a request failed are read: not what was measured, and no text.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import polars as pl

from pipelines.traces import faults
from pipelines.traces.faults import Fault, Kind
from pipelines.traces.jsonl import Record
from pipelines.traces.log_file import Head, LogFile, record_of
from pipelines.traces.timestamps import NS_PER_S, parse_number
from pipelines.traces.token_counts import token_count
from pipelines.traces.trace_format import ROW_SCHEMA, Reading

INPUTS, OUTPUTS, STARTS, ERRORS, SUCCESSES = "input_lens", "output_lens", "start_times", "errors", "successes"


@dataclass(frozen=True)
class RunResults:
    """Results of a benchmark whose run ``is_run`` recognises; ``flag`` is what makes the tool write the arrays.

    The row number of a request is its place in the arrays, from 1.
    """

    name: str
    expects: str
    tool: str
    flag: str
    is_run: Callable[[Record], bool]
    block_tokens: int | None = None

    def detect(self, head: Head) -> bool:
        """Whether the file is, or begins with, the results of a run."""
        record = head.record if head.record is not None else head.document
        return record is not None and self.is_run(record)

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The requests of the run."""
        arrays = self._arrays(log, self._run(log))
        has_starts = arrays.starts is not None
        if not has_starts:
            note = f"{self.tool} gives no start times here: lengths without arrivals, which the cohort declares (requests.arrivals)"
            reading.notes.append(note)
        elif arrays.limit is not None:
            note = f"{self.tool} held requests back (max_concurrency): they start when others end, not when they would have arrived"
            reading.notes.append(note)
        rows = []
        for number in range(1, len(arrays.inputs) + 1):
            row = arrays.row(number)
            if isinstance(row, Fault):
                reading.invalid(row, number)
            else:
                rows.append(row)
        schema = {name: dtype for name, dtype in ROW_SCHEMA.items() if has_starts or name != "timestamp_ns"}
        yield pl.DataFrame({name: [row[name] for row in rows] for name in schema}, schema=schema)

    def _run(self, log: LogFile) -> Record:
        """The one run in the file: the file as a whole, or its only line."""
        data = log.read_all()
        whole = record_of(data)
        if whole is not None:
            return whole
        runs: list[tuple[int, Record]] = []
        for row, line in enumerate(data.splitlines(), 1):
            run = record_of(line) if line.strip() else {}
            if run is None:
                raise log.refused(f"not a JSON object; expected the results of {self.tool}, one run", row=row)
            if run:
                runs.append((row, run))
        if len(runs) > 1 and any(INPUTS in run for _, run in runs):
            hint = "keep the line of one run, for example with sed -n 2p"
            message = (
                f"{len(runs)} runs, one a line; expected one: the requests of several runs are not those of one log"
            )
            raise log.refused(message, hint, row=runs[1][0])
        return runs[0][1] if runs else {}

    def _arrays(self, log: LogFile, run: Record) -> "_Arrays":
        if OUTPUTS not in run and INPUTS in run:
            message = f"no {OUTPUTS}: a benchmark of embeddings or rerankings generates no tokens; expected one of text generation"
            raise log.refused(message)
        if INPUTS not in run or OUTPUTS not in run:
            message = (
                f"aggregates only, without {INPUTS} and {OUTPUTS}: no requests; expected one value for each request"
            )
            raise log.refused(message, f"run {self.tool} with {self.flag}")
        arrays: dict[str, list[object]] = {}
        for name in (INPUTS, OUTPUTS, STARTS, ERRORS, SUCCESSES):
            value = run.get(name)
            if value is None and name not in (INPUTS, OUTPUTS):
                continue
            if not isinstance(value, list):
                raise log.refused("not a list; expected one value for each request", column=name)
            arrays[name] = value
        counts = {len(values) for values in arrays.values()}
        if len(counts) > 1:
            raise log.refused(f"{' and '.join(arrays)} differ in length; expected one value each for each request")
        starts = arrays.get(STARTS)
        if starts is not None and all(map(_is_unset, starts)):
            starts = None  # clocks of both tools count from the start of the machine: 0 is a time that was not taken
        limit = run.get("max_concurrency")
        return _Arrays(arrays[INPUTS], arrays[OUTPUTS], starts, arrays.get(ERRORS), arrays.get(SUCCESSES), limit)


@dataclass(frozen=True)
class _Arrays:
    """The arrays of a run, and the most requests that it had under way at once (None: no limit)."""

    inputs: list[object]
    outputs: list[object]
    starts: list[object] | None
    errors: list[object] | None
    successes: list[object] | None
    limit: object

    def row(self, number: int) -> dict[str, int] | Fault:
        """The request at place ``number`` (from 1), or what is wrong with it."""
        at = number - 1
        if self._is_failed(at):
            return Fault(faults.FAILED)
        row = {"row": number}
        if self.starts is not None:
            time = faults.MISSING_TIME if _is_unset(self.starts[at]) else parse_number(self.starts[at], NS_PER_S)
            if isinstance(time, Kind):
                return Fault(time, "time", STARTS)
            row["timestamp_ns"] = time
        for field, column, values in (("prompt_tokens", INPUTS, self.inputs), ("output_tokens", OUTPUTS, self.outputs)):
            tokens = token_count(values[at])
            if isinstance(tokens, Kind):
                return Fault(tokens, field, column)
            row[field] = tokens
        return row

    def _is_failed(self, at: int) -> bool:
        """Whether a request failed: it has an error, or no output token, as both tools write of failed ones whose error has no text."""
        return (
            (self.errors is not None and self.errors[at] not in (None, "", False))
            or (self.successes is not None and self.successes[at] is False)
            or (type(self.outputs[at]) in (int, float) and self.outputs[at] == 0)
        )


def _is_unset(start: object) -> bool:
    return start is None or (type(start) in (int, float) and start == 0)
