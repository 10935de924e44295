"""tracekit export"""

from __future__ import annotations

import click

from tracekit.commands.options import option
from tracekit.text import printable


@click.command()
@click.argument("source", metavar="TRACE|DB")
@option(
    "-o --output",
    "The file to write; a trace that ends in .gz or .zst is compressed.",
    required=True,
)
@option(
    "--format form",
    "The trace itself, or its flame graph: for speedscope, or as folded stacks.",
    click.Choice(["trace", "speedscope", "collapsed"]),
    default="trace",
)
@option(
    "--weight",
    "Whose time a flame graph shows.  [default: host]",
    click.Choice(["host", "gpu"]),
)
@option("--trace-id", "Which trace, if the database holds several.", int)
def export(source: str, output: str, form: str, weight: str | None, trace_id: int | None) -> None:
    """Write a trace as JSON, as it was loaded, or its flame graph for other tools."""
    from tracekit.ingest.resources import Resources
    from tracekit.opening import open_given

    if form == "trace" and weight is not None:
        raise click.UsageError("--weight is for a flame graph: --format speedscope or collapsed")
    name = printable(output)
    with open_given(source, Resources(), output) as opened:
        if form == "trace":
            from tracekit.database.export import export as export_trace

            click.echo(f"{name}: {export_trace(opened, output, trace_id):,} events")
            return
        from tracekit.reporters import stacks

        count = stacks.write(opened, form, output, weight or "host", trace_id)
    click.echo(f"{name}: {count:,} stacks", err=output == "-")
