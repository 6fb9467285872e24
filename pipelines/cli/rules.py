"""``phaseledger rules``: what can be judged, the schema of each kind, whether rules are sound, and their tests."""

import json
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import click

from pipelines.cli.exits import problems_reported, stop

TEST_FAILED = 1
_rules_option = click.option(
    "--rules", "rules_option", metavar="DIR", help="Rules directory.  [default: rules/ of the project]"
)
_format_option = click.option(
    "--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True
)


@click.group()
def rules() -> None:
    """Look at the rules that plans are judged by, check them, and run their tests."""


METRICS_EPILOG = """\b
Examples:
  phaseledger rules metrics
  phaseledger rules metrics --format json | jq '.[] | select(.of == "bucket") | .name'

docs/rules.md says how a gate judges a metric.
"""


@rules.command("metrics", epilog=METRICS_EPILOG)
@_format_option
def metrics_verb(output: str) -> None:
    """List every metric that a gate can judge.

    A metric of a scenario is one figure; one of a bucket is a figure per prompt bucket, of which the gate's aggregate makes one; one of
    the decision is for gates of kind: Provenance. A modeled one is absent where a scenario is refused. The column is that of the figure in
    the scenario matrix.

    Exit code 0: listed.
    """
    from pipelines.cli.rules_metrics import as_json, lines

    click.echo(json.dumps(as_json(), indent=2) if output == "json" else "\n".join(lines()))


SCHEMA_EPILOG = """\b
Examples:
  phaseledger rules schema
  phaseledger rules schema LatencyObjective > latency.schema.json
  phaseledger rules schema RuleTest | jq '."$defs".expectation'
"""


@rules.command("schema", epilog=SCHEMA_EPILOG)
@click.argument("kind", required=False)
def schema_verb(kind: str | None) -> None:
    """Print the JSON Schema of one KIND of documents, or list the kinds.

    The schema (2020-12) stands alone. It says how a document is written; whether a metric exists, has the unit of its limit and so on is
    what rules check says.

    Exit code 0: printed. 2: there is no such kind.
    """
    from pipelines.cli.rules_schema import KINDS, schema_of
    from pipelines.declarations.problems import did_you_mean, show

    if kind is None:
        width = max(map(len, KINDS))
        click.echo("\n".join(f"{name:<{width}}  {holds}" for name, holds in KINDS.items()))
    elif kind in KINDS:
        click.echo(json.dumps(schema_of(kind), indent=2, ensure_ascii=False))
    else:
        begun = [name for name in KINDS if kind and name.casefold().startswith(kind.casefold())]
        hint = f"did you mean {begun[0]}?" if begun else did_you_mean(kind, list(KINDS))
        _refuse("KIND", f"unknown kind {show(kind)}; expected {', '.join(KINDS)}", hint)


CHECK_EPILOG = """\b
Examples:
  phaseledger rules check
  phaseledger rules check bursty-documents slow-link
  phaseledger rules check --rules my/rules my/cohort.yaml --format json | jq .untested
"""


@rules.command("check", epilog=CHECK_EPILOG)
@click.argument("cohorts", metavar="[COHORT]...", nargs=-1)
@_rules_option
@click.option(
    "--as-of",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Date that exceptions have expired at, or not.  [default: today in UTC]",
)
@_format_option
def check_verb(cohorts: tuple[str, ...], rules_option: str | None, as_of: datetime | None, output: str) -> None:
    """Check the rules and their tests, and say what there is.

    Everything that is wrong with the rules directory and the tests in it is said at once.
    Of each COHORT, a name under cohorts/ or a path, also its own rules and what must hold between these, the rules directory, the cohort
    and its log, as a plan would find it. The tests are read, not run: rules test runs them. An expired exception is shown and is no
    mistake, but no decision of a cohort that it is for is accepted.

    Exit code 0: nothing is wrong. 2: something is.
    """
    from pipelines.cli.rules_check import checked, report_json, report_lines, today

    with problems_reported(output):
        found = checked(_directory(rules_option), cohorts, today() if as_of is None else as_of.date())
    if output == "json":
        click.echo(json.dumps(report_json(found), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(report_lines(found)))


TEST_EPILOG = """\b
Examples:
  phaseledger rules test
  phaseledger rules test -k stall
  phaseledger rules test --rules my/rules my/rules/tests/latency.yaml
  phaseledger rules test --format junit > rules.xml

docs/rules.md (Tests of rules) says how a test is written.
"""


@rules.command("test", epilog=TEST_EPILOG)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@_rules_option
@click.option("-k", "substring", metavar="TEXT", help="Only tests with this in their gate or name, in any case.")
@click.option("--format", "output", type=click.Choice(["text", "json", "junit"]), default="text", show_default=True)
def tests_verb(files: tuple[Path, ...], rules_option: str | None, substring: str | None, output: str) -> None:
    """Run the tests of the rules, all of them or those in FILE.

    They are in tests/ of the rules directory. Each judges one gate on figures that are written down, as a plan would judge it, and
    compares verdict, margin and message with what is expected. All files are checked before any test is run.

    Exit code 0: all pass. 1: some fail. 2: bad input; nothing was run.
    """
    from pipelines.cli.rules_testing import as_json, as_junit, text_lines, tried

    with problems_reported(output):
        found = tried(_directory(rules_option), files, substring)
    if output == "json":
        click.echo(json.dumps(as_json(found), indent=2, ensure_ascii=False))
    elif output == "junit":
        click.echo(as_junit(found))
    else:
        click.echo("\n".join(text_lines(found)))
    if found.failed:
        stop(TEST_FAILED)


def _directory(option: str | None) -> Path:
    from pipelines.declarations.places import chosen_rules

    return chosen_rules(option)


def _refuse(path: str, found: str, hint: str | None) -> NoReturn:
    from pipelines.declarations.problems import DeclarationProblems, Problem

    with problems_reported("text"):
        raise DeclarationProblems([Problem(path, 1, 1, "", found, hint)])
    raise AssertionError("problems_reported leaves the command")
