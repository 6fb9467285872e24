"""The parts of SARIF 2.1.0 that ``phaseledger gates`` writes, as a JSON Schema without anything else."""

from typing import Any

Json = dict[str, Any]


def _object(required: Json, **optional: Json) -> Json:
    return {
        "type": "object",
        "properties": required | optional,
        "required": list(required),
        "additionalProperties": False,
    }


def _list(items: Json, least: int = 0) -> Json:
    return {"type": "array", "items": items, "minItems": least}


_TEXT: Json = {"type": "string", "minLength": 1}
_COUNT: Json = {"type": "integer", "minimum": 0}
_LEVEL: Json = {"enum": ["none", "note", "warning", "error"]}
_BAG: Json = {"type": "object"}
# what is in braces is doubled, so that nothing is a placeholder; no link is left
_MESSAGE = _object({"text": _TEXT | {"pattern": r"^([^{}]|\{\{|\}\})*$", "not": {"pattern": r"(^|[^\\])\[[^\]]*\]\("}}})
_URI: Json = _TEXT | {"pattern": r"^(?![A-Za-z][A-Za-z0-9+.-]*:)(?!/)([A-Za-z0-9._~/!$&'()*+,;=@-]|%[0-9A-F]{2})+$"}
_PHYSICAL = _object(
    {"artifactLocation": _object({"uri": _URI})},
    region=_object({"startLine": {"type": "integer", "minimum": 1}}),
)
_LOCATION = _object({"physicalLocation": _PHYSICAL}, logicalLocations=_list(_object({"fullyQualifiedName": _TEXT}), 1))
_RULE = _object(
    {"id": _TEXT, "shortDescription": _MESSAGE, "fullDescription": _MESSAGE, "help": _MESSAGE},
    defaultConfiguration=_object({"level": _LEVEL}),
)
_SUPPRESSION = _object(
    {"kind": {"enum": ["inSource", "external"]}},
    status={"enum": ["accepted", "underReview", "rejected"]},
    justification=_TEXT,
    location=_LOCATION,
)
_RESULT = _object(
    {"ruleId": _TEXT, "ruleIndex": _COUNT, "level": _LEVEL, "message": _MESSAGE, "locations": _list(_LOCATION, 1)},
    partialFingerprints={"type": "object", "additionalProperties": _TEXT},
    suppressions=_list(_SUPPRESSION, 1),
    properties=_BAG,
)
_NOTIFICATION = _object(
    {"message": _MESSAGE},
    level=_LEVEL,
    associatedRule=_object({"id": _TEXT, "index": _COUNT}),
    locations=_list(_LOCATION),
)
_DRIVER = _object({"name": _TEXT, "version": _TEXT, "semanticVersion": _TEXT, "rules": _list(_RULE)})
_RUN = _object(
    {"tool": _object({"driver": _DRIVER}), "results": _list(_RESULT)},
    automationDetails=_object({"id": _TEXT}),
    invocations=_list(
        _object(
            {"executionSuccessful": {"type": "boolean"}},
            toolConfigurationNotifications=_list(_NOTIFICATION),
        )
    ),
    properties=_BAG,
)
SARIF = _object(
    {"version": {"const": "2.1.0"}, "runs": {"type": "array", "items": _RUN, "minItems": 1, "maxItems": 1}},
    **{"$schema": _TEXT},
)
