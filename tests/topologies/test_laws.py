"""Laws of the evaluation, on random inputs and short random request logs.

One evaluation holds all pool sizes and both bounds, so that a law compares rows of one frame: a worse value is a range's hurtful end.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pandera.config import config_context
from polars.testing import assert_frame_equal

from pipelines.frames.evaluation import LANES, LOADS
from pipelines.frames.inputs import InputTable
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.scenarios import scenario_frame
from tests.plans import (
    FINGERPRINT,
    HURTFUL_END,
    Ranged,
    evaluation_of,
    in_pairs,
    inputs_frame_of,
    requests_of,
    row_of,
    workload_of,
)

EDGES = [600]
SHORT, LONG = "[1,600)", "[600,inf)"
AT_EASE = {"ttft": 1e6, "tpot": 1e6}
"""Objectives that no floor refuses."""
LATENCIES = ("decode_batch", "stall_s", "goodput", "dominant_queue", *LANES, "ttft_s", "tpot_s", "e2e_s")
WAITS = ("prefill_wait_s", "transfer_wait_s", "decode_wait_s")
TOLERANCE = 1e-12
"""Relative; a few roundings of a double."""

Overrides = dict[str, Any]


@pytest.fixture(autouse=True)
def _unvalidated() -> Iterator[None]:
    """Frames are checked against their models in the first test, and in all other modules; here that takes most of the time."""
    with config_context(validation_enabled=False):
        yield


some_lengths = st.tuples(
    st.one_of(st.integers(1, 4000), st.sampled_from([100, 599, 600, 1024])), st.one_of(st.just(1), st.integers(1, 300))
)
some_gaps = st.one_of(st.just(0.0), st.floats(0.2, 2.0))


@st.composite
def some_requests(draw: st.DrawFn) -> pl.DataFrame:
    lengths = draw(st.lists(some_lengths, min_size=3, max_size=6))
    gaps = draw(st.lists(some_gaps, min_size=len(lengths) - 2, max_size=len(lengths) - 2))
    times = [0.0, 0.4]
    for gap in gaps:
        times.append(times[-1] + gap)
    share = draw(st.one_of(st.just(0.0), st.floats(0.0, 0.99)))
    hits = {prompt: int(prompt * share) for prompt, _ in lengths}
    return requests_of(
        *((at, prompt, output) for at, (prompt, output) in zip(times, lengths, strict=True)), cached=hits
    )


def log_scale(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


QUANTITIES: dict[str, st.SearchStrategy[float]] = {
    "a": log_scale(1e-4, 1e-2),
    "d": st.one_of(st.just(0.0), log_scale(1e-3, 3e-2)),
    "r_p": log_scale(5e3, 5e4),
    "q": st.one_of(st.just(0.0), log_scale(1e-10, 1e-8)),
    "eta": st.one_of(st.just(0.0), st.floats(0.0, 0.99)),
    "t0": log_scale(3e-3, 3e-2),
    "r_d": log_scale(500, 5000),
    "gamma": st.one_of(st.just(0.0), log_scale(1e-9, 1e-6)),
    "slots": st.integers(8, 256).map(float),
    "kv_memory": log_scale(1e8, 1e11),
    "layout_factor": st.floats(0.5, 2.0),
    "links": st.integers(1, 4).map(float),
    "w": log_scale(2e7, 1e10),
    "registration": log_scale(1e-4, 1e-2),
    "competing": st.one_of(st.just(0.0), st.floats(0.0, 0.3)),
    "handover": st.one_of(st.just(0.0), log_scale(1e-4, 1e-2)),
    "per_descriptor": st.one_of(st.just(0.0), log_scale(1e-9, 1e-7)),
    "regions": st.integers(1, 3).map(float),
    "relayout": st.floats(1.0, 2.0),
    "at_destination": st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
    "phi": st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
    "ttft": log_scale(0.05, 5.0),
    "tpot": log_scale(5e-3, 5e-2),
    "psi": st.one_of(st.just(0.0), st.floats(0.0, 0.5)),
}
some_knobs = st.fixed_dictionaries(
    {
        "dispatch": st.sampled_from(["least_loaded", "round_robin"]),
        "first_token": st.sampled_from(["decode", "prefill"]),
        "chunk_tokens": st.sets(st.integers(8, 4096), min_size=2, max_size=2).map(
            lambda budgets: " ".join(str(budget) for budget in sorted(budgets))
        ),
        "block_tokens": st.sampled_from([1.0, 16.0]),
        "sharing": st.sampled_from(["shared", "per_prefill_worker", "per_decode_worker"]),
        "discipline_p": st.sampled_from(["fifo", "shortest_first"]),
        "compared": st.just("aggregated chunked disaggregated routed"),
        "thresholds": st.just("600"),
        "routed_chunks": st.just("512"),
    }
)
some_inputs = st.builds(lambda knobs, numbers: knobs | numbers, some_knobs, st.fixed_dictionaries(QUANTITIES))
some_harm = st.dictionaries(
    st.sampled_from(sorted(set(QUANTITIES) & set(HURTFUL_END) - {"links"})), st.floats(1.0, 3.0), min_size=1, max_size=4
)


def harmed(numbers: Overrides, harm: dict[str, float]) -> Overrides:
    """``numbers`` with ranges: each symbol of ``harm`` is worse by its factor at the end that hurts."""
    ranges = {
        name: Ranged(
            numbers[name], **{HURTFUL_END[name]: numbers[name] * factor ** (1 if HURTFUL_END[name] == "high" else -1)}
        )
        for name, factor in harm.items()
    }
    return numbers | ranges


def all_of(overrides: Overrides, requests: pl.DataFrame, edges: Sequence[int] = EDGES) -> pl.DataFrame:
    """Every topology, scenario, bound and bucket in one frame."""
    inputs = inputs_frame_of(**overrides)
    return pl.concat(evaluation_of(name, inputs, requests, edges) for name in TOPOLOGIES)


def nominal(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("bound") == "nominal")


def evaluated(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("status") == "evaluated")


def never_above(pairs: pl.DataFrame, columns: Sequence[str], suffix: str) -> None:
    """No figure of ``columns`` is above the one of the same name with ``suffix``; absent ones are not compared."""
    for column in columns:
        higher = pairs.filter(pl.col(column) > pl.col(column + suffix) * (1 + TOLERANCE) + 1e-300)
        assert higher.is_empty(), (column, higher.select("scenario", column, column + suffix).row(0))


def by_bound(frame: pl.DataFrame) -> pl.DataFrame:
    """Nominal rows beside the conservative ones of the same scenario and bucket."""
    other = frame.filter(pl.col("bound") == "conservative")
    return nominal(frame).join(other, on=["scenario", "bucket"], suffix="_worse", maintain_order="left")


def one_more(frame: pl.DataFrame, pool: str) -> pl.DataFrame:
    """Rows with one more worker in ``pool``, each beside the row without (``_fewer``)."""
    knobs = ("topology", "bound", "bucket", "workers_mixed", "workers_prefill", "workers_decode", "chunk_tokens")
    shifted = frame.filter(pl.col(pool).is_not_null()).with_columns(pl.col(pool) + 1)
    return frame.join(shifted, on=list(knobs), suffix="_fewer", nulls_equal=True, maintain_order="left")


@given(some_inputs, some_harm, some_requests())
@settings(max_examples=4)
def test_every_evaluation_is_one_of_its_model(
    numbers: Overrides, harm: dict[str, float], requests: pl.DataFrame
) -> None:
    with config_context(validation_enabled=True):
        frame = all_of(harmed(numbers, harm), requests)
    buckets = requests["prompt_tokens"].lt(EDGES[0]).n_unique()
    routed = 2 * 4 if buckets == 2 else 0  # 1+1+1, 2+1+1, 1+2+1, 1+1+2 workers, with and without chunks
    assert frame.height == 2 * buckets * (4 + 2 * 4 + 6 + routed)


@given(some_inputs, some_harm, some_requests())
@settings(max_examples=12)
def test_lanes_add_up_and_none_is_negative(numbers: Overrides, harm: dict[str, float], requests: pl.DataFrame) -> None:
    for row in evaluated(all_of(harmed(numbers, harm) | AT_EASE, requests)).to_dicts():
        lanes = [row[lane] for lane in LANES]
        separated = on_separated_path(row)
        until_first = 7 if separated and numbers["first_token"] == "decode" else 3
        assert min(lanes) >= 0
        assert row["ttft_s"] == pytest.approx(math.fsum(lanes[:until_first]), rel=TOLERANCE)
        assert row["e2e_s"] == pytest.approx(math.fsum(lanes), rel=TOLERANCE)
        if not separated:
            assert lanes[3:5] == [0, 0]


def on_separated_path(row: dict[str, Any]) -> bool:
    """Whether the bucket of a row is served by separate pools."""
    return row["topology"] == "disaggregated" or (row["topology"] == "routed" and row["bucket"] == LONG)


@given(some_inputs, some_requests())
@settings(max_examples=6)
def test_tpot_is_what_follows_the_first_token_over_the_tokens_that_follow(
    numbers: Overrides, requests: pl.DataFrame
) -> None:
    buckets = workload_of(requests, EDGES).buckets
    later = dict(buckets.select("bucket", pl.col("output_tokens_mean") - 1).iter_rows())
    for row in evaluated(all_of(numbers | AT_EASE, requests)).to_dicts():
        if later[row["bucket"]] == 0:
            assert row["tpot_s"] is None
        else:
            follows = row["tpot_s"] * later[row["bucket"]]
            assert follows == pytest.approx(row["e2e_s"] - row["ttft_s"], rel=1e-9, abs=1e-12)


MIXED_LOADS = {
    "whole": ["mixed", "slots_mixed", "kv_mixed"],
    "chunks": ["mixed", "prefill_lane", "slots_mixed", "kv_mixed"],
}
SEPARATED_LOADS = ["prefill", "decode", "link", "slots_decode", "kv_prefill", "kv_decode", "staging"]
KINDS = {
    "mixed": "utilization", "prefill_lane": "prefill_starved", "slots_mixed": "slots", "kv_mixed": "kv_memory",
    "prefill": "utilization", "decode": "utilization", "link": "link_saturated", "slots_decode": "slots",
    "kv_prefill": "kv_memory", "kv_decode": "kv_memory", "staging": "staging",
}  # fmt: skip


def loads_in_order(row: dict[str, Any]) -> list[str]:
    mixed = MIXED_LOADS["whole" if row["chunk_tokens"] is None else "chunks"]
    return {"disaggregated": SEPARATED_LOADS, "routed": mixed + SEPARATED_LOADS}.get(row["topology"], mixed)


@given(some_inputs, some_harm, some_requests())
@settings(max_examples=12)
def test_a_refused_row_says_what_is_full_or_too_slow_and_nothing_about_latency(
    numbers: Overrides, harm: dict[str, float], requests: pl.DataFrame
) -> None:
    """Slots are refused as memory where more of it would leave a smaller share of them in use."""
    ranged = harmed(numbers, harm)
    frame, roomy = all_of(ranged, requests), all_of(ranged | {"kv_memory": 1e30}, requests)
    assert set(frame["status"]) <= {"evaluated", "refused"}
    for row, unbounded in zip(frame.to_dicts(), roomy.to_dicts(), strict=True):
        order, present = loads_in_order(row), [load for load in LOADS if row[f"load_{load}"] is not None]
        if row["status"] == "evaluated":
            assert {row[f"refusal_{name}"] for name in ("kind", "resource", "figure", "limit")} == {None}
            assert present == order
            continue
        assert [column for column in LATENCIES if row[column] is not None] == []
        resource = row["refusal_resource"]
        if row["refusal_kind"] in ("ttft_floor", "tpot_floor"):
            assert resource in (SHORT, LONG)
            assert row["refusal_limit"] == numbers[row["refusal_kind"][:4]] < row["refusal_figure"]
            assert present == order
            continue
        kind = KINDS[resource]
        if kind == "slots" and row[f"load_{resource}"] > unbounded[f"load_{resource}"]:
            kind = "kv_memory"
        assert row["refusal_kind"] == kind
        until = order[: order.index(resource) + 1]
        if row["refusal_limit"] == 1 and kind == "prefill_starved":  # no room for a token
            assert row["refusal_figure"] < 1
            assert present == until[:-1]
        else:
            assert row["refusal_figure"] >= row["refusal_limit"]
            assert row["refusal_figure"] == row[f"load_{resource}"]
            assert present == until


@given(some_inputs, some_harm, some_requests())
@settings(max_examples=8)
def test_pressure_is_the_largest_share_of_a_ceiling(
    numbers: Overrides, harm: dict[str, float], requests: pl.DataFrame
) -> None:
    ceilings = {"mixed": 0.8, "prefill_lane": 0.8, "prefill": 0.8, "decode": 0.9, "link": 0.7}
    ceilings |= {"slots_mixed": 0.9, "slots_decode": 0.9}
    for row in all_of(harmed(numbers, harm) | AT_EASE, requests).to_dicts():
        shares = {
            load: row[f"load_{load}"] / ceilings.get(load, 1.0) for load in LOADS if row[f"load_{load}"] is not None
        }
        assert row["pressure"] == pytest.approx(max(shares.values()), rel=TOLERANCE)
        assert shares[row["tightest"]] == pytest.approx(row["pressure"], rel=TOLERANCE)
        assert row["headroom"] == pytest.approx(1 - row["pressure"], rel=TOLERANCE, abs=1e-15)
        no_room = row["refusal_kind"] == "prefill_starved" and row["load_prefill_lane"] is None
        assert (row["status"] == "refused") == (row["pressure"] >= 1 or no_room)


@given(some_inputs, some_harm, some_requests(), st.floats(1.0, 4.0))
@settings(max_examples=10)
def test_more_workers_never_raise_a_load_of_whole_prompts_or_separate_pools_nor_a_wait_for_prefill(
    numbers: Overrides, harm: dict[str, float], requests: pl.DataFrame, ca2: float
) -> None:
    """Of arrivals that vary at least as Poisson ones; see the exception below for others.

    Chunks are no part of it: with more workers a step leaves more room for prompts, and their passes settle elsewhere.
    """
    numbers = numbers | AT_EASE | {"rate": 1.5, "ca2": ca2, "dispatch": "least_loaded"}
    frame = all_of(harmed(numbers, harm), requests).filter(pl.col("chunk_tokens").is_null())
    for pool in ("workers_mixed", "workers_prefill", "workers_decode"):
        pairs = one_more(frame, pool)
        before = pairs.filter(pl.col("status_fewer") == "evaluated")
        assert evaluated(before).height == before.height, "a worker more refuses what was evaluated"
        utilizations = [f"load_{name}" for name in ("mixed", "prefill", "decode", "link", "slots_decode")]
        never_above(pairs, utilizations, "_fewer")
        separated = pairs.filter(pl.col("topology") == "disaggregated")
        never_above(separated, [f"load_{name}" for name in LOADS], "_fewer")
        both = evaluated(pairs).filter(pl.col("status_fewer") == "evaluated")
        never_above(both, ["prefill_execution_s"], "_fewer")
        apart = both.filter(pl.col("topology") == "disaggregated")
        never_above(
            apart, ["prefill_wait_s", "transfer_wait_s", "decode_wait_s", "tpot_s", "ttft_s", "e2e_s"], "_fewer"
        )
        mixed = both.filter(pl.col("topology") == "aggregated")
        never_above(mixed, ["load_slots_mixed"], "_fewer")


@given(some_inputs, some_requests(), st.floats(1.0, 100.0))
@settings(max_examples=10)
def test_more_bandwidth_never_raises_ttft_or_the_transfer(
    numbers: Overrides, requests: pl.DataFrame, factor: float
) -> None:
    """With the first token by decode; with it by prefill, TTFT has no transfer in it."""
    faster = {"w": Ranged(numbers["w"] * factor, low=numbers["w"]), "first_token": "decode"}
    inputs = inputs_frame_of(**numbers | AT_EASE | faster)
    pairs = by_bound(evaluation_of("disaggregated", inputs, requests, EDGES))
    assert pairs.filter((pl.col("status") == "refused") & (pl.col("status_worse") == "evaluated")).is_empty()
    never_above(pairs, [f"load_{load}" for load in LOADS], "_worse")
    never_above(pairs, ["ttft_s", "tpot_s", "e2e_s", "stall_s", "transfer_wait_s", "kv_movement_s"], "_worse")


HARMLESS = (
    "w",
    "registration",
    "per_descriptor",
    "handover",
    "competing",
    "relayout",
    "regions",
    "gamma",
    "t0",
    "a",
    "r_d",
)
"""What makes transfers or decode slower, and prefill no faster."""


@given(
    some_inputs,
    st.dictionaries(st.sampled_from(HARMLESS), st.floats(1.0, 3.0), min_size=1, max_size=4),
    some_requests(),
)
@settings(max_examples=12)
def test_the_conservative_bound_is_never_better_where_that_is_a_law(
    numbers: Overrides, harm: dict[str, float], requests: pl.DataFrame
) -> None:
    """Of separate pools, in every latency. With the same traffic, whole prompts in loads and in the pace.

    What is no law: a slower prefill hides more of a streamed transfer, and spreads prompts; chunks settle elsewhere.
    """
    pairs = by_bound(all_of(harmed(numbers, harm) | AT_EASE, requests)).filter(pl.col("chunk_tokens").is_null())
    assert pairs.filter((pl.col("status") == "refused") & (pl.col("status_worse") == "evaluated")).is_empty()
    never_above(pairs, [f"load_{load}" for load in LOADS if load != "kv_mixed"], "_worse")
    never_above(pairs, ["admission_s", "prefill_execution_s", "decode_batch"], "_worse")
    separated = pairs.filter(pl.col("topology") == "disaggregated")
    never_above(separated, [*WAITS, "kv_movement_s", "ttft_s", "tpot_s", "e2e_s", "stall_s"], "_worse")
    worst = separated.group_by("scenario").agg(pl.col("ttft_s", "ttft_s_worse").max())
    never_above(worst, ["ttft_s"], "_worse")


@given(some_inputs, some_harm, some_requests())
@settings(max_examples=6)
def test_the_conservative_bound_is_the_nominal_one_of_the_hurtful_ends(
    numbers: Overrides, harm: dict[str, float], requests: pl.DataFrame
) -> None:
    ranged = harmed(numbers, harm)
    ends = {name: getattr(ranged[name], HURTFUL_END[name]) for name in harm}
    conservative = all_of(ranged, requests).filter(pl.col("bound") == "conservative")
    assert conservative.drop("bound").equals(nominal(all_of(numbers | ends, requests)).drop("bound"))


@given(some_inputs, some_requests(), st.floats(1.0, 4.0))
@settings(max_examples=8)
def test_goodput_is_a_share_that_grows_with_the_time_allowed(
    numbers: Overrides, requests: pl.DataFrame, factor: float
) -> None:
    tight, loose = (
        nominal(all_of(numbers | {name: numbers[name] * by for name in ("ttft", "tpot")}, requests))
        for by in (1.0, factor)
    )
    known = (tight["status"] == "evaluated") & (loose["status"] == "evaluated")
    assert (tight["status"] == "evaluated").sum() == known.sum(), "more time refuses what was evaluated"
    tight, loose = tight.filter(known), loose.filter(known)
    assert tight["goodput"].is_between(0, 1).all()
    assert (tight["goodput"] <= loose["goodput"] * (1 + TOLERANCE)).all()
    timeless = "dominant_queue", "ttft_s", "tpot_s", "e2e_s", "pressure"
    assert tight.select(timeless).equals(loose.select(timeless))


@given(some_inputs, some_requests())
@settings(max_examples=5)
def test_with_all_the_time_in_the_world_every_request_is_good(numbers: Overrides, requests: pl.DataFrame) -> None:
    rows = evaluated(all_of(numbers | {"ttft": 1e9, "tpot": 1e9}, requests))
    assert rows["goodput"].to_list() == pytest.approx([1.0] * rows.height, rel=1e-6)


@given(some_inputs, some_requests())
@settings(max_examples=6)
def test_a_transfer_without_overhead_over_a_limitless_link_takes_no_time(
    numbers: Overrides, requests: pl.DataFrame
) -> None:
    nothing = {"registration": 0.0, "synchronization": 0.0, "receiver_visibility": 0.0, "w": 1e30}
    nothing |= {"handover": 0.0, "per_descriptor": 0.0}
    inputs = inputs_frame_of(**numbers | AT_EASE | nothing)
    rows = evaluated(evaluation_of("disaggregated", inputs, requests, EDGES))
    for column in ("transfer_wait_s", "kv_movement_s", "load_link", "load_staging"):
        assert rows[column].to_list() == pytest.approx([0.0] * rows.height, abs=1e-15)


@given(some_inputs, some_requests())
@settings(max_examples=5)
def test_one_worker_waits_alike_under_either_dispatch(numbers: Overrides, requests: pl.DataFrame) -> None:
    ones = pl.col("workers_prefill").fill_null(1) * pl.col("workers_mixed").fill_null(1) == 1
    ones = ones & (pl.col("workers_decode").fill_null(1) == 1)
    shared, own = (
        evaluated(all_of(numbers | {"dispatch": dispatch}, requests)).filter(ones)
        for dispatch in ("least_loaded", "round_robin")
    )
    assert shared["scenario"].equals(own["scenario"])
    for column in ("prefill_wait_s", "ttft_s", "e2e_s", "goodput", "load_mixed", "load_kv_decode"):
        pairs = zip(shared[column], own[column], strict=True)
        assert all(one is other is None or one == pytest.approx(other, rel=1e-10, abs=1e-12) for one, other in pairs)


@given(some_inputs, some_requests(), st.randoms(use_true_random=False))
@settings(max_examples=4)
def test_the_order_of_the_inputs_table_does_not_matter(numbers: Overrides, requests: pl.DataFrame, random: Any) -> None:
    inputs = inputs_frame_of(**numbers)
    shuffled = inputs.sample(fraction=1.0, shuffle=True, seed=random.randrange(2**32))
    for topology in TOPOLOGIES:
        assert evaluation_of(topology, inputs, requests).equals(evaluation_of(topology, shuffled, requests))


@given(some_inputs, some_requests(), st.randoms(use_true_random=False))
@settings(max_examples=6)
def test_permuting_scenarios_changes_nothing_nor_does_leaving_some_out(
    numbers: Overrides, requests: pl.DataFrame, random: Any
) -> None:
    table = InputTable.of(inputs_frame_of(**numbers))
    workload = workload_of(requests, EDGES)
    scenarios = scenario_frame(table, workload.thresholds(table))
    shuffled = scenarios.sample(fraction=1.0, shuffle=True, seed=random.randrange(2**32))
    for topology in TOPOLOGIES:
        together = evaluate(topology, FINGERPRINT, scenarios, table, workload)
        permuted = evaluate(topology, FINGERPRINT, shuffled, table, workload)
        assert_frame_equal(together, permuted, rel_tol=TOLERANCE, abs_tol=0)
        last = scenarios.filter(pl.col("topology") == topology).tail(1)
        if last.is_empty():
            continue
        alone = evaluate(topology, FINGERPRINT, last, table, workload)
        own = together.filter(pl.col("scenario") == last["scenario"].item())
        assert_frame_equal(alone, own, rel_tol=TOLERANCE, abs_tol=0)


@given(some_inputs, some_requests())
@settings(max_examples=6)
def test_buckets_are_views_of_one_load(numbers: Overrides, requests: pl.DataFrame) -> None:
    """Where prompts are cut into buckets changes no load, wait, batch or stall; sums over strata are taken in another order."""
    assume(requests["prompt_tokens"].lt(EDGES[0]).n_unique() == 2)
    numbers = numbers | AT_EASE | {"discipline_p": "fifo"}
    shared = [
        "scenario",
        "bound",
        *(f"load_{load}" for load in LOADS),
        "transfer_wait_s",
        "decode_batch",
        "stall_s",
        "status",
    ]
    for topology in ("aggregated", "disaggregated"):
        inputs = inputs_frame_of(**numbers)
        one = evaluation_of(topology, inputs, requests).select([*shared, "prefill_wait_s"])
        two = (
            evaluation_of(topology, inputs, requests, EDGES)
            .select([*shared, "prefill_wait_s"])
            .unique(maintain_order=True)
        )
        assert_frame_equal(one, two, rel_tol=1e-9, abs_tol=1e-14)


def test_more_even_arrivals_may_wait_longer_on_two_workers_than_on_one() -> None:
    """The exception to the law of prefill waits: one worker has the smoothed form, two that share a queue do not.

    ca² = 1/2, ρ = 0.022 or 0.011 of constant prompts: 15 us of waiting against next to nothing. Page, section 4.
    """
    inputs = inputs_frame_of(rate=0.2, ca2=0.5)
    evaluation = evaluation_of("disaggregated", inputs, in_pairs(*[(1000, 1)] * 5))
    one, two = (row_of(evaluation, f"disaggregated/p{n}/d1")["prefill_wait_s"] for n in (1, 2))
    assert one < two < 1e-4
