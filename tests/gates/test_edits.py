"""Edits that a team makes in YAML alone, and what they change. Every receipt is verified by the independent verifier.

Under the shipped rules, bursty-documents chooses disaggregated/p2/d1 (3 GPUs, 11 parts; TTFT 1.867 s, stall 23 ms, headroom 55.9 %),
and misses aggregated and chunked by their stalls: 45 ms are promised, whole prompts take seconds, chunks of 512 tokens 96 ms.
"""

import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.frames.canonical import canonical_bytes
from pipelines.oracle import verify
from pipelines.receipts.build import build_receipt
from tests.plans import plan_of

Planned = dict[str, Any]
Plan = Callable[..., Planned]


@pytest.fixture
def rules(project: Path, tmp_path: Path) -> Path:
    """The shipped rules, to be edited."""
    return Path(shutil.copytree(project / "rules", tmp_path / "rules", ignore=shutil.ignore_patterns("tests")))


@pytest.fixture
def plan(project: Path, tmp_path: Path, rules: Path) -> Plan:
    """The verified receipt of bursty-documents under the edited rules and, with ``own``, rules of its own."""

    def planned(own: str | None = None, as_of: str = "2026-11-30", measured: str | None = None) -> Planned:
        cohort = Path(shutil.copytree(project / "cohorts" / "bursty-documents", tmp_path / "bursty-documents"))
        if own is not None:
            (cohort / "rules").mkdir()
            (cohort / "rules" / "own.yaml").write_text(own)
        if measured is not None:
            edit(cohort / "cohort.yaml", 'supplied, note: "one link, one direction"', f"observed, source: {measured}")
        receipt, matrix = build_receipt(plan_of(cohort, rules, date.fromisoformat(as_of)))
        (tmp_path / "matrix.csv").write_bytes(matrix)
        (tmp_path / "receipt.json").write_bytes(canonical_bytes(receipt))
        found = verify(tmp_path / "receipt.json", tmp_path / "matrix.csv")
        assert found.passed, found.disagreements[:3]
        return receipt

    return planned


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert text.count(before) == 1, before
    file.write_text(text.replace(before, after))


def document(kind: str, **content: Any) -> str:
    about = {"apiVersion": "phaseledger/v1", "kind": kind, "metadata": {"name": "own", "owner": "team"}}
    return yaml.safe_dump(about | content, sort_keys=False)


def gate(name: str, metric: str, op: str, limit: Any, **more: Any) -> dict[str, Any]:
    usual = {"bound": "nominal", "severity": "error", "blocking": True}
    return {"id": name, "metric": metric} | usual | {"op": op, "limit": limit} | more


def verdict(receipt: Planned, scenario: str, name: str) -> dict[str, Any]:
    own = next(row for row in receipt["scenarios"] if row["scenario"] == scenario)
    found: dict[str, Any] = next(row for row in own["verdicts"] if row["gate"] == name)
    return found


def test_as_shipped(plan: Plan) -> None:
    receipt = plan()
    assert receipt["decision"]["scenario"] == "disaggregated/p2/d1"
    assert (receipt["decision"]["accepted"], receipt["as_of"]) == (True, None)


def test_a_tighter_ttft_takes_a_larger_pool(rules: Path, plan: Plan) -> None:
    edit(rules / "latency.yaml", "limit: {objective: ttft}", "limit: 1.85 s")
    receipt = plan()
    assert verdict(receipt, "disaggregated/p2/d1", "ttft_worst")["verdict"] == "fail"
    assert receipt["decision"]["scenario"] != "disaggregated/p2/d1"


def test_a_gate_for_one_bucket(rules: Path, plan: Plan) -> None:
    short = gate("short_start", "ttft", "lte", "150 ms", aggregate="worst", where={"bucket": ["shortest"]})
    (rules / "short.yaml").write_text(document("LatencyObjective", gates=[short]))
    receipt = plan()
    for row in receipt["scenarios"]:
        lanes = row["bounds"]["nominal"]["lanes"]
        found = verdict(receipt, row["scenario"], "short_start")
        assert found["figure"] == (lanes[0]["ttft_s"] if lanes else None)
        assert found["verdict"] == ("refused" if not lanes else "pass" if lanes[0]["ttft_s"] <= 0.15 else "fail")


def test_a_bandwidth_that_must_have_been_measured(rules: Path, plan: Plan) -> None:
    only = {"input": ["network.effective_bandwidth"]}
    measured = {"id": "measured", "metric": "unobserved_inputs", "where": only, "op": "lte", "limit": 0}
    (rules / "measured.yaml").write_text(
        document("Provenance", gates=[measured | {"severity": "error", "blocking": True}])
    )
    decision = plan()["decision"]
    assert decision["scenario"] == "disaggregated/p2/d1"
    assert decision["verdicts"][0]["inputs"] == ["network.effective_bandwidth"]
    assert decision["verdicts"][0]["figure"] == 1.0
    assert decision["objections"] == [{"kind": "verdict", "gate": "measured"}]
    assert not decision["accepted"]


@pytest.mark.parametrize(("as_of", "holds"), [("2026-12-31", True), ("2027-01-01", False)])
def test_one_gate_waived_until_a_date(as_of: str, holds: bool, rules: Path, plan: Plan) -> None:
    waiver = {"gate": "stall", "where": {"topology": ["aggregated"]}, "reason": "batch jobs", "owner": "batch"}
    text = document("Exceptions", exceptions=[waiver | {"expires": "2026-12-31"}])
    (rules / "waived.yaml").write_text(text)
    receipt = plan(as_of=as_of)
    assert receipt["as_of"] == as_of
    assert verdict(receipt, "aggregated/n8", "stall")["waived"] is holds
    if holds:
        assert receipt["decision"]["topology"] == "aggregated"
        assert receipt["decision"]["accepted"]
    else:
        assert receipt["decision"]["scenario"] == "disaggregated/p2/d1"
        assert receipt["decision"]["objections"] == [{"kind": "exception", "gate": "stall"}]


def test_a_gate_that_only_informs(rules: Path, plan: Plan) -> None:
    text = (rules / "latency.yaml").read_text().split("  - id: stall")
    informs = text[1].replace("severity: error", "severity: warn", 1).replace("blocking: true", "blocking: false", 1)
    (rules / "latency.yaml").write_text("  - id: stall".join([text[0], informs]))
    receipt = plan()
    assert receipt["decision"]["topology"] == "aggregated"
    assert verdict(receipt, receipt["decision"]["scenario"], "stall")["verdict"] == "fail"


def test_goodput_at_the_bad_end_of_the_ranges(rules: Path, plan: Plan) -> None:
    edit(rules / "goodput.yaml", "bound: nominal", "bound: conservative")
    receipt = plan()
    chosen = next(row for row in receipt["scenarios"] if row["scenario"] == receipt["decision"]["scenario"])
    found = verdict(receipt, chosen["scenario"], "goodput")
    assert found["bound"] == "conservative"
    assert found["figure"] == chosen["bounds"]["conservative"]["goodput"]


def test_room_that_must_be_left(rules: Path, plan: Plan) -> None:
    room = gate("room", "headroom", "gte", "60 %")
    (rules / "room.yaml").write_text(document("Capacity", gates=[room]))
    receipt = plan()
    assert verdict(receipt, "disaggregated/p2/d1", "room")["verdict"] == "fail"
    chosen = next(row for row in receipt["scenarios"] if row["scenario"] == receipt["decision"]["scenario"])
    assert chosen["bounds"]["nominal"]["headroom"] >= 0.6


def test_a_stall_in_steps_instead_of_milliseconds(rules: Path, plan: Plan) -> None:
    edit(rules / "latency.yaml", "limit: {objective: stall}", "limit: {metric: tpot_worst, times: 8}")
    receipt = plan()
    for scenario in ("chunked/n8/c512", "disaggregated/p2/d1"):
        own = next(row for row in receipt["scenarios"] if row["scenario"] == scenario)["bounds"]["nominal"]
        found = verdict(receipt, scenario, "stall")
        assert found["limit"] == pytest.approx(8 * own["tpot_worst_s"], rel=1e-9)
        assert found["margin"] == pytest.approx(1 - own["stall_s"] / found["limit"], rel=1e-8)
    assert receipt["decision"]["topology"] == "chunked"  # 96 ms are fewer than eight steps of 12.9 ms


def test_most_requests_instead_of_the_worst_bucket(rules: Path, plan: Plan) -> None:
    """Two of four buckets start within a second: their requests are counted, not the buckets."""
    most = gate("most", "ttft", "gte", "50 %", aggregate="share", within="400 ms")
    (rules / "most.yaml").write_text(document("LatencyObjective", gates=[most]))
    receipt = plan()
    lanes = next(row for row in receipt["scenarios"] if row["scenario"] == "disaggregated/p2/d1")
    requests = {row["bucket"]: row["requests"] for row in receipt["workload"]["buckets"]}
    within = [row["bucket"] for row in lanes["bounds"]["nominal"]["lanes"] if row["ttft_s"] <= 0.4]
    share = sum(requests[bucket] for bucket in within) / requests["all"]
    assert 0 < len(within) < 4
    assert verdict(receipt, "disaggregated/p2/d1", "most")["figure"] == pytest.approx(share, rel=1e-9)


def test_gpus_before_parts(rules: Path, plan: Plan) -> None:
    edit(rules / "decision.yaml", "prefer: [operating_parts, gpus, margin]", "prefer: [gpus, operating_parts, margin]")
    assert plan()["rules"]["decision"]["prefer"] == ["gpus", "operating_parts", "margin"]


def test_transfers_that_count_more(rules: Path, plan: Plan) -> None:
    edit(rules / "decision.yaml", "state_transfers: 1", "state_transfers: 10")
    receipt = plan()
    chosen = next(row for row in receipt["scenarios"] if row["scenario"] == "disaggregated/p2/d1")
    assert chosen["operating_parts"] == 20  # 2 pools, 3 queues, 1 transfer, 5 failure edges


def test_a_cohort_has_another_limit(plan: Plan) -> None:
    mine = gate("stall", "stall", "lte", "100 ms", overrides="latency.yaml", message="{scenario} pauses for {figure}")
    added = gate("few", "gpus", "lte", 8, owner="finance")
    receipt = plan(own=document("LatencyObjective", gates=[mine, added]))
    gates = {row["id"]: row for row in receipt["rules"]["gates"]}
    assert (gates["stall"]["file"], gates["stall"]["overrides"], gates["stall"]["limit"]) == (
        "own.yaml",
        "latency.yaml",
        0.1,
    )
    assert list(gates)[-1] == "few"
    assert gates["few"]["owner"] == "finance"
    assert receipt["decision"]["scenario"] == "chunked/n6/c512"
    missed = next(row for row in receipt["rejected"] if row["topology"] == "aggregated")
    assert missed["reason"] == "aggregated/n8 pauses for 3.188 s"


def test_a_gate_for_other_cohorts_does_not_apply(rules: Path, plan: Plan) -> None:
    (rules / "few.yaml").write_text(
        document("Capacity", gates=[gate("few", "gpus", "lte", 1, where={"cohort": ["slow-link"]})])
    )
    receipt = plan()
    assert next(row["applies"] for row in receipt["rules"]["gates"] if row["id"] == "few") is False
    assert receipt["decision"]["scenario"] == "disaggregated/p2/d1"


@pytest.mark.parametrize(
    ("source", "age", "verdict"),
    [
        ("nixlbench of 2026-10-31", 30.0, "pass"),
        ("nixlbench of 2026-10-30", 31.0, "fail"),
        ("nixlbench", None, "refused"),
        ("nixlbench of 2026-12-01", None, "refused"),
    ],
)
def test_evidence_that_is_too_old(source: str, age: float | None, verdict: str, rules: Path, plan: Plan) -> None:
    fresh = {"id": "fresh", "metric": "evidence_age", "op": "lte", "limit": "30 days", "severity": "error"}
    (rules / "age.yaml").write_text(document("Provenance", gates=[fresh | {"blocking": True}]))
    receipt = plan(measured=source)
    found = receipt["decision"]["verdicts"][0]
    assert (found["figure"], found["verdict"], found["inputs"]) == (age, verdict, ["network.effective_bandwidth"])
    assert (receipt["as_of"], receipt["decision"]["accepted"]) == ("2026-11-30", verdict == "pass")


def test_parts_that_are_too_many_for_any_number_of_gpus(rules: Path, plan: Plan) -> None:
    (rules / "few.yaml").write_text(document("Capacity", gates=[gate("few_parts", "operating_parts", "lte", 3)]))
    receipt = plan()
    assert receipt["decision"]["outcome"] == "no_topology_qualifies"
    more = {row["topology"]: row["more_gpus"] for row in receipt["changes"]["speaking"]}
    assert more["chunked"] is None
    assert more["disaggregated"] is None


def test_what_moves_on_average(rules: Path, plan: Plan) -> None:
    """The weighted mean is of exported figures: lanes as the receipt shows them, added and rounded."""
    moves = gate(
        "moves", "transfer", "lte", "20 ms", aggregate="request_weighted", where={"topology": ["disaggregated"]}
    )
    (rules / "moves.yaml").write_text(document("TransferBudget", gates=[moves]))
    receipt = plan()
    requests = {row["bucket"]: row["requests"] for row in receipt["workload"]["buckets"]}
    row = next(row for row in receipt["scenarios"] if row["scenario"] == "disaggregated/p2/d1")
    lanes = row["bounds"]["nominal"]["lanes"]
    mean = (
        sum((one["transfer_wait_s"] + one["kv_movement_s"]) * requests[one["bucket"]] for one in lanes)
        / requests["all"]
    )
    assert verdict(receipt, row["scenario"], "moves")["figure"] == pytest.approx(mean, rel=1e-9)


def test_another_cohorts_exception_does_not_keep_a_cohort_from_an_override(rules: Path, plan: Plan) -> None:
    waiver = {"gate": "stall", "where": {"cohort": ["slow-link"]}, "reason": "batch", "owner": "batch"}
    (rules / "waived.yaml").write_text(document("Exceptions", exceptions=[waiver | {"expires": "2026-12-31"}]))
    informs = gate("stall", "stall", "lte", "1 s", overrides="latency.yaml") | {"severity": "warn", "blocking": False}
    receipt = plan(own=document("LatencyObjective", gates=[informs]))
    assert receipt["decision"]["topology"] == "aggregated"
    assert [row["standing"] for row in receipt["rules"]["exceptions"]] == ["other_cohort"]


def test_worth_the_second_pool(rules: Path, plan: Plan) -> None:
    worth = gate(
        "worth_it", "tpot_worst", "lte", {"baseline": "chunked", "times": 0.9}, where={"topology": ["disaggregated"]}
    )
    (rules / "worth.yaml").write_text(document("Capacity", gates=[worth]))
    receipt = plan()
    best = min(
        row["bounds"]["nominal"]["tpot_worst_s"]
        for row in receipt["scenarios"]
        if (row["topology"], row["gpus"]) == ("chunked", 3) and row["bounds"]["nominal"]["status"] == "evaluated"
    )
    found = verdict(receipt, "disaggregated/p2/d1", "worth_it")
    assert found["limit"] == pytest.approx(0.9 * best, rel=1e-9)
    assert found["verdict"] == ("pass" if found["figure"] <= found["limit"] else "fail")


def test_one_worker_may_be_lost(rules: Path, plan: Plan) -> None:
    spare = {"id": "spare", "metric": "critical_pools", "op": "lte", "limit": 0, "severity": "error", "blocking": True}
    (rules / "spare.yaml").write_text(document("Capacity", gates=[spare]))
    receipt = plan()
    chosen = next(row for row in receipt["changes"]["speaking"] if row["topology"] == "disaggregated")
    critical = sum(not row["passes"] for row in chosen["one_worker_less"])
    assert critical == 2
    assert receipt["decision"]["verdicts"][0]["figure"] == critical
    assert not receipt["decision"]["accepted"]
