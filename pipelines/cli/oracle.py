"""``phaseledger oracle``: the verifier as one file, for a machine without this project."""

import hashlib
import io
import os
import zipfile
from importlib.resources import files
from pathlib import Path

import click

from pipelines.cli.exits import problems_reported

EPILOG = """\b
Examples:
  phaseledger oracle phaseledger-oracle.pyz
  python -I -S phaseledger-oracle.pyz receipt.json --matrix matrix.csv
  ./phaseledger-oracle.pyz receipt.json --format json
  unzip -l phaseledger-oracle.pyz
"""

_SHEBANG = b"#!/usr/bin/env python3\n"
_START = b'''"""Runs the verifier of phaseledger: python -I -S THIS_FILE receipt.json."""

import sys

if sys.version_info < (3, 10):
    sys.exit("this verifier needs Python 3.10 or later")

from oracle import main

sys.exit(main())
'''
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The first time that an archive can hold."""

_UNIX = 3
_FILE_MODE = 0o100644


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite FILE, whatever it is.")
def oracle(file: Path, force: bool) -> None:
    """Write the independent verifier to FILE: an archive of its modules that any Python 3.10 or later runs, without this project.

    The same version gives the same bytes, so that its SHA-256 says which verifier it is.

    Exit code 0: written, or there already. 2: FILE is another file, or cannot be written; nothing was written.
    """
    from pipelines.declarations.problems import DeclarationProblems, Problem
    from pipelines.receipts.write import write_atomically

    data = archive()
    with problems_reported("text"):
        _check_target(file, data, force=force)
        try:
            write_atomically(file, data)
            file.chmod(0o755)
        except OSError as error:
            found = f"cannot be written: {error.strerror}; expected a place that can be"
            raise DeclarationProblems([Problem(str(file), 1, 1, "", found)]) from None
    click.echo(f"{file}: sha256 {hashlib.sha256(data).hexdigest()}")


def archive() -> bytes:
    """The modules of the verifier as a zip archive that Python runs: entries in order, of one date and mode, not compressed."""
    modules = {
        f"oracle/{one.name}": one.read_bytes() for one in files("pipelines.oracle").iterdir() if _is_module(one.name)
    }
    target = io.BytesIO()
    target.write(_SHEBANG)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as packed:
        for name, text in sorted((modules | {"__main__.py": _START}).items()):
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.create_system, entry.external_attr = _UNIX, _FILE_MODE << 16
            packed.writestr(entry, text)
    return target.getvalue()


def _is_module(name: str) -> bool:
    return name.endswith(".py")


def _check_target(file: Path, data: bytes, *, force: bool) -> None:
    from pipelines.declarations.problems import DeclarationProblems, Problem

    found = hint = None
    if file.is_dir():
        found = "is a directory; expected a file to write"
    elif not file.absolute().parent.is_dir():
        found = "cannot be written: its directory does not exist; expected a directory that does"
    elif os.path.lexists(file) and not force and not _holds(file, data):
        found, hint = "exists already, and is not this verifier; expected a new file", "--force overwrites it"
    if found:
        raise DeclarationProblems([Problem(str(file), 1, 1, "", found, hint)])


def _holds(file: Path, data: bytes) -> bool:
    try:
        return file.is_file() and file.read_bytes() == data
    except OSError:
        return False
