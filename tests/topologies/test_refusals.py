"""Each way in which a scenario is refused, with the figure that refuses it and the limit that it reached.

Five requests of 1000 prompt and 101 output tokens, two a second: the loads are those worked out in test_hand_worked_*.py.
"""

import math
from typing import Any

import polars as pl
import pytest

from pipelines.frames.evaluation import LANES, LOADS
from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, matrix_of, row_of
from tests.topologies.by_hand import Costs, chunks, decode_pool, whole_prompts
from tests.topologies.worked import FIVE, STEADY

AGGREGATED, DISAGGREGATED = "aggregated/n1", "disaggregated/p1/d1"

# of disaggregated, with the first token by decode
POOL = decode_pool(FIVE)
B_D, T_D = 2.121 / 0.899, 0.0105 / 0.899
# at 40 MB/s: T = 0.255 s, rho_l = 0.51; at 32 MB/s: T = 0.3175 s, rho_l = 0.635
SLOW_LINK = 0.5 * 0.51 / 0.49 * 0.255
SLOWER_LINK = 0.5 * 0.635 / 0.365 * 0.3175
# a decoding sequence holds (1000·100 + 100²/2)/100 = 1050 tokens, with the first token by decode (1000·101 + 101²/2)/101 = 1050.5
HELD, HELD_D = 10.5e6, 10.505e6
# 30 MB are 30/10.505 of them; slots of a worker are a queue whatever their number is
FEW_WAIT = decode_pool(FIVE, cap=3e7 / HELD_D).wait
MIXED = whole_prompts(FIVE)
# steps of 5.5 ms for one and prompts of 0.25 s: rho = 0.6
HEAVY = Costs(d=0.15, t0=0.005)
STARVED = Costs(d=0.0, t0=0.02, slots=64)

Case = tuple[str, dict[str, Any], str, str, float, float, list[str]]

CASES: dict[str, Case] = {
    "the mixed pool, at the ceiling of prefill": (
        AGGREGATED, {"u_p": 0.3}, "utilization", "mixed", 0.22 + 0.1, 0.3, ["mixed"],
    ),
    "the mixed pool, at the ceiling of decode": (
        AGGREGATED, {"u_d": 0.3}, "utilization", "mixed", 0.22 + 0.1, 0.3, ["mixed"],
    ),
    # 63 pieces of 10 ms a prompt are more than there is time for: 2·(0.63 + 0.1) + 0.1 on the first pass, which is the last
    "the mixed pool of chunks": (
        "chunked/n1/c16", {"chunk_tokens": "16"}, "utilization", "mixed", 1.56, 0.8, ["mixed"],
    ),
    # without overhead rho is 0.2 + 0.1 at any budget; V = θ·1000/C' + 0.1
    "a prompt in too many chunks": (
        "chunked/n1/c100", {"chunk_tokens": "100", "d": 0.0, "t0": 0.02, "slots": 64, "u_p": 0.6},
        "prefill_starved", "prefill_lane", chunks(FIVE, 100, costs=STARVED).lane.rho, 0.6, ["mixed", "prefill_lane"],
    ),
    # decode alone takes more than 5 tokens of 6 in the end, half of that after the first pass and three quarters after the second
    "less than one token of room": (
        "chunked/n1/c6", {"chunk_tokens": "6", "d": 0.0, "t0": 0.02, "slots": 64},
        "prefill_starved", "prefill_lane", chunks(FIVE, 6, costs=STARVED).room, 1.0, ["mixed"],
    ),
    # x·t = 200·0.0205/0.7 = 5.857, of which half is more than the budget of 2 leaves: on a lane this full nothing is added to it
    "no room for a prompt at all": (
        "chunked/n1/c2", {"chunk_tokens": "2", "d": 0.0, "t0": 0.02, "slots": 64},
        "prefill_starved", "prefill_lane", 2 - 100 * 0.0205 / 0.7, 1.0, ["mixed"],
    ),
    "the prefill pool": (
        DISAGGREGATED, {"u_p": 0.2}, "utilization", "prefill", 0.22, 0.2, ["prefill"],
    ),
    "the decode pool": (
        DISAGGREGATED, {"u_d": 0.1}, "utilization", "decode", 0.101, 0.1, ["prefill", "decode"],
    ),
    "the links": (
        DISAGGREGATED, {"u_l": 0.02}, "link_saturated", "link", 0.03, 0.02, ["prefill", "decode", "link"],
    ),
    "the slots of a mixed worker": (
        AGGREGATED, {"slots": 3}, "slots", "slots_mixed", MIXED.b / 3, 0.9, ["mixed", "slots_mixed"],
    ),
    "the slots of a worker that takes chunks": (
        "chunked/n1/c512", {"slots": 3}, "slots", "slots_mixed", chunks(FIVE, 512, cap=3).sigma, 0.9,
        ["mixed", "prefill_lane", "slots_mixed"],
    ),
    "the slots of a decode worker": (
        DISAGGREGATED, {"slots": 2}, "slots", "slots_decode", B_D / 2, 0.9, ["prefill", "decode", "link", "slots_decode"],
    ),
    # 20/7 sequences fit, fewer than would decode
    "the sequences that a mixed worker has memory for": (
        AGGREGATED, {"kv_memory": 3e7}, "kv_memory", "slots_mixed", MIXED.b * HELD / 3e7, 0.9, ["mixed", "slots_mixed"],
    ),
    "the sequences that a worker that takes chunks has memory for": (
        "chunked/n1/c512", {"kv_memory": 3e7}, "kv_memory", "slots_mixed",
        chunks(FIVE, 512).b * HELD / 3e7, 0.9, ["mixed", "prefill_lane", "slots_mixed"],
    ),
    "the sequences that a decode worker has memory for": (
        DISAGGREGATED, {"kv_memory": 2e7}, "kv_memory", "slots_decode", B_D * HELD_D / 2e7, 0.9,
        ["prefill", "decode", "link", "slots_decode"],
    ),
    "memory for less than one sequence": (
        AGGREGATED, {"kv_memory": 1e7}, "kv_memory", "slots_mixed", 1.05, 0.9, ["mixed", "slots_mixed"],
    ),
    # S = 0.25 s: rho = 0.5 + 0.1; nearly all of 40 MB by what decodes, and what waits and is prefilled beside it
    "the memory of a mixed worker": (
        AGGREGATED, {"kv_memory": 4e7, "d": 0.15, "t0": 0.005}, "kv_memory", "kv_mixed",
        2e4 * whole_prompts(FIVE, costs=HEAVY).token_s / 4e7, 1.0, ["mixed", "slots_mixed", "kv_mixed"],
    ),
    # as before, each prompt in one step
    "the memory of a worker that takes chunks": (
        "chunked/n1/c5000", {"chunk_tokens": "5000", "kv_memory": 4.5e7, "d": 0.15, "t0": 0.005}, "kv_memory", "kv_mixed",
        2e4 * chunks(FIVE, 5000, costs=HEAVY).token_s / 4.5e7, 1.0, ["mixed", "prefill_lane", "slots_mixed", "kv_mixed"],
    ),
    # three decode workers of 11 MB take the slots: b = 202/3·0.0109 of 11/10.505
    "the memory of a prefill worker": (
        "disaggregated/p1/d3", {"kv_memory": 1.1e7, "w": 3.2e7}, "kv_memory", "kv_prefill",
        2e4 * (110 + 1000 * (SLOWER_LINK + 0.3175)) / 1.1e7, 1.0, ["prefill", "decode", "link", "slots_decode", "kv_prefill"],
    ),
    "the memory of a decode worker": (
        DISAGGREGATED, {"kv_memory": 3e7, "w": 4e7}, "kv_memory", "kv_decode",
        2e4 * (1000 * (SLOW_LINK + 0.255) + 1000 * FEW_WAIT + T_D * 106_100.5) / 3e7, 1.0,
        ["prefill", "decode", "link", "slots_decode", "kv_prefill", "kv_decode"],
    ),
    # 0.7754 sequences are on their way to the worker, 3 - 2.3593 are free
    "the slots that arriving caches need": (
        DISAGGREGATED, {"slots": 3, "w": 4e7}, "staging", "staging", 2 * (SLOW_LINK + 0.255) / (3 - B_D), 1.0,
        ["prefill", "decode", "link", "slots_decode", "kv_prefill", "kv_decode", "staging"],
    ),
}  # fmt: skip


def evaluated(scenario: str, **overrides: Any) -> pl.DataFrame:
    return evaluation_of(scenario.partition("/")[0], inputs_frame_of(**overrides), STEADY)


def present(row: dict[str, Any]) -> list[str]:
    return [load for load in LOADS if row[f"load_{load}"] is not None]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_full_resource_refuses(case: Case) -> None:
    scenario, overrides, kind, resource, figure, limit, loads = case
    row = row_of(evaluated(scenario, **overrides), scenario)
    assert (row["status"], row["refusal_kind"], row["refusal_resource"]) == ("refused", kind, resource)
    assert (row["refusal_figure"], row["refusal_limit"]) == (pytest.approx(figure, rel=1e-9), limit)
    assert present(row) == loads
    for column in (*LANES, "ttft_s", "tpot_s", "e2e_s", "stall_s", "goodput", "dominant_queue", "decode_batch"):
        assert row[column] is None


@pytest.mark.parametrize(
    "name", ["the mixed pool, at the ceiling of prefill", "no room for a prompt at all", "the links"]
)
def test_the_matrix_has_no_latency_of_a_refused_scenario(name: str) -> None:
    scenario, overrides, _, resource, figure, _, _ = CASES[name]
    inputs = inputs_frame_of(compared=scenario.partition("/")[0], **overrides)
    row = row_of(matrix_of(inputs, STEADY), scenario)
    assert (row["refusal_resource"], row["refusal_figure"]) == (resource, pytest.approx(figure, rel=1e-9))
    for column in ("ttft_worst_s", "tpot_worst_s", "e2e_worst_s", "transfer_worst_s", "transfer_envelope_share"):
        assert row[column] is None
    assert row["ttft_worst_bucket"] is row["tpot_worst_bucket"] is None


def test_every_load_of_the_table_refuses_in_some_case() -> None:
    assert {case[3] for case in CASES.values()} == set(LOADS)
    kinds = {"utilization", "prefill_starved", "link_saturated", "slots", "kv_memory", "staging"}
    assert {case[2] for case in CASES.values()} == kinds


@pytest.mark.parametrize(
    ("scenario", "load", "symbol"),
    [
        (AGGREGATED, "mixed", "u_p"),
        ("chunked/n1/c512", "mixed", "u_d"),
        ("chunked/n1/c512", "prefill_lane", "u_p"),
        (DISAGGREGATED, "prefill", "u_p"),
        (DISAGGREGATED, "decode", "u_d"),
        (DISAGGREGATED, "link", "u_l"),
        (AGGREGATED, "slots_mixed", "u_d"),
        (DISAGGREGATED, "slots_decode", "u_d"),
    ],
)
def test_a_load_is_refused_at_its_ceiling_and_not_just_below(scenario: str, load: str, symbol: str) -> None:
    # memory and slots for everything, so that nothing else is full; slow steps fill the lane before its pool
    room = {
        "kv_memory": 1e12,
        "slots": 4 if load.startswith("slots") else 1e6,
        "t0": 0.04 if load == "prefill_lane" else 0.01,
    }
    room |= {"u_p": 1.0, "u_d": 1.0, "u_l": 1.0, "ttft": 9.0, "tpot": 9.0}
    reached = row_of(evaluated(scenario, **room), scenario)[f"load_{load}"]
    at, below = (
        row_of(evaluated(scenario, **room | {symbol: ceiling}), scenario)
        for ceiling in (reached, math.nextafter(reached, 1))
    )
    assert (at["refusal_resource"], at["refusal_figure"], at["refusal_limit"]) == (load, reached, reached)
    assert below["status"] == "evaluated"


def test_memory_is_refused_where_the_cache_fills_it_exactly() -> None:
    steps = {"d": 0.15, "t0": 0.005, "ttft": 9.0}
    needed = row_of(evaluated(AGGREGATED, kv_memory=2.0**30, **steps), AGGREGATED)["load_kv_mixed"] * 2**30
    full, spare = (evaluated(AGGREGATED, kv_memory=size, **steps) for size in (needed, needed * 1.000001))
    row = row_of(full, AGGREGATED)
    assert (row["refusal_resource"], row["refusal_figure"]) == ("kv_mixed", 1.0)
    assert row_of(spare, AGGREGATED)["status"] == "evaluated"


def test_exactly_one_token_of_room_is_enough() -> None:
    """One-token answers leave the whole budget of one token: 1000 steps of 0.1 ms a prompt."""
    inputs = inputs_frame_of(chunk_tokens="1", d=0.0, t0=0.0001, ttft=9.0)
    row = row_of(evaluation_of("chunked", inputs, in_pairs(*[(1000, 1)] * 5)), "chunked/n1/c1")
    assert row["status"] == "evaluated"
    assert row["prefill_execution_s"] == pytest.approx(1000 * 0.0001 + 0.1, rel=1e-9)


def test_several_full_resources_are_refused_by_the_first_in_the_table() -> None:
    """Worse and worse, from the last load of the table to the first."""
    overrides: dict[str, float] = {}
    refused_by = []
    for worse in (
        {"slots": 3, "w": 4e7, "u_l": 1.0},
        {"kv_memory": 3e7},
        {"w": 2.2e7},
        {"slots": 2},
        {"u_l": 0.02},
        {"u_d": 0.1},
        {"u_p": 0.2},
    ):
        overrides |= worse
        refused_by.append(row_of(evaluated(DISAGGREGATED, **overrides), DISAGGREGATED)["refusal_resource"])
    assert refused_by == ["staging", "kv_decode", "kv_prefill", "slots_decode", "link", "decode", "prefill"]


def test_a_pool_without_time_comes_before_a_lane_without_room() -> None:
    """Without room and above the ceiling of the pool, the pool speaks: its load is 0.3."""
    overrides = {"chunk_tokens": "4", "d": 0.0, "t0": 0.02, "slots": 64}
    row = row_of(evaluated("chunked/n1/c4", u_p=0.25, **overrides), "chunked/n1/c4")
    assert (row["refusal_resource"], row["refusal_figure"]) == ("mixed", pytest.approx(0.3, rel=1e-9))


def test_each_bound_is_refused_for_itself() -> None:
    # 200 decode tokens/s: rho_d = 0.1 at 2000 tokens/s, 0.5 at 400, 0.667 at 300
    evaluation = evaluated(AGGREGATED, slots=64, tpot=0.1, r_d=Ranged(2000, low=400))
    assert row_of(evaluation, AGGREGATED)["load_mixed"] == pytest.approx(0.32, rel=1e-9)
    conservative = row_of(evaluation, AGGREGATED, "conservative")
    assert (conservative["status"], conservative["load_mixed"]) == ("evaluated", pytest.approx(0.72, rel=1e-9))
    refused = row_of(evaluated(AGGREGATED, slots=64, r_d=Ranged(2000, low=300)), AGGREGATED, "conservative")
    assert (refused["status"], refused["refusal_figure"]) == ("refused", pytest.approx(0.22 + 200 / 300, rel=1e-9))


def test_a_pool_beyond_one_is_refused_although_its_equations_turn_negative() -> None:
    row = row_of(evaluated(AGGREGATED, r_p=500.0), AGGREGATED)  # rho_p = 2·2.01
    assert (row["refusal_resource"], row["refusal_figure"]) == ("mixed", pytest.approx(4.12, rel=1e-9))
    assert (row["pressure"], row["headroom"]) == (pytest.approx(4.12 / 0.8), pytest.approx(1 - 4.12 / 0.8))
