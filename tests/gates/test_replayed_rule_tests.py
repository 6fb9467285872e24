"""Tests of gates state replayed figures as they state any other figure of a scenario."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.declarations import DeclarationProblems, Rules, load_rules
from pipelines.declarations.rule_tests import read_rule_tests
from pipelines.planning.rule_tests import run

HEAD = {"apiVersion": "phaseledger/v1", "metadata": {"name": "replay", "owner": "sre"}}
GATE = {"bound": "nominal", "severity": "error", "blocking": True}
GATES = [
    GATE | {"id": "held", "metric": "replayed_goodput", "op": "gte", "limit": {"objective": "attainment"}},
    GATE | {"id": "near", "metric": "replayed_goodput", "op": "gte", "limit": {"metric": "goodput", "times": 0.9}},
    GATE | {"id": "calm", "metric": "replayed_time_above_ceiling", "op": "lt", "limit": "60 s"},
    GATE | {"id": "kept", "metric": "replayed_preemptions", "op": "lte", "limit": 0},
]
PREFERENCE = {
    "prefer": ["operating_parts", "gpus", "margin"],
    "operating_part_weights": {"pools": 1, "queues": 1, "state_transfers": 1, "failure_edges": 1},
}


@pytest.fixture
def rules(tmp_path: Path) -> Rules:
    directory = tmp_path / "rules"
    directory.mkdir()
    documents = [HEAD | {"kind": "Goodput", "gates": GATES}, HEAD | {"kind": "Decision"} | PREFERENCE]
    (directory / "rules.yaml").write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return load_rules(directory)


def stated(gate: str, expect: dict[str, Any], **nominal: Any) -> dict[str, Any]:
    scenario = {"topology": "aggregated", "nominal": nominal}
    return {"name": "a test", "gate": gate, "objectives": {"attainment": 0.9}, "scenario": scenario, "expect": expect}


def read(directory: Path, rules: Rules, one: dict[str, Any]) -> tuple[list[Any], str]:
    file = directory / "tests.yaml"
    file.write_text(yaml.safe_dump(HEAD | {"kind": "RuleTest", "tests": [one]}), encoding="utf-8")
    tests, problems = read_rule_tests([file], rules)
    return tests, str(DeclarationProblems(problems))


@pytest.mark.parametrize(
    ("gate", "expect", "figures"),
    [
        ("held", {"verdict": "fail", "margin": -0.1, "message": "held 81 %, not >= 90 %"}, {"replayed_goodput": 0.81}),
        ("held", {"verdict": "refused", "margin": None}, {"replayed_goodput": None}),
        ("held", {"verdict": "refused"}, {"refused": "utilization"}),
        ("near", {"verdict": "pass", "margin": 0.25}, {"replayed_goodput": 0.9, "goodput": 0.8}),
        ("calm", {"verdict": "fail", "message": "calm 60 s, not < 60 s"}, {"replayed_time_above_ceiling": "1 min"}),
        ("kept", {"verdict": "pass", "margin": None}, {"replayed_preemptions": 0}),
    ],
)
def test_a_replayed_figure_is_judged_as_in_a_plan(
    gate: str, expect: dict[str, Any], figures: dict[str, Any], rules: Rules, tmp_path: Path
) -> None:
    tests, problems = read(tmp_path, rules, stated(gate, expect, **figures))
    assert tests, problems
    (one,) = run(tests, rules)
    assert one.passed, one.found


@pytest.mark.parametrize(
    ("gate", "figures", "said"),
    [
        ("held", {"replayed_goodput": 1.2}, "1.2 is"),
        ("held", {"replayed_stall": "1 s"}, "held does not read replayed_stall; expected replayed_goodput"),
        ("held", {"refused": "utilization", "replayed_goodput": 0.5}, "a refused scenario has no replayed_goodput"),
        ("kept", {"replayed_preemptions": 0.5}, "0.5 is not whole"),
        ("calm", {"replayed_time_above_ceiling": 60}, "60 has no unit"),
    ],
)
def test_what_no_replay_comes_to_is_an_error(
    gate: str, figures: dict[str, Any], said: str, rules: Rules, tmp_path: Path
) -> None:
    tests, problems = read(tmp_path, rules, stated(gate, {"verdict": "fail"}, **figures))
    assert not tests
    assert said in problems
