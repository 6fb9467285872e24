"""What a receipt says of its replay is replayed again on the sample, and on all requests where they are given."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle import verify
from pipelines.oracle.findings import Ledger
from pipelines.oracle.structure import check_structure
from tests.oracle import forging as forge
from tests.oracle.forging import Receipt
from tests.oracle.handmade import gate, receipt_of
from tests.oracle.rejection import rejected_at
from tests.oracle.replaying_again import LOGS, log_key


@lru_cache(maxsize=4)
def _made(stack: str, cached: bool, kind: str) -> Receipt:
    return receipt_of(kind, cached=cached, stack=stack)


def made(stack: str = "plain", cached: bool = False, kind: str = "open") -> Receipt:
    return copy.deepcopy(_made(stack, cached, kind))


def places(directory: Path, receipt: Receipt, *, given: bool = False) -> list[str]:
    """Where the verifier disagrees about the replay, with the requests or without."""
    path = forge.write(directory, receipt, forge.attach(receipt, forge.matrix_rows(receipt)))
    rows = LOGS[log_key(receipt["workload"])] if given else None
    found = [item.where for item in verify(path, requests=rows).disagreements]
    return [where for where in found if where != "workload.requests_sha256"]


@pytest.mark.parametrize("given", [False, True], ids=["alone", "with requests"])
@pytest.mark.parametrize("stack", ["plain", "routed", "latent"])
def test_a_replay_of_its_requests_agrees(stack: str, given: bool, tmp_path: Path) -> None:
    assert places(tmp_path, made(stack), given=given) == []


def test_hits_of_the_log_are_replayed(tmp_path: Path) -> None:
    receipt = made(cached=True)
    assert places(tmp_path, receipt, given=True) == []
    assert any(cached for _, _, cached, _ in receipt["replay"]["sample"]["requests"])


def leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Places of the numbers of a section, each with what holds it and its key there."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        own = f"{where}[{item['pool']}]" if isinstance(value, list) else f"{where}.{key}"
        if isinstance(item, dict | list):
            yield from leaves(item, own)
        elif isinstance(item, int | float):
            yield own, value, key


def nudge(holder: Any, key: Any) -> None:
    """Change a number by one, or by a few units of its last digit."""
    value = holder[key]
    holder[key] = value + 1 if isinstance(value, int) or value == 0 else forge.digits(value * (1 + 3e-9))


@pytest.mark.parametrize("given", [False, True], ids=["alone", "with requests"])
def test_every_number_is_compared(given: bool, tmp_path: Path) -> None:
    """Of the sample from the receipt alone; of all requests where they are given."""
    receipt = made()
    nudged = set()
    for row in receipt["replay"]["scenarios"]:
        for of in ("sample", "figures", "whole") if given else ("sample",):
            for where, holder, key in list(leaves(row[of], f"replay.scenarios[{row['scenario']}/{row['bound']}].{of}")):
                nudge(holder, key)
                nudged.add(where)
    assert len(nudged) > (370 if given else 150)
    assert nudged - set(places(tmp_path, receipt, given=given)) == set()


def test_figures_follow_from_counts_without_the_requests(tmp_path: Path) -> None:
    receipt = made()
    row = receipt["replay"]["scenarios"][0]
    where = f"replay.scenarios[{row['scenario']}/nominal].figures"
    nudged = [*leaves(row["figures"], where)]
    for _, holder, key in nudged:
        nudge(holder, key)
    assert {place for place, *_ in nudged} - set(places(tmp_path, receipt)) == set()


def test_another_sample_is_noticed(tmp_path: Path) -> None:
    shifted = made()
    shifted["replay"]["sample"]["first"] -= 1
    assert places(tmp_path, shifted, given=True) == ["replay.sample.first"]
    longer = made()
    longer["replay"]["sample"]["requests"][7][3] += 1
    assert any(".sample." in where for where in places(tmp_path, longer))


def test_the_clock_follows_from_the_duration(tmp_path: Path) -> None:
    receipt = made()
    receipt["replay"]["ticks_per_second"]["nominal"] //= 10
    assert places(tmp_path, receipt) == ["replay.ticks_per_second.nominal"]


def test_what_is_replayed_is_complete_and_in_order(tmp_path: Path) -> None:
    receipt = made()
    del receipt["replay"]["scenarios"][-1]
    assert places(tmp_path, receipt) == ["replay.scenarios"]
    receipt = made()
    receipt["replay"]["scenarios"][:2] = receipt["replay"]["scenarios"][1::-1]
    assert places(tmp_path, receipt) == ["replay.scenarios[0]", "replay.scenarios[1]"]


def test_a_scenario_that_is_said_not_to_fit(tmp_path: Path) -> None:
    receipt = made()
    row = receipt["replay"]["scenarios"][0]
    row |= {"reason": "kv_memory", "figures": None, "whole": None, "sample": None, "worst_minute": None}
    assert any(where.endswith(".reason") for where in places(tmp_path, receipt))


@pytest.mark.parametrize(("kind", "reason"), [("closed", "closed_loop"), ("rate", "no_arrivals")])
def test_without_arrivals_there_is_no_replay(kind: str, reason: str, tmp_path: Path) -> None:
    receipt = made(kind=kind)
    assert receipt["replay"]["reason"] == reason
    assert places(tmp_path, receipt) == []
    other = made(kind=kind)
    other["replay"]["reason"] = "closed_loop" if kind == "rate" else None
    assert "replay.reason" in places(tmp_path, other)


def test_a_receipt_has_a_replay() -> None:
    receipt = made()
    for change in (
        {"which": "some"},
        {"window_s": 30},
        {"note": "none"},
        {"sample": {"first": 0, "requests": [[0, 1]]}},
    ):
        assert not check_structure(Ledger(), receipt | {"replay": receipt["replay"] | change})
    del receipt["replay"]
    assert not check_structure(Ledger(), receipt)


def ruled(receipt: Receipt, **changes: Any) -> None:
    """A gate on a replayed figure beside the others."""
    own = gate("replayed", "replayed_goodput", "ratio", "gte", "attainment", ["aggregated", "chunked", "disaggregated"])
    receipt["rules"]["gates"].append(own | changes)


def test_a_gate_on_a_replayed_figure_is_judged_like_any_other(tmp_path: Path) -> None:
    receipt = receipt_of(amend=ruled)
    assert receipt["replay"]["which"] == "all"
    assert len(receipt["replay"]["scenarios"]) == 2 * len(receipt["scenarios"])
    assert places(tmp_path, receipt) == []
    figures = {(row["scenario"], row["bound"]): row["figures"] for row in receipt["replay"]["scenarios"]}
    for row in receipt["scenarios"]:
        verdict = next(verdict for verdict in row["verdicts"] if verdict["gate"] == "replayed")
        own = figures[row["scenario"], verdict["bound"]]
        assert verdict["figure"] == (own and own["replayed_goodput"])
        assert (verdict["verdict"] == "refused") == (own is None)
    plain = made()
    assert receipt["changes"]["speaking"][0]["sensitivity"] == plain["changes"]["speaking"][0]["sensitivity"]
    receipt["replay"]["which"] = "finalists"
    rejected_at(forge.verified(tmp_path, receipt), r"^replay\.which$")


def swapping(receipt: Receipt) -> None:
    """Little memory, which is moved to the host at 20 GB/s, or 10."""
    forge.input_row(receipt, "inventory.kv_memory_per_worker").update(value=1.5e9, conservative=1.5e9)
    place = [row["path"] for row in receipt["inputs"]].index("service.dispatch") + 1
    plain = {"low": None, "high": None, "provenance": "supplied", "source": None, "note": None}
    receipt["inputs"][place:place] = [
        plain | {"path": "service.when_memory_is_full", "unit": "text", "value": "swap", "conservative": "swap"},
        plain | {"path": "service.swap_bandwidth", "unit": "B/s", "value": 2e10, "low": 1e10, "conservative": 1e10},
    ]


def test_memory_that_is_full_is_swapped(tmp_path: Path) -> None:
    receipt = receipt_of(amend=swapping)
    assert places(tmp_path, receipt, given=True) == []
    assert any(row["whole"]["swapped_bytes"] for row in receipt["replay"]["scenarios"] if row["whole"])
    assert "service.swap_bandwidth" not in [entry["path"] for entry in receipt["decision"]["rests_on"]]
    without = copy.deepcopy(receipt)
    without["inputs"] = [row for row in receipt["inputs"] if row["path"] != "service.swap_bandwidth"]
    assert "inputs[service.swap_bandwidth]" in places(tmp_path, without)
    other = copy.deepcopy(receipt)
    other["replay"]["when_memory_is_full"] = "wait"
    assert places(tmp_path, other) == ["replay.when_memory_is_full"]


def test_no_limit_is_a_multiple_of_a_replayed_figure(tmp_path: Path) -> None:
    receipt = made()
    stall = next(own for own in receipt["rules"]["gates"] if own["id"] == "stall")
    stall |= {"limit": None, "limit_source": "metrics.replayed_stall", "limit_times": 2}
    forge.rejudge(receipt)
    rejected_at(forge.verified(tmp_path, receipt), r"gates\[stall\]\.limit_source")
