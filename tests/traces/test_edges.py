"""Bucket edges that are chosen, and buckets that hold nothing."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.declarations.typed import ChosenEdges
from pipelines.traces.edges import bucket_edges, empty_buckets


def prompts(*tokens: int) -> pl.DataFrame:
    return pl.DataFrame({"prompt_tokens": tokens}, schema={"prompt_tokens": pl.Int32})


def test_declared_edges_stay_as_they_are() -> None:
    assert bucket_edges(prompts(1, 2), (512, 2048)) == (512, 2048)


def test_quantiles_put_equal_counts_into_each_bucket() -> None:
    assert bucket_edges(prompts(*range(1, 101)), ChosenEdges("quantiles", 4)) == (26, 51, 76)


def test_quantile_edges_of_one_length_are_merged() -> None:
    """Half of the prompts have one length: two of the three edges fall on it, and below it lies nothing."""
    assert bucket_edges(prompts(7, 7, 7, 7, 7, 8, 9, 10), ChosenEdges("quantiles", 4)) == (9,)
    assert bucket_edges(prompts(7, 7, 7), ChosenEdges("quantiles", 4)) == ()


def test_log_edges_are_a_factor_apart() -> None:
    assert bucket_edges(prompts(10, 500, 10_000), ChosenEdges("log", 3)) == (100, 1000)
    assert bucket_edges(prompts(1, 2**30), ChosenEdges("log", 10)) == tuple(2 ** (3 * i) for i in range(1, 10))


def test_log_edges_are_rounded_up() -> None:
    assert bucket_edges(prompts(1, 10), ChosenEdges("log", 2)) == (4,)  # the root of 10 is 3.16


@given(
    st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=50),
    st.sampled_from(["quantiles", "log"]),
    st.integers(2, 32),
)
@settings(max_examples=150)
def test_chosen_edges_ascend_and_leave_no_outer_bucket_empty(tokens: list[int], by: str, buckets: int) -> None:
    edges = bucket_edges(prompts(*tokens), ChosenEdges(by, buckets))  # type: ignore[arg-type]
    assert list(edges) == sorted(set(edges))
    assert len(edges) < buckets
    if edges:
        assert min(tokens) < edges[0]
        assert edges[-1] <= max(tokens)
    if by == "quantiles":
        assert empty_buckets(prompts(*tokens), edges) == []


@pytest.mark.parametrize(
    ("edges", "empty"),
    [
        ((), []),
        ((10,), []),
        ((2, 5, 10), ["bucket [2,5) of prompt tokens holds no request"]),
        ((10, 100), ["bucket [100,inf) of prompt tokens holds no request"]),
    ],
)
def test_a_bucket_without_a_request_is_named(edges: tuple[int, ...], empty: list[str]) -> None:
    assert empty_buckets(prompts(1, 6, 50), edges) == empty
