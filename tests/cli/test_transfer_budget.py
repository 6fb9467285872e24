"""``phaseledger transfer budget``: a verified receipt, what its transfers take and what would use the envelope exactly."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipelines.cli import command
from pipelines.frames.canonical import canonical_bytes
from pipelines.receipts.build import build_receipt
from tests.conftest import Planned
from tests.plans import plan_of

_BLOCK = re.compile(
    r"<!-- output: phaseledger transfer budget receipts/(?P<of>\S+) -->\n```\n(?P<shown>.*?)```", re.DOTALL
)


def budget(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["transfer", "budget", *map(str, arguments)])


def test_the_page_shows_what_the_command_prints(project: Path, planned: dict[str, Planned]) -> None:
    block = _BLOCK.search((project / "docs" / "transfer.md").read_text(encoding="utf-8"))
    assert block is not None
    run = budget(planned[block["of"]].directory)
    assert run.exit_code == 0, run.output
    assert [line.rstrip() for line in run.stdout.splitlines()] == block["shown"].splitlines()


def test_as_json_it_is_what_the_receipt_holds(planned: dict[str, Planned]) -> None:
    run = budget(planned["bursty-documents"].directory / "receipt.json", "--format", "json")
    assert run.exit_code == 0, run.output
    receipt = json.loads((planned["bursty-documents"].directory / "receipt.json").read_text())
    shown = json.loads(run.stdout)
    assert shown["budget"] == receipt["transfer"]["budget"]
    assert shown["kv"] == receipt["kv"]
    assert shown["cohort"] == "bursty-documents"


def test_a_bandwidth_of_the_budget_makes_the_plan_use_its_limit_exactly(
    project: Path, planned: dict[str, Planned], tmp_path: Path
) -> None:
    receipt = json.loads((planned["slow-link"].directory / "receipt.json").read_text())
    worst = [row for row in receipt["transfer"]["budget"]["rows"] if row["bound"] == "nominal"][-1]
    shutil.copytree(project / "cohorts" / "slow-link", tmp_path / "slow-link")
    file = tmp_path / "slow-link" / "cohort.yaml"
    text = file.read_text()
    needed = f"{worst['bandwidth_at_limit_bytes_per_s']:.10g} B/s"
    for name, value in (("effective", needed), ("peak", "50 GB/s")):
        text, found = re.subn(
            rf"({name}_bandwidth): {{[^}}]*}}", rf"\1: {{value: {value}, provenance: supplied}}", text
        )
        assert found == 1
    file.write_text(text.replace("25 Gbit/s", "400 Gbit/s"))
    plan = plan_of(tmp_path / "slow-link", project / "rules")
    name = receipt["transfer"]["budget"]["scenario"]
    row = plan.matrix.filter((plan.matrix["scenario"] == name) & (plan.matrix["bound"] == "nominal")).row(0, named=True)
    assert row["transfer_envelope_share"] == pytest.approx(0.75, abs=1e-8)


def test_a_receipt_that_moves_nothing_has_no_budget(project: Path, planned: dict[str, Planned], tmp_path: Path) -> None:
    shutil.copytree(project / "cohorts" / "moderate-chat", tmp_path / "cohort")
    file = tmp_path / "cohort" / "cohort.yaml"
    file.write_text(file.read_text().replace("  disaggregated: {}\n", ""))
    receipt, matrix = build_receipt(plan_of(tmp_path / "cohort", project / "rules"))
    (tmp_path / "receipt.json").write_bytes(canonical_bytes(receipt))
    (tmp_path / "matrix.csv").write_bytes(matrix)
    run = budget(tmp_path)
    assert run.exit_code == 2
    assert "no topology of this receipt moves the cache" in run.stderr


def test_a_receipt_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "receipt.json").write_text("{}")
    run = budget(tmp_path)
    assert run.exit_code == 2
    assert "is not a receipt" in run.stderr
    assert budget(tmp_path / "nowhere").exit_code == 2


def test_a_receipt_that_was_changed_is_not_shown(planned: dict[str, Planned], tmp_path: Path) -> None:
    receipt = json.loads((planned["slow-link"].directory / "receipt.json").read_text())
    receipt["transfer"]["budget"]["rows"][0]["envelope_share"] /= 2
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    run = budget(tmp_path)
    assert run.exit_code == 3
    assert run.stdout == ""
    assert "verification failed" in run.stderr


def test_what_lies_outside_of_a_curve_is_marked(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "cohorts" / "moderate-chat", tmp_path / "cohort")
    file = tmp_path / "cohort" / "cohort.yaml"
    curve = "network:\n  transfer_curve: {file: curve.csv, provenance: supplied}\n"
    file.write_text(file.read_text().replace("network:\n", curve))
    (tmp_path / "cohort" / "curve.csv").write_text("bytes,seconds\n1000000,0.001\n1000000000,0.033\n")
    receipt, matrix = build_receipt(plan_of(tmp_path / "cohort", project / "rules"))
    (tmp_path / "receipt.json").write_bytes(canonical_bytes(receipt))
    (tmp_path / "matrix.csv").write_bytes(matrix)
    run = budget(tmp_path)
    assert run.exit_code == 0, run.output
    row = next(line for line in run.stdout.splitlines() if line.startswith("nominal"))
    *_, unit, link, _, said = row.split()
    assert (unit[-1], link, said) == ("*", "-", "tokens*")
    assert "* outside of the declared curve, not measured" in run.stdout
    assert "fixed overhead and effective bandwidth outside of a declared curve" in run.stdout
