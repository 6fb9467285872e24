"""A receipt with rules of every kind is verified; what is changed in it, and mended up to the seal, is named."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pipelines.oracle import render_text
from pipelines.oracle.changing import Bench
from pipelines.oracle.recomputing import plan_of
from pipelines.oracle.scenario import Knobs
from tests.oracle import forging as forge
from tests.oracle.filling import Receipt
from tests.oracle.mutants import disagreements, noticed_at, put
from tests.oracle.rejection import check, named
from tests.oracle.ruled import ruled


@pytest.fixture(scope="module")
def rules() -> Receipt:
    return ruled()


@pytest.fixture
def receipt(rules: Receipt) -> Receipt:
    return copy.deepcopy(rules)


@pytest.fixture(scope="module")
def schema(project: Path) -> jsonschema.Draft202012Validator:
    text = (project / "schemas" / "topology-receipt.v1.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def test_it_is_as_it_should_be(receipt: Receipt, schema: jsonschema.Draft202012Validator, tmp_path: Path) -> None:
    verification = forge.verified(tmp_path, receipt)
    assert verification.passed, render_text(verification)
    schema.validate(receipt)
    decision = receipt["decision"]
    figures = {row["gate"]: (row["figure"], row["verdict"], row["waived"]) for row in decision["verdicts"]}
    assert figures["age"] == (91, "fail", False)
    assert figures["none_unobserved"] == (30, "fail", True)
    assert decision["accepted"] is False
    assert decision["objections"] == [{"kind": "verdict", "gate": "age"}, {"kind": "exception", "gate": "stall"}]
    assert decision["scenario"] == "chunked/n2/c512"
    # the age of no observed input of the network is asked for where nothing moves
    assert figures["network_age"] == (0, "pass", False)
    failing = {
        (row["gate"], row["waived"]) for s in receipt["scenarios"] for row in s["verdicts"] if row["verdict"] == "fail"
    }
    names = ("stall", "e2e_share", "tpot_gain", "mean_start")
    assert failing == {("transfer_short", True), *((name, False) for name in names)}
    assert figures["spare"] == (1, "pass", False)


def test_columns_are_those_of_gates_on_scenarios(rules: Receipt) -> None:
    gates = [column for column in rules["matrix"]["columns"] if re.fullmatch("gate_(?!.*_provenance).*", column)]
    assert gates == [f"gate_{name}" for name in (
        "ttft_worst", "stall", "goodput", "transfer", "ttft_mean", "e2e_share", "tpot_share", "longest_wait",
        "transfer_short", "waits", "generation", "tpot_gain", "mean_start")]  # fmt: skip


def of(receipt: Receipt, name: str) -> Receipt:
    return next(gate for gate in receipt["rules"]["gates"] if gate["id"] == name)


def verdict(receipt: Receipt, name: str, scenario: str | None = None) -> Receipt:
    own = receipt["decision"] if scenario is None else forge.scenario(receipt, scenario)
    return next(row for row in own["verdicts"] if row["gate"] == name)


def unmended(change: Callable[[Receipt], Any]) -> Callable[[Receipt], None]:
    return lambda receipt: change(receipt) and None


def mended(change: Callable[[Receipt], Any]) -> Callable[[Receipt], None]:
    """A change with everything that follows from it but what the verifier knows better."""

    def mutate(receipt: Receipt) -> None:
        change(receipt)
        forge.rejudge(receipt, changes_too=True)

    return mutate


def mended_after(change: Callable[[Receipt], Any]) -> Callable[[Receipt], None]:
    """A change of what is said of changes, with everything else that follows from it."""

    def mutate(receipt: Receipt) -> None:
        change(receipt)
        forge.rejudge(receipt)

    return mutate


FORGED: dict[str, tuple[Callable[[Receipt], None], str]] = {
    "a weighted mean": (
        unmended(lambda r: verdict(r, "ttft_mean", "chunked/n1/c512").update(figure=0.2786727036)),
        r"chunked/n1/c512\]\.verdicts\[ttft_mean\]\.figure$"),
    "a share": (
        unmended(lambda r: verdict(r, "e2e_share", "chunked/n1/c512").update(figure=0.9645833334)),
        r"\.verdicts\[e2e_share\]\.figure$"),
    "a limit of a metric": (
        unmended(lambda r: verdict(r, "generation", "chunked/n1/c512").update(limit=36.3525656)),
        r"\.verdicts\[generation\]\.limit$"),
    "a factor of a metric": (unmended(lambda r: of(r, "generation").update(limit_times=2001)), r"\[generation\]\.limit$"),
    "another metric": (
        unmended(lambda r: of(r, "longest_wait").update(limit_source="metrics.e2e_worst")), r"\[longest_wait\]\.limit$"),
    "another aggregate": (unmended(lambda r: of(r, "ttft_mean").update(aggregate="worst")), r"\[ttft_mean\]\.figure$"),
    "other buckets": (
        unmended(lambda r: of(r, "transfer_short").update(buckets=["longest"])), r"\[transfer_short\]\.figure$"),
    "a wider within": (unmended(lambda r: of(r, "e2e_share").update(within=9.0)), r"\[e2e_share\]\.figure$"),
    "a gate that is said not to apply": (
        mended(lambda r: of(r, "e2e_share").update(applies=False)), r"gates\[e2e_share\]\.applies$"),
    "a gate of another cohort that is said to apply": (
        mended(lambda r: of(r, "elsewhere").update(applies=True)), r"gates\[elsewhere\]\.applies$"),
    "a cohort of another name": (unmended(lambda r: r["cohort"].update(name="b")), r"gates\[transfer_short\]\.applies$"),
    "a bucket that there is not": (
        mended(lambda r: of(r, "transfer_short").update(buckets=["[1,4096)"])), r"\[transfer_short\]\.buckets\[0\]$"),
    "waived without an exception": (
        unmended(lambda r: verdict(r, "stall", "aggregated/n1").update(waived=True)), r"\[stall\]\.waived$"),
    "not waived": (
        unmended(lambda r: verdict(r, "transfer_short", "disaggregated/p1/d1").update(waived=False)), r"\.waived$"),
    "an exception that is said to hold": (
        mended(lambda r: r["rules"]["exceptions"][1].update(standing="holds")), r"exceptions\[1\]\.standing$"),
    "an exception taken out": (unmended(lambda r: r["rules"]["exceptions"].pop(0)), r"\[transfer_short\]\.waived$"),
    "an exception of more topologies": (
        mended(lambda r: r["rules"]["exceptions"][0]["topologies"].append("chunked")), r"exceptions\[0\]\.topologies$"),
    "another day": (unmended(lambda r: r.update(as_of="2026-11-29")), r"exceptions\[1\]\.standing$"),
    "a later day": (unmended(lambda r: r.update(as_of="2026-12-01")), r"verdicts\[age\]\.figure$"),
    "no day": (unmended(lambda r: r.update(as_of=None)), r"^as_of$"),
    "a day that is none": (unmended(lambda r: r.update(as_of="2026-11-31")), r"^as_of$"),
    "a younger age": (unmended(lambda r: verdict(r, "age").update(figure=90)), r"verdicts\[age\]\.figure$"),
    "an age that passes": (
        unmended(lambda r: verdict(r, "age").update(verdict="pass")), r"verdicts\[age\]\.verdict$"),
    "an input less": (unmended(lambda r: verdict(r, "age")["inputs"].pop()), r"verdicts\[age\]\.inputs$"),
    "inputs in another order": (
        unmended(lambda r: verdict(r, "share")["inputs"].reverse()), r"verdicts\[share\]\.inputs\[0\]$"),
    "fewer that are not observed": (
        unmended(lambda r: verdict(r, "how_many").update(figure=11)), r"verdicts\[how_many\]\.figure$"),
    "other patterns": (unmended(lambda r: of(r, "how_many").update(inputs=["service.*"])), r"\[how_many\]\.figure$"),
    "a verdict on the decision less": (unmended(lambda r: r["decision"]["verdicts"].pop()), r"^decision\.verdicts$"),
    "accepted": (unmended(lambda r: r["decision"].update(accepted=True)), r"^decision\.accepted$"),
    "accepted, without objections": (
        unmended(lambda r: r["decision"].update(accepted=True, objections=[])), r"^decision\.objections$"),
    "an objection less": (unmended(lambda r: r["decision"]["objections"].pop()), r"^decision\.objections$"),
    "objections in another order": (
        unmended(lambda r: r["decision"]["objections"].reverse()), r"^decision\.objections\[0\]$"),
    "a pool that is said to be spared": (
        unmended(lambda r: verdict(r, "spare").update(figure=0, margin=1)), r"verdicts\[spare\]\.figure$"),
    "a worker less that passes": (
        unmended(lambda r: r["changes"]["speaking"][1]["one_worker_less"][0].update(passes=True)),
        r"verdicts\[spare\]\.figure$"),
    "a worker less that passes, and what follows": (
        mended_after(lambda r: r["changes"]["speaking"][1]["one_worker_less"][0].update(passes=True)),
        r"\[chunked\]\.one_worker_less\[mixed\]\.passes$"),
    "inputs of pools": (
        unmended(lambda r: verdict(r, "spare").update(inputs=["service.admission"])), r"verdicts\[spare\]\.inputs$"),
    "pools of another kind": (
        unmended(lambda r: of(r, "spare").update(kind="Provenance")), r"gates\[spare\]\.metric$"),
    "a limit in what fails": (
        unmended(lambda r: r["rejected"][0]["failing"][0].update(limit=None)), r"failing\[stall\]\.limit$"),
    "a margin of a gate that is waived": (
        unmended(lambda r: r["changes"]["speaking"][2].update(margin=-12.3220053)), r"\[disaggregated\]\.margin$"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORGED)
def test_what_is_forged_is_named(form: str, receipt: Receipt, tmp_path: Path) -> None:
    check(receipt, tmp_path, *FORGED[form])


def test_every_member_is_required_and_no_other_is_allowed(
    rules: Receipt, schema: jsonschema.Draft202012Validator
) -> None:
    for at in (("rules",), ("rules", "gates", 4), ("rules", "gates", 13), ("rules", "exceptions", 0), ("rules", "decision"),
               ("decision",), ("decision", "verdicts", 0), ("decision", "objections", 0),
               ("scenarios", 0, "verdicts", 0), ("rejected", 0, "failing", 0)):  # fmt: skip
        whole: Any = rules
        for key in at:
            whole = whole[key]
        for name in whole:
            lacking = put(rules, at, {key: value for key, value in whole.items() if key != name})
            named(disagreements(lacking), re.escape(name))
            assert not schema.is_valid(lacking), f"{at} without {name}"
        surplus = put(rules, at, {**whole, "surplus": 1})
        named(disagreements(surplus), "surplus$")
        assert not schema.is_valid(surplus)


def test_the_schema_knows_what_belongs_together(rules: Receipt, schema: jsonschema.Draft202012Validator) -> None:
    gates = rules["rules"]["gates"]
    place = {gate["id"]: index for index, gate in enumerate(gates)}
    for name, changes in (
        ("age", {"topologies": ["chunked"]}),
        ("age", {"bound": "nominal"}),
        ("age", {"op": "gte"}),
        ("age", {"limit": None}),
        ("age", {"scope": "scenario"}),
        ("age", {"metric": "ttft_worst"}),
        ("ttft_mean", {"aggregate": None}),
        ("ttft_mean", {"within": 1.0}),
        ("ttft_mean", {"inputs": ["*"]}),
        ("ttft_mean", {"topologies": []}),
        ("ttft_mean", {"kind": "Provenance"}),
        ("ttft_mean", {"limit_times": 1}),
        ("ttft_worst", {"aggregate": "worst"}),
        ("ttft_worst", {"buckets": ["longest"]}),
        ("e2e_share", {"within_source": None}),
        ("e2e_share", {"unit": "s"}),
        ("generation", {"limit": 1.0}),
        ("generation", {"limit_times": None}),
        ("generation", {"limit_source": "metrics.transfer_worst"}),
        ("transfer_short", {"topologies": ["chunked"]}),
        ("ttft_mean", {"severity": "warn"}),
        ("tpot_gain", {"limit": 1.0}),
        ("tpot_gain", {"limit_times": None}),
        ("tpot_gain", {"limit_source": "baselines.routed"}),
        ("tpot_gain", {"topologies": ["chunked", "disaggregated"]}),
        ("tpot_gain", {"metric": "transfer_worst"}),
        ("mean_start", {"topologies": ["aggregated"]}),
        ("mean_start", {"metric": "transfer", "topologies": ["disaggregated"]}),
        ("spare", {"kind": "Provenance"}),
        ("spare", {"kind": "Goodput"}),
        ("spare", {"inputs": ["service.*"]}),
        ("spare", {"unit": "ratio"}),
        ("spare", {"op": "gte"}),
        ("spare", {"scope": "scenario"}),
        ("spare", {"limit_source": "baselines.chunked"}),
        ("age", {"kind": "Capacity"}),
    ):
        gate = gates[place[name]]
        forged = put(rules, ("rules", "gates", place[name]), {**gate, **changes})
        assert not schema.is_valid(forged), f"{name} with {changes}"
        assert noticed_at(forged, renamed=True), f"{name} with {changes}"
    assert not schema.is_valid(put(rules, ("decision", "accepted"), True))
    assert not schema.is_valid(put(rules, ("decision", "objections"), []))


def test_margins_are_of_unrounded_figures_limits_and_aggregates(rules: Receipt) -> None:
    """Of the gate on the mean TTFT alone, and of the one whose limit is a multiple of TPOT, by their own equations."""
    plan = plan_of(rules, forge.usable_inputs(rules))
    knobs, evaluator = Knobs("aggregated", 2), plan.evaluators["nominal"]
    figures = evaluator.evaluate(knobs, evaluator.traffic.rate_rps).figures
    assert figures is not None
    assert figures.tpot_worst_s is not None
    lines = dict(zip((k.requests for k in evaluator.traffic.buckets), figures.timelines, strict=True))
    mean = math.fsum(count * line.ttft_s for count, line in lines.items()) / sum(lines)
    limit = 2000 * figures.tpot_worst_s
    for name, margin in (("ttft_mean", 1 - mean), ("generation", (limit - figures.e2e_worst_s) / limit)):
        only = {**rules, "rules": {**rules["rules"], "gates": [of(rules, name)]}}
        standing = Bench(plan_of(only, plan.inputs)).standing(knobs)
        assert standing.margin == pytest.approx(margin, rel=1e-15)
        assert standing.passes


def test_a_changed_objective_changes_what_is_within(rules: Receipt) -> None:
    """TTFT within 2 s in all buckets; within 0.72 s not for the 17 longest of 480 prompts, whose mean is 0.74 s."""
    share = of(rules, "tpot_share") | {"metric": "ttft", "within": 2.0, "within_source": "objectives.ttft",
                                       "bound": "nominal", "limit": 0.99}  # fmt: skip
    only = {**rules, "rules": {**rules["rules"], "gates": [share]}}
    bench, knobs = Bench(plan_of(only, forge.usable_inputs(only))), Knobs("aggregated", 1)
    as_it_is, shorter = bench.standing(knobs), bench.standing(knobs, "objectives.ttft", 0.36)
    assert (as_it_is.passes, shorter.passes) == (True, False)
    assert as_it_is.margin == pytest.approx(0.01 / 0.99, rel=1e-14)
    assert shorter.margin == pytest.approx((463 / 480 - 0.99) / 0.99, rel=1e-14)


def test_a_topology_whose_gates_are_all_waived_passes_without_a_margin(rules: Receipt) -> None:
    waived = copy.deepcopy(rules)
    waived["rules"]["gates"] = [of(waived, "stall")]
    waived["rules"]["exceptions"] = waived["rules"]["exceptions"][1:2]
    plan = plan_of(waived, forge.usable_inputs(waived))
    assert not Bench(plan).standing(Knobs("aggregated", 1)).passes
    waived["rules"]["exceptions"][0]["expires"] = waived["as_of"]
    standing = Bench(plan_of(waived, plan.inputs)).standing(Knobs("aggregated", 1))
    assert (standing.passes, standing.margin, standing.failing) == (True, None, None)
    assert "objectives.stall" not in Bench(plan_of(waived, plan.inputs)).changed_inputs("aggregated")
