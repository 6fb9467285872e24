"""Where the wall time of `phaseledger plan` goes: stages in one process, then whole commands."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

PROJECT = Path(__file__).resolve().parent.parent
REPEATS = 5


def stages(cohort: str) -> list[tuple[str, float]]:
    """Seconds of each stage of one plan, in this process, as the command does them."""
    taken, last = [], time.perf_counter()

    def mark(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        taken.append((name, now - last))
        last = now

    from pipelines.declarations import load_declarations
    from pipelines.declarations.places import cohort_path, rules_directory

    mark("import the declarations room")
    declared, _ = load_declarations(cohort_path(cohort), rules_directory())
    mark("read and check cohort and rules")
    from pipelines.traces import read_cohort_requests

    mark("import polars and pandera")
    read_cohort_requests(declared)
    mark("read and check the request log")
    import dagster as dg

    from pipelines.cli.instance import opened_instance, prepare_home

    home = prepare_home()
    mark("import dagster")
    from pipelines.definitions import JOB, definitions

    job = definitions().resolve_job_def(JOB)
    mark("build the definitions")
    with opened_instance(home) as instance:
        mark("open the instance")
        config = {"resources": {"plan_source": {"config": {"out": str(home / "out")}}}}
        config["loggers"] = {"console": {"config": {"quiet": True}}}
        run = job.execute_in_process(partition_key=cohort, instance=instance, run_config=config)
        mark("run 13 steps: evaluate, judge, export, verify")
        steps = [event.event_specific_data.duration_ms / 1e3 for event in run.get_step_success_events()]
        taken.append(("  of which inside the steps", sum(steps)))
    assert isinstance(dg.__version__, str)
    return taken


def whole(cohort: str, home: str) -> float:
    """Wall seconds of one command, a process of its own."""
    before = time.perf_counter()
    command = [sys.executable, "-m", "pipelines", "plan", cohort, "--quiet", "--out", f"{home}/out"]
    subprocess.run(
        command, cwd=PROJECT, env={**os.environ, "DAGSTER_HOME": home}, stdout=subprocess.DEVNULL, check=False
    )
    return time.perf_counter() - before


def main() -> None:
    """Print both."""
    cohort = sys.argv[1] if len(sys.argv) > 1 else "moderate-chat"
    os.chdir(PROJECT)
    with tempfile.TemporaryDirectory() as home:
        os.environ["DAGSTER_HOME"] = home
        first = whole(cohort, home)
        commands = [whole(cohort, home) for _ in range(REPEATS)]
        print(f"phaseledger plan {cohort}: {median(commands):.2f} s median of {REPEATS}, {first:.2f} s the first time")
        for name, seconds in stages(cohort):
            print(f"  {seconds:6.3f} s  {name}")


if __name__ == "__main__":
    main()
