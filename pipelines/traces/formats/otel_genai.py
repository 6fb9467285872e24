"""OpenTelemetry spans of generative AI as JSON: what exporters write to a file, a record a line, or one document over many lines.

A request is a span of an inference: its ``gen_ai.operation.name`` is chat, text_completion or generate_content. Before version 1.27 the
semantic conventions had no operation name, and vLLM writes none to this day: a span without one is an inference if it has both token
counts and names no agent or tool. All other spans (tools, agents, embeddings, HTTP) are counted, but are no rows: an agent's span repeats
the tokens of the inferences within it. So are records of metrics and logs, which a collector may write to the same file. Prompts, ids and
names of spans stay behind.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from pipelines.traces import faults
from pipelines.traces.faults import Fault
from pipelines.traces.formats.otel_spans import SDK_START, STARTS, LeftOut, Span, has_spans, spans_of
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

_NO_INFERENCE = ("gen_ai.agent.name", "gen_ai.tool.name", "agent_name")
"""Spans of agents and tools that name no operation; the last is that of Pydantic AI, whose spans of an agent sum up those within."""

_ERROR = "error.type"
_READ = frozenset({_OPERATION, _MODEL, *_PROMPT, *_OUTPUT, *_CACHED, *_NO_INFERENCE, _ERROR})
_COLUMNS = ("cached_prompt_tokens", "model")


@dataclass(frozen=True)
class OtelGenAi:
    """Logs of spans; ``row`` is the line on which a span stands, of which a line may hold many, or its place in a document, from 1."""

    name: str = "otel-genai"
    expects: str = "JSON or JSONL with resourceSpans, or one span a line with its start and attributes"
    block_tokens: int | None = None

    def detect(self, head: Head) -> bool:
        """Whether the first record, or the one document, is of OpenTelemetry, be it of generative AI or not."""
        record = head.record if head.record is not None else head.document
        return record is not None and has_spans(record)

    def read(self, log: LogFile, reading: Reading) -> Iterator[pl.DataFrame]:
        """The inferences of a log, a block at a time; DeclarationProblems where it has spans, but none of them is one."""
        schema = ROW_SCHEMA | {name: EXTRA_SCHEMA[name] for name in _COLUMNS}
        seen = _Seen()
        for spans in _numbered_spans(log, reading, seen.left_out):
            rows: list[Row] = []
            for number, span in spans:
                if isinstance(span, Fault):
                    reading.invalid(span, number)
                elif seen.is_inference(span):
                    try:
                        rows.append({"row": number} | _row(span, reading, number))
                    except InvalidRow as invalid:
                        reading.invalid(invalid.fault, number)
            yield pl.DataFrame({name: [row[name] for row in rows] for name in schema}, schema=schema)
        if seen.beside() and not (seen.named or seen.unnamed or reading.faults):
            expected = f"some whose {_OPERATION} is {_or(_INFERENCES)}, or that have both token counts"
            raise log.refused(f"no request among {' and '.join(seen.beside())}; expected {expected}")
        reading.notes.extend(seen.notes())


@dataclass
class _Seen:
    """What a log was found to hold: inferences that name their operation and that do not, other spans, and what holds no spans."""

    named: int = 0
    unnamed: int = 0
    others: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)

    def is_inference(self, span: Span) -> bool:
        """Whether a span is a request; each is counted as what it is."""
        operation = span.attributes.get(_OPERATION)
        if operation in _INFERENCES:
            self.named += 1
        elif operation is None and _has_counts_of_its_own(span.attributes):
            self.unnamed += 1
        else:
            self.others += 1
            return False
        return True

    def beside(self) -> list[str]:
        """What the log holds beside inferences."""
        found = ((self.others, "span"), (self.left_out.records, "record"))
        of_what = {"span": "", "record": " of metrics, logs or profiles"}
        return [f"{_counted(count, what)}{of_what[what]}" for count, what in found if count]

    def notes(self) -> Iterator[str]:
        """What a reader of the log should know of all that."""
        if self.others:
            yield (
                f"{_counted(self.others, 'span')} left out that {'is no inference' if self.others == 1 else 'are no inferences'}: "
                f"with another {_OPERATION} than {_or(_INFERENCES)}, or without one and without token counts of their own"
            )
        if self.left_out.records:
            yield (
                f"{_counted(self.left_out.records, 'record')} of metrics, logs or profiles left out: "
                f"{'it holds' if self.left_out.records == 1 else 'they hold'} no spans"
            )
        if self.left_out.doubles:
            yield (
                f"{_counted(self.left_out.doubles, 'span')} under instrumentationLibrarySpans left out: "
                "scopeSpans beside it holds the same, by the rules of OTLP"
            )
        if self.named and self.unnamed:
            yield (
                f"{_counted(self.unnamed, 'span')} without a {_OPERATION} read as inferences, for their token counts, beside "
                f"{self.named:,} with one: if they sum up others, their tokens count twice"
            )


def _numbered_spans(log: LogFile, reading: Reading, left_out: LeftOut) -> Iterator[Iterator[tuple[int, Span | Fault]]]:
    """The spans of a document, or of a block of lines at a time, with their row numbers."""
    if log.head.document is not None:
        yield enumerate(spans_of(log.head.document, _READ, left_out), 1)
        return
    for block in log.blocks():
        yield (
            (number, span)
            for number, record in numbered_records(block, reading)
            for span in spans_of(record, _READ, left_out)
        )


def _has_counts_of_its_own(attributes: Record) -> bool:
    has_counts = all(attributes.get(_spelling(attributes, names)) is not None for names in (_PROMPT, _OUTPUT))
    return has_counts and not any(attributes.get(name) for name in _NO_INFERENCE)


def _row(span: Span, reading: Reading, number: int) -> Row:
    if span.has_failed or span.attributes.get(_ERROR):
        raise InvalidRow(faults.FAILED)
    cached = _spelling(span.attributes, _CACHED)
    row: dict[str, Any] = {
        "prompt_tokens": tokens_of(span.attributes, _spelling(span.attributes, _PROMPT), "prompt_tokens"),
        "output_tokens": tokens_of(span.attributes, _spelling(span.attributes, _OUTPUT), "output_tokens"),
        "cached_prompt_tokens": None
        if span.attributes.get(cached) is None
        else tokens_of(span.attributes, cached, "cached_prompt_tokens", least=0),
        "model": group_of(span.attributes, _MODEL),
    }
    # last, so that the clock of an invalid row counts for nothing
    return row | {"timestamp_ns": _start(span.record, reading, number)}


def _start(span: Record, reading: Reading, number: int) -> int:
    """Nanoseconds since 1970 in UTC; a 0, which protobuf writes where a time was never set, is a missing one."""
    name = next((name for name in STARTS if span.get(name) is not None), "")
    name = name or next((name for name in STARTS if name in span), STARTS[0])
    if name == SDK_START:
        return datetime_of(span, name, reading, number)
    start = time_of(span, name, 1)
    if start == 0:
        raise InvalidRow(faults.MISSING_TIME, "time", name)
    note_clock(reading, has_offset=True, column=name, row=number)
    return start


def _spelling(attributes: Record, names: tuple[str, ...]) -> str:
    """The first of ``names`` that has a value; the first of all where none has."""
    return next((name for name in names if attributes.get(name) is not None), names[0])


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what if count == 1 else f'{what}s'}"


def _or(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


OTEL_GENAI = OtelGenAi()
