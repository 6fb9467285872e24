"""Spans of generative AI: as the exporters of OTLP write them, and one span a line."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pipelines.declarations.problems import DeclarationProblems
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


def test_an_otlp_line_holds_many_spans_or_none(log_file: Write) -> None:
    content = (
        otlp(otlp_span(chat()), otlp_span(chat(7, 8, **{CACHED: 4}), start=str(START + 1)))
        + otlp(otlp_span({"http.method": "GET"}))
        + "{}\n"
        + otlp()
        + otlp(otlp_span(chat(9, 1, **{"gen_ai.request.model": ...}), start=START + 2))
    )
    rows, reading = in_file(log_file(content))
    assert rows.equals(
        expected((1, START, 123, 45, None, "llama"), (1, START + 1, 7, 8, 4, "llama"), (5, START + 2, 9, 1, None, None))
    )
    assert not reading.faults
    assert reading.notes == [f"1 span left out that is no inference: {OTHERS}"]


def test_one_span_a_line_is_read_as_the_sdk_writes_it(log_file: Write) -> None:
    path = log_file(sdk(chat(**{CACHED: 100})) + sdk(chat(7, 8), start="2025-07-31T13:43:04.864170Z"))
    rows, reading = in_file(path)
    assert rows.rows() == [(1, ISO_NS, 123, 45, 100, "llama"), (2, ISO_NS + 10**8, 7, 8, None, "llama")]
    assert not reading.notes
    assert OTEL_GENAI.detect(LogFile(path, "x").head)


LINES = otlp(otlp_span(chat())) + sdk(chat(7, 8), start="2025-07-31T13:43:04.764171Z")


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        LINES.rstrip("\n"),
        LINES.replace("\n", "\r\n"),
        f"\N{ZERO WIDTH NO-BREAK SPACE}{LINES}",
        f"{LINES}\n \n",
        "".join(reversed(LINES.splitlines(keepends=True))),
        gzip.compress(LINES.encode()),
    ],
    ids=["plain", "no newline", "CRLF", "BOM", "blank end", "unsorted", "gzip"],
)
def test_a_log_reads_the_same_however_its_lines_are_written(content: str | bytes, log_file: Write) -> None:
    path = log_file(content)
    assert OTEL_GENAI.detect(LogFile(path, "x").head)
    log = read(path)
    assert log.rows.select("timestamp_ns", "prompt_tokens", "output_tokens").rows() == [(0, 123, 45), (679, 7, 8)]


@pytest.mark.parametrize("operation", ["chat", "text_completion", "generate_content"])
def test_inferences_are_requests(operation: str, log_file: Write) -> None:
    path = log_file(sdk(chat(**{"gen_ai.operation.name": operation})))
    assert counts(path) == [(123, 45, None)]


@pytest.mark.parametrize(
    "operation", ["embeddings", "execute_tool", "invoke_agent", "create_agent", "retrieval", "SECRET", ""]
)
def test_other_spans_are_neither_rows_nor_invalid(operation: object, log_file: Write) -> None:
    other = sdk(chat(**{"gen_ai.operation.name": operation}))
    log = read(log_file(LINES + other * 2))
    assert log.rows_read == 2
    assert log.warnings == (f"2 spans left out that are no inferences: {OTHERS}",)
    with pytest.raises(DeclarationProblems) as caught:
        read(log_file(other * 2))
    assert (
        "no request among 2 spans; expected some whose gen_ai.operation.name is chat, text_completion or "
        "generate_content, or that have both token counts"
    ) in str(caught.value)


OLDER_INPUT, OLDER_OUTPUT = "gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"


def test_older_names_of_token_counts_are_read(log_file: Write) -> None:
    older = {"gen_ai.operation.name": "chat", OLDER_INPUT: 123, OLDER_OUTPUT: 45}
    assert counts(log_file(sdk(older) + otlp(otlp_span(older)))) == [(123, 45, None)] * 2


@pytest.mark.parametrize("prompt", [INPUT, OLDER_INPUT])
@pytest.mark.parametrize("output", [OUTPUT, OLDER_OUTPUT])
def test_a_span_that_names_no_operation_is_an_inference_if_it_has_both_token_counts_as_those_of_vllm(
    prompt: str, output: str, log_file: Write
) -> None:
    unnamed: Attributes = {prompt: 123, output: 45}
    rows, reading = in_file(log_file(sdk(unnamed) + otlp(otlp_span(unnamed))))
    assert rows.equals(expected((1, ISO_NS, 123, 45, None, None), (2, START, 123, 45, None, None)))
    assert not reading.notes
    assert not reading.faults


@pytest.mark.parametrize(
    "attributes",
    [
        {INPUT: 123},
        {OUTPUT: 45},
        {OLDER_INPUT: 123, INPUT: 123},
        {INPUT: 123, OUTPUT: None},
        {INPUT: 123, OUTPUT: 45, "gen_ai.operation.name": "embeddings"},
        {OLDER_INPUT: 123, OLDER_OUTPUT: 45, "gen_ai.operation.name": "invoke_agent"},
        {INPUT: 123, OUTPUT: 45, "gen_ai.agent.name": "SECRET"},
        {INPUT: 123, OUTPUT: 45, "gen_ai.tool.name": "SECRET"},
        {INPUT: 123, OUTPUT: 45, "agent_name": "SECRET", "model_name": "SECRET"},
    ],
)
@pytest.mark.parametrize("kind", ["otlp", "sdk"])
def test_a_span_that_lacks_a_count_or_is_of_something_else_is_no_inference(
    attributes: Attributes, kind: str, log_file: Write
) -> None:
    other = otlp(otlp_span(attributes)) if kind == "otlp" else sdk(attributes)
    rows, reading = in_file(log_file(LINES + other))
    assert rows["row"].to_list() == [1, 2]
    assert not reading.faults
    assert reading.notes == [f"1 span left out that is no inference: {OTHERS}"]


def test_an_inference_may_name_the_agent_that_it_is_for(log_file: Write) -> None:
    assert counts(log_file(sdk(chat(**{"gen_ai.agent.name": "SECRET"})))) == [(123, 45, None)]


def test_spans_that_may_sum_up_others_are_told(log_file: Write) -> None:
    unnamed: Attributes = {INPUT: 130, OUTPUT: 53}
    rows, reading = in_file(log_file(LINES + sdk(unnamed)))
    assert rows["prompt_tokens"].to_list() == [123, 7, 130]
    assert reading.notes == [
        "1 span without a gen_ai.operation.name read as inferences, for their token counts, beside 2 with one: "
        "if they sum up others, their tokens count twice"
    ]


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


def test_the_names_of_the_convention_go_before_older_ones(log_file: Write) -> None:
    both = chat(**{"gen_ai.usage.prompt_tokens": 1, "gen_ai.usage.completion_tokens": 2})
    unset = chat(None, None, **{"gen_ai.usage.prompt_tokens": 3, "gen_ai.usage.completion_tokens": 4})
    assert counts(log_file(sdk(both) + sdk(unset))) == [(123, 45, None), (3, 4, None)]


@pytest.mark.parametrize(
    "name",
    [
        CACHED,
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.cached_tokens",
        "gen_ai.usage.input_tokens.cached",
        "gen_ai.usage.prompt_tokens_details.cached_tokens",
        "gen_ai.usage.details.cache_read_tokens",
    ],
)
def test_cached_tokens_are_read_by_any_of_their_names(name: str, log_file: Write) -> None:
    assert counts(log_file(otlp(otlp_span(chat(**{name: 100}))) + sdk(chat(**{name: 0})))) == [
        (123, 45, 100),
        (123, 45, 0),
    ]


def test_more_cached_tokens_than_prompt_tokens_are_told_and_spans_without_stay(log_file: Write) -> None:
    path = log_file(sdk(chat()) + sdk(chat(**{CACHED: 124})) + sdk(chat(**{CACHED: 123})))
    log = read(path, on_invalid="drop")
    assert log.invalid.by_code() == {"cached_prompt_tokens_above_prompt": 1}
    assert log.rows["cached_prompt_tokens"].to_list() == [None, 123]


@pytest.mark.parametrize(
    "failed",
    [
        sdk(chat(**{"error.type": "SECRET"})),
        sdk(chat(output=..., **{"error.type": "timeout"})),
        sdk(chat(), status={"status_code": "ERROR", "description": "SECRET"}),
        otlp(otlp_span(chat(), status={"code": 2, "message": "SECRET"})),
        otlp(otlp_span(chat(), status={"code": "STATUS_CODE_ERROR"})),
        otlp(otlp_span(chat(**{"error.type": "SECRET"}))),
    ],
)
def test_a_span_that_failed_is_invalid(failed: str, log_file: Write) -> None:
    path = log_file(LINES + failed)
    log = read(path, on_invalid="drop")
    assert log.invalid.by_code() == {"failed": 1}
    assert log.rows_read == 3
    with pytest.raises(DeclarationProblems, match="a request that failed in 1 row") as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("status", [{"code": 0}, {"code": 1}, {"status_code": "OK"}, {}, None])
def test_a_span_whose_status_is_no_error_is_a_request(status: object, log_file: Write) -> None:
    assert (
        counts(log_file(otlp(otlp_span(chat(), status=status)) + sdk(chat(), status=status))) == [(123, 45, None)] * 2
    )


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        (chat(prompt=...), "prompt_tokens_empty"),
        (chat(output=...), "output_tokens_empty"),
        (chat(prompt=None), "prompt_tokens_empty"),
        (chat(prompt=0), "prompt_tokens_zero"),
        (chat(output=0), "output_tokens_zero"),
        (chat(output=-1), "output_tokens_negative"),
        (chat(output="SECRET"), "output_tokens_not_a_number"),
        (chat(output=1.5), "output_tokens_not_whole"),
        (chat(output=True), "output_tokens_not_a_number"),
        (chat(**{CACHED: -1}), "cached_prompt_tokens_negative"),
        (chat(**{CACHED: "SECRET"}), "cached_prompt_tokens_not_a_number"),
    ],
)
@pytest.mark.parametrize("kind", ["otlp", "sdk"])
def test_a_count_that_cannot_be_read_makes_its_span_invalid(
    attributes: Attributes, code: str, kind: str, log_file: Write
) -> None:
    wrong = otlp(otlp_span(attributes)) if kind == "otlp" else sdk(attributes)
    path = log_file(LINES + wrong)
    log = read(path, on_invalid="drop")
    assert log.invalid.by_code() == {code: 1}
    assert log.rows_read == 3
    with pytest.raises(DeclarationProblems, match="row 3") as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (otlp(otlp_span(chat(), start=None)), "time_empty"),
        (otlp(otlp_span(chat(), start="0")), "time_empty"),
        (otlp(otlp_span(chat(), start=0)), "time_empty"),
        (otlp(otlp_span(chat(), start="SECRET")), "time_not_a_time"),
        (otlp(otlp_span(chat(), start="-1")), "time_negative"),
        (sdk(chat(), start=None), "time_empty"),
        (sdk(chat(), start="SECRET"), "time_not_a_time"),
        (sdk(chat(), start=12), "time_not_a_time"),
    ],
)
def test_a_span_without_a_start_is_none_at_time_0(wrong: str, code: str, log_file: Write) -> None:
    path = log_file(LINES + wrong)
    assert read(path, on_invalid="drop").invalid.by_code() == {code: 1}
    with pytest.raises(DeclarationProblems, match="row 3") as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


def test_every_span_of_a_line_is_counted_for_itself(log_file: Write) -> None:
    spans = [otlp_span(chat()), otlp_span(chat(output=0)), otlp_span(chat(output=0)), otlp_span(chat(7, 8))]
    log = read(log_file(otlp(*spans)), on_invalid="drop")
    assert log.invalid.by_code() == {"output_tokens_zero": 2}
    assert log.rows_read == 4


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ('{"resourceSpans": "SECRET"}', "not_a_list"),
        ('{"resourceSpans": [{"scopeSpans": {}}]}', "not_a_list"),
        ('{"resourceSpans": [{"scopeSpans": [{"spans": [1]}]}]}', "not_a_list"),
        ('{"resourceSpans": [{"spans": [{}]}]}', "missing"),
        ('{"resourceSpans": [{"scopeSpans": [{"span": {}}, {"span": {"a": 1}}]}]}', "missing"),
        ('{"resourceSpans": [{"resource": [{"spans": []}]}]}', "missing"),
        ('{"resourceMetrics": "SECRET"}', "not_a_list"),
        ('{"resourceLogs": ["SECRET", "SECRET"]}', "not_a_list"),
        ('{"scopeSpans": "SECRET"}', "not_a_list"),
        ('{"startTimeUnixNano": "12", "attributes": "SECRET"}', "not_a_list"),
        ('{"start_time": "SECRET", "attributes": ["SECRET"]}', "not_a_list"),
        ('{"message": "SECRET"}', "missing"),
        ('["SECRET"]', "not_json"),
        ("SECRET", "not_json"),
        ("", "blank_line"),
    ],
)
def test_a_line_that_holds_no_spans_is_invalid(wrong: str, code: str, log_file: Write) -> None:
    path = log_file(f"{LINES}{wrong}\n{LINES}")
    assert read(path, on_invalid="drop").invalid.by_code() == {code: 1}
    with pytest.raises(DeclarationProblems, match="row 3") as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


def test_attributes_of_odd_shapes_are_passed_over(log_file: Write) -> None:
    odd = [{"key": ["a"], "value": {"intValue": "1"}}, {"key": INPUT, "value": 5}, {"value": {}}, {"key": CACHED}]
    span = otlp_span(chat())
    assert counts(log_file(otlp(span | {"attributes": [*span["attributes"], *odd]}))) == [(123, 45, None)]  # type: ignore[misc]


def test_a_last_line_that_is_cut_off_is_told(log_file: Write) -> None:
    assert read(log_file(LINES + LINES[:50]), on_invalid="drop").invalid.by_code() == {"cut_off": 1}


def test_times_with_and_without_an_offset_cannot_be_put_in_order(log_file: Write) -> None:
    with pytest.raises(DeclarationProblems, match="with a UTC offset"):
        read(log_file(LINES + sdk(chat(), start="2025-07-31T13:43:04")))


def test_no_text_and_no_id_leaves_the_reader(log_file: Write) -> None:
    texts = {"gen_ai.input.messages": "SECRET", "gen_ai.conversation.id": "SECRET", "user.id": "SECRET"}
    content = (
        otlp(otlp_span(chat(**texts))) + sdk(chat(**{CACHED: 4}, **texts)) + sdk(chat(output=0, **texts)) + sdk(texts)
    )
    path = log_file(content)
    log = read(path, on_invalid="drop")
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens", "cached_prompt_tokens", "model"]
    assert log.rows.height == 2
    assert "SECRET" not in repr(log)
    with pytest.raises(DeclarationProblems) as caught:
        read(path)
    assert "SECRET" not in str(caught.value)


def test_a_log_of_spans_is_known_by_its_first_line_whatever_its_spans_are(log_file: Write) -> None:
    def known(content: str) -> bool:
        return OTEL_GENAI.detect(LogFile(log_file(content), "x").head)

    assert known(otlp())
    assert known(otlp(otlp_span({"http.method": "GET"})))
    assert known(sdk({"http.method": "GET"}))
    assert known('{"resourceSpans": []}')
    assert known(line(otlp_span({})))
    assert known('{"traceId": "a", "spanId": "b", "name": "c", "startTimeUnixNano": "1"}')
    assert known(sdk({"http.method": "GET"}, context=...))
    assert known('{"resourceLogs": []}')
    assert not known('{"resourceLogs": 1}')
    assert not known('{"startTimeUnixNano": "1", "timeUnixNano": "2", "asInt": "3", "attributes": []}')
    assert not known('{"startTimeUnixNano": "1"}')
    assert not known('{"start_time": 1, "attributes": {}}')
    assert not known('{"name": "a", "start_time": "x", "attributes": []}')
    assert not known('{"attributes": {"gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 1}}')
    assert not known('{"name": "a", "context": {}, "start_time": "x"}')
    assert not known('{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": []}')
    assert not known("name,context,start_time,attributes\na,b,c,d\n")
