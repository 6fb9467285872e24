"""Where things are: the project's directory, cohorts by name, rules, exports."""

import os
from pathlib import Path

from pipelines.declarations.bundled import bundled
from pipelines.declarations.problems import DeclarationProblems, Problem, did_you_mean


def project_directory() -> Path:
    """The nearest directory, from the current one upwards, that holds a ``workspace.yaml``; else the current one."""
    here = Path.cwd()
    return next((place for place in (here, *here.parents) if (place / "workspace.yaml").is_file()), here)


def instance_directory() -> Path:
    """The home of the Dagster instance: ``DAGSTER_HOME``, else ``.dagster/`` of the project."""
    return Path(os.environ.get("DAGSTER_HOME") or project_directory() / ".dagster").resolve()


def cohorts_directory() -> Path:
    """The project's ``cohorts/``, else the shipped cohorts."""
    own = project_directory() / "cohorts"
    return own if own.is_dir() else bundled("cohorts")


def cohort_path(name_or_path: str) -> Path:
    """The cohort that a person means: a name under ``cohorts/`` if there is one of that name, else a path.

    DeclarationProblems where nothing is named: an empty path would silently be the current directory.
    """
    if not name_or_path.strip():
        raise DeclarationProblems([Problem("COHORT", 1, 1, "", "is empty; expected the name or the path of a cohort")])
    named = cohorts_directory() / name_or_path
    try:
        is_named = "/" not in name_or_path and (named / "cohort.yaml").is_file()
    except OSError:
        is_named = False
    return _as_seen(named) if is_named else Path(name_or_path)


def meant_cohort(path: Path) -> str | None:
    """The hint that names the cohort under ``cohorts/`` which a name that leads nowhere was probably meant to be."""
    if path.name != str(path):
        return None
    return did_you_mean(path.name, sorted(place.parent.name for place in cohorts_directory().glob("*/cohort.yaml")))


def rules_directory() -> Path:
    """The project's ``rules/``, else the shipped rules."""
    own = project_directory() / "rules"
    return _as_seen(own) if own.is_dir() else bundled("rules")


def own_rules(cohort: str | os.PathLike[str], directory: str | os.PathLike[str] | None = None) -> Path | None:
    """``rules/`` beside the cohort.yaml at or in ``cohort``, whatever it is; None where there is none, or it is the rules ``directory``."""
    place = Path(cohort)
    own = (place if place.is_dir() else place.parent) / "rules"
    if not os.path.lexists(own) or not (place.is_dir() or place.name == "cohort.yaml"):
        return None
    same = directory is not None and Path(directory).exists() and own.exists() and own.samefile(directory)
    return None if same else own


def chosen_rules(option: str | None) -> Path:
    """The rules directory that a person names, or else the usual one; DeclarationProblems where an empty name is given."""
    if option is not None and not option.strip():
        raise DeclarationProblems([Problem("--rules", 1, 1, "", "is empty; expected a directory of rules (*.yaml)")])
    return rules_directory() if option is None else Path(option)


def receipts_directory() -> Path:
    """``receipts/`` of the project: the receipts of its plans, whose layout is in docs/receipts.md."""
    return _as_seen(project_directory() / "receipts")


def export_directory(cohort: str) -> Path:
    """``receipts/COHORT/`` of the project: where the last receipt of a cohort is found."""
    return receipts_directory() / cohort


def _as_seen(path: Path) -> Path:
    """``path`` relative to the current directory where it lies below it: shorter to read in messages."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
