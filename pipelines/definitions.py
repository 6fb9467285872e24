"""The only assembly: assets, checks, job, storage."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg

from pipelines.assets import changes, cohort, evaluate, export, replay
from pipelines.assets.accept import accepted_asset
from pipelines.assets.frames_io import FrameStore, StoredFrames
from pipelines.assets.judge import judge_assets
from pipelines.assets.progress import step_progress
from pipelines.assets.source import PlanSource, declared_rules
from pipelines.declarations import DeclarationProblems, Rules
from pipelines.declarations.known import known_cohorts
from pipelines.declarations.places import instance_directory, own_rules, rules_directory
from pipelines.gates.rules import with_own

JOB = "plan"
REJUDGE = "rejudge"
_EVALUATED = ("cohort", "evaluate")


def frames_directory() -> str:
    """Where the frames between assets are stored: beside the instance."""
    return str(instance_directory() / "frames")


def _readable(directory: Path, of_cohorts: Sequence[Path]) -> Iterator[Rules]:
    """The rules of single cohorts; those that are faulty are named and left out, and stop the plans of their own cohort alone."""
    for own in of_cohorts:
        try:
            yield declared_rules(directory, Path(os.path.abspath(own)))
        except DeclarationProblems as faulty:
            for problem in faulty.problems:
                dg.get_dagster_logger().warning(str(problem))


def definitions(rules_in: Path | None = None, of_cohorts: Sequence[Path] = ()) -> dg.Definitions:
    """Everything phaseledger defines, with the gates of a rules directory (the project's if None) as asset checks.

    So are the gates of ``of_cohorts``, directories with rules of single cohorts: a check that a cohort does not have says so.
    """
    directory = (rules_in or rules_directory()).resolve()
    rules = with_own(declared_rules(directory), list(_readable(directory, of_cohorts)))
    frames = frames_directory()
    return dg.Definitions(
        assets=[
            *cohort.ASSETS,
            *evaluate.ASSETS,
            *judge_assets(rules),
            *replay.ASSETS,
            *changes.ASSETS,
            *export.ASSETS,
            accepted_asset(rules),
        ],
        jobs=[
            dg.define_asset_job(
                JOB,
                selection=dg.AssetSelection.all(),
                description="Plan one cohort, export its verified receipt, accept it or not.",
            ),
            dg.define_asset_job(
                REJUDGE,
                selection=dg.AssetSelection.all() - dg.AssetSelection.groups(*_EVALUATED),
                description="Judge, decide, export and accept anew from stored evaluations, after an edit of the rules.",
            ),
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
        found = [own_rules(place, rules_directory()) for place in known_cohorts().values()]
        return definitions(of_cohorts=[own for own in found if own is not None])
    raise AttributeError(name)
