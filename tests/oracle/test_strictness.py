"""What free text, names and rules of a receipt may not be."""

import copy
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle.declared import check_gates
from pipelines.oracle.findings import Ledger
from pipelines.oracle.inputs import check_inputs
from pipelines.oracle.structure import check_structure
from tests.oracle.forging import Receipt, input_row, load, usable_inputs
from tests.oracle.ruled import ruled


@pytest.fixture(scope="module")
def rules() -> Receipt:
    return ruled()


@pytest.fixture
def receipt(rules: Receipt) -> Receipt:
    return copy.deepcopy(rules)


def malformed(receipt: Receipt) -> list[str]:
    ledger = Ledger()
    check_structure(ledger, receipt)
    return [item.where for item in ledger.disagreements]


def misdeclared(receipt: Receipt) -> list[str]:
    ledger = Ledger()
    check_gates(ledger, receipt, usable_inputs(receipt))
    return [item.where for item in ledger.disagreements]


def gate(receipt: Receipt, name: str) -> Receipt:
    found: Receipt = next(row for row in receipt["rules"]["gates"] if row["id"] == name)
    return found


@pytest.mark.parametrize(
    "value", ["rules/latency.yaml", "latency", "latency.json", ".yaml", "a\n.yaml", "a\x00.yml", ""]
)
@pytest.mark.parametrize("member", ["file", "overrides"])
def test_a_file_is_one_of_a_rules_directory(member: str, value: str, receipt: Receipt) -> None:
    gate(receipt, "stall")[member] = value
    receipt["rules"]["decision"][member] = value
    assert malformed(receipt) == [f"rules.gates[stall].{member}", f"rules.decision.{member}"]
    gate(receipt, "stall")[member] = receipt["rules"]["decision"][member] = "our own.yml"
    assert malformed(receipt) == []


@pytest.mark.parametrize("value", ["0", "latest", "1.2.", "v1.2.3", "1.2.3-final", "1.2.3\n"])
def test_the_product_has_a_version(value: str, receipt: Receipt) -> None:
    receipt["versions"]["product"] = value
    assert malformed(receipt) == ["versions.product"]


@pytest.mark.parametrize("value", ["0.1.0", "1.2", "10.0.3rc1", "1.0.0.post2.dev3", "1.2.3+local.7"])
def test_what_a_version_may_be(value: str, receipt: Receipt) -> None:
    receipt["versions"]["product"] = value
    assert malformed(receipt) == []


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\r"])
def test_no_text_has_control_characters(character: str, receipt: Receipt) -> None:
    receipt["cohort"]["title"] += character
    receipt["inputs"][0]["note"] = character
    receipt["workload"]["warnings"] = [f"a{character}b"]
    gate(receipt, "stall")["message"] = f"stalls{character}"
    expected = ["cohort.title", "inputs[requests.rate].note", "rules.gates[stall].message", "workload.warnings[0]"]
    assert sorted(malformed(receipt)) == expected


def test_names_are_on_one_line_but_prose_may_be_longer(receipt: Receipt) -> None:
    receipt["cohort"]["title"] = "chat\nand documents"
    gate(receipt, "stall").update(owner="us\nall", rationale="because\n\tof this")
    assert sorted(malformed(receipt)) == ["cohort.title", "rules.gates[stall].owner"]


@pytest.mark.parametrize(
    ("name", "member", "values"),
    [
        ("how_many", "inputs", ["service.*", "service.*"]),
        ("how_many", "inputs", ["Service.*"]),
        ("how_many", "inputs", []),
        ("transfer_short", "buckets", ["shortest", "shortest"]),
        ("transfer_short", "buckets", ["[512, 4096)"]),
        ("transfer_short", "cohorts", ["handmade", "handmade"]),
        ("transfer_short", "cohorts", ["hand made"]),
    ],
)
def test_a_list_of_a_rule_has_each_word_once(name: str, member: str, values: list[str], receipt: Receipt) -> None:
    gate(receipt, name)[member] = values
    assert all(place.startswith(f"rules.gates[{name}].{member}") for place in malformed(receipt))
    assert malformed(receipt)


def test_a_gate_that_does_not_apply_has_its_limit_all_the_same(receipt: Receipt) -> None:
    """Its cohorts are others, or the objective that it is within is not declared: the limit is what it is."""
    assert misdeclared(receipt) == []
    elsewhere = gate(receipt, "elsewhere")
    elsewhere.update(limit_source="objectives.stall", limit=None)
    assert misdeclared(receipt) == ["rules.gates[elsewhere].limit"]
    elsewhere["limit"] = input_row(receipt, "objectives.stall")["value"]
    assert misdeclared(receipt) == []
    within = {"within_source": "objectives.e2e", "within": None, "applies": False}
    gate(receipt, "e2e_share").update(within, limit=None)
    assert misdeclared(receipt) == ["rules.gates[e2e_share].limit"]
    gate(receipt, "e2e_share")["limit"] = 0.9
    assert misdeclared(receipt) == []


@pytest.mark.parametrize("path", ["objectives.ttft", "inventory.gpus", "model.layers", "inventory.gpus_per_worker"])
@pytest.mark.parametrize("end", ["low", "high"])
def test_what_has_no_range_has_no_ends(path: str, end: str, receipt_directories: dict[str, Path]) -> None:
    receipt: Any = load(receipt_directories["overloaded"])
    row = input_row(receipt, path)
    row[end] = row["value"]
    ledger = Ledger()
    check_inputs(ledger, receipt["inputs"])
    assert [item.where for item in ledger.disagreements] == [f"inputs[{path}].{end}"]
