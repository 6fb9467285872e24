"""The embedded Dagster instance: ``.dagster/`` of the project unless ``DAGSTER_HOME`` says otherwise. Imports no Dagster."""

import os
from pathlib import Path

_SETTINGS = """\
telemetry:
  enabled: false
nux:
  enabled: false
"""


def prepare_home(project: Path) -> Path:
    """Create the instance's directory with telemetry off, and point ``DAGSTER_HOME`` at it. Call before Dagster is imported."""
    home = Path(os.environ.get("DAGSTER_HOME") or project / ".dagster").resolve()
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        temporary = home / f".dagster.yaml.{os.getpid()}"
        temporary.write_text(_SETTINGS)
        temporary.replace(settings)
    os.environ["DAGSTER_HOME"] = str(home)
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    return home
