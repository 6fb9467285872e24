"""Vidur's processed traces: with arrivals in seconds, or lengths alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.vidur import VIDUR
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile

Write = Callable[[str | bytes], Path]

TIMED = "arrived_at,num_prefill_tokens,num_decode_tokens"
LENGTHS = "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio"


def read(path: Path) -> Log:
    return read_as(LogFile(path, "requests.csv"), VIDUR, LogOptions())


def test_arrivals_are_seconds_cut_off_below_the_nanosecond(log_file: Write) -> None:
    path = log_file(f"{TIMED}\n0.0,4808,10\n0.052,3180,8\n199.96150599999999,161,11\n")
    assert VIDUR.detect(LogFile(path, "x").head)
    log = read(path)
    assert log.is_timed
    assert log.rows.rows() == [(0, 4808, 10), (52_000_000, 3180, 8), (199_961_505_999, 161, 11)]


def test_the_other_file_has_lengths_and_no_arrivals(log_file: Write) -> None:
    path = log_file(f"{LENGTHS}\n3772,54,3826,69.85185185185185\n2015,156,2171,12.916666666666666\n")
    assert VIDUR.detect(LogFile(path, "x").head)
    log = read(path)
    assert not log.is_timed
    assert log.rows.columns == ["prompt_tokens", "output_tokens"]
    assert log.rows.rows() == [(3772, 54), (2015, 156)]
    assert log.rows_read == 2


def test_an_empty_arrival_is_no_arrival_at_0(log_file: Write) -> None:
    with pytest.raises(
        DeclarationProblems, match="arrived_at: a timestamp that is missing or null in 1 row \\(row 3\\)"
    ):
        read(log_file(f"{TIMED}\n0.0,4808,10\n,3180,8\n"))


@pytest.mark.parametrize("other", ["session_start_at,think_time", "arrival_time", "timestamp"])
def test_a_log_that_names_its_arrivals_otherwise_is_not_taken_for_one_without(other: str, log_file: Write) -> None:
    path = log_file(f"{other},num_prefill_tokens,num_decode_tokens\n{'0,' * other.count(',')}0,1,2\n")
    assert not VIDUR.detect(LogFile(path, "x").head)
