"""The member ``replay`` of a receipt, from frames written down by hand."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import polars as pl
import pytest

from pipelines.frames.canonical import canonical_bytes
from pipelines.frames.inputs import InputTable
from pipelines.frames.replay_scope import ReplayScope
from pipelines.frames.replays import COUNTS, FIGURES, OF_POOL, POOLS, TIMES, Replays, ReplaySample
from pipelines.receipts.headlines import replay_of
from pipelines.receipts.replay import replay_section
from tests.gates.boards import board, refused_by
from tests.plans import inputs_frame_of

ONE, TWO = "aggregated/n2", "disaggregated/p1/d1"
KNOBS = {ONE: {"workers_mixed": 2}, TWO: {"workers_prefill": 1, "workers_decode": 1}}
LINKS = ("peak_transfer_queue", "peak_decode_queue", "link_s")


def frame(model: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {name: column.dtype.type for name, column in model.to_schema().columns.items()}
    return model.validate(pl.DataFrame(rows, schema=schema, orient="row"))  # type: ignore[no-any-return]


def results(scenario: str, bound: str, part: str, **said: Any) -> dict[str, Any]:
    """A row of the replays, in which every count is 1 and every time half a second, unless it says otherwise."""
    pools = [pool for pool in POOLS if f"workers_{pool}" in KNOBS[scenario]]
    row: dict[str, Any] = {"scenario": scenario, "bound": bound, "part": part, "swapped_bytes": 0.0}
    row |= {"ticks_per_second": 10**12 if bound == "nominal" else 10**11}
    row |= dict.fromkeys(COUNTS, 1) | dict.fromkeys(TIMES, 0.5)
    row |= {f"{pool}_{name}": 8.0 for pool in pools for name in OF_POOL}
    if "mixed" in pools:
        row |= dict.fromkeys(LINKS)
    if part == "whole":
        row |= dict.fromkeys(FIGURES, 1.0)
    return row | said


def not_replayed(scenario: str, bound: str, reason: str) -> dict[str, Any]:
    return {"scenario": scenario, "bound": bound, "part": "whole", "reason": reason, "ticks_per_second": 10**11}


WORST = {"minute": 3, "minute_requests": 40, "minute_met": 7}
ROWS = [
    results(ONE, "nominal", "whole", requests=1400, replayed_tpot_mean_s=None, **WORST),
    results(ONE, "nominal", "sample", requests=2),
    not_replayed(ONE, "conservative", "refused"),
    results(TWO, "nominal", "whole", requests=1400),
    results(TWO, "nominal", "sample", requests=2),
    not_replayed(TWO, "conservative", "kv_memory"),
]
SAMPLE = [
    {"request": 17, "arrival_ns": 0, "prompt_tokens": 500, "cached_prompt_tokens": 20, "output_tokens": 41},
    {"request": 18, "arrival_ns": 7, "prompt_tokens": 9, "cached_prompt_tokens": 0, "output_tokens": 1},
]


def section(
    rows: list[dict[str, Any]], sample: list[dict[str, Any]], reason: str | None = None, **inputs: Any
) -> dict[str, Any]:
    plan = SimpleNamespace(
        table=InputTable.of(inputs_frame_of(**inputs)),
        matrix=board({"scenario": ONE, **KNOBS[ONE], "worse": refused_by("mixed", 2)}, {"scenario": TWO, **KNOBS[TWO]}),
        replays=frame(Replays, rows),
        replay_sample=frame(ReplaySample, sample),
        replay_scope=frame(ReplayScope, [{"which": "all", "reason": reason}]),
    )
    return replay_section(plan)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return section(ROWS, SAMPLE)


def test_it_holds_against_its_schema(found: dict[str, Any], project: Path) -> None:
    schema = json.loads((project / "schemas" / "topology-receipt.v1.schema.json").read_text(encoding="utf-8"))
    own = {"$defs": schema["$defs"], **schema["properties"]["replay"]}
    jsonschema.Draft202012Validator(own).validate(json.loads(canonical_bytes(found)))


def test_the_sample_is_written_out_with_the_number_of_its_first_request(found: dict[str, Any]) -> None:
    assert found["sample"] == {"first": 17, "requests": [[0, 500, 20, 41], [7, 9, 0, 1]]}
    assert found["ticks_per_second"] == {"nominal": 10**12, "conservative": 10**11}


def test_scenarios_stand_in_matrix_order_nominal_before_conservative(found: dict[str, Any]) -> None:
    rows = [(row["scenario"], row["bound"], row["reason"]) for row in found["scenarios"]]
    assert rows == [
        (ONE, "nominal", None),
        (ONE, "conservative", "refused"),
        (TWO, "nominal", None),
        (TWO, "conservative", "kv_memory"),
    ]


def test_what_is_not_replayed_has_nothing_but_the_reason(found: dict[str, Any]) -> None:
    for row in found["scenarios"][1::2]:
        assert [row[name] for name in ("figures", "worst_minute", "whole", "sample")] == [None] * 4


def test_the_worst_minute_is_null_where_all_requests_meet_their_objectives(found: dict[str, Any]) -> None:
    one, _, two, _ = found["scenarios"]
    assert one["worst_minute"] == {"minute": 3, "requests": 40, "met": 7}
    assert two["worst_minute"] is None


def test_figures_are_of_the_whole_and_results_of_whole_and_sample(found: dict[str, Any]) -> None:
    one = found["scenarios"][0]
    assert list(one["figures"]) == list(FIGURES)
    assert one["figures"]["replayed_tpot_mean_s"] is None
    assert [one[part]["requests"] for part in ("whole", "sample")] == [1400, 2]


def test_each_scenario_has_its_own_pools_and_links_only_where_it_has_links(found: dict[str, Any]) -> None:
    one, _, two, _ = found["scenarios"]
    assert [pool["pool"] for pool in one["whole"]["pools"]] == ["mixed"]
    assert [pool["pool"] for pool in two["sample"]["pools"]] == ["prefill", "decode"]
    assert [one["whole"][name] for name in LINKS] == [None] * 3
    assert None not in [two["whole"][name] for name in LINKS]


@pytest.mark.parametrize("reason", ["closed_loop", "no_arrivals"])
def test_a_cohort_that_is_not_replayed_has_no_scenarios_and_no_sample(reason: str) -> None:
    found = section([], [], reason)
    assert (found["which"], found["reason"], found["scenarios"]) == ("all", reason, [])
    assert (found["sample"], found["ticks_per_second"]) == (None, None)


@pytest.mark.parametrize(("declared", "policy"), [({}, "recompute"), ({"when_full": "wait"}, "wait")])
def test_it_says_what_full_memory_leads_to(declared: dict[str, Any], policy: str) -> None:
    assert section(ROWS, SAMPLE, **declared)["when_memory_is_full"] == policy


def test_a_headline_is_the_replay_of_the_whole_trace_under_the_nominal_bound() -> None:
    replays = frame(Replays, ROWS)
    one, two = replay_of(ONE, replays), replay_of(TWO, replays)
    assert one is not None
    assert (one["reason"], one["worst_minute"]) == (None, {"minute": 3, "requests": 40, "met": 7})
    assert one["figures"]["replayed_goodput"] == 1.0
    assert two is not None
    assert two["worst_minute"] is None
    assert replay_of("chunked/n1/c512", replays) is None
