"""YAML 1.2 core documents that remember where each key and value stands.

PyYAML reads YAML 1.1 (``no`` is false, ``017`` is 15, the last of two equal keys wins), so only its scanner and parser
are used: values are resolved here, and what a reader could misread is a problem.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from pipelines.declarations.problems import Problem, Where, plain, show, show_path
from pipelines.declarations.syntax import CoreLoader, TooDeepError, syntax_problem
from pipelines.declarations.text import read_text

MAX_DEPTH = 40
MAX_NODES = 100_000
"""Nodes after aliases are expanded: nine lines of aliases can otherwise stand for a billion values."""
MAX_INTEGER = 2**53 - 1
"""The largest integer that JSON readers keep exactly."""

_TAG = "tag:yaml.org,2002:"
_UNTEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Mark:
    """Line and column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Place:
    """Where a value and its key stand (a list item is its own key), and the scalar as it was written."""

    key: Mark
    value: Mark
    text: str | None


@dataclass(frozen=True)
class Document:
    """Plain values of one YAML document, with the place of each."""

    file: str
    value: object
    places: Mapping[Where, Place]
    broken: frozenset[str] = frozenset()
    """Paths of values that could not be read at all: nothing more is said about them."""

    def get(self, path: str | Where) -> object:
        """The value at a dotted path or a place; None where there is none."""
        value = self.value
        for step in as_where(path):
            if isinstance(value, dict) and isinstance(step, str):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def has(self, path: str | Where) -> bool:
        """Whether something (even nothing: null) is written at the path."""
        return as_where(path) in self.places

    def mapping(self, path: str | Where) -> dict[str, object]:
        """The mapping at the path; an empty one where there is none."""
        value = self.get(path)
        return value if isinstance(value, dict) else {}

    def text(self, path: str | Where) -> str:
        """The scalar at the path as it was written, on one line."""
        place = self.places.get(as_where(path))
        text = " ".join((place.text or "").split()) if place else ""
        return text if len(text) <= 60 else f"{text[:59]}…"

    def mark(self, path: str | Where, on: Literal["key", "value"] = "value") -> Mark:
        """Where the value (or its key) stands; for what is missing, the key of the nearest mapping around it."""
        where = as_where(path)
        place = self.places.get(where)
        if place:
            return place.key if on == "key" else place.value
        while where and where not in self.places:
            where = where[:-1]
        return self.places[where].key

    def problem(
        self, path: str | Where, message: str, hint: str | None = None, on: Literal["key", "value"] = "value"
    ) -> Problem:
        """A problem at the path."""
        mark = self.mark(path, on)
        return Problem(self.file, mark.line, mark.column, show_path(as_where(path)), message, hint)


def as_where(path: str | Where) -> Where:
    """A dotted path as a place; a place as itself."""
    if isinstance(path, str):
        return tuple(path.split(".")) if path else ()
    return path


def read_documents(file: Path, expected: str) -> tuple[list[Document], list[Problem]]:
    """Every document of a file that could be read, and every problem met while reading."""
    text = read_text(file, expected)
    if isinstance(text, Problem):
        return [], [text]
    documents: list[Document] = []
    problems: list[Problem] = []
    nodes = 0
    try:
        for node in _compose(text):
            walk = _Walk(str(file), MAX_NODES - nodes)
            document = walk.document(node)
            nodes += len(walk.places)
            problems += walk.problems
            if document.value is None and not document.broken:
                hint = "remove the --- that opens it" if nodes > 1 else None
                problems.append(document.problem((), f"an empty document; expected {expected}", hint))
            else:
                documents.append(document)
            if nodes > MAX_NODES:
                break
    except (yaml.YAMLError, TooDeepError, ValueError, OverflowError) as error:
        problems.append(syntax_problem(str(file), error))
    if not documents and not problems:
        problems.append(Problem(str(file), 1, 1, "", f"is empty; expected {expected}"))
    return documents, problems


def _compose(text: str) -> Iterator[yaml.Node]:
    loader = CoreLoader(text, MAX_DEPTH)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    finally:
        loader.dispose()


class _TooLargeError(Exception):
    """The document is too large to go on."""


@dataclass
class _Walk:
    """Turns composed nodes into plain values, noting places and problems on the way."""

    file: str
    nodes_left: int
    places: dict[Where, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

    def document(self, node: yaml.Node) -> Document:
        try:
            value = self.value(node, (), _mark(node))
        except _TooLargeError:
            value = None
            self.broken.add("")
        return Document(self.file, value, self.places, frozenset(self.broken))

    def value(self, node: yaml.Node, where: Where, key: Mark) -> object:
        text = node.value if isinstance(node, yaml.ScalarNode) else None
        self.places[where] = Place(key, _mark(node), text)
        if len(self.places) > self.nodes_left or len(where) > MAX_DEPTH:
            found = f"more than {MAX_NODES} values or {MAX_DEPTH} levels once aliases are expanded"
            self.report(node, (), f"{found}; expected a declaration that a person can read")
            raise _TooLargeError
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node, where)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*where, place), _mark(item)) for place, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, where)
        return self.unread(node, where, _tagged(node))

    def mapping(self, node: yaml.MappingNode, where: Where) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = self.key(key_node, where)
            if key is None:
                continue
            place = (*where, key)
            if key in values:
                first = self.places[place].key
                message = f"the key is written twice, first at {first.line}:{first.column}; expected it once"
                self.report(key_node, place, message)
                continue
            values[key] = self.value(value_node, place, _mark(key_node))
        return values

    def key(self, node: yaml.Node, where: Where) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self.report(node, where, "a key that is a list or a mapping; expected text")
        elif node.tag != _TAG + "str":
            found = plain(node.value) if node.value else "nothing"
            hint = "put it in quotes; if a comma parts a number, write the number without it" if node.value else None
            self.report(node, where, f"the key {found} is not text; expected a name", hint)
        elif node.value == "<<":
            message = "the merge key <<; expected every key written out"
            self.report(node, where, message, "an alias for a whole value (key: *anchor) is fine")
        elif _UNTEXT.search(node.value):
            self.report(node, where, "a control character in a key; expected printable text")
        else:
            return str(node.value)
        return None

    def scalar(self, node: yaml.ScalarNode, where: Where) -> object:
        text, kind = str(node.value), node.tag.removeprefix(_TAG)
        if kind == "str":
            if _UNTEXT.search(text):
                return self.unread(node, where, "a control character; expected printable text")
            return text
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind in ("int", "float"):
            return self.number(node, where, text, kind)
        return self.unread(node, where, _tagged(node))

    def number(self, node: yaml.Node, where: Where, text: str, kind: str) -> object:
        if kind == "int" and len(text) > 2 * len(str(MAX_INTEGER)):
            return self.unread(node, where, f"an integer of {len(text)} characters; expected at most {MAX_INTEGER}")
        try:
            number = _integer(text) if kind == "int" else _float(text)
        except ValueError:
            return self.unread(node, where, f"text tagged as {kind}; expected a number")
        if not math.isfinite(number):
            return self.unread(node, where, f"{text} is not a finite number; expected one that is")
        if isinstance(number, int) and abs(number) > MAX_INTEGER:
            return self.unread(node, where, f"{text} is too large; expected at most {MAX_INTEGER}")
        return number

    def unread(self, node: yaml.Node, where: Where, message: str) -> object:
        """Nothing, with the reason reported."""
        self.broken.add(show_path(where))
        self.report(node, where, message)
        return None

    def report(self, node: yaml.Node, where: Where, message: str, hint: str | None = None) -> None:
        mark = _mark(node)
        self.problems.append(Problem(self.file, mark.line, mark.column, show_path(where), message, hint))


def _tagged(node: yaml.Node) -> str:
    tag = str(node.tag).replace(_TAG, "!!", 1)
    return f"the tag {show(tag)}; expected plain YAML without tags"


def _integer(text: str) -> int:
    if text.startswith("0o"):
        return int(text, 8)
    return int(text, 16) if text.startswith("0x") else int(text, 10)


def _float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


def _mark(node: yaml.Node) -> Mark:
    mark: Any = node.start_mark
    return Mark(mark.line + 1, mark.column + 1)


def whole(value: object) -> int | None:
    """A whole number, however it is written (2 or 2.0); None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value == int(value):
        return int(value)
    return None


def optional_text(mapping: Mapping[str, object], key: str) -> str | None:
    """The value of ``key`` as text; None where it is not declared."""
    value = mapping.get(key)
    return None if value is None else str(value)


def texts(value: object) -> Sequence[str]:
    """The text items of a list; none where it is not a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
