"""tracekit export"""

from __future__ import annotations

import click

from tracekit.commands.opening import open_given


@click.command()
@click.argument("database")
@click.option(
    "-o", "--output", required=True, help="The trace to write; .gz and .zst are compressed."
)
@click.option("--trace-id", type=int, help="Which trace, if the database holds several.")
def export(database: str, output: str, trace_id: int | None) -> None:
    """Write a trace of a database as JSON, as it was loaded."""
    from tracekit.ingest.resources import Resources

    with open_given(database, Resources()) as opened:
        events = opened.export(output, trace_id)
    click.echo(f"{output}: {events:,} events")
