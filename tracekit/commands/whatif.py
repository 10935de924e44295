"""What a change would gain: whatif."""

from __future__ import annotations

import click

from tracekit.commands import completion
from tracekit.commands.options import Request, json_option, judging_options, show, trace_id_option
from tracekit.replay.grammar import HELP


@click.command(epilog="\b\n" + HELP)
@click.argument("trace")
@click.argument("changes", nargs=-1, required=True, shell_complete=completion.changes)
@json_option
@trace_id_option("all, as one run")
@judging_options
def whatif(
    trace: str, changes: tuple[str, ...], as_json: bool, trace_id: int | None, request: Request
) -> None:
    """Predict how long a run would take with CHANGES.

    All CHANGES apply at once; TRACE may also be a DB. The traces of a run's ranks are replayed
    together, unless --trace-id chooses one of them. The run is replayed as a graph of host and
    device work. Waits that the trace does not explain keep their recorded length.
    """
    from tracekit.reporters import advise as reporter

    thresholds, window = request.thresholds, request.window
    with request.open(trace) as run:
        if trace_id is None and window is None and len(run.trace_ids()) > 1:
            show(run.whatif_together(*changes, thresholds=thresholds), as_json, reporter.render_run)
            return
        found = run.whatif(*changes, trace=trace_id, window=window, thresholds=thresholds)
    show(found, as_json, reporter.render_whatif)
