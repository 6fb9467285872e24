"""What every test may lean on."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

PROJECT = Path(__file__).resolve().parent.parent
SHARED = PROJECT.parent / "shared"

# Temporary directories of one test serve all of its examples: each example writes its own content.
_ALLOWED = [HealthCheck.function_scoped_fixture]

settings.register_profile("local", deadline=None, suppress_health_check=_ALLOWED)
settings.register_profile(
    "ci", deadline=None, derandomize=True, database=None, print_blob=True, suppress_health_check=_ALLOWED
)


def _on_ci() -> bool:
    return os.environ.get("CI") == "true"


settings.load_profile("ci" if _on_ci() else "local")


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the checkout."""
    return PROJECT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real traces and models beside the checkout, in ../shared; never part of it."""
    if not (SHARED / "traces").is_dir():
        missing = "real traces and models are missing: expected the directory ../shared beside the checkout"
        if _on_ci():
            pytest.fail(missing)
        pytest.skip(missing)
    return SHARED


@dataclass(frozen=True)
class Run:
    """One finished call of the command."""

    code: int
    out: str
    err: str


Command = Callable[..., Run]


@pytest.fixture(scope="session")
def dagster_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the Dagster instance that ``phaseledger`` runs on."""
    return tmp_path_factory.mktemp("dagster")


def _command(dagster_home: Path) -> Command:
    """The command in a process of its own, with a Dagster instance at ``dagster_home``."""

    def call(*arguments: str | Path, cwd: Path = PROJECT, **environment: str) -> Run:
        done = subprocess.run(
            [sys.executable, "-m", "pipelines", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=cwd,
            env={**os.environ, "DAGSTER_HOME": str(dagster_home), "PYTHONPATH": str(PROJECT), **environment},
            timeout=300,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture(scope="session")
def phaseledger(dagster_home: Path) -> Command:
    """The command in a process of its own, as a person calls it, with a Dagster instance outside the checkout."""
    return _command(dagster_home)


@dataclass(frozen=True)
class Planned:
    """A bundled cohort planned with ``--format text``, and where its exports are."""

    run: Run
    directory: Path


@pytest.fixture(scope="session")
def planned_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all worker processes share: the Dagster instance in it, and the receipts, are those of ``planned``."""
    base = tmp_path_factory.getbasetemp()
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "planned"
    home.mkdir(exist_ok=True)
    return home


@pytest.fixture(scope="session")
def planned(planned_home: Path) -> dict[str, Planned]:
    """Every bundled cohort, planned once for all worker processes; relative to the directory that holds ``receipts/``."""
    names = sorted(path.parent.name for path in (PROJECT / "cohorts").glob("*/cohort.yaml"))
    command, receipts, runs = _command(planned_home / "dagster"), planned_home / "receipts", planned_home / "runs.json"

    def plan(name: str) -> dict[str, Any]:
        cohort, rules = PROJECT / "cohorts" / name, PROJECT / "rules"
        return vars(command("plan", cohort, "--rules", rules, "--out", receipts / name))

    with FileLock(planned_home / ".lock"):
        if not runs.exists():
            with ThreadPoolExecutor(max_workers=2) as pool:
                runs.write_text(json.dumps(dict(zip(names, pool.map(plan, names), strict=True))))
        found = json.loads(runs.read_text())
    return {name: Planned(Run(**run), receipts / name) for name, run in found.items()}


@pytest.fixture(scope="session")
def receipt_directories(planned: dict[str, Planned]) -> dict[str, Path]:
    """Directories with receipt.json and matrix.csv, by bundled cohort."""
    return {name: one.directory for name, one in planned.items()}


@pytest.fixture(scope="session")
def receipt_directory(receipt_directories: dict[str, Path]) -> Path:
    """The exports of ``bursty-documents``."""
    return receipt_directories["bursty-documents"]
