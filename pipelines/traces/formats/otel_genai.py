"""OpenTelemetry spans of generative AI as JSON lines: what the OTLP file exporter writes, or one span of an SDK a line.

A request is a span of an inference: its ``gen_ai.operation.name`` is chat, text_completion or generate_content. Before version 1.27 the
semantic conventions had no operation name, and vLLM writes none to this day: a span without one is an inference if it has both token
counts of that time, ``gen_ai.usage.prompt_tokens`` and ``completion_tokens``. All other spans (tools, agents, embeddings, HTTP) are
counted, but are no rows: an agent's span repeats the tokens of the inferences within it. Prompts, ids and names of spans stay behind.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.traces import faults
from pipelines.traces.jsonl import (
    InvalidRow,
    Record,
    Row,
    datetime_of,
    group_of,
    note_clock,
    numbered_records,
    time_of,
    tokens_of,
)
from pipelines.traces.log_file import Head, LogFile
from pipelines.traces.trace_format import EXTRA_SCHEMA, ROW_SCHEMA, Reading

_OPERATION = "gen_ai.operation.name"
_INFERENCES = ("chat", "text_completion", "generate_content")
_MODEL = "gen_ai.request.model"
_PROMPT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.cached_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.input_tokens_details.cached_tokens",
    "gen_ai.usage.prompt_tokens_details.cached_tokens",
    "gen_ai.usage.prompt_tokens_details.cache_read",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
)
"""Spellings of the convention and, below it, of instrumentations that came before it. The convention's input tokens include them."""

_ERROR = "error.type"
_READ = frozenset({_OPERATION, _MODEL, *_PROMPT, *_OUTPUT, *_CACHED, _ERROR})
_FAILED = (2, "2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR")
_COLUMNS = ("cached_prompt_tokens", "model")
_OTLP, _OTLP_START = "resourceSpans", "startTimeUnixNano"
_SDK_FIELDS = {"name", "context", "start_time", "attributes"}


@dataclass(frozen=True)
class OtelGenAi:
    """Logs of spans; ``row`` is the line on which a span stands, and a line may hold many."""

    name: str = "otel-genai"
    expects: str = "JSONL with resourceSpans, or one span a line with name, context, start_time and attributes"
    block_tokens: int | None = None

    def detect(self, head: Head) -> bool:
        """Whether the first record holds spans, be they of generative AI or not."""
        record = head.record
        if record is None:
            return False
        is_span = set(record) >= _SDK_FIELDS and isinstance(record["attributes"], dict)
        return isinstance(record.get(_OTLP), list) or is_span

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The inferences of a log, a block at a time; DeclarationProblems where it has spans, but none of them is one."""
        schema = ROW_SCHEMA | {name: EXTRA_SCHEMA[name] for name in _COLUMNS}
        found = others = 0
        for block in log.blocks():
            rows: list[Row] = []
            for number, record in numbered_records(block, reading):
                inferences, left_out = _inferences(record, reading, number)
                others += left_out
                found += len(inferences)
                for span in inferences:
                    try:
                        rows.append({"row": number} | _row(span, reading, number))
                    except InvalidRow as invalid:
                        reading.invalid(invalid.fault, number)
            yield pl.DataFrame({name: [row[name] for row in rows] for name in schema}, schema=schema)
        if others and not found and not reading.faults:
            raise log.refused(
                f"no request among {_spans_counted(others)}; expected some whose {_OPERATION} is {_or(_INFERENCES)}"
            )
        if others:
            reading.notes.append(
                f"{_spans_counted(others)} left out that {'is no inference' if others == 1 else 'are no inferences'}: "
                f"without a {_OPERATION}, or with another than {_or(_INFERENCES)}"
            )


@dataclass(frozen=True)
class _Span:
    """What is read of a span: when it began, whether it failed, and those attributes that are read, by name."""

    start: Record
    has_failed: bool
    attributes: Record


def _inferences(record: Record, reading: Reading, number: int) -> tuple[list[_Span], int]:
    """The spans of a line that are requests, and how many others it has; a line that holds no spans at all is invalid."""
    try:
        spans = list(_spans(record))
    except InvalidRow as invalid:
        reading.invalid(invalid.fault, number)
        return [], 0
    inferences = [span for span in spans if _is_inference(span.attributes)]
    return inferences, len(spans) - len(inferences)


def _spans(record: Record) -> Iterator[_Span]:
    """The spans of a line, in either way of writing them; an empty object is an export of none."""
    if _OTLP in record:
        for resource in _objects(record, _OTLP):
            for scope in _objects(resource, "scopeSpans"):
                for span in _objects(scope, "spans"):
                    yield _Span(span, _has_failed(span), _otlp_attributes(span))
    elif "attributes" in record or "start_time" in record:
        attributes = record.get("attributes")
        named = attributes if isinstance(attributes, dict) else {}
        yield _Span(record, _has_failed(record), {key: named[key] for key in _READ & named.keys()})
    elif record:
        raise InvalidRow(faults.MISSING, column=_OTLP)


def _objects(record: Record, key: str) -> list[Mapping[str, Any]]:
    """A list of objects, empty where protobuf left the field out for being so; InvalidRow if it is no such list."""
    value = record.get(key)
    objects = [] if value is None else value
    if not isinstance(objects, list) or not all(isinstance(one, dict) for one in objects):
        raise InvalidRow(faults.NOT_A_LIST, column=key)
    return objects


def _otlp_attributes(span: Record) -> Record:
    """Attributes from ``{"key": ..., "value": {"intValue": "12"}}``; 64-bit integers are text there."""
    found = {}
    for pair in _objects(span, "attributes"):
        key, value = pair.get("key"), pair.get("value")
        if isinstance(key, str) and key in _READ and isinstance(value, dict) and value:
            found[key] = next(iter(value.values()))
    return found


def _is_inference(attributes: Record) -> bool:
    operation = attributes.get(_OPERATION)
    if operation is None:
        return attributes.keys() >= {_PROMPT[1], _OUTPUT[1]}
    return operation in _INFERENCES


def _has_failed(span: Record) -> bool:
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else status
    return code in _FAILED if isinstance(code, str | int) else False


def _row(span: _Span, reading: Reading, number: int) -> Row:
    if span.has_failed or span.attributes.get(_ERROR):
        raise InvalidRow(faults.FAILED)
    cached = _spelling(span.attributes, _CACHED)
    row = {
        "prompt_tokens": tokens_of(span.attributes, _spelling(span.attributes, _PROMPT), "prompt_tokens"),
        "output_tokens": tokens_of(span.attributes, _spelling(span.attributes, _OUTPUT), "output_tokens"),
        "cached_prompt_tokens": None
        if span.attributes.get(cached) is None
        else tokens_of(span.attributes, cached, "cached_prompt_tokens", least=0),
        "model": group_of(span.attributes, _MODEL),
    }
    # last, so that the clock of an invalid row counts for nothing
    return row | {"timestamp_ns": _start(span.start, reading, number)}


def _start(span: Record, reading: Reading, number: int) -> int:
    """Nanoseconds since 1970 in UTC; a 0, which protobuf writes where a time was never set, is a missing one."""
    if _OTLP_START not in span and "start_time" in span:
        return datetime_of(span, "start_time", reading, number)
    start = time_of(span, _OTLP_START, 1)
    if start == 0:
        raise InvalidRow(faults.MISSING_TIME, "time", _OTLP_START)
    note_clock(reading, has_offset=True, column=_OTLP_START, row=number)
    return start


def _spelling(attributes: Record, names: tuple[str, ...]) -> str:
    """The first of ``names`` that has a value; the first of all where none has."""
    return next((name for name in names if attributes.get(name) is not None), names[0])


def _spans_counted(spans: int) -> str:
    return f"{spans:,} {'span' if spans == 1 else 'spans'}"


def _or(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


OTEL_GENAI = OtelGenAi()
