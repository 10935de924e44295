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
@click.option("-o", "--output", required=True, help="The database file; replaced if it exists.")
@click.option("--append", is_flag=True, help="Add to the database instead of replacing it.")
@click.option(
    "--resume",
    is_flag=True,
    help="Keep an interrupted load as OUTPUT.partial, and resume from it when called again.",
)
@click.option(
    "--no-verdict",
    is_flag=True,
    help="Judge no trace: leave the tables verdict, evidence, one_off and advice empty.",
)
@resource_options
def load(
    traces: tuple[str, ...],
    output: str,
    append: bool,
    resume: bool,
    no_verdict: bool,
    **limits: Any,
) -> None:
    """Load traces into a database that any DuckDB client can open.

    A TRACE may also be a directory, a pattern in quotes, or a tar archive of traces. A bad trace
    does not stop the others from loading: it is reported at the end, with exit status 2.
    """
    name = printable(output)
    before = _state_of(output)
    try:
        bad = _load(traces, output, append, resume, not no_verdict, limits)
    except BaseException as ended:
        if is_interrupt(ended):
            if _state_of(output) != before:
                click.echo(f"tracekit: {name} is complete", err=True)
            elif resume and Path(f"{output}.partial").exists():
                kept = f"{name}.partial keeps what is loaded: run the same command to resume"
                click.echo(f"tracekit: {kept}", err=True)
        raise
    for error in bad:
        click.echo(f"tracekit: not loaded: {printable(str(error))}", err=True)
    click.get_current_context().exit(2 if bad else 0)


def _load(
    traces: tuple[str, ...],
    output: str,
    append: bool,
    resume: bool,
    verdicts: bool,
    limits: dict[str, Any],
) -> list[TracekitError]:
    """Loads the traces, prints what was loaded, and returns the errors of bad traces."""
    from tracekit.reporters.progress import loading_bar
    from tracekit.run import load as load_traces

    bad: list[TracekitError] = []
    waiting = f"tracekit: waiting for another load to finish writing {printable(output)}"
    with loading_bar(traces) as progress:
        database = load_traces(
            traces,
            output,
            append=append,
            resume=resume,
            on_bad=bad.append,
            on_wait=lambda: click.echo(waiting, err=True),
            progress=progress,
            verdicts=verdicts,
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
    """Inode and modification time, to tell one file of that name from another."""
    try:
        found = Path(output).stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns
