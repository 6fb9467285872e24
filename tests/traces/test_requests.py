"""From a log to the requests of a cohort: cuts, spreading, repetition, hits, canonical order, digest."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.declarations.typed import Classes, Cohort, Input, PrefixCache, RequestClass, Slice, TraceSource
from pipelines.traces.faults import RowFaults
from pipelines.traces.log import Log
from pipelines.traces.requests import CohortRequests, CutError, of_classes, of_log, requests_frame, requests_sha256

NS = 10**9
COHORT = Cohort(
    name="cut",
    title="Cut",
    description=None,
    model_name="m",
    directory=Path("/nowhere"),
    trace=TraceSource(Path("log"), None, "supplied", None, None),
    classes=None,
    slice=Slice(),
    prefix_cache=None,
    bucket_edges_tokens=(),
    inputs=(),
)


def log_of(*rows: tuple[float, int, int], block_tokens: int | None = None, **extra: list[Any]) -> Log:
    """A log of (arrival in s, prompt tokens, output tokens), in order of arrival."""
    frame = pl.DataFrame(
        [(int(at * NS), p, o) for at, p, o in rows],
        schema={"timestamp_ns": pl.Int64, "prompt_tokens": pl.Int32, "output_tokens": pl.Int32},
        orient="row",
    ).with_columns(pl.Series(name, values) for name, values in extra.items())
    return Log(frame, "test", block_tokens, RowFaults())


def cut(log: Log, **fields: Any) -> CohortRequests:
    return of_log(log, replace(COHORT, slice=Slice(**fields)))


def rows_of(found: CohortRequests) -> list[tuple[float, int, int, int]]:
    return [(at / NS, p, h, o) for at, p, h, o in found.requests.rows()]


TEN = log_of(*((i, 10 * (i + 1), i + 1) for i in range(10)))
"""At 0 to 9 s, prompts 10 to 100, outputs 1 to 10."""


def test_without_a_slice_the_log_is_the_cohort() -> None:
    found = of_log(TEN, COHORT)
    assert rows_of(found) == [(i, 10 * (i + 1), 0, i + 1) for i in range(10)]
    assert (found.format, found.rows_read, found.dropped, found.steps) == ("test", 10, {}, ())


def test_a_window_includes_its_start_and_excludes_its_end() -> None:
    found = cut(TEN, window_ns=(2 * NS, 5 * NS))
    assert rows_of(found) == [(0, 30, 0, 3), (1, 40, 0, 4), (2, 50, 0, 5)]
    assert [vars(step) for step in found.steps] == [{"step": "window", "detail": "from 2 s to 5 s", "requests": 3}]


@pytest.mark.parametrize(
    ("window", "detail", "left"), [((None, 5 * NS), "to 5 s", 5), ((NS // 2, None), "from 0.5 s", 9)]
)
def test_a_window_may_be_open(window: tuple[int | None, int | None], detail: str, left: int) -> None:
    found = cut(TEN, window_ns=window)
    assert (found.steps[0].detail, found.steps[0].requests) == (detail, left)


def test_a_range_of_prompts() -> None:
    assert [p for _, p, _, _ in rows_of(cut(TEN, prompt_tokens=(30, 60)))] == [30, 40, 50]


def test_every_third_request_beginning_with_the_first() -> None:
    assert [p for _, p, _, _ in rows_of(cut(TEN, thin=(1, 3)))] == [10, 40, 70, 100]
    assert [p for _, p, _, _ in rows_of(cut(TEN, thin=(2, 5)))] == [10, 20, 60, 70]


def test_groups_are_chosen_by_any_of_the_values_of_every_field() -> None:
    log = log_of(
        *((i, i + 1, 1) for i in range(6)),
        model=["a", "b", "a", "c", None, "b"],
        priority=["0", "0", "1", "0", "0", "1"],
    )
    found = cut(log, where={"model": ("a", "b"), "priority": ("0",)})
    assert [p for _, p, _, _ in rows_of(found)] == [1, 2]
    assert found.steps[0].detail == "model is a or b; priority is 0"


def test_a_cut_that_leaves_nothing_says_what_there_is() -> None:
    log = log_of(*((i, 5 + i, 1) for i in range(4)), model=["b", "a", "b", None])
    for fields, step, message, hint in (
        ({"where": {"model": ("x",)}}, "where", "none of 4 requests (model is x)", 'most often model is "b" or "a"'),
        ({"window_ns": (9 * NS, None)}, "window", "none of 4 requests (from 9 s)", "the requests come from 0 s to 3 s"),
        ({"prompt_tokens": (9, None)}, "prompt_tokens", "none of 4", "prompts have 5 to 8 tokens"),
    ):
        with pytest.raises(CutError) as problem:
            cut(log, **fields)
        assert problem.value.misfit.path == f"requests.slice.{step}"
        assert message in problem.value.misfit.message
        assert problem.value.misfit.hint == hint


def test_steps_are_taken_in_order_and_counted() -> None:
    found = cut(TEN, window_ns=(NS, None), prompt_tokens=(None, 90), thin=(1, 2), repeat=2, scale_rate=Fraction(2))
    assert [(step.step, step.requests) for step in found.steps] == [
        ("window", 9),
        ("prompt_tokens", 7),
        ("thin", 4),
        ("repeat", 8),
        ("scale_rate", 8),
    ]


def test_a_log_that_is_repeated_goes_on_after_one_mean_gap() -> None:
    found = cut(log_of((0, 1, 1), (1, 2, 1), (4, 3, 1)), repeat=3)  # mean gap 2 s, so every 6 s
    assert [at for at, *_ in rows_of(found)] == [0, 1, 4, 6, 7, 10, 12, 13, 16]


def test_a_rate_is_scaled_by_its_gaps_not_by_its_timestamps() -> None:
    found = cut(log_of((100, 1, 1), (103, 2, 1), (109, 3, 1)), scale_rate=Fraction(3, 2))
    assert [at for at, *_ in rows_of(found)] == [0, 2, 6]


def test_a_scaled_week_is_exact() -> None:
    week = 604_800 * NS
    found = cut(log_of((0, 1, 1), (604_800, 2, 1)), scale_rate=Fraction("0.001"))
    assert found.requests["arrival_ns"].to_list() == [0, week * 1000]
    long = Fraction("1.000000000000000000000001")
    assert cut(log_of((0, 1, 1), (604_800, 2, 1)), scale_rate=long).requests["arrival_ns"].to_list() == [0, week - 1]


def test_what_would_last_longer_than_can_be_counted_is_refused() -> None:
    with pytest.raises(CutError, match="more than 146 years"):
        cut(log_of((0, 1, 1), (604_800, 2, 1)), repeat=1000, scale_rate=Fraction("0.001"))


def test_ties_are_spread_evenly_over_the_tick_in_the_order_of_the_file() -> None:
    log = log_of((0, 9, 1), (0, 5, 1), (0, 7, 1), (0, 1, 1), (2, 3, 1))
    spread = replace(COHORT, trace=replace(COHORT.trace, spread_ties_ns=NS))  # type: ignore[type-var]
    found = of_log(log, spread)
    assert rows_of(found) == [(0, 9, 0, 1), (0.25, 5, 0, 1), (0.5, 7, 0, 1), (0.75, 1, 0, 1), (2, 3, 0, 1)]
    assert found.steps[0].step == "spread_ties"
    assert found.steps[0].detail == "over 1 s after each shared timestamp"


def test_a_tick_longer_than_the_distance_of_timestamps_keeps_arrivals_sorted() -> None:
    log = log_of((0, 1, 1), (0, 2, 1), (1, 3, 1))
    found = of_log(log, replace(COHORT, trace=replace(COHORT.trace, spread_ties_ns=4 * NS)))  # type: ignore[type-var]
    assert rows_of(found) == [(0, 1, 0, 1), (1, 3, 0, 1), (2, 2, 0, 1)]


HASHED = log_of((0, 1000, 1), (1, 1000, 1), (2, 1536, 1), block_tokens=512, hash_ids=[[1, 2], [1, 2], [1, 2, 3]])


def test_hits_of_the_declared_cache() -> None:
    found = of_log(HASHED, replace(COHORT, prefix_cache=PrefixCache(None, "shared", 1)))
    assert [h for _, _, h, _ in rows_of(found)] == [0, 999, 1024]  # a prompt is never cached whole
    assert found.block_tokens == 512


def test_block_hashes_without_a_declared_cache_hit_nothing() -> None:
    assert [h for _, _, h, _ in rows_of(of_log(HASHED, COHORT))] == [0, 0, 0]


def test_the_cache_sees_the_requests_that_remain() -> None:
    cohort = replace(COHORT, prefix_cache=PrefixCache(None, "shared", 1), slice=Slice(window_ns=(NS, None)))
    assert [h for _, _, h, _ in rows_of(of_log(HASHED, cohort))] == [0, 1024]


def test_cached_tokens_that_the_log_states_are_taken_but_never_the_whole_prompt() -> None:
    log = log_of((0, 10, 1), (1, 10, 1), (2, 10, 1), cached_prompt_tokens=[4, 10, None])
    assert [h for _, _, h, _ in rows_of(of_log(log, COHORT))] == [4, 9, 0]


def test_where_arrivals_are_declared_timestamps_do_not_count() -> None:
    rate = Input("requests.rate", "requests/s", 3.0, None, None, 3.0, "supplied", None, None)
    found = of_log(TEN, replace(COHORT, inputs=(rate,)))
    assert found.requests["arrival_ns"].to_list() == [0] * 10
    shuffled = Log(TEN.rows.with_columns(pl.col("timestamp_ns") * 7), "test", None, RowFaults())
    assert requests_sha256(of_log(shuffled, replace(COHORT, inputs=(rate,))).requests) == requests_sha256(
        found.requests
    )


def test_classes_stand_for_their_weights_in_lowest_terms() -> None:
    classes = Classes((RequestClass(6, 100, 20, 5), RequestClass(4, 30, 0, 50)), "supplied", None, None)
    found = of_classes(classes)
    assert rows_of(found) == [(0, 30, 0, 50)] * 2 + [(0, 100, 20, 5)] * 3
    assert (found.format, found.rows_read) == ("classes", 2)


a_row = st.tuples(st.integers(0, 8), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3))


@given(st.lists(a_row, min_size=1, max_size=40))
@settings(max_examples=150)
def test_the_order_is_canonical(rows: list[tuple[int, int, int, int]]) -> None:
    """However ties lay in the file, and however many there are, the frame and its digest are those of the sorted rows."""
    rows = [(at, p, min(h, p - 1), o) for at, p, h, o in rows]
    schema = {"timestamp_ns": pl.Int64} | dict.fromkeys(
        ("prompt_tokens", "cached_prompt_tokens", "output_tokens"), pl.Int32
    )
    given_order = pl.DataFrame(rows, schema=schema, orient="row").sort("timestamp_ns", maintain_order=True)
    frame = requests_frame(given_order, is_open=True)
    first = min(at for at, *_ in rows)
    assert frame.rows() == sorted((at - first, p, h, o) for at, p, h, o in rows)


def test_the_digest_is_that_of_the_numbers_in_little_endian() -> None:
    """Worked out apart from the code: tag, then arrivals as 64-bit, then each column as 32-bit integers."""
    import hashlib
    import struct

    found = of_log(log_of((0, 5, 1), (1, 6, 2)), COHORT)
    expected = hashlib.sha256(
        b"phaseledger requests v2\n" + struct.pack("<2q", 0, NS) + struct.pack("<2i2i2i", 5, 6, 0, 0, 1, 2)
    ).hexdigest()
    assert requests_sha256(found.requests) == expected
