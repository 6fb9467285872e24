"""Runs the verifier: `python -m pipelines.oracle`, or `python pipelines/oracle` without the rest of the package."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast


def _command() -> Callable[[Sequence[str] | None], int]:
    if __package__:
        from .command import main

        return main
    # run as a directory: load this directory as a package of its own, and keep it off the search path
    home = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != home]
    start, where = home / "__init__.py", [str(home)]
    spec = importlib.util.spec_from_file_location("oracle", start, submodule_search_locations=where)
    if spec is None or spec.loader is None:
        raise ImportError(f"{home} is not a package")
    package = importlib.util.module_from_spec(spec)
    sys.modules["oracle"] = package
    spec.loader.exec_module(package)
    return cast(Callable[[Sequence[str] | None], int], package.main)


if __name__ == "__main__":
    sys.exit(_command()(None))
