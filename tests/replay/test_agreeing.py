"""What docs/accuracy.md says of the closed forms against the replay is recorded, and is what a replay gives."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.agreement import BLOCK, TABLES, rewritten, worst_minutes
from tests.replay.agreeing import BLIND, BUNDLED, REAL, blind, planned, poisson, recorded, rows_of

ARRIVALS = ("log", "poisson")


def own(name: str) -> dict[str, list[dict[str, Any]]]:
    """What is recorded of a cohort."""
    return {arrivals: [row for row in recorded()[arrivals] if row["cohort"] == name] for arrivals in ARRIVALS}


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_cohort_gives_what_is_recorded(name: str) -> None:
    assert rows_of(name) == own(name)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("name", REAL)
def test_a_real_log_gives_what_is_recorded(name: str) -> None:
    assert rows_of(name) == own(name)


def test_the_minutes_are_those_that_are_recorded() -> None:
    assert blind() == recorded()["blind"]


def test_every_cohort_is_recorded_with_the_finalist_of_each_topology_that_it_compares() -> None:
    for arrivals in ARRIVALS:
        assert list(dict.fromkeys(row["cohort"] for row in recorded()[arrivals])) == [*REAL, *BUNDLED]
    topologies = {row["scenario"].partition("/")[0] for row in recorded()["log"]}
    assert topologies == {"aggregated", "chunked", "disaggregated", "routed"}


def test_a_poisson_stream_has_the_lengths_and_the_rate_of_its_log() -> None:
    log = planned(BLIND).requests
    stream = poisson(log, 1)
    copies = stream.height // log.height
    lengths = ["prompt_tokens", "cached_prompt_tokens", "output_tokens"]
    assert stream.height == copies * log.height
    assert stream.schema == log.schema
    assert stream.select(lengths).sort(lengths).gather_every(copies).equals(log.select(lengths).sort(lengths))
    rates = [(one.height - 1) / one["arrival_ns"][-1] for one in (log, stream)]
    assert rates[1] == pytest.approx(rates[0], rel=1e-9)


def off(row: dict[str, Any], name: str) -> float:
    """By how much the closed form of a mean is off, as a share of what was seen."""
    return abs(row[f"{name}_s"] / row[f"replayed_{name}_mean_s"] - 1)


def test_means_of_poisson_streams_are_close_and_no_gap_exceeds_its_bound() -> None:
    for row in recorded()["poisson"]:
        if row["status"] != "refused":
            assert off(row, "ttft") < 0.1, row["scenario"]
            assert off(row, "tpot") < (0.12 if "tpot" in row["screening"] else 0.04), row["scenario"]
            assert abs(row["goodput"] - row["replayed_modeled_goodput"]) < 0.045, row["scenario"]
            assert row["replayed_stall_s"] <= row["stall_s"], row["scenario"]


def test_what_the_logs_put_far_off_is_named_but_for_the_bursts_that_no_figure_shows() -> None:
    far = [
        row for row in recorded()["log"] if row["status"] != "refused" and max(off(row, "ttft"), off(row, "tpot")) > 0.2
    ]
    assert {row["cohort"] for row in far if "arrivals" in row["screening"]} == {"azure-code-2023"}
    assert {row["cohort"] for row in far if "arrivals" not in row["screening"]} == {BLIND}


def test_the_chosen_scenario_misses_by_the_replay_and_the_next_one_meets() -> None:
    found = recorded()["blind"]
    chosen, smallest = found["scenarios"]
    assert chosen["goodput"] > 0.99
    assert chosen["replayed_goodput"] < found["attainment"] <= smallest["replayed_goodput"]
    assert found["smallest_without_stalls"]["scenario"] == "aggregated/n5"
    assert found["smallest_without_stalls"]["replayed_goodput"] < found["attainment"]
    assert sum(chosen["met"]) == round(chosen["replayed_goodput"] * sum(found["requests"]))
    assert len(set(worst_minutes(chosen, found))) == len(found["requests"])


def test_the_page_shows_what_is_recorded(project: Path) -> None:
    page = (project / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert sorted(name for name, _, _ in BLOCK.findall(page)) == sorted(TABLES)
    assert page == rewritten(page), "stale: run benchmarks/agreement.py --page"
