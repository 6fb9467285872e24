"""Spans of generative AI: as the exporters of OTLP write them, and one span a line."""

import gzip

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
    counts,
    expected,
    in_file,
    line,
    otlp,
    otlp_span,
    read,
    sdk,
)


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


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        LINES.rstrip("\n"),
        LINES.replace("\n", "\r\n"),
        f"\N{ZERO WIDTH NO-BREAK SPACE}{LINES}",
        f"{LINES}\n \n",
        "".join(reversed(LINES.splitlines(keepends=True))),
        gzip.compress(LINES.encode(), mtime=0),
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
