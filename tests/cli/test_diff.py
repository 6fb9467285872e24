"""``phaseledger diff``: exit codes, the page, the JSON, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipelines.cli import command
from pipelines.cli.explain_layout import WIDTH
from pipelines.frames.canonical import canonical_bytes, digest
from pipelines.receipts.build import build_receipt
from tests.comparing.told import LONGER_STALL, make_cohort
from tests.conftest import PROJECT
from tests.plans import plan_of

Json = dict[str, Any]

PAGE = Path(__file__).parent / "diff_page.txt"
MEASURED = (
    "{value: 4000, low: 3600, provenance: supplied}",
    "{value: 3900, low: 3600, provenance: observed, source: bench}",
)
OWN = """\
apiVersion: phaseledger/v1
kind: LatencyObjective
metadata: {name: own, owner: team}
gates:
  - {id: stall, overrides: latency.yaml, metric: stall, bound: nominal, op: lte, limit: 300 ms, severity: error, blocking: true}
"""


def diff(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["diff", *map(str, arguments)])


def written(directory: Path, receipt: Json) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "receipt.json").write_bytes(canonical_bytes(receipt))
    return directory


def sealed(receipt: Json) -> Json:
    body = {name: value for name, value in receipt.items() if name != "seal"}
    return body | {"seal": digest(body)}


@pytest.fixture(scope="module")
def receipts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three receipts: as declared, with two inputs changed, and under a rule of its own."""
    base = tmp_path_factory.mktemp("diff")
    for name, edits, own in (("before", (), None), ("after", (MEASURED, LONGER_STALL), None), ("ruled", (), OWN)):
        cohort = make_cohort(base / f"cohort-{name}", *edits, own=own)
        written(base / name, build_receipt(plan_of(cohort, PROJECT / "rules"))[0])
    return base


@pytest.fixture
def here(receipts: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(receipts)
    return receipts


def read(place: Path) -> Json:
    found: Json = json.loads((place / "receipt.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.usefixtures("here")
def test_the_page() -> None:
    """As tests/cli/diff_page.txt has it, but for digests, which are of the bytes of whole receipts."""
    run = diff("before", "after")
    assert run.exit_code == 1
    found = re.sub(r"\b[0-9a-f]{12}\b", "#" * 12, run.stdout)
    assert found == PAGE.read_text(encoding="utf-8")
    assert max(map(len, found.splitlines())) <= WIDTH


def test_the_ledger_adds_up_as_it_is_printed() -> None:
    """Of every column: what OLD has, with every move, is what NEW has."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("chunked/n2/c2048 (chosen in old)"))
    rows = lines[start + 2 : lines.index("", start)]
    cells = [
        [float(cell.replace(",", "").replace("~0", "0")) if cell != "." else 0.0 for cell in row.split()[-9:]]
        for row in rows
    ]
    for old, *moves, new in zip(*cells, strict=True):
        assert round(old + sum(moves), 3) == new


@pytest.mark.usefixtures("here")
def test_the_same_receipt_twice() -> None:
    run = diff("before", "before/receipt.json")
    assert run.exit_code == 0
    assert "Nothing differs" in run.stdout
    assert "decision  same: chunked/n2/c2048" in run.stdout


@pytest.mark.usefixtures("here")
def test_under_other_rules_verdicts_are_side_by_side() -> None:
    """Chunked pauses for 226 ms, which 300 allow as well: the decision stays, and so does every verdict."""
    run = diff("before", "ruled")
    assert run.exit_code == 0, run.output
    assert "question  the same" in run.stdout
    assert "1  rules         gate stall: file latency.yaml -> own.yaml; overrides none -> latency.yaml; " in run.stdout
    counts = next(line.split() for line in run.stdout.splitlines() if line.startswith("stall   "))
    assert counts == ["stall", "17", "4", "1", "17", "4", "1", "0"]
    assert "  new: aggregated/n4: stall 440.1 ms, not <= 300 ms" in run.stdout


@pytest.mark.usefixtures("here")
def test_as_json() -> None:
    run = diff("before", "after", "--format", "json")
    found = json.loads(run.stdout)
    assert run.exit_code == 1
    assert (found["same_decision"], found["same_question"], found["decisive"]) == (False, False, ["objectives.stall"])
    assert [found[name]["receipt"] for name in ("old", "new")] == ["before/receipt.json", "after/receipt.json"]
    assert [step["name"] for step in found["steps"]] == ["service.decode.tokens_per_second", "objectives.stall"]
    assert found["steps"][0]["inputs"][0]["members"] == ["value", "provenance", "source"]
    assert run.stderr == ""  # no terminal, no progress


def test_what_is_wrong_with_either_is_said_at_once(here: Path, tmp_path: Path) -> None:
    changed = read(here / "before") | {"as_of": "2026-11-30"}
    older = read(here / "after")
    older["versions"]["arithmetic"] = "3"
    run = diff(written(tmp_path / "changed", changed), written(tmp_path / "older", older))
    assert run.exit_code == 2
    first, second, count = run.stderr.splitlines()
    assert first.startswith(f"{tmp_path}/changed/receipt.json:1:1: seal: ")
    assert second.startswith(f"{tmp_path}/older/receipt.json:1:1: is a receipt of arithmetic '3'; expected")
    assert count == "2 problems; nothing was run or written"
    run = diff("nowhere", tmp_path / "older", "--format", "json")
    assert run.exit_code == 2
    assert len(json.loads(run.stdout)["problems"]) == 2


def test_a_receipt_that_was_forged_and_sealed_again_is_no_receipt_of_its_inputs(here: Path, tmp_path: Path) -> None:
    receipt = read(here / "before")
    place = next(row for row in receipt["scenarios"] if row["scenario"] == "chunked/n2/c2048")
    place["bounds"]["nominal"]["goodput"] = 0.999
    forged = written(tmp_path / "forged", sealed(receipt))
    run = diff(forged, "after")
    assert run.exit_code == 3
    named = "scenarios[chunked/n2/c2048].bounds.nominal.goodput: states 0.999, its inputs give 0.9965228136"
    assert run.stderr.splitlines()[0] == f"{forged}/receipt.json: {named}"
    assert run.stdout == ""
    assert json.loads(diff(forged, "after", "--format", "json").stdout)["disagreements"][0]["found"] == 0.9965228136


def test_inputs_that_are_no_numbers_are_bad_input(here: Path, tmp_path: Path) -> None:
    receipt = read(here / "before")
    next(row for row in receipt["inputs"] if row["path"] == "service.admission")["value"] = "2 ms"
    run = diff(written(tmp_path / "words", sealed(receipt)), "after")
    assert run.exit_code == 2
    assert "holds what no plan is made from" in run.stderr
    assert "Traceback" not in run.output
