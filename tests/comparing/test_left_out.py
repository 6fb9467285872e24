"""Receipts hold no requests to replay: gates on replayed figures are left out of a comparison, which says so."""

import copy

import pytest

from pipelines.cli.diff_text import text_lines
from pipelines.comparing.report import ContradictedError
from tests.comparing.told import LONGER_STALL, Json, difference, told

REPLAY_HOLDS = """
apiVersion: phaseledger/v1
kind: Goodput
metadata: {name: replay, owner: serving-platform}
gates:
  - {id: replay_holds, metric: replayed_goodput, bound: nominal, op: gte, limit: 0.9, severity: error, blocking: true}
"""
ELSEWHERE = REPLAY_HOLDS.replace("bound:", "where: {cohort: [elsewhere]}, bound:")


def page(found: Json) -> str:
    about = {"receipt": "receipt.json", "sha256": "0" * 64}
    lines = text_lines(found | {name: about | found[name] for name in ("old", "new")})
    return " ".join(" ".join(lines).split())


def test_without_such_gates_nothing_is_said() -> None:
    found = difference(told(), told(LONGER_STALL))
    assert found["left_out"] is None
    assert "left out" not in page(found)


def test_a_gate_that_does_not_apply_is_not_left_out() -> None:
    assert difference(told(own=ELSEWHERE), told(own=ELSEWHERE))["left_out"] is None


def test_decisions_are_those_of_the_other_gates_and_what_the_receipts_say_stands_beside_them() -> None:
    """By the closed forms both choose chunked/n2/c2048, which the replay of one of them rejects."""
    old, new = told(), told(own=REPLAY_HOLDS)
    assert old["decision"]["scenario"] == "chunked/n2/c2048"
    assert new["decision"]["topology"] == "disaggregated"
    found = difference(old, new)
    assert found["same_decision"]
    assert [found[name]["decision"]["scenario"] for name in ("old", "new")] == ["chunked/n2/c2048"] * 2
    assert found["new"]["decision"]["reason"] == old["decision"]["reason"]
    left = found["left_out"]
    assert (left["gates"], left["same"]) == (["replay_holds"], False)
    assert left["new"] == {name: new["decision"][name] for name in left["new"]}
    assert [step["name"] for step in found["steps"]] == ["rules"]
    said = "left out the gate on replayed figures, replay_holds: a receipt holds no requests to replay, so that decisions here"
    assert said in page(found)
    assert f"{old['decision']['scenario']} -> {new['decision']['scenario']}" in page(found).replace(" (accepted)", "")


def test_verdicts_of_two_receipts_stand_side_by_side_with_such_gates_too() -> None:
    found = difference(told(own=REPLAY_HOLDS), told(own=REPLAY_HOLDS))
    assert found["nothing_differs"]
    assert found["left_out"]["same"]
    (own,) = (row for row in found["verdicts"]["gates"] if row["gate"] == "replay_holds")
    assert own["changed"] == 0
    assert own["old"] == own["new"]
    assert own["old"]["fail"] > 0


def test_everything_else_that_is_forged_is_still_named() -> None:
    forged = copy.deepcopy(told(own=REPLAY_HOLDS))
    verdict = next(row for row in forged["scenarios"][0]["verdicts"] if row["gate"] != "replay_holds")
    verdict["verdict"] = "refused" if verdict["verdict"] != "refused" else "pass"
    with pytest.raises(ContradictedError) as found:
        difference(forged, told(own=REPLAY_HOLDS))
    name = forged["scenarios"][0]["scenario"]
    assert [one.path for one in found.value.old] == [f"scenarios[{name}].verdicts[{verdict['gate']}].verdict"]
