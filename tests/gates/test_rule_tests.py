"""Tests of gates judge as plans do, and say what is wrong with themselves. The gates are those of tests/bad/rule_tests/_rules."""

import json
import os
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pipelines.declarations import DeclarationProblems, Rules, bundled, load_rules
from pipelines.declarations.documents import Mark
from pipelines.declarations.quantities import OBJECTIVE_UNITS
from pipelines.declarations.rule_tests import files_of_tests, read_rule_tests
from pipelines.declarations.rule_tests_placed import Expectation, Figures, RuleTest, WrittenScenario
from pipelines.declarations.schema import validator
from pipelines.declarations.typed import TOPOLOGIES
from pipelines.frames.metrics import BY_BUCKET, METRICS, OF_SCENARIOS
from pipelines.planning.rule_tests import Outcome, run
from tests.declarations.test_fuzz import mutated
from tests.plans import plan_of

BAD = Path(__file__).resolve().parents[1] / "bad" / "rule_tests"
REGENERATE = "PHASELEDGER_REGENERATE"
HEAD = {"apiVersion": "phaseledger/v1", "kind": "RuleTest", "metadata": {"name": "tests", "owner": "sre"}}
LONGER = {"[1,1024)": "300 ms", "[1024,inf)": "900 ms"}
FEW_LONG = {"[1,1024)": 90, "[1024,inf)": 10}


@cache
def rules() -> Rules:
    return load_rules(BAD / "_rules")


def read(directory: Path, *tests: dict[str, Any]) -> list[RuleTest]:
    file = directory / "tests.yaml"
    file.write_text(yaml.safe_dump(HEAD | {"tests": list(tests)}), encoding="utf-8")
    found, problems = read_rule_tests([file], rules())
    assert not problems, DeclarationProblems(problems)
    return found


def outcome(directory: Path, gate: str, expect: dict[str, Any] | str, **said: Any) -> Outcome:
    expected = {"verdict": expect} if isinstance(expect, str) else expect
    test = {"name": "a test", "gate": gate, "expect": expected} | said
    return run(read(directory, test), rules())[0]


def on(topology: str = "aggregated", **said: Any) -> dict[str, Any]:
    return {"topology": topology} | said


def found(directory: Path, gate: str, **said: Any) -> tuple[str, float | None, str]:
    """What the gate says of the figures; ``fail`` is expected, whatever comes."""
    one = outcome(directory, gate, said.pop("expect", "fail"), **said).found
    return one.verdict, one.margin, one.message


def test_the_worst_bucket_is_the_largest_for_an_upper_limit(tmp_path: Path) -> None:
    three = {"[1,512)": "1200 ms", "[512,1024)": None, "[1024,inf)": "900 ms"}
    verdict = found(tmp_path, "slowest", scenario=on(nominal={"ttft": three}))
    assert verdict == ("fail", -0.2, "slowest 1.2 s, not <= 1 s")


def test_the_worst_bucket_is_the_smallest_for_a_lower_limit(tmp_path: Path) -> None:
    verdict = found(
        tmp_path, "least", scenario=on(nominal={"decode_wait": {"[1,1024)": "20 ms", "[1024,inf)": "5 ms"}})
    )
    assert verdict == ("fail", -0.5, "least 5 ms, not >= 10 ms")


def test_the_longest_bucket_is_the_last_however_they_are_written(tmp_path: Path) -> None:
    longest_first = {"[4096,inf)": "600 ms", "[512,4096)": "5 s", "[1,512)": "7 s"}
    verdict = found(tmp_path, "long_prompts", scenario=on("routed", nominal={"ttft": longest_first}))
    assert verdict == ("pass", 0.25, "long_prompts 600 ms, <= 800 ms")


def test_a_weighted_mean_counts_requests(tmp_path: Path) -> None:
    scenario = on(nominal={"ttft": LONGER}, requests=FEW_LONG)  # 0.9 * 300 ms + 0.1 * 900 ms = 360 ms
    verdict = found(tmp_path, "mean_start", objectives={"ttft": "400 ms"}, scenario=scenario)
    assert verdict == ("pass", 0.1, "mean_start 360 ms, <= 400 ms")


def test_a_named_bucket_is_judged_alone(tmp_path: Path) -> None:
    tpot = {"[1,1024)": "90 ms", "[1024,4096)": "50 ms", "[4096,inf)": "90 ms"}
    verdict = found(tmp_path, "middle", scenario=on(nominal={"tpot": tpot}, requests=dict.fromkeys(tpot, 7)))
    assert verdict == ("fail", 0.0, "middle 50 ms, not < 50 ms")


def test_a_share_counts_the_requests_of_buckets_that_are_within_an_objective(tmp_path: Path) -> None:
    scenario = on(conservative={"ttft": LONGER}, requests=FEW_LONG)
    within = found(tmp_path, "in_time", objectives={"ttft": "300 ms"}, scenario=scenario)
    assert within == ("pass", 0.0, "in_time 90 % (conservative), >= 90 %")
    beyond = found(tmp_path, "in_time", objectives={"ttft": "299 ms"}, scenario=scenario)
    assert beyond == ("fail", -1.0, "in_time 0 % (conservative), not >= 90 %")


def test_a_share_counts_the_requests_of_buckets_that_are_within_a_time(tmp_path: Path) -> None:
    e2e = {"[1,1024)": "1 s", "[1024,4096)": "1001 ms", "[4096,inf)": None}
    requests = {"[1,1024)": 30, "[1024,4096)": 30, "[4096,inf)": 40}
    verdict = found(tmp_path, "in_a_second", scenario=on(nominal={"e2e": e2e}, requests=requests))
    assert verdict == ("fail", 0.0, "in_a_second 50 %, not > 50 %")


def test_buckets_without_any_figure_have_none(tmp_path: Path) -> None:
    verdict = found(tmp_path, "slowest", scenario=on(nominal={"ttft": {"[1,inf)": None}}))
    assert verdict == ("refused", None, "slowest refused: no nominal figure to hold against <= 1 s")


def test_a_limit_may_be_a_multiple_of_another_figure(tmp_path: Path) -> None:
    nominal = {"ttft_worst": "1 s", "tpot_worst": "40 ms"}
    verdict = found(tmp_path, "relative", scenario=on(nominal=nominal, conservative=nominal | {"tpot_worst": "1 s"}))
    assert verdict == ("fail", -0.25, "relative 1 s, not <= 800 ms")


def test_a_limit_that_is_absent_refuses(tmp_path: Path) -> None:
    verdict = found(tmp_path, "relative", scenario=on(nominal={"ttft_worst": "1 s", "tpot_worst": None}))
    assert verdict == ("refused", None, "relative refused: no nominal limit")


def test_counts_ratios_and_what_a_refused_scenario_still_has(tmp_path: Path) -> None:
    assert found(tmp_path, "small", scenario=on(nominal={"gpus": 10}))[1] == -0.25
    assert found(tmp_path, "simple", scenario=on(nominal={"operating_parts": 10.5}))[1] == 0.125
    refused = on(nominal={"refused": "utilization", "headroom": "-20 %"})
    assert found(tmp_path, "room", cohort="slow-link", scenario=refused)[:2] == ("fail", -3.0)


def test_figures_have_the_digits_of_a_receipt(tmp_path: Path) -> None:
    scenario = on(nominal={"ttft_worst": "1.0000000000001 s"})
    assert found(tmp_path, "ttft_worst", objectives={"ttft": "1 s"}, scenario=scenario)[:2] == ("pass", 0.0)


def test_a_gate_speaks_in_its_own_words(tmp_path: Path) -> None:
    verdict = found(tmp_path, "long_prompts", scenario=on("disaggregated", nominal={"ttft": LONGER}))
    words = "disaggregated starts long prompts after 900 ms, 800 ms were promised by gateway (-12.5 %)"
    assert verdict == ("fail", -0.125, words)


WAIVED = {"cohort": "slow-link", "as_of": "2026-12-31"}


@pytest.mark.parametrize(
    ("topology", "said", "verdict"),
    [
        ("disaggregated", WAIVED, "waived"),
        ("disaggregated", WAIVED | {"as_of": "2027-01-01"}, "fail"),
        ("disaggregated", WAIVED | {"cohort": "moderate-chat"}, "fail"),
        ("disaggregated", {"as_of": "2026-12-31"}, "fail"),
        ("disaggregated", {"cohort": "slow-link"}, "fail"),
        ("routed", WAIVED, "fail"),
    ],
)
def test_an_exception_waives_where_and_until_it_says(
    topology: str, said: dict[str, Any], verdict: str, tmp_path: Path
) -> None:
    one = found(tmp_path, "envelope", scenario=on(topology, conservative={"transfer_envelope_share": 1.5}), **said)
    waived = " (waived)" if verdict == "waived" else ""
    assert one == (verdict, -0.5, f"envelope 150 % (conservative), not < 100 %{waived}")


def test_what_is_refused_is_waived_and_what_passes_needs_no_exception(tmp_path: Path) -> None:
    refused = on("disaggregated", conservative={"refused": "link_saturated"})
    assert found(tmp_path, "envelope", scenario=refused, **WAIVED)[0] == "waived"
    passes = on("disaggregated", conservative={"transfer_envelope_share": 0.5})
    assert found(tmp_path, "envelope", scenario=passes, **WAIVED)[0] == "pass"


@pytest.mark.parametrize(
    ("gate", "said", "why"),
    [
        ("stall", {"scenario": on(nominal={"stall": "1 s"})}, "the cohort does not declare objectives.stall"),
        ("in_time", {"scenario": on()}, "the cohort does not declare objectives.ttft"),
        ("envelope", {"scenario": on("chunked")}, "a gate on disaggregated, routed only"),
        ("room", {"scenario": on(), "cohort": "moderate-chat"}, "a gate of slow-link only"),
        ("room", {"scenario": on()}, "a gate of slow-link only"),
    ],
)
def test_a_gate_that_does_not_apply_says_why(gate: str, said: dict[str, Any], why: str, tmp_path: Path) -> None:
    one = outcome(tmp_path, gate, "not_applicable", **said)
    assert one.passed
    assert (one.found.verdict, one.found.margin, one.found.message) == ("not_applicable", None, why)


def rests_on(**observed: str | None) -> list[dict[str, str]]:
    """Inputs by path, with . for __: supplied, or observed with a source."""
    rows = []
    for name, source in observed.items():
        path = name.replace("__", ".")
        row = {"path": path, "provenance": "supplied"}
        rows.append(row if source is None else {"path": path, "provenance": "observed", "source": source})
    return rows


def test_the_share_of_what_is_not_observed(tmp_path: Path) -> None:
    sources: dict[str, str | None] = {"requests__trace": "log", "model__layers": None, "network__links": "bench"}
    a_third = found(tmp_path, "measured", inputs=rests_on(**sources))
    # the margin is that of the figure with its 10 digits: (0.25 - 0.3333333333) / 0.25
    assert a_third == ("fail", -0.3333333332, "measured 33.33 %, not <= 25 %: model.layers")
    a_quarter = found(tmp_path, "measured", inputs=rests_on(**sources, network__registration="bench"))
    assert a_quarter == ("pass", 0.0, "measured 25 %, <= 25 %")
    assert found(tmp_path, "measured", inputs=[])[:2] == ("pass", 1.0)


def test_patterns_leave_other_inputs_out(tmp_path: Path) -> None:
    inputs = rests_on(network__links="bench", model__layers=None)
    assert found(tmp_path, "unmeasured_network", inputs=inputs)[:2] == ("pass", 1.0)
    inputs = rests_on(network__links=None, model__layers=None)
    words = "unmeasured_network 1, not < 1: network.links"
    assert found(tmp_path, "unmeasured_network", inputs=inputs) == ("fail", 0.0, words)


def test_the_age_of_evidence(tmp_path: Path) -> None:
    inputs = rests_on(requests__trace="log of 2026-08-01 to 2026-08-02", model__layers=None)
    fresh = found(tmp_path, "fresh", as_of="2026-08-31", inputs=inputs)
    assert fresh == ("pass", 0.6666666667, "fresh 30 days, <= 90 days (waived)")
    stale = found(tmp_path, "fresh", as_of="2026-12-31", inputs=inputs)  # 30 + 30 + 31 + 30 + 31 days
    assert stale == ("waived", -0.6888888889, "fresh 152 days, not <= 90 days (waived): requests.trace")
    assert found(tmp_path, "fresh", as_of="2027-01-01", inputs=inputs)[:2] == ("fail", -0.7)
    undated = found(tmp_path, "fresh", as_of="2027-01-01", inputs=rests_on(network__links="bench of last week"))
    assert undated == ("refused", None, "fresh refused: no date, or one to come, in the source of network.links")


@pytest.mark.parametrize(
    ("expect", "wrong"),
    [
        ({"verdict": "fail"}, ()),
        ({"verdict": "fail", "margin": "-25 %", "message": "small 10, not <= 8"}, ()),
        ({"verdict": "fail", "margin": -0.25000000001}, ()),
        ({"verdict": "fail", "margin": -0.2500000001}, ("margin",)),
        ({"verdict": "fail", "margin": None}, ("margin",)),
        ({"verdict": "fail", "message": "small 10"}, ("message",)),
        ({"verdict": "pass", "margin": 0.25, "message": "small 6, <= 8"}, ("verdict", "margin", "message")),
        ({"verdict": "refused", "margin": None}, ("verdict", "margin")),
    ],
)
def test_what_is_not_as_expected(expect: dict[str, Any], wrong: tuple[str, ...], tmp_path: Path) -> None:
    one = outcome(tmp_path, "small", expect, scenario=on(nominal={"gpus": 10}))
    assert one.wrong == wrong
    assert one.passed is not wrong


def test_a_test_says_what_a_plan_says(project: Path, tmp_path: Path) -> None:
    """Figures of a plan, written down as a test, have the verdicts and margins of the plan."""
    plan = plan_of(project / "cohorts" / "bursty-documents", project / "rules")
    own, named = load_rules(project / "rules"), {metric.column: name for name, metric in METRICS.items()}
    rows = plan.matrix.filter(pl.col("place") % 40 == 0).to_dicts()
    said = {(row["place"], row["gate"]): row for row in plan.verdicts.iter_rows(named=True)}
    objectives = {name: plan.table.number(f"objectives.{name}") for name in ("ttft", "tpot", "stall", "attainment")}
    objectives["transfer_reserve"] = plan.table.number("objectives.transfer_reserve")
    tests, expected = [], []
    for row, gate in ((row, gate) for row in rows for gate in own.gates if row["bound"] == gate.bound):
        figures = {named[name]: row[name] for name in row if name in named and not name.endswith("_by_bucket")}
        figure = Figures(None if row["status"] == "evaluated" else "utilization", figures, {})
        scenario = WrittenScenario(row["topology"], {row["bound"]: figure}, {})
        expect = Expectation("pass", None, None, {})
        tests.append(RuleTest("a", gate.id, "", Mark(1, 1), None, None, objectives, scenario, (), expect))
        expected.append(said.get((row["place"], gate.id)))
    assert {row["verdict"] for row in expected if row} == {"pass", "fail", "refused"}
    for one, row in zip(run(tests, own), expected, strict=True):
        verdict = ("not_applicable", None) if row is None else (row["verdict"], row["margin"])
        assert (one.found.verdict, one.found.margin) == verdict


@pytest.mark.parametrize("name", sorted(file.stem for file in BAD.glob("*.yaml")))
def test_a_malformed_file_gives_exactly_the_text_beside_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    tests, problems = read_rule_tests([Path(f"{name}.yaml")], rules())
    assert not tests
    said = f"{DeclarationProblems(problems)}\n"
    expected = BAD / f"{name}.expected"
    if os.environ.get(REGENERATE):
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")
    assert all(f" expected {word}" not in said for word in ("None", "()"))


def test_no_expectation_without_a_case() -> None:
    assert {file.stem for file in BAD.glob("*.expected")} == {file.stem for file in BAD.glob("*.yaml")}


def test_what_needs_no_rules_is_said_without_them(tmp_path: Path) -> None:
    tests, problems = read_rule_tests([BAD / "units.yaml", BAD / "unknown_gate.yaml"], None)
    assert not tests
    assert {Path(problem.file).stem for problem in problems} == {"units"}
    without_a_gate = {(problem.line, problem.path.rpartition(".")[2]) for problem in problems}
    assert {(7, "stall"), (8, "stall"), (13, "ttft_worst"), (43, "margin")} <= without_a_gate


def test_names_are_unique_over_all_files(tmp_path: Path) -> None:
    test = {"name": "one", "gate": "small", "scenario": on(nominal={"gpus": 4}), "expect": {"verdict": "pass"}}
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    for file in files:
        file.write_text(yaml.safe_dump(HEAD | {"tests": [test]}), encoding="utf-8")
    _, problems = read_rule_tests(files, rules())
    assert [(problem.file, problem.path) for problem in problems] == [(str(files[1]), "tests[0].name")]
    assert f"at {files[0]}:" in problems[0].message


def shipped() -> tuple[Rules, list[Path]]:
    files, missing = files_of_tests(bundled("rules"))
    assert not missing
    return load_rules(bundled("rules")), files


def test_the_shipped_gates_pass_fail_refuse_and_stand_at_their_limit_as_their_tests_say() -> None:
    own, files = shipped()
    tests, problems = read_rule_tests(files, own)
    assert not problems
    assert [one.test.title for one in run(tests, own) if one.wrong] == []
    expected = defaultdict(set)
    for test in tests:
        expected[test.gate].add(test.expect.verdict)
        expected[test.gate].add("at the limit" if test.expect.margin == 0 else "")
    for gate in own.gates:
        assert {"pass", "fail", "refused", "at the limit"} <= expected[gate.id]


@pytest.mark.parametrize(
    "change",
    [
        {"op": {"lte": "lt", "lt": "lte", "gte": "gt"}},
        {"op": {"lte": "gte", "lt": "gt", "gte": "lte"}},
        {"bound": {"nominal": "conservative", "conservative": "nominal"}},
        {"cohorts": {None: ("moderate-chat",)}},
        {"topologies": {TOPOLOGIES: TOPOLOGIES[1:], ("disaggregated", "routed"): ("disaggregated",)}},
    ],
)
def test_the_shipped_tests_notice_a_change_of_a_gate(change: dict[str, dict[Any, Any]]) -> None:
    own, files = shipped()
    for gate in own.gates:
        [(name, becomes)] = change.items()
        other = replace(gate, **{name: becomes[getattr(gate, name)]})
        changed = replace(own, gates=tuple(other if one is gate else one for one in own.gates))
        tests, problems = read_rule_tests(files, changed)
        assert problems or any(one.wrong for one in run(tests, changed)), (gate.id, name)


def test_the_shipped_tests_hold_against_their_schema() -> None:
    for file in shipped()[1]:
        first, *_ = file.read_text(encoding="utf-8").splitlines()
        assert first == "# yaml-language-server: $schema=../../schemas/rule-tests.v1.schema.json"
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            validator("rule-tests.v1").validate(document)


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((bundled("schemas") / f"{name}.schema.json").read_text(encoding="utf-8"))
    return loaded


def test_the_schema_names_itself_and_what_there_is() -> None:
    own = schema("rule-tests.v1")
    Draft202012Validator.check_schema(own)
    assert own["$id"] == "urn:phaseledger:schema:rule-tests:v1"
    defs = own["$defs"]
    figures = defs["figures"]["properties"]
    assert list(figures) == ["refused", *OF_SCENARIOS, *BY_BUCKET]
    kinds = schema("topology-receipt.v1")["$defs"]["refusal"]["properties"]["kind"]["enum"]
    assert figures["refused"]["enum"] == kinds
    assert defs["scenario"]["properties"]["topology"]["enum"] == list(TOPOLOGIES)
    assert list(defs["test"]["properties"]["objectives"]["properties"]) == list(OBJECTIVE_UNITS)


def test_the_schema_explains_every_property() -> None:
    def check(node: object) -> None:
        for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            check(value)
        if isinstance(node, dict) and node.get("additionalProperties") is False:
            assert all(declared.get("description") for declared in node["properties"].values()), node

    check(schema("rule-tests.v1"))


@given(data=st.data())
def test_no_text_makes_reading_fail(data: st.DataObject, tmp_path: Path) -> None:
    source = data.draw(st.sampled_from(sorted(BAD.glob("*.yaml")) + shipped()[1]))
    text = data.draw(mutated(source.read_text(encoding="utf-8").splitlines() or [""]))
    file = tmp_path / "tests.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    tests, problems = read_rule_tests([file], load_rules_of(source))
    assert not (tests and problems)
    assert all("\n" not in str(problem) for problem in problems)
    run(tests, load_rules_of(source))


def load_rules_of(source: Path) -> Rules:
    return rules() if source.parent == BAD else shipped()[0]
