"""Files that a verb writes where a person says."""

import os
from collections.abc import Sequence
from pathlib import Path

from pipelines.declarations.problems import DeclarationProblems, Problem


def check_new_file(out: Path, endings: Sequence[str], *, force: bool, log: Path | None = None) -> None:
    """DeclarationProblems where ``out`` has none of the ``endings``, cannot be made, is the ``log`` itself, or is there and may not be."""
    found = hint = None
    if not out.name.lower().endswith(tuple(endings)):
        one_of = "one of " + ", ".join(endings) if len(endings) > 2 else " or ".join(endings)
        found = f"an ending of no known kind; expected {one_of}"
    elif out.is_dir():
        found = "is a directory; expected a file to write"
    elif log is not None and out.exists() and log.exists() and out.samefile(log):
        found = "is the log itself; expected another file to write"
    elif os.path.lexists(out) and not force:
        found, hint = "exists already; expected a new file", "--force overwrites it"
    elif not out.absolute().parent.is_dir():
        found = "cannot be written: its directory does not exist; expected a directory that does"
    if found:
        raise DeclarationProblems([Problem(str(out), 1, 1, "", found, hint)])
