"""A cohort is named by its directory under cohorts/, or by a path; a name that leads nowhere gets the nearest one."""

from pathlib import Path

import pytest

from pipelines.declarations import DeclarationProblems, load_cohort
from pipelines.declarations.places import cohort_path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "workspace.yaml").touch()
    for name in ("moderate-chat", "overloaded"):
        (tmp_path / "cohorts" / name).mkdir(parents=True)
        (tmp_path / "cohorts" / name / "cohort.yaml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(name: str) -> str:
    with pytest.raises(DeclarationProblems) as caught:
        load_cohort(cohort_path(name))
    return str(caught.value)


def test_a_name_leads_to_its_directory(project: Path) -> None:
    assert cohort_path("overloaded") == Path("cohorts/overloaded")


@pytest.mark.parametrize("name", ["moderate-cat", "moderat_chat", "Moderate-Chat", "moderatechat"])
def test_a_name_that_is_nearly_right_is_told_the_right_one(project: Path, name: str) -> None:
    expected = "does not exist; expected a cohort (kind: Cohort) (hint: did you mean moderate-chat?)"
    assert said(name) == f"{name}:1:1: {expected}"


@pytest.mark.parametrize("name", ["something-else", "cohorts/moderate-cat", "x" * 300, "\0"])
def test_other_names_and_paths_get_no_hint(project: Path, name: str) -> None:
    assert "hint" not in said(name)


@pytest.mark.parametrize("name", ["", " ", "\t"])
def test_no_name_is_not_the_current_directory(project: Path, name: str) -> None:
    (project / "cohort.yaml").write_bytes((Path(__file__).parent / "good" / "cohort.yaml").read_bytes())
    assert said(name) == "COHORT:1:1: is empty; expected the name or the path of a cohort"
