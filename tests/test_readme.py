"""What README.md shows is what the command prints."""

import re
from pathlib import Path

import pytest

from tests.conftest import Command, Planned

_BLOCK = re.compile(r"<!-- (?P<what>\w+): (?P<of>[^>]*?) -->\n```\n(?P<shown>.*?)```", re.DOTALL)


def blocks(project: Path, what: str) -> dict[str, str]:
    """Shown text by what it is of."""
    found = _BLOCK.finditer((project / "README.md").read_text(encoding="utf-8"))
    return {block["of"]: block["shown"] for block in found if block["what"] == what}


def test_the_worked_decision_is_what_the_plan_prints(
    project: Path, phaseledger: Command, planned: dict[str, Planned], tmp_path: Path
) -> None:
    ((command, shown),) = blocks(project, "output").items()
    name = command.split()[-1]
    assert command == f"phaseledger plan {name}"
    printed = planned[name].run.out.replace(str(planned[name].directory), f"receipts/{name}")
    assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines()


def test_the_shown_problems_are_what_bad_input_prints(project: Path, phaseledger: Command) -> None:
    ((case, shown),) = blocks(project, "problem").items()
    run = phaseledger("plan", Path(case).name, cwd=(project / case).parent)
    assert run.code == 2
    assert run.err == shown


def test_links_lead_somewhere(project: Path) -> None:
    pages = [project / "README.md", project / "CONTRIBUTING.md", *sorted((project / "docs").rglob("*.md"))]
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("verb", ["plan", "test", "ui"])
def test_the_named_make_targets_exist(verb: str, project: Path) -> None:
    assert f"make {verb}" in (project / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^{verb}:", (project / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
