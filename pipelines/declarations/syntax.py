"""The YAML 1.2 core schema on PyYAML's parser, and its complaints in plain words."""

import copy
import re
from typing import Any

import yaml

from pipelines.declarations.problems import Problem

_CORE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("bool", r"true|True|TRUE|false|False|FALSE", tuple("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", tuple("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", tuple("-+.0123456789")),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", tuple("-+.")),
)

_PLAIN_WORDS: tuple[tuple[str, str, str | None], ...] = (
    ("'\\t'", "a tab; expected spaces", "YAML does not allow tabs in indentation"),
    (
        "mapping values are not allowed",
        'a ": " that starts no key; expected one key a line',
        "check the indentation; quote text that has a colon in it",
    ),
    ("could not find expected ':'", 'a line without ": "; expected key: value', None),
    ("the node content", "nothing where a value should stand; expected a value", None),
    ("<block end>", "a line that does not line up with those above it; expected the same indentation", None),
    ("',' or '}'", "a { that is not closed; expected , or }", None),
    ("',' or ']'", "a [ that is not closed; expected , or ]", None),
    ("unexpected end of stream", "the file ends inside quotes; expected the closing quote", None),
    ("undefined alias", "an alias to nothing; expected an anchor (&name) above it", None),
    ("duplicate anchor", "an anchor that is defined twice; expected another name", None),
)
_UNCLOSED = ("',' or '}'", "',' or ']'", "unexpected end of stream")
"""Complaints that are best shown where the bracket or the quote opens."""


class TooDeepError(Exception):
    """Nesting beyond what a declaration needs; PyYAML itself would exhaust the stack."""

    def __init__(self, mark: yaml.Mark, limit: int) -> None:
        """Remember where the limit (levels) was passed."""
        super().__init__(f"more than {limit} levels of nesting; expected a flat declaration")
        self.mark = mark


class CoreLoader(yaml.SafeLoader):
    """Composes nodes with core-schema tags; aliases keep their own place, and nesting is bounded."""

    yaml_implicit_resolvers: Any = {}  # noqa: RUF012 - PyYAML's own class-level registry

    def __init__(self, text: str, max_depth: int) -> None:
        """Compose ``text``, at most ``max_depth`` levels deep."""
        super().__init__(text)
        self.depth = 0
        self.max_depth = max_depth

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one node and what is below it."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        is_alias = isinstance(event, yaml.AliasEvent)
        self.depth += 1
        if self.depth > self.max_depth:
            raise TooDeepError(event.start_mark, self.max_depth)
        node = super().compose_node(parent, index)
        self.depth -= 1
        if is_alias:
            node = copy.copy(node)
            node.start_mark = event.start_mark  # type: ignore[union-attr]
        return node


for _name, _pattern, _first in _CORE:
    CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_pattern})\\Z"), list(_first))


def syntax_problem(file: str, error: Exception) -> Problem:
    """A parser's complaint as a problem at its place."""
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "mark", None)
    if any(part in str(error) for part in _UNCLOSED):
        mark = getattr(error, "context_mark", None) or mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    said = str(getattr(error, "problem", None) or error).splitlines()[0] if str(error) else type(error).__name__
    for part, message, hint in _PLAIN_WORDS:
        if part in said:
            return Problem(file, line, column, "", f"not valid YAML: {message}", hint)
    if isinstance(error, TooDeepError):
        return Problem(file, line, column, "", said)
    return Problem(file, line, column, "", f"not valid YAML: {said}; expected YAML 1.2")
