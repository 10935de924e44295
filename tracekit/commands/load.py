"""tracekit load"""

from __future__ import annotations

import click


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("-o", "--output", required=True, help="The database file; replaced if it is there.")
@click.option("--append", is_flag=True, help="Add to the database instead of replacing it.")
@click.option("--memory-mb", type=int, help="Keep to about this much memory, and spill to disk.")
@click.option("--threads", type=int, help="[default: one a core]")
def load(
    traces: tuple[str, ...], output: str, append: bool, memory_mb: int | None, threads: int | None
) -> None:
    """Load traces into a database that any DuckDB client opens."""
    from tracekit.database import load as load_traces

    with load_traces(
        traces, output, append=append, memory_mb=memory_mb, threads=threads
    ) as database:
        for row in database.traces():
            click.echo(
                f"{row['trace_id']}  {row['path']}: {row['events']:,} events, "
                f"{row['kernels']:,} kernels, {row['cpu_ops']:,} operators"
            )
        for finding in database.ask("health"):
            if finding["severity"] == "error":
                click.echo(f"{finding['trace_id']}  {finding['message']}", err=True)
