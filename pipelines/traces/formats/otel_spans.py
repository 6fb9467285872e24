"""Spans of OpenTelemetry in JSON, wherever a record has them.

The OTLP exporters write ``resourceSpans``, Java's logging exporter the resources without that envelope, some tools one span a record, the
Python SDK spans of its own kind. Protobuf's JSON has two spellings of every name, ``scopeSpans`` and ``scope_spans``, and before version
0.15 of OTLP the scopes were ``instrumentationLibrarySpans``. Every part of a record becomes a span or a fault, or is counted as left out.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from pipelines.traces import faults
from pipelines.traces.faults import Fault
from pipelines.traces.jsonl import Record

ATTRIBUTES = "attributes"
SDK_START = "start_time"
STARTS = ("startTimeUnixNano", "start_time_unix_nano", SDK_START)
"""When a span began: nanoseconds since 1970 in OTLP, a date and time of the SDK."""

_SPANS = ("spans",)
_RESOURCES = ("resourceSpans", "resource_spans")
_SCOPES = ("scopeSpans", "scope_spans")
_OLDER_SCOPES = ("instrumentationLibrarySpans", "instrumentation_library_spans")
_OTHER_SIGNALS = tuple(
    name
    for signal in ("Metrics", "Logs", "Profiles")
    for name in (f"resource{signal}", f"resource_{signal.lower()}", f"scope{signal}", f"scope_{signal.lower()}")
)
_BESIDE_LISTS = frozenset(
    {"resource", "scope", "instrumentationLibrary", "instrumentation_library", "schemaUrl", "schema_url"}
)
_IDS = ("traceId", "trace_id", "spanId", "span_id")
_OF_DATA_POINTS = ("timeUnixNano", "time_unix_nano")
_FAILED = (2, "2", "ERROR", "STATUS_CODE_ERROR", "StatusCode.ERROR")


@dataclass(frozen=True)
class Span:
    """What is read of a span: the record that says when it began, whether it failed, those attributes that are asked for, by name."""

    record: Record
    has_failed: bool
    attributes: Record


@dataclass
class LeftOut:
    """What a log holds beside the spans that are read: records without spans, and spans that are written twice."""

    records: int = 0
    doubles: int = 0


def has_spans(record: Record) -> bool:
    """Whether a record is what an exporter of OpenTelemetry writes, be it of spans or of what stands among them in the same file."""
    lists = (*_RESOURCES, *_SCOPES, *_OLDER_SCOPES, *_OTHER_SIGNALS)
    return any(isinstance(record.get(name), list) for name in lists) or _is_otlp_span(record) or _is_sdk_span(record)


def spans_of(record: Record, wanted: Collection[str], left_out: LeftOut) -> Iterator[Span | Fault]:
    """The spans of a record with their ``wanted`` attributes, and what is wrong where none can be read; an empty record has none."""
    if _has_any(record, _RESOURCES):
        for resource in _elements(record, _RESOURCES):
            yield from (resource,) if isinstance(resource, Fault) else _of_resource(resource, wanted, left_out)
    elif _has_any(record, _SCOPES + _OLDER_SCOPES):
        yield from _of_resource(record, wanted, left_out)
    elif _has_any(record, _OTHER_SIGNALS):
        wrong = [one for one in _elements(record, _OTHER_SIGNALS) if isinstance(one, Fault)]
        yield from wrong[:1]
        left_out.records += not wrong
    elif ATTRIBUTES in record or _has_any(record, STARTS):
        yield _span(record, wanted)
    elif record:
        yield Fault(faults.MISSING, column=_RESOURCES[0])


def _of_resource(resource: Record, wanted: Collection[str], left_out: LeftOut) -> Iterator[Span | Fault]:
    """The spans of all scopes. Where both names of the list of scopes are set, OTLP has the same spans under either."""
    scopes, older = list(_elements(resource, _SCOPES)), list(_elements(resource, _OLDER_SCOPES))
    if scopes:
        left_out.doubles += sum(1 for scope in older for _ in _of_scope(scope, ()))
    elif not _has_any(resource, _SCOPES + _OLDER_SCOPES) and _has_more(resource):
        yield Fault(faults.MISSING, column=_SCOPES[0])
    for scope in scopes or older:
        yield from _of_scope(scope, wanted)


def _of_scope(scope: Record | Fault, wanted: Collection[str]) -> Iterator[Span | Fault]:
    if isinstance(scope, Fault):
        yield scope
        return
    if not _has_any(scope, _SPANS) and _has_more(scope):
        yield Fault(faults.MISSING, column=_SPANS[0])
    for span in _elements(scope, _SPANS):
        yield span if isinstance(span, Fault) else _span(span, wanted)


def _elements(record: Record, names: tuple[str, ...]) -> Iterator[Record | Fault]:
    """The objects of a list that is called one of ``names``; protobuf leaves out a list that is empty."""
    for name in names:
        value = record.get(name)
        if value is None:
            continue
        if not isinstance(value, list):
            yield Fault(faults.NOT_A_LIST, column=name)
            continue
        for one in value:
            yield one if isinstance(one, dict) else Fault(faults.NOT_A_LIST, column=name)


def _span(span: Record, wanted: Collection[str]) -> Span | Fault:
    """One span, its attributes an object, OTLP's list of pairs, or fields of the span itself."""
    attributes = span.get(ATTRIBUTES)
    if isinstance(attributes, list):
        if not all(isinstance(pair, dict) for pair in attributes):
            return Fault(faults.NOT_A_LIST, column=ATTRIBUTES)
        found = _of_pairs(attributes, wanted)
    elif attributes is None or isinstance(attributes, dict):
        named = span if attributes is None else attributes
        found = {name: named[name] for name in wanted if name in named}
    else:
        return Fault(faults.NOT_A_LIST, column=ATTRIBUTES)
    return Span(span, _has_failed(span), found)


def _of_pairs(pairs: list[Record], wanted: Collection[str]) -> dict[str, Any]:
    """Attributes from ``{"key": ..., "value": {"intValue": "12"}}``; 64-bit integers are text there."""
    found = {}
    for pair in pairs:
        key, value = pair.get("key"), pair.get("value")
        if isinstance(key, str) and key in wanted and isinstance(value, dict) and value:
            found[key] = next(iter(value.values()))
    return found


def _has_failed(span: Record) -> bool:
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else status
    return code in _FAILED if isinstance(code, str | int) else False


def _has_any(record: Record, names: Collection[str]) -> bool:
    return any(map(record.__contains__, names))


def _has_more(record: Record) -> bool:
    """Whether something stands where a list of spans is expected: it may hold spans under a name that is not known here."""
    return any(value for name, value in record.items() if name not in _BESIDE_LISTS or isinstance(value, list))


def _is_otlp_span(record: Record) -> bool:
    """Whether a record is one span; points of metrics have a start as well."""
    has_start = _has_any(record, STARTS[:2]) and not _has_any(record, _OF_DATA_POINTS)
    return has_start and (_has_any(record, _IDS) or isinstance(record.get(ATTRIBUTES), list | dict))


def _is_sdk_span(record: Record) -> bool:
    return "name" in record and SDK_START in record and isinstance(record.get(ATTRIBUTES), dict)
