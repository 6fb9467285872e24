"""``phaseledger replay``: the trace through schedulers without a plan; the smallest topology that meets a target, or named scenarios."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.exits import NOTHING_QUALIFIES, problems_reported, stop
from pipelines.cli.log_reading import interruptible
from pipelines.cli.new_files import check_new_file
from pipelines.cli.replay_progress import progress_shown

if TYPE_CHECKING:
    from pipelines.cli.replay_reading import Asked
    from pipelines.frames.inputs import Bound
    from pipelines.planning.replay_spaces import Trace

EPILOG = """\b
Examples:
  phaseledger replay moderate-chat
  phaseledger replay my/cohort.yaml --target '99 %' --bound conservative
  phaseledger replay short-and-long --all --top 10
  phaseledger replay bursty-documents --scenario disaggregated/p2/d1 --windows
  phaseledger replay bursty-documents --scenario disaggregated/p2/d1 --requests requests.parquet
  phaseledger replay moderate-chat --format json | jq .smallest
"""

_TOP = 20


class Share(click.ParamType):  # type: ignore[type-arg]  # not generic in older versions
    """A share above 0 and at most 1, or in per cent."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """``95 %`` as 0.95."""
        from pipelines.declarations.units import QuantityError, exact, within

        if isinstance(value, float):
            return value
        written = str(value).strip()
        try:
            number: float | str = float(written)
        except ValueError:
            number = written
        try:
            share = exact(number, "ratio", written)
            within(share, "share", "ratio", written)
        except (QuantityError, ValueError, OverflowError) as error:
            hint = getattr(error, "hint", None)
            said = getattr(error, "message", f"{written} is not a ratio; expected 0.8 or 80 %")
            self.fail(f"{said} ({hint})" if hint else said, param, ctx)
        return float(share)


@click.command(epilog=EPILOG)
@click.argument("cohort")
@click.option(
    "--scenario",
    "scenarios",
    metavar="NAME",
    multiple=True,
    help="Only this scenario, in full; may be repeated.  [default: look for the smallest that meets the target]",
)
@click.option(
    "--bound",
    type=click.Choice(["nominal", "conservative"]),
    default="nominal",
    show_default=True,
    help="Of the inputs.",
)
@click.option(
    "--target",
    type=Share(),
    metavar="SHARE",
    help="Share of the requests that are to meet all objectives, as in 0.95 or '95 %'.  [default: objectives.attainment]",
)
@click.option("--rules", "rules_option", metavar="DIR", help="Rules directory.  [default: rules/ of the project]")
@click.option(
    "--all", "all_of_them", is_flag=True, help="Replay every scenario that is not refused, and list the first ones."
)
@click.option("--top", type=click.IntRange(1), metavar="N", help=f"How many --all lists.  [default: {_TOP}]")
@click.option(
    "--windows", is_flag=True, help="Of each --scenario, every minute: requests, goodput, and how full pools are."
)
@click.option(
    "--requests",
    "out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write every request of each --scenario, its lanes and what it met, as .csv or .parquet.",
)
@click.option("--force", is_flag=True, help="Overwrite the --requests file.")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--quiet", is_flag=True, help="No progress on standard error.")
def replay(
    cohort: str,
    scenarios: tuple[str, ...],
    bound: "Bound",
    target: float | None,
    rules_option: str | None,
    all_of_them: bool,
    top: int | None,
    windows: bool,
    out: Path | None,
    force: bool,
    output: str,
    quiet: bool,
) -> None:
    """Replay the requests of COHORT, a name under cohorts/ or a path, through the schedulers of its scenarios (docs/replay.md).

    Without --scenario: which is the smallest topology whose goodput on the trace meets the target? Scenarios are replayed in the
    order of the rules' preference, with more replayed goodput in the place of the margin, up to the first that does; those that the
    closed forms refuse are left out. With --scenario: everything that the replay of that one comes to.

    Every figure is modeled, not measured. Nothing is planned, and no receipt is written.

    Exit code 0: a scenario meets the target, or those that are named were replayed. 1: none does, or one of those is refused or does
    not fit. 2: bad input; nothing was written.
    """
    _check_options(scenarios, all_of_them, top, windows, out, force)
    with interruptible():
        with problems_reported(output):
            asked = _read(cohort, rules_option, out, force)
            trace = asked.trace(bound)
        if not quiet:
            _say_if_cold()
        if target is None:
            target = trace.inputs.number("objectives.attainment")
        if scenarios:
            _scenarios(asked, trace, list(dict.fromkeys(scenarios)), target, windows, out, output, quiet)
        else:
            _search(asked, trace, target, all_of_them, top or _TOP, output, quiet)


def _say_if_cold() -> None:
    """A first replay takes long, and only once."""
    from pipelines.replay.compiled import is_cold

    if is_cold():
        click.echo("the replay is compiled, which takes some 15 s and is done once", err=True)


def _check_options(
    scenarios: tuple[str, ...], all_of_them: bool, top: int | None, windows: bool, out: Path | None, force: bool
) -> None:
    """A usage error where options contradict each other."""
    if scenarios and all_of_them:
        raise click.UsageError("--all is for a search through all scenarios; leave --scenario out")
    if top is not None and not all_of_them:
        raise click.UsageError("--top is how many scenarios --all lists; expected --all with it")
    if not scenarios and (windows or out is not None):
        raise click.UsageError(
            f"{'--windows' if windows else '--requests'} is of a scenario; expected --scenario NAME with it"
        )
    if force and out is None:
        raise click.UsageError("--force overwrites the file of --requests; expected --requests FILE with it")


def _read(cohort: str, rules_option: str | None, out: Path | None, force: bool) -> "Asked":
    """What is asked for; DeclarationProblems with everything that is wrong with it, and with the file to be written."""
    from pipelines.cli.replay_files import SUFFIXES
    from pipelines.cli.replay_reading import collected, read_asked
    from pipelines.declarations.places import chosen_rules, cohort_path
    from pipelines.declarations.problems import DeclarationProblems, Problem

    problems: list[Problem] = []
    asked = collected(problems, lambda: read_asked(cohort_path(cohort), chosen_rules(rules_option)))
    if out is not None:
        log = None if asked is None or asked.cohort.trace is None else asked.cohort.trace.file
        collected(problems, lambda: check_new_file(out, SUFFIXES, force=force, log=log))
    if problems or asked is None:
        raise DeclarationProblems(problems)
    return asked


def _search(
    asked: "Asked", trace: "Trace", target: float, all_of_them: bool, top: int, output: str, quiet: bool
) -> None:
    """Look for the smallest scenario, and say what was found."""
    from pipelines.cli.replay_facts import asked as question
    from pipelines.cli.replay_facts import search_facts
    from pipelines.cli.replay_text import search_lines
    from pipelines.planning.replay_search import ReplaySearch

    search = ReplaySearch(trace, asked.preference, target)
    with progress_shown("paths replayed", quiet=quiet) as progress:
        found = search.run(all_of_them=all_of_them, top=top if all_of_them else 0, progress=progress)
        facts = question(asked.cohort.name, trace, target) | search_facts(search, found)
    click.echo(_printed(facts) if output == "json" else "\n".join(search_lines(facts)))
    if found.smallest is None:
        stop(NOTHING_QUALIFIES)


def _scenarios(
    asked: "Asked",
    trace: "Trace",
    names: list[str],
    target: float,
    windows: bool,
    out: Path | None,
    output: str,
    quiet: bool,
) -> None:
    """Replay the named scenarios, write their requests, and say what they came to."""
    from pipelines.cli.replay_facts import asked as question
    from pipelines.cli.replay_facts import scenario_facts
    from pipelines.cli.replay_files import labelled_requests, write_frames
    from pipelines.cli.replay_reading import check_names
    from pipelines.cli.replay_text import scenarios_lines
    from pipelines.planning.replay_named import replayed_by_name

    with problems_reported(output):
        check_names(trace, names)
    rows, frames = [], []
    with progress_shown("scenarios replayed", quiet=quiet) as progress:
        for one in replayed_by_name(trace, asked.preference, names):
            rows.append(scenario_facts(trace, one, target, windows=windows))
            if out is not None and one.outcome is not None:
                frames.append(labelled_requests(trace, one))
            if progress is not None:
                progress(len(rows), len(names))
    is_whole = all(row["reason"] is None for row in rows)
    facts = question(asked.cohort.name, trace, target) | {"scenarios": rows}
    said = "" if out is None else f"{out}: not written, since not all of them were replayed"
    facts |= {"requests_file": None}
    if out is not None and is_whole:
        with problems_reported(output):
            said = f"{out}: {write_frames(out, frames):,} rows, times modeled"
        facts["requests_file"] = str(out)
    click.echo(_printed(facts) if output == "json" else "\n".join(scenarios_lines(facts)))
    if said:
        click.echo(said, err=output == "json")
    if not is_whole:
        stop(NOTHING_QUALIFIES)


def _printed(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
