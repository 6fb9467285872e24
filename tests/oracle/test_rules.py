"""Gates on scenarios, worked by hand: figures by bucket, limits that are metrics, and what may be declared (docs/rules.md)."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.oracle.declared import check_gates, could_match
from pipelines.oracle.findings import Ledger
from pipelines.oracle.judging import Grounds, judge, judge_all, passes
from pipelines.oracle.objectives import Objectives
from pipelines.oracle.resting import objectives_read
from tests.oracle import forging as forge
from tests.oracle.filling import Receipt
from tests.oracle.handmade import RULE, gate_by_bucket, receipt_of
from tests.oracle.rejection import named

SHORT, MIDDLE, LONG = "[1,512)", "[512,4096)", "[4096,inf)"
GROUNDS = Grounds(Objectives({"ttft": 2.0, "tpot": 0.05}), {SHORT: 80, MIDDLE: 15, LONG: 5})


@pytest.fixture(scope="module")
def plain() -> Receipt:
    return receipt_of("rate")


def line(bucket: str, ttft: float, tpot: float | None, e2e: float, waits: tuple[float, float, float, float]) -> Receipt:
    names = ("prefill_wait_s", "transfer_wait_s", "kv_movement_s", "decode_wait_s")
    return {"bucket": bucket, "ttft_s": ttft, "tpot_s": tpot, "e2e_s": e2e, **dict(zip(names, waits, strict=True))}


SEEN: Receipt = {
    "status": "evaluated",
    "ttft_worst_s": 1.7,
    "tpot_worst_s": 0.04,
    "e2e_worst_s": 7.0,
    "stall_s": None,
    "goodput": 0.96,
    "pressure": 0.8,
    "headroom": 0.2,
    "gpus": 4,
    "operating_parts": 11,
    "transfer_worst_s": 1.01234568,
    "transfer_envelope_share": 0.5,
    "lanes": [
        line(SHORT, 0.2, 0.03, 3.0, (0.1, 0.0123456789, 0.1000000001, 0.004)),
        line(MIDDLE, 0.5, None, 0.5, (0.2, 0.0, 0.0, 0.008)),
        line(LONG, 1.7, 0.04, 7.0, (0.4, 0.01234567891, 1.000000001, 0.012)),
    ],
}
REFUSED: Receipt = {
    name: None if name.endswith("_s") or name in ("goodput", "transfer_envelope_share") else value
    for name, value in SEEN.items()
} | {"status": "refused", "lanes": []}


@pytest.mark.parametrize(
    ("metric", "aggregate", "others", "figure"),
    [
        ("ttft", "worst", {}, 1.7),
        ("ttft", "worst", {"op": "gte"}, 0.2),
        ("ttft", "worst", {"buckets": [SHORT, "[512,4096)"]}, 0.5),
        ("ttft", "worst", {"buckets": ["shortest"]}, 0.2),
        ("ttft", "worst", {"buckets": ["longest"], "op": "gt"}, 1.7),
        # (80 * 0.2 + 15 * 0.5 + 5 * 1.7) / 100
        ("ttft", "request_weighted", {}, 0.32),
        # (15 * 0.5 + 5 * 1.7) / 20; a bucket that is named twice counts once
        ("ttft", "request_weighted", {"buckets": ["longest", MIDDLE, LONG]}, 0.8),
        # the middle bucket has none: (80 * 0.03 + 5 * 0.04) / 85 = 0.030588235294...
        ("tpot", "request_weighted", {}, 0.03058823529),
        ("tpot", "worst", {"buckets": [MIDDLE]}, None),
        ("tpot", "share", {"within": 0.03, "buckets": [MIDDLE]}, None),
        ("ttft", "share", {"within": 0.5}, 0.95),
        ("ttft", "share", {"within": 0.4999}, 0.8),
        ("ttft", "share", {"within": 0.1}, 0.0),
        # 80 of 85 have a TPOT within: 0.94117647058...
        ("tpot", "share", {"within": 0.03}, 0.9411764706),
        ("e2e", "worst", {}, 7.0),
        ("prefill_wait", "worst", {}, 0.4),
        ("decode_wait", "request_weighted", {}, 0.005),  # (0.32 + 0.12 + 0.06) / 100
        # 0.0123456789 + 0.1000000001, and 0.01234567891 + 1.000000001 = 1.01234567991 to 10 digits
        ("transfer", "worst", {"buckets": ["shortest"]}, 0.112345679),
        ("transfer", "worst", {}, 1.01234568),
        ("transfer", "worst", {"op": "gt"}, 0.0),
    ],
)
def test_one_figure_of_many(metric: str, aggregate: str, others: dict[str, Any], figure: float | None) -> None:
    gate = gate_by_bucket("any", metric, aggregate, **{"op": "lte", "limit": 0.5, **others})
    judged = judge(SEEN, gate, GROUNDS)
    assert (judged.figure, judged.limit) == (figure, 0.5)
    assert (judged.verdict == "refused", judged.margin is None) == (figure is None,) * 2
    assert judge(REFUSED, gate, GROUNDS).verdict == "refused"


def test_unrounded_figures_and_aggregates() -> None:
    exact = Grounds(GROUNDS.objectives, GROUNDS.requests, exact=True)
    mean = judge(SEEN, gate_by_bucket("any", "tpot", "request_weighted", "lte", 1.0), exact)
    assert mean.figure == pytest.approx(2.6 / 85, rel=1e-15)
    assert mean.figure != 0.03058823529
    transfer = judge(SEEN, gate_by_bucket("any", "transfer", "worst", "lte", 1.0), exact)
    assert transfer.figure == pytest.approx(1.01234567991, rel=1e-15)


def multiple(metric: str, limit: str, times: float, op: str = "lte") -> Receipt:
    return {**RULE, "id": "any", "metric": metric, "topologies": ["aggregated"], "op": op, "limit": None,
            "limit_source": f"metrics.{limit}", "limit_times": times}  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "gate", "expected"),
    [
        # 1.7 of 20 x 0.04 = 0.8: (0.8 - 1.7) / 0.8
        (SEEN, multiple("ttft_worst", "tpot_worst", 20), (1.7, 0.8, "fail", -1.125)),
        (SEEN, multiple("ttft_worst", "tpot_worst", 42.5), (1.7, 1.7, "pass", 0.0)),
        (SEEN, multiple("ttft_worst", "tpot_worst", 42.5, "lt"), (1.7, 1.7, "fail", 0.0)),
        # 20.00000001 x 0.0333333333 = 0.666666666333333333
        (
            SEEN | {"tpot_worst_s": 0.0333333333, "ttft_worst_s": 0.6666666663},
            multiple("ttft_worst", "tpot_worst", 20.00000001),
            (0.6666666663, 0.6666666663, "pass", 0.0),
        ),
        # no stall, no limit
        (SEEN, multiple("ttft_worst", "stall", 2), (1.7, None, "refused", None)),
        (SEEN, multiple("stall", "ttft_worst", 2), (None, 3.4, "refused", None)),
        # the metric needs no latency, but that of its limit does
        (SEEN, multiple("pressure", "goodput", 1), (0.8, 0.96, "pass", 0.1666666667)),
        (REFUSED, multiple("pressure", "goodput", 1), (0.8, None, "refused", None)),
        (REFUSED, multiple("headroom", "pressure", 0.2, "gte"), (0.2, 0.16, "pass", 0.25)),
        (SEEN, multiple("gpus", "operating_parts", 0.5), (4, 5.5, "pass", 0.2727272727)),
    ],
)
def test_a_limit_that_is_a_metric(seen: Receipt, gate: Receipt, expected: tuple[Any, ...]) -> None:
    judged = judge(seen, gate, GROUNDS)
    assert (judged.figure, judged.limit, judged.verdict, judged.margin) == expected


def test_a_limit_that_is_a_metric_of_a_gate_by_bucket() -> None:
    gate = gate_by_bucket("any", "ttft", "worst", "lte", 0, limit_source="metrics.e2e_worst", limit_times=0.25)
    judged = judge(SEEN, gate, GROUNDS)
    assert (judged.figure, judged.limit, judged.verdict) == (1.7, 1.75, "pass")


def scenario(**others: Any) -> Receipt:
    bounds = {"nominal": SEEN, "conservative": REFUSED}
    return {"scenario": "aggregated/n4", "topology": "aggregated", "gpus": 4, "operating_parts": 11, "bounds": bounds,
            "verdicts": [], **others}  # fmt: skip


def test_what_is_waived_does_not_block() -> None:
    slow = gate_by_bucket("slow", "ttft", "worst", "lte", 1.0, topologies=["aggregated"])
    waived = Grounds(GROUNDS.objectives, GROUNDS.requests, frozenset({("slow", "aggregated"), ("fast", "chunked")}))
    fast = gate_by_bucket("fast", "ttft", "worst", "lte", 2.0, topologies=["aggregated"])
    [first, second] = judge_all(scenario(), [slow, fast], waived)
    assert (first.verdict, first.waived, first.may_block, first.blocks) == ("fail", True, False, False)
    assert (second.verdict, second.waived, second.may_block) == ("pass", False, True)
    assert passes(scenario(), [first, second])
    # one that is waived still examines it; one that only informs does not
    assert passes(scenario(), [first])
    assert not passes(scenario(), judge_all(scenario(), [slow | {"blocking": False}], waived))
    assert not passes(scenario(), judge_all(scenario(), [slow, fast], GROUNDS))


def test_gates_on_others_and_on_the_decision_do_not_judge_a_scenario() -> None:
    gate = gate_by_bucket("any", "ttft", "worst", "lte", 1.0)
    others = ({"applies": False}, {"topologies": ["routed"]}, {"scope": "decision"}, {"limit": None})
    assert [judge_all(scenario(), [gate | other], GROUNDS) for other in others] == [[]] * 4


@pytest.mark.parametrize(
    ("figure", "expected"),
    [(0.3200000001, 0.3200000001), (0.3199999999, 0.3199999999), (0.3200000002, 0.32), (0.32000000001, 0.32)],
)
def test_the_last_digit_of_a_mean_is_as_it_is_exported(figure: float, expected: float) -> None:
    gate = gate_by_bucket("mean", "ttft", "request_weighted", "lte", 0.32, topologies=["aggregated"])
    exported = {"gate": "mean", "figure": figure, "limit": 0.32}
    [judged] = judge_all(scenario(verdicts=[exported]), [gate], GROUNDS)
    assert (judged.figure, judged.verdict) == (expected, "pass" if expected <= 0.32 else "fail")


def test_the_last_digit_of_a_worst_figure_is_not() -> None:
    gate = gate_by_bucket("worst", "ttft", "worst", "lte", 2.0, topologies=["aggregated"])
    exported = {"gate": "worst", "figure": 1.700000001, "limit": 2.0}
    [judged] = judge_all(scenario(verdicts=[exported]), [gate], GROUNDS)
    assert judged.figure == 1.7


def test_objectives_that_a_gate_reads(plain: Receipt) -> None:
    inputs = forge.usable_inputs(plain)
    share = gate_by_bucket("any", "ttft", "share", "gte", 0.9, within=2.0, within_source="objectives.ttft",
                           limit_source="objectives.attainment")  # fmt: skip
    assert {*inputs.rows} & objectives_read(share, inputs) == {"objectives.ttft", "objectives.attainment"}
    envelope = multiple("goodput", "transfer_envelope_share", 0.5)
    assert {*inputs.rows} & objectives_read(envelope, inputs) == {
        "objectives.ttft",
        "objectives.tpot",
        "objectives.ttft_growth",
    }
    assert {*inputs.rows} & objectives_read(multiple("ttft_worst", "tpot_worst", 20), inputs) == set()


@pytest.mark.parametrize(
    ("pattern", "possible"),
    [
        ("network.effective_bandwidth", True),
        ("service.*", True),
        ("requests.trace", True),
        ("*", True),
        ("*.prefill.*_ceiling", True),
        ("objectives.buckets.777.ttft", True),
        ("objectives.buckets.77*.e2e", True),
        ("objectives.*0.tpot", True),
        ("model.cache", True),
        ("network.bandwidth", False),
        ("service", False),
        ("service.*.overheads", False),
        ("objectives.buckets.0512.ttft", False),
        ("objectives.buckets.512.stall", False),
        ("*trace*trace*", False),
    ],
)
def test_patterns_that_some_cohort_could_have(pattern: str, possible: bool, plain: Receipt) -> None:
    assert could_match(pattern, forge.usable_inputs(plain)) is possible


BY_BUCKET = gate_by_bucket("any", "ttft", "worst", "lte", 1.0)
SHARE = gate_by_bucket("any", "ttft", "share", "gte", 0.9, within=2.0, within_source="objectives.ttft")
METRIC = {**multiple("ttft_worst", "tpot_worst", 20), "unit": "s"}
ON_DECISION: Receipt = {**RULE, "id": "any", "kind": "Provenance", "scope": "decision", "metric": "evidence_age",
                        "unit": "days", "topologies": [], "bound": None, "op": "lte", "limit": 30,
                        "limit_source": "declared"}  # fmt: skip
CRITICAL = ON_DECISION | {"kind": "Capacity", "metric": "critical_pools", "unit": "count", "limit": 0}
E2E = gate_by_bucket("any", "ttft", "share", "gte", 0.9, within_source="objectives.e2e", applies=False)


@pytest.mark.parametrize(
    "gate",
    [
        BY_BUCKET,
        SHARE,
        METRIC,
        ON_DECISION,
        E2E,
        BY_BUCKET | {"buckets": ["longest", MIDDLE]},
        BY_BUCKET | {"buckets": ["[1,9)"], "cohorts": ["another"], "applies": False},
        BY_BUCKET
        | {"message": "{scenario} {topology} {gate} {metric} {bound} {figure} {limit} {margin} {owner} {{x}}"},
        BY_BUCKET | {"cohorts": ["another", "handmade"]},
        BY_BUCKET | {"limit": None, "limit_source": "objectives.e2e", "applies": False},
        ON_DECISION | {"metric": "unobserved_inputs", "unit": "count", "op": "lt", "inputs": ["service.*"]},
        ON_DECISION | {"metric": "unobserved_share", "unit": "ratio", "limit": 0.5},
        CRITICAL,
        CRITICAL | {"op": "lt", "limit": 2, "cohorts": ["another"], "applies": False},
    ],
)
def test_what_may_be_declared(gate: Receipt, plain: Receipt) -> None:
    assert faults(plain, gate) == []


@pytest.mark.parametrize(
    ("gate", "pattern"),
    [
        (BY_BUCKET | {"id": "stall"}, r"^rules\.gates$"),
        (BY_BUCKET | {"scope": "decision"}, r"\.scope$"),
        (BY_BUCKET | {"kind": "Provenance"}, r"\.scope$"),
        (BY_BUCKET | {"metric": "evidence_age"}, r"\.metric$"),
        (ON_DECISION | {"metric": "ttft_worst"}, r"\.metric$"),
        (BY_BUCKET | {"unit": "ratio"}, r"\.unit$"),
        (SHARE | {"unit": "s"}, r"\.unit$"),
        (ON_DECISION | {"unit": "count"}, r"\.unit$"),
        (BY_BUCKET | {"severity": "warn"}, r"\.blocking$"),
        (BY_BUCKET | {"message": "{scenarios} is slow"}, r"\.message$"),
        (BY_BUCKET | {"message": "{figure:.2f} s"}, r"\.message\[0\]$|\.message$"),
        (BY_BUCKET | {"aggregate": None}, r"\.aggregate$"),
        (BY_BUCKET | {"metric": "ttft_worst"}, r"\.aggregate$"),
        (METRIC | {"buckets": [LONG]}, r"\.buckets$"),
        (BY_BUCKET | {"buckets": ["[1,9)"]}, r"\.buckets\[0\]$"),
        (BY_BUCKET | {"buckets": ["shortest", "all"]}, r"\.buckets\[1\]$"),
        (BY_BUCKET | {"bound": None}, r"\.bound$"),
        (BY_BUCKET | {"inputs": ["service.*"]}, r"\.inputs$"),
        (BY_BUCKET | {"within": 1.0, "within_source": "declared"}, r"\.within_source$"),
        (BY_BUCKET | {"within": 1.0}, r"\.within$"),
        (SHARE | {"within_source": None, "within": None}, r"\.within_source$"),
        (SHARE | {"within_source": "declared", "within": None}, r"\.within$"),
        (SHARE | {"within": 1.9}, r"\.within$"),
        (SHARE | {"within_source": "objectives.attainment", "within": 0.9}, r"\.within_source$"),
        (SHARE | {"limit": 1.5}, r"\.limit$"),
        (SHARE | {"limit_source": "objectives.ttft", "limit": 2.0}, r"\.limit_source$"),
        (E2E | {"applies": True}, r"\.applies$"),
        (E2E | {"within": 30.0}, r"\.within$"),
        (SHARE | {"limit": None}, r"\.limit$"),
        (METRIC | {"limit": 1.0}, r"\.limit$"),
        (METRIC | {"limit_times": None}, r"\.limit_times$"),
        (BY_BUCKET | {"limit_times": 2}, r"\.limit_times$"),
        (METRIC | {"limit_source": "metrics.goodput"}, r"\.limit_source$"),
        (METRIC | {"limit_source": "metrics.ttft"}, r"\.limit_source$"),
        (METRIC | {"limit_source": "metrics.ttft_worst"}, r"\.limit_source$"),
        (METRIC | {"limit_source": "metrics.transfer_worst"}, r"\.topologies$"),
        (BY_BUCKET | {"metric": "transfer"}, r"\.topologies$"),
        (BY_BUCKET | {"topologies": []}, r"\.topologies$"),
        (BY_BUCKET | {"topologies": ["chunked", "chunked"]}, r"\.topologies$"),
        (BY_BUCKET | {"cohorts": ["another"]}, r"\.applies$"),
        (BY_BUCKET | {"applies": False}, r"\.applies$"),
        (BY_BUCKET | {"limit_source": "objectives.tftt", "limit": None, "applies": False}, r"\.limit_source$"),
        (ON_DECISION | {"topologies": ["chunked"]}, r"\.topologies$"),
        (ON_DECISION | {"bound": "nominal"}, r"\.bound$"),
        (ON_DECISION | {"op": "gte"}, r"\.op$"),
        (ON_DECISION | {"limit": None}, r"\.limit$"),
        (ON_DECISION | {"limit_source": "objectives.ttft", "limit": 2.0}, r"\.limit_source$"),
        (ON_DECISION | {"metric": "unobserved_inputs", "unit": "count", "limit": 1.5}, r"\.limit$"),
        (ON_DECISION | {"inputs": ["service.*", "networks.*"]}, r"\.inputs\[1\]$"),
        (ON_DECISION | {"cohorts": ["another"]}, r"\.applies$"),
        (ON_DECISION | {"kind": "Capacity"}, r"\.(scope|metric)$"),
        (CRITICAL | {"kind": "Provenance"}, r"\.metric$"),
        (CRITICAL | {"kind": "Goodput"}, r"\.scope$"),
        (CRITICAL | {"scope": "scenario", "topologies": ["chunked"], "bound": "nominal"}, r"\.scope$"),
        (CRITICAL | {"scope": "scenario", "topologies": ["chunked"], "bound": "nominal"}, r"\.metric$"),
        (CRITICAL | {"inputs": ["service.*"]}, r"\.inputs$"),
        (CRITICAL | {"unit": "ratio"}, r"\.unit$"),
        (CRITICAL | {"op": "gte"}, r"\.op$"),
        (CRITICAL | {"limit": 0.5}, r"\.limit$"),
        (CRITICAL | {"limit": None, "limit_source": "baselines.chunked", "limit_times": 1}, r"\.limit_source$"),
        (CRITICAL | {"cohorts": ["another"]}, r"\.applies$"),
    ],
)
def test_what_may_not_be_declared(gate: Receipt, pattern: str, plain: Receipt) -> None:
    named(faults(plain, gate), pattern)


def faults(receipt: Receipt, gate: Receipt) -> list[str]:
    """What the verifier has against one gate more."""
    ledger, rules = Ledger(), receipt["rules"]
    amended = {**receipt, "rules": {**rules, "gates": [*rules["gates"], gate]}}
    check_gates(ledger, amended, forge.usable_inputs(receipt))
    return [item.where for item in ledger.disagreements]


def test_a_gate_on_the_decision_examines_no_topology(plain: Receipt) -> None:
    ledger = Ledger()
    check_gates(ledger, {**plain, "rules": {**plain["rules"], "gates": [ON_DECISION]}}, forge.usable_inputs(plain))
    assert [item.where for item in ledger.disagreements] == ["rules.gates"] * 3
