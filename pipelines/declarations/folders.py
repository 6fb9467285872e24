"""The YAML files of a directory."""

import os
from pathlib import Path

from pipelines.declarations.problems import Problem, show
from pipelines.declarations.text import reason


def yaml_files(folder: Path, expected: str) -> tuple[list[Path], list[Problem]]:
    """The *.yaml and *.yml directly in ``folder``, by name, without hidden ones; or why there are none, and what was ``expected``."""
    try:
        names = sorted(os.listdir(folder))
    except NotADirectoryError:
        return [], [Problem(str(folder), 1, 1, "", f"is a file; {expected}")]
    except FileNotFoundError:
        return [], [Problem(str(folder), 1, 1, "", f"does not exist; {expected}")]
    except (OSError, ValueError) as error:
        return [], [Problem(str(folder), 1, 1, "", f"cannot be read: {reason(error)}; {expected}")]
    unreadable = [name for name in names if not name.isprintable()]
    if unreadable:
        shown = show(unreadable[0].encode("utf-8", "replace").decode())
        return [], [Problem(str(folder), 1, 1, "", f"holds a file called {shown}; expected names in printable UTF-8")]
    files = [folder / name for name in names if name.endswith((".yaml", ".yml")) and not name.startswith(".")]
    return files, [] if files else [Problem(str(folder), 1, 1, "", f"holds no *.yaml; {expected}")]
