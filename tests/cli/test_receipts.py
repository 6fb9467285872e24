"""``phaseledger receipts`` lists what is in the store, and names what is none."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipelines.cli import command
from pipelines.receipts.store import keep, read_pair
from tests.conftest import Command


@pytest.fixture
def root(receipt_directories: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the receipts of two cohorts."""
    monkeypatch.chdir(tmp_path)
    for name in ("bursty-documents", "overloaded"):
        keep(tmp_path / "receipts", name, read_pair(receipt_directories[name]))
    return tmp_path / "receipts"


def listed(*arguments: str) -> Any:
    return CliRunner().invoke(command, ["receipts", *arguments])


def test_every_receipt_is_a_line_and_the_last_of_a_cohort_has_a_star(root: Path) -> None:
    run = listed()
    assert (run.exit_code, run.stderr) == (0, "")
    first, second = run.stdout.splitlines()
    digits = (root / "bursty-documents").resolve().name[:12]
    assert first.startswith(f"* {digits}  bursty-documents ")
    assert "disaggregated/p2/d1" in first
    assert "none qualifies" in second
    (root / "overloaded").unlink()
    assert [line[0] for line in listed().stdout.splitlines()] == ["*", " "]
    assert listed("overloaded").stdout.splitlines() == [f" {second[1:]}"]


def test_two_cohorts_judged_by_the_same_rules_have_one_fingerprint_of_rules(root: Path) -> None:
    rows = json.loads(listed("--format", "json").stdout)["receipts"]
    assert len({row["rules_fingerprint"] for row in rows}) == 1
    assert len({row["fingerprint"] for row in rows}) == 2


def test_what_is_no_receipt_is_named_and_left_out(root: Path) -> None:
    place = (root / "overloaded").resolve()
    (place / "receipt.json").write_bytes((place / "receipt.json").read_bytes() + b" ")
    empty = root / "_store" / ("0" * 64)
    empty.mkdir()
    run = listed()
    assert run.exit_code == 2
    assert len(run.stdout.splitlines()) == 1
    assert run.stderr.splitlines() == [
        f"receipts/_store/{empty.name}:1:1: receipt.json cannot be read: there is none",
        *[line for line in run.stderr.splitlines() if place.name in line],
    ]
    assert "was changed after it was written" in run.stderr
    problems = json.loads(listed("--format", "json").stdout)["problems"]
    assert [one["file"] for one in problems] == [line.split(":")[0] for line in run.stderr.splitlines()]


def test_a_cohort_without_a_receipt_is_bad_input(root: Path) -> None:
    run = listed("moderate-chat")
    assert (run.exit_code, run.stderr) == (2, "receipts:1:1: no receipt of a cohort moderate-chat\n")


def test_where_nothing_was_planned_it_says_how(root: Path) -> None:
    shutil.rmtree(root)
    run = listed()
    assert (run.exit_code, run.stdout) == (0, "no receipts in receipts; phaseledger plan COHORT makes one\n")


def test_a_name_with_other_things_than_text_is_no_receipt(root: Path) -> None:
    body = json.loads((root / "overloaded" / "receipt.json").read_bytes())
    for number, name in enumerate((3, None, "two\nlines")):
        data = json.dumps(body | {"cohort": {"name": name, "title": str(number)}}).encode()
        place = root / "_store" / hashlib.sha256(data).hexdigest()
        place.mkdir()
        (place / "receipt.json").write_bytes(data)
    run = listed()
    assert (run.exit_code, len(run.stdout.splitlines()), len(run.stderr.splitlines())) == (2, 2, 3)
    assert all(line.endswith("receipt.json is not that of a plan") for line in run.stderr.splitlines())


def test_an_index_that_says_nothing_true_is_made_anew(root: Path, receipt_directories: dict[str, Path]) -> None:
    digest = (root / "overloaded").resolve().name
    (root / "index.json").write_text(json.dumps({"receipts": [{"sha256": digest}]}))
    keep(root, "overloaded", read_pair(receipt_directories["overloaded"]))
    assert [row["cohort"] for row in json.loads((root / "index.json").read_bytes())["receipts"]] == [
        "bursty-documents",
        "overloaded",
    ]


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("", "--out:1:1: is empty; expected a directory\n"),
        ("kept", "kept:1:1: --out: leads to a receipt that is kept; expected another directory\n"),
        (
            "notes.txt",
            "notes.txt:1:1: --out: cannot be written; expected a directory, or a place where one can be made\n",
        ),
    ],
)
def test_a_plan_is_not_written_over_what_is_kept(
    out: str, said: str, root: Path, project: Path, phaseledger: Command
) -> None:
    (root.parent / "kept").symlink_to((root / "overloaded").resolve())
    (root.parent / "notes.txt").write_text("mine")
    before = (root / "overloaded" / "receipt.json").read_bytes()
    cohort, rules = project / "cohorts" / "overloaded", project / "rules"
    run = phaseledger("plan", cohort, "--rules", rules, "--out", out, "--quiet", cwd=root.parent)
    assert (run.code, run.out, run.err.splitlines()[0] + "\n") == (2, "", said)
    assert (root / "overloaded" / "receipt.json").read_bytes() == before


def test_a_file_in_the_place_of_a_link_is_not_replaced(root: Path, project: Path, phaseledger: Command) -> None:
    (root / "overloaded").unlink()
    (root / "overloaded").write_text("mine")
    shutil.copy(project / "workspace.yaml", root.parent)
    cohort, rules = project / "cohorts" / "overloaded", project / "rules"
    run = phaseledger("plan", cohort, "--rules", rules, "--quiet", cwd=root.parent)
    assert (run.code, run.err.splitlines()[0].split(": ")[0]) == (2, "receipts/overloaded:1:1")
    assert (root / "overloaded").read_text() == "mine"
