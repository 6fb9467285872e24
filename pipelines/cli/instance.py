"""The embedded Dagster instance: ``.dagster/`` of the project unless ``DAGSTER_HOME`` says otherwise."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from pipelines.declarations.places import instance_directory
from pipelines.declarations.problems import DeclarationProblems, Problem

if TYPE_CHECKING:
    import dagster as dg

_SETTINGS = """\
telemetry:
  enabled: false
nux:
  enabled: false
compute_logs:
  module: dagster.core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
"""
"""Without compute logs: Dagster would capture standard error and let another process repeat it, which may end before the last line."""


def prepare_home() -> Path:
    """Create the instance's directory with telemetry off, and point ``DAGSTER_HOME`` at it. Call before Dagster is imported.

    Raises DeclarationProblems if there can be no such directory.
    """
    home = instance_directory()
    with _unusable_reported(home):
        home.mkdir(parents=True, exist_ok=True)
        settings = home / "dagster.yaml"
        if not settings.exists():
            temporary = home / f".dagster.yaml.{os.getpid()}"
            temporary.write_text(_SETTINGS)
            temporary.replace(settings)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    return home


@contextmanager
def _unusable_reported(home: Path) -> Iterator[None]:
    """Whatever keeps an instance from being opened, as one problem of its directory."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split("\n", maxsplit=1)[0].split())
        found = f"the Dagster instance cannot be opened: {reason}; expected a writable directory of a Dagster instance"
        hint = "move it away, or set DAGSTER_HOME to another directory"
        raise DeclarationProblems([Problem(str(home), 1, 1, "", found, hint)]) from error


@contextmanager
def opened_instance(home: Path) -> Iterator["dg.DagsterInstance"]:
    """The instance at ``home``; raises DeclarationProblems if it cannot be opened.

    Plans that start together open it one after the other: its databases do not survive being created twice.
    """
    import dagster as dg

    with _unusable_reported(home), FileLock(home / ".opening.lock"):
        instance = dg.DagsterInstance.get()
        instance.get_runs_count()
        instance.event_log_storage.all_asset_keys()
        instance.all_instigator_state()
    with instance:
        yield instance
