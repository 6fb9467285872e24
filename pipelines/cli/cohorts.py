"""``phaseledger cohorts``: what can be planned by name."""

import json

import click

from pipelines.cli.exits import problems_reported


@click.command()
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def cohorts(output: str) -> None:
    """List the cohorts that can be planned by name, with their titles."""
    from pipelines.declarations import load_cohort
    from pipelines.declarations.places import cohort_path, cohorts_directory

    names = sorted(path.parent.name for path in cohorts_directory().glob("*/cohort.yaml"))
    with problems_reported(output):
        found = [{"name": name, "title": load_cohort(cohort_path(name)).title} for name in names]
    if output == "json":
        click.echo(json.dumps(found, indent=2))
        return
    width = max((len(row["name"]) for row in found), default=0)
    for row in found:
        click.echo(f"{row['name']:<{width}}  {row['title']}")
