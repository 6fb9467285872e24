"""Given the requests, every figure of the workload is recomputed from them."""

import copy
import csv
import gzip
import hashlib
import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle import Unreadable, main, verify
from pipelines.oracle.findings import Ledger
from pipelines.oracle.measuring import Bucket, Measured, measure, scv_of
from pipelines.oracle.remeasuring import check_requests
from pipelines.oracle.requests_file import HEADER, Columns, Row, requests_from
from tests.oracle.forging import Receipt, attach, load, matrix_rows, name_anew, write
from tests.oracle.handmade import requests_of, workload_of

NS_PER_MS = 10**6


def rows_of(cached: bool, kind: str = "open") -> list[Row]:
    """The requests that the handmade receipts are of, in order."""
    made = requests_of(cached)
    rows = [(r.at_ms * NS_PER_MS if kind == "open" else 0, r.p, r.p - r.u, r.o) for r in made]
    return sorted(rows)


def digest(rows: Iterable[Row]) -> str:
    """docs/verification.md: a line, then column by column as little-endian integers, arrivals in 64 bits, counts in 32."""
    columns = zip(*rows, strict=True)
    raw = b"phaseledger requests v2\n"
    for column, size in zip(columns, (8, 4, 4, 4), strict=True):
        raw += b"".join(value.to_bytes(size, "little") for value in column)
    return hashlib.sha256(raw).hexdigest()


def workload(cached: bool, kind: str) -> Receipt:
    """A workload in whole numbers and fractions, request by request (tests/oracle/handmade.py)."""
    return workload_of(requests_of(cached), kind) | {"requests_sha256": digest(rows_of(cached, kind))}


def places(of: Receipt, rows: Iterable[Row]) -> list[str]:
    ledger = Ledger()
    check_requests(ledger, of, requests_from(rows))
    return [item.where for item in ledger.disagreements]


@pytest.mark.parametrize("kind", ["open", "rate", "closed"])
@pytest.mark.parametrize("cached", [False, True], ids=["without hits", "with hits"])
def test_the_workload_of_its_requests_agrees(cached: bool, kind: str) -> None:
    assert places(workload(cached, kind), rows_of(cached, kind)) == []


def test_every_figure_is_compared() -> None:
    """All of them changed in the last of twelve digits, or by one: each is named."""
    changed = workload(True, "open")
    expected = {f"workload.{name}" for name in ("requests_sha256", "requests", "duration_s")}
    expected.add("workload.prefix_cache.hit_ratio")
    changed["requests_sha256"], changed["requests"] = "5" * 64, changed["requests"] + 1
    for holder in (changed, changed["prefix_cache"]):
        for name in ("duration_s", "hit_ratio"):
            if name in holder:
                holder[name] = float(f"{holder[name] * (1 + 1e-11):.11e}")
    for member, of in (("buckets", None), ("strata", "stratum"), ("outputs", "stratum"), ("windows", "window_s")):
        for row in changed[member]:
            where = row["bucket"] if of is None else f"{row['bucket']}/{row[of]}"
            for name, value in row.items():
                if name in ("bucket", of) or value is None:
                    continue
                row[name] = value + 1 if isinstance(value, int) else float(f"{value * (1 + 1e-11):.11e}")
                if row[name] == value:
                    row[name] = value + 1
                expected.add(f"workload.{member}[{where}].{name}")
    assert set(places(changed, rows_of(True))) == expected


def test_rows_that_are_missing_or_too_many_are_named() -> None:
    for member in ("buckets", "strata", "outputs", "windows"):
        fewer = workload(False, "open")
        del fewer[member][-1]
        assert places(fewer, rows_of(False)) == [f"workload.{member}"]


def test_another_request_is_noticed() -> None:
    """One more output token of one request: the digest, and what is made of output tokens."""
    honest, rows = workload(False, "open"), rows_of(False)
    at, prompt, cached, output = rows[100]
    rows[100] = (at, prompt, cached, output + 1)
    found = places(honest, rows)
    assert {"workload.requests_sha256", "workload.buckets[all].output_tokens_mean"} <= set(found)
    assert not any("uncached" in place or "windows" in place for place in found)


def test_arrivals_count_only_where_they_are_the_logs() -> None:
    closed = workload(False, "closed") | {"requests_sha256": digest(rows_of(False))}
    assert places(closed, rows_of(False)) == ["workload.kind"]


def test_four_requests_by_hand() -> None:
    """Gaps of 1, 1 and 4 s; prompts 4 4 10 10 with 0 2 0 9 cached; z = p² - h²: 16 12 100 19."""
    rows = [(0, 4, 0, 1), (10**9, 4, 2, 3), (2 * 10**9, 10, 0, 1), (6 * 10**9, 10, 9, 8)]
    measured = measure(requests_from(rows), [8], is_open=True)
    found: dict[str, Any] = dict(measured.rows())
    assert list(found) == ["all", "[1,8)", "[8,inf)"]
    whole = found["all"]
    assert whole["rate_rps"] == Fraction(3, 6)
    assert whole["arrival_scv"] == Fraction(18, 3) / 4 - 1  # E[g²] = 6, E[g]² = 4
    assert (whole["attention_mean"], whole["attention_max"]) == (Fraction(147, 4), 100)
    assert whole["uncached_attention_mean"] == Fraction(4 * 16 + 2 * 12 + 10 * 100 + 1 * 19, 4)
    assert whole["prompt_attention_mean"] == Fraction(4 * 16 + 4 * 12 + 10 * 100 + 10 * 19, 4)
    assert whole["multi_token_share"] == Fraction(2, 4)
    assert (found["[8,inf)"]["rate_rps"], found["[8,inf)"]["arrival_scv"]) == (Fraction(1, 4), None)
    [low, high] = measured.buckets["[8,inf)"].strata()  # u = 1 of the second, u = 10 of the first: 16·1/2 = 8
    assert [(row["stratum"], row["requests"], row["uncached_tokens_mean"]) for row in (low, high)] == [
        (0, 1, 1),
        (8, 1, 10),
    ]
    assert list(measured.windows()) == []  # six seconds are no ten windows


def test_windows_by_hand() -> None:
    """Eleven seconds: 2 1 0 0 0 0 0 0 0 0 1 requests, and one at the very end, after the last whole window."""
    seconds = [0, 0.5, 1.2, 10.9, 11]
    columns = requests_from([(round(s * 1e9), 4, 0, 1) for s in seconds])
    [(label, length, row), *_] = measure(columns, [], is_open=True).windows()
    assert (label, length, row["windows"], row["peak_rps"]) == ("all", 1, 11, 2)
    assert row["dispersion"] == Fraction(6, 4) - Fraction(4, 11)


def test_gaps_that_are_all_alike_do_not_vary() -> None:
    assert scv_of([0, 5, 10, 15]) == 0
    assert scv_of([7, 7, 7]) is None
    assert scv_of([0, 1]) is None


def test_strata_are_numbered_by_the_requests_before_them() -> None:
    """40 requests of 1, 2, .. uncached tokens, then 60 of 50: 100 requests, numbers floor(16 r / 100)."""
    rows = [(0, tokens, 0, 1) for tokens in [*range(1, 41), *[50] * 60]]
    bucket: Bucket = measure(requests_from(rows), [], is_open=False).buckets["[1,inf)"]
    assert [(row["stratum"], row["requests"]) for row in bucket.strata()] == [
        (0, 7), (1, 6), (2, 6), (3, 6), (4, 7), (5, 6), (6, 62),
    ]  # fmt: skip
    [outputs] = bucket.output_strata()
    assert (outputs["stratum"], outputs["requests"]) == (0, 100)


def written(directory: Path, *lines: str, name: str = "requests.csv", end: str = "\n") -> Path:
    path = directory / name
    raw = end.join([HEADER, *lines, ""]).encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


@pytest.mark.parametrize(
    ("name", "end"), [("requests.csv", "\n"), ("requests.csv", "\r\n"), ("requests.gz", "\n")], ids=["lf", "crlf", "gz"]
)
def test_a_file_is_read_as_rows_are(name: str, end: str, tmp_path: Path) -> None:
    rows = rows_of(True) * 1
    path = written(tmp_path, *(",".join(map(str, row)) for row in rows), name=name, end=end)
    assert requests_from(path) == requests_from(str(path)) == requests_from(iter(rows))


def test_a_file_may_end_without_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(f"{HEADER}\n-5,4,0,1\n0,4,0,1")
    assert list(requests_from(path).arrivals) == [-5, 0]


def test_a_large_file_is_read_in_pieces(tmp_path: Path) -> None:
    """More than one block of bytes and of rows; a bad row far down is named by its line."""
    rows = [(place, 7, 3, 2) for place in range(40_000)]
    lines = [",".join(map(str, row)) for row in rows]
    assert len(requests_from(written(tmp_path, *lines))) == len(requests_from(rows)) == 40_000
    lines[35_000] = "35000,7,7,2"
    with pytest.raises(Unreadable, match=r"requests\.csv:35002: cached_prompt_tokens 7"):
        requests_from(written(tmp_path, *lines))
    rows[35_000] = (34_998, 7, 3, 2)
    with pytest.raises(Unreadable, match="requests: row 35001: not in order"):
        requests_from(rows)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("5,4,4,1", "cached_prompt_tokens 4"),
        ("5,0,0,1", "prompt_tokens 0"),
        ("5,4,0,0", "output_tokens 0"),
        ("5,4,0", "four whole numbers"),
        ("5,4,0,1,2", "four whole numbers"),
        ("5,4,-1,1", "four whole numbers"),
        ("5,4.0,0,1", "four whole numbers"),
        ("5,04,0,1", "four whole numbers"),
        ("5,4,,1", "four whole numbers"),
        ('5,"4",0,1', "four whole numbers"),
        ("", "four whole numbers"),
        ("5,2147483648,0,1", "prompt_tokens 2147483648"),
        ("9223372036854775808,4,0,1", "arrival_ns 9223372036854775808"),
        ("1,4,0,1", "not in order"),
        ("2,3,0,1", "not in order"),
        ("2,4,0,7", "not in order"),
        ("9" * 200, "four whole numbers"),
    ],
)
def test_a_line_that_is_no_request_is_named(line: str, problem: str, tmp_path: Path) -> None:
    path = written(tmp_path, "0,4,0,1", "2,4,1,1", line)
    with pytest.raises(Unreadable, match=r"requests\.csv") as raised:
        requests_from(path)
    assert str(raised.value).startswith(f"{path}:4: {problem}" if "four" not in problem else f"{path}:4: ")
    assert problem in str(raised.value)


@pytest.mark.parametrize("row", [(0, 4, 0), (0, 4.0, 0, 1), (0, True, 0, 1), "0401", None])
def test_a_row_that_is_no_request_is_named(row: Any) -> None:
    with pytest.raises(Unreadable, match=r"requests: row 2: .*four whole numbers"):
        requests_from([(0, 4, 0, 1), row])


def test_what_is_no_file_of_requests_is_unreadable(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    for raw, problem in (
        (b"", ":1: the header is ''"),
        (b"arrival_ns,prompt_tokens\n0,4\n", ":1: the header is"),
        (f"\ufeff{HEADER}\n0,4,0,1\n".encode(), ":1: the header is"),
        (f"{HEADER}\n".encode(), ": holds no requests"),
        (gzip.compress(HEADER.encode())[:-6], ": cannot be read"),
        (b"\x1f\x8bnothing", ": cannot be read"),
    ):
        other.write_bytes(raw)
        with pytest.raises(Unreadable) as raised:
            requests_from(other)
        assert str(raised.value).startswith(f"{other}{problem}")
    with pytest.raises(Unreadable, match="cannot be read: No such file"):
        requests_from(tmp_path / "none.csv")
    with pytest.raises(Unreadable, match="cannot be read: Is a directory"):
        requests_from(tmp_path)
    with pytest.raises(Unreadable, match="requests: holds no requests"):
        requests_from([])


def logged(cohort: Path) -> Iterator[Row]:
    """The requests of a log of the format azure-llm: nanoseconds since the first arrival."""
    with (cohort / "requests.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    times = [datetime.fromisoformat(line["TIMESTAMP"]) for line in lines]
    since = [(time - min(times)) // timedelta(microseconds=1) * 1000 for time in times]
    yield from sorted(
        (at, int(line["ContextTokens"]), 0, int(line["GeneratedTokens"])) for at, line in zip(since, lines, strict=True)
    )


@pytest.fixture(scope="module")
def log(project: Path) -> list[Row]:
    return list(logged(project / "cohorts" / "overloaded"))


@pytest.fixture
def copied(receipt_directories: dict[str, Path], log: list[Row], tmp_path: Path) -> Path:
    """A real pair, and the requests that it is of in a file."""
    for name in ("receipt.json", "matrix.csv"):
        shutil.copy(receipt_directories["overloaded"] / name, tmp_path / name)
    written(tmp_path, *(",".join(map(str, row)) for row in log))
    return tmp_path


def test_a_real_receipt_agrees_with_its_log(copied: Path, log: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(copied), "--requests", str(copied / "requests.csv")]) == 0
    out = capsys.readouterr().out
    assert "was not recomputed" not in out
    handed = verify(copied, None, iter(log))
    assert (handed.passed, handed.requests) == (True, "given as rows")
    assert f"  requests: {handed.checked['requests']}\n" in out
    assert handed.checked["requests"] > 700


def test_a_workload_that_obeys_every_law_is_still_not_the_logs(copied: Path) -> None:
    """Nothing but the requests can tell that the dispersion of one bucket is another."""
    receipt = load(copied)
    row = next(row for row in receipt["workload"]["buckets"][1:] if row["arrival_scv"] is not None)
    row["arrival_scv"] = 1.25
    name_anew(receipt)
    write(copied, receipt, attach(receipt, matrix_rows(receipt)))
    without = verify(copied)
    assert without.passed
    assert "the workload was not recomputed: the requests were not given" in without.notes
    given = verify(copied, requests=copied / "requests.csv")
    assert [item.where for item in given.disagreements] == [f"workload.buckets[{row['bucket']}].arrival_scv"]


def test_bad_requests_are_bad_input(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copied / "requests.csv").write_text(f"{HEADER}\n0,4,4,1\n")
    assert main([str(copied), "--requests", str(copied / "requests.csv")]) == 2
    assert "requests.csv:2: cached_prompt_tokens 4: fewer than the 4" in capsys.readouterr().err


def test_requests_of_twenty_bytes() -> None:
    columns = requests_from(rows_of(False))
    assert isinstance(columns, Columns)
    stored = (columns.arrivals, columns.prompts, columns.cached, columns.outputs)
    assert sum(column.itemsize for column in stored) == 20
    assert isinstance(measure(columns, copy.copy([512]), is_open=False), Measured)
