"""Moments, strata and rates against numbers worked out by hand, and the laws that they obey."""

from fractions import Fraction
from itertools import pairwise
from math import isclose

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.declarations.typed import Classes, RequestClass
from pipelines.traces import bucket_frame, bucket_labels, duration_s, output_stratum_frame, stratum_frame
from pipelines.traces.requests import of_classes
from pipelines.traces.workload import Workload

NS = 10**9


SCHEMA = {"arrival_ns": pl.Int64} | dict.fromkeys(("prompt_tokens", "cached_prompt_tokens", "output_tokens"), pl.Int32)


def requests_of(*rows: tuple[float, int, int]) -> pl.DataFrame:
    """A requests frame of (arrival in s, prompt tokens, output tokens), nothing cached."""
    return pl.DataFrame([(int(at * NS), p, 0, o) for at, p, o in rows], schema=SCHEMA, orient="row")


def cached_requests_of(*rows: tuple[float, int, int, int]) -> pl.DataFrame:
    """A requests frame of (arrival in s, prompt tokens, cached prompt tokens, output tokens)."""
    return pl.DataFrame([(int(at * NS), p, h, o) for at, p, h, o in rows], schema=SCHEMA, orient="row")


SMALL = requests_of((0, 1, 1), (1, 2, 3), (2, 3, 1), (5, 10, 5))
"""Gaps 1, 1, 3 s. Below 10 tokens: prompts 1, 2, 3, outputs 1, 3, 1, gaps 1, 1 s."""


def test_every_moment_of_all_requests() -> None:
    row = bucket_frame(SMALL, [10]).row(0, named=True)
    assert row == {
        "bucket": "all",
        "requests": 4,
        "rate_rps": 0.6,  # 3 gaps in 5 s
        "arrival_scv": 0.32,  # 3 * (1 + 1 + 9) / 25 - 1
        "prompt_tokens_mean": 4.0,  # (1 + 2 + 3 + 10) / 4
        "prompt_tokens_m2": 28.5,  # (1 + 4 + 9 + 100) / 4
        "prompt_tokens_max": 10,
        "uncached_tokens_mean": 4.0,  # nothing is cached: u = p, z = p^2
        "uncached_tokens_m2": 28.5,
        "uncached_tokens_max": 10,
        "attention_mean": 28.5,
        "attention_m2": 2524.5,  # (1 + 16 + 81 + 10000) / 4
        "attention_max": 100,
        "uncached_attention_mean": 259.0,  # (1 + 8 + 27 + 1000) / 4
        "prompt_uncached_mean": 28.5,
        "prompt_attention_mean": 259.0,
        "output_tokens_mean": 2.5,  # (1 + 3 + 1 + 5) / 4
        "output_tokens_m2": 9.0,  # (1 + 9 + 1 + 25) / 4
        "output_tokens_max": 5,
        "prompt_output_mean": 15.0,  # (1 + 6 + 3 + 50) / 4
        "multi_token_share": 0.5,
    }


def test_every_moment_of_a_bucket() -> None:
    row = bucket_frame(SMALL, [10]).row(1, named=True)
    assert row == {
        "bucket": "[1,10)",
        "requests": 3,
        "rate_rps": 0.45,  # three quarters of 0.6
        "arrival_scv": 0.0,
        "prompt_tokens_mean": 2.0,
        "prompt_tokens_m2": 4.66666666667,
        "prompt_tokens_max": 3,
        "uncached_tokens_mean": 2.0,
        "uncached_tokens_m2": 4.66666666667,
        "uncached_tokens_max": 3,
        "attention_mean": 4.66666666667,
        "attention_m2": 32.6666666667,
        "attention_max": 9,
        "uncached_attention_mean": 12.0,
        "prompt_uncached_mean": 4.66666666667,
        "prompt_attention_mean": 12.0,
        "output_tokens_mean": 1.66666666667,
        "output_tokens_m2": 3.66666666667,
        "output_tokens_max": 3,
        "prompt_output_mean": 3.33333333333,
        "multi_token_share": 0.333333333333,
    }


def test_what_the_cache_holds_is_not_computed_but_attended_to() -> None:
    """p, h: (4, 1) and (10, 8), so u: 3 and 2, z = p^2 - h^2: 15 and 36."""
    row = bucket_frame(cached_requests_of((0, 4, 1, 1), (1, 10, 8, 1)), []).row(0, named=True)
    assert {name: row[name] for name in row if name.startswith(("uncached", "attention", "prompt"))} == {
        "prompt_tokens_mean": 7.0,
        "prompt_tokens_m2": 58.0,  # (16 + 100) / 2
        "prompt_tokens_max": 10,
        "uncached_tokens_mean": 2.5,
        "uncached_tokens_m2": 6.5,  # (9 + 4) / 2
        "uncached_tokens_max": 3,
        "attention_mean": 25.5,
        "attention_m2": 760.5,  # (225 + 1296) / 2
        "attention_max": 36,
        "uncached_attention_mean": 58.5,  # (45 + 72) / 2
        "prompt_uncached_mean": 16.0,  # (12 + 20) / 2
        "prompt_attention_mean": 210.0,  # (60 + 360) / 2
        "prompt_output_mean": 7.0,
    }


def test_a_declared_rate_is_shared_out_by_requests() -> None:
    buckets = bucket_frame(SMALL, [10], kind="rate", rate_rps=8.0)
    assert buckets["rate_rps"].to_list() == [8.0, 6.0, 2.0]
    assert buckets["arrival_scv"].to_list() == [None, None, None]


def test_in_a_closed_loop_no_bucket_has_a_rate() -> None:
    assert bucket_frame(SMALL, [10], kind="closed")["rate_rps"].to_list() == [None, None, None]


def test_a_bucket_of_one_or_two_requests_has_no_arrival_variation() -> None:
    assert bucket_frame(SMALL, [10])["arrival_scv"].to_list() == [0.32, 0.0, None]
    assert bucket_frame(SMALL, [3])["arrival_scv"].to_list() == [0.32, None, None]


def test_a_bucket_whose_requests_arrive_at_once_has_no_arrival_variation() -> None:
    at_once = requests_of((0, 9, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1))
    assert bucket_frame(at_once, [5])["arrival_scv"].to_list() == [2.0, None, None]  # 3 * 1 / 1 - 1


def test_empty_buckets_have_no_row_and_edges_belong_to_the_upper_bucket() -> None:
    assert bucket_frame(SMALL, [10, 100])["bucket"].to_list() == ["all", "[1,10)", "[10,100)"]
    assert bucket_frame(SMALL, [4, 10])["bucket"].to_list() == ["all", "[1,4)", "[10,inf)"]
    assert bucket_frame(SMALL, [])["bucket"].to_list() == ["all", "[1,inf)"]


def test_without_edges_the_one_bucket_is_the_whole() -> None:
    whole, only = bucket_frame(SMALL, []).drop("bucket").rows()
    assert whole == only


@pytest.mark.parametrize("edges", [[1], [0, 5], [5, 5], [9, 5], [-3]])
def test_edges_that_do_not_ascend_are_refused(edges: list[int]) -> None:
    with pytest.raises(ValueError, match="must ascend"):
        bucket_labels(edges)


def test_duration() -> None:
    assert duration_s(SMALL) == 5.0


@pytest.mark.parametrize("rows", [[], [(0, 1, 1)], [(0, 1, 1), (0, 2, 2)]])
def test_a_log_without_two_instants_has_no_rate(rows: list[tuple[float, int, int]]) -> None:
    for figure in (duration_s, lambda frame: bucket_frame(frame, [])):
        with pytest.raises(ValueError, match="undefined"):
            figure(requests_of(*rows))


def test_thirty_two_lengths_make_sixteen_strata_of_two() -> None:
    strata = stratum_frame(requests_of(*((i, i + 1, 1) for i in range(32))), [])
    assert strata["stratum"].to_list() == list(range(16))
    assert strata["requests"].to_list() == [2] * 16
    assert strata["prompt_tokens_mean"].to_list() == [1.5 + 2 * i for i in range(16)]
    assert strata["uncached_tokens_mean"].to_list() == strata["prompt_tokens_mean"].to_list()
    assert strata["attention_mean"][0] == 2.5  # (1 + 4) / 2


def test_strata_are_cut_by_what_prefill_computes() -> None:
    """The long prompt with a long cached prefix is the shorter work."""
    strata = stratum_frame(cached_requests_of((0, 10, 9, 1), (1, 5, 0, 1)), [])
    assert strata.rows() == [
        ("[1,inf)", 0, 1, 10.0, 1.0, 19.0, 100.0, 10.0, 1.0),
        ("[1,inf)", 8, 1, 5.0, 5.0, 25.0, 25.0, 25.0, 25.0),
    ]


def test_one_prompt_length_stays_in_one_stratum() -> None:
    """Ten of length 5 hold ranks 0 to 9, so length 6 begins at rank 10 of 16 and length 7 at 15."""
    lengths = [5] * 10 + [6] * 5 + [7]
    strata = stratum_frame(requests_of(*((i, p, 1) for i, p in enumerate(lengths))), [])
    assert strata.select("stratum", "requests", "prompt_tokens_mean").rows() == [
        (0, 10, 5.0),
        (10, 5, 6.0),
        (15, 1, 7.0),
    ]


def test_strata_are_numbered_within_their_bucket() -> None:
    strata = stratum_frame(SMALL, [10])
    assert strata.rows() == [
        ("[1,10)", 0, 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        ("[1,10)", 5, 1, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0),
        ("[1,10)", 10, 1, 3.0, 3.0, 9.0, 9.0, 9.0, 9.0),
        ("[10,inf)", 0, 1, 10.0, 10.0, 100.0, 100.0, 100.0, 100.0),
    ]


def test_second_moments_of_a_stratum_are_of_its_requests() -> None:
    """Two prompts of 4 and 8 tokens with 2 uncached each: E[p²] = 40, E[p·u] = 12, E[u²] = 4."""
    strata = stratum_frame(cached_requests_of((0, 4, 2, 1), (1, 8, 6, 1)), [])
    columns = ("prompt_tokens_m2", "prompt_uncached_mean", "uncached_tokens_m2")
    assert strata.select(columns).rows() == [(40.0, 12.0, 4.0)]


def test_thirty_two_outputs_make_sixteen_output_strata_of_two() -> None:
    outputs = output_stratum_frame(requests_of(*((i, 7, 32 - i) for i in range(32))), [])
    assert outputs.rows() == [("[1,inf)", i, 2, 1.5 + 2 * i) for i in range(16)]


def test_fewer_outputs_than_strata_leave_numbers_out() -> None:
    """Three lengths with 0, 1 and 2 requests below: floor(16 * r / 3)."""
    outputs = output_stratum_frame(requests_of((0, 1, 9), (1, 1, 2), (2, 1, 4)), [])
    assert outputs.rows() == [("[1,inf)", 0, 1, 2.0), ("[1,inf)", 5, 1, 4.0), ("[1,inf)", 10, 1, 9.0)]


def test_one_output_length_stays_in_one_output_stratum() -> None:
    """Ten of length 5 hold ranks 0 to 9, so length 6 begins at rank 10 of 16 and length 7 at 15."""
    lengths = [7, *[6] * 5, *[5] * 10]
    outputs = output_stratum_frame(requests_of(*((i, 1 + i, o) for i, o in enumerate(lengths))), [])
    assert outputs.rows() == [("[1,inf)", 0, 10, 5.0), ("[1,inf)", 10, 5, 6.0), ("[1,inf)", 15, 1, 7.0)]


def test_several_output_lengths_share_an_output_stratum() -> None:
    """Lengths 1, 2 and 3 begin at ranks 0, 1 and 2 of 48, below the 3 of one stratum; length 4 at 32: floor(16 * 32 / 48)."""
    outputs = output_stratum_frame(requests_of(*((i, 1, o) for i, o in enumerate([1, 2, *[3] * 30, *[4] * 16]))), [])
    assert outputs.rows() == [("[1,inf)", 0, 32, 2.90625), ("[1,inf)", 10, 16, 4.0)]  # (1 + 2 + 90) / 32


def test_output_strata_are_of_their_prompt_bucket() -> None:
    """Outputs 1, 3, 1 below 10 prompt tokens, where two have fewer than 3: floor(16 * 2 / 3)."""
    assert output_stratum_frame(SMALL, [10, 100]).rows() == [
        ("[1,10)", 0, 2, 1.0),
        ("[1,10)", 10, 1, 3.0),
        ("[10,100)", 0, 1, 5.0),
    ]


def test_the_cache_does_not_move_a_request_to_another_output_stratum() -> None:
    rows = [(0, 10, 9, 4), (1, 5, 0, 2), (2, 10, 0, 4)]
    cold = [(at, p, 0, o) for at, p, _, o in rows]
    found = [output_stratum_frame(cached_requests_of(*log), []).rows() for log in (rows, cold)]
    assert found == [[("[1,inf)", 0, 1, 2.0), ("[1,inf)", 5, 2, 4.0)]] * 2


@pytest.mark.parametrize(("kind", "rate_rps"), [("open", None), ("rate", 8.0), ("closed", None)])
def test_output_strata_do_not_depend_on_arrivals(kind: str, rate_rps: float | None) -> None:
    at_once = SMALL.with_columns(arrival_ns=pl.lit(0, dtype=pl.Int64))
    for requests in (SMALL, at_once):
        assert Workload(requests, [10], kind, rate_rps).outputs().equals(output_stratum_frame(SMALL, [10]))


def test_output_strata_of_classes_count_weights_in_lowest_terms() -> None:
    """Weights 3 and 2: of five requests, three have fewer tokens than 50, floor(16 * 3 / 5)."""
    classes = Classes((RequestClass(6, 100, 20, 5), RequestClass(4, 30, 0, 50)), "supplied", None, None)
    outputs = Workload(of_classes(classes).requests, [], "closed").outputs()
    assert outputs.rows() == [("[1,inf)", 0, 3, 5.0), ("[1,inf)", 9, 2, 50.0)]


def test_the_mean_of_an_output_stratum_is_exact() -> None:
    """Of 48,000, ranks from 45,000 are in stratum 15: 1,000 of 2^31 - 2 tokens and 2,000 of 2^31 - 1."""
    largest = 2**31 - 1
    lengths = [1] * 45_000 + [largest - 1] * 1_000 + [largest] * 2_000
    outputs = output_stratum_frame(requests_of(*((i, 1, o) for i, o in enumerate(lengths))), [])
    mean = Fraction(1_000 * (largest - 1) + 2_000 * largest, 3_000)
    assert outputs.rows() == [("[1,inf)", 0, 45_000, 1.0), ("[1,inf)", 15, 3_000, float(f"{float(mean):.11e}"))]


def test_sums_are_exact_where_floats_are_not() -> None:
    """With 3000 prompts of 2^31 - 1 tokens, the sums of p^4 exceed 2^128."""
    largest = 2**31 - 1
    row = bucket_frame(requests_of(*((i, largest, largest) for i in range(3_000))), []).row(0, named=True)
    powers = ("prompt_tokens_mean", "prompt_tokens_m2", "prompt_attention_mean", "attention_m2")
    for power, column in enumerate(powers, start=1):
        assert row[column] == float(f"{Fraction(largest**power).numerator:.11e}")
    assert row["prompt_output_mean"] == row["output_tokens_m2"] == float(f"{largest**2:.11e}")


Row = tuple[int, int, int, int]
a_request = st.tuples(st.integers(0, 10**12), st.integers(1, 5_000), st.integers(0, 5_000), st.integers(1, 500)).map(
    lambda row: (row[0], row[1], row[2] % row[1], row[3])
)
a_log = st.lists(a_request, min_size=2, max_size=60).filter(lambda rows: len({row[0] for row in rows}) > 1)
some_edges = st.lists(st.integers(2, 5_000), max_size=4, unique=True).map(sorted)


def frame_of(rows: list[Row]) -> pl.DataFrame:
    first = min(at for at, *_ in rows)
    return pl.DataFrame([(at - first, *tokens) for at, *tokens in sorted(rows)], schema=SCHEMA, orient="row")


@given(a_log, some_edges)
@settings(max_examples=60)
def test_buckets_add_up_to_the_whole(rows: list[Row], edges: list[int]) -> None:
    buckets = bucket_frame(frame_of(rows), edges)
    whole, parts = buckets.row(0, named=True), buckets[1:].to_dicts()
    assert sum(part["requests"] for part in parts) == whole["requests"] == len(rows)
    assert isclose(sum(part["rate_rps"] for part in parts), whole["rate_rps"], rel_tol=1e-11)
    assert max(part["prompt_tokens_max"] for part in parts) == whole["prompt_tokens_max"]
    averaged = [name for name in buckets.columns if name.endswith(("_mean", "_m2"))]
    for name in [*averaged, "multi_token_share"]:
        total = sum(part["requests"] * part[name] for part in parts)
        assert isclose(total, whole["requests"] * whole[name], rel_tol=1e-11, abs_tol=1e-9)


@given(a_log, some_edges)
@settings(max_examples=60)
def test_strata_add_up_to_their_bucket(rows: list[Row], edges: list[int]) -> None:
    frame = frame_of(rows)
    strata = stratum_frame(frame, edges)
    for bucket in bucket_frame(frame, edges)[1:].to_dicts():
        parts = strata.filter(pl.col("bucket") == bucket["bucket"]).to_dicts()
        assert len(parts) <= 16
        assert sum(part["requests"] for part in parts) == bucket["requests"]
        for name in ("prompt_tokens_mean", "uncached_tokens_mean", "attention_mean"):
            total = sum(part["requests"] * part[name] for part in parts)
            assert isclose(total, bucket["requests"] * bucket[name], rel_tol=1e-11)
        assert all(low["uncached_tokens_mean"] < high["uncached_tokens_mean"] for low, high in pairwise(parts))


@given(a_log, some_edges)
@settings(max_examples=60)
def test_output_strata_agree_with_fractions(rows: list[Row], edges: list[int]) -> None:
    """Request by request: its bucket, how many of it have fewer output tokens, and the means in fractions."""
    expected: dict[tuple[int, int], list[int]] = {}
    place = [sum(p >= edge for edge in edges) for _, p, *_ in rows]
    for own, (*_, o) in zip(place, rows, strict=True):
        in_bucket = [other[-1] for at, other in zip(place, rows, strict=True) if at == own]
        stratum = 16 * sum(other < o for other in in_bucket) // len(in_bucket)
        expected.setdefault((own, stratum), []).append(o)
    labels = bucket_labels(edges)
    assert output_stratum_frame(frame_of(rows), edges).rows() == [
        (labels[own], stratum, len(outputs), float(f"{float(Fraction(sum(outputs), len(outputs))):.11e}"))
        for (own, stratum), outputs in sorted(expected.items())
    ]


@given(a_log)
@settings(max_examples=60)
def test_moments_agree_with_fractions(rows: list[Row]) -> None:
    row = bucket_frame(frame_of(rows), []).row(0, named=True)
    work = [(p, p - h, p**2 - h**2, o) for _, p, h, o in rows]
    count, times = len(rows), sorted(at for at, *_ in rows)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    expected = {
        "prompt_tokens_mean": sum(p for p, *_ in work),
        "prompt_tokens_m2": sum(p**2 for p, *_ in work),
        "uncached_tokens_m2": sum(u**2 for _, u, *_ in work),
        "attention_m2": sum(z**2 for _, _, z, _ in work),
        "uncached_attention_mean": sum(u * z for _, u, z, _ in work),
        "prompt_uncached_mean": sum(p * u for p, u, *_ in work),
        "prompt_attention_mean": sum(p * z for p, _, z, _ in work),
        "prompt_output_mean": sum(p * o for p, _, _, o in work),
    }
    for column, total in expected.items():
        assert isclose(row[column], Fraction(total, count), rel_tol=1e-11)
    assert isclose(row["rate_rps"], Fraction((count - 1) * NS, times[-1] - times[0]), rel_tol=1e-11)
    if count > 2:
        mean = Fraction(sum(gaps), count - 1)
        scv = Fraction(sum(gap * gap for gap in gaps), count - 1) / mean**2 - 1
        assert isclose(row["arrival_scv"], scv, rel_tol=1e-11)
