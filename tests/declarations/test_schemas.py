"""The schemas serve an editor, and agree with the checks in code."""

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from pipelines.declarations.bundled import bundled
from pipelines.declarations.known_formats import TRACE_FORMATS
from pipelines.declarations.quantities import OBJECTIVE_UNITS, QUANTITIES
from pipelines.declarations.schema import validator
from pipelines.declarations.service_curve import SERVICE_CURVES
from pipelines.declarations.typed import RULE_KINDS, TOPOLOGIES, ColumnMap, RequestClass
from pipelines.declarations.units import BANDWIDTHS, REQUEST_RATES, SIZES, TIMES
from pipelines.frames.metrics import BY_BUCKET, OF_DECISIONS, OF_SCENARIOS
from pipelines.frames.requests import GROUP_FIELDS, MAX_TOKENS

SCHEMAS = ("cohort.v1", "rules.v1")
FILES = {
    "model.config": "model.cache",
    "network.transfer_curve.file": "network.transfer_curve",
    **{f"{curve}.file": curve for curve in SERVICE_CURVES},
}
"""Files, by the input that is read from them."""


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((bundled("schemas") / f"{name}.schema.json").read_text(encoding="utf-8"))
    return loaded


def mappings(node: object) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from mappings(value)
    if isinstance(node, list):
        for value in node:
            yield from mappings(value)


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_editor_can_explain_every_property_and_refuse_every_other(name: str) -> None:
    for node in mappings(schema(name)):
        if node.get("additionalProperties") is False:
            for key, declared in node["properties"].items():
                assert declared.get("description"), key
        elif node.get("type") == "object" and "properties" in node:
            assert name == "rules.v1", "only a rules document leaves its keys to the branch of its kind"
            assert set(node["properties"]) == {"apiVersion", "kind"}
        assert "oneOf" not in node


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_names_itself(name: str) -> None:
    kind, version = name.split(".")
    assert schema(name)["$id"] == f"urn:phaseledger:schema:{kind}:{version}"
    assert schema(name)["title"]
    Draft202012Validator.check_schema(schema(name))


def test_the_cohort_schema_declares_the_registered_inputs_in_their_order() -> None:
    declared: list[str] = []

    def walk(node: dict[str, Any], path: str) -> None:
        for key, value in node.get("properties", {}).items():
            below = f"{path}.{key}".lstrip(".")
            if "properties" in value:
                walk(value, below)
            elif key not in ("provenance", "source", "note", "name"):
                declared.append(below)

    walk(schema("cohort.v1")["properties"]["requests"]["properties"]["arrivals"], "requests.arrivals")
    for part in ("model", "service", "separated", "inventory", "network", "objectives"):
        walk(schema("cohort.v1")["properties"][part], part)
    assert set(FILES) <= set(declared)
    read = list(dict.fromkeys(FILES.get(place, place) for place in declared))
    assert read == [quantity.place for quantity in QUANTITIES if quantity.form != "knob"]


def test_the_cohort_schema_knows_the_trace_formats_the_columns_and_the_most_tokens() -> None:
    requests = schema("cohort.v1")["properties"]["requests"]["properties"]
    assert requests["trace"]["properties"]["format"]["enum"] == list(TRACE_FORMATS)
    assert list(requests["trace"]["properties"]["columns"]["properties"]) == [
        column.name for column in fields(ColumnMap)
    ]
    assert list(requests["slice"]["properties"]["where"]["properties"]) == list(GROUP_FIELDS)
    assert list(requests["classes"]["items"]["properties"]) == [count.name for count in fields(RequestClass)]
    limits = {
        node["maximum"] for node in mappings(requests) if node.get("$comment", "").startswith("whole tokens, from")
    }
    assert limits == {MAX_TOKENS}


def test_the_rules_schema_knows_the_metrics_objectives_kinds_and_topologies() -> None:
    rules = schema("rules.v1")
    gate = rules["$defs"]["gate"]["properties"]
    assert gate["metric"]["examples"] == [*OF_SCENARIOS, *BY_BUCKET]
    assert rules["$defs"]["decisionGate"]["properties"]["metric"]["examples"] == list(OF_DECISIONS)
    where = rules["$defs"]["whereScenario"]["properties"]
    assert where["topology"]["items"]["enum"] == list(TOPOLOGIES)
    assert rules["$defs"]["objectiveLimit"]["properties"]["objective"]["enum"] == list(OBJECTIVE_UNITS)
    assert tuple(rules["properties"]["kind"]["enum"]) == RULE_KINDS


def test_every_unit_that_is_read_is_one_that_an_editor_accepts() -> None:
    defs = schema("cohort.v1")["$defs"]
    dimensions = (("time", TIMES), ("size", SIZES), ("bandwidth", BANDWIDTHS), ("requestRate", REQUEST_RATES))
    for name, units in dimensions:
        check = Draft202012Validator(defs[name])
        for unit in units:
            for written in (f"8 {unit}", f"0.5{unit}", f"1e3 {unit}", f".5 {unit}"):
                assert check.is_valid(written), written
        assert not check.is_valid("8")
        assert not check.is_valid("8 parsec")


def test_the_shipped_rules_hold_against_their_schema() -> None:
    for file in sorted(bundled("rules").glob("*.yaml")):
        first, *_ = file.read_text(encoding="utf-8").splitlines()
        assert first == "# yaml-language-server: $schema=../schemas/rules.v1.schema.json"
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            validator("rules.v1").validate(document)
