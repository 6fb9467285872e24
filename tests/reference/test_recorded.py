"""What is recorded of the cases is what they give."""

import json

import pytest

from tests.reference.cases import CASES, RECORDED, TRACES, Case, simulate
from tests.reference.record import figures

SAMPLE = [case for case in CASES if case.mix == "code" and case.load in (0.3, 0.65) and case.layout.workers in (1, 2)]


def test_every_case_is_recorded_once() -> None:
    assert sorted(json.loads(RECORDED.read_text())) == sorted(case.name for case in CASES)
    assert len(CASES) >= 60


@pytest.mark.skipif(not TRACES.is_dir(), reason="the logs that lengths are drawn from are not here")
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_a_sample_gives_what_is_recorded(case: Case) -> None:
    recorded = json.loads(RECORDED.read_text())[case.name]
    assert figures(case, simulate(case)) == pytest.approx(recorded, rel=1e-6)
