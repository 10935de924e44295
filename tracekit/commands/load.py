"""tracekit load"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tracekit.commands.options import resource_options
from tracekit.errors import TracekitError, is_interrupt
from tracekit.text import printable


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("-o", "--output", required=True, help="The database file; replaced if it is there.")
@click.option("--append", is_flag=True, help="Add to the database instead of replacing it.")
@click.option(
    "--resume",
    is_flag=True,
    help="Keep what is loaded as OUTPUT.partial when interrupted; called again, go on from there.",
)
@resource_options
def load(
    traces: tuple[str, ...],
    output: str,
    append: bool,
    resume: bool,
    **limits: Any,
) -> None:
    """Load traces into a database that any DuckDB client opens.

    A TRACE may also be a directory, a pattern in quotes, or a tar archive of traces. A bad one does
    not keep the others from being loaded: it is reported at the end, with exit status 2.
    """
    name = printable(output)
    before = _state_of(output)
    try:
        bad = _load(traces, output, append, resume, limits)
    except BaseException as ended:
        if is_interrupt(ended):
            if _state_of(output) != before:
                click.echo(f"tracekit: {name} is written, and whole", err=True)
            elif resume and Path(f"{output}.partial").exists():
                kept = f"what is loaded is kept as {name}.partial: call again to go on"
                click.echo(f"tracekit: {kept}", err=True)
        raise
    for error in bad:
        click.echo(f"tracekit: not loaded: {printable(str(error))}", err=True)
    click.get_current_context().exit(2 if bad else 0)


def _load(
    traces: tuple[str, ...], output: str, append: bool, resume: bool, limits: dict[str, Any]
) -> list[TracekitError]:
    """Loads, says what was loaded, and returns the errors of what was not."""
    from tracekit.reporters.progress import loading_bar
    from tracekit.run import load as load_traces

    bad: list[TracekitError] = []
    waiting = f"tracekit: waits until {printable(output)} is written"
    with loading_bar(traces) as progress:
        database = load_traces(
            traces,
            output,
            append=append,
            resume=resume,
            on_bad=bad.append,
            on_wait=lambda: click.echo(waiting, err=True),
            progress=progress,
            **limits,
        )
    with database:
        for row in database.traces():
            click.echo(
                f"{row['trace_id']}  {printable(row['path'])}: {row['events']:,} events, "
                f"{row['kernels']:,} kernels, {row['cpu_ops']:,} operators"
            )
        for finding in database.ask("health", severity="error"):
            click.echo(f"{finding['trace_id']}  {printable(finding['message'])}", err=True)
    return bad


def _state_of(output: str) -> tuple[int, int] | None:
    """Tells one file of that name from another."""
    try:
        found = Path(output).stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns
