"""What a description of a log says: numbers that can be worked out by hand, and none that cannot be had."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.describe import (
    Description,
    describe,
    describe_rates,
    exported_rows,
    whole_log,
)
from pipelines.traces.faults import RowFaults
from pipelines.traces.formats.servegen import SERVEGEN
from pipelines.traces.log import Log, LogOptions, read_log
from pipelines.traces.registry import FORMATS
from pipelines.traces.requests import requests_sha256
from pipelines.traces.workload import bucket_frame

NS_PER_S = 10**9


def log_of(
    *requests: tuple[int, int],
    at: tuple[float, ...] | None = None,
    block_tokens: int | None = None,
    **columns: list[Any],
) -> Log:
    """A log of (prompt, output) tokens, arriving ``at`` (s); without arrivals if None."""
    rows = {
        "prompt_tokens": pl.Series([prompt for prompt, _ in requests], dtype=pl.Int32),
        "output_tokens": pl.Series([output for _, output in requests], dtype=pl.Int32),
    }
    if at is not None:
        rows["timestamp_ns"] = pl.Series([round(second * NS_PER_S) for second in at], dtype=pl.Int64)
    dtypes = {"hash_ids": pl.List(pl.UInt64), "cached_prompt_tokens": pl.Int32}
    extra = {name: pl.Series(values, dtype=dtypes.get(name, pl.String)) for name, values in columns.items()}
    return Log(pl.DataFrame(rows | extra), "mooncake" if block_tokens else "azure-llm", block_tokens, RowFaults())


def json_of(description: Description) -> dict[str, Any]:
    """The description as a script reads it; every number in it is finite."""
    written = json.dumps(description.as_json(), allow_nan=False)
    read: dict[str, Any] = json.loads(written)
    return read


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


KEYS = {
    "file", "format", "requests", "rows_read", "rows_invalid", "invalid", "duration_s", "rate_rps", "arrival_scv", "windows", "tokens",
    "bucket_edges_tokens", "buckets", "groups", "warnings", "steps", "prefix_cache", "requests_sha256", "rate_windows",
}  # fmt: skip


def test_the_figures_are_those_of_hand_work() -> None:
    # gaps 1 s and 3 s: mean 2, variance 1
    found = json_of(describe(log_of((2, 1), (4, 3), (6, 5), at=(0, 1, 4)), "log.csv", (4,)))
    assert set(found) == KEYS
    assert (found["file"], found["format"], found["requests"], found["rows_read"]) == ("log.csv", "azure-llm", 3, 3)
    assert (found["duration_s"], found["rate_rps"], found["arrival_scv"]) == (4.0, 0.5, 0.25)
    assert found["tokens"] == {
        "prompt": {"sum": 12, "mean": 4.0, "m2": 18.6666666667, "min": 2, "max": 6},
        "output": {"sum": 9, "mean": 3.0, "m2": 11.6666666667, "min": 1, "max": 5},
        "cached": None,
        "prompt_output_mean": 14.6666666667,
    }
    assert [(row["bucket"], row["requests"]) for row in found["buckets"]] == [("all", 3), ("[1,4)", 1), ("[4,inf)", 2)]
    assert found["windows"] == []
    assert found["prefix_cache"] is None
    assert found["groups"] == {}


def test_windows_say_how_bursty_a_log_is() -> None:
    # ten windows of a second, three requests in the first and one in the last: mean 0.4, mean of squares 1
    found = describe(log_of(*[(1, 1)] * 5, at=(0, 0.1, 0.2, 9.5, 10)), "log.csv")
    assert found.windows == ({"window_s": 1, "windows": 10, "dispersion": 2.1, "peak_rps": 3.0},)


def test_every_figure_is_that_of_a_plan() -> None:
    log = log_of((10, 3), (700, 1), (30, 9), (2000, 40), at=(0, 0.5, 0.75, 9))
    found, requests = describe(log, "log.csv"), whole_log(log)
    assert list(found.buckets) == bucket_frame(requests, found.bucket_edges_tokens).to_dicts()
    assert found.requests_sha256 == requests_sha256(requests)
    assert found.bucket_edges_tokens == (30, 700, 2000)


@pytest.mark.parametrize(
    ("log", "duration_s"),
    [
        (log_of((5, 2), at=(0,)), None),
        (log_of((5, 2), (5, 2), (9, 1), at=(0, 0, 0)), 0.0),
        (log_of((5, 2), (5, 2)), None),
        (log_of((1, 1)), None),
    ],
)
def test_a_log_without_a_rate_is_still_described(log: Log, duration_s: float | None) -> None:
    found = json_of(describe(log, "log.csv"))
    assert (found["duration_s"], found["rate_rps"], found["arrival_scv"]) == (duration_s, None, None)
    assert found["requests"] == log.rows.height
    assert found["tokens"]["prompt"]["sum"] == sum(log.rows["prompt_tokens"])
    assert found["buckets"][0]["rate_rps"] is None
    assert found["windows"] == []


def test_two_requests_have_a_rate_and_no_variation() -> None:
    found = describe(log_of((5, 2), (9, 2), at=(0, 2)), "log.csv")
    assert (found.rate_rps, found.arrival_scv) == (0.5, None)
    assert found.bucket_edges_tokens == (9,)


def test_requests_that_are_all_alike_make_one_bucket() -> None:
    found = describe(log_of(*[(5, 2)] * 50, at=tuple(range(50))), "log.csv")
    assert found.arrival_scv == 0.0
    assert [row["bucket"] for row in found.buckets] == ["all", "[1,inf)"]


def test_figures_of_the_longest_prompts_are_finite() -> None:
    longest = 2**31 - 1
    found = json_of(describe(log_of(*[(longest, longest)] * 3, at=(0, 1, 3)), "log.csv"))
    assert found["tokens"]["prompt"]["sum"] == 3 * longest
    assert all(math.isfinite(number) for number in numbers(found))


def test_stated_cached_tokens_are_summed_and_set_against_all_prompt_tokens() -> None:
    log = log_of((10, 1), (10, 1), (20, 1), at=(0, 1, 2), cached_prompt_tokens=[None, 4, 6])
    found = json_of(describe(log, "log.csv"))
    cached = {"sum": 10, "mean": 3.33333333333, "m2": 17.3333333333, "min": 0, "max": 6, "share": 0.25}
    assert found["tokens"]["cached"] == cached
    assert found["buckets"][0]["uncached_tokens_mean"] == 10.0


def test_block_hashes_say_what_an_unlimited_cache_holds() -> None:
    # the second prompt shares its first block of two
    log = log_of((1000, 1), (1000, 1), at=(0, 1), block_tokens=512, hash_ids=[[1, 2], [1, 3]])
    found = json_of(describe(log, "log.jsonl"))
    assert found["prefix_cache"] == {"block_tokens": 512, "hit_ratio": 0.256}
    assert found["buckets"][0]["uncached_tokens_mean"] == 1000.0  # what a plan without a prefix cache computes


def test_groups_are_counted_most_first_and_ten_at_most() -> None:
    models = [f"m{place:02}" for place in range(12)] + ["m11", None]
    found = json_of(describe(log_of(*[(1, 1)] * 14, at=tuple(range(14)), model=models), "log.csv"))
    group = found["groups"]["model"]
    assert (group["values"], group["requests_without"], len(group["top"])) == (12, 1, 10)
    assert group["top"][:2] == [{"value": "m11", "requests": 2}, {"value": "m00", "requests": 1}]


def test_invalid_rows_are_told_by_kind_with_the_first_of_them(log_of: Callable[..., Path]) -> None:
    path = log_of("2023-11-16 18:17:03,5,2", *["2023-11-16 18:17:04,5,0"] * 5, "x,5,2")
    rows: list[int] = []
    log = read_log(path, LogOptions(on_invalid="drop"), shown_as="log.csv", progress=rows.append)
    found = json_of(describe(log, "log.csv"))
    assert (found["rows_read"], found["requests"], found["rows_invalid"]) == (7, 1, 6)
    assert found["invalid"] == [
        {
            "kind": "output_tokens_zero",
            "field": "output_tokens",
            "column": "GeneratedTokens",
            "rows": 5,
            "first_rows": [3, 4, 5],
        },
        {"kind": "time_not_a_time", "field": "time", "column": "TIMESTAMP", "rows": 1, "first_rows": [8]},
    ]
    assert rows == [7]


def test_a_log_without_any_valid_row_says_what_is_wrong_with_them(log_of: Callable[..., Path]) -> None:
    path = log_of("2023-11-16 18:17:03,5,0", "x,5,2")
    with pytest.raises(DeclarationProblems) as caught:
        read_log(path, LogOptions(on_invalid="drop"), shown_as="log.csv")
    assert [problem.line for problem in caught.value.problems] == [1, 2, 3]
    assert "all 2 rows are invalid" in caught.value.problems[0].message


def test_a_log_of_rates_tells_its_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "servegen", SERVEGEN)
    path = tmp_path / "rates.csv"
    path.write_text("0,0.5,1.0,Gamma,1.0,2.0\n600,0.0,0.0,,0.0,0.0\n1200,1.0,1.0,Gamma,1.0,1.0\n")
    described = describe_rates(path, None)
    assert described is not None
    found = json_of(described)
    assert set(found) == KEYS
    assert found["requests"] is None
    assert (found["duration_s"], found["rate_rps"]) == (1800, 0.5)
    assert found["rate_windows"] == {
        "windows": 3,
        "nonempty_windows": 2,
        "window_s": 600,
        "expected_requests": 900.0,
        "peak_rps": 1.0,
    }


def test_a_log_of_requests_is_none_of_rates(log_of: Callable[..., Path]) -> None:
    assert describe_rates(log_of("2023-11-16 18:17:03,5,2"), None) is None


def test_exported_rows_hold_counts_times_and_groups_only() -> None:
    log = log_of((1000, 1), (1000, 1), at=(0, 1), block_tokens=512, hash_ids=[[1, 2], [1, 3]], model=["a", None])
    assert exported_rows(log, (None, None), None).columns == ["timestamp_ns", "prompt_tokens", "output_tokens", "model"]


def test_a_window_is_cut_before_the_cache_fills() -> None:
    from pipelines.traces.describe import UNLIMITED

    hashes = [[1, 2], [1, 3], [1, 3]]
    log = log_of((1000, 1), (1000, 1), (1000, 1), at=(0, 1, 2), block_tokens=512, hash_ids=hashes)
    whole = exported_rows(log, (None, None), UNLIMITED)["cached_prompt_tokens"]
    later = exported_rows(log, (NS_PER_S, None), UNLIMITED)["cached_prompt_tokens"]
    assert (whole.to_list(), later.to_list()) == ([0, 512, 999], [0, 999])
    assert exported_rows(log, (None, NS_PER_S), None).height == 1


def test_cached_tokens_that_a_log_leaves_out_are_none() -> None:
    log = log_of((10, 1), (10, 1), at=(0, 1), cached_prompt_tokens=[None, 4])
    assert exported_rows(log, (None, None), None)["cached_prompt_tokens"].to_list() == [0, 4]


def test_the_published_logs_are_what_is_known_of_them(shared: Path) -> None:
    path = shared / "traces" / "azure_2023_code.csv"
    found = describe(read_log(path, LogOptions(on_invalid="drop"), shown_as="azure"), "azure")
    assert (found.requests, found.rows_invalid) == (8819, 0)
    assert found.rate_rps == pytest.approx(2.5664, abs=5e-5)
    assert found.duration_s == pytest.approx(3435.948, abs=5e-4)
    assert found.tokens is not None
    assert (found.tokens["prompt"].sum, found.tokens["output"].sum) == (18_059_974, 245_896)
    assert (found.tokens["prompt"].max, found.tokens["output"].max) == (7437, 1899)
    assert found.warnings == ()
