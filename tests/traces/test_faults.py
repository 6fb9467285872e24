"""Every fault of a log is reported with its count and first rows; no row is dropped unasked and no cell is repeated."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.declarations.typed import OnInvalid
from pipelines.traces import LogOptions, read_log

Write = Callable[[str | bytes], Path]

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
GOOD = "2023-11-16 18:17:03.97,4808,10"
LATER = "2023-11-16 18:17:04.03,3180,8"
TOKENS = "expected a whole number of tokens, 1 or more"
KNOWN = "known formats: azure-llm, mooncake, burstgpt, "
DROP = "(hint: on_invalid: drop leaves such rows out and counts them)"
TIME = "expected a time such as 2023-11-16 18:17:03.9799600 or 2024-05-10T00:00:00+00:00"


def told(path: Path, format_name: str | None = "azure-llm") -> list[str]:
    with pytest.raises(DeclarationProblems) as caught:
        read_log(path, LogOptions(format_name), shown_as="requests.csv")
    return str(caught.value).splitlines()


def row(prompt: str = "1", output: str = "1", time: str = "2023-11-16 18:17:03") -> str:
    return f"{time},{prompt},{output}"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(prompt="")], f"2:1: ContextTokens: an empty token count in 1 row (row 2); {TOKENS} {DROP}"),
        (
            [row(output="ten"), GOOD, row(output="1x")],
            f"2:1: GeneratedTokens: a token count that is not a number in 2 rows (rows 2, 4); {TOKENS} {DROP}",
        ),
        (
            [GOOD, row("1.5"), row("12.0"), row("1e3"), row(".5"), row("2.5")],
            "3:1: ContextTokens: a token count that is not written as a whole number in 4 rows "
            f"(first at rows 3, 5, 6); {TOKENS} {DROP}",
        ),
        ([row("-3")], f"2:1: ContextTokens: a negative token count in 1 row (row 2); {TOKENS} {DROP}"),
        (
            [GOOD, row(output="0"), row(output="-0")],
            f"3:1: GeneratedTokens: a token count of 0 in 2 rows (rows 3, 4); {TOKENS} (hint: requests that failed or "
            "were cancelled are no part of a cohort: on_invalid: drop leaves such rows out and counts them)",
        ),
        (
            [row("2147483648"), row("99999999999999999999"), GOOD],
            f"2:1: ContextTokens: a token count above 2147483647 in 2 rows (rows 2, 3); {TOKENS} {DROP}",
        ),
        ([row(time=""), GOOD], f"2:1: TIMESTAMP: an empty timestamp in 1 row (row 2); {TIME} {DROP}"),
        ([GOOD, row(time="soon")], f"3:1: TIMESTAMP: a timestamp that cannot be read in 1 row (row 3); {TIME} {DROP}"),
        (
            [GOOD, "2023-11-16 18:17:03,1", LATER],
            f"3:1: a row with fewer fields than the header in 1 row (row 3); expected one field per column {DROP}",
        ),
        (
            [GOOD, "2023-11-16 18:17:03,1,2,3", LATER],
            "3:1: a row with more fields than the header in 1 row (row 3); expected one field per column "
            "(hint: quote fields that contain a comma)",
        ),
        (
            [GOOD, "", LATER],
            f"3:1: a blank line between rows in 1 row (row 3); expected blank lines at the end of the file only {DROP}",
        ),
        (
            [GOOD, '2023-11-16 18:17:03,"1,1', LATER],
            "3:1: a quoted field that is never closed; expected a closing quote before the end of the file",
        ),
        (
            [GOOD, '2023-11-16 18:17:03,"1"2,1', LATER],
            "3:1: text after a closing quote in 1 row (row 3); expected a comma or the end of the line "
            '(hint: write a quote inside a field as "")',
        ),
        (
            ["2023-11-16 18:17:03,1,1", "2023-11-16 18:17:04Z,1,1", "2023-11-16 18:17:05+01:00,1,1"],
            "3:1: TIMESTAMP: timestamps with a UTC offset in 2 rows (rows 3, 4) and without one in 1 row (row 2); "
            "expected all or none to state it",
        ),
        (
            [GOOD, HEADER, LATER],
            f"3:1: the header line again in 1 row (row 3); expected it once, at the top (hint: were files joined? {DROP[7:]}",
        ),
        (
            [GOOD, f"{GOOD}\r{GOOD}", LATER],
            "3:1: a carriage return within a row in 1 row (row 3); expected lines that all end alike: with LF, or with CR "
            f"and LF {DROP}",
        ),
    ],
)
def test_a_fault_is_told_with_its_count_and_rows(rows: list[str], message: str, log_of: Callable[..., Path]) -> None:
    assert told(log_of(*rows)) == [f"requests.csv:{message}"]


def test_many_faults_are_counted_and_the_first_three_rows_named(log_of: Callable[..., Path]) -> None:
    rows = [GOOD, LATER] * 100
    for place in (3, 7, 10, 50, 60):
        rows[place] = "2023-11-16 18:17:03,many,1"
    expected = (
        f"5:1: ContextTokens: a token count that is not a number in 5 rows (first at rows 5, 9, 12); {TOKENS} {DROP}"
    )
    assert told(log_of(*rows)) == [f"requests.csv:{expected}"]


def test_all_kinds_of_fault_are_told_at_once_in_order_of_their_first_row(log_of: Callable[..., Path]) -> None:
    lines = told(log_of(GOOD, row("x", "0"), "1,2", row(time="?"), row(output="0"), LATER))
    assert [line.split(": ")[0] for line in lines] == [f"requests.csv:{place}:1" for place in (3, 4, 5, 6)]


def test_a_row_is_invalid_once_however_much_is_wrong_with_it(log_of: Callable[..., Path]) -> None:
    log = read_log(log_of(GOOD, row("x", "0", "?"), LATER), LogOptions(on_invalid="drop"))
    assert (log.rows.height, log.rows_read, log.invalid.by_code()) == (2, 3, {"time_not_a_time": 1})


def test_dropped_rows_are_counted_by_kind_and_the_rest_is_read(log_of: Callable[..., Path]) -> None:
    rows = [GOOD, row("0"), row(output="0"), row(output="0"), "", "1,2", LATER, "", ""]
    log = read_log(log_of(*rows), LogOptions(on_invalid="drop"))
    assert log.rows.rows() == [(0, 4808, 10), (60_000_000, 3180, 8)]
    expected = {"output_tokens_zero": 2, "blank_line": 1, "prompt_tokens_zero": 1, "too_few_fields": 1}
    assert (log.rows_read, log.invalid.by_code()) == (7, expected)


def test_a_log_of_invalid_rows_alone_is_refused_even_so(log_of: Callable[..., Path]) -> None:
    with pytest.raises(
        DeclarationProblems, match="no requests, all 2 rows are invalid; expected a request log with rows"
    ):
        read_log(log_of(row("0"), row("x")), LogOptions(on_invalid="drop"))


def test_rows_above_the_context_are_invalid(log_of: Callable[..., Path]) -> None:
    log = read_log(log_of(GOOD, row("4000", "96"), row("4000", "97")), LogOptions(None, "drop", 4096))
    assert log.rows.rows() == [(0, 4000, 96)]
    assert list(log.invalid.rows.values()) == [[2, 4]]
    assert log.invalid.by_code() == {"above_context": 2}


@pytest.mark.parametrize("last", ["2023-11-16 18:17:04.03,31", "2023-11-16 18", "2023-11-16 18:17:04.03,"])
def test_a_file_that_ends_within_a_row_is_told_as_cut_off(last: str, log_file: Write) -> None:
    assert told(log_file(f"{HEADER}\n{GOOD}\n{LATER}\n{last}")) == [
        "requests.csv:4:1: a last line that is cut off: fewer fields than the header and no newline in 1 row (row 4); "
        "expected a whole row (hint: was the file copied to its end?)"
    ]


@pytest.mark.parametrize("extra", ["2023-11-16 18:17:05,1,1,\xe9\n", "\xe9,1,1,x\n", "2023-11-16 18:17:05,1,1,\xe9"])
def test_bytes_that_are_not_utf8_are_told(extra: str, log_file: Write) -> None:
    content = f"{HEADER},Note\n{GOOD},a\n{LATER},b\n".encode() + extra.encode("latin-1")
    assert told(log_file(content)) == [
        "requests.csv:4:1: bytes that are not UTF-8 in 1 row (row 4); expected a UTF-8 file "
        "(hint: convert the file, for example with iconv)"
    ]


def test_line_numbers_count_lines_inside_quotes(log_file: Write) -> None:
    content = f'{HEADER},Note\n{GOOD},"one\ntwo\nthree"\n2023-11-16 18:17:04,x,1,"four\nfive"\n'
    assert told(log_file(content))[0].startswith("requests.csv:5:1: ContextTokens: a token count that is not a number")


@pytest.mark.parametrize(
    ("content", "format_name", "message"),
    [
        ("", None, "the file is empty; expected a request log"),
        ("\n \r\n", "azure-llm", "the file is empty; expected a request log"),
        (f"{HEADER}\n", None, "no requests; expected a request log with rows"),
        (HEADER, None, "no requests; expected a request log with rows"),
        (
            "Time,Model,Request tokens,Response tokens\n1,2,3,4\n",
            None,
            "the format is not recognised from the first line, which has the columns Time, Model, Request tokens, "
            f"Response tokens; {KNOWN}",
        ),
        (
            ",".join(f"column{number}" for number in range(12)),
            None,
            "the format is not recognised from the first line, which has the columns column0, column1, column2, column3, "
            f"column4, column5, column6, column7 and 4 more; {KNOWN}",
        ),
        (
            "TIMESTAMP,a very long name that goes on and on and on and on,{}\n",
            None,
            "the format is not recognised from the first line, which has the columns TIMESTAMP, (another name), "
            f"(another name); {KNOWN}",
        ),
        (
            f"{GOOD}\n{LATER}\n",
            None,
            f"the format is not recognised from the first line, which has no column names; {KNOWN}",
        ),
        (f"{HEADER}\n{GOOD}\n", "azure", f"unknown trace format; {KNOWN}"),
        (
            "TIMESTAMP,ContextTokens\n",
            "azure-llm",
            "GeneratedTokens: no such column; found the columns TIMESTAMP, ContextTokens",
        ),
        (
            f"ContextTokens,{HEADER}\n",
            None,
            "ContextTokens: more than one such column; found the columns ContextTokens, TIMESTAMP, ContextTokens, "
            "GeneratedTokens",
        ),
        (
            "TIMESTAMP\tContextTokens\tGeneratedTokens\n",
            None,
            f"the format is not recognised from the first line, which has no column names; {KNOWN}",
        ),
        (
            f'{HEADER},"Note\n{GOOD}\n',
            None,
            f"the format is not recognised from the first line, which has no column names; {KNOWN}",
        ),
    ],
)
def test_a_file_that_is_no_log_is_told(
    content: str | bytes, format_name: str | None, message: str, log_file: Write
) -> None:
    (line,) = told(log_file(content), format_name)
    # which formats are known, beside the first, is the registry's to say
    assert line.startswith(f"requests.csv:1:1: {message}")
    assert message.endswith(KNOWN) or line == f"requests.csv:1:1: {message}"


@pytest.mark.parametrize(
    ("first", "hint"),
    [
        (f"{GOOD}", "is the header line missing? put the column names on the first line"),
        ("TIMESTAMP\tContextTokens\tGeneratedTokens", "are the fields separated by tabs? expected commas"),
        ("TIMESTAMP;ContextTokens;GeneratedTokens", "are the fields separated by semicolons? expected commas"),
        (
            "Time,Model,Request tokens,Response tokens",
            "burstgpt comes nearest; it has Timestamp beside those, in this spelling",
        ),
        (
            "timestamp,contexttokens,generatedtokens",
            "azure-llm comes nearest; it has TIMESTAMP, ContextTokens, GeneratedTokens beside those, in this spelling",
        ),
    ],
)
def test_a_file_of_no_known_format_is_told_what_may_be_meant(first: str, hint: str, log_file: Write) -> None:
    (line,) = told(log_file(f"{first}\n{GOOD}\n"), None)
    assert line.endswith(f"generic: any other, with its columns named (hint: {hint})")


def test_a_missing_file_and_a_directory_are_told(tmp_path: Path) -> None:
    assert told(tmp_path / "none.csv") == ["requests.csv:1:1: cannot be read: no such file or directory"]
    assert told(tmp_path) == ["requests.csv:1:1: cannot be read: is a directory"]


CANARY = "canary"


@pytest.mark.parametrize(
    "content",
    [
        f'{HEADER},Prompt\n{GOOD},"{CANARY}, {CANARY}"\n{LATER},{CANARY}\n',
        f"{CANARY} wrote this,{GOOD}\n",
        f"{CANARY}: 5 apples,please,now\n",
        f"Hello {CANARY} this is a prompt that somebody typed into the chat window,ok\n",
        f'{{"prompt": "{CANARY}", "tokens": 5}}\n',
        f"{HEADER},Prompt\n{CANARY},{CANARY},{CANARY},{CANARY}\n{CANARY}\n{GOOD},a,{CANARY}\n",
        f'{HEADER},Prompt\n{GOOD},"{CANARY}\n',
        f'{HEADER},Prompt\n{GOOD},"{CANARY}"{CANARY}\n{LATER},b\n',
        f"{HEADER},Prompt\n{GOOD},{CANARY}\xff\n".encode("latin-1"),
        f"{HEADER},Prompt\n{GOOD},{CANARY}\n{LATER},{CANARY}",
    ],
)
@pytest.mark.parametrize("on_invalid", ["reject", "drop"])
def test_nothing_that_a_person_wrote_leaves_the_log(
    content: str | bytes, on_invalid: OnInvalid, log_file: Write
) -> None:
    try:
        shown = repr(read_log(log_file(content), LogOptions(on_invalid=on_invalid)))
    except DeclarationProblems as problems:
        shown = f"{problems} {problems.problems!r}"
    assert CANARY not in shown


def test_only_three_columns_are_kept(log_file: Write) -> None:
    log = read_log(log_file(f"{HEADER},Prompt,User\n{GOOD},{CANARY},1\n{LATER},b,2\n"), LogOptions())
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens"]
