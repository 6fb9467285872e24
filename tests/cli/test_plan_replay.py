"""``phaseledger plan --replay``, gates on what comes of it, and what a comparison of such receipts exits with."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command

GATE = """
apiVersion: phaseledger/v1
kind: Capacity
metadata: {name: replay, owner: serving-platform}
gates:
  - id: nobody_waits
    metric: replayed_peak_queue
    where: {topology: [chunked]}
    bound: nominal
    op: lt
    limit: 0
    severity: error
    blocking: true
"""


@pytest.fixture(scope="module")
def cohort(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight requests and 22 scenarios; it chooses chunked/n2/c2048."""
    return Path(shutil.copytree(project / "tests" / "declarations" / "good", tmp_path_factory.mktemp("plans") / "good"))


def planned(phaseledger: Command, cohort: Path, project: Path, out: str, *more: str) -> tuple[int, dict[str, Any]]:
    run = phaseledger(
        "plan", cohort, "--rules", project / "rules", "--out", cohort.parent / out, "--format", "json", "--quiet", *more
    )
    assert run.code in (0, 1), run.err
    return run.code, json.loads(run.out)


def replayed(cohort: Path, out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cohort.parent / out / "receipt.json").read_text())["replay"]
    return found


def test_the_scenarios_that_speak_are_replayed_and_shown(phaseledger: Command, cohort: Path, project: Path) -> None:
    _, said = planned(phaseledger, cohort, project, "finalists")
    assert said["replay"] == {"which": "finalists", "reason": None}
    own = replayed(cohort, "finalists")["scenarios"]
    assert {row["scenario"] for row in own} == {row["scenario"] for row in said["topologies"]}
    nominal = {row["scenario"]: row for row in own if row["bound"] == "nominal"}
    for row in said["topologies"]:
        for name in ("figures", "worst_minute", "reason"):
            assert row["replay"][name] == nominal[row["scenario"]][name]


def test_all_of_them_on_request(phaseledger: Command, cohort: Path, project: Path) -> None:
    _, said = planned(phaseledger, cohort, project, "all", "--replay", "all")
    assert said["replay"]["which"] == "all"
    assert len(replayed(cohort, "all")["scenarios"]) == 2 * 22


def test_another_word_is_bad_input(phaseledger: Command, cohort: Path) -> None:
    run = phaseledger("plan", cohort, "--replay", "some")
    assert run.code == 2
    assert "finalists" in run.err
    assert "all" in run.err


def test_a_gate_on_a_replayed_figure_decides(phaseledger: Command, cohort: Path, project: Path) -> None:
    """No queue is below nothing, so that what the closed forms choose does not pass; a comparison leaves the gate out, and says so."""
    _, before = planned(phaseledger, cohort, project, "before")
    assert before["topology"] == "chunked"
    (cohort / "rules").mkdir()
    (cohort / "rules" / "replay.yaml").write_text(GATE)
    try:
        _, after = planned(phaseledger, cohort, project, "after")
    finally:
        shutil.rmtree(cohort / "rules")
    assert (after["topology"], after["replay"]["which"]) == ("disaggregated", "all")
    run = phaseledger("diff", cohort.parent / "before", cohort.parent / "after", "--format", "json", "--quiet")
    found = json.loads(run.out)
    assert (run.code, found["same_decision"]) == (1, True)
    assert (found["left_out"]["gates"], found["left_out"]["same"]) == (["nobody_waits"], False)
