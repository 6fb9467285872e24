"""Where gates, exceptions and decisions stand in the rules directories that are at hand."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.declarations.documents import Document, read_documents
from pipelines.declarations.problems import Where

Key = tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """A file as seen from the current directory, and a line of it."""

    path: str
    line: int


@dataclass(frozen=True)
class Places:
    """What stands where: in the rules directory, and in the one of the cohort."""

    base: dict[Key, Place]
    own: dict[Key, Place]

    def of_gate(self, gate: dict[str, Any]) -> Place | None:
        """Where the ``id`` of a gate of a receipt is written, if its file is at hand."""
        return self._find(("gate", gate["file"], gate["id"]), overriding=gate["overrides"] is not None)

    def of_exception(self, exception: dict[str, Any]) -> Place | None:
        """Where an exception of a receipt is written."""
        return self._find(("exception", exception["file"], exception["gate"], exception["expires"]))

    def of_decision(self, decision: dict[str, Any]) -> Place | None:
        """Where the decision rule of a receipt is written."""
        return self._find(("decision", decision["file"]), overriding=decision["overrides"] is not None)

    def _find(self, key: Key, *, overriding: bool = False) -> Place | None:
        """What overrides stands in the cohort's own directory, the rest in the rules directory or else there too."""
        found = self.own.get(key)
        return found if overriding else self.base.get(key, found)


def places(rules: Path, own: Path | None) -> Places:
    """What stands in the two directories; what cannot be read there has no place."""
    return Places(dict(_in(rules)), {} if own is None else dict(_in(own)))


def _in(folder: Path) -> Iterator[tuple[Key, Place]]:
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except (OSError, ValueError):
        return
    for name in names:
        if name.endswith((".yaml", ".yml")) and not name.startswith("."):
            path = _as_seen(folder / name)
            for document in reversed(read_documents(folder / name, "rules")[0]):
                for key, where in _marked(document):
                    yield (key[0], name, *key[1:]), Place(path, document.mark(where, "key").line)


def _marked(document: Document) -> Iterator[tuple[Key, Where]]:
    if document.get("kind") == "Decision":
        yield ("decision",), ("kind",)
    for place, gate in _mappings(document, "gates"):
        if isinstance(gate.get("id"), str):
            yield ("gate", gate["id"]), ("gates", place, "id")
    for place, one in _mappings(document, "exceptions"):
        yield ("exception", str(one.get("gate")), str(one.get("expires"))), ("exceptions", place, "gate")


def _mappings(document: Document, key: str) -> list[tuple[int, dict[str, Any]]]:
    """The mappings in a list, the last one first: of two that are alike, the first stays."""
    listed = document.get(key)
    rows = listed if isinstance(listed, list) else []
    return [(place, row) for place, row in reversed(list(enumerate(rows))) if isinstance(row, dict)]


def _as_seen(file: Path) -> str:
    """A path from the current directory, with slashes; as it is where none leads there."""
    try:
        return Path(os.path.relpath(file)).as_posix()
    except ValueError:
        return file.as_posix()
