"""What a file of the Azure format may look like, and what is read from it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces import LogOptions, read_log
from pipelines.traces.formats.azure_llm import AZURE_LLM
from pipelines.traces.log_file import LogFile

Write = Callable[[str | bytes], Path]

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
FIRST = "2023-11-16 18:17:03.9799600,4808,10"
SECOND = "2023-11-16 18:17:04.0319600,3180,8"
REQUESTS = [(0, 4808, 10), (52_000_000, 3180, 8)]


@pytest.mark.parametrize(
    "content",
    [
        f"{HEADER}\n{FIRST}\n{SECOND}\n",
        f"{HEADER}\n{FIRST}\n{SECOND}",
        f"{HEADER}\r\n{FIRST}\r\n{SECOND}\r\n",
        f"{HEADER}\r{FIRST}\r{SECOND}\r",
        f"{HEADER}\n{FIRST}\n{SECOND}\n\n",
        f"{HEADER}\r\n{FIRST}\r\n{SECOND}\r\n\r\n  \r\n",
        f"\N{ZERO WIDTH NO-BREAK SPACE}{HEADER}\n{FIRST}\n{SECOND}\n",
        f'\N{ZERO WIDTH NO-BREAK SPACE}"TIMESTAMP",ContextTokens,GeneratedTokens\n{FIRST}\n{SECOND}\n',
        f"{HEADER}\n{SECOND}\n{FIRST}\n",
        f'{HEADER}\n"2023-11-16 18:17:03.9799600","4808","10"\n{SECOND}\n',
        "GeneratedTokens,TIMESTAMP,ContextTokens\n10,2023-11-16 18:17:03.97996,4808\n8,2023-11-16 18:17:04.03196,3180\n",
        " TIMESTAMP , ContextTokens , GeneratedTokens \n"
        "2023-11-16 18:17:03.97996 , 4808 , 10 \n2023-11-16 18:17:04.03196,3180,8\n",
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.97996,,4808,10\n2023-11-16 18:17:04.03196,2,3180,8\n",
        'Note,TIMESTAMP,ContextTokens,GeneratedTokens\n"two\nlines, and a ""quote""",'
        "2023-11-16 18:17:03.97996,4808,10\nünïcode,2023-11-16 18:17:04.03196,+3180,008\n",
        f"{HEADER},Count\n{FIRST},1.5\n{SECOND},words\n",
    ],
    ids=[
        "plain",
        "no newline at the end",
        "crlf",
        "cr",
        "blank last line",
        "blank last lines with crlf",
        "byte order mark",
        "byte order mark before a quote",
        "unsorted",
        "quoted",
        "columns in another order",
        "space around cells",
        "an empty column more",
        "quotes and lines in a column that is not read",
        "a column of mixed types that is not read",
    ],
)
def test_the_same_requests_are_read_from(content: str, log_file: Write) -> None:
    path = log_file(content)
    assert AZURE_LLM.detect(LogFile(path, "x").head)
    log = read_log(path, LogOptions())
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens"]
    assert log.rows.rows() == REQUESTS
    assert (log.format, log.rows_read, log.invalid.total, log.is_timed) == ("azure-llm", 2, 0, True)


@pytest.mark.parametrize(
    ("first", "second", "apart_ns"),
    [
        ("2023-11-16 18:17:03", "2023-11-16 18:17:04.5", 1_500_000_000),
        ("2023-11-16 18:17:03.123456789", "2023-11-16 18:17:03.12345679", 1),
        ("2023-11-16T18:17:03.1", "2023-11-16T18:17:03.100001", 1_000),
        ("2023-11-16T18:17:03", "2023-11-16 18:17:04", 1_000_000_000),
        ("2024-05-10 00:00:00.009930+00:00", "2024-05-10 00:00:01+00:00", 990_070_000),
        ("2024-05-10T00:00:00Z", "2024-05-10T00:00:00.25Z", 250_000_000),
        ("2024-05-10T00:00:00Z", "2024-05-10T00:00:01+00:00", 1_000_000_000),
        ("2024-05-10T02:00:00+02:00", "2024-05-09T20:00:01-0400", 1_000_000_000),
        ("2024-05-10T00:00:00+05:30", "2024-05-10T00:00:00-05:30", 39_600_000_000_000),
        ("2024-02-28 23:59:59", "2024-03-01 00:00:00", 86_401_000_000_000),
        ("1970-01-01 00:00:00", "1970-01-01 00:00:01", 1_000_000_000),
        ("2199-12-31 23:59:58", "2199-12-31 23:59:59", 1_000_000_000),
    ],
)
def test_timestamps_are_read_to_the_nanosecond(
    first: str, second: str, apart_ns: int, log_of: Callable[..., Path]
) -> None:
    rows = read_log(log_of(f"{first},1,1", f"{second},1,1"), LogOptions("azure-llm")).rows
    assert rows["timestamp_ns"].to_list() == [0, apart_ns]


@pytest.mark.parametrize(
    "time",
    [
        "2023-02-29 00:00:00",
        "2023-13-01 00:00:00",
        "2023-11-16 24:00:00",
        "2023-11-16 18:60:00",
        "2023-11-16 18:17:60",
        "2023-11-16 18:17:03.",
        "2023-11-16 18:17",
        "2023-11-16",
        "2023-11-16  18:17:03",
        "2023-11-16t18:17:03",
        "2023-11-16 18:17:03 UTC",
        "2023-11-16 18:17:03+0",
        "2023-11-16 18:17:03+24:00",
        "16/11/2023 18:17:03",
        "٢٠٢٣-11-16 18:17:03",
        "0000-01-01 00:00:00",
    ],
)
def test_what_is_not_a_time_is_refused(time: str, log_of: Callable[..., Path]) -> None:
    with pytest.raises(DeclarationProblems) as caught:
        read_log(log_of("2023-11-16 18:17:03,1,1", f"{time},1,1"), LogOptions())
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (3, "TIMESTAMP")
    assert problem.message.startswith("a timestamp that cannot be read in 1 row (row 3); expected a time such as ")


def test_a_number_in_place_of_a_time_is_asked_for_its_unit(log_of: Callable[..., Path]) -> None:
    with pytest.raises(DeclarationProblems) as caught:
        read_log(log_of("2023-11-16 18:17:03,1,1", "1700158623,1,1"), LogOptions())
    (problem,) = caught.value.problems
    assert problem.message.startswith("a number for a date with a time in 1 row (row 3); expected a time such as ")
    assert problem.hint == "is it in s, ms, us or ns? declare that as its unit"


@pytest.mark.parametrize(("time", "ns"), [("03.1234567899", 123_456_789), ("03.5+02", 500_000_000)])
def test_digits_beyond_a_nanosecond_are_cut_off_and_offsets_may_be_short(
    time: str, ns: int, log_of: Callable[..., Path]
) -> None:
    first = f"2023-11-16 18:17:03{'+02' if '+' in time else ''}"
    log = read_log(log_of(f"{first},1,1", f"2023-11-16 18:17:{time},1,1"), LogOptions())
    assert log.rows["timestamp_ns"].to_list() == [0, ns]


@pytest.mark.parametrize(
    "time", ["1969-12-31 23:59:59", "1899-12-31 23:59:59", "2200-01-01 00:00:00", "9999-12-31 23:59:59"]
)
def test_a_time_of_another_age_is_refused(time: str, log_of: Callable[..., Path]) -> None:
    with pytest.raises(DeclarationProblems) as caught:
        read_log(log_of("2023-11-16 18:17:03,1,1", f"{time},1,1"), LogOptions())
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (3, "TIMESTAMP")
    assert problem.message == (
        "a timestamp outside the years 1970 to 2199 in 1 row (row 3); expected a time of this age; is the unit right?"
    )


def test_rows_are_put_in_order_of_time_and_ties_stay_as_they_are(log_of: Callable[..., Path]) -> None:
    rows = ["2023-11-16 18:17:05,9,9", "2023-11-16 18:17:04,5,3", "2023-11-16 18:17:04,5,2", "2023-11-16 18:17:04,4,7"]
    log = read_log(log_of(*rows), LogOptions())
    assert log.rows.rows() == [(0, 5, 3), (0, 5, 2), (0, 4, 7), (10**9, 9, 9)]


def test_a_file_with_a_very_long_text_is_read(log_file: Write) -> None:
    content = f'{HEADER},Prompt\n{FIRST},"{"word, " * 50_000}"\n{SECOND},"short"\n'
    assert read_log(log_file(content), LogOptions()).rows.rows() == REQUESTS
