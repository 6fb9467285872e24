"""``profile_export.jsonl`` of AIPerf as a log of the requests that it sent: one record a request, with metadata and metrics.

``profile_export_aiperf.json`` and ``.csv``, which lie beside it, hold aggregates only. Times are nanoseconds since 1970.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from pipelines.traces import faults
from pipelines.traces.faults import Kind
from pipelines.traces.jsonl import InvalidRow, Record, Row, at, numbered_records, time_of, tokens_of
from pipelines.traces.log_file import Head, LogFile
from pipelines.traces.trace_format import ROW_SCHEMA, Reading

START, PROMPT, OUTPUT = "metadata.request_start_ns", "metrics.input_sequence_length", "metrics.output_sequence_length"

_NOT_TOKENS = Kind("not_tokens", "a length that is not in tokens", "expected the unit tokens")
_METRICS = {"request_throughput", "request_latency", "input_config"}


@dataclass(frozen=True)
class AiperfResults:
    """Records of requests; those of the warm-up are no requests of a workload."""

    name: str = "aiperf-results"
    expects: str = "profile_export.jsonl of AIPerf, with metadata.request_start_ns and metrics"
    block_tokens: int | None = None

    def detect(self, head: Head) -> bool:
        """Whether the first record is one of a request, or the file holds AIPerf's aggregates."""
        return (head.record is not None and _is_request(head.record)) or _is_aggregate(head)

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The requests of a log, a block at a time."""
        if _is_aggregate(log.head):
            hint = "read profile_export.jsonl, which AIPerf writes beside it (--export-level records)"
            raise log.refused("aggregates of AIPerf, no requests; expected one record for each request", hint)
        warm_up = 0
        for block in log.blocks():
            rows = []
            for number, record in numbered_records(block, reading):
                if at(record, "metadata.benchmark_phase") == "warmup":
                    warm_up += 1
                    continue
                try:
                    rows.append({"row": number} | _row(record))
                except InvalidRow as invalid:
                    reading.invalid(invalid.fault, number)
            yield pl.DataFrame({name: [row[name] for row in rows] for name in ROW_SCHEMA}, schema=ROW_SCHEMA)
        if warm_up:
            reading.notes.append(
                f"{warm_up:,} {'record' if warm_up == 1 else 'records'} of the warm-up left out: no requests of the workload"
            )


AIPERF_RESULTS = AiperfResults()


def _is_request(record: Record) -> bool:
    metadata = record.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata and ("metrics" in record or "error" in record)


def _is_aggregate(head: Head) -> bool:
    record = head.record if head.record is not None else head.document
    return head.names[:2] == ("Metric", "avg") or (record is not None and set(record) >= _METRICS)


def _row(record: Record) -> Row:
    if record.get("error") or any(
        at(record, f"metadata.{name}") is True for name in ("was_cancelled", "context_overflow_skip")
    ):
        raise InvalidRow(faults.FAILED)
    return {
        "timestamp_ns": time_of(record, START, 1),
        "prompt_tokens": _length(record, PROMPT, "prompt_tokens"),
        "output_tokens": _length(record, OUTPUT, "output_tokens"),
    }


def _length(record: Record, path: str, field: str) -> int:
    if at(record, f"{path}.unit") not in ("tokens", None):
        raise InvalidRow(_NOT_TOKENS, field, path)
    return tokens_of(record, f"{path}.value", field)
