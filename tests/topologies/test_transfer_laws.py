"""Laws of the cache and of its transfers, on random models, inputs and short random request logs: strategies are those of test_laws.py."""

from collections.abc import Iterator
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandera.config import config_context

from pipelines.arithmetic.kv import cache_bytes
from pipelines.arithmetic.kv_report import kept_bytes
from pipelines.declarations.cache import CacheLayers, CacheShape, shape_text
from pipelines.frames.evaluation import LOADS
from pipelines.frames.inputs import InputTable
from pipelines.topologies.transfers import transfer_model
from tests.plans import Ranged, evaluation_of, inputs_frame_of
from tests.topologies.test_budget import budget_of
from tests.topologies.test_laws import (
    EDGES,
    TOLERANCE,
    WAITS,
    Overrides,
    all_of,
    by_bound,
    evaluated,
    harmed,
    never_above,
    some_inputs,
    some_requests,
)

GROWING = ("full", "latent", "index")
LENGTHENING = ("competing", "handover", "per_descriptor", "regions", "relayout", "layout_factor", "registration", "w")
"""What makes every transfer take longer, whatever its length."""


@pytest.fixture(autouse=True)
def _unvalidated() -> Iterator[None]:
    with config_context(validation_enabled=False):
        yield


def _part(kind: str, layers: int, heads: int, size: int, tokens: int) -> CacheLayers:
    if kind in ("latent", "index"):
        return CacheLayers(kind, layers, 1, size, 4)  # type: ignore[arg-type]
    return CacheLayers(kind, layers, heads, size, size, tokens if kind == "window" else None)  # type: ignore[arg-type]


some_parts = st.builds(
    _part,
    st.sampled_from([*GROWING, "window", "state"]),
    st.integers(1, 8),
    st.integers(1, 8),
    st.integers(16, 64),
    st.sampled_from([128, 512, 2048]),
)
some_shapes: st.SearchStrategy[CacheShape] = st.lists(some_parts, min_size=1, max_size=4).map(
    lambda parts: (CacheLayers("full", 2, 2, 32, 32), *parts)
)
some_ranks = st.sampled_from([1, 2, 8])
some_lengthening = st.dictionaries(st.sampled_from(LENGTHENING), st.floats(1.0, 3.0), min_size=1, max_size=4)


@given(some_shapes, some_ranks, st.integers(1, 10_000))
def test_bytes_are_those_of_the_kinds_of_layers_together(shape: CacheShape, ranks: int, tokens: int) -> None:
    whole = cache_bytes(shape, "bf16", ranks)
    apart = [cache_bytes((part,), "bf16", ranks) for part in shape]
    assert kept_bytes(whole, tokens) == sum(kept_bytes(part, tokens) for part in apart)
    assert whole.allocated == sum(part.allocated for part in apart)


@given(some_shapes, some_ranks, some_inputs, st.lists(st.integers(1, 100_000), min_size=2, max_size=8))
@settings(max_examples=40)
def test_a_longer_prompt_never_moves_in_less_time(
    shape: CacheShape, ranks: int, numbers: Overrides, tokens: list[int]
) -> None:
    inputs = inputs_frame_of(**numbers | {"cache": shape_text(shape), "tensor_parallel": ranks})
    model = transfer_model(InputTable.of(inputs), "nominal")
    for of in (model.of_mean, model.of_prompt):
        moved = [of(count) for count in sorted(tokens)]
        for shorter, longer in pairwise(moved):
            assert shorter.size_bytes <= longer.size_bytes
            assert shorter.descriptors <= longer.descriptors
            assert shorter.seconds <= longer.seconds
    assert all(
        model.of_mean(count).seconds <= model.of_prompt(count + model.cache.block_tokens).seconds for count in tokens
    )


@given(some_shapes, some_inputs, some_requests())
@settings(max_examples=8)
def test_by_kind_never_holds_more_than_uniform(shape: CacheShape, numbers: Overrides, requests: pl.DataFrame) -> None:
    """Nor does it leave room for fewer sequences, or make one wait longer for a slot."""
    bounded, full = (
        all_of(numbers | {"cache": shape_text(shape), "kv_memory": 2e8, "allocation": allocation}, requests)
        for allocation in ("by_kind", "uniform")
    )
    keys = ["scenario", "bound", "bucket"]
    pairs = bounded.join(full, on=keys, suffix="_uniform", maintain_order="left")
    assert pairs.filter((pl.col("status") == "refused") & (pl.col("status_uniform") == "evaluated")).is_empty()
    never_above(
        pairs, [*(f"load_{load}" for load in LOADS), *WAITS, "ttft_s", "tpot_s", "e2e_s", "stall_s"], "_uniform"
    )


@given(some_inputs, some_requests(), st.floats(1.0, 4.0))
@settings(max_examples=8)
def test_more_memory_never_raises_a_load_or_a_wait(numbers: Overrides, requests: pl.DataFrame, factor: float) -> None:
    pairs = by_bound(all_of(numbers | {"kv_memory": Ranged(1e8 * factor, low=1e8)}, requests))
    assert pairs.filter((pl.col("status") == "refused") & (pl.col("status_worse") == "evaluated")).is_empty()
    never_above(pairs, [*(f"load_{load}" for load in LOADS), *WAITS, "ttft_s", "e2e_s"], "_worse")


@given(some_shapes, some_inputs, some_lengthening, some_requests())
@settings(max_examples=10)
def test_the_conservative_bound_of_any_cache_is_never_better(
    shape: CacheShape, numbers: Overrides, harm: dict[str, float], requests: pl.DataFrame
) -> None:
    """With windows that bend transfers: every one takes longer, nothing else changes but what is held."""
    inputs = inputs_frame_of(**harmed(numbers, harm) | {"cache": shape_text(shape), "allocation": "by_kind"})
    pairs = by_bound(evaluation_of("disaggregated", inputs, requests, EDGES))
    assert pairs.filter((pl.col("status") == "refused") & (pl.col("status_worse") == "evaluated")).is_empty()
    never_above(pairs, [f"load_{load}" for load in LOADS], "_worse")
    never_above(pairs, [*WAITS, "kv_movement_s", "ttft_s", "tpot_s", "e2e_s", "stall_s"], "_worse")


@given(some_inputs, some_requests(), st.floats(1.0, 100.0))
@settings(max_examples=10)
def test_more_bandwidth_never_raises_a_share_of_the_envelope_nor_lowers_what_fits(
    numbers: Overrides, requests: pl.DataFrame, factor: float
) -> None:
    faster = numbers | {"w": Ranged(numbers["w"] * factor, low=numbers["w"]), "kv_memory": 1e12}
    rows = budget_of(requests, tuple(EDGES), **faster)["rows"]
    declared, slower = ([row for row in rows if row["bound"] == bound] for bound in ("nominal", "conservative"))
    for fast, slow in zip(declared, slower, strict=False):
        assert fast["bucket"] == slow["bucket"]
        for name in ("used_s", "envelope_share"):
            assert fast[name] <= slow[name] * (1 + TOLERANCE)
        for name in ("bytes_at_limit", "largest_prompt_tokens"):  # absent where any fits, or where none does
            if fast[name] is not None and slow[name] is not None:
                assert fast[name] >= slow[name] * (1 - 1e-9)
        assert fast["bytes_mean"] == slow["bytes_mean"]


@given(some_inputs, some_requests())
@settings(max_examples=8)
def test_a_transfer_within_the_envelope_is_smaller_than_what_would_use_it(
    numbers: Overrides, requests: pl.DataFrame
) -> None:
    """Where nothing is streamed and all prompts have one length: bytes exceed those at the envelope where the share exceeds 1."""
    one = requests.with_columns(prompt_tokens=pl.lit(900, pl.Int32), cached_prompt_tokens=pl.lit(0, pl.Int32))
    rows = budget_of(one, **numbers | {"phi": 0.0, "kv_memory": 1e12})["rows"]
    for row in rows:
        if row["bytes_at_limit"] is not None:
            within = row["bytes_mean"] <= row["bytes_at_limit"] * (1 + 1e-9)
            assert within == (row["envelope_share"] <= 1 + 1e-9)
            bandwidth = row["bandwidth_at_limit_bytes_per_s"]
            if bandwidth is not None and abs(row["envelope_share"] - 1) > 1e-6:
                assert (bandwidth <= numbers["w"]) == (row["envelope_share"] <= 1)


@given(some_shapes, some_inputs, some_requests())
@settings(max_examples=6)
def test_a_curve_that_is_straight_is_the_straight_form(
    shape: CacheShape, numbers: Overrides, requests: pl.DataFrame
) -> None:
    """Through 0.01 s and 1 ns for each byte beyond 1 B, whatever lies below: overhead and bandwidth say the same."""
    common = numbers | {"cache": shape_text(shape), "competing": 0.0, "per_descriptor": 0.0, "phi": 0.0, "links": 4.0}
    overheads = {"registration": 0.01 - 1e-9, "synchronization": 0.0, "receiver_visibility": 0.0}
    affine = inputs_frame_of(**common | overheads | {"w": 1e9})
    absent = dict.fromkeys(("w", "per_descriptor", "regions", *overheads))
    curve = inputs_frame_of(**common | absent | {"curve": "1:0.01 1000001:0.011 100000001:0.11"})
    columns = [
        "scenario",
        "bound",
        "status",
        "transfer_wait_s",
        "kv_movement_s",
        "load_link",
        "load_kv_decode",
        "ttft_s",
    ]
    one, other = (
        evaluated(evaluation_of("disaggregated", inputs, requests)).select(columns) for inputs in (affine, curve)
    )
    assert one["scenario"].to_list() == other["scenario"].to_list()
    for column in columns[3:]:
        assert one[column].to_list() == pytest.approx(other[column].to_list(), rel=1e-9)
