"""``phaseledger ui``: Dagster's web interface on the embedded instance."""

import os
import sys

import click


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on.")
def ui(host: str, port: int) -> None:
    """Show lineage, checks and metadata of past plans in Dagster's web interface (stop with Ctrl-C)."""
    from pipelines.cli.instance import prepare_home
    from pipelines.declarations.places import project_directory

    project = project_directory()
    prepare_home()
    os.chdir(project)
    where = (
        ["-w", "workspace.yaml"]
        if (project / "workspace.yaml").is_file()
        else ["-m", "pipelines.definitions", "-a", "defs"]
    )
    click.echo(f"http://{host}:{port}  (stop with Ctrl-C)", err=True)
    os.execv(sys.executable, [sys.executable, "-m", "dagster", "dev", *where, "-h", host, "-p", str(port)])
