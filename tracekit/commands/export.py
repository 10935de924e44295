"""tracekit export"""

from __future__ import annotations

import click

from tracekit.text import printable


@click.command()
@click.argument("source", metavar="TRACE|DB")
@click.option(
    "-o",
    "--output",
    required=True,
    help="The file to write; a trace that ends in .gz or .zst is compressed.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["trace", "speedscope", "collapsed"]),
    default="trace",
    show_default=True,
    help="The trace itself, or its flame graph: for speedscope, or as folded stacks.",
)
@click.option(
    "--weight",
    type=click.Choice(["host", "gpu"]),
    help="Whose time a flame graph shows.  [default: host]",
)
@click.option("--trace-id", type=int, help="Which trace, if the database holds several.")
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
