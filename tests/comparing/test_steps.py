"""What is one step of the chain, and in which order."""

from pathlib import Path

import pytest

from pipelines.comparing.chain import chain
from pipelines.comparing.differences import differences, table_order
from pipelines.comparing.mixes import Sides
from pipelines.comparing.planner import Planner
from pipelines.comparing.steps import steps
from pipelines.receipts.reopened import reopened
from tests.comparing.told import LONGER_STALL, Edit, Json, asked, difference, told

ONE_POOL = (
    ("  disaggregated: {}\n", ""),
    ("  ttft_growth: 60 ms\n", ""),
    (
        """network:
  links: {value: 2, provenance: supplied}
  line_rate: {value: 200 Gbit/s, provenance: supplied}
  effective_bandwidth: {value: 18 GB/s, low: 12 GB/s, provenance: supplied}
  peak_bandwidth: {value: 25 GB/s, provenance: supplied}
  registration: {value: 1 ms, high: 2 ms, provenance: supplied}
  synchronization: {value: 1 ms, provenance: supplied}
  receiver_visibility: {value: 1 ms, provenance: supplied}
  utilization_ceiling: {value: 0.7, provenance: supplied}
""",
        "",
    ),
)
MEMORY = "kv_memory_per_worker: {value: 40 GiB, low: 36 GiB, provenance: supplied}"
BY_TOKENS = (MEMORY, "kv_tokens_per_worker: {value: 300000, provenance: supplied}")
SHAPE = "  layers: 32\n  kv_heads: 8\n  head_dim: 128\n"
BY_LAYERS = (
    SHAPE,
    "  cache: [{kind: full, layers: 16, kv_heads: 8, head_dim: 128},\n"
    "          {kind: window, layers: 16, kv_heads: 8, head_dim: 128, window_tokens: 256}]\n",
)
BY_KIND = ("  layout_factor:", "  kv_allocation: by_kind\n  layout_factor:")
RATES = (
    "    tokens_per_second: {value: 11800, low: 10400, provenance: observed, source: prefill benchmark, note: 4k prompts}\n"
    "    overhead: {value: 8 ms, high: 12 ms, provenance: supplied}\n"
)
CURVE = (RATES, "    curve: {file: p.csv, provenance: observed, source: sweep}\n")
POINTS = {"p.csv": "tokens,ms\n100,17\n1000,95\n4000,360\n"}
SEPARATED = (
    "inventory:\n",
    "separated:\n  prefill:\n    gpus_per_worker: {value: 2, provenance: supplied}\n"
    "    tokens_per_second: {value: 20000, provenance: supplied}\n    overhead: {value: 8 ms, provenance: supplied}\n"
    "    kv_memory_per_worker: {value: 90 GiB, provenance: supplied}\ninventory:\n",
)
EDGES = "  bucket_edges_tokens: [512, 2048]\n"
RATE = (EDGES, EDGES + "  arrivals: {rate: {value: 6/s, high: 7/s, provenance: supplied}}\n")
CLOSED = (EDGES, EDGES + "  arrivals: {concurrency: {value: 8, provenance: supplied}}\n")
OTHER_EDGES = (EDGES, "  bucket_edges_tokens: [1024]\n")
HITS = (
    "    utilization_ceiling: {value: 0.8",
    "    prefix_hit_ratio: {value: 0.3, provenance: supplied}\n    utilization_ceiling: {value: 0.8",
)
ROUTED = ("  disaggregated: {}\n", "  disaggregated: {}\n  routed: {threshold_tokens: [2048]}\n")
FARTHER = ("  disaggregated: {}\n", "  disaggregated: {}\n  routed: {threshold_tokens: [700]}\n")
OWN = """\
apiVersion: phaseledger/v1
kind: LatencyObjective
metadata: {name: own, owner: team}
gates:
  - {id: stall, overrides: latency.yaml, metric: stall, bound: nominal, op: lte, limit: 500 ms, severity: error, blocking: true}
"""
AGED = """\
apiVersion: phaseledger/v1
kind: Provenance
metadata: {name: own, owner: team}
gates:
  - {id: old_evidence, metric: evidence_age, op: lte, limit: 30 days, severity: warn, blocking: false}
"""


def names(old: Json, new: Json) -> list[str]:
    sides = reopened(old), reopened(new)
    return [step.name for step in steps(differences(old, new, sides[0].rules, sides[1].rules), old, new)]


def parts(old: Json, new: Json) -> list[list[str]]:
    sides = reopened(old), reopened(new)
    return [list(step.parts) for step in steps(differences(old, new, sides[0].rules, sides[1].rules), old, new)]


def test_inputs_come_in_the_order_of_their_table_then_the_requests_then_the_rules() -> None:
    edits: list[Edit] = [
        ("ttft: 800 ms", "ttft: 700 ms"),
        OTHER_EDGES,
        ("gpus: 4", "gpus: 5"),
        ("{value: 256, low: 192", "{value: 200, low: 192"),
    ]
    assert names(asked(), told(*edits, own=OWN)) == [
        "service.decode.max_sequences",
        "inventory.gpus",
        "objectives.ttft",
        "bucket edges",
        "rules",
    ]


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (ONE_POOL, ["network with topologies.compared"]),
        ([BY_TOKENS], ["inventory"]),
        ([BY_LAYERS], ["model"]),
        ([CURVE], ["service"]),
        ([CURVE, SEPARATED], ["service with separated"]),
        ([SEPARATED], ["separated"]),
        ([RATE], ["requests with arrivals"]),
        ([CLOSED], ["requests with arrivals"]),
        ([OTHER_EDGES], ["bucket edges"]),
        ([HITS], ["service.prefill.prefix_hit_ratio"]),
        ([ROUTED], ["topologies.compared"]),
        ([FARTHER], ["bucket edges with topologies.compared and 1 more input"]),
        ([LONGER_STALL], ["objectives.stall"]),
        ([("note: written by hand", "note: by hand")], ["requests"]),
    ],
)
def test_what_cannot_be_changed_alone_is_one_step(edits: list[Edit], expected: list[str]) -> None:
    """In either direction."""
    old, new = asked(), asked(*edits, files=POINTS)
    assert names(old, new) == names(new, old) == expected


@pytest.mark.parametrize("edits", [ONE_POOL, [CURVE, SEPARATED], [BY_LAYERS], [CLOSED], [FARTHER]])
def test_every_mix_on_the_way_can_be_planned(edits: list[Edit]) -> None:
    old, new = asked(*edits, files=POINTS), asked()
    sides = Sides(reopened(old), reopened(new))
    listed = steps(differences(old, new, sides.old.rules, sides.new.rules), old, new)
    walked = chain(Planner(sides), listed, lambda done, total: None)
    assert [link.step for link in walked.links] == listed
    assert walked.new.decided["scenario"] == "chunked/n2/c2048"


def test_thresholds_that_are_no_edge_of_the_others_buckets_go_with_the_buckets() -> None:
    assert parts(asked(ROUTED), asked(FARTHER)) == [["topologies.routed.threshold_tokens", "requests"]]


def test_a_step_that_cannot_be_planned_is_joined_with_the_next_one_and_says_why() -> None:
    """Tokens that an engine logs are of layers that all get the full length; the memory is changed after the allocation."""
    found = difference(told(BY_LAYERS, BY_TOKENS), told(BY_LAYERS, BY_KIND))
    (step,) = found["steps"]
    assert step["name"] == "model.kv_allocation joined with inventory"
    assert step["joined"] == [
        "model.kv_allocation alone cannot be planned: inventory.kv_tokens_per_worker gives every layer the full length, "
        "and model.kv_allocation does not"
    ]


def test_a_step_that_cannot_be_planned_alone_says_so() -> None:
    """Two GPUs a worker need two GPUs for each pool: three GPUs are too few for disaggregated, and the inventory comes first."""
    larger = ("gpus_per_worker: 1", "gpus_per_worker: 2")
    found = difference(told(("gpus: 4", "gpus: 3")), told(larger))
    by_name = {step["name"]: step for step in found["steps"]}
    alone = by_name["inventory.gpus_per_worker"]["old_with_it_alone"]
    assert alone == {"decision": None, "why_not": "no scenario of disaggregated: none fits the inventory"}
    assert by_name["inventory.gpus_per_worker"]["sufficient"] is None


def test_hits_that_requests_state_and_a_declared_hit_ratio_are_one_step(tmp_path: Path) -> None:
    log = "arrival,in,hit,out\n" + "".join(f"{at},{600 + 40 * at},{10 * at},50\n" for at in range(12))
    columns = "{arrival: arrival, unit: s, prompt_tokens: in, output_tokens: out, cached_prompt_tokens: hit}"
    stated = (
        "    file: requests.csv\n    format: azure-llm\n",
        f"    file: log.csv\n    format: generic\n    columns: {columns}\n",
    )
    old, new = told(HITS), told(stated, files={"log.csv": log})
    assert parts(old, new) == [["service.prefill.prefix_hit_ratio", "requests"]]
    assert difference(old, new)["steps"][0]["decision"]["scenario"] == new["decision"]["scenario"]


def test_rules_that_override_a_gate() -> None:
    """An objective that is the limit of the gate before stays an input; the gate is what changes."""
    found = difference(told(), told(own=OWN))
    (step,) = found["steps"]
    changes = {one["member"]: (one["old"], one["new"]) for one in step["rules"][0]["members"]}
    assert step["rules"][0]["name"] == "stall"
    assert changes["limit"] == ("objectives.stall", 0.5)
    assert changes["overrides"] == (None, "latency.yaml")
    assert found["decisive"] == ["rules"]
    stall = next(row for row in found["verdicts"]["gates"] if row["gate"] == "stall")
    assert (stall["old"]["fail"], stall["new"]["fail"], stall["changed"]) == (4, 3, 1)
    assert found["verdicts"]["changed"] == [
        {"scenario": "aggregated/n4", "gate": "stall"}
        | {"old": {"verdict": "fail", "waived": False}, "new": {"verdict": "pass", "waived": False}}
    ]
    assert {row["topology"] for row in found["verdicts"]["rejected"]} == {"aggregated", "chunked", "disaggregated"}


def test_an_objective_that_changes_is_no_change_of_the_rules_that_have_it_as_a_limit() -> None:
    found = difference(told(), told(LONGER_STALL))
    assert [step["rules"] for step in found["steps"]] == [[]]
    assert found["verdicts"] is None  # another question


def test_only_the_date_differs() -> None:
    old, new = (told(own=AGED, as_of=day) for day in ("2026-11-30", "2026-12-01"))
    found = difference(old, new)
    assert found["same_question"]
    assert [(step["name"], step["rules"][0]["kind"]) for step in found["steps"]] == [("the date of the rules", "date")]
    assert step_date(found) == ("2026-11-30", "2026-12-01")


def step_date(found: Json) -> tuple[str, str]:
    (change,) = found["steps"][0]["rules"]
    return change["old"]["as_of"], change["new"]["as_of"]


def test_receipts_of_different_cohorts_are_compared_and_their_verdicts_are_not() -> None:
    found = difference(told(), told(("name: moderate-chat", "name: other-chat"), LONGER_STALL))
    assert (found["same_cohort"], found["same_question"], found["verdicts"]) == (False, False, None)
    assert [step["name"] for step in found["steps"]] == ["objectives.stall"]


def test_paths_of_one_receipt_stand_where_they_stood() -> None:
    assert table_order(["a", "b", "c"], ["x", "a", "c", "d"]) == ["x", "a", "b", "c", "d"]
    assert table_order(["old"], ["new"]) == ["old", "new"]
