"""Every malformed declaration in tests/bad gives exactly the text beside it, all of its problems at once.

``cohorts/NAME.yaml`` is read as a cohort, ``rules/NAME.yaml`` (or the directory ``rules/NAME``) as a directory of rules,
``together/NAME`` as a cohort with its rules, ``layers/NAME/own`` as a cohort's own rules over those of ``base``;
``NAME.expected`` holds the problems, one a line. After a deliberate change
of a message, write the files anew with ``PHASELEDGER_REGENERATE=1 pytest tests/declarations/test_bad.py`` and read the diff.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.declarations import DeclarationProblems, load_cohort, load_declarations, load_rules

BAD = Path(__file__).resolve().parents[1] / "bad"
REGENERATE = "PHASELEDGER_REGENERATE"


def cases(kind: str) -> list[str]:
    return sorted({entry.stem for entry in (BAD / kind).iterdir() if entry.suffix in ("", ".yaml")})


def check(expected: Path, load: Callable[[], object]) -> None:
    with pytest.raises(DeclarationProblems) as caught:
        load()
    said = f"{caught.value}\n"
    if os.environ.get(REGENERATE):
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")
    assert said.count("\n") == len(caught.value.problems), "a problem takes one line"


@pytest.mark.parametrize("name", cases("cohorts"))
def test_bad_cohort(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD / "cohorts")
    check(BAD / "cohorts" / f"{name}.expected", lambda: load_cohort(f"{name}.yaml"))


@pytest.mark.parametrize("name", cases("rules"))
def test_bad_rules(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = BAD / "rules" / name
    if source.is_dir():
        shutil.copytree(source, "rules")
    else:
        Path("rules").mkdir()
        shutil.copy(source.with_suffix(".yaml"), "rules")
    check(BAD / "rules" / f"{name}.expected", lambda: load_rules("rules"))


@pytest.mark.parametrize("name", cases("together"))
def test_bad_together(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD / "together" / name)
    check(BAD / "together" / f"{name}.expected", lambda: load_declarations("cohort.yaml", "rules"))


@pytest.mark.parametrize("name", cases("layers"))
def test_bad_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD / "layers" / name)
    check(BAD / "layers" / f"{name}.expected", lambda: load_rules("../../base", "own"))


def test_there_are_a_hundred_malformed_rule_files() -> None:
    assert len(cases("rules")) + len(cases("layers")) >= 100


def test_no_expectation_without_a_case() -> None:
    for kind in ("cohorts", "rules", "together", "layers"):
        assert {file.stem for file in (BAD / kind).glob("*.expected")} == set(cases(kind))
