"""Exports: kept in the store once they are verified; a pair that is not verified is not seen."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.assets import export
from pipelines.cli.run import Asked, VerificationFailedError, run_plan
from pipelines.frames.replay_scope import FINALISTS
from pipelines.oracle import Disagreement, Verification, verify
from pipelines.receipts.store import read_pair

NAME = "overloaded"


@pytest.fixture
def home(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, with one cohort, as the current directory."""
    shutil.copytree(project / "cohorts" / NAME, tmp_path / "cohorts" / NAME)
    shutil.copytree(project / "rules", tmp_path / "rules")
    shutil.copy(project / "workspace.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return tmp_path


def plan(out: Path | None = None) -> Path:
    return run_plan(Asked(NAME, Path("cohorts") / NAME, Path("rules"), out, "", FINALISTS), quiet=True).receipt


def retitle(home: Path, title: str) -> None:
    file = home / "cohorts" / NAME / "cohort.yaml"
    lines = [f"  title: {title}" if line.startswith("  title:") else line for line in file.read_text().splitlines()]
    file.write_text("\n".join(lines) + "\n")


def test_plans_are_kept_and_one_that_is_not_verified_leaves_everything_as_it_was(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan() == Path("receipts") / NAME / "receipt.json"
    first = (home / "receipts" / NAME).resolve()
    assert verify(first / "receipt.json").passed
    retitle(home, "Another title")
    plan()
    second = (home / "receipts" / NAME).resolve()
    assert first != second
    assert json.loads((second / "receipt.json").read_bytes())["cohort"]["title"] == "Another title"
    assert sorted(path.name for path in first.parent.iterdir()) == sorted([first.name, second.name])

    def doubting(receipt: Path, matrix: Path) -> Verification:
        wrong = [Disagreement("decision.scenario", "a", "b", "for a test")]
        return replace(verify(receipt, matrix), disagreements=wrong)

    monkeypatch.setattr(export, "verify", doubting)
    retitle(home, "A third title")
    with pytest.raises(VerificationFailedError) as failed:
        plan()
    assert (home / "receipts" / NAME).resolve() == second
    assert sorted(path.name for path in first.parent.iterdir()) == sorted([first.name, second.name])
    assert json.loads(failed.value.receipt.read_bytes())["cohort"]["title"] == "A third title"
    with pytest.raises(VerificationFailedError):
        plan(home / "elsewhere")
    assert not (home / "elsewhere").exists()


def test_a_directory_that_is_named_has_the_two_files_and_the_store_nothing(home: Path) -> None:
    assert plan(Path("out")) == Path("out/receipt.json")
    assert sorted(path.name for path in (home / "out").iterdir()) == ["matrix.csv", "receipt.json"]
    assert not (home / "receipts").exists()
    assert len(read_pair(home / "out").sha256) == 64
