"""tracekit sql"""

from __future__ import annotations

import click

from tracekit.commands.options import resource_options, resources
from tracekit.reporters import FORMATS


@click.command()
@click.argument("source", metavar="TRACE|DB")
@click.argument("statement")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("-o", "--output", help="Write there instead of printing.")
@resource_options
def sql(
    source: str,
    statement: str,
    form: str,
    output: str | None,
    memory_mb: int | None,
    threads: int | None,
    temp_dir: str | None,
) -> None:
    """Run one SELECT over a trace or database, read-only."""
    from tracekit.loading import open_any
    from tracekit.reporters import rows

    with open_any(source, resources(memory_mb, threads, temp_dir)) as database:
        rows.render(database, statement, {}, form, output)
