"""Limits that are a baseline: worked by hand, as declared, under changed inputs, and forged (docs/rules.md, Gates)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle import render_text
from pipelines.oracle.baselines import baselines_of
from pipelines.oracle.changing import Bench
from pipelines.oracle.declared import check_gates
from pipelines.oracle.findings import Ledger, round_significant
from pipelines.oracle.judging import Judged, judge_all
from pipelines.oracle.recomputing import plan_of
from pipelines.oracle.scenario import Knobs
from tests.oracle import forging as forge
from tests.oracle.filling import Receipt
from tests.oracle.handmade import gate_with_baseline, receipt_of
from tests.oracle.rejection import check, named
from tests.oracle.test_rules import GROUNDS, LONG, MIDDLE, REFUSED, SEEN, SHORT, line


def row(topology: str, workers: int, nominal: Receipt, conservative: Receipt | None = None) -> Receipt:
    """A scenario of mixed workers, which occupy two GPUs each."""
    return {"scenario": f"{topology}/n{workers}", "topology": topology, "workers_mixed": workers, "gpus": 2 * workers,
            "operating_parts": 5, "verdicts": [],
            "bounds": {"nominal": nominal, "conservative": conservative or nominal}}  # fmt: skip


def seen(tpot: float, goodput: float, ttft: tuple[float, float, float] = (0.2, 0.5, 1.7), **others: Any) -> Receipt:
    lanes = [line(name, first, None if name == MIDDLE else tpot, 3.0, (0.0, 0.0, 0.0, 0.0))
             for name, first in zip((SHORT, MIDDLE, LONG), ttft, strict=True)]  # fmt: skip
    return SEEN | {"tpot_worst_s": tpot, "goodput": goodput, "lanes": lanes, **others}


ROWS = [
    row("aggregated", 1, seen(0.06, 0.6)),
    row("aggregated", 2, seen(0.05, 0.7), REFUSED),
    row("chunked", 1, REFUSED | {"pressure": 1.2}, REFUSED),
    row("chunked", 1, REFUSED | {"pressure": 1.1}, REFUSED),
    row("chunked", 2, seen(0.04, 0.9, (0.1, 0.4, 2.0)), seen(0.08, 0.5)),
    row("chunked", 2, seen(0.0333333333, 0.8, (0.3, 0.4, 1.6)), seen(0.09, 0.4)),
    row("chunked", 3, seen(0.03, 0.95), REFUSED),
    row("chunked", 3, seen(0.02, 0.97), seen(0.07, 0.5)),
    row("disaggregated", 2, seen(0.001, 1.0)),
]
ON_TWO = replace(GROUNDS, baselines=baselines_of(ROWS, 2))


def judged(gate: Receipt, gpus: int, of: Receipt = SEEN, **exported: Any) -> Judged:
    verdicts = [{"gate": gate["id"], **exported}] if exported else []
    scenario = {"scenario": "disaggregated/p1/d1", "topology": "disaggregated", "gpus": gpus, "operating_parts": 11,
                "bounds": {"nominal": of, "conservative": of}, "verdicts": verdicts}  # fmt: skip
    [found] = judge_all(scenario, [gate], ON_TWO)
    return found


@pytest.mark.parametrize(
    ("gate", "gpus", "expected"),
    [
        # the better of two budgets: 0.9 x 0.0333333333 = 0.02999999997; (0.02999999997 - 0.04) / 0.02999999997
        (gate_with_baseline("any", "tpot_worst", "chunked", 0.9), 4, (0.04, 0.02999999997, "fail", -0.3333333347)),
        # 1.23456789 x 0.0333333333 = 0.04115226295884773
        (gate_with_baseline("any", "tpot_worst", "chunked", 1.23456789), 4, (0.04, 0.04115226296, "pass", 0.02799999021)),
        # five GPUs make up two workers, six make up three
        (gate_with_baseline("any", "tpot_worst", "chunked", 1.5), 5, (0.04, 0.04999999995, "pass", 0.1999999992)),
        (gate_with_baseline("any", "tpot_worst", "chunked", 2.5), 6, (0.04, 0.05, "pass", 0.2)),
        (gate_with_baseline("any", "tpot_worst", "chunked", 2, op="lt"), 6, (0.04, 0.04, "fail", 0.0)),
        (gate_with_baseline("any", "tpot_worst", "aggregated", 1), 5, (0.04, 0.05, "pass", 0.2)),
        (gate_with_baseline("any", "tpot_worst", "aggregated", 1), 3, (0.04, 0.06, "pass", 0.3333333333)),
        # under the conservative bound, where one of two is refused, and the only one
        (gate_with_baseline("any", "tpot_worst", "chunked", 1, bound="conservative"), 4, (0.04, 0.08, "pass", 0.5)),
        (gate_with_baseline("any", "tpot_worst", "chunked", 1, bound="conservative"), 6,
         (0.04, 0.07, "pass", 0.4285714286)),
        (gate_with_baseline("any", "tpot_worst", "aggregated", 1, bound="conservative"), 4,
         (0.04, None, "refused", None)),
        # all refused; fewer GPUs than those of a worker; more workers than there are
        (gate_with_baseline("any", "tpot_worst", "chunked", 1), 2, (0.04, None, "refused", None)),
        (gate_with_baseline("any", "tpot_worst", "chunked", 1), 1, (0.04, None, "refused", None)),
        (gate_with_baseline("any", "tpot_worst", "chunked", 1), 8, (0.04, None, "refused", None)),
        # a refused baseline has a pressure
        (gate_with_baseline("any", "pressure", "chunked", 1), 2, (0.8, 1.1, "pass", 0.2727272727)),
        # the largest, for gte and gt: 0.9, not 0.8
        (gate_with_baseline("any", "goodput", "chunked", 1.1, op="gte"), 4, (0.96, 0.99, "fail", -0.0303030303)),
        (gate_with_baseline("any", "goodput", "chunked", 1, op="gt"), 4, (0.96, 0.9, "pass", 0.06666666667)),
        (gate_with_baseline("any", "gpus", "chunked", 1, op="lt"), 5, (5, 4, "fail", -0.25)),
    ],
)  # fmt: skip
def test_the_best_of_a_baseline(gate: Receipt, gpus: int, expected: tuple[Any, ...]) -> None:
    found = judged(gate, gpus)
    assert (found.figure, found.limit, found.verdict) == expected[:3]
    assert found.margin == (None if expected[3] is None else pytest.approx(expected[3], rel=1e-8, abs=1e-12))


@pytest.mark.parametrize(
    ("metric", "aggregate", "others", "limit"),
    [
        # the largest of each: 2.0 and 1.6; the smallest: 0.1 and 0.3
        ("ttft", "worst", {}, 1.6),
        ("ttft", "worst", {"op": "gte"}, 0.3),
        ("ttft", "worst", {"buckets": ["shortest"]}, 0.1),
        # (80 x 0.1 + 15 x 0.4 + 5 x 2) / 100 = 0.24; (80 x 0.3 + 15 x 0.4 + 5 x 1.6) / 100 = 0.38
        ("ttft", "request_weighted", {}, 0.24),
        ("ttft", "request_weighted", {"op": "gt"}, 0.38),
        # 80 of 100 are within 0.1 s of the one, none of the other
        ("ttft", "share", {"within": 0.1, "op": "gte"}, 0.8),
        ("ttft", "share", {"within": 0.1}, 0.0),
        ("tpot", "worst", {"buckets": [MIDDLE]}, None),
    ],
)
def test_a_baseline_is_aggregated_alike(
    metric: str, aggregate: str, others: dict[str, Any], limit: float | None
) -> None:
    found = judged(gate_with_baseline("any", metric, "chunked", 1, aggregate=aggregate, **others), 4)
    assert found.limit == limit
    assert (found.verdict == "refused") is (limit is None)


def test_a_scenario_that_is_refused_has_a_limit_all_the_same() -> None:
    found = judged(gate_with_baseline("any", "tpot_worst", "chunked", 3), 4, REFUSED)
    assert (found.figure, found.limit, found.verdict, found.margin) == (None, 0.0999999999, "refused", None)


@pytest.mark.parametrize(
    ("aggregate", "limit", "expected"),
    [
        # the best mean is 0.24; one unit of its last digit, 1e-10, is one of the limit's, which may be rounded as well
        ("request_weighted", 0.2160000001, 0.2160000001),
        ("request_weighted", 0.2160000003, 0.216),
        ("request_weighted", 0.21600000005, 0.216),  # eleven digits
        # the best of the worst is exported as it is: its multiple may be rounded, no more
        ("worst", 1.440000001, 1.440000001),
        ("worst", 1.440000002, 1.44),
    ],
)
def test_the_last_digit_of_a_limit(aggregate: str, limit: float, expected: float) -> None:
    gate = gate_with_baseline("any", "ttft", "chunked", 0.9, aggregate=aggregate)
    assert judged(gate, 4, figure=1.7, limit=limit).limit == expected


def test_a_last_digit_may_be_ten_of_the_limit() -> None:
    """0.24 x 4 = 0.96, of 1e-10 as well; 0.24 x 0.4 = 0.096, of 1e-11: a unit of the mean is four."""
    gate = gate_with_baseline("any", "ttft", "chunked", 0.4, aggregate="request_weighted")
    assert judged(gate, 4, figure=1.7, limit=0.09600000005).limit == 0.09600000005
    assert judged(gate, 4, figure=1.7, limit=0.09600000006).limit == 0.096


@pytest.fixture(scope="module")
def plain() -> Receipt:
    return receipt_of("rate")


ANY = gate_with_baseline("any", "tpot_worst", "chunked", 0.9)
ELSEWHERE: Receipt = {"cohorts": ["another"], "applies": False}


def faults(receipt: Receipt, gate: Receipt) -> list[str]:
    ledger, rules = Ledger(), receipt["rules"]
    amended = {**receipt, "rules": {**rules, "gates": [*rules["gates"], gate]}}
    check_gates(ledger, amended, forge.usable_inputs(receipt))
    return [item.where for item in ledger.disagreements]


@pytest.mark.parametrize(
    "gate",
    [
        ANY,
        gate_with_baseline("any", "ttft", "aggregated", 1, aggregate="worst", topologies=["chunked", "routed"]),
        gate_with_baseline("any", "operating_parts", "aggregated", 2.5),
    ],
)
def test_what_may_be_declared(gate: Receipt, plain: Receipt) -> None:
    assert faults(plain, gate) == []


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"topologies": ["chunked", "disaggregated"]}, r"\.topologies$"),
        ({"topologies": ["chunked"], **ELSEWHERE}, r"\.topologies$"),
        ({"metric": "transfer_worst"}, r"\.limit_source$"),
        ({"metric": "transfer_envelope_share", "unit": "ratio"}, r"\.limit_source$"),
        ({"metric": "transfer", "aggregate": "worst"}, r"\.limit_source$"),
        ({"limit_source": "baselines.disaggregated", "topologies": ["routed"]}, r"\.limit_source$"),
        ({"limit": 0.05}, r"\.limit$"),
        ({"limit_times": None}, r"\.limit_times$"),
        ({"unit": "ratio"}, r"\.unit$"),
        ({"scope": "decision"}, r"\.limit_source$"),
    ],
)
def test_what_may_not_be_declared(changes: Receipt, pattern: str, plain: Receipt) -> None:
    named(faults(plain, ANY | changes), pattern)


def test_a_baseline_is_compared_and_all_of_it_is_kept(plain: Receipt) -> None:
    many = {**plain, "search": {**plain["search"], "scenarios": 1001}}
    named(faults(many, ANY), r"\.limit_source$")
    assert faults({**plain, "search": {**plain["search"], "scenarios": 1000}}, ANY) == []
    assert faults(many, ANY | ELSEWHERE) == []
    fewer = copy.deepcopy(plain)
    forge.input_row(fewer, "topologies.compared").update(
        value="aggregated disaggregated", conservative="aggregated disaggregated"
    )
    fewer["inputs"].remove(forge.input_row(fewer, "topologies.chunked.chunk_tokens"))
    assert faults(fewer, ANY) == ["rules.gates[any].limit_source"]
    assert faults(fewer, ANY | ELSEWHERE) == []


def with_baselines(receipt: Receipt) -> None:
    for path, value in {"inventory.gpus": 4, "topologies.chunked.chunk_tokens": "512 2048"}.items():
        forge.input_row(receipt, path).update(value=value, conservative=value)
    own = ["disaggregated"]
    receipt["rules"]["gates"] += [
        gate_with_baseline("tpot_gain", "tpot_worst", "chunked", 0.99, topologies=own),
        gate_with_baseline("mean_start", "ttft", "aggregated", 1.2, aggregate="request_weighted", bound="conservative",
                           topologies=["chunked", *own], blocking=False),
        gate_with_baseline("goodput_kept", "goodput", "chunked", 1, op="gte", topologies=own),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def compared() -> Receipt:
    return receipt_of("rate", amend=with_baselines)


def test_it_is_as_it_should_be(compared: Receipt, tmp_path: Path) -> None:
    verification = forge.verified(tmp_path, copy.deepcopy(compared))
    assert verification.passed, render_text(verification)
    for name, workers in (("p1/d1", 2), ("p2/d1", 3), ("p1/d2", 3), ("p2/d2", 4)):
        others = [
            forge.scenario(compared, f"chunked/n{workers}/c{budget}")["bounds"]["nominal"] for budget in (512, 2048)
        ]
        verdicts = {v["gate"]: v["limit"] for v in forge.scenario(compared, f"disaggregated/{name}")["verdicts"]}
        assert verdicts["tpot_gain"] == round_significant(0.99 * min(x["tpot_worst_s"] for x in others), 10)
        assert verdicts["goodput_kept"] == max(x["goodput"] for x in others)


PREFILL = "service.prefill.tokens_per_second"


@pytest.mark.parametrize(("path", "factor"), [(None, 1.0), (PREFILL, 0.9), ("requests.rate", 1.1)])
def test_margins_are_of_the_unrounded_figures_of_the_same_changed_inputs(
    path: str | None, factor: float, compared: Receipt
) -> None:
    only = {**compared, "rules": {**compared["rules"], "gates": [of(compared, "tpot_gain")]}}
    changed = copy.deepcopy(only)
    if path is not None:
        found = forge.input_row(changed, path)
        found.update({name: found[name] and found[name] * factor for name in ("value", "low", "high", "conservative")})
    evaluator = plan_of(changed, forge.usable_inputs(changed)).evaluators["nominal"]
    tpot = {}
    for knobs in (Knobs("disaggregated", None, 1, 2), Knobs("chunked", 3, None, None, 512),
                  Knobs("chunked", 3, None, None, 2048), Knobs("disaggregated", None, 1, 1),
                  Knobs("chunked", 2, None, None, 512), Knobs("chunked", 2, None, None, 2048)):  # fmt: skip
        figures = evaluator.evaluate(knobs, evaluator.traffic.rate_rps).figures
        assert figures is not None
        tpot[knobs.name] = figures.tpot_worst_s or math.nan
    bench = Bench(plan_of(only, forge.usable_inputs(only)))
    for name, workers in (("p1/d2", 3), ("p1/d1", 2)):
        knobs = Knobs("disaggregated", None, int(name[1]), int(name[4]))
        limit = 0.99 * min(tpot[f"chunked/n{workers}/c{budget}"] for budget in (512, 2048))
        standing = bench.standing(knobs, path, factor)
        assert standing.margin == pytest.approx((limit - tpot[f"disaggregated/{name}"]) / limit, rel=1e-12)
        assert standing.judged[0].limit == round_significant(0.99 * round_significant(limit / 0.99, 10), 10)
        assert standing.passes is (standing.margin is not None and standing.margin >= 0)


def test_with_one_worker_less_the_baseline_has_fewer_too(compared: Receipt) -> None:
    only = {**compared, "rules": {**compared["rules"], "gates": [of(compared, "tpot_gain")]}}
    bench = Bench(plan_of(only, forge.usable_inputs(only)))
    for pool, _, standing in bench.one_less(Knobs("disaggregated", None, 2, 2)):
        name = {"prefill": "p1/d2", "decode": "p2/d1"}[pool]
        exported = forge.scenario(compared, f"disaggregated/{name}")["verdicts"]
        assert standing.judged[0].limit == next(v["limit"] for v in exported if v["gate"] == "tpot_gain")


def test_more_gpus_than_there_are_have_a_baseline(compared: Receipt) -> None:
    bench = Bench(plan_of(compared, forge.usable_inputs(compared)))
    standing = bench.standing(Knobs("disaggregated", None, 4, 4))
    assert all(entry.limit is not None for entry in standing.judged)


def test_a_closed_loop_solves_the_rates_of_its_baselines(tmp_path: Path) -> None:
    def amend(receipt: Receipt) -> None:
        receipt["rules"]["gates"] = [receipt["rules"]["gates"][0], *(
            gate_with_baseline("gain", "tpot_worst", "chunked", 1.0, topologies=["disaggregated"]),)]  # fmt: skip

    receipt = receipt_of("closed", amend=amend)
    bench, knobs = Bench(plan_of(receipt, forge.usable_inputs(receipt))), Knobs("disaggregated", None, 1, 1)
    base, same = bench.standing(knobs), bench.standing(knobs, "service.admission", 1.0)
    assert base.judged[1].limit == next(
        v["limit"] for v in forge.scenario(receipt, knobs.name)["verdicts"] if v["gate"] == "gain"
    )
    assert same.judged[1].limit == pytest.approx(base.judged[1].limit, rel=1e-8)
    verification = forge.verified(tmp_path, receipt)
    assert verification.passed, render_text(verification)


def of(receipt: Receipt, name: str) -> Receipt:
    return next(gate for gate in receipt["rules"]["gates"] if gate["id"] == name)


def verdict(receipt: Receipt, gate: str, scenario: str) -> Receipt:
    return next(row for row in forge.scenario(receipt, scenario)["verdicts"] if row["gate"] == gate)


def unmended(change: Callable[[Receipt], Any]) -> Callable[[Receipt], None]:
    return lambda receipt: change(receipt) and None


def limit_of_another(receipt: Receipt) -> None:
    """On three GPUs the limit of two."""
    verdict(receipt, "tpot_gain", "disaggregated/p1/d2").update(
        limit=verdict(receipt, "tpot_gain", "disaggregated/p1/d1")["limit"]
    )


def first_budget(receipt: Receipt) -> None:
    """Every limit from the worse of the two budgets, and all that follows."""
    worse = [row for row in receipt["scenarios"] if row["chunk_tokens"] == 2048]
    whole = receipt["scenarios"]
    receipt["scenarios"] = [row for row in whole if row not in worse]
    forge.rejudge(receipt)
    judged = {row["scenario"]: row["verdicts"] for row in receipt["scenarios"] if row["topology"] == "disaggregated"}
    receipt["scenarios"] = whole
    forge.rejudge(receipt, changes_too=True)
    for row in receipt["scenarios"]:
        row["verdicts"] = judged.get(row["scenario"], row["verdicts"])


def said_to_be_chunked(receipt: Receipt) -> None:
    of(receipt, "tpot_gain")["topologies"].insert(0, "chunked")
    forge.rejudge(receipt, changes_too=True)


FORGED: dict[str, tuple[Callable[[Receipt], None], str]] = {
    "a limit of fewer GPUs": (limit_of_another, r"p1/d2\]\.verdicts\[tpot_gain\]\.limit$"),
    "a limit of one budget": (first_budget, r"disaggregated/.*\.verdicts\[(tpot_gain|goodput_kept)\]\.limit$"),
    "a lower factor": (unmended(lambda r: of(r, "tpot_gain").update(limit_times=0.98)), r"\[tpot_gain\]\.limit$"),
    "another baseline": (
        unmended(lambda r: of(r, "goodput_kept").update(limit_source="baselines.aggregated")),
        r"\[goodput_kept\]\.limit$"),
    "another bound": (
        unmended(lambda r: of(r, "tpot_gain").update(bound="conservative")), r"\[tpot_gain\]\.limit$"),
    "the worst instead of the mean": (
        unmended(lambda r: of(r, "mean_start").update(aggregate="worst")), r"\[mean_start\]\.limit$"),
    "a limit in the gate": (unmended(lambda r: of(r, "tpot_gain").update(limit=0.014)), r"gates\[tpot_gain\]\.limit$"),
    "no limit": (
        unmended(lambda r: verdict(r, "tpot_gain", "disaggregated/p1/d1").update(
            limit=None, verdict="refused", margin=None)), r"\[tpot_gain\]\.limit$"),
    "the baseline itself": (said_to_be_chunked, r"gates\[tpot_gain\]\.topologies"),
    "a margin": (
        unmended(lambda r: r["changes"]["speaking"][2].update(margin=0.0123456789)), r"\[disaggregated\]\.margin$"),
    "a worker less that passes": (
        unmended(lambda r: r["changes"]["speaking"][2]["one_worker_less"][0].update(passes=True)),
        r"one_worker_less\[prefill\]\.passes$"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORGED)
def test_what_is_forged_is_named(form: str, compared: Receipt, tmp_path: Path) -> None:
    check(copy.deepcopy(compared), tmp_path, *FORGED[form])


def test_figures_of_the_baseline_are_what_the_limit_follows_from(compared: Receipt, tmp_path: Path) -> None:
    """A slower baseline, with all that follows but its own equations."""
    receipt = copy.deepcopy(compared)
    for budget in (512, 2048):
        bound = forge.scenario(receipt, f"chunked/n2/c{budget}")["bounds"]["nominal"]
        bound["tpot_worst_s"] = round_significant(2 * bound["tpot_worst_s"], 10)
    forge.rejudge(receipt)
    assert verdict(receipt, "tpot_gain", "disaggregated/p1/d1")["verdict"] == "pass"
    found = [item.where for item in forge.verified(tmp_path, receipt).disagreements]
    named(found, r"^scenarios\[chunked/n2/c512\]\.bounds\.nominal\.tpot_worst_s$")
    assert not any("tpot_gain" in place for place in found)
