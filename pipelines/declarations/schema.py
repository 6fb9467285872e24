"""JSON Schema errors in plain words, at the place in the file that they are about."""

import functools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from pipelines.declarations.bundled import bundled
from pipelines.declarations.documents import Document
from pipelines.declarations.problems import Problem, Where, did_you_mean, show
from pipelines.declarations.units import NICKNAMES

_KINDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "nothing",
}
_OTHER_WORDS = {
    **{"<=": "lte", "<": "lt", ">=": "gte", ">": "gt", "le": "lte", "ge": "gte"},
    **NICKNAMES,
    **dict.fromkeys(("date", "iso", "iso8601", "iso-8601", "rfc3339", "timestamp"), "datetime"),
}
"""What people write for a listed word that does not look like it."""
_SIMPLE = re.compile(r"[\w.%/ +-]{1,40}")


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """The validator of ``schemas/NAME.schema.json``."""
    schema = json.loads((bundled("schemas") / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def schema_problems(document: Document, name: str) -> list[Problem]:
    """Every way in which the document departs from its schema."""
    return [problem for error in validator(name).iter_errors(document.value) for problem in _translate(document, error)]


def without_repeats(document: Document, meaning: Iterable[Problem], structure: Iterable[Problem]) -> list[Problem]:
    """All problems, with only the telling one where the schema and a check of meaning complain about one value."""
    told = [problem for problem in meaning if problem.path not in document.broken]
    paths = {problem.path for problem in told} | document.broken
    return told + [problem for problem in structure if problem.path not in paths]


def _translate(document: Document, error: ValidationError) -> Iterator[Problem]:
    where: Where = tuple(error.absolute_path)
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator == "required":
        why = schema.get("$comment", "this key is required")
        for key in schema["required"]:
            if key not in instance:
                yield document.problem((*where, key), f"missing; {why}")
    elif error.validator == "additionalProperties":
        known = list(schema["properties"])
        expected = f"expected {', '.join(known)}" if known else "expected nothing here"
        for key in instance:
            if key not in known:
                hint = did_you_mean(key, [word for word in known if word not in instance])
                if "note" in known and instance[key] is None:
                    hint = "a comma ends a value inside { }: put the text in quotes"
                yield document.problem((*where, key), f"unknown key; {expected}", hint, on="key")
    else:
        message, hint = _said(document, where, error)
        yield document.problem(where, message, hint)


def _said(document: Document, where: Where, error: ValidationError) -> tuple[str, str | None]:
    schema: Any = error.schema
    rule, limit = str(error.validator), schema[error.validator]
    found, comment = _found(document, where, error.instance), schema.get("$comment")
    if rule == "const":
        return f"found {found}; expected {limit}", None
    if rule == "enum":
        return _choice(found, error.instance, [str(option) for option in limit], comment)
    if rule == "type":
        kinds = [limit] if isinstance(limit, str) else limit
        return f"found {found}; expected {comment or ' or '.join(_KINDS[kind] for kind in kinds)}", _type_hint(error)
    limits = {
        "minimum": f"{limit} or more",
        "minItems": "at least one item",
        "minProperties": "at least one key",
        "uniqueItems": "each item once",
    }
    return f"found {found}; expected {comment or limits.get(rule, f'{rule} {show(limit)}')}", None


def _choice(found: str, instance: object, options: list[str], comment: str | None) -> tuple[str, str | None]:
    if instance == "derived" and "observed" in options:
        return "derived is written by the planner only; expected observed or supplied", None
    joined = " or ".join(options) if len(options) < 3 else f"one of {', '.join(options)}"
    meant = _OTHER_WORDS.get(instance) if isinstance(instance, str) else None
    several = options if len(options) > 1 else []
    hint = f"did you mean {meant}?" if meant in options else did_you_mean(instance, several)
    return f"found {found}; expected {comment or joined}", hint


def _found(document: Document, where: Where, value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return document.text(where) or show(value)
    if isinstance(value, dict | list) and not value:
        return "an empty mapping" if isinstance(value, dict) else "an empty list"
    return show(value)


def _type_hint(error: ValidationError) -> str | None:
    schema: Any = error.schema
    value, kind = error.instance, schema["type"]
    if "value" in schema.get("properties", {}) and value is not None and not isinstance(value, dict | list):
        return f"write {{value: {value if _SIMPLE.fullmatch(str(value)) else '...'}, provenance: supplied}}"
    if isinstance(value, dict) and "value" in value:
        return "write the value alone: its provenance is that of the mapping around it"
    if value is None and kind == "object" and schema.get("minProperties"):
        return "indent what belongs under it"
    if value is None and kind == "object" and not schema.get("required") and "if" not in schema:
        return "write {}"
    if kind == "array" and isinstance(value, str) and _SIMPLE.fullmatch(value):
        return f"write [{value}]"
    if kind == "string" and isinstance(value, int | float):
        return "put it in quotes"
    return None
