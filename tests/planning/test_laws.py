"""Laws of decisions and of what would change them."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.frames.digits import significant, significant_values
from tests.planning.drawn import asked_of, decided, edited, judged
from tests.planning.test_changes import COHORTS, RULES, planned


@pytest.mark.parametrize("name", COHORTS)
def test_what_passes_has_room_for_more_traffic(name: str) -> None:
    """The rate headroom of a scenario that passes is above 1, of one that does not below."""
    asked, _, found = planned(name)
    for row in found.speaking.iter_rows(named=True):
        if row["rate_factor"] is not None:
            passes = judged(asked, row["scenario"]).passes(row["scenario"])
            assert (row["rate_factor"] > 1) == passes


@pytest.mark.parametrize("seed", [1, 5, 7])
@pytest.mark.parametrize(
    ("path", "factor"),
    [
        ("objectives.ttft", 0.6),
        ("objectives.tpot", 0.8),
        ("objectives.e2e", 0.7),
        ("objectives.stall", 0.5),
        ("objectives.ttft_growth", 0.5),
        ("objectives.attainment", 1.1),
    ],
)
def test_a_tightened_objective_adds_no_passing_scenario(seed: int, path: str, factor: float) -> None:
    rules: list[dict[str, Any]] = [
        *RULES,
        {"metric": "e2e_worst", "objective": "e2e"},
        {"metric": "stall", "objective": "stall"},
    ]
    fixed: dict[str, Any] = {"e2e": 8.0, "stall": 1.5, "ttft": 3.0, "tpot": 0.05, "ttft_growth": 0.5, "gpus": 4}
    asked = asked_of(seed, *rules, **fixed)
    assert judged(edited(asked, path, factor)).passing <= judged(asked).passing


@pytest.mark.parametrize("seed", range(4))
def test_one_scenario_speaks_for_each_compared_topology_and_at_most_one_is_chosen(seed: int) -> None:
    decision = decided(asked_of(seed)).decision
    assert decision["topology"].to_list() == ["aggregated", "chunked", "disaggregated", "routed"]
    assert decision["standing"].to_list().count("chosen") <= 1


_HALVES = st.builds(
    lambda digits, power, sign: sign * float(f"{digits}5e{power}"),
    st.integers(10**9, 10**10 - 1),
    st.integers(-320, 290),
    st.sampled_from([1, -1]),
)
"""Ten digits and a half: the doubles next to them are above or below it."""

_AT_POWERS = st.builds(lambda power, steps: _moved(10.0**power, steps), st.integers(-307, 307), st.integers(-3, 3))


def _moved(value: float, steps: int) -> float:
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.inf if steps > 0 else 0.0)
    return value


_NEAR_HALVES = st.builds(_moved, _HALVES, st.integers(-3, 3))
_ROUND_UP = st.builds(lambda nines, power: float(f"9.{'9' * nines}e{power}"), st.integers(8, 16), st.integers(-30, 30))
_VALUES = st.one_of(st.floats(allow_nan=False, allow_infinity=False), _HALVES, _NEAR_HALVES, _AT_POWERS, _ROUND_UP)


@given(st.lists(_VALUES, min_size=1, max_size=40), st.sampled_from([10, 12, 8]))
def test_many_values_are_rounded_as_each_alone(values: list[float], digits: int) -> None:
    rounded = significant_values(np.array(values), digits)
    assert rounded.tolist() == [significant(value, digits) for value in values]


def test_what_is_no_number_stays() -> None:
    rounded = significant_values(np.array([[np.nan, np.inf], [-np.inf, 0.0]]))
    assert np.isnan(rounded[0, 0])
    assert rounded.ravel().tolist()[1:] == [np.inf, -np.inf, 0.0]
