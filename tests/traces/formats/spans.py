"""Spans as exporters and SDKs write them, and how they are read."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl

from pipelines.traces.formats.otel_genai import OTEL_GENAI
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile
from pipelines.traces.trace_format import EXTRA_SCHEMA, ROW_SCHEMA, Reading

Write = Callable[[str | bytes], Path]
Attributes = dict[str, object]

START = 1_753_969_384_764_170_321
ISO = "2025-07-31T13:43:04.764170Z"
ISO_NS = 1_753_969_384_764_170_000
INPUT, OUTPUT, CACHED = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens",
)


def chat(prompt: object = 123, output: object = 45, **more: object) -> Attributes:
    named = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "llama", INPUT: prompt, OUTPUT: output}
    return {key: value for key, value in (named | more).items() if value is not ...}


def otlp_value(value: object) -> dict[str, object]:
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
    if value is None:
        return {}
    return {kinds[type(value)]: str(value) if type(value) is int else value}


def otlp_span(attributes: Attributes, start: object = str(START), **more: object) -> dict[str, object]:
    pairs = [{"key": key, "value": otlp_value(value)} for key, value in attributes.items()]
    span = {"traceId": "SECRET", "spanId": "SECRET", "name": "SECRET", "kind": 3, "startTimeUnixNano": start}
    return span | {"endTimeUnixNano": str(START + 10**9), "attributes": pairs, "status": {}} | more


def resource_of(**scopes: object) -> dict[str, object]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "SECRET"}}]}
    return {"resource": resource, "schemaUrl": "SECRET"} | scopes


def scope_of(*spans: object) -> dict[str, object]:
    return {"scope": {"name": "SECRET"}, "schemaUrl": "SECRET", "spans": list(spans)}


def line(record: object) -> str:
    return json.dumps(record) + "\n"


def otlp(*spans: dict[str, object]) -> str:
    return line({"resourceSpans": [resource_of(scopeSpans=[scope_of(*spans)])]})


def in_snake_case(content: str) -> str:
    """The content with all names of fields in protobuf's other spelling."""
    names = re.compile(r'"[a-z]+(?:[A-Z][a-z]+)+":')
    return names.sub(lambda found: re.sub("[A-Z]", lambda one: f"_{one[0].lower()}", found[0]), content)


def sdk(attributes: Attributes, start: object = ISO, **more: object) -> str:
    span = {
        "name": "SECRET",
        "context": {"trace_id": "SECRET", "span_id": "SECRET", "trace_state": "[]"},
        "kind": "SpanKind.CLIENT",
        "parent_id": None,
        "start_time": start,
        "end_time": "2025-07-31T13:43:05.764170Z",
        "status": {"status_code": "UNSET"},
        "attributes": attributes,
        "events": [{"name": "SECRET", "attributes": {"content": "SECRET"}}],
        "resource": {"attributes": {"service.name": "SECRET"}},
    }
    return line({key: value for key, value in (span | more).items() if value is not ...})


def read(path: Path, **options: object) -> Log:
    return read_as(LogFile(path, "spans.jsonl"), OTEL_GENAI, LogOptions(**options))  # type: ignore[arg-type]


def in_file(path: Path) -> tuple[pl.DataFrame, Reading]:
    reading = Reading()
    return pl.concat(OTEL_GENAI.read(LogFile(path, "spans.jsonl"), reading)), reading


def counts(path: Path) -> list[tuple[object, ...]]:
    return in_file(path)[0].select("prompt_tokens", "output_tokens", "cached_prompt_tokens").rows()


OTHERS = (
    "with another gen_ai.operation.name than chat, text_completion or generate_content, or without one and without token "
    "counts of their own"
)


def expected(*rows: tuple[object, ...]) -> pl.DataFrame:
    schema = ROW_SCHEMA | {name: EXTRA_SCHEMA[name] for name in ("cached_prompt_tokens", "model")}
    return pl.DataFrame(rows, schema=schema, orient="row")


LINES = otlp(otlp_span(chat())) + sdk(chat(7, 8), start="2025-07-31T13:43:04.764171Z")
