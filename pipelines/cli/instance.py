"""The embedded Dagster instance: ``.dagster/`` of the project unless ``DAGSTER_HOME`` says otherwise."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from pipelines.declarations.places import instance_directory

if TYPE_CHECKING:
    import dagster as dg

_SETTINGS = """\
telemetry:
  enabled: false
nux:
  enabled: false
"""


def prepare_home() -> Path:
    """Create the instance's directory with telemetry off, and point ``DAGSTER_HOME`` at it. Call before Dagster is imported."""
    home = instance_directory()
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
def opened_instance(home: Path) -> Iterator["dg.DagsterInstance"]:
    """The instance at ``home``. Plans that start together open it one after the other: its databases do not survive being created twice."""
    import dagster as dg

    with FileLock(home / ".opening.lock"):
        instance = dg.DagsterInstance.get()
        instance.get_runs_count()
        instance.event_log_storage.all_asset_keys()
        instance.all_instigator_state()
    with instance:
        yield instance
