"""The lists of frozen cases, and where what was seen of each is kept."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.reference.cases import CASES, RECORDED, Case
from tests.reference.held_out import HELD_OUT, HELD_OUT_RECORDED


@dataclass(frozen=True)
class Frozen:
    """Cases, what they are called in words, and the file with what was seen of them."""

    title: str
    cases: tuple[Case, ...]
    recorded: Path

    def seen(self) -> dict[str, dict[str, float]]:
        """The recorded figures by name of the case."""
        return _read(self.recorded)


@cache
def _read(path: Path) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))
    return found


LISTS = {
    "cases": Frozen("worked with", CASES, RECORDED),
    "held_out": Frozen("held out", HELD_OUT, HELD_OUT_RECORDED),
}
