"""tracekit whatif"""

from __future__ import annotations

import json
from typing import Any

import click

from tracekit.commands import completing
from tracekit.commands.options import resource_options, threshold_option, window_option
from tracekit.replay.grammar import HELP


@click.command(epilog="\b\n" + HELP)
@click.argument("trace")
@click.argument("changes", nargs=-1, required=True, shell_complete=completing.changes)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--trace-id", type=int, help="Which trace of a database.  [default: all, as one run]")
@window_option
@threshold_option
@resource_options
def whatif(
    trace: str,
    changes: tuple[str, ...],
    as_json: bool,
    trace_id: int | None,
    window: str | None,
    thresholds: tuple[str, ...],
    **limits: Any,
) -> None:
    """Predict how long a run would take with CHANGES.

    All CHANGES apply at once; TRACE may also be a DB. The traces of a run's ranks are replayed
    together, unless --trace-id chooses one of them. The run is replayed as a graph of host and
    device work. Waits that the trace does not explain keep their recorded length.
    """
    from tracekit.ingest.resources import Resources
    from tracekit.reporters import whatif as reporter
    from tracekit.run import open_any
    from tracekit.thresholds import Thresholds

    judged = Thresholds().updated(thresholds)
    with open_any(trace, Resources(**limits)) as database:
        if trace_id is None and window is None and len(database.trace_ids()) > 1:
            together = database.whatif_together(*changes, thresholds=judged)
            if as_json:
                click.echo(json.dumps(together.as_dict()))
            else:
                reporter.render_run(together)
            return
        found = database.whatif(*changes, trace=trace_id, window=window, thresholds=judged)
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    else:
        reporter.render(found)
