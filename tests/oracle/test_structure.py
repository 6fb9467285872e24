"""A receipt has exactly its members, types and enumerations; the published schema says the same."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pipelines.oracle.findings import Ledger
from pipelines.oracle.structure import check_structure
from tests.oracle.forging import Receipt, load

Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def receipt(receipt_directories: dict[str, Path]) -> Receipt:
    return load(receipt_directories["moderate-chat"])


@pytest.fixture(scope="module")
def schema(project: Path) -> jsonschema.Draft202012Validator:
    text = (project / "schemas" / "topology-receipt.v1.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    return jsonschema.Draft202012Validator(json.loads(text))


def faults(receipt: Any) -> list[str]:
    ledger = Ledger()
    usable = check_structure(ledger, receipt)
    assert usable == (not ledger.disagreements)
    return [item.where for item in ledger.disagreements]


def one_of_each(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in the receipt, but of each list only the first item."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, item in items:
        yield from one_of_each(item, (*at, key))


def changed(receipt: Receipt, at: Place, value: Any) -> Receipt:
    """A copy of the receipt with another value at one place; shares what does not lie on the way."""
    if not at:
        return value  # type: ignore[no-any-return]
    result: Any = copy.copy(receipt)
    result[at[0]] = changed(result[at[0]], at[1:], value)
    return result  # type: ignore[no-any-return]


def test_real_receipts_have_the_structure(
    receipt_directories: dict[str, Path], schema: jsonschema.Draft202012Validator
) -> None:
    for directory in receipt_directories.values():
        assert faults(load(directory)) == []
        schema.validate(load(directory))


def test_every_member_is_required_and_no_other_is_allowed(
    receipt: Receipt, schema: jsonschema.Draft202012Validator
) -> None:
    objects = [at for at in one_of_each(receipt) if isinstance(_at(receipt, at), dict)]
    assert len(objects) > 20
    for at in objects:
        whole = _at(receipt, at)
        for name in whole:
            lacking = changed(receipt, at, {key: value for key, value in whole.items() if key != name})
            assert faults(lacking), f"{at} without {name}"
            assert not schema.is_valid(lacking), f"schema: {at} without {name}"
        assert any(where.endswith("surplus") for where in faults(changed(receipt, at, {**whole, "surplus": 1})))
        assert not schema.is_valid(changed(receipt, at, {**whole, "surplus": 1})), f"schema: {at} with a surplus member"


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "", "text", [], {}, [None]], ids=repr)
def test_a_value_of_another_type_is_a_fault_for_both(
    value: Any, receipt: Receipt, schema: jsonschema.Draft202012Validator
) -> None:
    for at in one_of_each(receipt):
        if type(value) is type(_at(receipt, at)) and type(value) not in (list, dict):
            continue  # a matter of what the value means, not of its type
        forged = changed(receipt, at, value)
        if not faults(forged):
            # null where it may be, or text for a number that an input may also be
            assert schema.is_valid(forged) or _means_something_else(at), f"{at}: only the schema objects to {value!r}"


def _means_something_else(at: Place) -> bool:
    """Whether the schema also says what must hold between neighbours, which the verifier checks later."""
    return at[0] in ("scenarios", "inputs", "decision", "rules", "transfer", "topologies", "workload", "kv", "changes")


def _at(value: Any, at: Place) -> Any:
    for key in at:
        value = value[key]
    return value


@pytest.mark.parametrize("receipt_like", [None, 1, "receipt", [], [{}]], ids=repr)
def test_what_is_no_object_is_no_receipt(receipt_like: Any) -> None:
    assert faults(receipt_like) == [""]


def test_faults_are_named_by_their_place(receipt: Receipt) -> None:
    forged = copy.deepcopy(receipt)
    forged["scenarios"][1]["bounds"]["nominal"]["lanes"][0]["ttft_s"] = "0.3"
    forged["rules"]["gates"][0]["op"] = "=<"
    del forged["kv"]["formula"]
    name, gate = forged["scenarios"][1]["scenario"], forged["rules"]["gates"][0]["id"]
    bucket = forged["scenarios"][1]["bounds"]["nominal"]["lanes"][0]["bucket"]
    assert sorted(faults(forged)) == sorted(
        [f"scenarios[{name}].bounds.nominal.lanes[{bucket}].ttft_s", f"rules.gates[{gate}].op", "kv.formula"]
    )
