"""The only assembly: assets, checks, job, storage."""

from pathlib import Path

import dagster as dg

from pipelines.assets import changes, cohort, evaluate, export
from pipelines.assets.frames_io import FrameStore, StoredFrames
from pipelines.assets.judge import judge_assets
from pipelines.assets.progress import step_progress
from pipelines.assets.source import PlanSource, declared_rules
from pipelines.declarations.places import instance_directory, rules_directory

JOB = "plan"


def definitions(rules_in: Path | None = None) -> dg.Definitions:
    """Everything phaseledger defines, with the gates of a rules directory (the project's if None) as asset checks."""
    rules = declared_rules((rules_in or rules_directory()).resolve())
    frames = str(instance_directory() / "frames")
    return dg.Definitions(
        assets=[*cohort.ASSETS, *evaluate.ASSETS, *judge_assets(rules), *changes.ASSETS, *export.ASSETS],
        jobs=[
            dg.define_asset_job(
                JOB, selection=dg.AssetSelection.all(), description="Plan one cohort and export its verified receipt."
            )
        ],
        resources={
            "plan_source": PlanSource(),
            "io_manager": FrameStore(base=frames),
            "stored_frames": StoredFrames(base=frames),
        },
        executor=dg.in_process_executor,
        loggers={"console": step_progress},
    )


def __getattr__(name: str) -> dg.Definitions:
    """``defs``, which Dagster's tools ask for, built on demand: the command builds its own for the rules it is given."""
    if name == "defs":
        return definitions()
    raise AttributeError(name)
