"""The cohorts that are known by name: those under ``cohorts/``, and those planned from elsewhere, remembered with their place."""

import json
import os
from pathlib import Path

from filelock import FileLock

from pipelines.declarations.places import cohorts_directory, instance_directory

REGISTER = "known_cohorts.json"


def _elsewhere() -> dict[str, str]:
    try:
        found = json.loads((instance_directory() / REGISTER).read_text())
    except (OSError, ValueError):
        return {}
    return {str(name): str(place) for name, place in found.items()} if isinstance(found, dict) else {}


def known_cohorts() -> dict[str, Path]:
    """Name -> cohort directory or file, sorted by name; a remembered place wins over ``cohorts/``, since it was planned last."""
    shipped = {path.parent.name: path.parent for path in cohorts_directory().glob("*/cohort.yaml")}
    return dict(sorted((shipped | {name: Path(place) for name, place in _elsewhere().items()}).items()))


def remember_cohort(name: str, place: Path) -> None:
    """Note where the cohort ``name`` was planned from; forgets a remembered place where it is that of ``cohorts/``."""
    register, shipped = instance_directory() / REGISTER, cohorts_directory() / name
    register.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(register.with_name(f".{REGISTER}.lock")):
        remembered = _elsewhere()
        wanted = {known: at for known, at in remembered.items() if known != name}
        if not (shipped.is_dir() and place.exists() and place.samefile(shipped)):
            wanted[name] = str(place.resolve())
        if wanted != remembered:
            temporary = register.with_name(f".{REGISTER}.{os.getpid()}")
            temporary.write_text(json.dumps(wanted, indent=2, sort_keys=True) + "\n")
            temporary.replace(register)
