"""Where spans are found: in the envelopes of OTLP, alone on a line, in a document; and what is no span."""

import json

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.otel_genai import OTEL_GENAI
from pipelines.traces.log_file import LogFile
from tests.traces.formats.spans import (
    CACHED,
    INPUT,
    ISO_NS,
    LINES,
    OTHERS,
    OUTPUT,
    START,
    Attributes,
    Write,
    chat,
    expected,
    in_file,
    in_snake_case,
    line,
    otlp,
    otlp_span,
    read,
    resource_of,
    scope_of,
    sdk,
)

TWO = (otlp_span(chat()), otlp_span(chat(7, 8, **{CACHED: 4}), start=str(START + 1)))
SCOPES = [scope_of(TWO[0]), scope_of(TWO[1])]
ENVELOPES = {
    "scopeSpans": {"resourceSpans": [resource_of(scopeSpans=SCOPES)]},
    "many resources": {"resourceSpans": [resource_of(scopeSpans=[one]) for one in SCOPES]},
    "a resource without spans": {"resourceSpans": [resource_of(), resource_of(scopeSpans=SCOPES)]},
    "instrumentationLibrarySpans": {"resourceSpans": [resource_of(instrumentationLibrarySpans=SCOPES)]},
    "an empty list beside": {"resourceSpans": [resource_of(instrumentationLibrarySpans=SCOPES, scopeSpans=[])]},
    "no envelope": resource_of(scopeSpans=SCOPES),
    "no envelope, of old": resource_of(instrumentationLibrarySpans=SCOPES),
    "metrics beside": {"resourceMetrics": [], "resourceSpans": [resource_of(scopeSpans=SCOPES)]},
}


@pytest.mark.parametrize("record", ENVELOPES.values(), ids=ENVELOPES.keys())
@pytest.mark.parametrize("is_snake_case", [False, True], ids=["camelCase", "snake_case"])
@pytest.mark.parametrize("indent", [None, 2], ids=["line", "document"])
def test_spans_are_found_in_every_envelope(
    record: dict[str, object], is_snake_case: bool, indent: int | None, log_file: Write
) -> None:
    content = json.dumps(record, indent=indent)
    path = log_file(in_snake_case(content) if is_snake_case else content)
    assert OTEL_GENAI.detect(LogFile(path, "x").head)
    rows, reading = in_file(path)
    second = 2 if indent else 1  # in a document a span's row is its place
    assert rows.equals(expected((1, START, 123, 45, None, "llama"), (second, START + 1, 7, 8, 4, "llama")))
    assert not reading.faults
    assert not reading.notes


def test_names_in_snake_case_are_those_of_protobuf() -> None:
    assert in_snake_case(otlp(otlp_span({INPUT: 12}))).startswith(
        '{"resource_spans": [{"resource": {"attributes": [{"key'
    )
    span = json.loads(in_snake_case(line(otlp_span({INPUT: 12}))))
    assert span["start_time_unix_nano"] == str(START)
    assert span["attributes"] == [{"key": INPUT, "value": {"int_value": "12"}}]


def test_spans_that_are_written_under_both_names_are_read_once(log_file: Write) -> None:
    both = resource_of(scopeSpans=SCOPES, instrumentationLibrarySpans=SCOPES)
    rows, reading = in_file(log_file(line({"resourceSpans": [both]})))
    assert rows["prompt_tokens"].to_list() == [123, 7]
    assert reading.notes == [
        "2 spans under instrumentationLibrarySpans left out: scopeSpans beside it holds the same, by the rules of OTLP"
    ]


FLAT: Attributes = {"gen_ai.request.model": "llama", INPUT: 12, OUTPUT: 3, CACHED: 4, "user.id": "SECRET"}
IDS = {"traceId": "SECRET", "spanId": "SECRET", "name": "SECRET"}
ALONE = {
    "OTLP": otlp_span(FLAT),
    "OTLP without a name": {"spanId": "SECRET"}
    | {key: otlp_span(FLAT)[key] for key in ("startTimeUnixNano", "attributes")},
    "flat attributes": IDS | {"startTimeUnixNano": str(START), "attributes": FLAT},
    "flat attributes, no ids": {"startTimeUnixNano": START, "attributes": FLAT},
    "attributes of the span itself": IDS | {"startTimeUnixNano": START} | FLAT,
    "an unset start beside": IDS | {"startTimeUnixNano": None, "start_time_unix_nano": START, "attributes": FLAT},
}


@pytest.mark.parametrize("span", ALONE.values(), ids=ALONE.keys())
@pytest.mark.parametrize("is_snake_case", [False, True], ids=["camelCase", "snake_case"])
@pytest.mark.parametrize("indent", [None, 2], ids=["line", "document"])
def test_a_span_may_stand_alone(
    span: dict[str, object], is_snake_case: bool, indent: int | None, log_file: Write
) -> None:
    content = json.dumps(span, indent=indent)
    path = log_file(in_snake_case(content) if is_snake_case else content)
    assert OTEL_GENAI.detect(LogFile(path, "x").head)
    rows, reading = in_file(path)
    assert rows.equals(expected((1, START, 12, 3, 4, "llama")))
    assert not reading.faults
    assert not reading.notes


@pytest.mark.parametrize("indent", [None, 4], ids=["line", "document"])
def test_a_span_of_an_sdk_needs_no_context(indent: int | None, log_file: Write) -> None:
    path = log_file(json.dumps(json.loads(sdk(FLAT, context=..., resource=...)), indent=indent))
    assert OTEL_GENAI.detect(LogFile(path, "x").head)
    assert in_file(path)[0].equals(expected((1, ISO_NS, 12, 3, 4, "llama")))


def test_rows_of_a_document_are_places_of_its_spans(log_file: Write) -> None:
    spans = [otlp_span({"http.method": "GET"}), *TWO, otlp_span(chat(output=0)), otlp_span(chat(9, 1), start=START + 2)]
    path = log_file(json.dumps(json.loads(otlp(*spans)), indent=2) + "\n")
    rows, reading = in_file(path)
    assert rows["row"].to_list() == [2, 3, 5]
    assert reading.faults.by_code() == {"output_tokens_zero": 1}
    assert reading.notes == [f"1 span left out that is no inference: {OTHERS}"]
    assert read(path, on_invalid="drop").rows_read == 4
    with pytest.raises(DeclarationProblems, match=r"in 1 row \(row 4\)") as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


def test_a_document_that_is_cut_off_is_refused(log_file: Write) -> None:
    path = log_file(json.dumps(json.loads(otlp(*TWO)), indent=2)[:-10])
    assert not OTEL_GENAI.detect(LogFile(path, "x").head)
    with pytest.raises(DeclarationProblems, match="a line that is not a JSON object"):
        read(path)


OTHER_SIGNALS = [
    {"resourceMetrics": [resource_of(scopeMetrics=[{"metrics": [{"name": "SECRET"}]}])]},
    {"resourceLogs": [resource_of(scopeLogs=[{"logRecords": [{"body": {"stringValue": "SECRET"}}]}])]},
    {"resourceProfiles": []},
    {"resource_metrics": [{"scope_metrics": []}]},
    {"resource_logs": []},
    resource_of(scopeMetrics=[]),
    resource_of(scope_logs=[]),
]


@pytest.mark.parametrize("other", OTHER_SIGNALS)
def test_records_of_metrics_and_logs_are_no_rows_wherever_they_stand(other: dict[str, object], log_file: Write) -> None:
    path = log_file(line(other) + LINES + line(other))
    assert OTEL_GENAI.detect(LogFile(path, "x").head)
    rows, reading = in_file(path)
    assert rows.equals(expected((2, START, 123, 45, None, "llama"), (3, ISO_NS + 1_000, 7, 8, None, "llama")))
    assert not reading.faults
    assert reading.notes == ["2 records of metrics, logs or profiles left out: they hold no spans"]
    assert read(path).rows_read == 2
    assert in_file(log_file(LINES + line(other)))[1].notes == [
        "1 record of metrics, logs or profiles left out: it holds no spans"
    ]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (line(OTHER_SIGNALS[0]), "1 record of metrics, logs or profiles"),
        (json.dumps(OTHER_SIGNALS[0], indent=1), "1 record of metrics, logs or profiles"),
        (
            line(OTHER_SIGNALS[0]) * 2 + otlp(otlp_span({"http.method": "GET"})),
            "1 span and 2 records of metrics, logs or profiles",
        ),
    ],
)
def test_a_file_without_requests_is_refused_with_what_it_holds(content: str, found: str, log_file: Write) -> None:
    with pytest.raises(DeclarationProblems, match=f"no request among {found}; expected some") as caught:
        read(log_file(content))
    assert "SECRET" not in str(caught.value)


def test_every_part_of_a_log_is_a_row_or_invalid_or_told(log_file: Write) -> None:
    parts = [scope_of(*TWO, 1, otlp_span({"a": 1}), otlp_span({}) | {"attributes": "SECRET"}), "SECRET", {"spanz": TWO}]
    content = (
        line(OTHER_SIGNALS[0])
        + line({"resourceSpans": [resource_of(scopeSpans=parts), 5, resource_of(libraries=SCOPES)]})
        + sdk(FLAT)
        + line({"message": "SECRET"})
    )
    path = log_file(content)
    rows, reading = in_file(path)
    assert rows["row"].to_list() == [2, 2, 3]
    assert reading.faults.by_code() == {"not_a_list": 4, "missing": 3}
    assert reading.notes[:2] == [
        f"1 span left out that is no inference: {OTHERS}",
        "1 record of metrics, logs or profiles left out: it holds no spans",
    ]
    assert read(path, on_invalid="drop").rows_read == 10
    with pytest.raises(DeclarationProblems) as caught:
        read(path)
    assert "SECRET" not in str(caught.value)
