"""Traces for other programs: export, and for Perfetto annotate and open."""

from __future__ import annotations

from pathlib import Path

import click

from tracekit.commands import options
from tracekit.commands.options import Request, option, seconds
from tracekit.errors import TracekitError
from tracekit.reporters.written import CommandResult
from tracekit.text import counted


@options.command()
@click.argument("source", metavar="TRACE|DB")
@option(
    "-o --output",
    "The file to write. A trace whose name ends in .gz or .zst is compressed; FILE.xlsx is an "
    "Excel workbook: verdict, advice, kernels, operators, launches, gaps, and, for several "
    "traces, ranks.",
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
@options.requesting(*options.PART)
@options.writing
def export(
    source: str, output: str, form: str, weight: str | None, request: Request
) -> CommandResult:
    """Write a trace as JSON, as it was loaded, its flame graph for other tools, or a workbook.

    If a trace is too large for Perfetto, a part of it may open, such as --step 12.
    """
    from tracekit.ingest.resources import Resources
    from tracekit.opening import open_any
    from tracekit.reporters.exports import Export

    chosen = Export(output, request.part, form, weight)
    with open_any(source, Resources(), output) as opened:
        exported = chosen.write(opened)
        if chosen.is_workbook:
            options.tell_errors(opened)
    names = ", ".join(exported.names)
    return CommandResult().add(output, exported.count, exported.unit, says=names)


@options.command()
@click.argument("trace")
@option("-o --output", "The trace to write; .gz and .zst are compressed.", required=True)
@options.resource_options
@options.writing
def annotate(trace: str, output: str, request: Request) -> CommandResult:
    """Write TRACE with tracekit's findings drawn in, for Perfetto.

    It adds tracks for queue depth, busy share, copy bandwidth, idle gaps by cause, the critical
    path with arrows, and the places and savings of the fix list. The trace's own events stay the
    same, byte for byte, and tracekit ignores the added events when it loads the file. The traces of
    a directory, an archive or a DB become one file, on one clock.
    """
    from tracekit.files import require_writable
    from tracekit.opening import files_named
    from tracekit.perfetto.annotate import annotate

    require_writable(output, files_named([trace], request.resources))
    events, traces = annotate(trace, output, request.resources)
    of = "" if traces == 1 else f" to {traces} traces"
    says = f"{counted(events, 'event')} added{of}; open it in https://ui.perfetto.dev"
    return CommandResult().add(output, events, "events added", says=says)


@options.command("open")
@click.argument("trace")
@option("--plain", "Open the trace without tracekit's tracks.", is_flag=True)
@option("--print-url", "Print the address instead of starting a browser.", is_flag=True)
@option(
    "--timeout timeout_s",
    "End if Perfetto's page does not request the trace for this many seconds.",
    seconds,
    default=600,
)
@options.requesting(*options.PART, *options.RESOURCES)
def open_trace(
    trace: str, plain: bool, print_url: bool, timeout_s: float, request: Request
) -> None:
    """Open TRACE, or a part of it, in Perfetto, with tracekit's findings drawn in.

    The trace does not leave this machine: Perfetto's page (https://ui.perfetto.dev) runs in the
    browser and reads it from 127.0.0.1, for which the browser may ask permission. The command ends
    when the page has read the trace, or does not request it in time.
    """
    import webbrowser

    from tracekit.files import temporary_folder
    from tracekit.opening import open_any
    from tracekit.perfetto.annotate import annotate
    from tracekit.perfetto.serving import HOST, PORT, TraceServer

    resources, part = request.resources, request.part
    with temporary_folder(resources.folder) as folder:
        name = Path(trace).name.partition(".")[0] or "trace"
        is_made = part.is_chosen or not plain
        file = folder / f"{name}.json.gz" if is_made else Path(trace)
        if not is_made and (not file.is_file() or file.suffix not in (".json", ".gz")):
            raise TracekitError(f"{trace}: Perfetto reads .json and .json.gz files: omit --plain")
        # First, since the port may be in use.
        with TraceServer(file) as server:
            if part.is_chosen:
                shown = file if plain else folder / f"part-{file.name}"
                with open_any(trace, resources) as opened:
                    part.write(opened, shown)
                trace = str(shown)
            if not plain:
                annotate(trace, file, resources)
            if print_url or not webbrowser.open(server.url):
                click.echo(server.url)
                click.echo(
                    f"Open this address in a browser. If it runs on another machine, first run "
                    f"there: ssh -L {PORT}:{HOST}:{PORT} THIS_MACHINE"
                )
            click.echo(
                "Waiting for Perfetto's page to read the trace. If the browser asks whether the "
                "page may reach this device, allow it."
            )
            server.serve_once(timeout_s)
        click.echo("Perfetto has read the trace.")
