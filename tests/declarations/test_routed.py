"""What a cohort declares of routing, measured service, separate workers, prices and objectives of buckets becomes inputs."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations import Cohort, Input, load_cohort, load_declarations, load_rules
from pipelines.declarations.bundled import bundled
from pipelines.declarations.search_size import pairs
from pipelines.declarations.typed import ChosenEdges
from pipelines.traces.edges import bucket_edges
from pipelines.traces.freeze import frozen_cohort, inputs_frame, read_cohort_requests

GOOD = Path(__file__).parent / "good"
_BLOCKS = ("service", "separated", "inventory")
NOT_DECLARED = "not declared: default"


def rewritten(directory: Path, *edits: tuple[str, str], name: str = "routed.yaml") -> Cohort:
    text = (GOOD / name).read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    (directory / "cohort.yaml").write_text(text, encoding="utf-8")
    for file in ("requests.csv", "prefill.csv", "decode.csv"):
        (directory / file).write_bytes((GOOD / file).read_bytes())
    return load_cohort(directory)


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return load_cohort(GOOD / "routed.yaml")


def row(cohort: Cohort, path: str) -> Input:
    return next(row for row in cohort.inputs if row.path == path)


def below(cohort: Cohort, *blocks: str) -> list[str]:
    return [row.path for row in cohort.inputs if row.path.startswith(blocks)]


def test_routed_is_compared_with_its_baselines(cohort: Cohort) -> None:
    assert cohort.topologies == ("aggregated", "chunked", "routed")
    assert (cohort.threshold_tokens, cohort.routed_chunk_tokens) == ((1024, 4096), (512,))
    assert cohort.chunk_tokens == (256, 512, 1024, 2048)
    assert row(cohort, "topologies.chunked.chunk_tokens").note == NOT_DECLARED
    assert below(cohort, "topologies.") == [
        "topologies.compared",
        "topologies.chunked.chunk_tokens",
        "topologies.routed.threshold_tokens",
        "topologies.routed.chunk_tokens",
    ]
    assert row(cohort, "topologies.routed.threshold_tokens").value == "1024 4096"


def test_disaggregated_alone_is_compared_with_its_baselines_too(tmp_path: Path) -> None:
    alone = ("  aggregated: {}\n  chunked: {chunk_tokens: [512, 1024, 2048]}\n", "")
    found = rewritten(tmp_path, alone, name="cohort.yaml")
    assert found.topologies == ("aggregated", "chunked", "disaggregated")
    assert found.chunk_tokens == (256, 512, 1024, 2048)
    assert (found.threshold_tokens, found.routed_chunk_tokens, found.forced_edges_tokens) == ((), (), ())


def test_budgets_that_are_declared_stay(tmp_path: Path) -> None:
    found = rewritten(tmp_path, ("topologies:\n", "topologies:\n  chunked: {chunk_tokens: [300]}\n"))
    assert found.topologies == ("aggregated", "chunked", "routed")
    assert (found.chunk_tokens, row(found, "topologies.chunked.chunk_tokens").note) == ((300,), None)


def test_without_chunk_tokens_short_prompts_are_served_whole(tmp_path: Path) -> None:
    found = rewritten(tmp_path, (", chunk_tokens: [512]", ""))
    assert found.routed_chunk_tokens == ()
    assert below(found, "topologies.routed") == ["topologies.routed.threshold_tokens"]


def test_a_penalty_may_exceed_one_and_hurts_at_its_high_end(cohort: Cohort) -> None:
    penalty = row(cohort, "service.mixed_step_penalty")
    assert (penalty.unit, penalty.value, penalty.conservative) == ("ratio", 1.2, 1.5)


def test_the_shortest_prompts_may_be_served_first(cohort: Cohort) -> None:
    assert row(cohort, "service.prefill.discipline").value == "shortest_first"


def test_curves_stand_in_place_of_rates_and_their_files_are_read_with_the_cohort(cohort: Cohort) -> None:
    paths = below(cohort, "service.")
    place = paths.index("service.prefill.curve")
    assert paths[place - 1 : place + 2] == [
        "service.prefill.prefix_hit_ratio",
        "service.prefill.curve",
        "service.prefill.utilization_ceiling",
    ]
    place = paths.index("service.decode.curve")
    assert paths[place - 1 : place + 2] == [
        "service.decode.seconds_per_context_token",
        "service.decode.curve",
        "service.decode.max_sequences",
    ]
    assert not {"service.prefill.tokens_per_second", "service.decode.step_overhead"} & set(paths)
    curve = row(cohort, "service.prefill.curve")
    assert (curve.unit, curve.value) == ("text", "512:0.0505:0.06 2048:0.19:0.2")
    assert (curve.provenance, curve.source, curve.note) == ("observed", "prefill sweep", "alone on the worker")
    assert cohort.read_with == (GOOD / "prefill.csv", GOOD / "decode.csv")


def test_separate_pools_have_rows_for_what_they_declare_only(cohort: Cohort) -> None:
    assert below(cohort, "separated.") == [
        "separated.prefill.gpus_per_worker",
        "separated.prefill.tokens_per_second",
        "separated.prefill.overhead",
        "separated.prefill.kv_memory_per_worker",
        "separated.decode.curve",
        "separated.decode.max_sequences",
    ]
    assert row(cohort, "separated.prefill.tokens_per_second").conservative == 20000.0
    assert row(cohort, "separated.prefill.gpus_per_worker").value == 2
    paths = below(cohort, "service.", "separated.", "inventory.")
    assert [path.split(".")[0] for path in paths] == sorted((path.split(".")[0] for path in paths), key=_BLOCKS.index)


def test_a_price_is_a_bare_number(cohort: Cohort) -> None:
    price = row(cohort, "inventory.gpu_hour_price")
    assert (price.unit, price.value, price.conservative, price.note) == ("price/h", 2.5, 2.5, "in euros")
    assert below(cohort, "inventory.")[-1] == "inventory.gpu_hour_price"


def test_objectives_of_buckets_are_rows_with_the_provenance_of_their_block(cohort: Cohort) -> None:
    assert below(cohort, "objectives.") == [
        "objectives.ttft",
        "objectives.tpot",
        "objectives.e2e",
        "objectives.stall",
        "objectives.ttft_growth",
        "objectives.attainment",
        "objectives.buckets.256.ttft",
        "objectives.buckets.256.e2e",
        "objectives.buckets.1024.tpot",
    ]
    short = row(cohort, "objectives.buckets.256.ttft")
    assert short == Input(short.path, "s", 0.3, None, None, 0.3, "supplied", None, None)


def test_thresholds_and_edges_of_objectives_are_bucket_edges(cohort: Cohort) -> None:
    assert cohort.forced_edges_tokens == (256, 1024, 4096)
    frozen = frozen_cohort(cohort, read_cohort_requests(cohort), inputs_frame(cohort))
    assert frozen["bucket_edges_tokens"].item() == "256 512 1024 2048 4096"


@given(forced=st.sets(st.integers(2, 5000)), edges=st.sets(st.integers(2, 5000)))
def test_edges_that_must_be_are_added_once(forced: set[int], edges: set[int]) -> None:
    prompts = pl.DataFrame({"prompt_tokens": [1, 10, 100, 1000]})
    needed = tuple(sorted(forced))
    assert bucket_edges(prompts, tuple(sorted(edges)), needed) == tuple(sorted(forced | edges))
    chosen = bucket_edges(prompts, ChosenEdges("log", 3))
    assert bucket_edges(prompts, ChosenEdges("log", 3), needed) == tuple(sorted(forced | set(chosen)))


def test_the_shipped_rules_judge_a_routed_cohort() -> None:
    _, rules = load_declarations(GOOD / "routed.yaml", bundled("rules"))
    assert rules == load_rules(bundled("rules"))
    assert all("routed" in gate.topologies for gate in rules.gates)


def test_a_pool_may_measure_what_the_mixed_one_estimates(tmp_path: Path) -> None:
    curve = "separated:\n  prefill:\n    curve: {file: prefill.csv, provenance: observed, source: sweep}\ninventory:\n"
    found = rewritten(tmp_path, ("inventory:\n", curve), name="cohort.yaml")
    assert below(found, "separated.") == ["separated.prefill.curve"]
    assert row(found, "service.prefill.tokens_per_second").value == 11800.0


def test_the_smallest_scenario_of_every_topology_may_fill_the_inventory(tmp_path: Path) -> None:
    found = rewritten(tmp_path, ("gpus: 16", "gpus: 4"))
    assert row(found, "inventory.gpus").value == 4


@given(gpus=st.integers(-3, 60), one=st.integers(1, 9), other=st.integers(1, 9))
def test_pairs_of_pools_are_counted(gpus: int, one: int, other: int) -> None:
    sizes = range(1, 61)
    assert pairs(gpus, one, other) == sum(p * one + d * other <= gpus for p in sizes for d in sizes)


def test_the_largest_search_is_still_accepted(tmp_path: Path) -> None:
    pools = ("  disaggregated: {}\n", "")
    budgets = ("{chunk_tokens: [512, 1024, 2048]}", f"{{chunk_tokens: {list(range(1, 500))}}}")
    found = rewritten(tmp_path, ("gpus: 4", "gpus: 1000"), pools, budgets, name="cohort.yaml")
    assert len(found.chunk_tokens) == 499
