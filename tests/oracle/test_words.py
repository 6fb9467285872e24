"""The words that a receipt always has are compared, and the place that differs is named."""

import copy
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle.findings import Ledger
from pipelines.oracle.structure import check_structure
from pipelines.oracle.verifying import check_content
from tests.oracle.forging import Receipt, load


@pytest.fixture(scope="module")
def honest(receipt_directories: dict[str, Path]) -> Receipt:
    return load(receipt_directories["overloaded"])


def places(receipt: Receipt) -> list[str]:
    ledger = Ledger()
    if check_structure(ledger, receipt):
        check_content(ledger, receipt, None)
    return [item.where for item in ledger.disagreements]


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("truth_boundary", "statement"), "Every latency is modeled; none was measured.", "truth_boundary.statement"),
        (("truth_boundary", "unmeasured", 1), "bursts", "truth_boundary.unmeasured[1]"),
        (("truth_boundary", "unmeasured"), ["bursts"], "truth_boundary.unmeasured"),
        (("kv", "formula"), "bytes of a sequence = tokens x bytes per token", "kv.formula"),
        (("transfer", "formula"), "transfer_s = bytes / bandwidth", "transfer.formula"),
        (("topologies", 2, "parts", "pools", 0), "prefills", "topologies[disaggregated].parts.pools[0]"),
        (("topologies", 0, "parts", "state_transfers"), ["kv"], "topologies[aggregated].parts.state_transfers"),
        (("topologies", 1, "parts", "queues"), ["partly_prefilled", "prompts"],
         "topologies[chunked].parts.queues[0] topologies[chunked].parts.queues[1]"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)  # fmt: skip
def test_other_words_are_named(honest: Receipt, path: tuple[Any, ...], value: Any, place: str) -> None:
    forged: Any = copy.deepcopy(honest)
    here = forged
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    assert places(forged) == place.split(" ")


def test_rules_that_are_changed_have_another_fingerprint(honest: Receipt) -> None:
    forged = copy.deepcopy(honest)
    forged["rules"]["gates"][0]["rationale"] = "because"
    assert places(forged) == ["rules.fingerprint"]
    forged["rules"]["fingerprint"] = "0" * 64
    assert places(forged) == ["rules.fingerprint"]
    del forged["rules"]["fingerprint"]
    assert places(forged) == ["rules.fingerprint"]
