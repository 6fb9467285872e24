"""A cohort of eight requests, the receipt of its plan, and the verbs that read it, as tests call them."""

import json
import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from pipelines.cli import command
from pipelines.frames.canonical import canonical_bytes, digest
from pipelines.receipts.build import build_receipt
from tests.plans import plan_of

Json = dict[str, Any]

_OF_OTHER_TOPOLOGIES = (
    "  chunked: {chunk_tokens: [512, 1024, 2048]}\n  disaggregated: {}\n",
    "  stall: 400 ms\n  ttft_growth: 60 ms\n",
)


def call(*arguments: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(command, [*map(str, arguments)])


@dataclass(frozen=True)
class Small:
    """A project of its own with one cohort, rules, and a receipt with its matrix."""

    project: Path

    @property
    def cohort(self) -> Path:
        """The directory of the cohort."""
        return self.project / "cohorts" / "small"

    @property
    def rules(self) -> Path:
        """The rules directory."""
        return self.project / "rules"

    @property
    def directory(self) -> Path:
        """Where the receipt is."""
        return self.project / "out"

    @property
    def receipt(self) -> Path:
        """The receipt."""
        return self.directory / "receipt.json"

    @property
    def envelope(self) -> Path:
        """Where its signatures go."""
        return self.directory / "receipt.intoto.jsonl"

    def edit(self, file: Path, old: str, new: str) -> None:
        """Replace a part of a declaration."""
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, old
        file.write_text(text.replace(old, new), encoding="utf-8")

    def planned(self, as_of: date = date(2026, 11, 30)) -> "Small":
        """The same after planning what is declared now."""
        receipt, matrix = build_receipt(plan_of(self.cohort, self.rules, as_of))
        self.directory.mkdir(exist_ok=True)
        (self.directory / "matrix.csv").write_bytes(matrix)
        self.receipt.write_bytes(canonical_bytes(receipt))
        return self

    def forge(self, change: Any) -> None:
        """Change the receipt, and seal it again."""
        receipt = json.loads(self.receipt.read_bytes())
        change(receipt)
        receipt["seal"] = digest({name: member for name, member in receipt.items() if name != "seal"})
        self.receipt.write_bytes(canonical_bytes(receipt))


_EXPORTS: dict[str, bytes] = {}
"""The receipt and the matrix of the cohort as it is, planned once."""


def small(project: Path, place: Path) -> Small:
    """The cohort, the rules and the receipt at ``place``: one topology, so that it takes a moment to plan and to verify."""
    made, good = Small(place), project / "tests" / "declarations" / "good"
    made.cohort.mkdir(parents=True)
    made.directory.mkdir()
    text = (good / "cohort.yaml").read_text(encoding="utf-8")
    for part in (text[text.index("network:") : text.index("objectives:")], *_OF_OTHER_TOPOLOGIES):
        assert part in text
        text = text.replace(part, "")
    (made.cohort / "cohort.yaml").write_text(text, encoding="utf-8")
    shutil.copyfile(good / "requests.csv", made.cohort / "requests.csv")
    shutil.copytree(project / "rules", made.rules, ignore=shutil.ignore_patterns("tests"))
    (place / "workspace.yaml").write_text("load_from: []\n", encoding="utf-8")
    if not _EXPORTS:
        made.planned()
        _EXPORTS.update({file.name: file.read_bytes() for file in made.directory.iterdir()})
    for name, data in _EXPORTS.items():
        (made.directory / name).write_bytes(data)
    return made
