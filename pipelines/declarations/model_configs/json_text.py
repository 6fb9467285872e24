"""JSON text as values, and the line and column of each of its keys."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.declarations.problems import DeclarationProblems, Problem, Where, show, show_path

EXPECTED = "a model's config.json"

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


class _TwiceError(ValueError):
    """A key that is written twice in one object."""


def parsed(file: str, text: str) -> Mapping[str, Any]:
    """The object that ``text`` is; DeclarationProblems where it is none, or where a key stands in it twice."""
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        found = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}; expected {EXPECTED}"
        raise DeclarationProblems([Problem(file, error.lineno, error.colno, "", found)]) from None
    except _TwiceError:
        where, (line, column) = _written_twice(text)
        found = "the key is written twice; expected it once"
        raise DeclarationProblems([Problem(file, line, column, show_path(where), found)]) from None
    except (RecursionError, ValueError):
        raise DeclarationProblems([Problem(file, 1, 1, "", f"cannot be read as JSON; expected {EXPECTED}")]) from None
    if not isinstance(value, dict):
        raise DeclarationProblems([Problem(file, 1, 1, "", f"{show(value)}; expected {EXPECTED}: one object")])
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _TwiceError
    return value


def _written_twice(text: str) -> tuple[Where, tuple[int, int]]:
    seen: set[Where] = set()
    for where, place in key_places(text):
        if where in seen:
            return where, place
        seen.add(where)
    return (), (1, 1)


def key_places(text: str) -> Iterator[tuple[Where, tuple[int, int]]]:
    """Line and column, from 1, of every key of a JSON text that is known to be valid."""
    path: list[str | int] = []
    inside: list[str] = []
    position: list[int] = []
    line, line_start, seen = 1, 0, 0
    key: str | None = None
    for token in _TOKEN.finditer(text):
        word, start = token.group(), token.start()
        line += text.count("\n", seen, start)
        line_start = max(line_start, text.rfind("\n", seen, start) + 1)
        seen = start
        if word in "{[":
            if inside:
                path.append(key if inside[-1] == "{" and key is not None else position[-1])
            inside.append(word)
            position.append(0)
            key = None
        elif word in "}]":
            inside.pop()
            position.pop()
            del path[-1:]
            key = None
        elif word == ",":
            position[-1] += 1
            key = None
        elif word.startswith('"') and inside and inside[-1] == "{" and key is None:
            key = json.loads(word)
            yield (*path, key), (line, start - line_start + 1)
