"""tracekit annotate"""

from __future__ import annotations

from typing import Any

import click

from tracekit.commands.options import resource_options
from tracekit.text import printable


@click.command()
@click.argument("trace")
@click.option(
    "-o", "--output", required=True, help="The trace to write; .gz and .zst are compressed."
)
@resource_options
def annotate(trace: str, output: str, **limits: Any) -> None:
    """Write TRACE with tracekit's findings drawn in, for Perfetto.

    Added are tracks of queue depth, busy share, copy bandwidth, idle gaps by cause, the critical
    path with arrows, and where the fix list would change the program, at which price. The trace's
    own events stay as they are, byte for byte, and tracekit leaves out the added ones when it loads
    the file. The traces of a directory, an archive or a DB become one file, on one clock.
    """
    from tracekit.files import require_writable
    from tracekit.ingest.resources import Resources
    from tracekit.opening import files_named
    from tracekit.perfetto.annotate import annotate

    resources = Resources(**limits)
    require_writable(output, files_named([trace], resources))
    events, traces = annotate(trace, output, resources)
    of = "" if traces == 1 else f" to {traces} traces"
    name = printable(output)
    click.echo(f"{name}: {events:,} events added{of}; open it in https://ui.perfetto.dev")
