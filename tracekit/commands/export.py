"""tracekit export"""

from __future__ import annotations

import click


@click.command()
@click.argument("database")
@click.option(
    "-o", "--output", required=True, help="The trace to write; compressed if .gz or .zst."
)
@click.option("--trace-id", type=int, help="Which trace, where the database holds several.")
def export(database: str, output: str, trace_id: int | None) -> None:
    """Write a database's trace as JSON again, equal to the one that was loaded."""
    from tracekit.run import open_any

    with open_any(database) as opened:
        events = opened.export(output, trace_id)
    click.echo(f"{output}: {events:,} events")
