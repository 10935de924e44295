"""tracekit export"""

from __future__ import annotations

import click


@click.command()
@click.argument("database")
@click.option(
    "-o", "--output", required=True, help="The trace to write; .gz and .zst are compressed."
)
@click.option("--trace-id", type=int, help="Which trace, if the database holds several.")
def export(database: str, output: str, trace_id: int | None) -> None:
    """Write a trace of a database as JSON, as it was loaded."""
    from tracekit.run import open_any

    with open_any(database) as opened:
        events = opened.export(output, trace_id)
    click.echo(f"{output}: {events:,} events")
