"""tracekit open"""

from __future__ import annotations

from typing import Any

import click

from tracekit.commands.options import resource_options


@click.command("open")
@click.argument("trace")
@click.option("--plain", is_flag=True, help="Open the trace as it is, without tracekit's tracks.")
@click.option("--print-url", is_flag=True, help="Print the address instead of starting a browser.")
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    default=600,
    show_default=True,
    help="End if Perfetto's page does not ask for the trace for this many seconds.",
)
@resource_options
def open_trace(trace: str, plain: bool, print_url: bool, timeout_s: float, **limits: Any) -> None:
    """Open TRACE in Perfetto, with tracekit's findings drawn in.

    The trace does not leave this machine: Perfetto's page (https://ui.perfetto.dev) runs in the
    browser and reads it from 127.0.0.1, for which the browser may ask permission. The command ends
    when the page has read the trace, or has not asked for it for a while.
    """
    import tempfile
    import webbrowser
    from pathlib import Path

    from tracekit.errors import TracekitError
    from tracekit.ingest.resources import Resources
    from tracekit.perfetto.annotate import annotate
    from tracekit.perfetto.serving import HOST, PORT, TraceServer

    resources = Resources(**limits)
    with tempfile.TemporaryDirectory(prefix="tracekit-open-", dir=resources.temp_dir) as folder:
        name = Path(trace).name.partition(".")[0] or "trace"
        file = Path(trace) if plain else Path(folder) / f"{name}.json.gz"
        if plain and (not file.is_file() or file.suffix not in (".json", ".gz")):
            raise TracekitError(f"{trace}: Perfetto reads .json and .json.gz files: omit --plain")
        # Before the long work: the port may be taken.
        with TraceServer(file) as server:
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
