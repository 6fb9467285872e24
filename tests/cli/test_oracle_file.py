"""`phaseledger oracle`: the verifier as one file, on a machine that has Python and nothing else."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.small_receipt import Small, call, small


@pytest.fixture(scope="module")
def made(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Small:
    return small(project, tmp_path_factory.mktemp("small") / "project")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command wrote."""
    file = tmp_path_factory.mktemp("archive") / "phaseledger-oracle.pyz"
    run = call("oracle", file)
    assert run.exit_code == 0, run.output
    assert run.stdout == f"{file}: sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}\n"
    return file


def alone(archive: Path, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The archive under an interpreter without site-packages, environment or anything beside it but ``directory``."""
    place = directory / "empty"
    place.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-I", "-S", str(archive), *arguments],
        cwd=place,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_verifies_a_real_receipt_and_rejects_a_changed_one(made: Small, archive: Path, tmp_path: Path) -> None:
    shutil.copytree(made.directory, tmp_path / "empty")
    good = alone(archive, tmp_path, "receipt.json", "--format", "json")
    assert good.returncode == 0, good.stdout + good.stderr
    assert json.loads(good.stdout)["passed"] is True
    assert sum(json.loads(good.stdout)["checked"].values()) > 1000

    receipt = json.loads((tmp_path / "empty" / "receipt.json").read_text())
    receipt["decision"]["scenario"] = "aggregated/n9"
    (tmp_path / "empty" / "receipt.json").write_text(json.dumps(receipt))
    bad = alone(archive, tmp_path, "receipt.json")
    assert bad.returncode == 3
    assert "decision.scenario: found aggregated/n9" in bad.stdout
    assert alone(archive, tmp_path, "nowhere.json").returncode == 2


def test_it_says_what_the_verifier_of_the_project_says(made: Small, archive: Path, tmp_path: Path) -> None:
    own = json.loads(call("verify", made.receipt, "--format", "json").stdout)
    assert (own.pop("declarations"), own.pop("signatures")) == (None, [])
    run = alone(archive, tmp_path, str(made.receipt), "--format", "json")
    theirs = json.loads(run.stdout)
    assert theirs | {"matrix": Path(theirs["matrix"]).name} == own | {"matrix": "matrix.csv"}


def test_it_reads_the_requests_too(made: Small, archive: Path, tmp_path: Path) -> None:
    requests = tmp_path / "requests.csv"
    assert call("requests", made.cohort, requests).exit_code == 0
    assert alone(archive, tmp_path, str(made.receipt), "--requests", str(requests)).returncode == 0
    requests.write_text(requests.read_text().replace(",44\n", ",45\n"))
    run = alone(archive, tmp_path, str(made.receipt), "--requests", str(requests))
    assert run.returncode == 3
    assert "requests_sha256" in run.stdout


def test_it_holds_every_module_of_the_verifier_as_it_is_and_nothing_else(project: Path, archive: Path) -> None:
    modules = {f"oracle/{file.name}": file.read_bytes() for file in (project / "pipelines" / "oracle").glob("*.py")}
    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
        held = {name: packed.read(name) for name in names}
        assert {entry.date_time for entry in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.external_attr >> 16 for entry in packed.infolist()} == {0o100644}
        assert packed.testzip() is None
    assert names == sorted(names)
    assert {name: text for name, text in held.items() if name != "__main__.py"} == modules
    assert b"from oracle import main" in held["__main__.py"]
    assert archive.read_bytes().startswith(b"#!/usr/bin/env python3\n")


def test_the_same_version_gives_the_same_bytes_whenever_and_however_it_was_installed(
    project: Path, archive: Path, tmp_path: Path
) -> None:
    shutil.copytree(project / "pipelines", tmp_path / "pipelines", ignore=shutil.ignore_patterns("__pycache__"))
    for place, file in enumerate((tmp_path / "pipelines" / "oracle").iterdir()):
        os.utime(file, (1_000_000_000 + place, 1_000_000_000 + place))
        file.chmod(0o600)
    script = "import os, sys; os.umask(0o077); sys.path.insert(0, sys.argv[1]); import pipelines.cli as cli; cli.command(sys.argv[2:])"
    run = subprocess.run(
        [sys.executable, "-I", "-c", script, str(tmp_path), "oracle", str(tmp_path / "again.pyz")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "again.pyz").read_bytes() == archive.read_bytes()
    assert stat.S_IMODE((tmp_path / "again.pyz").stat().st_mode) == 0o755


def test_another_file_is_not_written_over(archive: Path, made: Small, tmp_path: Path) -> None:
    assert call("oracle", archive).exit_code == 0
    (tmp_path / "receipt.json").write_text("{}")
    run = call("oracle", tmp_path / "receipt.json")
    assert run.exit_code == 2
    assert "exists already, and is not this verifier; expected a new file (hint: --force overwrites it)" in run.stderr
    assert (tmp_path / "receipt.json").read_text() == "{}"
    assert call("oracle", tmp_path / "receipt.json", "--force").exit_code == 0
    assert (tmp_path / "receipt.json").read_bytes() == archive.read_bytes()
    assert "is a directory" in call("oracle", tmp_path).stderr
    assert "its directory does not exist" in call("oracle", tmp_path / "nowhere" / "a.pyz").stderr


def test_it_shows_examples() -> None:
    run = call("oracle", "--help")
    assert run.exit_code == 0
    assert "python -I -S phaseledger-oracle.pyz receipt.json" in run.stdout.split("Examples:")[1]
