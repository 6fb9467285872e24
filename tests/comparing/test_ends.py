"""A receipt that does not say what its inputs give is not compared."""

import copy
from typing import Any

import pytest

from pipelines.comparing.report import ContradictedError
from tests.comparing.told import Json, difference, told


def forged(path: str, value: Any) -> Json:
    """The receipt of the cohort with another value at ``path``."""
    receipt = copy.deepcopy(told())
    place: Any = receipt
    *before, last = path.split("/")
    for key in before:
        place = place[int(key)] if key.isdigit() else place[key]
    place[int(last) if last.isdigit() else last] = value
    return receipt


def chosen_place() -> int:
    return next(place for place, row in enumerate(told()["scenarios"]) if row["scenario"] == "chunked/n2/c2048")


def gate_place(name: str) -> int:
    return next(place for place, row in enumerate(told()["rules"]["gates"]) if row["id"] == name)


def first_gate() -> str:
    return str(told()["scenarios"][0]["verdicts"][0]["gate"])


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("decision/scenario", "chunked/n2/c1024", ["decision.scenario"]),
        ("decision/accepted", False, ["decision.accepted"]),
        ("decision/reason", "the best", ["decision.reason"]),
        ("scenarios/0/verdicts/0/verdict", "refused", [f"scenarios[aggregated/n1].verdicts[{first_gate()}].verdict"]),
        ("fingerprint", "0" * 64, ["fingerprint"]),
        ("search/kept", 23, ["search.kept"]),
        ("search/scenarios", 23, ["search.scenarios"]),
        ("rejected/0/scenario", "aggregated/n3", ["rejected[aggregated].scenario"]),
        (
            f"scenarios/{chosen_place()}/bounds/conservative/goodput",
            0.99,
            ["scenarios[chunked/n2/c2048].bounds.conservative.goodput"],
        ),
        (f"rules/gates/{gate_place('goodput')}/limit", 0.9, ["rules.gates[goodput].limit"]),
    ],
)
def test_what_is_forged_is_named(path: str, value: Any, named: list[str]) -> None:
    with pytest.raises(ContradictedError) as found:
        difference(forged(path, value), told())
    assert [one.path for one in found.value.old] == named
    assert found.value.new == []


def test_the_new_one_is_examined_as_well() -> None:
    with pytest.raises(ContradictedError) as found:
        difference(told(), forged("decision/scenario", "chunked/n2/c1024"))
    assert [one.path for one in found.value.new] == ["decision.scenario"]


def test_a_figure_in_its_last_exported_digit_is_named() -> None:
    place = chosen_place()
    figure = told()["scenarios"][place]["bounds"]["nominal"]["ttft_worst_s"]
    with pytest.raises(ContradictedError) as found:
        difference(forged(f"scenarios/{place}/bounds/nominal/ttft_worst_s", round(figure + 1e-10, 10)), told())
    assert [(one.path, one.found) for one in found.value.old] == [
        ("scenarios[chunked/n2/c2048].bounds.nominal.ttft_worst_s", figure)
    ]


def test_inputs_of_which_no_plan_can_be_made_are_named() -> None:
    receipt = copy.deepcopy(told())
    receipt["inputs"] = [row for row in receipt["inputs"] if row["path"] != "service.admission"]
    with pytest.raises(ContradictedError) as found:
        difference(receipt, told())
    assert [(one.path, one.found) for one in found.value.old] == [
        ("inputs", "no plan can be made of it: service.admission is not declared")
    ]
