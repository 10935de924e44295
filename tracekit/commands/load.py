"""A database of traces, and traces as files again: load, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.commands.options import (
    Request,
    option,
    part_options,
    resource_options,
    stage_line,
    warn,
    writing,
)
from tracekit.errors import TracekitError, is_interrupt
from tracekit.reporters import written
from tracekit.reporters.written import Steps, wrote
from tracekit.stages import stage
from tracekit.text import printable

if TYPE_CHECKING:
    from tracekit.database.session import Session
    from tracekit.perfetto.part import PartChoice


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@option("-o --output", "The database file; replaced if it exists.", required=True)
@option("--append", "Add to the database instead of replacing it.", is_flag=True)
@option(
    "--resume",
    "Keep an interrupted load as OUTPUT.partial, and resume from it when called again.",
    is_flag=True,
)
@option(
    "--no-verdict",
    "Judge no trace: leave the tables verdict, evidence, one_off and advice empty.",
    is_flag=True,
)
@resource_options
@writing
def load(
    traces: tuple[str, ...], output: str, no_verdict: bool, request: Request, **how: bool
) -> Steps:
    """Load traces into a database that any DuckDB client can open.

    A TRACE may also be a directory, a pattern in quotes, or a tar archive of traces. A bad trace
    does not stop the others from loading: it is reported at the end, with exit status 2.
    """
    from tracekit import opening
    from tracekit.reporters.progress import loading_bar

    before = _state_of(output)
    bad: list[TracekitError] = []
    try:
        with loading_bar(traces) as progress:
            database = opening.load(
                traces,
                output,
                request.resources,
                on_bad=bad.append,
                on_wait=lambda: warn(f"waiting for another load to finish writing {output}"),
                progress=progress,
                verdicts=not no_verdict,
                **how,
            )
        with database:
            rows = database.traces()
            yield written.output(output, len(rows), "traces")
            for row in rows:
                yield (
                    f"{row['trace_id']}  {row['path']}: {row['events']:,} events, "
                    f"{row['kernels']:,} kernels, {row['cpu_ops']:,} operators"
                )
            _tell_errors(database)
    except BaseException as ended:
        if is_interrupt(ended):
            if _state_of(output) != before:
                warn(f"{output} is complete")
            elif how["resume"] and Path(f"{output}.partial").exists():
                warn(f"{output}.partial keeps what is loaded: run the same command to resume")
        raise
    for error in bad:
        warn(f"not loaded: {error}")
    yield 2 if bad else 0


def _tell_errors(database: Session) -> None:
    """Prints to standard error what makes all of a trace doubtful, such as that it is cut."""
    own = database.trace_ids()
    for finding in database.ask("health", severity="error"):
        # The trace of a capture has no replays.
        if finding["trace_id"] in own:
            click.echo(f"{finding['trace_id']}  {printable(finding['message'])}", err=True)


def _state_of(output: str) -> tuple[int, int] | None:
    """Inode and modification time, to tell one file of that name from another."""
    try:
        found = Path(output).stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns


@click.command()
@click.argument("source", metavar="TRACE|DB")
@option(
    "-o --output",
    "The file to write; a trace that ends in .gz or .zst is compressed. FILE.xlsx is a workbook "
    "of Excel: verdict, advice, kernels, operators, launches, gaps, and of several traces the "
    "ranks.",
    required=True,
)
@option(
    "--format form",
    "The trace itself, or its flame graph: for speedscope, or as folded stacks.",
    click.Choice(["trace", "speedscope", "collapsed"]),
    default="trace",
)
@option(
    "--weight", "Whose time a flame graph shows.  [default: host]", click.Choice(["host", "gpu"])
)
@part_options
@writing
def export(source: str, output: str, form: str, weight: str | None, part: PartChoice) -> Steps:
    """Write a trace as JSON, as it was loaded, its flame graph for other tools, or a workbook.

    A part of a large trace, such as --step 12, opens in Perfetto where the whole does not.
    """
    from tracekit.ingest.resources import Resources
    from tracekit.opening import open_any
    from tracekit.reporters import stacks

    if form == "trace" and weight is not None:
        raise click.UsageError("--weight is for a flame graph: --format speedscope or collapsed")
    if form != "trace" and not part.is_whole:
        raise click.UsageError("a part is written as a trace: omit --format")
    is_book = output.endswith(".xlsx")
    if is_book and (form != "trace" or not part.is_whole):
        raise click.UsageError("a workbook is about whole traces: omit --format and the part")
    unit = "events" if form == "trace" else "stacks"
    with stage_line(), open_any(source, Resources(), output) as opened:
        if is_book:
            try:
                from tracekit.reporters import workbook
            except ModuleNotFoundError as error:
                needs = f"a workbook needs {error.name}: pip install 'tracekit[excel]'"
                raise TracekitError(needs) from error
            sheets = workbook.write(opened, output)
            _tell_errors(opened)
            yield from wrote(output, len(sheets), "sheets", says=", ".join(sheets))
            return
        if form == "trace":
            count = part.write(opened, output)
        else:
            with stage("writing"):
                count = stacks.write(opened, form, output, weight or "host", part.trace_of(opened))
    yield from wrote(output, count, unit)
