"""tracekit sql"""

from __future__ import annotations

import click

from tracekit.reporters.rows import FORMATS


@click.command()
@click.argument("source", metavar="TRACE|DB")
@click.argument("statement")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("-o", "--output", help="Write there instead of printing.")
def sql(source: str, statement: str, form: str, output: str | None) -> None:
    """Run one SELECT over a trace or database, read-only."""
    from tracekit.database import open_any
    from tracekit.reporters import rows

    with open_any(source) as database:
        rows.render(database, statement, {}, form, output)
