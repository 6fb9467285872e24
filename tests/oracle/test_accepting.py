"""Gates on the decision, the age of evidence, exceptions, and whether a decision is accepted: worked by hand (docs/rules.md)."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.oracle.accepting import Evidence, critical_pools, judge_decision, matches, objections_to
from pipelines.oracle.excepting import check_exceptions, day_of, standing_of, waived_of
from pipelines.oracle.findings import Ledger
from pipelines.oracle.judging import Grounds
from pipelines.oracle.objectives import Objectives
from tests.oracle.filling import Receipt
from tests.oracle.handmade import exception, gate_by_bucket, gate_on_decision
from tests.oracle.rejection import named

NO_GROUNDS = Grounds(Objectives({}), {})


@pytest.mark.parametrize(
    ("source", "as_of", "days"),
    [
        ("2026-11-30", "2026-11-30", 0),
        # across the end of a month of 30 days, of two months, and of a year
        ("2026-09-30", "2026-10-01", 1),
        ("2026-08-31", "2026-11-30", 91),  # 30 + 31 + 30
        ("2025-12-31", "2026-01-01", 1),
        # 2028 is a leap year, 2027 and 2100 are not
        ("2028-02-28", "2028-03-01", 2),
        ("2027-02-28", "2027-03-01", 1),
        ("2100-02-28", "2100-03-01", 1),
        ("2028-02-29", "2029-02-28", 365),
        ("2027-03-01", "2028-03-01", 366),
        # later than the plan
        # yet to come
        ("2026-12-02", "2026-11-30", None),
        ("2026-12-02, planned on 2026-11-01", "2026-11-30", None),
        # the first date that there is
        ("of 2026-11-20, again on 2026-01-01", "2026-11-30", 10),
        ("2027-02-29 2026-11-31 2026-00-10 2026-11-28", "2026-11-30", 2),
        ("logs/2026-11-29T10:00:00Z.jsonl", "2026-11-30", 1),
        ("2026-13-2026-11-29", "2026-11-30", 1),
        ("in 2026", "2026-11-30", None),
        ("29.11.2026", "2026-11-30", None),
        ("20261129", "2026-11-30", None),
        ("2026-1-5", "2026-11-30", None),
        ("0000-01-01", "2026-11-30", None),
        ("", "2026-11-30", None),
        (None, "2026-11-30", None),
        ("2026-11-30", None, None),
    ],
)
def test_the_age_of_an_input(source: str | None, as_of: str | None, days: int | None) -> None:
    assert Evidence("service.admission", "observed", source).age_days(as_of) == days


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("service.admission", "service.admission", True),
        ("service.admission", "service.admissions", False),
        ("service.*", "service.prefill.overhead", True),
        ("service.*", "xservice.prefill", False),
        ("service.*", "service.", True),
        ("*", "requests.trace", True),
        ("*.tpot", "objectives.buckets.512.tpot", True),
        ("*.tpot", "objectives.tpot_worst", False),
        ("objectives.*.t*t", "objectives.buckets.512.ttft", True),
        ("a*a", "a", False),
        ("a**b", "ab", True),
        ("*b*a*", "ab", False),
        ("*a*b*", "xaxbx", True),
        ("service.?dmission", "service.admission", False),
        ("service", "service.admission", False),
        ("", "service", False),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


def test_a_pattern_of_many_stars_is_quick() -> None:
    assert not matches("*a" * 5000 + "*b", "a" * 4000)


EVIDENCE = [
    Evidence("service.admission", "observed", "2026-11-01"),
    Evidence("service.prefill.overhead", "observed", "2026-08-31"),
    Evidence("service.decode.step_overhead", "observed", "2026-08-31, 2020-01-01"),
    Evidence("service.prefill.tokens_per_second", "supplied", None),
    Evidence("network.effective_bandwidth", "observed", "iperf"),
    Evidence("objectives.ttft", "supplied", "2001-01-01"),
    Evidence("requests.trace", "observed", "2026-12-24"),
]
UNOBSERVED = ["service.prefill.tokens_per_second", "objectives.ttft"]


@pytest.mark.parametrize(
    ("metric", "op", "limit", "inputs", "expected", "paths"),
    [
        ("unobserved_inputs", "lte", 2, None, (2, "pass", 0.0), UNOBSERVED),
        ("unobserved_inputs", "lt", 2, None, (2, "fail", 0.0), UNOBSERVED),
        ("unobserved_inputs", "lte", 0, ["network.*", "requests.trace"], (0, "pass", None), []),
        # 2 of 7, 1 of 4, none of none
        ("unobserved_share", "lte", 0.5, None, (0.2857142857, "pass", 0.4285714286), UNOBSERVED),
        ("unobserved_share", "lte", 0.2, ["service.*"], (0.25, "fail", -0.25), UNOBSERVED[:1]),
        ("unobserved_share", "lt", 0.5, ["separated.*"], (0, "pass", 1.0), []),
        # both are of the last of August; the second date of a source does not count, nor does what is supplied
        ("evidence_age", "lte", 91, ["service.*"], (91, "pass", 0.0),
         ["service.prefill.overhead", "service.decode.step_overhead"]),
        ("evidence_age", "lt", 91, ["service.*"], (91, "fail", 0.0),
         ["service.prefill.overhead", "service.decode.step_overhead"]),
        ("evidence_age", "lte", 30, ["service.admission", "objectives.*"], (29, "pass", 0.03333333333),
         ["service.admission"]),
        ("evidence_age", "lte", 30, ["objectives.*"], (0, "pass", 1.0), []),
        ("evidence_age", "lte", 30, ["requests.trace"], (None, "refused", None), ["requests.trace"]),
        ("evidence_age", "lte", 1000, None, (None, "refused", None), ["network.effective_bandwidth", "requests.trace"]),
    ],
)  # fmt: skip
def test_verdicts_on_a_decision(
    metric: str, op: str, limit: float, inputs: list[str] | None, expected: tuple[Any, ...], paths: list[str]
) -> None:
    gate = gate_on_decision("any", metric, op, limit, inputs=inputs)
    [found] = judge_decision([gate], EVIDENCE, "2026-11-30", NO_GROUNDS, None)
    assert (found.judged.figure, found.judged.verdict, found.judged.margin) == expected
    assert found.inputs[0] == paths


@pytest.mark.parametrize(
    ("op", "limit", "critical", "expected"),
    [
        ("lte", 1, 1, (1, "pass", 0.0)),
        ("lt", 1, 1, (1, "fail", 0.0)),
        ("lte", 1, 2, (2, "fail", -1.0)),
        ("lte", 2, 0, (0, "pass", 1.0)),
        ("lte", 0, 0, (0, "pass", None)),
        ("lte", 0, 3, (3, "fail", None)),
        ("lte", 3, None, (None, "refused", None)),
    ],
)
def test_pools_that_need_every_worker(op: str, limit: float, critical: int | None, expected: tuple[Any, ...]) -> None:
    gate = gate_on_decision("spare", "critical_pools", op, limit)
    [found] = judge_decision([gate], EVIDENCE, None, NO_GROUNDS, critical)
    assert (found.judged.figure, found.judged.verdict, found.judged.margin) == expected
    assert found.inputs == ([],)


def test_pools_of_the_chosen_topology_count() -> None:
    speaking = [
        {"topology": name, "one_worker_less": [{"pool": "mixed", "passes": passes} for passes in pools]}
        for name, pools in (("chunked", [False]), ("routed", [True, False, False]), ("disaggregated", [True, True]))
    ]
    receipt = {"changes": {"speaking": speaking}}
    assert [critical_pools(receipt, name) for name in ("chunked", "routed", "disaggregated")] == [1, 2, 0]
    assert critical_pools(receipt, None) is None


def test_a_decision_with_no_topology_has_no_pools() -> None:
    """The gate is refused and blocks, and both are said, unless it is waived."""
    gate = gate_on_decision("spare", "critical_pools", "lte", 9)
    verdicts = judge_decision([gate], EVIDENCE, None, NO_GROUNDS, None)
    expected = [("no_topology", None), ("verdict", "spare")]
    assert objections_to(receipt_with([]), "no_topology_qualifies", verdicts) == expected
    waived = Grounds(Objectives({}), {}, frozenset({("spare", "decision")}))
    verdicts = judge_decision([gate], EVIDENCE, None, waived, None)
    assert objections_to(receipt_with([]), "no_topology_qualifies", verdicts) == expected[:1]


def test_inputs_of_the_future_have_no_age() -> None:
    evidence = [Evidence("a", "observed", "2026-12-02"), Evidence("b", "observed", "2026-11-01")]
    [found] = judge_decision(
        [gate_on_decision("any", "evidence_age", "lte", 90)], evidence, "2026-11-30", NO_GROUNDS, None
    )
    assert (found.judged.figure, found.judged.verdict, found.inputs) == (None, "refused", (["a"],))


def test_gates_on_scenarios_and_of_other_cohorts_are_left_out() -> None:
    gates = [
        gate_by_bucket("any", "ttft", "worst", "lte", 1.0),
        gate_on_decision("elsewhere", "unobserved_inputs", "lte", 0, cohorts=["another"], applies=False),
        gate_on_decision("here", "unobserved_inputs", "lte", 0),
    ]
    waived = Grounds(Objectives({}), {}, frozenset({("here", "decision")}))
    [found] = judge_decision(gates, EVIDENCE, "2026-11-30", waived, None)
    assert (found.judged.gate["id"], found.judged.verdict, found.judged.waived, found.judged.blocks) == (
        "here",
        "fail",
        True,
        False,
    )


@pytest.mark.parametrize(
    ("expires", "cohorts", "standing"),
    [
        ("2026-11-30", None, "holds"),  # the last day
        ("2026-11-29", None, "expired"),
        ("2026-12-01", ["handmade"], "holds"),
        ("2026-11-29", ["handmade", "another"], "expired"),
        ("2020-01-01", ["another"], "other_cohort"),
        ("2030-01-01", ["another"], "other_cohort"),
    ],
)
def test_where_an_exception_stands(expires: str, cohorts: list[str] | None, standing: str) -> None:
    rule = exception("any", ["chunked"], expires, cohorts=cohorts)
    assert standing_of(rule, "handmade", "2026-11-30") == standing
    receipt = receipt_with([rule])
    assert waived_of(receipt) == (frozenset({("any", "chunked")}) if standing == "holds" else frozenset())


OF_ANOTHER = gate_on_decision("old", "evidence_age", "lte", 90, cohorts=["another"], applies=False)


def receipt_with(
    exceptions: list[Receipt], as_of: str | None = "2026-11-30", gates: tuple[Receipt, ...] = ()
) -> Receipt:
    ttft = gate_by_bucket("any", "ttft", "worst", "lte", 1.0)
    age = gate_on_decision("age", "unobserved_inputs", "lte", 90)
    return {"cohort": {"name": "handmade"}, "as_of": as_of,
            "rules": {"gates": [ttft, age, *gates], "exceptions": exceptions}}  # fmt: skip


@pytest.mark.parametrize(
    "receipt",
    [
        receipt_with([], None),
        receipt_with([exception("any", ["chunked"], "2026-12-31")]),
        receipt_with([exception("age", [], "2026-12-31")]),
        receipt_with([exception("any", ["chunked"], "2026-11-01", standing="expired")]),
        receipt_with([exception("any", ["chunked"], "2026-11-01", cohorts=["b"], standing="other_cohort")], None),
        receipt_with([], gates=(gate_on_decision("old", "evidence_age", "lte", 90),)),
        receipt_with([], None, gates=(OF_ANOTHER,)),
    ],
)
def test_exceptions_that_may_be(receipt: Receipt) -> None:
    assert faults(receipt) == []


@pytest.mark.parametrize(
    ("receipt", "pattern"),
    [
        (receipt_with([]), r"^as_of$"),
        (receipt_with([], gates=(OF_ANOTHER,)), r"^as_of$"),
        (receipt_with([], None, gates=(gate_on_decision("old", "evidence_age", "lte", 90),)), r"^as_of$"),
        (receipt_with([exception("any", ["chunked"], "2026-12-31")], None), r"^as_of$"),
        (receipt_with([exception("any", ["chunked"], "2026-12-31")], "2026-02-30"), r"^as_of$"),
        (
            receipt_with([exception("any", ["chunked"], "2026-12-31", cohorts=["b"], standing="other_cohort")]),
            "^as_of$",
        ),
        (receipt_with([exception("any", ["chunked"], "2026-12-32")]), r"\[0\]\.expires$"),
        (receipt_with([exception("any", ["chunked"], "2026-11-29")]), r"\[0\]\.standing$"),
        (receipt_with([exception("any", ["chunked"], "2026-12-31", standing="expired")]), r"\[0\]\.standing$"),
        (receipt_with([exception("any", ["chunked"], "2026-12-31", cohorts=["b"])]), r"\[0\]\.standing$"),
        (receipt_with([exception("none", ["chunked"], "2026-12-31")]), r"\[0\]\.gate$"),
        (receipt_with([exception("any", ["routed"], "2026-12-31")]), r"\[0\]\.topologies$"),
        (receipt_with([exception("any", [], "2026-12-31")]), r"\[0\]\.topologies$"),
        (receipt_with([exception("any", ["chunked"] * 2, "2026-12-31")]), r"\[0\]\.topologies$"),
        (receipt_with([exception("age", ["chunked"], "2026-12-31")]), r"\[0\]\.topologies$"),
        (
            receipt_with(
                [exception("soft", ["chunked"], "2026-12-31")],
                gates=(gate_by_bucket("soft", "ttft", "worst", "lte", 1.0, blocking=False),),
            ),
            r"\[0\]\.gate$",
        ),
    ],
)
def test_exceptions_that_may_not_be(receipt: Receipt, pattern: str) -> None:
    named(faults(receipt), pattern)


def faults(receipt: Receipt) -> list[str]:
    ledger = Ledger()
    check_exceptions(ledger, receipt)
    return [item.where for item in ledger.disagreements]


def test_objections_stand_in_order() -> None:
    gates = [
        gate_on_decision("first", "unobserved_inputs", "lte", 0),
        gate_on_decision("second", "unobserved_inputs", "lte", 0, blocking=False, severity="warn"),
        gate_on_decision("third", "evidence_age", "lte", 0),
        gate_on_decision("fourth", "unobserved_inputs", "lte", 100),
    ]
    verdicts = judge_decision(gates, EVIDENCE, "2026-11-30", NO_GROUNDS, None)
    exceptions = [
        exception("b", ["chunked"], "2026-11-29"),
        exception("c", ["chunked"], "2026-11-30"),
        exception("a", ["chunked"], "2026-11-28"),
        exception("d", ["chunked"], "2026-11-28", cohorts=["another"]),
    ]
    receipt = receipt_with(exceptions)
    expected = [("verdict", "first"), ("verdict", "third"), ("exception", "b"), ("exception", "a")]
    assert objections_to(receipt, "topology_chosen", verdicts) == expected
    assert objections_to(receipt, "no_topology_qualifies", verdicts) == [("no_topology", None), *expected]
    assert objections_to(receipt_with([]), "topology_chosen", verdicts[3:]) == []


@pytest.mark.parametrize(
    "text", ["2026-02-29", "2026-04-31", "2026-11-30 ", "26-11-30", "2026-W48-1", "２026-11-30", ""]
)
def test_what_is_no_day(text: str) -> None:
    assert day_of(text) is None
