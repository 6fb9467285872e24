"""`phaseledger verify`: recomputed without the planner's libraries."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.frames.canonical import canonical_bytes, digest
from pipelines.oracle import verify
from tests.conftest import Command


def test_verify_imports_neither_polars_nor_dagster_nor_pandera(receipt_directory: Path, project: Path) -> None:
    script = (
        "import sys\n"
        "from pipelines.cli import command\n"
        "code = command.main(sys.argv[1:], standalone_mode=False)\n"
        "heavy = {'polars', 'dagster', 'pandera'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "verify", str(receipt_directory / "receipt.json")],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["moderate-chat", "bursty-documents", "slow-link", "overloaded"])
def test_every_bundled_receipt_is_verified_by_the_standard_library_alone(
    name: str, receipt_directories: dict[str, Path], project: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "pipelines/oracle", str(receipt_directories[name] / "receipt.json")],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_receipt_fails_with_three_and_names_the_value(
    phaseledger: Command, receipt_directory: Path, tmp_path: Path
) -> None:
    receipt = json.loads((receipt_directory / "receipt.json").read_text())
    receipt["scenarios"][0]["bounds"]["nominal"]["stall_s"] = 0.001
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    run = phaseledger("verify", tmp_path / "receipt.json", "--matrix", receipt_directory / "matrix.csv")
    assert run.code == 3
    assert "stall_s" in run.out + run.err


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"kind": "Cohort"}'])
def test_what_is_not_a_receipt_is_bad_input(content: str, phaseledger: Command, tmp_path: Path) -> None:
    (tmp_path / "receipt.json").write_text(content)
    run = phaseledger("verify", tmp_path / "receipt.json")
    assert run.code == 2
    assert "Traceback" not in run.err


def test_json_says_what_was_compared(phaseledger: Command, receipt_directory: Path) -> None:
    run = phaseledger("verify", receipt_directory / "receipt.json", "--format", "json")
    said = json.loads(run.out)
    assert run.code == 0
    assert said["passed"] is True
    assert said["disagreements"] == []
    assert sum(said["checked"].values()) > 10_000


def test_a_pipe_is_not_read_for_ever(phaseledger: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "receipt.json")
    assert phaseledger("verify", tmp_path / "receipt.json").code == 2


@pytest.mark.parametrize(
    ("path", "value"),
    [(("workload", "duration_s"), 1e308), (("workload", "buckets", 1, "output_tokens_m2"), 1e308)],
)
def test_figures_too_large_to_compute_with_are_rejected(
    path: tuple[str | int, ...], value: float, receipt_directory: Path, tmp_path: Path
) -> None:
    receipt = json.loads((receipt_directory / "receipt.json").read_text(), parse_int=float)
    place = receipt
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    receipt["seal"] = digest({name: member for name, member in receipt.items() if name != "seal"})
    (tmp_path / "receipt.json").write_bytes(canonical_bytes(receipt))
    assert not verify(tmp_path / "receipt.json", receipt_directory / "matrix.csv").passed
