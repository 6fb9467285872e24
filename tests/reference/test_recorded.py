"""What is recorded of the cases is what they give."""

import pytest

from tests.reference.cases import CASES, Case
from tests.reference.held_out import HELD_OUT
from tests.reference.lists import LISTS
from tests.reference.record import recorded

SAMPLE = [
    *(("cases", case) for case in CASES if case.mix == "code" and case.load in (0.3, 0.65) and case.layout.workers < 3),
    *(("held_out", case) for case in HELD_OUT if case.mix == "few" or case.arrivals == "log" or case.slots == 30),
]


@pytest.mark.parametrize("name", LISTS)
def test_every_case_is_recorded_once(name: str) -> None:
    assert sorted(LISTS[name].seen()) == sorted(case.name for case in LISTS[name].cases)
    assert len(LISTS[name].cases) >= 60


def test_what_is_held_out_has_costs_and_draws_of_its_own() -> None:
    assert not {case.service for case in CASES} & {case.service for case in HELD_OUT}
    assert not {case.seed for case in CASES} & {case.seed for case in HELD_OUT}


def test_what_is_held_out_covers_what_is_planned() -> None:
    assert {case.layout.topology for case in HELD_OUT} == {"aggregated", "chunked", "disaggregated", "routed"}
    assert {case.layout.round_robin for case in HELD_OUT} == {True, False}
    assert {256, 4096} <= {case.layout.budget for case in HELD_OUT}
    assert sum(case.arrivals == "log" for case in HELD_OUT) >= 6


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(("name", "case"), [pytest.param(*one, id=f"{one[0]}.{one[1].name}") for one in SAMPLE])
def test_a_sample_gives_what_is_recorded(name: str, case: Case) -> None:
    assert recorded(name, case) == pytest.approx(LISTS[name].seen()[case.name], rel=1e-6)
