"""The cohorts that are known by name: those under ``cohorts/``, and those planned from elsewhere, remembered with their place."""

import json
import os
from pathlib import Path

from pipelines.declarations.places import cohorts_directory, project_directory

REGISTER = "known_cohorts.json"


def _register(home: Path | None) -> Path:
    return (home or Path(os.environ.get("DAGSTER_HOME") or project_directory() / ".dagster")) / REGISTER


def _elsewhere(home: Path | None) -> dict[str, str]:
    try:
        found = json.loads(_register(home).read_text())
    except (OSError, ValueError):
        return {}
    return {str(name): str(place) for name, place in found.items()} if isinstance(found, dict) else {}


def known_cohorts(home: Path | None = None) -> dict[str, Path]:
    """Name -> cohort directory or file, sorted by name; a remembered place wins over ``cohorts/``, since it was planned last."""
    shipped = {path.parent.name: path.parent for path in cohorts_directory().glob("*/cohort.yaml")}
    return dict(sorted((shipped | {name: Path(place) for name, place in _elsewhere(home).items()}).items()))


def remember_cohort(name: str, place: Path, home: Path | None = None) -> None:
    """Note where the cohort ``name`` was planned from; forgets a remembered place where it is that of ``cohorts/``."""
    register, remembered = _register(home), _elsewhere(home)
    shipped = cohorts_directory() / name
    wanted = {known: at for known, at in remembered.items() if known != name}
    if not (shipped.is_dir() and place.exists() and place.samefile(shipped)):
        wanted[name] = str(place.resolve())
    if wanted == remembered:
        return
    register.parent.mkdir(parents=True, exist_ok=True)
    temporary = register.with_name(f".{register.name}.{os.getpid()}")
    temporary.write_text(json.dumps(wanted, indent=2, sort_keys=True) + "\n")
    temporary.replace(register)
