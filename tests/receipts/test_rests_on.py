"""What the decision of a receipt rests on, counted by hand."""

from collections.abc import Callable

from tests.planning.test_reliance import CHUNKS, FLOORS, MODEL, ONE_POOL, PREFILL, TWO_POOLS
from tests.receipts.conftest import Built

OWN = {"aggregated": ONE_POOL, "chunked": CHUNKS}


def test_of_one_pool(good: Built) -> None:
    """The inputs of one pool, four objectives, the trace; the model's shape and the prefill rate are observed."""
    decision = good.receipt["decision"]
    own = OWN[decision["topology"]]
    objectives = [*FLOORS, "objectives.stall", "objectives.attainment"]
    budgets = ["topologies.chunked.chunk_tokens"] if decision["topology"] == "chunked" else []
    assert [row["path"] for row in decision["rests_on"]] == [*own, *objectives, *budgets, "requests.trace"]
    observed = [row["path"] for row in decision["rests_on"] if row["provenance"] == "observed"]
    assert observed == [*MODEL[:4], PREFILL[1]]
    count = len(own) + 4 + len(budgets) + 1
    assert decision["unobserved_share"] == float(f"{(count - 5) / count:.9e}")


def test_with_no_choice_every_topology_counts(hopeless: Built) -> None:
    decision = hopeless.receipt["decision"]
    both = {*ONE_POOL, *CHUNKS, *TWO_POOLS}
    # five objectives, the chunk budgets, the trace
    assert len(decision["rests_on"]) == len(both) + 5 + 1 + 1
    assert decision["unobserved_share"] == float(f"{(len(both) + 2) / (len(both) + 7):.9e}")


def test_an_observed_trace_counts(good: Built, built_with: Callable[..., Built]) -> None:
    built = built_with(
        ("    provenance: supplied\n    note: written by hand", "    provenance: observed\n    source: gateway log")
    )
    before, after = good.receipt["decision"], built.receipt["decision"]
    count = len(after["rests_on"])
    assert after["rests_on"][-1] == {"path": "requests.trace", "provenance": "observed"}
    assert after["unobserved_share"] == float(f"{(count - 6) / count:.9e}")
    assert before["unobserved_share"] == float(f"{(count - 5) / count:.9e}")


def test_a_routed_decision_reads_both_paths(routed: Built) -> None:
    decision = routed.receipt["decision"]
    if decision["topology"] != "routed":
        names = {row["path"] for row in decision["rests_on"]}
        assert not {name for name in names if name.startswith(("network.", "topologies.routed"))}
    assert {"objectives.buckets.512.ttft", "objectives.buckets.512.e2e", "objectives.e2e"} <= {
        row["path"] for row in decision["rests_on"]
    }
