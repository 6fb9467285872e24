"""Find the files that ship with the package: schemas, rules, cohorts."""

from pathlib import Path

NAMES = ("schemas", "rules", "cohorts")


def bundled(name: str) -> Path:
    """The directory ``name`` (schemas, rules or cohorts) of an installed wheel or of a source checkout.

    A wheel carries them inside the package, because a top-level ``rules`` in site-packages would belong to nobody.
    """
    if name not in NAMES:
        raise ValueError(f"{name!r} is not bundled; expected one of {', '.join(NAMES)}")
    package = Path(__file__).resolve().parent.parent
    for directory in (package / "_bundled" / name, package.parent / name):
        if directory.is_dir():
            return directory
    raise FileNotFoundError(f"{name} is missing from this installation (looked beside and inside {package})")
