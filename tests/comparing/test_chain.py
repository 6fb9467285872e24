"""The chain of plans between two receipts: which change is decisive, and that moves add up to the whole difference."""

from decimal import Decimal
from functools import lru_cache
from typing import Any

import pytest

from tests.comparing.told import FEWER_GPUS, LONGER_STALL, Json, difference, told

SLOWER_GATEWAY = ("admission: {value: 2 ms", "admission: {value: 3 ms")
LAXER_TPOT = ("tpot: 40 ms", "tpot: 41 ms")
FASTER_PREFILL = ("tokens_per_second: {value: 11800, low: 10400", "tokens_per_second: {value: 12600, low: 10400")
LESS_OVERHEAD = ("overhead: {value: 8 ms, high: 12 ms", "overhead: {value: 1 ms, high: 12 ms")
A_LITTLE_STALL = ("stall: 400 ms", "stall: 425 ms")
BOUNDS = ("nominal", "conservative")
FIGURES = ("ttft_worst_s", "tpot_worst_s", "stall_s", "goodput")


@lru_cache(maxsize=1)
def of_three_changes() -> Json:
    """aggregated/n4 stalls for 440 ms; with a faster prefill 410, with less overhead 423, with both 393; 400 are promised, then 425."""
    return difference(told(), told(FASTER_PREFILL, LESS_OVERHEAD, A_LITTLE_STALL))


def verdict_on(step: Json) -> tuple[str, bool | None, bool | None]:
    return step["name"], step["sufficient"], step["necessary"]


def figures_of(receipt: Json, scenario: str, bound: str) -> dict[str, Any]:
    row = next(row for row in receipt["scenarios"] if row["scenario"] == scenario)
    return {name: row["bounds"][bound][name] for name in ("status", *FIGURES)}


def test_one_of_three_changes_is_decisive() -> None:
    """Only the longer stall lets aggregated/n4 pass; a millisecond at the gateway and a laxer TPOT turn nothing."""
    found = difference(told(), told(SLOWER_GATEWAY, LAXER_TPOT, LONGER_STALL))
    assert (found["same_decision"], found["decisive"]) == (False, ["objectives.stall"])
    assert list(map(verdict_on, found["steps"])) == [
        ("service.admission", False, False),
        ("objectives.tpot", False, False),
        ("objectives.stall", True, True),
    ]
    assert [step["decision"]["scenario"] for step in found["steps"]] == [
        "chunked/n2/c2048",
        "chunked/n2/c2048",
        "aggregated/n4",
    ]


def test_two_changes_are_decisive_only_together() -> None:
    """On three GPUs there is no aggregated/n4; on four it stalls for longer than 400 ms. Each is needed, neither is enough."""
    found = difference(told(FEWER_GPUS), told(LONGER_STALL))
    assert list(map(verdict_on, found["steps"])) == [
        ("inventory.gpus", False, True),
        ("objectives.stall", False, True),
    ]
    assert found["decisive"] == ["inventory.gpus", "objectives.stall"]


def test_any_two_of_three_changes_decide_and_none_is_decisive() -> None:
    found = of_three_changes()
    assert [verdict_on(step)[1:] for step in found["steps"]] == [(False, False)] * 3
    assert (found["same_decision"], found["decisive"]) == (False, [])
    after = [step["decision"]["scenario"] for step in found["steps"]]
    assert after == ["chunked/n2/c2048", "aggregated/n4", "aggregated/n4"]


def test_nothing_is_decisive_where_the_decision_is_the_same() -> None:
    found = difference(told(), told(SLOWER_GATEWAY, LAXER_TPOT))
    assert (found["same_decision"], found["decisive"]) == (True, [])
    assert [verdict_on(step)[1:] for step in found["steps"]] == [(None, False)] * 2


def test_two_changes_that_cancel_each_other_are_seen() -> None:
    """Four GPUs and a long stall make aggregated/n4; taking the GPU away as well leaves the old decision, which hangs on that."""
    found = difference(told(), told(FEWER_GPUS, LONGER_STALL))
    assert found["same_decision"]
    assert list(map(verdict_on, found["steps"])) == [("inventory.gpus", None, True), ("objectives.stall", None, False)]
    assert found["steps"][1]["old_with_it_alone"]["decision"]["scenario"] == "aggregated/n4"


def test_moves_add_up_to_the_whole_difference_exactly() -> None:
    found = of_three_changes()
    for place, of in enumerate(found["scenarios"]):
        for bound in BOUNDS:
            for name in FIGURES:
                moves = [step["figures"][place]["moved"][bound][name] for step in found["steps"]]
                ends = [of["figures"][end][bound][name] for end in ("before", "after")]
                assert sum(Decimal(repr(move)) for move in moves) == Decimal(repr(ends[1])) - Decimal(repr(ends[0]))
    assert any(move for step in found["steps"] for move in step["figures"][0]["moved"]["nominal"].values())


def test_a_step_has_the_figures_of_a_receipt_with_these_changes_alone() -> None:
    found, between = of_three_changes(), told(FASTER_PREFILL)
    assert found["steps"][0]["name"] == "service.prefill.tokens_per_second"
    assert [of["scenario"] for of in found["steps"][0]["figures"]] == ["chunked/n2/c2048", "aggregated/n4"]
    for of in found["steps"][0]["figures"]:
        for bound in BOUNDS:
            assert of["after"][bound] == figures_of(between, of["scenario"], bound)
        row = next(row for row in between["scenarios"] if row["scenario"] == of["scenario"])
        assert of["after"]["margin"] == min(one["margin"] for one in row["verdicts"])


def test_backwards_every_move_is_the_opposite() -> None:
    old, new = told(), told(FASTER_PREFILL)
    there, back = (difference(*pair)["scenarios"][0]["figures"]["moved"] for pair in ((old, new), (new, old)))
    for bound in BOUNDS:
        for name in FIGURES:
            assert back[bound][name] == -there[bound][name]
    assert there["nominal"]["ttft_worst_s"] < 0


def test_what_only_changes_whose_figure_it_is_moves_nothing_and_can_decide() -> None:
    """A gate that admits no unobserved decode rate does not accept the decision until it is observed."""
    own = """\
apiVersion: phaseledger/v1
kind: Provenance
metadata: {name: own, owner: team}
gates:
  - {id: measured, metric: unobserved_inputs, where: {input: [service.decode.tokens_per_second]}, op: lte, limit: 0, severity: error,
     blocking: true}
"""
    observed = (
        "{value: 4000, low: 3600, provenance: supplied}",
        "{value: 4000, low: 3600, provenance: observed, source: bench}",
    )
    found = difference(told(own=own), told(observed, own=own))
    (step,) = found["steps"]
    assert (step["name"], step["inputs"][0]["members"]) == (
        "service.decode.tokens_per_second",
        ["provenance", "source"],
    )
    assert set(step["figures"][0]["moved"]["nominal"].values()) == {0.0}
    assert found["decisive"] == ["service.decode.tokens_per_second"]
    assert [found[name]["decision"]["accepted"] for name in ("old", "new")] == [False, True]


def test_identical_receipts_have_no_steps() -> None:
    found = difference(told(), told())
    assert (found["nothing_differs"], found["same_decision"], found["steps"]) == (True, True, [])


@pytest.mark.parametrize("edit", [("ttft: 800 ms", "ttft: 100 ms")])
def test_for_a_receipt_that_chooses_nothing_the_nearest_miss_of_the_others_topology_stands(
    edit: tuple[str, str],
) -> None:
    """No prompt of 3,051 tokens starts within 100 ms: nothing qualifies, and chunked, which the other chooses, has a nearest miss."""
    new = told(edit)
    found = difference(told(), new)
    assert new["decision"]["scenario"] is None
    missed = next(row for row in new["rejected"] if row["topology"] == "chunked")
    stands = [(of["scenario"], of["old"], of["new"]) for of in found["scenarios"]]
    assert stands == [("chunked/n2/c2048", "chosen", None), (missed["scenario"], None, "nearest_miss")]
    assert found["steps"][0]["figures"][0]["moved"]["nominal"]["ttft_worst_s"] is None  # refused by the floor
