"""``phaseledger gates``: the verdict of every gate on a decision, for people and for the systems that run it."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from pipelines.cli.exits import (
    NOTHING_QUALIFIES,
    problems_reported,
    stop,
)
from pipelines.declarations.problems import DeclarationProblems, Problem

FORMATS = ("text", "json", "junit", "sarif", "github")


EPILOG = """\b
Examples:
  phaseledger gates receipts/moderate-chat
  phaseledger gates bursty-documents --format github            (plans first)
  phaseledger gates 4a61c0 --format junit > gates.xml
  phaseledger gates receipt.json --rules my/rules --format sarif > gates.sarif
  phaseledger gates receipt.json --all --format json | jq '.scenarios[].verdicts[] | select(.effect == "blocks")'
"""


@click.command(epilog=EPILOG)
@click.argument("target")
@click.option("--format", "output", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option(
    "--all", "every", is_flag=True, help="Every scenario of the receipt, not only what speaks for the decision."
)
@click.option(
    "--rules",
    "rules_option",
    metavar="DIR",
    help="Rules directory: to plan with, and for the lines of gates.  [default: rules/ of the project]",
)
@click.option(
    "--as-of",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Of a cohort only: date that exceptions and ages of evidence are read at.  [default: as for plan]",
)
def gates(target: str, output: str, every: bool, rules_option: str | None, as_of: datetime | None) -> None:
    """Report the verdict of every gate on TARGET: a receipt.json, a directory that holds one, the first six or more digits of the
    SHA-256 of one, or a cohort, which is planned first.

    Reported are the scenario that was chosen or, with none chosen, the nearest miss of each topology, and the gates on the
    decision. A receipt is not recomputed: that is what phaseledger verify is for.

    Exit code 0: every blocking gate passes and the decision is accepted. 1: not so. 2: bad input. 3: the verifier disagrees
    with the receipt of the cohort that was planned.
    """
    from pipelines.cli.gates_facts import GatesReport
    from pipelines.cli.gates_places import places
    from pipelines.cli.gates_reading import sealed_receipt
    from pipelines.cli.planning import planned
    from pipelines.declarations.places import chosen_rules, cohorts_directory, own_rules

    with problems_reported(output):
        rules = chosen_rules(rules_option)
        try:
            file, cohort = _receipt_or_cohort(target)
        except OSError as error:
            raise DeclarationProblems([Problem(target, 1, 1, "", f"cannot be read: {error.strerror}")]) from error
        if file is None:
            assert cohort is not None
            file = planned(cohort, rules, None, as_of, output, quiet=True).receipt
        else:
            _check_options(rules_option, as_of)
        receipt = sealed_receipt(file)
    beside = cohorts_directory() / receipt.json["cohort"]["name"] if cohort is None else cohort
    found = GatesReport(receipt, places(rules, own_rules(beside, rules))).facts(every=every)
    click.echo(_written(found, output))
    if not found["summary"]["stands"]:
        stop(NOTHING_QUALIFIES)


def _receipt_or_cohort(target: str) -> tuple[Path | None, Path | None]:
    """The receipt that is meant, or else the cohort; a name under cohorts/ first, as for ``plan``."""
    from pipelines.cli.recomputed import receipt_meant
    from pipelines.declarations.places import cohort_path, meant_cohort
    from pipelines.receipts.finding import DIGITS

    path = cohort_path(target)
    named = str(path) != str(Path(target))
    if path.is_dir():
        if (path / "receipt.json").exists() and not named:
            return path / "receipt.json", None
        if (path / "cohort.yaml").exists():
            return None, path
        found = "holds neither a receipt.json nor a cohort.yaml; expected a receipt, or a cohort to plan"
        raise DeclarationProblems([Problem(target, 1, 1, "", found)])
    if path.suffix in (".yaml", ".yml"):
        return None, path
    if not path.exists() and DIGITS.fullmatch(target):
        return receipt_meant(target), None
    if not path.exists() and path.suffix != ".json":
        found = "does not exist; expected a receipt.json, the directory that holds one, or a cohort"
        raise DeclarationProblems([Problem(target, 1, 1, "", found, meant_cohort(path))])
    return path, None


def _check_options(rules: str | None, as_of: datetime | None) -> None:
    """What has no meaning beside a receipt, or leads nowhere."""
    problems = []
    if rules is not None and not Path(rules).is_dir():
        problems.append(Problem(rules, 1, 1, "--rules", "is no directory; expected a directory of rules (*.yaml)"))
    if as_of is not None:
        found = "is for a cohort that is planned; expected no date beside a receipt, which states its own"
        problems.append(Problem("--as-of", 1, 1, "", found))
    if problems:
        raise DeclarationProblems(problems)


def _written(found: dict[str, Any], output: str) -> str:
    if output == "json":
        return json.dumps(found, indent=2, ensure_ascii=False)
    if output == "junit":
        from pipelines.cli.gates_junit import junit_text

        return junit_text(found)
    if output == "sarif":
        from pipelines.cli.gates_sarif import sarif

        return json.dumps(sarif(found), indent=2, ensure_ascii=False)
    if output == "github":
        from pipelines.cli.gates_github import github_lines

        return "\n".join(github_lines(found))
    from pipelines.cli.gates_text import text_lines

    return "\n".join(text_lines(found))
